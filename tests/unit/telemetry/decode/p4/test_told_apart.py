"""Times of reports that came at once: each packet has its own, and a datagram that came twice the same."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from telemetry.decode.p4.decoder import P4Decoder
from telemetry.decode.p4.devices import Devices, UnitProfile
from telemetry.encode.p4 import datagram_v2
from telemetry.state import FlowKey
from telemetry.window.window import Window
from tests.counterparts.p4_writer import InnerType, Metadata, base_transport, datagram_v0, packet, report_v2

NODE = 0x0A000001
ROCE = FlowKey("10.0.0.1", "10.0.0.2", 49152, 4791, 17)
AT_NS = 1_700_000_000_000_000_000
PLAIN = ROCE._replace(src="2001:db8::1", dst="2001:db8::2")
SHALLOW = Metadata(layer1=(9, 17), queue=(3, 0))  # of a switch without a clock, whose queue stays empty


def report(flow: FlowKey = PLAIN, behind: bytes = b"", *, flags: int = 2, identification: int = 0) -> bytes:
    inner = packet(flow, behind, packet_bytes=1_048, identification=identification)
    kind = InnerType.IPV6 if flow is PLAIN else InnerType.IPV4
    return report_v2(SHALLOW, flags=flags, inner=inner, inner_type=kind)


def datagram(*reports: bytes, sequence: int = 0) -> bytes:
    return datagram_v2(NODE, 0, sequence, reports)


def times(*payloads: bytes) -> list[int]:
    """Nanoseconds after the arrival of all of them."""
    found = P4Decoder(Devices(default=UnitProfile())).decode(payloads, AT_NS)
    assert found.problems == ()
    return [ts_ns - AT_NS for ts_ns in found.batch.ts_ns.tolist()]


def held(window: Window, payloads: Sequence[bytes], received_ns: Sequence[int] | int = AT_NS) -> int:
    """How many of the reports the window did not have."""
    decoder = P4Decoder(Devices(default=UnitProfile()))
    reports = decoder.decode(payloads, np.array(received_ns)).delivered()
    added = window.add(reports)
    assert added.accepted == len(reports)
    return added.accepted - added.duplicates


@pytest.mark.parametrize("flow", [PLAIN, ROCE], ids=["IPv6", "IPv4 without identification"])
def test_reports_of_packets_without_a_number_are_of_a_packet_each(flow: FlowKey) -> None:
    """As where it is cut off behind its UDP header: else a queue that stays empty would count once."""
    payload = datagram(*[report(flow)] * 8)
    assert times(payload) == list(range(8))
    assert held(Window(), [payload]) == 8


def test_datagrams_of_one_time_are_told_apart_by_their_sequence_numbers() -> None:
    """Captures have microseconds, in which a switch can send several."""
    payloads = [datagram(report(), report(), sequence=number) for number in (7, 8, (1 << 22) - 1)]
    assert times(*payloads) == list(range(6))
    told = Metadata(node=NODE, layer1=(9, 17), queue=(3, 0), ingress_time=1, egress_time=2)
    inner = packet(PLAIN, b"", packet_bytes=1_048, ethernet=True)
    old = [
        datagram_v0(told, flags=2, hardware=0, sequence=number, inner=inner) for number in (0, (1 << 32) - 1)
    ]
    assert times(*old) == [0, 1]


def test_a_datagram_that_came_twice_counts_once() -> None:
    first, second = (datagram(*[report()] * 3, sequence=number) for number in (1, 2))
    assert times(first, second, first) == [0, 1, 2, 3, 4, 5, 0, 1, 2]
    capture, window = ([first, first, second], [AT_NS, AT_NS, AT_NS + 1_000]), Window()
    assert held(window, *capture) == 6
    assert held(window, *capture) == 0


def test_a_packet_with_a_number_is_one_however_often_it_is_told_of() -> None:
    named = [report(ROCE, base_transport(17, number)) for number in (100, 101, 100)]
    assert len(set(times(datagram(report(), *named, report())))) == 4
    by_ip = [report(ROCE, identification=number) for number in (5, 5, 6)]
    assert times(datagram(*by_ip)) == [0, 0, 1]


def test_reports_of_dropped_packets_move_no_others() -> None:
    """A device may send them in the datagram or not; a report that was held already is known all the same."""
    window = Window()
    assert held(window, [datagram(report())]) == 1
    assert held(window, [datagram(report(flags=8), report())]) == 0


def test_no_time_is_later_than_the_last_there_is() -> None:
    """A capture may have any."""
    last_ns = np.iinfo(np.int64).max
    payload = datagram(*[report()] * 3)
    found = P4Decoder(Devices(default=UnitProfile())).decode([payload] * 2, np.array([last_ns - 1, last_ns]))
    assert found.batch.ts_ns.tolist() == [last_ns - 1, last_ns, last_ns] + [last_ns] * 3
