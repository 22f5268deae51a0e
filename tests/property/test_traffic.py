"""What holds of any traffic: dependencies survive merging, collectives are whole, seeds decide; other paths
keep its bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.telemetry.network.uplinks import FABRIC, UPLINKS, over
from tests.unit.twin.paths.test_moves import collided, loads, port, walks
from tests.unit.twin.traffic.making import (
    Row,
    deliver,
    fingerprint,
    flows_of,
    waiting_flows,
    waiting_traffic,
)
from twin.paths.moves import carried, hashed, rerouted, spread
from twin.traffic.base import Hosts, Traffic
from twin.traffic.notation import PATTERNS, pattern
from twin.traffic.patterns import AllToAll, RingAllReduce
from twin.traffic.sizes import SizeDistribution


@st.composite
def traffics(draw: st.DrawFn) -> Traffic:
    """Up to 12 flows, each waiting for any earlier ones; sizes tell them apart."""
    starts = sorted(draw(st.lists(st.sampled_from([0.0, 0.5, 1.0, 1.5]), max_size=12)))
    rows: list[Row] = []
    after: list[list[int]] = []
    for number, start in enumerate(starts):
        src = draw(st.integers(0, 5))
        rows.append((src, (src + draw(st.integers(1, 5))) % 6, draw(st.integers(1, 10**9)) / 1.0, start))
        after.append(draw(st.lists(st.integers(0, number - 1), unique=True)) if number else [])
    gaps = draw(st.lists(st.sampled_from([0.0, 0.25]), min_size=len(rows), max_size=len(rows)))
    return waiting_traffic(rows, after, gaps)


@given(st.lists(traffics(), max_size=4))
def test_merging_keeps_every_flow_and_what_it_waits_for(parts: list[Traffic]) -> None:
    merged = Traffic.merged(*parts)
    kept = sorted(waiting_flows(merged))
    assert kept == sorted(flow for part in parts for flow in waiting_flows(part))
    assert len(merged) == sum(map(len, parts))


@given(st.lists(traffics(), max_size=3), st.integers(0, 3))
def test_merging_in_steps_is_merging_at_once(parts: list[Traffic], first: int) -> None:
    in_steps = Traffic.merged(Traffic.merged(*parts[:first]), Traffic.merged(*parts[first:]))
    assert fingerprint(in_steps) == fingerprint(Traffic.merged(*parts))


@given(traffics(), st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.sampled_from([0.5, 1.0, 1.25, 9.0]))
def test_slices_of_time_share_out_the_flows(traffic: Traffic, begin: float, cut: float) -> None:
    slices = [
        traffic.between(0.0, begin),
        traffic.between(begin, cut),
        traffic.between(max(begin, cut), 10.0),
    ]
    assert [flow for part in slices for flow in flows_of(part)] == flows_of(traffic)
    waiting_in_all = [(flow, set(waits)) for flow, _, waits in waiting_flows(traffic)]
    for part in slices:
        for flow, _, waits in waiting_flows(part):  # of which several may be alike
            assert any(one == flow and set(waits) <= others for one, others in waiting_in_all)


@given(traffics(), traffics(), st.sampled_from([0.0, 0.5, 2.0]))
def test_a_delivery_order_exists_and_merging_does_not_change_it(
    one: Traffic, other: Traffic, by_s: float
) -> None:
    shifted = other.shifted(by_s)
    apart = sorted(
        (*flow, start)
        for part in (one, shifted)
        for flow, start in zip(flows_of(part), deliver(part, 0.1)[0], strict=True)
    )
    merged = Traffic.merged(one, shifted)
    together = sorted(
        (*flow, start) for flow, start in zip(flows_of(merged), deliver(merged, 0.1)[0], strict=True)
    )
    assert together == apart


@given(
    ranks=st.integers(2, 9),
    groups=st.integers(1, 3),
    iterations=st.integers(1, 4),
    size=st.integers(1, 10**7),
)
def test_a_ring_moves_its_share_and_chains_every_step(
    ranks: int, groups: int, iterations: int, size: int
) -> None:
    pattern_ = RingAllReduce(size_bytes=size, group_size=ranks, iterations=iterations, compute_s=1e-3)
    traffic = pattern_.traffic(Hosts(count=ranks * groups), duration_s=0.0, seed=1)
    sent = np.bincount(traffic.src, traffic.payload_bytes, minlength=ranks * groups)
    chunks = iterations * 2 * (ranks - 1)
    assert np.all(sent * ranks >= chunks * size)  # in whole numbers, which have no rounding
    assert np.all(sent * ranks < chunks * (size + ranks))  # chunks are whole bytes
    waits = traffic.awaited
    assert [len(one) for one in waits].count(0) == ranks * groups
    for row, before in enumerate(waits):
        if before:
            # Its own last chunk, and the one that came from the rank before it.
            assert {int(traffic.src[one]) for one in before if traffic.dst[one] == traffic.dst[row]} == {
                int(traffic.src[row])
            }
            assert Counter(int(traffic.dst[one]) for one in before)[int(traffic.src[row])] == 1
    starts, ends = deliver(traffic, 1e-3)
    last = iterations * 2 * (ranks - 1) + iterations - 1
    assert np.isclose(max(ends), last * 1e-3)
    assert min(starts) == 0.0


@given(
    ranks=st.integers(2, 7),
    iterations=st.integers(1, 3),
    schedule=st.sampled_from(["together", "rounds"]),
    placement=st.sampled_from(["packed", "spread"]),
)
def test_all_to_all_joins_each_pair_of_a_group_once_an_iteration(
    ranks: int, iterations: int, schedule: str, placement: str
) -> None:
    pattern_ = AllToAll(
        group_size=ranks, iterations=iterations, schedule=schedule, placement=placement, compute_s=1e-3
    )
    hosts = Hosts(count=2 * ranks + 1)
    traffic = pattern_.traffic(hosts, duration_s=0.0, seed=1)
    pairs = Counter(zip(traffic.src.tolist(), traffic.dst.tolist(), strict=True))
    assert pairs == {
        (int(src), int(dst)): iterations
        for group in pattern_.groups(hosts)
        for src in group
        for dst in group
        if src != dst
    }
    starts, ends = deliver(traffic, 1e-3)
    sending = 1 if schedule == "together" else ranks - 1
    assert np.isclose(max(ends), (iterations * sending + iterations - 1) * 1e-3)
    assert min(starts) == 0.0


@st.composite
def size_distributions(draw: st.DrawFn) -> SizeDistribution:
    sizes = sorted(draw(st.lists(st.integers(0, 10**6), min_size=2, max_size=8)))
    cuts = sorted(draw(st.sets(st.integers(1, 999), min_size=len(sizes) - 2, max_size=len(sizes) - 2)))
    shares = [0.0, *(cut / 1000 for cut in cuts), 1.0]
    sizes[-1] += 1
    return SizeDistribution("drawn", tuple(zip(map(float, sizes), shares, strict=True)))


@given(size_distributions(), st.integers(1, 2000), st.integers(0, 2**32))
@settings(deadline=None)
def test_analytic_means_are_the_means_of_what_is_drawn(
    distribution: SizeDistribution, mtu: int, seed: int
) -> None:
    drawn = distribution.sample(np.random.default_rng(seed), 20_000)
    largest = distribution.points[-1][0]
    # Hoeffding: a mean of 20 000 draws from [0, largest] strays this far once in e^-50.
    within = largest * np.sqrt(25 / 20_000)
    assert abs(drawn.mean() - distribution.mean_bytes) < within + 1
    assert abs(np.ceil(drawn / mtu).mean() - distribution.mean_packets(mtu)) < within / mtu + 1
    assert distribution.mean_packets(1) == distribution.mean_bytes


@given(size_distributions(), st.integers(1, 10**6 + 5), st.integers(0, 2**32))
def test_a_cap_cuts_what_is_above_and_leaves_the_rest(
    distribution: SizeDistribution, largest_bytes: int, seed: int
) -> None:
    whole = distribution.sample(np.random.default_rng(seed), 200)
    capped = distribution.capped(largest_bytes).sample(np.random.default_rng(seed), 200)
    # Interpolating between other points may round a size to the next byte.
    assert np.all(np.abs(capped - np.minimum(whole, largest_bytes)) <= 1)
    assert distribution.capped(largest_bytes).mean_bytes <= distribution.mean_bytes + 1e-6


@given(name=st.sampled_from(sorted(PATTERNS)), seed=st.integers(0, 2**32), count=st.integers(10, 20))
@settings(deadline=None, max_examples=40)
def test_a_seed_decides_and_flows_stay_among_the_hosts(name: str, seed: int, count: int) -> None:
    options = {"sizes": 20_000} if name == "poisson" else {}
    hosts = Hosts(count=count)

    def made(one: int | np.random.Generator) -> Traffic:
        return pattern(name, options).traffic(hosts, duration_s=1e-3, seed=one)

    traffic = made(seed)
    assert fingerprint(traffic) == fingerprint(made(seed)) == fingerprint(made(np.random.default_rng(seed)))
    assert {*traffic.src.tolist(), *traffic.dst.tolist()} <= set(range(count))
    assert np.all(traffic.start_s <= 1e-3)
    deliver(traffic, 1e-6)  # every wait is for an earlier row


SPINES = st.lists(st.integers(0, 3), min_size=1, max_size=8).map(tuple)
GROUP = frozenset(map(port, UPLINKS))


@given(SPINES, st.floats(1.0, 100.0))
def test_moves_keep_bytes_and_end_on_ports_of_the_group(spines: Sequence[int], gbps: float) -> None:
    scenario, group = over(spines, payload_bytes=1e6), collided(tuple(spines), gbps)
    moves = spread(FABRIC, scenario.flows, group, carried(scenario.flows, group), loads(group))
    changes = {row: path for move in moves for row, path in move.paths}
    after = replace(scenario, flows=rerouted(scenario.flows, changes))
    assert (after.flow_wire_bytes == scenario.flow_wire_bytes).all()
    assert (after.flows.src, after.flows.dst) == (scenario.flows.src, scenario.flows.dst)
    walks(after)
    for move in moves:
        assert move.to in GROUP - {move.elephant.port}
        assert all(move.to in path for _, path in move.paths)
    assert len({move.elephant for move in moves}) == len(moves)
    before, now = (
        max(sum(gbps for row in range(len(spines)) if one in which.flows.path(row)) for one in GROUP)
        for which in (scenario, after)
    )
    assert now <= before


@given(SPINES, st.integers(0, 2**32))
def test_hashing_keeps_bytes_and_ends_on_ports_of_the_group(spines: Sequence[int], seed: int) -> None:
    scenario = over(spines, payload_bytes=1e6)
    changes = hashed(FABRIC, scenario.flows, "leaf1", carried(scenario.flows, collided(tuple(spines))), seed)
    after = replace(scenario, flows=rerouted(scenario.flows, changes))
    assert (after.flow_wire_bytes == scenario.flow_wire_bytes).all()
    walks(after)
    for row in range(len(spines)):
        assert len(GROUP.intersection(after.flows.path(row))) == 1
