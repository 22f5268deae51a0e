"""Deterministic engines for tests of the search: closed formulas, importable by worker processes."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from twin.prediction import Prediction, Slowdown, SolveStatus, Trajectory
from twin.scenario import Scenario
from twin.watermark import Watermark

HERE = "tests.unit.twin.analytic_engine"


class AnalyticEngine:
    """Queue grows with the thresholds; elephants gain from them by ever less. The best balance is in between.

    Figures scale with the window, lightly and differently per watermark, and a seed moves them by a percent.
    """

    name = "analytic"

    def predict(self, scenario: Scenario, watermarks: Sequence[Watermark], *, seed: int) -> list[Prediction]:
        return [self.one(scenario, watermark, seed) for watermark in watermarks]

    def one(self, scenario: Scenario, watermark: Watermark, seed: int) -> Prediction:
        noise = (
            np.random.default_rng([seed, watermark.kmin_bytes, watermark.kmax_bytes])
            .normal(0.0, 0.01, 2)
            .tolist()
        )
        level = math.sqrt(watermark.kmin_bytes * watermark.kmax_bytes) / watermark.pmax**0.2
        short = 1.0 + 0.1 * math.exp(-scenario.duration_s / 0.01)
        queue = 2_000.0 + 0.1 * level * short * (1 + noise[0])
        elephant = (3.0 + 2e4 / (level + 2e3)) * (1 + noise[1])
        mice = 1.5 + queue / 1e4
        n_flows = len(scenario.flows)
        return Prediction(
            watermark=watermark,
            status=SolveStatus.OK,
            queue_mean_bytes=queue,
            queue_p99_bytes=8 * queue,
            queue_peak_bytes=12 * queue,
            goodput_bytes_per_s=1e8 * n_flows,
            marked_fraction=1e3 / (level + 1e3),
            loss_bytes=0.0,
            pfc_pause_s=max(0.0, (queue - 5e5) * 1e-8),
            slowdown={
                "all": Slowdown(2 * n_flows, elephant, 4 * elephant),
                "mice": Slowdown(n_flows, mice / 2, mice),
                "elephant": Slowdown(n_flows, elephant, 4 * elephant),
            },
            port_queue_mean_bytes=tuple(queue for _ in scenario.monitored),
        )

    def trajectory(
        self, scenario: Scenario, watermark: Watermark, *, seed: int, sample_s: float = 1e-5
    ) -> Trajectory:
        """Queues that fill in a straight line to twice their mean, each port to less than the one before."""
        time_s = np.arange(max(math.ceil(scenario.duration_s / sample_s - 1e-9), 1)) * sample_s
        mean = self.one(scenario, watermark, seed).queue_mean_bytes
        share = 1.0 / np.arange(1, len(scenario.monitored) + 1)
        return Trajectory(watermark, time_s, np.outer(share, 2 * mean * time_s / scenario.duration_s))


class NoTrajectoryEngine(AnalyticEngine):
    """Cannot show a queue over time."""

    def trajectory(
        self, scenario: Scenario, watermark: Watermark, *, seed: int, sample_s: float = 1e-5
    ) -> Trajectory:
        raise NotImplementedError("only figures, no curves")


class DivergingTrajectoryEngine(AnalyticEngine):
    """Its figures are finite, its curves are not."""

    def trajectory(
        self, scenario: Scenario, watermark: Watermark, *, seed: int, sample_s: float = 1e-5
    ) -> Trajectory:
        found = super().trajectory(scenario, watermark, seed=seed, sample_s=sample_s)
        return replace(found, status=SolveStatus.DIVERGED)


class PinnedEngine(AnalyticEngine):
    """The queue and the pauses do not answer to the watermark."""

    def one(self, scenario: Scenario, watermark: Watermark, seed: int) -> Prediction:
        moved = 1 + 0.02 * math.sin(watermark.kmin_bytes)
        return replace(
            super().one(scenario, watermark, seed),
            queue_mean_bytes=8e6 * moved,
            pfc_pause_s=0.4 * moved,
            goodput_bytes_per_s=1.2e10,
            slowdown={},
        )


class IdleEngine(AnalyticEngine):
    """Queues stay empty."""

    def one(self, scenario: Scenario, watermark: Watermark, seed: int) -> Prediction:
        return replace(super().one(scenario, watermark, seed), queue_mean_bytes=400.0, pfc_pause_s=0.0)


class DivergingAboveEngine(AnalyticEngine):
    """Runs with Kmin above 100 KB fail."""

    def one(self, scenario: Scenario, watermark: Watermark, seed: int) -> Prediction:
        if watermark.kmin_bytes > 100_000:
            return Prediction.failed(watermark, SolveStatus.DIVERGED)
        return super().one(scenario, watermark, seed)


class DivergingEngine(AnalyticEngine):
    """Every run fails."""

    def one(self, scenario: Scenario, watermark: Watermark, seed: int) -> Prediction:
        return Prediction.failed(watermark, SolveStatus.DIVERGED)


class TooLargeEngine(AnalyticEngine):
    """Needs an array that no machine has room for."""

    def one(self, scenario: Scenario, watermark: Watermark, seed: int) -> Prediction:
        np.empty((1 << 40, 1 << 17))
        return super().one(scenario, watermark, seed)


class RaisingEngine(AnalyticEngine):
    """Breaks the promise never to raise."""

    def one(self, scenario: Scenario, watermark: Watermark, seed: int) -> Prediction:
        raise RuntimeError("a kernel went wrong")


class DyingOnceEngine(AnalyticEngine):
    """Kills its own process at the NVIDIA row, once; the scenario's name is the marker file."""

    def one(self, scenario: Scenario, watermark: Watermark, seed: int) -> Prediction:
        marker = Path(scenario.name)
        if watermark == Watermark(150_000, 1_500_000, 1.0) and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().one(scenario, watermark, seed)


class AlwaysDyingEngine(AnalyticEngine):
    """Kills its own process whenever it meets the NVIDIA row."""

    def one(self, scenario: Scenario, watermark: Watermark, seed: int) -> Prediction:
        if watermark == Watermark(150_000, 1_500_000, 1.0):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().one(scenario, watermark, seed)


class FatalEngine(AnalyticEngine):
    """Kills its own process, whatever it is asked."""

    def one(self, scenario: Scenario, watermark: Watermark, seed: int) -> Prediction:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("a process outlives SIGKILL")


class SigningEngine(AnalyticEngine):
    """Leaves a file named by its process in the folder that is the scenario's name."""

    def one(self, scenario: Scenario, watermark: Watermark, seed: int) -> Prediction:
        (Path(scenario.name) / str(os.getpid())).touch()
        return super().one(scenario, watermark, seed)


class EndlessEngine(AnalyticEngine):
    """Leaves a file that is the scenario's name, and never answers."""

    def one(self, scenario: Scenario, watermark: Watermark, seed: int) -> Prediction:
        Path(scenario.name).touch()
        while True:
            signal.pause()


class LongerQueuesEngine(AnalyticEngine):
    """As the analytic engine, every queue 1.6 times as long: off, in the same order."""

    def one(self, scenario: Scenario, watermark: Watermark, seed: int) -> Prediction:
        found = super().one(scenario, watermark, seed)
        return replace(
            found,
            queue_mean_bytes=1.6 * found.queue_mean_bytes,
            queue_p99_bytes=1.6 * found.queue_p99_bytes,
            queue_peak_bytes=1.6 * found.queue_peak_bytes,
        )


class UnmovedElephantsEngine(AnalyticEngine):
    """Elephants do not mind short thresholds: the lowest queue is best."""

    def one(self, scenario: Scenario, watermark: Watermark, seed: int) -> Prediction:
        found = super().one(scenario, watermark, seed)
        elephant = found.slowdown["elephant"]
        return replace(found, slowdown=found.slowdown | {"elephant": replace(elephant, mean=3.1)})


class NeverSecondEngine(AnalyticEngine):
    """Fails every watermark but the usual incumbent."""

    def one(self, scenario: Scenario, watermark: Watermark, seed: int) -> Prediction:
        if watermark != Watermark(400_000, 1_600_000, 0.2):
            return Prediction.failed(watermark, SolveStatus.BUDGET)
        return super().one(scenario, watermark, seed)


class PriorityEngine(AnalyticEngine):
    """Answers with the niceness of its process as the queue."""

    def one(self, scenario: Scenario, watermark: Watermark, seed: int) -> Prediction:
        niceness = os.getpriority(os.PRIO_PROCESS, 0)
        return replace(super().one(scenario, watermark, seed), queue_mean_bytes=float(niceness))


class ShakyEngine(AnalyticEngine):
    """Small messages suffer from long queues more in one moment than in the next, by its length."""

    def one(self, scenario: Scenario, watermark: Watermark, seed: int) -> Prediction:
        found = super().one(scenario, watermark, seed)
        shift = math.sin(1e5 * scenario.duration_s)
        mice = found.slowdown["mice"]
        p99 = mice.p99 ** (1.0 + 0.5 * shift)
        return replace(found, slowdown=found.slowdown | {"mice": Slowdown(mice.n, p99 / 2, p99)})


class NewestFavouringEngine(AnalyticEngine):
    """In a short moment elephants are up to twice as fast under others than the usual incumbent."""

    def one(self, scenario: Scenario, watermark: Watermark, seed: int) -> Prediction:
        found = super().one(scenario, watermark, seed)
        if scenario.duration_s > 0.015:
            return found
        elephant = found.slowdown["elephant"]
        faster = 1.0 + min(watermark.distance_to(Watermark(400_000, 1_600_000, 0.2)), 1.0)
        changed = {"elephant": replace(elephant, mean=elephant.mean / faster)}
        return replace(found, slowdown=found.slowdown | changed)
