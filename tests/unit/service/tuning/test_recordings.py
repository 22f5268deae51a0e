"""Files and options of the offline commands: each mistake is a sentence that names its place."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from cli.tune import example_folder
from service.tuning.fabric import Fabric, read_dcqcn, read_fabric, read_json
from service.tuning.recordings import parse_watermark, read_recording, recorded_scenario
from settings.errors import ApiError, InputError
from telemetry.errors import TopologyError, WindowError
from twin.errors import ScenarioError
from twin.senders.dcqcn import PAPER, VENDOR
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


def test_dcqcn_is_a_preset_a_file_or_a_scenario(tmp_path: Path, example: Path) -> None:
    assert read_dcqcn("vendor") == VENDOR
    path = tmp_path / "dcqcn.json"
    path.write_text(json.dumps({"g": 0.5}), "utf-8")
    assert read_dcqcn(str(path)).gain == 0.5
    assert read_dcqcn(str(example / "scenario.json")).byte_counter_bytes is None
    with pytest.raises(InputError, match="paper, vendor"):
        read_dcqcn("quick")
    path.write_text('{"gain": 1}', "utf-8")
    with pytest.raises(ScenarioError, match="known keys"):
        read_dcqcn(str(path))


def test_a_scenario_file_tells_more_of_the_fabric_than_a_topology(example: Path) -> None:
    declared, fabric = read_fabric(example / "scenario.json", None)
    assert (fabric.mtu_payload_bytes, fabric.wire_overhead_bytes, fabric.pfc) == (1000, 48, True)
    assert fabric.dcqcn.byte_counter_bytes is None
    same, plain = read_fabric(example / "topology.json", None)
    assert same == declared
    assert plain.mtu_payload_bytes is None
    assert plain.dcqcn == PAPER
    assert read_fabric(example / "scenario.json", VENDOR)[1].dcqcn == VENDOR


def test_classes_of_nics_are_those_of_the_file_else_their_rates(example: Path, tmp_path: Path) -> None:
    document = json.loads((example / "scenario.json").read_text("utf-8"))
    first, second, *others = (host["name"] for host in document["topology"]["hosts"])
    assert read_fabric(example / "scenario.json", None)[1].nic_class == {}  # all of one rate

    def read(**more: object) -> Fabric:
        path = tmp_path / "classes.json"
        path.write_text(json.dumps(document | more), "utf-8")
        return read_fabric(path, None)[1]

    said = read(nic_classes={"disk": {"hosts": [first], "dcqcn": {"g": 0.25}}, "gpu": {"hosts": others}})
    assert said.nic_class == dict.fromkeys(others, "gpu") | {first: "disk", second: "gpu"}
    assert said.dcqcn_by_class == {"disk": replace(said.dcqcn, gain=0.25)}
    alone = read(nic_classes={"all": {"hosts": ["*"], "dcqcn": {"g": 0.25}}})
    assert set(alone.nic_class.values()) == set(alone.dcqcn_by_class) == {"all"}
    for link in document["topology"]["links"]:
        if first in (link["a"], link["b"]):
            link["rate_gbps"] = 10
    by_rate = read().nic_class
    assert by_rate[first] == "10G" != by_rate[second]
    bare = tmp_path / "topology.json"
    bare.write_text(json.dumps(document["topology"]), "utf-8")
    assert read_fabric(bare, None)[1].nic_class == by_rate


def test_a_scenario_file_says_the_pooled_ports_and_acknowledgements(example: Path, tmp_path: Path) -> None:
    document = json.loads((example / "scenario.json").read_text("utf-8"))
    only = {"switch": "tor1", "to": document["topology"]["hosts"][3]["name"]}
    path = tmp_path / "one.json"
    path.write_text(json.dumps(document | {"monitored_ports": [only], "ack_wire_bytes": 0}), "utf-8")
    rebuilt = recorded_scenario(example / "reports.ndjson.gz", path, None, None)[1].scenario
    assert rebuilt.ack_wire_bytes == 0
    assert [(port.node, port.peer) for port in (rebuilt.ports[p] for p in rebuilt.monitored)] == [
        (only["switch"], only["to"])
    ]
    recording, bare = recorded_scenario(
        example / "reports.ndjson.gz", example / "topology.json", VENDOR, None
    )
    assert len(bare.scenario.monitored) == 16
    assert bare.scenario.dcqcn == VENDOR
    assert recording.accepted == 31_983


@pytest.mark.parametrize(
    ("changes", "kind", "says"),
    [
        ({"buffer_bytes": -1}, InputError, "buffer_bytes"),
        ({"buffer_bytes": float("nan")}, InputError, "finite"),
        ({"pfc": "yes"}, InputError, "pfc"),
        ({"monitored_ports": [{"switch": "tor1", "to": "x"}]}, ScenarioError, "monitored_ports[0]"),
        ({"dcqcn": {"g": "x"}}, ScenarioError, "dcqcn g"),
        ({"topology": []}, TopologyError, "JSON object"),
        (
            {"topology": {"hosts": [], "switches": [], "links": [{"a": "x", "b": "y"}]}},
            TopologyError,
            "rate_gbps",
        ),
    ],
)
def test_a_scenario_that_is_wrong_says_where(
    example: Path, tmp_path: Path, changes: dict[str, object], kind: type[Exception], says: str
) -> None:
    document = json.loads((example / "scenario.json").read_text("utf-8")) | changes
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(document), "utf-8")
    with pytest.raises(kind) as caught:
        read_fabric(path, None)
    assert says in str(caught.value)


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.json"):
        read_json(tmp_path / "none.json", "watermarks")
    (tmp_path / "broken.json").write_text("{", "utf-8")
    with pytest.raises(InputError, match=r"broken\.json"):
        read_json(tmp_path / "broken.json", "watermarks")
    with pytest.raises(InputError, match="directory"):
        read_json(tmp_path, "watermarks")


def test_the_recording_is_read_whole(example: Path) -> None:
    topology, _ = read_fabric(example / "topology.json", None)
    recording = read_recording(example / "reports.ndjson.gz", topology)
    assert (recording.accepted, recording.rejected, recording.problems) == (31_983, 0, ())
    assert recording.state.topology_declared


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
