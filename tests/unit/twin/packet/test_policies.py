"""Senders that act on round-trip times, in the packet fabric."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from telemetry.topology import Host, Link, Topology, leaf_spine
from tests.oracles import rtt_policy
from tests.unit.twin.packet.plans import NEVER, plan, port_between, running, star, two_tiers
from twin.errors import ParameterError, ScenarioError
from twin.packet.fabric import Fabric
from twin.packet.model import PacketEngine
from twin.packet.policies import DECISION
from twin.scenario import Scenario
from twin.scenario_file import flows_from_rows
from twin.senders.artefact import RULE, SWIFT, known_senders
from twin.senders.dcqcn import PAPER
from twin.senders.rtt import (
    DECC_INPUTS,
    INPUTS,
    OF_PERIOD,
    PERIODS,
    DeccPolicy,
    Network,
    RttPolicy,
    RttSender,
    Swift,
)
from twin.traffic.base import Traffic
from twin.watermark import Watermark

EVERY = ("rtt-rule", "rl-cc", "rl-cc-trees", "decc", "decc-trees", "swift")
LEARNED = ("rl-cc", "rl-cc-trees")
_INPUTS = slice(DECISION.index(INPUTS[0]), DECISION.index(INPUTS[0]) + len(INPUTS))
_ACTION, _INFLATION = DECISION.index("action"), DECISION.index("inflation")


def policy(name: str) -> RttPolicy:
    found = known_senders()[name]
    assert isinstance(found, RttPolicy)
    return found


def decc(name: str) -> DeccPolicy:
    found = known_senders()[name]
    assert isinstance(found, DeccPolicy)
    return found


def many_to_one(
    n: int, sender: RttSender, *, others: Mapping[str, RttSender] | None = None, **settings: Any
) -> Fabric:
    """Hosts h0 … send to the last host without end, at 100 Gbit/s and an RTT of 8 µs."""
    senders = dict.fromkeys([f"h{k}" for k in range(n + 1)], sender) if others is None else others
    fabric = running(star(n + 1, delay_us=1.95, senders=senders), **settings)
    starts_s = np.random.default_rng(n).uniform(0.0, 2e-4, n)
    fabric.offer(Traffic.independent(list(range(n)), [n] * n, [np.inf] * n, np.sort(starts_s)))
    return fabric


def settled(
    fabric: Fabric, *, after_s: float, for_s: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Goodput of each flow in bytes/s, and inflations, over ``for_s``."""
    fabric.advance(after_s)
    fabric.keep_decisions(200_000)
    before = fabric.acknowledged_bytes()
    fabric.advance(after_s + for_s)
    return (fabric.acknowledged_bytes() - before) / for_s, fabric.decisions[:, _INFLATION]


@pytest.mark.parametrize("flows", [2, 16, 64])
@pytest.mark.parametrize("name", LEARNED)
def test_equal_flows_settle_where_the_law_says(name: str, flows: int) -> None:
    got, inflation = settled(many_to_one(flows, policy(name)), after_s=0.06, for_s=0.02)
    assert inflation.mean() == pytest.approx(policy(name).inflation(flows), rel=0.2)
    assert got.sum() ** 2 / (flows * (got**2).sum()) >= 0.98
    assert got.sum() > 0.9 * 12.5e9 * 1000 / 1048


def test_trees_settle_where_their_network_does() -> None:
    means, tails = [], []
    for name in LEARNED:
        _, inflation = settled(many_to_one(16, policy(name)), after_s=0.06, for_s=0.02)
        means.append(inflation.mean())
        tails.append(np.quantile(inflation, 0.99))
    assert means[1] == pytest.approx(means[0], rel=0.02)
    assert tails[1] == pytest.approx(tails[0], rel=0.10)


@pytest.mark.parametrize("name", EVERY[:-1])
def test_decisions_are_those_of_the_oracle(name: str) -> None:
    sender = known_senders()[name]
    assert not isinstance(sender, Swift)
    fabric = many_to_one(8, sender)
    fabric.keep_decisions(500)
    fabric.advance(0.03)
    decisions = fabric.decisions
    assert len(decisions) == 500
    expected = [rtt_policy.action(sender, row) for row in decisions[:, _INPUTS.start :]]
    np.testing.assert_allclose(decisions[:, _ACTION], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("flows", [2, 16, 64])
def test_equal_flows_share_a_link_by_windows_in_a_short_queue(flows: int) -> None:
    found = [
        settled(many_to_one(flows, decc(name)), after_s=0.015, for_s=0.005) for name in ("decc", "decc-trees")
    ]
    for got, inflation in found:
        assert inflation.mean() < 1.6
        assert got.sum() ** 2 / (flows * (got**2).sum()) >= 0.9
        assert got.sum() > 0.95 * 12.5e9 * 1000 / 1048
    assert found[1][1].mean() == pytest.approx(found[0][1].mean(), rel=0.1)


@pytest.mark.kernels
def test_a_period_is_seen_five_times_and_sets_the_window() -> None:
    sender = DeccPolicy(name="sums", form=summing(0.3))
    fabric = many_to_one(3, sender)
    fabric.keep_decisions(300)
    fabric.advance(0.001)
    of_flow = fabric.decisions[fabric.decisions[:, 0] == 0]
    seen = of_flow[:, _INPUTS.start :]
    assert len(seen) > 20
    for ago in range(1, PERIODS):
        np.testing.assert_array_equal(seen[ago:, 5 * ago : 5 * ago + 5], seen[:-ago, :5])
    np.testing.assert_array_equal(seen[:, -1], 1.0)
    np.testing.assert_allclose(seen[:, 1], np.minimum(of_flow[:, _INFLATION], 2.0))
    window, line = 1.0, 1.0  # in what line rate sends in RTT0
    for decision, following in pairwise(of_flow):
        window = min(max(window * rtt_policy.multiplier(sender, decision[_ACTION]), 1 / 98), 2.0)
        rate = following[_INPUTS.start + OF_PERIOD.index("rate")]
        assert rate == pytest.approx(min(window / decision[_INFLATION], line), rel=1e-6)


def summing(weight: float) -> Network:
    """Less where latency is above 1.5 RTT0, more below."""
    first = [0.0] * len(DECC_INPUTS)
    first[DECC_INPUTS.index("latency")], first[-1] = -weight, 1.5 * weight
    return Network(((tuple(first), tuple(-one for one in first)), ((1.0, -1.0),)))


@pytest.mark.kernels
def test_windows_that_never_change_hold_a_base_rtt_of_line_rate_each() -> None:
    still = DeccPolicy(name="still", form=Network((((0.0,) * len(DECC_INPUTS),),)))
    fabric = many_to_one(3, still)
    got, inflation = settled(fabric, after_s=0.0004, for_s=0.0004)
    np.testing.assert_allclose(inflation[-9:], 3.0, rtol=0.03)
    np.testing.assert_allclose(got, 12.5e9 * 1000 / 1048 / 3, rtol=0.05)


@pytest.mark.kernels
def test_what_is_sent_again_is_seen_as_loss() -> None:
    fabric = many_to_one(2, DeccPolicy(name="sums", form=summing(0.3)), retransmit_timeout_s=1e-4)
    fabric.advance(3e-4)
    cable = port_between(fabric.plan, "h0", "s")
    fabric.fail_link(cable)
    fabric.advance(5e-4)
    fabric.restore_link(cable)
    fabric.keep_decisions(1_000)
    fabric.advance(1e-3)
    lost = fabric.decisions[:, _INPUTS.start + OF_PERIOD.index("loss")]
    assert lost[fabric.decisions[:, 0] == 0].max() > 0
    assert np.all(lost[fabric.decisions[:, 0] == 1] == 0)


@pytest.mark.kernels
def test_a_decision_sets_the_rate_and_is_remembered() -> None:
    fabric = many_to_one(4, policy("rl-cc"))
    fabric.keep_decisions(400)
    fabric.advance(0.0008)
    of_flow = fabric.decisions[fabric.decisions[:, 0] == 0]
    now, signal, before, signal_before = of_flow[:, _INPUTS].T
    taken = [rtt_policy.multiplier(policy("rl-cc"), one) for one in of_flow[:, _ACTION]]
    np.testing.assert_allclose(now[1:], taken[:-1])
    np.testing.assert_allclose(before[1:], now[:-1])
    np.testing.assert_allclose(signal_before[1:], signal[:-1])


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.kernels if name in ("rl-cc-trees", "swift") else ())
        for name in EVERY
    ],
)  # uncompiled, one of each kind that no other test of these has
def test_no_watermark_changes_anything(name: str) -> None:
    seen = []
    for kmin, kmax, pmax in ((2_000, 4_000, 1.0), (20_000, 400_000, 0.05), (1_000_000, 2_000_000, 0.01)):
        fabric = incast(name, Watermark(kmin, kmax, pmax))
        done, depths = [], []
        for until_s in np.arange(1, 21) * 1e-4:
            done.append(fabric.advance(float(until_s)).completions)
            depths.append(fabric.depths_bytes(fabric.plan.switch_ports))
        seen.append((np.concatenate([one.end_s for one in done]), np.array(depths)))
    for ends_s, depths in seen[1:]:
        assert len(ends_s) > 20
        assert ends_s.tobytes() == seen[0][0].tobytes()
        assert depths.tobytes() == seen[0][1].tobytes()


def incast(name: str, watermark: Watermark) -> Fabric:
    """Messages of many sizes to few hosts across two tiers."""
    senders = dict.fromkeys([host.name for host in leaf_spine(2, 2, 4).hosts], known_senders()[name])
    fabric = running(two_tiers(2, 2, 4, senders=senders), watermark=watermark)
    rng = np.random.default_rng(5)
    n = 40 if os.environ.get("NUMBA_DISABLE_JIT") else 120
    src = rng.integers(0, 8, n)
    dst = (src + rng.integers(1, 8, n)) % 4
    dst = np.where(dst == src, (dst + 1) % 4, dst)
    sizes = rng.choice([900.0, 20_000.0, 300_000.0], n)
    fabric.offer(Traffic.independent(src, dst, sizes, np.sort(rng.uniform(0, 1e-3, n))))
    return fabric


@pytest.mark.parametrize("name", EVERY)
def test_slices_of_time_change_nothing(name: str) -> None:
    def ends_s(steps: int) -> NDArray[np.float64]:
        fabric = incast(name, NEVER)
        done = [fabric.advance(float(at_s)).completions for at_s in np.linspace(0, 4e-3, steps + 1)[1:]]
        order = np.argsort(np.concatenate([one.flow for one in done]))
        return np.concatenate([one.end_s for one in done])[order]

    assert np.array_equal(ends_s(1), ends_s(37))


def test_a_late_decision_holds_the_rate_until_then() -> None:
    late = replace(policy("rl-cc"), decision_s=100e-6)
    fabric = many_to_one(2, late)
    fabric.keep_decisions(1_000)
    fabric.advance(0.01)
    times_s = fabric.decisions[fabric.decisions[:, 0] == 0][:, DECISION.index("time_s")]
    assert np.diff(times_s).min() >= 100e-6
    quick, _ = settled(many_to_one(16, policy("rl-cc")), after_s=0.06, for_s=0.02)
    slow, _ = settled(many_to_one(16, replace(late, decision_s=458e-6)), after_s=0.06, for_s=0.02)
    assert slow.sum() < quick.sum()


def test_probes_lost_with_their_cable_are_sent_again() -> None:
    fabric = many_to_one(2, policy("rl-cc"), retransmit_timeout_s=2e-4)
    fabric.advance(1e-3)
    cable = port_between(fabric.plan, "h0", "s")
    fabric.fail_link(cable)
    fabric.advance(2e-3)
    fabric.restore_link(cable)
    fabric.advance(3e-3)
    fabric.keep_decisions(10_000)
    got, _ = settled(fabric, after_s=8e-3, for_s=4e-3)
    assert np.all(got > 0.2 * 12.5e9)
    assert {0.0, 1.0} <= set(fabric.decisions[:, 0])


def test_what_is_moved_to_a_longer_path_waits_as_what_began_there() -> None:
    senders = dict.fromkeys(["h0", "h1", "h2"], replace(SWIFT, hop_s=2e-5))
    switches = "s0", "s1", "s2"
    links = [("h0", "s0"), ("h1", "s0"), ("h2", "s1"), ("s0", "s1"), ("s0", "s2"), ("s2", "s1")]
    cables = tuple(Link(a, b, 10.0, 1.0, a_port=f"to-{b}", b_port=f"to-{a}") for a, b in links)
    triangle = plan(Topology(tuple(map(Host, senders)), switches, cables), senders=senders)
    seen = []
    for moved in (False, True):
        fabric = running(triangle)
        steps = [
            lambda here: here.fail_link(port_between(here.plan, "s0", "s1")),
            lambda here: here.offer(Traffic.independent([0, 1], [2, 2], np.inf, 0.0)),
        ]
        for step in reversed(steps) if moved else steps:
            step(fabric)
        deepest = 0.0
        for until_s in np.arange(100, 400) * 1e-4:
            fabric.advance(float(until_s))
            deepest = max(deepest, fabric.depths_bytes(triangle.switch_ports).max())
        seen.append(deepest)
    assert seen[1] == pytest.approx(seen[0], rel=0.1)


def test_dcqcn_beside_trees_is_marked_for_ever_below_the_queue_they_hold() -> None:
    shares = []
    for kmin_bytes in (5_000, 400_000):
        mark = Watermark(kmin_bytes, 4 * kmin_bytes, 0.5)
        mixed = many_to_one(2, RULE, others={"h0": policy("rl-cc-trees")}, watermark=mark)
        got, _ = settled(mixed, after_s=0.05, for_s=0.02)
        shares.append(got[1] / got.sum())
    assert shares[0] < 0.1
    assert shares[1] > 0.4


def test_policies_are_replaced_while_running() -> None:
    fabric = many_to_one(4, policy("rl-cc"))
    fabric.advance(0.01)
    fabric.set_policies([policy("rtt-rule")])
    fabric.keep_decisions(100)
    fabric.advance(0.012)
    expected = [rtt_policy.action(RULE, row) for row in fabric.decisions[:, _INPUTS]]
    np.testing.assert_allclose(fabric.decisions[:, _ACTION], expected, atol=1e-12)
    with pytest.raises(ParameterError, match="each sees the inputs of the one that it replaces"):
        fabric.set_policies([decc("decc")])


def scenario(**senders: RttSender) -> Scenario:
    topology = leaf_spine(1, 1, 3)
    rows = [{"src": "h0", "dst": "h2", "bytes": 50_000, "start_s": 0.0}]
    return Scenario(
        name="one flow",
        ports=topology.ports,
        flows=flows_from_rows(topology, rows),
        monitored=(1,),
        dcqcn=PAPER,
        duration_s=1e-4,
        window_s=(0.0, 1e-4),
        senders=senders,
    )


def test_the_packet_engine_runs_them_and_hosts_must_be_there() -> None:
    [ran] = PacketEngine().predict(scenario(h0=SWIFT), [NEVER], seed=1)
    assert ran.goodput_bytes_per_s > 0
    with pytest.raises(ScenarioError, match=r"'h9'.*senders are hosts of the topology"):
        scenario(h9=SWIFT)
