"""The fabric from outside: what it takes, what it refuses and in which words, what it gives back."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from telemetry.topology import EgressPort, Host, Link, Topology
from tests.unit.twin.packet.plans import (
    NEVER,
    active_flows,
    check_books,
    check_silence,
    columns,
    joined,
    line,
    port_between,
    running,
    star,
    two_tiers,
)
from twin.errors import ParameterError, ScenarioError, TwinError
from twin.packet.fabric import Fabric
from twin.packet.layout import PacketSettings
from twin.traffic.base import Traffic
from twin.watermark import Watermark


def only(src: int, dst: int, size: float = 1_000.0, start_s: float = 0.0) -> Traffic:
    return Traffic.independent([src], [dst], [size], start_s)


def one_way(plan: Any) -> Any:
    return replace(plan, ports=plan.ports[:-1])


REFUSED: dict[str, tuple[Callable[[], object], type[TwinError], str]] = {
    "a cable one way": (lambda: one_way(star(2)), ScenarioError, "every cable carries both directions"),
    "no hosts": (
        lambda: replace(star(2), ports=tuple(p for p in line(2).ports if {p.node, p.peer} == {"s0", "s1"})),
        ScenarioError,
        "traffic starts and ends at hosts",
    ),
    "a buffer below a packet": (
        lambda: star(2, buffer_bytes=1_000.0), ScenarioError, "stores a whole packet (1048 bytes)",
    ),
    "no buffer": (lambda: star(2, buffer_bytes=math.nan), ScenarioError, "it must be above 0"),
    "no payload": (lambda: star(2, mtu_payload_bytes=0), ScenarioError, "it must be above 0"),
    "overhead below 0": (lambda: star(2, wire_overhead_bytes=-1), ScenarioError, "it must not be negative"),
    "a port without a rate": (
        lambda: replace(star(2), ports=tuple(replace(p, rate_bytes_per_s=0.0) for p in star(2).ports)),
        ScenarioError,
        "fabric port 0 rate: received 0.0; it must be above 0",
    ),
    "a delay before its time": (
        lambda: replace(star(2), ports=tuple(replace(p, delay_s=-1e-6) for p in star(2).ports)),
        ScenarioError,
        "fabric port 0 delay: received -1e-06; it must not be negative",
    ),
    "a timeout of 0": (lambda: PacketSettings(retransmit_timeout_s=0.0), ParameterError, "must be above 0"),
    "no sample": (lambda: PacketSettings(queue_sample_s=math.inf), ParameterError, "must be above 0 and fin"),
    "a share above 1": (
        lambda: running(star(2), sampling_rate=1.5), ParameterError, "a share lies in [0, 1]",
    ),
    "a seed below 0": (lambda: running(star(2), seed=-1), ParameterError, "a seed is a whole number"),
    "a seed beyond all words": (lambda: running(star(2), seed=2**63), ParameterError, "a seed is a whole"),
    "a monitored port that is not there": (
        lambda: Fabric(star(2), watermark=NEVER, seed=1, monitored=[4]), ScenarioError, "numbered from 0",
    ),
    "a port counted from the end": (
        lambda: Fabric(star(2), watermark=NEVER, seed=1, monitored=[-1]), ScenarioError, "numbered from 0",
    ),
    "a NIC's watermark": (
        lambda: running(star(2)).watermark(0), ScenarioError, "only switch ports have a watermark",
    ),
    "a watermark for a NIC": (
        lambda: running(star(2)).set_watermark([1, 0], NEVER), ScenarioError, "only switch ports",
    ),
    "a watermark for nobody": (
        lambda: running(star(2)).set_watermark([99], NEVER), ScenarioError, "only switch ports",
    ),
    "a cable that is not there": (lambda: running(star(2)).fail_link(4), ScenarioError, "has 4 ports"),
    "mending what is not there": (lambda: running(star(2)).restore_link(-1), ScenarioError, "has 4 ports"),
    "a host that is not there": (
        lambda: running(star(2)).offer(only(0, 2)), ScenarioError, "the fabric has 2 hosts, numbered from 0",
    ),
    "the end of time": (lambda: running(star(2)).advance(math.inf), ParameterError, "time goes on from 0 s"),
    "no time at all": (lambda: running(star(2)).advance(math.nan), ParameterError, "time goes on from 0 s"),
    "a seed for a host": (
        lambda: replace(star(2), ecmp_seeds={"h0": 1}), ScenarioError, "only switches have an ECMP seed",
    ),
    "a switch's seed below 0": (
        lambda: running(star(2)).set_ecmp_seed("s", -1), ParameterError, "ECMP seed of 's': received -1; a",
    ),
    "half a seed": (
        lambda: replace(star(2), ecmp_seeds={"s": 0.5}), ParameterError, "a seed is a whole number",
    ),
    "too long a path": (
        lambda: running(line(17)).offer(only(0, 33)), ScenarioError, "at most 16 are crossed",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_makes_no_sense_is_refused_in_a_sentence(name: str) -> None:
    attempt, kind, says = REFUSED[name]
    with pytest.raises(kind) as refused:
        attempt()
    assert says in str(refused.value)
    assert refused.value.remedy


def test_the_past_is_past() -> None:
    fabric = running(star(2))
    fabric.advance(1e-6)
    with pytest.raises(ParameterError, match="time goes on from 1e-06 s"):
        fabric.advance(0.5e-6)
    fabric.advance(1e-6)


def test_hosts_are_named_in_order_of_their_nics() -> None:
    assert running(star(3)).hosts == ("h0", "h1", "h2")


def test_a_refused_watermark_leaves_the_ports_before_it_alone() -> None:
    fabric = running(star(2))
    with pytest.raises(ScenarioError):
        fabric.set_watermark([1, 0], Watermark(1, 2, 1.0))
    assert fabric.watermark(1) == NEVER


def test_no_flows_are_no_trouble() -> None:
    fabric = running(star(2))
    assert fabric.offer(Traffic.independent([], [], [], [])).size == 0
    happened = fabric.advance(1e-3)
    assert len(happened.completions) == 0
    assert len(happened.samples) == 0
    assert fabric.measured().hops == 0
    assert fabric.measured().depth_samples == 100
    check_silence(fabric)


def test_flow_numbers_go_on_while_rows_are_used_again() -> None:
    fabric = running(star(3), retransmit_timeout_s=1e-3)  # a timer under way keeps its row
    numbers, over = [], []
    for k in range(20):
        at = fabric.now_s
        numbers += fabric.offer(
            Traffic.independent([0, 1, 2], [1, 2, 0], [3_000.0, 1_000.0 + k, 500.0], at)
        ).tolist()
        over.append(fabric.advance(at + 2e-3).completions)
    assert numbers == list(range(60))
    assert sorted(joined(over)["flow"].tolist()) == numbers
    assert len(fabric._flows.rows) <= 8
    sizes = joined(over)
    by_number = dict(zip(sizes["flow"].tolist(), sizes["payload_bytes"].tolist(), strict=True))
    assert [by_number[3 * k + 1] for k in range(20)] == [1_000.0 + k for k in range(20)]


def test_rows_used_again_change_nothing() -> None:
    # The same flows in a table full of rows of flows that are over, and in a fresh one.
    late = Traffic.independent(
        [0, 1, 2, 1], [2, 2, 1, 0], [50e3, 60e3, 9e3, 1e3], [1e-3, 1e-3, 1e-3, 1.001e-3]
    )
    used, fresh = (running(star(3), retransmit_timeout_s=2e-4) for _ in range(2))
    used.offer(Traffic.independent([0, 1] * 4, [1, 2] * 4, 20e3, 0.0))
    used.advance(1e-3)
    fresh.advance(1e-3)
    after = used.measured(), fresh.measured()
    for fabric in (used, fresh):
        fabric.offer(late)
    there, here = (fabric.advance(2e-3).completions for fabric in (used, fresh))
    for name in ("src", "dst", "payload_bytes", "start_s", "end_s", "alone_s"):
        assert np.array_equal(getattr(there, name), getattr(here, name)), name
    windows = [fabric.measured().since(before) for fabric, before in zip((used, fresh), after, strict=True)]
    assert windows[0].hops == windows[1].hops
    assert np.array_equal(windows[0].queue_histogram, windows[1].queue_histogram)


def test_a_flow_that_should_have_begun_begins_now() -> None:
    fabric = running(star(2))
    fabric.advance(1e-3)
    fabric.offer(only(0, 1, start_s=1e-4))
    over = fabric.advance(2e-3).completions
    assert over.start_s.tolist() == [1e-3]


def test_a_flow_is_active_from_its_start_to_its_end() -> None:
    fabric = running(star(2))
    fabric.offer(Traffic.independent([0, 1], [1, 0], [1_000.0, math.inf], [0.0, 1e-3]))
    assert active_flows(fabric) == 0
    fabric.advance(1e-6)
    assert active_flows(fabric) == 1
    fabric.advance(2e-3)
    assert active_flows(fabric) == 1


def test_a_flow_of_more_packets_than_a_number_holds_sends_as_one_without_end() -> None:
    fabric = running(star(2))
    fabric.offer(Traffic.independent([0, 1], [1, 0], [1e30, math.inf], 0.0))
    fabric.advance(1e-4)
    first, second = fabric.acknowledged_bytes()
    assert first == second > 1e6


def waiting(sizes: list[float], waits: list[list[int]], gaps: list[float]) -> Traffic:
    n = len(sizes)
    return Traffic(
        src=np.arange(n, dtype=np.int32) % 3,
        dst=(np.arange(n, dtype=np.int32) + 1) % 3,
        payload_bytes=np.array(sizes),
        start_s=np.zeros(n),
        after_offset=np.cumsum([0, *map(len, waits)]),
        after=np.array([row for rows in waits for row in rows], dtype=np.int64),
        gap_s=np.array(gaps),
    )


@pytest.mark.kernels
def test_a_flow_waits_for_the_last_delivery_and_its_gap() -> None:
    fabric = running(star(3), sampling_rate=1.0)
    fabric.offer(waiting([50e3, 1e3, 1e3, 2e3], [[], [], [0, 1], [2]], [0.0, 0.0, 4e-6, 0.0]))
    happened = fabric.advance(1e-3)
    starts = dict(zip(happened.completions.flow.tolist(), happened.completions.start_s.tolist(), strict=True))
    delivered = {flow: happened.samples.delivered_s[happened.samples.flow == flow].max() for flow in range(4)}
    assert starts[0] == starts[1] == 0.0
    assert starts[2] == delivered[0] + 4e-6
    assert starts[3] == delivered[2]


@pytest.mark.parametrize("n", [20, 300])
def test_any_number_may_wait_for_one(n: int) -> None:
    fabric = running(star(3), retransmit_timeout_s=1e-3)
    fabric.offer(waiting([1e3] * (n + 1), [[], *([[0]] * n)], [0.0] * (n + 1)))
    over = fabric.advance(1e-2).completions
    assert sorted(over.flow.tolist()) == list(range(n + 1))
    assert len(set(over.start_s[over.flow > 0].tolist())) == 1
    check_silence(fabric)


def test_waiting_survives_other_flows_coming_and_going() -> None:
    fabric = running(star(3))
    fabric.offer(waiting([900e3, 1e3], [[], [0]], [0.0, 0.0]))
    over = []
    for k in range(40):
        fabric.offer(Traffic.independent([2], [1], [1_000.0], fabric.now_s))
        over.append(fabric.advance((k + 1) * 5e-6).completions)
    found = joined(over)
    assert sorted(found["flow"].tolist())[:2] == [0, 1]
    assert found["start_s"][found["flow"] == 1] < found["end_s"][found["flow"] == 0]
    assert len(found["flow"]) == 42


def paths_of(fabric: Fabric) -> dict[int, tuple[int, ...]]:
    rows = fabric._flows.rows
    return {int(rows["number"][row]): fabric._paths[row] for row in fabric._flows.live.tolist()}


def test_flows_spread_over_the_spines_and_keep_their_path() -> None:
    fabric = running(two_tiers(2, 4, 4))
    n = 400
    fabric.offer(Traffic.independent(np.arange(n) % 4, 4 + np.arange(n) % 4, math.inf, 1.0))
    paths = paths_of(fabric)
    spines = [fabric.plan.ports[path[1]].peer for path in paths.values()]
    counts = [spines.count(f"spine{k}") for k in range(1, 5)]
    assert sum((count - n / 4) ** 2 / (n / 4) for count in counts) < 16.3  # χ², 3 degrees: once in a thousand
    fabric.advance(1e-3)
    assert paths_of(fabric) == paths
    other = running(two_tiers(2, 4, 4), seed=2)
    other.offer(Traffic.independent(np.arange(n) % 4, 4 + np.arange(n) % 4, math.inf, 1.0))
    assert paths_of(other) != paths


def across(n_flows: int = 400, start_s: float = 0.0) -> Traffic:
    """Flows from each host of the first leaf of ``two_tiers(2, 4, 4)`` to those of the second."""
    n = np.arange(n_flows)
    return Traffic.independent(n % 4, 4 + n % 4, math.inf, start_s)


def test_a_seed_changes_the_choice_of_its_switch_and_of_no_other() -> None:
    plan = two_tiers(2, 4, 4)
    paths = []
    for seeds in ({}, {"leaf1": 7}, {"leaf1": 8}, {"leaf2": 7}):
        fabric = running(replace(plan, ecmp_seeds=seeds))
        fabric.offer(across())
        paths.append(paths_of(fabric))
    plain, seven, eight, other = paths
    for one in (seven, eight):
        moved = sum(one[number] != plain[number] for number in plain)
        assert 0.65 * 400 < moved < 0.85 * 400  # three of four spines are others
    assert other == plain  # leaf2 only forwards to its hosts
    assert seven != eight
    for number, path in seven.items():
        ends = [(plan.ports[path[0]].node, plan.ports[path[-1]].peer) for path in (path, plain[number])]
        assert ends[0] == ends[1] == (f"h{number % 4}", f"h{4 + number % 4}")


def test_tiers_of_one_seed_choose_alike() -> None:
    """Two tiers with two choices each: where both hash alike, half of the four paths stay empty."""
    hosts = (Host("a"), Host("b"))
    links = [Link("a", "in", 100.0, 1.0, b_port="h"), Link("b", "out", 100.0, 1.0, b_port="h")]
    for first in ("l", "r"):
        links.append(Link("in", first, 100.0, 1.0, a_port=first, b_port="in"))
        for second in ("0", "1"):
            middle = first + second
            links.append(Link(first, middle, 100.0, 1.0, a_port=second, b_port="up"))
            links.append(Link(middle, "out", 100.0, 1.0, a_port="down", b_port=middle))
    switches = ("in", "out", "l", "r", "l0", "l1", "r0", "r1")
    plan = replace(star(2), ports=Topology(hosts, switches, tuple(links)).ports)

    def middles(seeds: dict[str, int]) -> set[str]:
        fabric = running(replace(plan, ecmp_seeds=seeds))
        fabric.offer(Traffic.independent([0] * 100, [1] * 100, math.inf, 0.0))
        return {fabric.plan.ports[path[3]].node for path in paths_of(fabric).values()}

    assert middles({}) == middles({"in": 5, "l": 6, "r": 6}) == {"l0", "l1", "r0", "r1"}
    assert len(middles({"in": 5, "l": 5, "r": 5})) == 2


def test_a_seed_set_later_is_for_flows_that_have_not_begun() -> None:
    fabric = running(two_tiers(2, 4, 4))
    begun = fabric.offer(across(100))
    fabric.advance(1e-6)
    waiting = fabric.offer(across(100, start_s=1.0))
    before = paths_of(fabric)
    fabric.set_ecmp_seed("leaf1", 7)
    offered = fabric.offer(across(100))
    after = paths_of(fabric)
    seeded = running(replace(fabric.plan, ecmp_seeds={"leaf1": 7}))
    seeded.offer(across(300))
    wanted = paths_of(seeded)
    assert all(after[number] == before[number] for number in begun.tolist())
    assert any(after[number] != before[number] for number in waiting.tolist())
    assert all(after[number] == wanted[number] for number in [*waiting.tolist(), *offered.tolist()])
    assert (fabric.ecmp_seed("leaf1"), fabric.ecmp_seed("leaf2")) == (7, None)
    fabric.set_ecmp_seed("leaf1", None)
    assert fabric.ecmp_seed("leaf1") is None
    assert paths_of(fabric) | {number: before[number] for number in waiting.tolist()} == paths_of(fabric)
    fabric.advance(2e-6)
    check_books(fabric)


def test_a_cable_that_fails_moves_the_flows_on_it_and_no_others() -> None:
    fabric = running(two_tiers(3, 3, 2))
    src, dst = np.arange(120) % 6, (np.arange(120) + 1 + np.arange(120) // 6 % 5) % 6
    fabric.offer(Traffic.independent(src, dst, math.inf, 0.0))
    before = paths_of(fabric)
    cut = port_between(fabric.plan, "leaf1", "spine2")
    gone = {cut, fabric.plan.reverse[cut]}
    fabric.fail_link(cut)
    after = paths_of(fabric)
    moved = {number for number in before if before[number] != after[number]}
    assert moved == {number for number, path in before.items() if gone & set(path)} != set()
    assert not any(gone & set(path) for path in after.values())
    later = fabric.offer(Traffic.independent([0] * 30, [5] * 30, math.inf, 0.0))
    assert not any(gone & set(paths_of(fabric)[number]) for number in later.tolist())
    # Once back it carries new flows; those that moved stay.
    fabric.restore_link(cut)
    assert {number: paths_of(fabric)[number] for number in after} == after
    later = fabric.offer(Traffic.independent([0] * 30, [5] * 30, math.inf, 0.0))
    assert any(cut in paths_of(fabric)[number] for number in later.tolist())


def test_traffic_without_a_path_is_refused_until_a_cable_is_back() -> None:
    fabric = running(two_tiers(2, 1, 1))
    up = port_between(fabric.plan, "leaf1", "spine1")
    fabric.fail_link(up)
    with pytest.raises(ScenarioError, match="no path from 'h0' to 'h1'"):
        fabric.offer(only(0, 1))
    fabric.restore_link(up)
    fabric.offer(only(0, 1))
    assert len(fabric.advance(1e-3).completions) == 1


def test_failing_and_mending_twice_is_the_same_as_once() -> None:
    fabric = running(two_tiers(2, 2, 2), retransmit_timeout_s=1e-4)
    up = port_between(fabric.plan, "leaf1", "spine1")
    fabric.offer(Traffic.independent([0, 1, 0], [2, 3, 3], 100e3, 0.0))
    fabric.restore_link(up)  # it was never cut
    fabric.advance(3e-6)
    for _ in range(2):
        fabric.fail_link(up)
        check_books(fabric)
    fabric.advance(6e-6)
    for _ in range(2):
        fabric.restore_link(fabric.plan.reverse[up])
    assert len(fabric.advance(1e-1).completions) == 3
    check_silence(fabric)


def busy(seed: int) -> Fabric:
    fabric = running(
        two_tiers(2, 2, 3), seed=seed, sampling_rate=0.2, watermark=Watermark(2_000, 40_000, 0.3)
    )
    fabric.offer(Traffic.independent([0, 1, 2, 4, 5], [3, 3, 3, 3, 0], 100e3, 0.0))
    return fabric


@pytest.mark.kernels
def test_another_seed_differs_and_the_same_does_not() -> None:
    one, again, other = (columns(busy(seed).advance(1e-3).samples) for seed in (1, 1, 2))
    assert all(one[name].tobytes() == again[name].tobytes() for name in one)
    assert one["delivered_s"].tobytes() != other["delivered_s"].tobytes()


def test_a_metrics_window_opens_with_empty_depths() -> None:
    fabric = running(star(3), watermark=NEVER, queue_sample_s=1e-6)
    fabric.offer(Traffic.independent([1, 2], [0, 0], 100e3, 0.0))
    fabric.advance(1e-5)
    port = port_between(fabric.plan, "s", "h0")
    full = fabric.measured()
    assert full.depth_peak_bytes[port] > 10_000
    assert full.queue_mean_bytes == full.depth_sum_bytes.sum() / full.queue_histogram.sum()
    fabric.forget_depths()
    empty = fabric.measured()
    assert empty.queue_mean_bytes == empty.queue_quantile_bytes(0.99) == 0.0
    assert not empty.depth_peak_bytes.any()
    assert empty.sent_packets.sum() == full.sent_packets.sum()


def test_depths_are_counted_as_they_are() -> None:
    fabric = Fabric(star(3), watermark=NEVER, seed=1, monitored=[port_between(star(3), "s", "h0")])
    port = port_between(fabric.plan, "s", "h0")
    fabric.offer(Traffic.independent([1, 2], [0, 0], 60e3, 0.0))
    seen = []
    for k in range(20):
        fabric.advance(k * 1e-6)
        seen.append(fabric.depths_bytes([port])[0])
    fabric.advance(19.5e-6)
    measured = fabric.measured()
    assert measured.depth_samples == 20
    assert measured.depth_sum_bytes[port] == sum(seen)
    assert measured.depth_peak_bytes[port] == max(seen)
    assert measured.queue_histogram.sum() == 20
    for q in (0.25, 0.5, 0.99):
        exact = np.quantile(seen, q, method="inverted_cdf")
        assert abs(measured.queue_quantile_bytes(q) - exact) <= 64


@pytest.mark.kernels
@pytest.mark.parametrize(
    ("larger", "above_bytes", "width_bytes"), [(1, 1 << 18, 1 << 11), (1_000, 1 << 26, 1 << 20)]
)
def test_deep_queues_are_counted_in_coarser_bins(larger: int, above_bytes: int, width_bytes: int) -> None:
    plan = star(5, mtu_payload_bytes=1_000 * larger, buffer_bytes=1e9)
    fabric = running(plan, watermark=NEVER, queue_sample_s=1e-6 * larger)
    fabric.offer(Traffic.independent([1, 2, 3, 4], [0] * 4, 400e3 * larger, 0.0))
    fabric.advance(3.2e-5 * larger)
    measured = fabric.measured()
    deepest = measured.depth_peak_bytes.max()
    assert deepest > above_bytes
    # One of a hundred looks or so was at the deepest port while it was deepest.
    assert abs(measured.queue_quantile_bytes(1.0) - deepest) <= width_bytes


def test_a_path_crosses_a_switch() -> None:
    a, b = (EgressPort(f"h{n}", None, f"h{1 - n}", 12.5e9, 1e-6) for n in (0, 1))
    fabric = running(replace(star(2), ports=(*star(2).ports, a, b)))
    with pytest.raises(ScenarioError, match="a flow crosses its NIC and at least one switch port"):
        fabric.offer(only(0, 1))


def test_flows_under_way_are_told_at_their_age() -> None:
    fabric = running(star(3))
    fabric.offer(Traffic.independent([0, 1, 2], [1, 2, 0], [1e6, math.inf, 1e6], [0.0, 0.0, 1.0]))
    fabric.advance(1e-5)
    found = fabric.under_way()
    assert found.flow.tolist() == [0]
    assert found.start_s.tolist() == [0.0]
    assert found.end_s.tolist() == [1e-5]
