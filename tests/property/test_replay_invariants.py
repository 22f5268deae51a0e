"""What holds of a replay whatever the traffic: nothing appears or vanishes, company decides nothing."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from telemetry.topology import GBPS, EgressPort
from tests.unit.twin.fluid.problems import CHURNING, flow, line, same, star
from twin.prediction import Prediction, SolveStatus
from twin.replay import layout
from twin.replay.model import STEP_S, ReplayEngine, _Run
from twin.scenario import Scenario
from twin.senders.dcqcn import DcqcnParams
from twin.watermark import Watermark

PACKET = 1_048
STAR = tuple(f"h{i}" for i in range(5))
LINE = tuple(f"{side}{i}" for i in range(3) for side in "ab")


@st.composite
def watermarks(draw: st.DrawFn) -> Watermark:
    kmin = draw(st.integers(0, 300_000))
    return Watermark(kmin, kmin + draw(st.integers(1_000, 600_000)), draw(st.floats(0.005, 1.0)))


@st.composite
def dcqcn(draw: st.DrawFn) -> DcqcnParams:
    return replace(
        CHURNING,
        byte_counter_bytes=draw(st.sampled_from([None, 150_000.0])),
        increase_timer_s=draw(st.sampled_from([55e-6, 300e-6])),
        fast_recovery_steps=draw(st.integers(1, 5)),
        clamp_target_rate=draw(st.booleans()),
    )


@st.composite
def scenarios(draw: st.DrawFn, *, pfc: bool | None = None) -> Scenario:
    """Up to 25 flows of 1 KB to 600 KB in the first 2 ms, on one switch or a line of three, then silence."""
    hosts, build = draw(st.sampled_from([(STAR, star), (LINE, line)]))
    flows = draw(
        st.lists(
            st.tuples(
                st.sampled_from(hosts),
                st.sampled_from(hosts),
                st.integers(1_000, 600_000),
                st.floats(0, 2e-3),
            ).filter(lambda drawn: drawn[0] != drawn[1]),
            min_size=1,
            max_size=25,
        )
    )
    kept = {"hosts": len(STAR)} if build is star else {}
    return build(
        [flow(*one) for one in flows],
        dcqcn=draw(dcqcn()),
        duration_s=40e-3,  # enough for all of it at the least rate a sender is cut to
        window_s=(0.0, 40e-3),
        wire_overhead_bytes=48,
        ack_wire_bytes=60,
        buffer_bytes=draw(st.sampled_from([200_000.0, 600_000.0, 32_000_000.0])),
        pfc=draw(st.booleans()) if pfc is None else pfc,
        **kept,
    )


def ran(scenario: Scenario, watermark: Watermark, until_s: float | None = None) -> _Run:
    """A scenario run once; its tables and arrays as the kernel left them."""
    if until_s is not None:
        scenario = replace(scenario, duration_s=until_s, window_s=(0.0, until_s))
    run = _Run(scenario, STEP_S)
    assert run.go(watermark, 3, np.zeros((1, 1)), 0)
    return run


def sent_bytes(run: _Run) -> float:
    entries, end = run.tables.entries, run.tables.n_steps
    return float(np.sum(entries["total"] + entries["rate"] * (end - entries["since"])))


def flying_bytes(run: _Run) -> float:
    """What arrives at queues after the run's last step."""
    later = run.tables.n_steps + np.arange(
        1 + max(run.tables.queues["delay"].max(), run.tables.inlets["delay"].max())
    )
    first = run.work.pages[later // layout.PAGE]
    cells = run.work.cells["arrived"][first + (later % layout.PAGE)[:, None]]
    return float(cells[first >= 0].sum())


# The first flow ends within a step of its start, of which the second then sends the rest.
SHORT_BESIDE_LONG = star(
    [flow("h1", "h0", 1_000), flow("h1", "h0", 8_000)],
    dcqcn=CHURNING,
    hosts=len(STAR),
    wire_overhead_bytes=48,
    duration_s=1e-3,
)


@settings(max_examples=40)
@given(scenarios(), watermarks(), st.floats(0.2e-3, 3e-3))
@example(SHORT_BESIDE_LONG, Watermark(0, 1_000, 1.0), 1e-3)
def test_bytes_sent_are_delivered_queued_on_a_cable_or_lost(
    scenario: Scenario, watermark: Watermark, until_s: float
) -> None:
    kept = scenario.flows.start_s < until_s
    if not kept.any():
        return
    run = ran(scenario.until(until_s), watermark, until_s)
    tables = run.tables
    queued = tables.queues["backlog"].sum()
    found = run.totals[layout.DELIVERED] + queued + flying_bytes(run) + run.totals[layout.LOST]
    # Packet phases run ahead of or behind the fluid by a packet or so a flow.
    assert abs(found - sent_bytes(run)) <= 1e-3 * sent_bytes(run) + 3 * PACKET * math.sqrt(
        len(scenario.flows)
    )


@settings(max_examples=40)
@given(st.lists(st.integers(1_000, 200_000), min_size=1, max_size=12), st.floats(0.0, 20e-6))
def test_a_host_sends_no_more_than_its_port_can_carry(sizes: list[int], apart_s: float) -> None:
    rows = [flow("h1", f"h{2 + k % 3}", size, k * apart_s) for k, size in enumerate(sizes)]
    scenario = star(rows, dcqcn=CHURNING, hosts=len(STAR), duration_s=3e-3)
    run = ran(scenario, Watermark(10_000_000, 20_000_000, 0.1))
    last_s = float(run.tables.flows["completed"].max()) * STEP_S
    assert last_s >= (sum(sizes) - PACKET) / (40 * GBPS)


@settings(max_examples=40)
@given(scenarios(), watermarks())
def test_every_flow_ends_and_nothing_is_left_behind(scenario: Scenario, watermark: Watermark) -> None:
    run = ran(scenario, watermark)
    tables = run.tables
    assert np.all(np.isfinite(tables.flows["completed"]))
    assert np.all(tables.queues["backlog"] == 0.0)
    assert np.all(tables.queues["flows"] == 0)
    assert np.all(tables.queues["ending_first"] == -1)
    # A pause ends once traffic stops.
    assert np.all(tables.ingresses["paused"] == 0)
    assert np.all(tables.nics["paused"] == 0)
    assert np.all(tables.queues["paused"] == 0)
    assert np.all(tables.switches["paused"] == 0)
    assert abs(tables.entries["rate"]).max() < 1e-6
    # What was lost was sent again, no more.
    sizes = float(scenario.flow_wire_bytes.sum())
    assert sent_bytes(run) - sizes <= run.totals[layout.LOST] + 1.0
    assert sent_bytes(run) >= sizes * (1 - 1e-9)


@settings(max_examples=30)
@given(scenarios(), watermarks())
def test_depths_stay_in_the_buffer_and_above_nothing(scenario: Scenario, watermark: Watermark) -> None:
    depths = ReplayEngine().trajectory(scenario, watermark, seed=3, sample_s=STEP_S).queue_bytes
    [prediction] = ReplayEngine().predict(scenario, [watermark], seed=3)
    assert depths.min() >= 0.0
    assert depths.max() == prediction.queue_peak_bytes
    assert 0 <= prediction.queue_mean_bytes <= prediction.queue_peak_bytes
    assert prediction.queue_p99_bytes <= prediction.queue_peak_bytes + 4_096
    if not scenario.pfc:
        # Tail drop: one step's arrivals from every side may come on top.
        slack = STEP_S * scenario.port_rate_bytes_per_s.max() * len(scenario.ports)
        assert prediction.queue_peak_bytes <= scenario.buffer_bytes + slack
        assert prediction.pfc_pause_s == 0
    else:
        assert prediction.loss_bytes == 0
    assert 0 <= prediction.marked_fraction <= 1
    # When a last byte leaves a queue is known to half a step.
    least = min(0.97, 1.0 - 0.5 * STEP_S / float(scenario.alone_s.min()))
    for size_class in prediction.slowdown.values():
        assert size_class.mean >= least


@settings(max_examples=40)
@given(
    size=st.integers(1, 3_000_000),
    start_s=st.floats(0, 1e-4),
    ends=st.sampled_from([("h0", "h3"), ("a0", "b0"), ("a0", "a1"), ("b0", "a2")]),
    rate_gbps=st.sampled_from([10.0, 40.0]),
)
@example(size=2_900_000, start_s=0.0, ends=("h0", "h3"), rate_gbps=10.0)  # longer than a turn of the wheel
def test_a_flow_alone_takes_the_time_alone(
    size: int, start_s: float, ends: tuple[str, str], rate_gbps: float
) -> None:
    kept = {
        "wire_overhead_bytes": 48,
        "ack_wire_bytes": 60,
        "dcqcn": CHURNING,
        "duration_s": 6e-3,
        "pfc": True,
    }
    rows = [flow(*ends, size, start_s)]
    scenario = star(rows, rate_gbps=rate_gbps, **kept) if ends[0] == "h0" else line(rows, **kept)
    [prediction] = ReplayEngine().predict(scenario, [Watermark(5_000, 200_000, 0.1)], seed=1)
    assert abs(prediction.slowdown["all"].mean - 1.0) < 0.01
    assert prediction.queue_peak_bytes == 0


def figures(one: Prediction) -> list[float]:
    slowdowns = [
        value for name in one.slowdown for value in (one.slowdown[name].mean, one.slowdown[name].p99)
    ]
    return [
        one.queue_mean_bytes, one.queue_p99_bytes, one.queue_peak_bytes, one.goodput_bytes_per_s,
        one.marked_fraction, one.loss_bytes, one.pfc_pause_s, *slowdowns, *one.port_queue_mean_bytes,
    ]  # fmt: skip


@settings(max_examples=20)
@given(scenarios(), st.lists(watermarks(), min_size=2, max_size=5), st.randoms(use_true_random=False))
def test_a_watermark_s_answer_does_not_depend_on_its_company(
    scenario: Scenario, batch: list[Watermark], order: object
) -> None:
    scenario = replace(scenario, duration_s=5e-3, window_s=(0.0, 5e-3))
    together = ReplayEngine().predict(scenario, batch, seed=5)
    places = list(range(len(batch)))
    order.shuffle(places)  # type: ignore[attr-defined]
    mixed = ReplayEngine().predict(scenario, [batch[place] for place in places], seed=5)
    alone = [ReplayEngine().predict(scenario, [one], seed=5)[0] for one in batch]
    for place, one in zip(places, mixed, strict=True):
        assert one == together[place]
    assert alone == together
    assert all(one.status is SolveStatus.OK for one in together)


def faster(scenario: Scenario, factor: float) -> Scenario:
    """The same traffic with every rate times ``factor`` and every time divided by it."""
    params, flows = scenario.dcqcn, scenario.flows
    return replace(
        scenario,
        ports=tuple(
            EgressPort(p.node, p.port, p.peer, p.rate_bytes_per_s * factor, p.delay_s / factor)
            for p in scenario.ports
        ),
        flows=replace(
            flows,
            start_s=flows.start_s / factor,
            start_rate_bytes_per_s=flows.start_rate_bytes_per_s * factor,
        ),
        dcqcn=replace(
            params,
            ai_rate_bytes_per_s=params.ai_rate_bytes_per_s * factor,
            hai_rate_bytes_per_s=params.hai_rate_bytes_per_s * factor,
            min_rate_bytes_per_s=params.min_rate_bytes_per_s * factor,
            cnp_interval_s=params.cnp_interval_s / factor,
            alpha_timer_s=params.alpha_timer_s / factor,
            increase_timer_s=params.increase_timer_s / factor,
        ),
        duration_s=scenario.duration_s / factor,
        window_s=(scenario.window_s[0] / factor, scenario.window_s[1] / factor),
    )


@settings(max_examples=20)
@given(scenarios(), watermarks(), st.sampled_from([0.25, 2.0, 8.0]))
def test_rates_and_clocks_scale_together(scenario: Scenario, watermark: Watermark, factor: float) -> None:
    scenario = replace(scenario, duration_s=4e-3, window_s=(0.5e-3, 4e-3))
    [before] = ReplayEngine().predict(scenario, [watermark], seed=2)
    [after] = ReplayEngine(STEP_S / factor).predict(faster(scenario, factor), [watermark], seed=2)
    scaled = replace(
        after,
        goodput_bytes_per_s=after.goodput_bytes_per_s / factor,
        pfc_pause_s=after.pfc_pause_s * factor,
    )
    assert all(same(a, b) for a, b in zip(figures(before), figures(scaled), strict=True))
