"""The plan of a recommendation's rollout: switches in stages, their targets, and limits."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from service.rollouts.watch import Watcher
from service.tuning.entry import Entry
from settings.model import RolloutSettings
from switches.rollout.plan import Figures, Limits, RolloutPlan, stages_of
from twin.search.push_gate import within_step
from twin.watermark import Watermark


async def plan_of(
    rollout_id: str,
    entry: Entry,
    settings: RolloutSettings,
    watcher: Watcher,
    *,
    runs: Mapping[str, Watermark],
    written: Sequence[str],
    max_step: float,
) -> RolloutPlan:
    """The plan to set what ``entry`` staged on the switches of ``runs``, which maps each to what it runs now.

    No value moves by more than the factor ``max_step``: a switch that runs something far off is taken part of
    the way. The canary is a leaf that is written, where there is one.
    """
    target = entry.staged or entry.watermark
    first = set(written or runs)  # a canary that is not written shows nothing
    stages = stages_of(
        runs,
        canary=[name for name in settings.canary if name in first],
        leaves=[name for name in entry.leaves if name in first] or sorted(first),
        batch_size=settings.batch_size,
    )
    before = []
    for stage in range(len(stages)):
        before.append(await watcher.lately([name for names in stages[: stage + 1] for name in names]))
    return RolloutPlan(
        id=rollout_id,
        recommendation=entry.id,
        targets={name: within_step(now, target, max_step) for name, now in runs.items()},
        stages=stages,
        limits=limits_of(settings, window_s=entry.window_s, max_step=max_step),
        before=tuple(before),
        predicted=tuple(_predicted(figures, entry.queue_ratio) for figures in before),
        written=tuple(written),
    )


def limits_of(settings: RolloutSettings, *, window_s: float = 0.0, max_step: float = math.inf) -> Limits:
    """When a rollout waits and rolls back under these settings; ``window_s`` is the telemetry window."""
    return Limits(
        soak_s=settings.soak_s,
        batch_soak_s=settings.batch_soak_s,
        patience_s=settings.patience_s,
        unseen_s=settings.patience_s + settings.silence_s + 2 * window_s,
        max_step=max_step if math.isfinite(max_step) else None,
        pause_share=settings.pause_share_limit,
        pfc_frames_per_s=settings.pfc_frames_limit,
        drops_per_s=float(settings.drops_limit),
        queue_factor=settings.queue_limit,
        throughput_share=settings.throughput_limit,
    )


def _predicted(before: Figures, ratio: float | None) -> Figures:
    """The twin's ports are not telemetry's queues, so its prediction is applied as a ratio."""
    if ratio is None or before.queue_mean_bytes is None:
        return Figures()
    return Figures(queue_mean_bytes=before.queue_mean_bytes * ratio)
