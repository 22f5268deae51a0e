"""The fluid engine: DCQCN's delay differential equations (``_kernels``), a batch of watermarks at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from twin.errors import ParameterError, ScenarioError, check_above_zero
from twin.fluid._arrays import (
    CANDIDATE_ROWS,
    CONTENT_ROWS,
    DELIVERED,
    HISTOGRAM_BINS,
    HISTOGRAM_FIRST,
    HISTOGRAM_SHIFT,
    HISTORY_ROWS,
    KMAX,
    KMIN,
    LANES,
    LOST,
    MARKED,
    PAUSE_TIME,
    PEAK,
    PMAX,
    PORT_ROWS,
    QUEUE_SUM,
    RING_GAP,
    SCRATCH_ROWS,
    SENDER_ROWS,
    SHARE,
    SLOPE,
    SLOT_ROWS,
    SURE_MARK,
    TALLY_ROWS,
    VECTOR,
    Buffers,
)
from twin.fluid._run import run
from twin.fluid.problem import Problem, build
from twin.prediction import BLOCKS, Prediction, SolveStatus, Trajectory, slowdown_by_class
from twin.probe._draws import PROBE_BINS
from twin.probe.figures import Blocks, gain_parts
from twin.scenario import Scenario
from twin.watermark import Setting, Watermark

Floats = NDArray[np.float64]

# For the histories of simultaneous senders; a run that needs more ends with status BUDGET.
HISTORY_LIMIT_BYTES = 2_000_000_000


class FluidEngine:
    """Integrates the delay differential equations; deterministic, ``seed`` is unused.

    ``step_s`` None chooses the step (docs/adr/0003-fluid-scheme.md). The hyper increase and the choice of
    target at a cut (``clamp_target_rate``) are not in the averaged equations.
    """

    name = "fluid"

    def __init__(self, *, step_s: float | None = None) -> None:
        self._step_s = step_s

    def predict(self, scenario: Scenario, watermarks: Sequence[Setting], *, seed: int) -> list[Prediction]:
        """One prediction per watermark, in their order.

        Raises ``ScenarioError`` for what cannot be simulated, ``ParameterError`` for watermarks by port role.
        """
        problem = build(scenario, self._step_s)
        predictions: list[Prediction] = []
        for first in range(0, len(watermarks), LANES):
            block = [_one_for_all(one) for one in watermarks[first : first + LANES]]
            buffers = _allocate(problem, trace=False)
            enough = _run(problem, block, buffers)
            predictions += _read(scenario, problem, block, buffers, enough)
        return predictions

    def trajectory(
        self, scenario: Scenario, watermark: Setting, *, seed: int, sample_s: float = 1e-5
    ) -> Trajectory:
        """Queues of the monitored ports every ``sample_s``, linear between steps."""
        check_above_zero("trajectory sample_s", sample_s)
        problem = build(scenario, self._step_s)
        buffers = _allocate(problem, trace=True)
        if not _run(problem, [_one_for_all(watermark)], buffers):
            received = f"more than {len(buffers.slots)} flow groups at once"
            rule = "their histories must fit the memory the fluid engine allows itself"
            remedy = "shorten the scenario or merge its flows"
            raise ScenarioError(f"scenario {scenario.name!r} flows", received, rule, remedy)
        clock = problem.clock
        grid = np.arange(clock.steps + 1) * clock.step
        count = int(np.floor(scenario.duration_s / sample_s * (1 + 1e-12))) + 1
        time_s = np.arange(count) * sample_s
        queues = np.array([np.interp(time_s, grid, port) for port in buffers.trace[:, :, 0].T])
        return Trajectory(watermark, time_s.astype(np.float64), queues * problem.packet_bytes)


def _one_for_all(setting: Setting) -> Watermark:
    if setting.exceptions:
        rule = "the fluid engine has one watermark for all ports"
        raise ParameterError("engine fluid", str(setting), rule, "take replay or packet")
    return setting.usual


def _allocate(problem: Problem, *, trace: bool) -> Buffers:
    groups, fabric, clock = problem.groups, problem.fabric, problem.clock
    count, hops = groups.hops.shape
    ports, senders = len(fabric.home), len(fabric.capacity)
    slots = max(1, min(count, HISTORY_LIMIT_BYTES // ((clock.ring + RING_GAP) * LANES * 8)))
    senders_at_start = np.zeros((senders, SENDER_ROWS * LANES))
    senders_at_start[:, SHARE : SHARE + LANES] = 1.0
    return Buffers(
        slots=np.zeros((slots, SLOT_ROWS * LANES)),
        content=np.zeros((slots * hops, CONTENT_ROWS * LANES)),
        ports=np.zeros((ports, PORT_ROWS * LANES)),
        senders=senders_at_start,
        use=np.zeros((problem.switches, LANES)),
        rings=np.zeros((ports * (clock.ring + RING_GAP), HISTORY_ROWS * LANES)),
        # Not zeroed: the system allocates pages only for used slots.
        rates=np.empty((slots * (clock.ring + RING_GAP), LANES)),
        tally=np.zeros(TALLY_ROWS * LANES),
        scratch=np.zeros(SCRATCH_ROWS * LANES),
        histogram=np.zeros((LANES, HISTOGRAM_BINS), dtype=np.int32),
        trace=np.zeros((clock.steps + 1 if trace else 0, len(problem.monitored), LANES)),
        finish=np.full((count, LANES), np.inf),
        by_block=np.zeros((BLOCKS, TALLY_ROWS * LANES)),
        probes=np.zeros((LANES, BLOCKS, hops, PROBE_BINS), dtype=np.int64),
    )


def _run(problem: Problem, block: Sequence[Watermark], buffers: Buffers) -> bool:
    packet = problem.packet_bytes
    rows = np.empty(CANDIDATE_ROWS * LANES)
    for lane in range(LANES):
        watermark = block[min(lane, len(block) - 1)]
        kmin, kmax = watermark.kmin_bytes / packet, watermark.kmax_bytes / packet
        rows[KMIN + lane] = kmin
        rows[KMAX + lane] = kmax
        rows[SLOPE + lane] = watermark.pmax / (kmax - kmin)
        rows[PMAX + lane] = min(watermark.pmax, SURE_MARK)
    return bool(
        run(
            -(-len(block) // VECTOR) * VECTOR,
            problem.groups,
            problem.fabric,
            problem.sender,
            problem.clock,
            rows,
            problem.monitored,
            packet,
            problem.probed,
            problem.drawn,
            buffers,
        )
    )


def _read(
    scenario: Scenario, problem: Problem, block: Sequence[Watermark], buffers: Buffers, enough: bool
) -> list[Prediction]:
    if not enough:
        return [Prediction.failed(watermark, SolveStatus.BUDGET) for watermark in block]
    clock, packet = problem.clock, problem.packet_bytes
    samples = clock.window_end - clock.window_begin
    window_s = samples * clock.step
    figures = buffers.tally.reshape(TALLY_ROWS, LANES)
    port_means = buffers.ports[problem.monitored, QUEUE_SUM : QUEUE_SUM + LANES] / samples * packet
    finite = np.isfinite(np.concatenate([figures, port_means])).all(axis=0).tolist()
    means = port_means.mean(axis=0)
    p99 = _quantiles_bytes(buffers.histogram[: len(block)], 0.99)
    tally = buffers.tally.tolist()
    predictions = []
    for lane, watermark in enumerate(block):
        if not finite[lane]:
            predictions.append(Prediction.failed(watermark, SolveStatus.DIVERGED))
            continue
        peak, delivered = tally[PEAK + lane] * packet, tally[DELIVERED + lane]
        finish_s = buffers.finish[problem.group_of_flow, lane]
        completion_s = np.where(finish_s < scenario.duration_s, finish_s - scenario.flows.start_s, np.nan)
        predictions.append(
            Prediction(
                watermark=watermark,
                status=SolveStatus.OK,
                queue_mean_bytes=float(means[lane]),
                queue_p99_bytes=min(float(p99[lane]), peak),
                queue_peak_bytes=peak,
                goodput_bytes_per_s=delivered * scenario.mtu_payload_bytes / window_s,
                marked_fraction=min(tally[MARKED + lane] / delivered, 1.0) if delivered > 0 else 0.0,
                loss_bytes=tally[LOST + lane] * packet,
                pfc_pause_s=tally[PAUSE_TIME + lane],
                slowdown=slowdown_by_class(scenario, completion_s),
                port_queue_mean_bytes=tuple(port_means[:, lane].tolist()),
                **gain_parts(
                    scenario,
                    completion_s,
                    _blocks(problem, buffers, lane, scenario.mtu_payload_bytes),
                ),
            )
        )
    return predictions


def _blocks(problem: Problem, buffers: Buffers, lane: int, payload_bytes: float) -> Blocks:
    """Pauses and losses are counted inside the window only; what was sent is what was delivered or lost."""
    rows = np.diff(buffers.by_block, axis=0, prepend=0.0)
    clock, packet = problem.clock, problem.packet_bytes
    delivered, lost = rows[:, DELIVERED + lane], rows[:, LOST + lane]
    window_s = np.diff(clock.block_ends, prepend=clock.window_begin) * clock.step
    return Blocks(
        probes=buffers.probes[lane],
        delivered_bytes=delivered * payload_bytes,
        paused_s=rows[:, PAUSE_TIME + lane],
        lost_bytes=lost * packet,
        sent_bytes=(delivered + lost) * packet,
        window_s=window_s,
        counted_s=window_s,
    )


def _quantiles_bytes(histogram: NDArray[np.int32], share: float) -> Floats:
    """A quantile of each lane's binned queue, linear inside its bin (a bin is 0.5 % wide)."""
    cumulated = np.cumsum(histogram, axis=1, dtype=np.int32)
    wanted = share * cumulated[:, -1]
    # Counts are whole, so ≥ ``wanted`` is ≥ its ceiling.
    bins = np.count_nonzero(cumulated < np.ceil(wanted).astype(np.int32)[:, None], axis=1)
    lanes = np.arange(len(bins))
    inside = histogram[lanes, bins]
    below = cumulated[lanes, bins] - inside
    edges = (np.stack([bins, bins + 1]) + HISTOGRAM_FIRST).astype(np.uint64) << np.uint64(HISTOGRAM_SHIFT)
    low, high = edges.view(np.float64) - 1.0
    quantiles = low + (wanted - below) / np.maximum(inside, 1) * (high - low)
    # The first bin holds empty queues: exactly 0.
    return np.where(bins > 0, quantiles, 0.0)
