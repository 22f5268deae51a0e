"""The packet engine: runs a scenario's flows packet by packet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from twin.packet.fabric import Fabric
from twin.packet.layout import PacketSettings
from twin.packet.plan import FabricPlan
from twin.packet.results import Measured
from twin.prediction import BLOCKS, Prediction, SolveStatus, Trajectory, slowdown_by_class
from twin.probe.figures import Blocks, gain_parts
from twin.scenario import Scenario
from twin.watermark import Setting


class PacketEngine:
    """Predicts by carrying every packet."""

    name = "packet"

    def __init__(self, settings: PacketSettings | None = None) -> None:
        self.settings = settings or PacketSettings()

    def predict(self, scenario: Scenario, watermarks: Sequence[Setting], *, seed: int) -> list[Prediction]:
        """One prediction per watermark, all with common random numbers."""
        return [self._predict(scenario, watermark, seed) for watermark in watermarks]

    def trajectory(
        self, scenario: Scenario, watermark: Setting, *, seed: int, sample_s: float = 1e-5
    ) -> Trajectory:
        """Depths of the monitored queues every ``sample_s``."""
        fabric = self._fabric(scenario, watermark, seed)
        time_s = np.arange(math.ceil(scenario.duration_s / sample_s - 1e-9), dtype=np.float64) * sample_s
        series = np.empty((len(scenario.monitored), len(time_s)))
        for k, at_s in enumerate(time_s.tolist()):
            fabric.advance(at_s)
            series[:, k] = fabric.depths_bytes(scenario.monitored)
        return Trajectory(watermark, time_s, series)

    def _fabric(self, scenario: Scenario, watermark: Setting, seed: int) -> Fabric:
        fabric = Fabric(
            FabricPlan.of(scenario),
            watermark=watermark.usual,
            seed=seed,
            settings=self.settings,
            monitored=scenario.monitored,
            background=scenario.background,
        )
        for role, own in watermark.exceptions:
            fabric.set_watermark(np.flatnonzero(np.array(scenario.port_roles) == role).tolist(), own)
        fabric.offer_routed(scenario.flows)
        return fabric

    def _predict(self, scenario: Scenario, watermark: Setting, seed: int) -> Prediction:
        fabric = self._fabric(scenario, watermark, seed)
        begin_s, end_s = scenario.window_s
        end_s = min(end_s, scenario.duration_s)  # they may differ by a rounding error
        completion_s, started_s = np.full(len(scenario.flows), np.nan), scenario.flows.start_s.copy()
        if scenario.flows.waits is not None:
            started_s[scenario.flows.waits.waiting] = np.nan
        ends_s = [*(begin_s + (end_s - begin_s) * np.arange(1, BLOCKS) / BLOCKS).tolist(), end_s]
        begun = fabric.measured()
        closed = []
        for until_s in (begin_s, *ends_s, scenario.duration_s):
            over = fabric.advance(until_s).completions
            completion_s[over.flow] = over.end_s - over.start_s
            started_s[over.flow] = over.start_s
            if until_s == begin_s:
                fabric.forget_depths()
            closed.append(fabric.measured())
        opened, *closed, whole = closed
        window = closed[-1].since(opened)
        monitored = list(scenario.monitored)
        samples = max(window.depth_samples, 1)
        means = window.depth_sum_bytes[monitored] / samples
        acknowledged, running = fabric.acknowledged_bytes(), fabric.under_way(endless=True)
        started_s[running.flow] = running.start_s
        sent = float(window.sent_packets[monitored].sum())
        peak = float(closed[-1].depth_peak_bytes[monitored].max())
        return Prediction(
            watermark=watermark,
            status=SolveStatus.OK,
            queue_mean_bytes=float(means.mean()),
            queue_p99_bytes=min(window.queue_quantile_bytes(0.99), peak),
            queue_peak_bytes=peak,
            goodput_bytes_per_s=window.delivered_bytes / (end_s - begin_s),
            marked_fraction=float(window.marked_packets[monitored].sum()) / max(sent, 1.0),
            loss_bytes=float(whole.dropped_wire_bytes.sum()),
            pfc_pause_s=float(whole.paused_s.sum()),
            slowdown=slowdown_by_class(scenario, completion_s, acknowledged, started_s),
            port_queue_mean_bytes=tuple(means.tolist()),
            **gain_parts(
                scenario, completion_s, _blocks(begun, opened, closed, whole), acknowledged, started_s
            ),
        )


def _blocks(begun: Measured, opened: Measured, closed: list[Measured], whole: Measured) -> Blocks:
    """Blocks from the totals at the begin, as the window opens, as each block ends, and at the end."""
    inside = [one.since(before) for before, one in pairwise([opened, *closed])]
    counted = [one.since(before) for before, one in pairwise([begun, *closed[:-1], whole])]
    return Blocks(
        probes=np.array([one.probe_counts for one in inside]),
        delivered_bytes=np.array([one.delivered_bytes for one in inside]),
        paused_s=np.array([one.paused_s.sum() for one in counted]),
        lost_bytes=np.array([one.dropped_wire_bytes.sum() for one in counted]),
        sent_bytes=np.array([one.injected_wire_bytes for one in counted]),
        window_s=np.diff([one.now_s for one in [opened, *closed]]),
        counted_s=np.diff([one.now_s for one in [begun, *closed[:-1], whole]]),
    )
