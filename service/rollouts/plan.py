"""A recommendation's rollout: which switches in which order, to what, judged by what; must not begin it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from service.rollouts.watch import Watcher
from service.tuning.recommendations import KeptRound
from settings.model import RolloutSettings
from switches.rollout.plan import Figures, Limits, RolloutPlan, stages_of
from twin.search.push_gate import within_step
from twin.watermark import Watermark


async def plan_of(
    rollout_id: str,
    recommendation_id: str,
    kept: KeptRound,
    watermark: Watermark,
    settings: RolloutSettings,
    watcher: Watcher,
    *,
    runs: Mapping[str, Watermark],
    written: Sequence[str],
    max_step: float,
) -> RolloutPlan:
    """The plan to take ``watermark`` to the switches of ``runs``, which is what each of them runs now.

    No switch's value moves by more than the factor ``max_step``: one that runs something far off is taken
    part of the way. The canary is a leaf that is written, where there is one.
    """
    first = set(written or runs)  # a canary that is not set shows nothing
    stages = stages_of(
        runs,
        canary=[name for name in settings.canary if name in first],
        leaves=[name for name in kept.leaves if name in first] or sorted(first),
        batch_size=settings.batch_size,
    )
    before = []
    for stage in range(len(stages)):
        before.append(await watcher.lately([name for names in stages[: stage + 1] for name in names]))
    return RolloutPlan(
        id=rollout_id,
        recommendation=recommendation_id,
        targets={name: within_step(now, watermark, max_step) for name, now in runs.items()},
        stages=stages,
        limits=limits_of(settings, window_s=kept.window_s, max_step=max_step),
        before=tuple(before),
        predicted=tuple(_predicted(figures, kept.queue_ratio) for figures in before),
        written=tuple(written),
    )


def limits_of(settings: RolloutSettings, *, window_s: float = 0.0, max_step: float = math.inf) -> Limits:
    """When a rollout waits and turns back under these settings; ``window_s`` is what a look at telemetry
    looks back.
    """
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
    """The twin's ports are not telemetry's queues: its prediction counts as a change of what was measured."""
    if ratio is None or before.queue_mean_bytes is None:
        return Figures()
    return Figures(queue_mean_bytes=before.queue_mean_bytes * ratio)
