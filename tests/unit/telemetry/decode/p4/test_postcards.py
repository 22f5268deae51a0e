"""Postcards of several nodes about one packet become its path, and its bytes count once."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from telemetry.decode.p4 import postcards
from telemetry.decode.p4.assemble import P4Reports
from telemetry.decode.p4.decoder import P4Decoder
from telemetry.decode.p4.devices import Devices, UnitProfile
from telemetry.decode.p4.postcards import PostcardCounts, PostcardMerger
from telemetry.encode.p4 import datagram_v2
from telemetry.errors import TelemetryError
from telemetry.report import ReportBatch
from telemetry.state import FlowKey
from telemetry.topology import Link, Topology
from telemetry.window.window import Window
from tests.counterparts.p4_writer import InnerType, Metadata, base_transport, int_headers, packet, report_v2

ROCE = FlowKey("10.0.0.1", "10.0.0.2", 49152, 4791, 17)
TCP = FlowKey("10.0.0.1", "10.0.0.2", 1234, 80, 6)
UDP = FlowKey("10.0.0.1", "10.0.0.2", 1234, 9000, 17)
HOLD_NS = 10_000_000
DECODER = P4Decoder(Devices(default=UnitProfile()))


def card(
    node: int,
    number: int = 1,
    *,
    flow: FlowKey = ROCE,
    hop_limit: int = 64,
    ports: tuple[int, int] = (1, 2),
    depth: int = 7,
    flags: int = 2,
    hops: int = 0,
    identification: int | None = None,
) -> bytes:
    """A node's postcard about packet ``number`` of a flow."""
    if identification is None:
        identification = 0 if flow is UDP else number
    stack = int_headers([Metadata(node=90 + hop, queue=(3, 1)) for hop in range(hops)], original=4791)
    behind = (stack if hops else b"") + base_transport(5, number)
    inner = packet(
        flow._replace(dport=5000) if hops else flow,
        behind,
        packet_bytes=1096,
        hop_limit=hop_limit,
        identification=identification,
        tcp_sequence=number,
    )
    told = Metadata(layer1=ports, queue=(3, depth))
    report = report_v2(told, flags=flags, inner=inner, inner_type=InnerType.IPV4)
    return datagram_v2(node, 0, 0, [report])


def read(*payloads: bytes) -> P4Reports:
    reports = DECODER.decode(payloads, np.arange(len(payloads)))
    assert reports.problems == ()
    return reports


def nodes(batch: ReportBatch) -> list[list[str | None]]:
    """The switches of each path."""
    names = [batch.sites[site].switch for site in batch.hop_site.tolist()]
    ends = batch.hop_offset.tolist()
    return [names[begin:end] for begin, end in pairwise(ends)]


def all_at_once(*payloads: bytes, topology: Topology | None = None) -> ReportBatch:
    merger = PostcardMerger(topology=topology)
    assert len(merger.merged(read(*payloads), 0)) == 0
    return merger.flush()


@pytest.mark.parametrize("flow", [ROCE, TCP, UDP])
def test_postcards_about_one_packet_are_its_path_and_count_once(flow: FlowKey) -> None:
    cards = [card(node, flow=flow, hop_limit=64 - node, depth=node) for node in (3, 1, 2)]
    batch = all_at_once(*cards)
    assert nodes(batch) == [["1", "2", "3"]]
    assert batch.queue_bytes.tolist() == [1.0, 2.0, 3.0]
    assert batch.packet_bytes.tolist() == [1096]
    assert batch.ts_ns.tolist() == [2]  # when the last came
    assert list(batch.flow_keys) == [flow]
    assert Window().add(batch).accepted == 1


def test_packets_are_told_apart_by_their_numbers() -> None:
    for flow in (ROCE, TCP):
        batch = all_at_once(*[card(node, number, flow=flow) for number in (1, 2) for node in (1, 2)])
        assert nodes(batch) == [["1", "2"]] * 2


def test_packets_of_one_sequence_number_are_told_apart_as_ip_tells_them_apart() -> None:
    """CNPs all have number 0; a packet that is sent again has its old one."""
    for number in (0, 9):
        cards = [card(node, number, identification=sent) for sent in (7, 8, 9) for node in (1, 2)]
        assert nodes(all_at_once(*cards)) == [["1", "2"]] * 3


def test_packets_without_numbers_are_as_many_as_the_most_that_a_node_saw() -> None:
    cards = [card(1, flow=UDP), card(2, flow=UDP), card(1, flow=UDP), card(3, flow=UDP), card(1, flow=UDP)]
    assert sorted(nodes(all_at_once(*cards))) == [["1"], ["1"], ["1", "2", "3"]]


def test_a_node_is_on_a_path_once() -> None:
    merger = PostcardMerger()
    merger.merged(read(card(1, depth=5), card(1, depth=6), card(2)), 0)
    batch = merger.flush()
    assert nodes(batch) == [["1", "2"]]
    assert batch.queue_bytes.tolist() == [5.0, 7.0]
    assert merger.counts == PostcardCounts(paths=1, merged=2, surplus=1)


LINE = Topology(
    (),
    ("1", "2", "3", "4"),
    tuple(Link(str(n), str(n + 1), 100.0, 1.0, a_port="2", b_port="1") for n in (1, 2, 3)),
)


def test_where_hop_limits_say_nothing_the_topology_puts_hops_in_order() -> None:
    cards = [card(node) for node in (3, 4, 1, 2)]
    assert nodes(all_at_once(*cards)) == [["3", "4", "1", "2"]]
    assert nodes(all_at_once(*cards, topology=LINE)) == [["1", "2", "3", "4"]]
    merger = PostcardMerger()
    merger.merged(read(*cards), 0)
    merger.set_topology(LINE)
    assert nodes(merger.flush()) == [["1", "2", "3", "4"]]


def test_a_ring_in_the_topology_does_no_harm() -> None:
    ring = Topology((), ("1", "2"), (Link("1", "2", 100.0, 1.0, a_port="2", b_port="2"),))
    assert sorted(nodes(all_at_once(card(2), card(1), topology=ring))[0], key=str) == ["1", "2"]


def test_a_path_waits_for_its_hold_and_no_longer_than_twice_that() -> None:
    merger = PostcardMerger(hold_ns=HOLD_NS)
    assert len(merger.merged(read(card(1)), 0)) == 0
    assert len(merger.merged(read(card(2)), HOLD_NS)) == 0
    assert len(merger.due(2 * HOLD_NS - 1)) == 0
    assert merger.pending == 2
    assert nodes(merger.due(2 * HOLD_NS)) == [["1", "2"]]
    assert merger.pending == 0


def test_a_clock_that_is_set_back_does_not_keep_paths_waiting() -> None:
    merger = PostcardMerger(hold_ns=HOLD_NS)
    now_ns = 3_600_000_000_000
    merger.merged(read(card(1)), now_ns)
    now_ns -= 1_800_000_000_000
    merger.merged(read(card(2)), now_ns)
    assert merger.pending == 2
    assert nodes(merger.due(now_ns + 2 * HOLD_NS)) == [["1", "2"]]
    merger.merged(read(card(1, number=2)), now_ns + 3 * HOLD_NS)
    assert len(merger.due(now_ns + 4 * HOLD_NS)) == 0
    assert nodes(merger.due(now_ns + 5 * HOLD_NS)) == [["1"]]


def test_a_postcard_that_comes_after_its_path_is_left_out_and_counted() -> None:
    merger = PostcardMerger(hold_ns=HOLD_NS)
    merger.merged(read(card(1)), 0)
    assert nodes(merger.due(2 * HOLD_NS)) == [["1"]]
    assert len(merger.merged(read(card(2)), 3 * HOLD_NS)) == 0
    assert len(merger.flush()) == 0
    assert merger.counts == PostcardCounts(paths=1, merged=1, late=1)


@pytest.mark.parametrize("others", [range(0), range(5, 11)])
def test_a_packet_of_the_same_number_much_later_is_another(others: range) -> None:
    merger = PostcardMerger(hold_ns=HOLD_NS)
    merger.merged(read(card(1)), 0)
    merger.due(2 * HOLD_NS)
    for turn in others:
        merger.merged(read(card(1, 100 + turn)), turn * HOLD_NS)
    merger.merged(read(card(2)), 11 * HOLD_NS)
    assert ["2"] in nodes(merger.flush())
    assert merger.counts.late == 0


def test_what_is_held_is_bounded_and_the_oldest_go_first() -> None:
    merger = PostcardMerger(hold_ns=HOLD_NS, max_pending=10)
    held = [card(node, number) for number in range(10) for node in (1, 2)]
    batch = merger.merged(read(*held), 0)
    assert nodes(batch) == [["1", "2"]] * 8
    assert merger.pending == 4
    assert merger.counts == PostcardCounts(paths=8, merged=16, hurried=8)
    assert len(merger.merged(read(card(3, 0)), 1)) == 0  # late: its path is gone
    merger.flush()
    assert merger.counts.late == 1


def test_late_postcards_take_no_room_from_others() -> None:
    merger = PostcardMerger(hold_ns=HOLD_NS, max_pending=10)
    merger.merged(read(*[card(1, number) for number in range(6)]), 0)
    merger.flush()
    late, fresh = [card(2, number) for number in range(6)], [card(1, number) for number in range(6, 12)]
    assert len(merger.merged(read(*late, *fresh), 1)) == 0
    assert (merger.counts.late, merger.counts.hurried, merger.pending) == (6, 0, 6)


def test_what_it_remembers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postcards, "_MOST_PLACES", 5_000)
    merger = PostcardMerger(hold_ns=HOLD_NS, max_pending=100)
    for turn in range(40):
        flows = [ROCE._replace(sport=number) for number in range(1000 * turn, 1000 * turn + 1000)]
        cards = [card(1, flow=flow, ports=(1, flow.sport)) for flow in flows]
        merger.merged(read(*cards), turn)
        assert len(merger._flows) < 2 * 200 + 4096 + 1000
        assert len(merger._places) < 5_000 + 1000
        assert len(merger._released) <= 100
    assert merger.counts.paths == merger.counts.merged == 40 * 1000 - merger.pending


def test_reports_of_several_hops_and_of_no_packet_pass() -> None:
    merger = PostcardMerger()
    nothing = datagram_v2(9, 0, 0, [report_v2(Metadata(queue=(3, 1)), flags=4)])
    batch = merger.merged(read(card(1, hops=2), nothing, card(1)), 0)
    assert nodes(batch) == [["90", "91", "1"], ["9"]]
    assert batch.index.tolist() == [0, 1]
    assert merger.pending == 1


def test_dropped_packets_are_no_traffic() -> None:
    merger = PostcardMerger()
    assert len(merger.merged(read(card(1, flags=8), card(1, flags=8, hops=2)), 0)) == 0
    assert merger.pending == 0


def test_a_packet_of_more_nodes_than_a_path_holds() -> None:
    merger = PostcardMerger()
    merger.merged(read(*[card(node) for node in range(70)]), 0)
    assert [len(path) for path in nodes(merger.flush())] == [64]
    assert merger.counts.surplus == 6


@pytest.mark.parametrize("wrong", [{"hold_ns": 10}, {"hold_ns": 2_000_000_000}, {"max_pending": 0}])
def test_bounds_that_cannot_be(wrong: dict[str, int]) -> None:
    with pytest.raises(TelemetryError):
        PostcardMerger(**wrong)


def test_nothing_in_gives_nothing() -> None:
    merger = PostcardMerger()
    assert len(merger.merged(read(), 0)) == len(merger.due(10**12)) == len(merger.flush()) == 0
