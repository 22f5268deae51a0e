"""One rollout in the service, its plan, and the freeze that stops them all."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import Self

import msgspec

from rollout.plan import Figures, Limits, RolloutPlan, stages_of
from rollout.state import Action, Event, RolloutState
from service.rollouts.devices import MemberReading
from service.rollouts.watch import Mark, Watcher
from service.tuning.entry import Entry
from service.tuning.together import Part
from settings.model import RolloutSettings
from twin.search.push_gate import within_step
from twin.watermark import Watermark


@dataclass(frozen=True, slots=True)
class Freeze:
    """Whether switches may be set, who last changed that, and when (seconds since 1970; None: never).

    ``unknown`` says why earlier decisions could not be read yet; until then ``frozen`` is true. ``saved``:
    the journal has it, so that a restart keeps it.
    """

    frozen: bool = False
    by: str | None = None
    at_s: float | None = None
    unknown: str | None = None
    saved: bool = field(default=True, compare=False)  # one that is saved late is the same decision

    @classmethod
    def of(cls, document: str, at_s: float) -> Self:
        found = json.loads(document)
        return cls(bool(found["frozen"]), str(found["by"]), at_s)

    def document(self) -> bytes:
        return json.dumps({"frozen": self.frozen, "by": self.by}).encode()


@dataclass(slots=True)
class Rollout:
    """One rollout, its events and its running tasks, by member or by kind of action.

    ``events`` are those in the journal: repeated failures and measurements that change nothing are left out.
    ``differing`` holds the last readings of members that do not run what was set on them.
    """

    state: RolloutState
    events: list[Event]
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    recording: asyncio.Lock = field(default_factory=asyncio.Lock)
    under_way: dict[str | type[Action], asyncio.Task[None]] = field(default_factory=dict)
    differing: dict[str, MemberReading] = field(default_factory=dict)
    driver: asyncio.Task[None] | None = None
    stalled: str | None = None
    mark: tuple[float, Mark] | None = None

    @property
    def id(self) -> str:
        return self.state.plan.id


async def plan_of(
    rollout_id: str,
    entry: Entry,
    settings: RolloutSettings,
    watcher: Watcher,
    *,
    runs: Mapping[str, Watermark],
    written: Sequence[str],
    max_step: float,
    part: Part | None = None,
) -> RolloutPlan:
    """The plan to set what ``entry`` staged on the switches of ``runs``, which maps each to what it runs now.

    No value moves by more than the factor ``max_step``: a switch that runs something far off is taken part of
    the way. The canary is a leaf that is written, where there is one. With a ``part`` hosts are set too, and
    ports by role, and switches get the watermark that goes with that.
    """
    target = part.change.watermark if part else entry.staged or entry.watermark
    first = set(written or runs)  # a canary that is not written would show nothing
    stages = stages_of(
        runs,
        canary=[name for name in settings.canary if name in first],
        leaves=[name for name in entry.leaves if name in first] or sorted(first),
        batch_size=settings.batch_size,
    )
    if part is not None:
        stages = (*part.hosts, *stages) if part.change.nics_first else (*stages, *part.hosts)
    plan = RolloutPlan(
        id=rollout_id,
        recommendation=entry.id,
        targets={
            # Ports by role go all the way, or the change was refused.
            name: target if part and name in part.by_role else within_step(now, target, max_step)
            for name, now in runs.items()
        },
        stages=stages,
        limits=limits_of(settings, window_s=entry.window_s, max_step=max_step),
        written=(*written, *(part.written if part else ())),
        nics=part.nics if part else {},
        by_role=part.by_role if part else {},
    )
    # What one stage has watched, the next has too.
    watched = chain([()], map(plan.watched, range(len(stages))))
    before = tuple(await watcher.lately_each([now[len(last) :] for last, now in pairwise(watched)]))
    return msgspec.structs.replace(
        plan,
        before=before,
        predicted=tuple(
            _predicted(figures, _ratio(entry, plan, part, stage)) for stage, figures in enumerate(before)
        ),
    )


def _ratio(entry: Entry, plan: RolloutPlan, part: Part | None, stage: int) -> float | None:
    """The mean queue predicted after a stage ÷ the one before the rollout; on the way the larger of both ends
    of a part of it.
    """
    if part is None:
        return entry.queue_ratio
    if not part.hosts:
        return part.change.queue_ratio
    first_part = any(name in plan.nics for name in plan.stages[stage]) == part.change.nics_first
    ends = [part.change.queue_ratio_between, None if first_part else part.change.queue_ratio]
    return max((one for one in ends if one is not None), default=None)


def limits_of(settings: RolloutSettings, *, window_s: float = 0.0, max_step: float = math.inf) -> Limits:
    """Guards and waiting times of a rollout by these settings; ``window_s`` is the telemetry window."""
    return Limits(
        soak_s=settings.soak_s,
        batch_soak_s=settings.batch_soak_s,
        patience_s=settings.patience_s,
        unseen_s=settings.patience_s + settings.silence_s + 2 * window_s,
        max_step=max_step if math.isfinite(max_step) else None,
        missing_share=settings.nic_missing_share,
        pause_share=settings.pause_share_limit,
        pfc_frames_per_s=settings.pfc_frames_limit,
        drops_per_s=float(settings.drops_limit),
        queue_factor=settings.queue_limit,
        throughput_share=settings.throughput_limit,
        from_empty=True,
    )


def _predicted(before: Figures, ratio: float | None) -> Figures:
    """The twin's ports are not the queues that telemetry reports, so its prediction is applied as a ratio."""
    if ratio is None or before.queue_mean_bytes is None:
        return Figures()
    return Figures(queue_mean_bytes=before.queue_mean_bytes * ratio)
