"""Postcards in any order and in any batches give the paths that the packets took."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from telemetry.decode.p4.decoder import P4Decoder
from telemetry.decode.p4.devices import Devices, UnitProfile
from telemetry.decode.p4.postcards import PostcardMerger
from telemetry.encode.p4 import datagram_v2
from telemetry.report import ReportBatch, joined
from telemetry.state import FlowKey
from tests.counterparts.p4_writer import InnerType, Metadata, base_transport, packet, report_v2

HOLD_NS = 10_000_000
BYTES = 1000


def _payload(flow: int, number: int, node: int, place: int, *, numbered: bool) -> bytes:
    key = FlowKey("10.0.0.1", f"10.0.1.{flow}", 7, 4791 if numbered else 9000, 17)
    behind = base_transport(1, number) if numbered else b""
    inner = packet(key, behind, packet_bytes=BYTES, hop_limit=64 - place, identification=0)
    told = Metadata(layer1=(place, node), queue=(3, 10 * number + place))
    report = report_v2(told, flags=2, inner=inner, inner_type=InnerType.IPV4)
    return datagram_v2(node, 0, 0, [report])


PACKETS = st.dictionaries(
    st.tuples(st.integers(0, 3), st.integers(0, 20)),
    st.lists(st.integers(1, 30), min_size=1, max_size=6, unique=True),
    min_size=1,
    max_size=12,
)


@st.composite
def _batches(draw: st.DrawFn, payloads: list[bytes]) -> list[list[bytes]]:
    """All payloads in some order, some of them twice, cut somewhere."""
    again = draw(st.lists(st.sampled_from(payloads), max_size=5))
    order = draw(st.permutations([*payloads, *again]))
    cuts = sorted(draw(st.lists(st.integers(0, len(order)), max_size=4)))
    return [order[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(order)], strict=True)]


def _paths(batch: ReportBatch) -> Counter[tuple[str, tuple[tuple[str | None, float], ...]]]:
    """Each report's destination, and the switch and depth of its hops."""
    hops = [
        (batch.sites[site].switch, depth)
        for site, depth in zip(batch.hop_site.tolist(), batch.queue_bytes.tolist(), strict=True)
    ]
    ends = batch.hop_offset.tolist()
    return Counter(
        (batch.flow_keys[flow].dst, tuple(hops[begin:end]))
        for flow, begin, end in zip(batch.flow.tolist(), ends[:-1], ends[1:], strict=True)
    )


def _merged(batches: list[list[bytes]], times_ns: list[int], max_pending: int = 10_000) -> ReportBatch:
    decoder, found = P4Decoder(Devices(default=UnitProfile())), []
    merger = PostcardMerger(hold_ns=HOLD_NS, max_pending=max_pending)
    for payloads, now_ns in zip(batches, times_ns, strict=True):
        found.append(merger.merged(decoder.decode(payloads, now_ns), now_ns))
        assert merger.pending <= max_pending
    return joined([some for some in [*found, merger.flush()] if len(some)])


@given(PACKETS, st.data())
def test_any_order_and_any_batches_give_the_paths_that_were_taken(
    packets: dict[tuple[int, int], list[int]], data: st.DataObject
) -> None:
    payloads = [
        _payload(flow, number, node, place, numbered=True)
        for (flow, number), path in packets.items()
        for place, node in enumerate(path)
    ]
    batches = data.draw(_batches(payloads))
    times_ns = sorted(
        data.draw(st.lists(st.integers(0, HOLD_NS), min_size=len(batches), max_size=len(batches)))
    )
    batch = _merged(batches, times_ns)
    assert _paths(batch) == Counter(
        (f"10.0.1.{flow}", tuple((str(node), 10.0 * number + place) for place, node in enumerate(path)))
        for (flow, number), path in packets.items()
    )
    assert batch.packet_bytes.tolist() == [BYTES] * len(packets)


@given(PACKETS, st.data())
def test_never_more_bytes_than_the_packets_sent(
    packets: dict[tuple[int, int], list[int]], data: st.DataObject
) -> None:
    payloads = [
        _payload(flow, number, node, place, numbered=True)
        for (flow, number), path in packets.items()
        for place, node in enumerate(path)
    ]
    batches = data.draw(_batches(payloads))
    # Four batches after the first at most: the last of a packet's postcards comes two holds after its first.
    steps_ns = data.draw(st.lists(st.integers(0, HOLD_NS // 2), min_size=len(batches), max_size=len(batches)))
    # What was released is known again among as many as may be held.
    most = data.draw(st.sampled_from([len(packets), 2 * len(packets), 10_000]))
    batch = _merged(batches, np.cumsum(steps_ns).tolist(), most)
    assert batch.packet_bytes.sum() <= BYTES * len(packets)


@given(PACKETS, st.data())
def test_packets_without_a_number_are_no_more_than_were_sent(
    packets: dict[tuple[int, int], list[int]], data: st.DataObject
) -> None:
    payloads = [
        _payload(flow, number, node, place, numbered=False)
        for (flow, number), path in packets.items()
        for place, node in enumerate(path)
    ]
    order = data.draw(st.permutations(payloads))
    batch = _merged([order], [0])
    assert batch.packet_bytes.sum() <= BYTES * len(packets)
    assert sum(batch.hop_count) == len(payloads)
