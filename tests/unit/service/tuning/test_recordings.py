"""Recordings and options of the offline commands: each mistake is a sentence that names its place."""

from __future__ import annotations

import gzip
import json
from itertools import islice
from pathlib import Path

import pytest

from cli.tune import example_folder, report_rejected
from service.tuning.fabric import read_fabric
from service.tuning.recordings import parse_watermark, read_recording
from service.tuning.round import rebuilt
from settings.errors import ApiError, InputError
from telemetry.errors import WindowError
from twin.scenario import Scenario
from twin.senders.dcqcn import VENDOR, DcqcnParams
from twin.watermark import Watermark


def test_three_numbers_make_a_watermark() -> None:
    assert parse_watermark(" 400000, 1.6e6,0.2 ", "--incumbent") == Watermark(400_000, 1_600_000, 0.2)
    assert parse_watermark("64KB,2.3MB, 5 %", "--incumbent") == Watermark(64_000, 2_300_000, 0.05)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("", "two sizes and a probability"),
        ("1,2", "two sizes and a probability"),
        ("1,2,0.5,3", "two sizes and a probability"),
        ("a,2,0.5", "two sizes and a probability"),
        ("5,2,0.5", "Kmin must be below Kmax"),
        ("nan,2,0.5", "two sizes and a probability"),
        ("-1,2,0.5", "must not be negative"),
        ("1,2,0", "(0, 1]"),
        ("1.5,2,0.5", "whole number"),
    ],
)
def test_other_watermarks_are_refused(given: str, says: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_watermark(given, "--incumbent")
    assert says in str(caught.value)
    assert caught.value.where.startswith("--incumbent")


def scenario_of(example: Path, topology: Path, dcqcn: DcqcnParams | None) -> Scenario:
    declared, fabric = read_fabric(topology, dcqcn)
    recording = read_recording(example / "reports.ndjson.gz", declared)
    assert recording.accepted == 31_983
    return rebuilt(recording.state, fabric, None).scenario


def test_a_scenario_file_says_the_pooled_ports_and_acknowledgements(example: Path, tmp_path: Path) -> None:
    document = json.loads((example / "scenario.json").read_text("utf-8"))
    only = {"switch": "tor1", "to": document["topology"]["hosts"][3]["name"]}
    path = tmp_path / "one.json"
    path.write_text(json.dumps(document | {"monitored_ports": [only], "ack_wire_bytes": 0}), "utf-8")
    found = scenario_of(example, path, None)
    assert found.ack_wire_bytes == 0
    assert [(port.node, port.peer) for port in (found.ports[p] for p in found.monitored)] == [
        (only["switch"], only["to"])
    ]
    bare = scenario_of(example, example / "topology.json", VENDOR)
    assert len(bare.monitored) == 16
    assert bare.dcqcn == VENDOR


def test_the_recording_is_read_whole(example: Path) -> None:
    topology, _ = read_fabric(example / "topology.json", None)
    recording = read_recording(example / "reports.ndjson.gz", topology)
    assert (recording.accepted, recording.rejected, recording.problems) == (31_983, 0, ())
    assert recording.unread == ()
    assert recording.state.topology_declared


def test_misspelt_keys_of_a_recording_are_told(
    example: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "reports.ndjson"
    with gzip.open(example / "reports.ndjson.gz", "rt") as lines:
        path.write_text("".join(islice(lines, 100)).replace("queue_bytes", "queue_byte"), "utf-8")
    report_rejected(read_recording(path, None))
    assert capsys.readouterr().err == (
        "ecntwin: reports have keys that were not read: hops[].queue_byte; is one misspelt?\n"
    )


@pytest.mark.parametrize(
    ("body", "kind", "says"),
    [
        (b"", InputError, "^reports reports.json: received nothing"),
        (b"\xff", InputError, "^reports reports.json: received "),
        (b"[]", WindowError, "the recording holds no reports"),
        (b'[{"ts_ns": 1}]', InputError, "^reports reports.json: received 1 reports, none of them usable"),
    ],
)
def test_a_file_without_reports_is_an_error(
    tmp_path: Path, body: bytes, kind: type[Exception], says: str
) -> None:
    path = tmp_path / "reports.json"
    path.write_bytes(body)
    with pytest.raises(kind, match=says):
        read_recording(path, None)


def test_the_example_is_found() -> None:
    assert (example_folder() / "scenario.json").is_file()


def test_an_example_that_is_not_there_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("cli.tune.__file__", str(tmp_path / "cli" / "example.py"))
    monkeypatch.setattr("cli.tune.files", lambda _: tmp_path)
    with pytest.raises(ApiError, match="of the distribution is missing"):
        example_folder()
