"""Queue depths over time under several watermarks, on one coarse grid."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from twin.errors import SearchError
from twin.prediction import SolveStatus, Trajectory
from twin.scenario import Scenario
from twin.watermark import Setting, Watermark
from twin.workers.pool import Workers, answering, shipped_scenario

MOST_QUEUES = 8
MOST_STEPS = 240
SAMPLES_A_STEP = 10
FINEST_S = 2e-6  # between samples: a step of the replay engine


@dataclass(frozen=True, slots=True)
class Trajectories:
    """Depths of the deepest queues on one grid: ``depth_bytes[watermark][queue][step]``, whole bytes.

    A depth is the mean of the samples in a step of ``step_s`` seconds; the last step may be cut by the end of
    the run, ``window_s`` after its start. ``queues`` are (switch, port), the deepest first; those that stay
    empty under every watermark are left out.
    """

    watermarks: tuple[Watermark, ...]
    window_s: float
    step_s: float
    queues: tuple[tuple[str, str], ...]
    depth_bytes: tuple[tuple[tuple[int, ...], ...], ...]


@dataclass(frozen=True, slots=True)
class TrajectoryTask:
    """One watermark's trajectory, on the scenario in ``scenario_file`` cut at ``duration_s``."""

    scenario_file: Path
    engine: str
    duration_s: float
    watermark: Setting
    seed: int

    def run(self) -> Trajectory:
        """The trajectory in at most ``MOST_STEPS`` steps; raises ``SearchError`` where the engine raises."""
        sample_s = max(self.duration_s / (MOST_STEPS * SAMPLES_A_STEP), FINEST_S)
        with answering(self.engine) as engine:
            scenario = shipped_scenario(self.scenario_file, self.duration_s)
            found = engine.trajectory(scenario, self.watermark, seed=self.seed, sample_s=sample_s)
            # Averaged in the worker, so that little is sent back.
            return averaged_over_steps(found, MOST_STEPS)


def predict_trajectories(
    scenario: Scenario,
    file: Path,
    watermarks: Sequence[Setting],
    *,
    engine: str,
    seed: int,
    workers: Workers,
    progress: Callable[[int, int], None],
) -> Trajectories:
    """The watermarks' trajectories on ``scenario``, which ``file`` holds; a repeated one runs once.

    ``progress(done, total)`` is called in this thread; an exception from it ends the work. Raises
    ``TwinError`` with the status of a run that fails.
    """
    tried = list(dict.fromkeys(watermarks))
    found: dict[Setting, Trajectory] = {}

    def enter(number: int, trajectory: Trajectory) -> None:
        found[tried[number]] = trajectory
        progress(len(found), len(tried))

    progress(0, len(tried))
    tasks = [TrajectoryTask(file, engine, scenario.duration_s, watermark, seed) for watermark in tried]
    workers.run(tasks, enter)
    return side_by_side([found[watermark] for watermark in watermarks], scenario)


def averaged_over_steps(trajectory: Trajectory, most: int) -> Trajectory:
    """Averaged over at most ``most`` equal steps, the last maybe shorter; times are the starts of steps."""
    n_samples = len(trajectory.time_s)
    first = np.arange(0, n_samples, max(math.ceil(n_samples / most), 1))
    sums = np.add.reduceat(trajectory.queue_bytes, first, axis=1)
    means = sums / np.diff(first, append=n_samples)
    return Trajectory(trajectory.watermark, trajectory.time_s[first], means, trajectory.status)


def side_by_side(trajectories: Sequence[Trajectory], scenario: Scenario) -> Trajectories:
    """Trajectories on one time grid as one record of the deepest queues.

    Depth is the mean over the run, under the watermark where it is largest; ties go by switch and port.
    Raises ``SearchError`` for a run that failed.
    """
    for one in trajectories:
        finite = bool(np.isfinite(one.queue_bytes).all())
        status = one.status if finite or one.status is not SolveStatus.OK else SolveStatus.DIVERGED
        if status is not SolveStatus.OK:
            rule = "a trajectory shows a run that reached its end"
            raise SearchError(f"trajectory of {one.watermark}", f"status {status.code}", rule, status.value)
    time_s = trajectories[0].time_s
    depths = np.stack([one.queue_bytes for one in trajectories])
    named = [(scenario.ports[port].node, scenario.ports[port].port) for port in scenario.monitored]
    mean = depths.mean(axis=2).max(axis=0)
    chosen = sorted(
        (row for row, (_, port) in enumerate(named) if port is not None and mean[row] > 0.0),
        key=lambda row: (-mean[row], named[row][0], named[row][1] or ""),
    )[:MOST_QUEUES]
    return Trajectories(
        watermarks=tuple(one.watermark.usual for one in trajectories),
        window_s=scenario.duration_s,
        step_s=float(time_s[1] - time_s[0]) if len(time_s) > 1 else scenario.duration_s,
        queues=tuple((node, port or "") for node, port in (named[row] for row in chosen)),
        depth_bytes=tuple(
            tuple(tuple(row) for row in np.rint(run[chosen]).astype(np.int64).tolist()) for run in depths
        ),
    )
