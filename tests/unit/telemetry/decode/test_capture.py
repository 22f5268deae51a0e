"""UDP payloads from every kind of capture, and from truncated ones."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.decode import capture as capture_module
from telemetry.decode.capture import Datagram, address_text, is_capture, udp_datagrams
from telemetry.errors import DecodeError
from telemetry.report import ReportProblem
from telemetry.state import FlowKey
from tests.counterparts.captures import REPORTS, TIME_NS, pcap, pcapng, udp

FRAMES = [udp(b"first"), udp(b"second one")]
SECOND_NS = 1_000_000_000


def found(capture: bytes) -> tuple[list[Datagram], list[ReportProblem]]:
    problems: list[ReportProblem] = []
    return list(udp_datagrams(capture, problems)), problems


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(
    ("write", "options"),
    [
        (pcap, {}),
        (pcap, {"nanoseconds": True}),
        (pcapng, {}),
        (pcapng, {"resolution": 9}),
        (pcapng, {"resolution": 0x80 | 30}),
        (pcapng, {"offset_s": 1000}),
        (pcapng, {"kind": "old"}),
    ],
)
def test_payloads_and_times(write: Any, options: dict[str, Any], order: str) -> None:
    capture = write(FRAMES, order=order, **options)
    assert is_capture(capture)
    datagrams, problems = found(capture)
    assert problems == []
    assert [one.payload for one in datagrams] == [b"first", b"second one"]
    assert [(one.frame, one.port) for one in datagrams] == [(0, 32_766), (1, 32_766)]
    for number, one in enumerate(datagrams):
        assert one.time_ns is not None
        assert abs(one.time_ns - TIME_NS - number * SECOND_NS) <= 1


def test_simple_packets_have_no_time() -> None:
    datagrams, _ = found(pcapng(FRAMES, kind="simple"))
    assert [(one.time_ns, one.payload) for one in datagrams] == [(None, b"first"), (None, b"second one")]


@pytest.mark.parametrize(
    ("link", "before"),
    [
        (1, bytes(12) + b"\x08\x00"),
        (1, bytes(12) + b"\x81\x00\x00\x07\x08\x00"),
        (1, bytes(12) + b"\x88\xa8\x00\x07\x81\x00\x00\x07\x08\x00"),
        (1, bytes(12) + b"\x91\x00\x00\x07\x92\x00\x00\x07\x08\x00"),
        (101, b""),
        (0, b"\x02\x00\x00\x00"),
        (113, bytes(14) + b"\x08\x00"),
        (276, b"\x08\x00" + bytes(18)),
    ],
)
def test_what_comes_before_ip(link: int, before: bytes) -> None:
    frame = before + udp(b"x", ethernet=False) + bytes(20)  # padded, as short frames are
    for capture in (pcap([frame], link=link), pcapng([frame], link=link)):
        assert [one.payload for one in found(capture)[0]] == [b"x"]


def test_ipv6() -> None:
    flow = FlowKey("2001:db8::1", "2001:db8::2", 1, 2, 17)
    (one,) = found(pcap([udp(b"x", flow)]))[0]
    assert (one.port, one.payload, address_text(one.source)) == (2, b"x", "2001:db8::1")


def test_who_sent_it() -> None:
    assert {address_text(one.source) for one in found(pcap(FRAMES))[0]} == {REPORTS.src}


def test_what_is_not_udp_is_passed_over() -> None:
    tcp = udp(b"x", REPORTS._replace(protocol=6))
    arp = bytes(12) + b"\x08\x06" + bytes(28)
    frames = [tcp, arp, b"", bytes(14), bytes(12) + b"\x08\x00" + b"\x00" * 30, FRAMES[0][:30], FRAMES[0]]
    datagrams, problems = found(pcap(frames))
    assert [one.frame for one in datagrams] == [6]
    assert problems == []
    assert found(pcap(FRAMES, link=147))[0] == []


def test_a_fragment_is_named() -> None:
    frame = bytearray(FRAMES[0])
    frame[20] = 0x20
    datagrams, problems = found(pcap([bytes(frame), FRAMES[1]]))
    assert [one.frame for one in datagrams] == [1]
    assert [problem.index for problem in problems] == [0]
    assert "fragment" in problems[0].detail


def test_a_fragment_over_ipv6_is_named() -> None:
    frame = bytearray(udp(b"first", REPORTS._replace(src="2001:db8::1", dst="2001:db8::9")))
    frame[20] = 44
    frame[54:54] = bytes([17, 0, 0, 1, 0, 0, 0, 7])
    datagrams, problems = found(pcap([bytes(frame), FRAMES[1]]))
    assert [one.frame for one in datagrams] == [1]
    assert [problem.index for problem in problems] == [0]
    assert "fragment" in problems[0].detail


@pytest.mark.parametrize("src", ["192.0.2.1", "2001:db8::1"])
def test_of_fragments_to_other_ports_nothing_is_said(src: str) -> None:
    dst = "2001:db8::9" if ":" in src else "192.0.2.9"

    def fragments(port: int) -> list[bytes]:
        found = []
        for place in (0, 9):
            frame = bytearray(udp(b"whole", REPORTS._replace(src=src, dst=dst, dport=port)))
            if ":" in src:
                frame[20] = 44
                frame[54:54] = bytes([17, 0, 0, place << 3 | 1, 0, 0, 0, 7])
            else:
                frame[20:22] = bytes([0x20, place])
            found.append(bytes(frame))
        return found

    problems: list[ReportProblem] = []
    capture = pcap([*fragments(2049), *fragments(REPORTS.dport), FRAMES[1]])
    assert [one.frame for one in udp_datagrams(capture, problems, (REPORTS.dport,))] == [4]
    assert [problem.index for problem in problems] == [2]


def test_of_many_fragments_the_first_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture_module, "MOST_FRAGMENTS", 2)
    frame = bytearray(FRAMES[0])
    frame[20] = 0x20
    datagrams, problems = found(pcap([bytes(frame)] * 4 + FRAMES))
    assert [one.frame for one in datagrams] == [4, 5]
    assert [problem.index for problem in problems] == [0, 1]
    assert problems[-1].detail.endswith("raise the path's MTU; further ones are not reported")


@pytest.mark.parametrize("write", [pcap, pcapng])
def test_a_capture_that_breaks_off_keeps_what_came_before(write: Any) -> None:
    capture = write(FRAMES)
    for cut in (1, 30, len(FRAMES[1]) + 2):
        datagrams, problems = found(capture[:-cut])
        assert [one.payload for one in datagrams] == [b"first"]
        assert len(problems) == 1
        assert "capture byte " in problems[0].detail


def test_blocks_that_cannot_be() -> None:
    capture = pcapng(FRAMES)
    assert "1a2b3c4d" in found(capture[:8] + bytes(4) + capture[12:])[1][0].detail
    assert "a block of 13 bytes" in found(capture[:4] + b"\x0d\x00\x00\x00" + capture[8:])[1][0].detail
    no_interface = capture[:28] + capture[28 + 44 :]
    assert found(no_interface)[0] == []
    assert "names its interface" in found(no_interface)[1][0].detail


def test_what_is_no_capture() -> None:
    for data in (b"", b"{}", b"\x21\x40\x03\xe9", pcap([])[:20]):
        with pytest.raises(DecodeError):
            found(data)


@given(
    st.sampled_from([pcap(FRAMES), pcapng(FRAMES), pcapng(FRAMES, order=">", kind="old")]),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=6),
    st.integers(0, 400),
)
def test_damage_never_breaks_it(capture: bytes, changes: list[tuple[int, int]], cut: int) -> None:
    changed = bytearray(capture)
    for place, value in changes:
        changed[place % len(changed)] = value
    for data in (bytes(changed), bytes(changed[:cut])):
        if not is_capture(data):
            continue
        try:
            datagrams, _ = found(data)
        except DecodeError:
            continue
        assert sum(len(one.payload) for one in datagrams) <= len(data)
        assert all(one.time_ns is None or 0 <= one.time_ns < 2**63 for one in datagrams)
