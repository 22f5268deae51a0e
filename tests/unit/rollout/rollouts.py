"""A rollout of three switches, a canary and two more, and the events that take it there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from rollout.machine import advance, begin
from rollout.plan import Figures, Limits, RolloutPlan
from rollout.state import (
    Applied,
    Applying,
    Approved,
    Checked,
    Confirmed,
    Event,
    Failed,
    Measured,
    Proposed,
    RolloutState,
    Staged,
    Step,
    Verified,
)
from switches.base import QueueWatermark, StagedChange
from twin.watermark import Watermark

OLD, NEW = Watermark(400_000, 1_600_000, 0.2), Watermark(50_000, 200_000, 0.05)
NAMES = ("a", "b", "c")
BEFORE = Figures(queue_mean_bytes=100_000.0, throughput_bytes_per_s=1e9, pause_share=0.0, drops_per_s=0.0)
GOOD = Figures(queue_mean_bytes=90_000.0, throughput_bytes_per_s=1e9, pause_share=0.0, drops_per_s=0.0)
T0 = 1_000.0


def change_of(name: str) -> StagedChange:
    before = (QueueWatermark("Ethernet0", 3, OLD),)
    return StagedChange(id=f"r-{name}", switch=name, asked=NEW, after=NEW, before=before, diff="-old\n+new")


def plan(
    *stages: tuple[str, ...], written: Iterable[str] | None = None, rollout_id: str = "r", **limits: Any
) -> RolloutPlan:
    stages = stages or (("a",), ("b", "c"))
    names = tuple(name for stage in stages for name in stage)
    return RolloutPlan(
        id=rollout_id,
        recommendation="x",
        targets=dict.fromkeys(names, NEW),
        stages=stages,
        limits=Limits(**({"soak_s": 10.0, "batch_soak_s": 0.0, "patience_s": 30.0} | limits)),
        before=(BEFORE,) * len(stages),
        written=names if written is None else tuple(written),
    )


def proposed(of: RolloutPlan | None = None) -> RolloutState:
    return begin(Proposed(at_s=T0, plan=of or plan()))


def after(state: RolloutState, *events: Event) -> RolloutState:
    for event in events:
        state = advance(state, event)
    return state


def approved(of: RolloutPlan | None = None) -> RolloutState:
    return after(proposed(of), Approved(at_s=T0, by="ada", checks=True))


def staged(of: RolloutPlan | None = None) -> RolloutState:
    state = approved(of)
    return after(state, *(Staged(at_s=T0 + 1, switch=name, change=change_of(name)) for name in state.members))


def setting(name: str, at_s: float = T0 + 2) -> tuple[Event, ...]:
    """All that happens to a switch that takes a change."""
    return (
        Applying(at_s=at_s, switch=name),
        Applied(at_s=at_s, switch=name),
        Verified(at_s=at_s, switch=name, runs=NEW),
        Confirmed(at_s=at_s, switch=name),
    )


def soaking(of: RolloutPlan | None = None) -> RolloutState:
    return after(staged(of), *setting("a"))


def measured(at_s: float, **figures: float | None) -> Measured:
    return Measured(at_s=at_s, figures=msgspec.structs.replace(GOOD, **figures))


def checked(*names: str, at_s: float = T0 + 12) -> Checked:
    return Checked(at_s=at_s, switches=names)


def in_the_fleet(of: RolloutPlan | None = None) -> RolloutState:
    return after(soaking(of), measured(T0 + 12), checked("a"))


def all_set(of: RolloutPlan | None = None) -> RolloutState:
    return after(in_the_fleet(of), *setting("b", T0 + 13), *setting("c", T0 + 13))


def done(of: RolloutPlan | None = None) -> RolloutState:
    return after(all_set(of), checked("a", "b", "c", at_s=T0 + 14))


def failed(name: str, step: Step, at_s: float, *, passing: bool = True) -> Failed:
    return Failed(
        at_s=at_s, switch=name, step=step, reason="unreachable", sentence=f"{name} is away", passing=passing
    )
