"""One rollout in the service, and the freeze that stops them all."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Self

from service.rollouts.watch import Mark
from switches.base import Reading
from switches.rollout.events import Event
from switches.rollout.state import Action, RolloutState


@dataclass(frozen=True, slots=True)
class Freeze:
    """Whether switches may be set; ``by`` whom and when (seconds since 1970) that last changed, None: never.

    ``unknown`` says why earlier decisions could not be read yet; until then ``frozen`` is true.
    """

    frozen: bool = False
    by: str | None = None
    at_s: float | None = None
    unknown: str | None = None

    @classmethod
    def of(cls, document: str, at_s: float) -> Self:
        found = json.loads(document)
        return cls(bool(found["frozen"]), str(found["by"]), at_s)


@dataclass(slots=True)
class Rollout:
    """One rollout, its events and its running tasks, by switch or by kind of action.

    ``events`` are those in the journal: repeated failures and measurements that change nothing are left out.
    ``differing`` holds the last readings of switches that do not run what was set on them.
    """

    state: RolloutState
    events: list[Event]
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    recording: asyncio.Lock = field(default_factory=asyncio.Lock)
    under_way: dict[str | type[Action], asyncio.Task[None]] = field(default_factory=dict)
    differing: dict[str, Reading] = field(default_factory=dict)
    driver: asyncio.Task[None] | None = None
    stalled: str | None = None
    mark: tuple[float, Mark] | None = None

    @property
    def id(self) -> str:
        return self.state.plan.id
