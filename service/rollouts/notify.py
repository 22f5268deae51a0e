"""Publishes rollout events to metrics, event streams, the log, the audit log and the push gate."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from rollout.state import (
    Applying,
    Event,
    Failed,
    GivenUp,
    LeftAlone,
    Phase,
    RollbackAsked,
    RolloutState,
    ToMember,
    Undone,
    Verified,
)
from service.auth.audit import Audit
from service.events import Broadcaster
from service.history.gains import GainHistory
from service.ingest.window_owner import WindowOwner
from service.metrics import Metrics
from service.nics.polling import NicPolling
from service.rollouts.rollout import Rollout
from service.switches.fleet import Fleet
from service.tuning.gate import PushGate
from service.tuning.recommendations import RecommendationStore
from settings.security import Caller

GUARD = Caller("policy (rollout's guard)", frozenset(), "local")

_log = logging.getLogger("ecntwin.rollouts")


@dataclass(kw_only=True)
class RolloutNotifier:
    fleet: Fleet
    nics: NicPolling
    store: RecommendationStore
    gate: PushGate
    metrics: Metrics
    events: Broadcaster
    audit: Audit
    gains: GainHistory
    window: WindowOwner

    def event(self, rollout: Rollout, before: RolloutState | None, event: Event) -> None:
        """Publishes an event that took a rollout from ``before`` (None: it is new) to its state now."""
        state = rollout.state
        self.store.follow(state.plan.recommendation, state)
        self.gains.follow(state, self.store.find(state.plan.recommendation))
        self._count(state, event)
        switch = event.switch if isinstance(event, ToMember) else None
        one = None if switch is None else state.members.get(switch)
        entered = before is None or before.phase is not state.phase
        self.events.publish(
            "rollout",
            {
                "id": rollout.id,
                "phase": state.phase.value,
                "what": type(event).__name__,
                "switch": switch,
                "progress": None if one is None else one.progress.value,
                "why": state.why,
            },
        )
        if isinstance(event, Failed | LeftAlone | GivenUp):
            _log.warning("rollout %s: %s", rollout.id, event.sentence)
        if entered and state.phase is Phase.ROLLING_BACK and not isinstance(event, RollbackAsked):
            self.audit.noted(GUARD, "rollback", rollout.id, outcome=f"begun: {state.why}")
        if before is None:
            self.metrics.rollouts_begun.inc()
        if entered:
            why = f": {state.why}" if state.why and state.phase is not Phase.DONE else ""
            _log.info("rollout %s is %s%s", rollout.id, state.phase.value.replace("_", " "), why)
            if state.phase.ended:
                self.metrics.rollouts.labels(state.phase.value).inc()
                if set(state.touched).intersection(state.plan.written):
                    self.gate.watermark_changed()

    def step_timed(self, state: RolloutState, member: str, step: str, seconds: float) -> None:
        self.metrics.step_seconds.labels(self._kind(state, member), step).observe(seconds)

    def _kind(self, state: RolloutState, member: str) -> str:
        return self.nics.kind(member) if member in state.plan.nics else self.fleet.kind(member)

    def _count(self, state: RolloutState, event: Event) -> None:
        match event:
            case Failed(switch=name, reason=reason):
                self.metrics.switch_failures.labels(self._kind(state, name), reason).inc()
            case Undone(switch=name):
                self.metrics.switch_rollbacks.labels(self._kind(state, name)).inc()
            case LeftAlone(switch=name):
                self.metrics.switch_failures.labels(self._kind(state, name), "concurrent_edit").inc()
            case Applying(switch=name) if name in state.plan.written:
                self.gate.watermark_changed()
        if isinstance(event, Verified | Undone) and event.switch in state.plan.written:
            self.window.device_set()
