"""The replay engine: runs every flow again, with its own reaction point, over fluid queues."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from twin.prediction import (
    Prediction,
    SolveStatus,
    Trajectory,
    bins_of,
    histogram_quantile,
    slowdown_by_class,
)
from twin.probe.figures import Blocks, gain_parts
from twin.replay import layout
from twin.replay._kernels import DONE, SHORT, replay
from twin.replay.layout import Tables
from twin.replay.plan import allocate, compile_params, compile_tables, queue_ports
from twin.scenario import Background, Scenario
from twin.senders.dcqcn import DcqcnParams
from twin.watermark import Setting, curves_of

STEP_S = 2e-6  # 24 packets at 100 Gbit/s, a 25th of the CNP interval; docs/adr/0004-replay.md has the choice
LEAST_STEP_S = 1e-7  # about a packet at 100 Gbit/s: below it there is nothing to resolve


class ReplayEngine:
    """Predicts by replaying the scenario's flows."""

    name = "replay"

    def __init__(self, step_s: float | None = None) -> None:
        """``step_s`` None takes ``STEP_S``, or less for fast clocks."""
        self._step_s = step_s

    def predict(self, scenario: Scenario, watermarks: Sequence[Setting], *, seed: int) -> list[Prediction]:
        """One prediction per watermark, all with common random numbers.

        Raises ``ScenarioError`` for senders other than DCQCN.
        """
        run = _Run(scenario, self._step_s or step_of(scenario.dcqcn_run))
        return [run.predict(watermark, seed) for watermark in watermarks]

    def record(
        self, scenario: Scenario, watermark: Setting, *, seed: int, group_of: Mapping[int, int]
    ) -> tuple[Prediction, list[Background]]:
        """A prediction, and what each group of flows, and last all flows, brought to every port meanwhile.

        ``group_of`` numbers the groups from 0, by the last port of their flows' paths.
        """
        run = _Run(scenario, self._step_s or step_of(scenario.dcqcn_run), group_of)
        prediction = run.predict(watermark, seed)
        nics = sorted({path[0] for path in scenario.flows.routes[0]})
        ports = np.array([*queue_ports(scenario), *nics], dtype=np.int32)
        wire_bytes, n_flows = run.work.recorded, np.zeros_like(run.work.recorded)
        n_flows[:, -len(nics) :] = run.work.recorded_flows
        bin_s = layout.BIN_STEPS * run.step_s
        groups = [
            Background(ports=ports, bin_s=bin_s, wire_bytes=carried, n_flows=sharing)
            for carried, sharing in zip(wire_bytes[:-1], n_flows[:-1], strict=True)
        ]
        everything = Background(
            ports=ports, bin_s=bin_s, wire_bytes=wire_bytes.sum(axis=0), n_flows=n_flows.sum(axis=0)
        )
        return prediction, [*groups, everything]

    def trajectory(
        self, scenario: Scenario, watermark: Setting, *, seed: int, sample_s: float = 1e-5
    ) -> Trajectory:
        """Depths of the monitored queues every ``sample_s`` (rounded to whole steps)."""
        run = _Run(scenario, self._step_s or step_of(scenario.dcqcn_run))
        every = max(1, round(sample_s / run.step_s))
        series = np.zeros((len(scenario.monitored), math.ceil(run.tables.n_steps / every)))
        finite = run.go(watermark, seed, series, every)
        time_s: NDArray[np.float64] = np.arange(series.shape[1], dtype=np.float64) * (every * run.step_s)
        status = SolveStatus.OK if finite else SolveStatus.DIVERGED
        return Trajectory(watermark, time_s, series, status)


def step_of(runs: Iterable[DcqcnParams]) -> float:
    """Seconds a step: at most half of the shortest interval between cuts."""
    return min(STEP_S, max(0.5 * min(params.cnp_interval_s for params in runs), LEAST_STEP_S))


class _Run:
    """A scenario's tables and working arrays, reused for each candidate."""

    def __init__(self, scenario: Scenario, step_s: float, group_of: Mapping[int, int] | None = None) -> None:
        scenario.check_dcqcn(ReplayEngine.name)
        self.scenario = scenario
        self.tables = compile_tables(scenario, step_s, group_of)
        self.params = compile_params(scenario.dcqcn_run, step_s)
        self.room = 1
        # The last group is of all flows that belong to none.
        self.n_groups = 0 if group_of is None else 2 + max(group_of.values())
        self.work = allocate(self.tables, n_groups=self.n_groups)
        self.step_s = step_s
        self.histogram = np.zeros(len(BIN_LOWER_BYTES), dtype=np.int64)
        self.totals = np.zeros(layout.N_TOTALS)
        self.tail_s = _tail_s(scenario, self.tables, step_s)

    def go(self, setting: Setting, seed: int, series: NDArray[np.float64], every: int) -> bool:
        """Run one candidate; returns whether every depth stayed finite."""
        code = self._once(setting, seed, series, every)
        while code == SHORT:
            self.room *= 2
            self.work = allocate(self.tables, self.room, self.n_groups)
            code = self._once(setting, seed, series, every)
        return code == DONE

    @cached_property
    def _roles(self) -> list[str | None]:
        """Per queue."""
        return [self.scenario.port_roles[port] for port in queue_ports(self.scenario)]

    def _once(self, setting: Setting, seed: int, series: NDArray[np.float64], every: int) -> int:
        self.histogram[:] = 0
        self.totals[:] = 0.0
        # Roles take a walk over the whole fabric, which one watermark for all ports does not need.
        self.work.curves[:] = curves_of(setting, self._roles if setting.exceptions else [None])
        series[:] = 0.0
        code: int = replay(
            self.tables,
            self.params,
            seed,
            self.work,
            self.histogram,
            self.totals,
            series,
            every,
        )
        return code

    def predict(self, watermark: Setting, seed: int) -> Prediction:
        if not self.go(watermark, seed, np.zeros((1, 1)), 0):
            return Prediction.failed(watermark, SolveStatus.DIVERGED)
        scenario, tables, totals = self.scenario, self.tables, self.totals
        steps = tables.window_last - tables.window_first
        monitored = tables.queues["monitored"] - 1
        means = np.zeros(len(scenario.monitored))
        means[monitored[monitored >= 0]] = tables.queues["depth_sum"][monitored >= 0] / steps
        payload_ratio = scenario.mtu_payload_bytes / scenario.packet_wire_bytes
        started_s = scenario.flows.start_s
        if scenario.flows.waits is not None:
            began = tables.flows["began"]
            started_s = np.where(began < tables.n_steps, began * self.step_s, np.nan)
        completion_s = tables.flows["completed"] * self.step_s + self.tail_s - started_s
        # One whose last byte is still under way is no longer with its NIC, which counts what it sent.
        sent = np.maximum(tables.flows["sent"], 0.0) * payload_ratio
        over = (tables.flows["sent"] < 0.0) & np.isfinite(scenario.flows.payload_bytes)
        sent = np.where(over, scenario.flows.payload_bytes, sent)
        blocks = self._blocks(payload_ratio)
        p99 = histogram_quantile(self.histogram, BIN_LOWER_BYTES, BIN_WIDTH_BYTES, 0.99)
        peak = float(totals[layout.PEAK])
        return Prediction(
            watermark=watermark,
            status=SolveStatus.OK,
            queue_mean_bytes=float(means.mean()),
            queue_p99_bytes=min(p99, peak),
            queue_peak_bytes=peak,
            goodput_bytes_per_s=float(totals[layout.DELIVERED]) * payload_ratio / (steps * self.step_s),
            marked_fraction=float(totals[layout.MARKED] / max(totals[layout.SENT], 1.0)),
            loss_bytes=float(totals[layout.LOST]),
            pfc_pause_s=float(totals[layout.PAUSED]) * self.step_s,
            slowdown=slowdown_by_class(scenario, completion_s, sent, started_s),
            port_queue_mean_bytes=tuple(means.tolist()),
            **gain_parts(scenario, completion_s, blocks, sent, started_s),
        )

    def _blocks(self, payload_ratio: float) -> Blocks:
        tables, counted = self.tables, np.diff(self.work.by_block, axis=0, prepend=0.0)
        ends = tables.block_ends
        return Blocks(
            probes=self.work.probes,
            delivered_bytes=counted[:, layout.DELIVERED] * payload_ratio,
            paused_s=counted[:, layout.PAUSED] * self.step_s,
            lost_bytes=counted[:, layout.LOST],
            sent_bytes=counted[:, layout.OFFERED],
            window_s=np.diff(ends, prepend=tables.window_first) * self.step_s,
            counted_s=np.diff([*ends[:-1], tables.n_steps], prepend=0) * self.step_s,
        )


BIN_LOWER_BYTES, BIN_WIDTH_BYTES = bins_of(
    (layout.FINE_BYTES, layout.FINE_BINS),
    (layout.COARSE_BYTES, layout.COARSE_BINS),
    (layout.DEEP_BYTES, layout.DEEP_BINS),
)


def _tail_s(scenario: Scenario, tables: Tables, step_s: float) -> NDArray[np.float64]:
    """Per flow: seconds from its last byte leaving the last queue to the last acknowledgement at the sender.

    ``Scenario.alone_s`` less serialisation and the cables that the kernel simulates, so that a flow alone on
    its path has a slowdown of 1.
    """
    of_flow = scenario.flows.routes[1]
    walked_s = tables.entries["walked"] * step_s
    slowest = scenario.over_paths(scenario.port_rate_bytes_per_s, np.minimum)
    alone_s = scenario.alone_s
    with np.errstate(invalid="ignore"):
        tail = alone_s - scenario.flow_wire_bytes / slowest[of_flow] - walked_s[of_flow]
    return np.where(np.isfinite(alone_s), tail, 0.0)
