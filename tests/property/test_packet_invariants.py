"""What holds of the packet-level fabric whatever the traffic, the settings, the cuts and the slicing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from telemetry.topology import GBPS
from tests.unit.twin.packet.plans import (
    CHURNING,
    check_books,
    check_silence,
    columns,
    faster,
    joined,
    line,
    running,
    star,
    two_tiers,
)
from twin.packet import fabric as fabric_module
from twin.packet.fabric import Fabric
from twin.packet.plan import FabricPlan
from twin.packet.results import Measured, Samples
from twin.senders.dcqcn import DcqcnParams
from twin.traffic.base import Traffic
from twin.watermark import Watermark

BUSY_S = 3e-4  # traffic starts, cables fail and come back within it
STAGE_S = 3e-3  # the first look at whether all is over; each next stage takes four times as long


@st.composite
def watermarks(draw: st.DrawFn) -> Watermark:
    kmin = draw(st.integers(0, 60_000))
    return Watermark(kmin, kmin + draw(st.integers(1_000, 200_000)), draw(st.floats(0.005, 1.0)))


@st.composite
def senders(draw: st.DrawFn) -> DcqcnParams:
    return replace(
        CHURNING,
        byte_counter_bytes=draw(st.sampled_from([None, 32_767.0, 150_000.0])),
        cnp_interval_s=draw(st.sampled_from([4e-6, 50e-6])),
        alpha_timer_s=draw(st.sampled_from([1e-6, 55e-6])),
        increase_timer_s=draw(st.sampled_from([20e-6, 55e-6, 300e-6])),
        fast_recovery_steps=draw(st.integers(1, 5)),
        min_rate_bytes_per_s=draw(st.sampled_from([0.1, 5.0])) * GBPS,
        clamp_target_rate=draw(st.booleans()),
    )


@st.composite
def plans(draw: st.DrawFn, *, pfc: bool | None = None) -> FabricPlan:
    kept: dict[str, Any] = {
        "dcqcn": draw(senders()),
        "mtu_payload_bytes": draw(st.sampled_from([256, 1000, 4096])),
        "wire_overhead_bytes": draw(st.sampled_from([0, 48])),
        "ack_wire_bytes": draw(st.sampled_from([0, 60])),
        "pfc": draw(st.booleans()) if pfc is None else pfc,
    }
    # Without PFC a buffer may be as small as it likes; with it, it must hold what pauses cannot stop.
    kept["buffer_bytes"] = (
        draw(st.sampled_from([600_000.0, 1_000_000.0, 32_000_000.0]))
        if kept["pfc"]
        else draw(st.sampled_from([5_000.0, 40_000.0, 300_000.0]))
    )
    kind = draw(st.sampled_from(["star", "line", "two tiers"]))
    if kind == "star":
        return star(4, delay_us=draw(st.sampled_from([0.0, 0.3, 1.0])), **kept)
    if kind == "line":
        rates = draw(st.lists(st.sampled_from([25.0, 40.0, 100.0]), min_size=2, max_size=2))
        return line(3, rates_gbps=rates, edge_gbps=draw(st.sampled_from([40.0, 100.0])), **kept)
    return two_tiers(2, 2, 3, **kept)


@st.composite
def traffics(draw: st.DrawFn, n_hosts: int) -> Traffic:
    """Up to 25 flows, many of them towards one host, some waiting for others."""
    rows = draw(
        st.lists(
            st.tuples(
                st.integers(0, n_hosts - 1),
                st.sampled_from([0, 0, 1, n_hosts - 1]),
                st.one_of(st.integers(1, 3_000), st.integers(1, 120_000)),
                st.sampled_from([0.0, 1e-6, 7.3e-6, 2e-5, 1e-4, BUSY_S]),
            ).filter(lambda row: row[0] != row[1]),
            min_size=1,
            max_size=25,
        )
    )
    rows.sort(key=lambda row: row[3])
    after, offset = [], [0]
    for number in range(len(rows)):
        if number and draw(st.integers(0, 3)) == 0:
            after += draw(st.lists(st.integers(0, number - 1), min_size=1, max_size=4, unique=True))
        offset.append(len(after))
    return Traffic(
        src=np.array([row[0] for row in rows], dtype=np.int32),
        dst=np.array([row[1] for row in rows], dtype=np.int32),
        payload_bytes=np.array([row[2] for row in rows], dtype=float),
        start_s=np.array([row[3] for row in rows]),
        after_offset=np.array(offset, dtype=np.int64),
        after=np.array(after, dtype=np.int64),
        gap_s=np.array([draw(st.sampled_from([0.0, 3e-6])) for _ in rows]),
    )


@dataclass(frozen=True)
class Problem:
    plan: FabricPlan
    traffic: Traffic
    watermark: Watermark
    settings: dict[str, Any]
    cuts: tuple[tuple[float, int, bool], ...]  # when, which port's cable, whether it fails (or comes back)
    seed: int
    speed: float = 1.0  # how long things take, to the time they take here

    def fabric(self, *, sampling_rate: float = 0.25, seed: int | None = None) -> Fabric:
        made = running(
            self.plan,
            watermark=self.watermark,
            seed=self.seed if seed is None else seed,
            sampling_rate=sampling_rate,
            **self.settings,
        )
        made.offer(self.traffic)
        return made


@st.composite
def problems(draw: st.DrawFn, *, pfc: bool | None = None, cutting: bool = True) -> Problem:
    plan = draw(plans(pfc=pfc))
    cuts = []
    for _ in range(draw(st.integers(0, 2)) if cutting else 0):
        port = draw(st.integers(0, len(plan.ports) - 1))
        begin = draw(st.just(0.0) | st.floats(1e-12, BUSY_S))  # half of the smallest float is 0
        # Also for less than a packet takes along the cable.
        cuts.append((begin, port, True))
        cuts.append((begin + draw(st.sampled_from([0.0, 2e-7, 1e-5, 1e-4])), port, False))
    return Problem(
        plan,
        draw(traffics(len(plan.hosts))),
        draw(watermarks()),
        {
            "retransmit_timeout_s": draw(st.sampled_from([50e-6, 400e-6])),
            "queue_sample_s": 1e-6,
        },
        tuple(sorted(cuts, key=lambda cut: cut[0])),
        draw(st.integers(0, 2**31)),
    )


moments = st.lists(st.floats(0, 1.2 * BUSY_S), max_size=8).map(sorted)


@dataclass(frozen=True)
class Outcome:
    completions: dict[str, np.ndarray[Any, Any]]
    samples: dict[str, np.ndarray[Any, Any]]
    measured: Measured

    def differs(self, other: Outcome) -> list[str]:
        """What is not the same to the byte."""
        found = [
            name
            for mine, theirs in ((self.completions, other.completions), (self.samples, other.samples))
            for name in mine
            if mine[name].tobytes() != theirs[name].tobytes()
        ]
        for name in Measured.__slots__:
            mine, theirs = np.asarray(getattr(self.measured, name)), np.asarray(getattr(other.measured, name))
            if mine.tobytes() != theirs.tobytes():
                found.append(name)
        return found


def run(problem: Problem, fabric: Fabric, slices: Sequence[float] = (), *, checked: bool = False) -> Outcome:
    """All of a problem, cut and mended on the way, looked at in ``slices`` too."""
    events: list[tuple[float, int, bool]] = [*problem.cuts, *((at, -1, False) for at in slices)]
    happened = []
    for at, port, fails in sorted(events, key=lambda event: event[0]):
        happened.append(fabric.advance(at))
        if port >= 0:
            (fabric.fail_link if fails else fabric.restore_link)(port)
        if checked:
            check_books(fabric)
    for stage in range(7):
        happened.append(fabric.advance(problem.speed * STAGE_S * 4**stage))
        if fabric._state.clock["timers"][0] == 0:
            break
    return Outcome(
        joined([one.completions for one in happened]),
        columns(Samples.joined([one.samples for one in happened])),
        fabric.measured(),
    )


@settings(max_examples=60)
@given(problems(), moments)
def test_every_byte_is_delivered_inside_dropped_or_discarded(problem: Problem, slices: list[float]) -> None:
    fabric = problem.fabric()
    outcome = run(problem, fabric, slices, checked=True)
    # Everything ends, pauses too, and nothing is left behind.
    check_silence(fabric)
    assert sorted(outcome.completions["flow"].tolist()) == list(range(len(problem.traffic)))
    assert outcome.measured.delivered_bytes == problem.traffic.payload_bytes.sum()
    measured = outcome.measured
    read = fabric.read_ports(range(len(problem.plan.ports)))
    assert measured.depth_peak_bytes.max() <= read.peak_bytes.max() <= problem.plan.buffer_bytes
    assert np.all(read.marked_bytes <= read.sent_bytes + read.dropped_bytes)
    assert np.array_equal(read.marked_bytes > 0, measured.marked_packets > 0)
    assert np.all((read.depth_byte_s >= 0) & (read.depth_byte_s <= read.peak_bytes * read.now_s))


@settings(max_examples=60)
@given(problems(pfc=True, cutting=False))
def test_with_pfc_nothing_is_lost(problem: Problem) -> None:
    # Without a timeout of its own an example goes on for long, and no queue is looked at.
    changed = {"retransmit_timeout_s": None, "queue_sample_s": 1e-3}
    problem = replace(problem, settings=problem.settings | changed)
    outcome = run(problem, problem.fabric())
    assert not outcome.measured.dropped_packets.any()
    assert outcome.measured.retransmissions == 0
    assert outcome.measured.discarded_bytes == 0
    assert outcome.measured.injected_bytes == problem.traffic.payload_bytes.sum()


@settings(max_examples=40)
@given(problems(), moments)
def test_slicing_changes_nothing_and_neither_does_running_again(
    problem: Problem, slices: list[float]
) -> None:
    whole = run(problem, problem.fabric())
    assert run(problem, problem.fabric()).differs(whole) == []
    assert run(problem, problem.fabric(), slices).differs(whole) == []


@settings(max_examples=40)
@given(problems(), moments)
def test_growing_pools_change_nothing(problem: Problem, slices: list[float]) -> None:
    whole = run(problem, problem.fabric(sampling_rate=1.0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fabric_module, "_FIRST_POOL", 9)
        patch.setattr(fabric_module, "_SAMPLES", 1)
        small = running(
            problem.plan,
            watermark=problem.watermark,
            seed=problem.seed,
            sampling_rate=1.0,
            **problem.settings,
        )
        few = {
            name: getattr(small._state, name)[:1].copy()
            for name in ("timer_at", "timer_serial", "timer_what")
        }
        small._state = small._state._replace(**few)
        small.offer(problem.traffic)
        assert run(problem, small, slices).differs(whole) == []


@settings(max_examples=40)
@given(problems(), st.sampled_from([2.0, 0.25, 1024.0]))
def test_a_world_twice_as_fast_has_the_same_queues_in_half_the_time(problem: Problem, factor: float) -> None:
    slow = run(problem, problem.fabric())
    dcqcn = problem.plan.dcqcn
    rates = ("ai_rate_bytes_per_s", "hai_rate_bytes_per_s", "min_rate_bytes_per_s")
    times = ("cnp_interval_s", "alpha_timer_s", "increase_timer_s")
    hurried = replace(
        problem,
        plan=replace(
            problem.plan,
            ports=tuple(faster(port, factor) for port in problem.plan.ports),
            dcqcn=replace(
                dcqcn,
                **{name: getattr(dcqcn, name) * factor for name in rates},
                **{name: getattr(dcqcn, name) / factor for name in times},
            ),
        ),
        traffic=replace(
            problem.traffic,
            start_s=problem.traffic.start_s / factor,
            gap_s=problem.traffic.gap_s / factor,
        ),
        settings=problem.settings
        | {
            "retransmit_timeout_s": problem.settings["retransmit_timeout_s"] / factor,
            "queue_sample_s": 1e-6 / factor,
        },
        cuts=tuple((at / factor, port, fails) for at, port, fails in problem.cuts),
        speed=1.0 / factor,
    )
    fast = run(hurried, hurried.fabric())
    for name, column in slow.completions.items():
        there = fast.completions[name]
        assert np.array_equal(there * factor if name.endswith("_s") else there, column), name
    for name, column in slow.samples.items():
        there = fast.samples[name]
        assert np.array_equal(there * factor if name.endswith("_s") else there, column), name
    for name in Measured.__slots__:
        mine, theirs = np.asarray(getattr(slow.measured, name)), np.asarray(getattr(fast.measured, name))
        assert np.array_equal(theirs * factor if name.endswith("_s") else theirs, mine), name
