"""``ecntwin decode``: reports as JSON on standard output, problems on standard error, and the exit code."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cli.main import app
from cli.output import run_to_exit_code
from telemetry.decode.json import decode as decode_json
from telemetry.decode.p4.decoder import P4Decoder
from telemetry.decode.p4.devices import Devices, UnitProfile
from tests.counterparts.captures import REPORTS, TIME_NS, pcap, pcapng, udp
from tests.counterparts.p4_reports import PAYLOADS

INPUT = 2
ALL_HEX = "\n".join(payload.hex() for payload in PAYLOADS.values()) + "\n"


class Decode:
    """Runs the command on bytes in a file."""

    def __init__(self, capfdbinary: pytest.CaptureFixture[bytes], path: Path) -> None:
        self._captured = capfdbinary
        self._path = path

    def __call__(self, data: bytes | str, *options: str) -> tuple[int, list[dict[str, Any]], str]:
        self._path.write_bytes(data.encode() if isinstance(data, str) else data)
        return self.run(str(self._path), *options)

    def run(self, *arguments: str) -> tuple[int, list[dict[str, Any]], str]:
        code = run_to_exit_code(app, ["decode", *arguments])
        out, err = self._captured.readouterr()
        return code, [json.loads(line) for line in out.splitlines()], err.decode()


@pytest.fixture
def decode(capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path) -> Decode:
    return Decode(capfdbinary, tmp_path / "reports")


def test_a_file_is_one_payload(decode: Decode) -> None:
    code, (report,), err = decode(PAYLOADS["A"])
    assert (code, err) == (0, "")
    assert report["flow"] == {
        "src": "10.0.0.1",
        "dst": "10.0.0.2",
        "sport": 1234,
        "dport": 80,
        "protocol": 6,
    }
    assert report["hops"] == [
        {
            "switch": str(0x0A000001),
            "ingress_port": "9",
            "egress_port": "17",
            "queue": 3,
            "queue_bytes": 4096,
            "ecn_marked": False,
        }
    ]
    assert report["flags"] == ["tracked_flow"]


def test_a_path_carried_by_the_packet_comes_before_the_sink(decode: Decode) -> None:
    _, (report,), _ = decode(PAYLOADS["G"].hex(), "--hex")
    assert [(hop["switch"], hop["queue_bytes"]) for hop in report["hops"]] == [
        ("1", 40),
        ("2", 600),
        ("3", 7),
    ]
    assert (report["queue_pair"], report["packet_sequence"]) == (0x42, 7)


def test_what_it_prints_is_read_back_as_json_reports(decode: Decode, tmp_path: Path) -> None:
    code, lines, err = decode(ALL_HEX, "--hex")
    assert (code, err, len(lines)) == (0, "", 10)
    assert [line.get("drop_reason") for line in lines].count(71) == 2
    back = decode_json("\n".join(map(json.dumps, lines)).encode())
    assert back.errors == ()
    sent = P4Decoder(Devices(default=UnitProfile())).decode(list(PAYLOADS.values()), 0).batch
    for name in ("packet_bytes", "hop_offset", "queue_bytes", "ingress_ns", "egress_ns", "marked"):
        np.testing.assert_array_equal(getattr(back.batch, name), getattr(sent, name), name)
    assert [back.batch.sites[at] for at in back.batch.hop_site] == [sent.sites[at] for at in sent.hop_site]


def test_standard_input(decode: Decode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(PAYLOADS["H"])))
    code, lines, _ = decode.run("-")
    assert (code, len(lines)) == (0, 2)


@pytest.mark.parametrize("write", [pcap, pcapng])
def test_a_capture_tells_when(decode: Decode, write: Any) -> None:
    frames = [udp(PAYLOADS["B"]), udp(b"\x70", REPORTS._replace(dport=53)), udp(PAYLOADS["A"][:20])]
    code, (report,), err = decode(write(frames))
    assert code == 0
    assert report["ts_ns"] == TIME_NS
    assert err.splitlines() == [
        "ecntwin: frame 1 payload byte 0: received version 7; telemetry reports are v0.5, v1.0 or v2.0; "
        "check which devices send to this port",
        "ecntwin: frame 2 payload byte 9: received a report of 56 bytes, 8 before the end; "
        "a report ends inside its datagram; find out what truncates datagrams; this report was left out",
    ]
    assert decode(write(frames), "--port", "32766")[2].count("\n") == 1


def test_a_line_that_is_not_hex_costs_only_itself(decode: Decode) -> None:
    code, lines, err = decode(f"zz\n{PAYLOADS['A'].hex()}\n", "--hex")
    assert (code, len(lines)) == (0, 1)
    assert err.startswith("ecntwin: line 1: received 'zz'")


@pytest.mark.parametrize(
    ("data", "options"),
    [
        (b"", ()),
        (b"hello", ()),
        (PAYLOADS["A"].hex().encode(), ()),
        (b"zz", ("--hex",)),
        (b"\n", ("--hex",)),
        (pcap([]), ()),
        (pcap([udp(PAYLOADS["A"])]), ("--port", "1")),
        (pcap([])[:10], ()),
        (PAYLOADS["A"], ("--occupancy", "cells")),
        (PAYLOADS["A"], ("--occupancy", "bytes:80")),
        (PAYLOADS["A"], ("--occupancy", "cells:0")),
        (PAYLOADS["A"], ("--occupancy", "cells:0.5")),
        (PAYLOADS["A"], ("--occupancy", "cells:1GB")),
        (PAYLOADS["A"], ("--time", "hours")),
    ],
)
def test_a_file_that_is_none_is_refused_in_a_sentence(
    decode: Decode, data: bytes, options: tuple[str, ...]
) -> None:
    code, lines, err = decode(data, *options)
    assert (code, lines) == (INPUT, [])
    assert err.count("\n") == 1
    assert "bug in ecntwin" not in err


def test_no_file(decode: Decode, tmp_path: Path) -> None:
    code, _, err = decode.run(str(tmp_path / "none"))
    assert (code, err.count("\n")) == (INPUT, 1)


def test_units_are_asked_for(decode: Decode) -> None:
    _, (cells,), _ = decode(PAYLOADS["B"], "--occupancy", "cells:0.08KB", "--time", "us")
    assert cells["hops"][0]["queue_bytes"] == 52_000 * 80
    assert "ingress_ts_ns" not in cells["hops"][0]  # beyond the years that nanoseconds can count
    _, (unknown,), _ = decode(PAYLOADS["B"], "--occupancy", "unknown")
    assert unknown["hops"][0]["queue_occupancy"] == 52_000
    assert "queue_bytes" not in unknown["hops"][0]
