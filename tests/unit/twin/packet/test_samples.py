"""INT as the fabric gives it: which packets, which hops, and that what they say is what happened."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.unit.twin.packet.plans import NEVER, line, running, star, two_tiers
from twin.packet import fabric as fabric_module
from twin.packet.fabric import Fabric
from twin.packet.results import Samples
from twin.traffic.base import Traffic
from twin.watermark import Watermark

PACKET, LINE = 1_048, 12.5e9


def busy(sampling_rate: float, *, seed: int = 1, watermark: Watermark = NEVER, size: float = 40e3) -> Fabric:
    fabric = running(two_tiers(2, 2, 3), watermark=watermark, seed=seed, sampling_rate=sampling_rate)
    fabric.offer(Traffic.independent([0, 1, 2, 4, 5], [3, 3, 3, 3, 0], size, np.arange(5) * 3.7e-7))
    return fabric


def test_every_packet_at_rate_one_and_none_at_zero() -> None:
    assert len(busy(0.0).advance(1e-3).samples) == 0
    fabric = busy(1.0)
    samples = fabric.advance(1e-3).samples
    assert len(samples) == 5 * 40 == fabric.measured().injected_packets
    assert np.bincount(samples.flow).tolist() == [40] * 5
    assert set(samples.wire_bytes.tolist()) == {PACKET}


def test_a_rate_picks_its_share_by_flow_and_packet_whatever_else_goes_on() -> None:
    rate, n = 0.1, 5 * 300
    some = busy(rate, size=300e3).advance(1e-2).samples
    assert abs(len(some) - rate * n) <= 4 * math.sqrt(n * rate * (1 - rate))
    other_marks = busy(rate, size=300e3, watermark=Watermark(1_000, 20_000, 1.0)).advance(1e-2).samples
    assert np.array_equal(np.bincount(some.flow), np.bincount(other_marks.flow))
    other_seed = busy(rate, size=300e3, seed=2).advance(1e-2).samples
    assert not np.array_equal(some.delivered_s, other_seed.delivered_s)


def test_hops_are_the_path_s_switch_ports_in_order_with_times_that_go_on() -> None:
    fabric = busy(1.0)
    samples = fabric.advance(1e-3).samples
    plan = fabric.plan
    paths = {number: fabric._paths[number] for number in range(5)}
    for k in range(len(samples)):
        hops = slice(samples.hop_offset[k], samples.hop_offset[k + 1])
        path = paths[int(samples.flow[k])]
        assert tuple(samples.port[hops].tolist()) == path[1:]
        for ingress, egress, before in zip(samples.ingress_port[hops], path[1:], path, strict=False):
            assert plan.ports[ingress].node == plan.ports[egress].node
            assert plan.reverse[ingress] == before
        assert (fabric.hosts[samples.src[k]], fabric.hosts[samples.dst[k]]) == (
            plan.ports[path[0]].node,
            plan.ports[path[-1]].peer,
        )
        ingress_s, egress_s = samples.ingress_s[hops], samples.egress_s[hops]
        assert np.all(egress_s >= ingress_s)
        step_s = PACKET / LINE + 1e-6
        assert np.allclose(ingress_s[1:] - egress_s[:-1], step_s, rtol=1e-9)
        assert samples.delivered_s[k] == pytest.approx(egress_s[-1] + step_s, rel=1e-12)
    assert np.all(np.diff(samples.delivered_s) >= 0)


def test_queue_bytes_are_what_waits_when_the_packet_leaves() -> None:
    fabric = busy(1.0)
    samples = fabric.advance(1e-3).samples
    checked = 0
    for port in np.unique(samples.port):
        here = samples.port == port
        ingress_s, egress_s, queue = (
            samples.ingress_s[here],
            samples.egress_s[here],
            samples.queue_bytes[here],
        )
        for left, depth in zip(egress_s, queue, strict=True):
            certain = np.count_nonzero((ingress_s < left - 1e-12) & (egress_s > left + 1e-12))
            possible = np.count_nonzero((ingress_s < left + 1e-12) & (egress_s > left + 1e-12))
            assert certain * PACKET <= depth <= possible * PACKET
            checked += depth > 0
    assert checked > 100


@pytest.mark.kernels
def test_a_mark_stays_from_the_hop_that_set_it() -> None:
    fabric = busy(1.0, watermark=Watermark(2_000, 40_000, 0.5))
    samples = fabric.advance(2e-3).samples
    three = np.flatnonzero(np.diff(samples.hop_offset) == 3)
    assert three.size > 50
    marks = samples.marked[samples.hop_offset[three][:, None] + np.arange(3)].astype(int)
    assert np.all(np.diff(marks, axis=1) >= 0)
    assert 0 < marks[:, -1].sum() < three.size
    deep = samples.queue_bytes > 40_000
    assert np.all(samples.marked[deep])


@pytest.mark.kernels
def test_packets_that_are_lost_or_repeated_are_reported_once() -> None:
    fabric = running(
        star(4, pfc=False, buffer_bytes=12_000.0),
        watermark=NEVER,
        sampling_rate=1.0,
        retransmit_timeout_s=5e-5,
    )
    fabric.offer(Traffic.independent([1, 2, 3], [0] * 3, 30_000.0, 0.0))
    parts = [fabric.advance(k * 1e-5).samples for k in range(1, 300)]
    samples = Samples.joined(parts)
    assert fabric.measured().dropped_packets.sum() > 0
    assert len(samples) == 90
    # No stack is lost: all are free again.
    state = fabric._state
    free, row = 0, int(state.clock["free_sample"][0])
    while row >= 0:
        free, row = free + 1, int(state.samples["next"][row])
    assert free == len(state.samples)


def test_batches_join_with_empty_ones_anywhere() -> None:
    fabric = busy(0.3)
    parts = [fabric.advance(at).samples for at in (0.0, 1e-9, 1e-5, 1.0000001e-5, 1e-3, 2e-3)]
    assert [len(part) == 0 for part in parts] == [True, True, False, True, False, True]
    whole, together = busy(0.3).advance(2e-3).samples, Samples.joined(parts)
    for name in Samples.__slots__:
        assert np.array_equal(getattr(whole, name), getattr(together, name)), name


def test_a_path_of_one_switch_and_of_four() -> None:
    for n_switches in (1, 4):
        fabric = running(line(n_switches) if n_switches > 1 else star(2), sampling_rate=1.0)
        fabric.offer(Traffic.independent([0], [len(fabric.hosts) - 1], 3_000.0, 0.0))
        samples = fabric.advance(1e-3).samples
        assert np.diff(samples.hop_offset).tolist() == [n_switches] * 3


@pytest.mark.kernels
def test_stacks_are_found_for_any_number_of_sampled_packets(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = busy(1.0, size=10e3).advance(1e-3).samples
    monkeypatch.setattr(fabric_module, "_SAMPLES", 1)
    fabric = busy(1.0, size=10e3)
    few = fabric.advance(1e-3).samples
    assert len(fabric._state.samples) > 1
    for name in Samples.__slots__:
        assert np.array_equal(getattr(whole, name), getattr(few, name)), name
