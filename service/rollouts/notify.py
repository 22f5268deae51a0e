"""Tells metrics, events, the log, the history and the guard what happens to rollouts; must not act on it."""

from __future__ import annotations

import logging

from service.auth.audit import Audit
from service.events import Broadcaster
from service.fleet import Fleet
from service.metrics import Metrics
from service.rollouts.runner import Rollout
from service.tuning.gate import PushGate
from service.tuning.recommendations import RecommendationStore
from settings.security import Caller
from switches.rollout.events import Applying, Event, Failed, LeftAlone, RollbackAsked, ToSwitch, Undone
from switches.rollout.state import Phase, RolloutState

GUARD = Caller("policy (rollout's guard)", frozenset(), "local")

_log = logging.getLogger("ecntwin.rollouts")


class RolloutNews:
    """``heard`` is told of every event of every rollout, ``timed`` of every step."""

    def __init__(
        self,
        *,
        fleet: Fleet,
        store: RecommendationStore,
        gate: PushGate,
        metrics: Metrics,
        events: Broadcaster,
        audit: Audit,
    ) -> None:
        self._fleet = fleet
        self._store = store
        self._gate = gate
        self._metrics = metrics
        self._events = events
        self._audit = audit

    def heard(self, rollout: Rollout, before: RolloutState | None, event: Event) -> None:
        """Something happened to a rollout."""
        state = rollout.state
        self._store.follow(state.plan.recommendation, state)
        self._count(state, event)
        switch = event.switch if isinstance(event, ToSwitch) else None
        one = None if switch is None else state.switches.get(switch)
        entered = before is None or before.phase is not state.phase
        self._events.publish(
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
        if isinstance(event, Failed | LeftAlone):
            _log.warning("rollout %s: %s", rollout.id, event.sentence)
        if entered and state.phase is Phase.ROLLING_BACK and not isinstance(event, RollbackAsked):
            self._audit.noted(GUARD, "rollback", rollout.id, outcome=f"begun: {state.why}")
        if entered:
            why = f": {state.why}" if state.why and state.phase is not Phase.DONE else ""
            _log.info("rollout %s is %s%s", rollout.id, state.phase.value.replace("_", " "), why)
            if state.phase.ended:
                self._metrics.rollouts.labels(state.phase.value).inc()
                self._ended(state)

    def timed(self, switch: str, step: str, seconds: float) -> None:
        """A step on a switch took so long."""
        self._metrics.step_seconds.labels(self._fleet.kind(switch), step).observe(seconds)

    def _ended(self, state: RolloutState) -> None:
        if set(state.touched).intersection(state.plan.written):
            self._gate.watermark_changed()

    def _count(self, state: RolloutState, event: Event) -> None:
        match event:
            case Failed(switch=name, reason=reason):
                self._metrics.switch_failures.labels(self._fleet.kind(name), reason).inc()
            case Undone(switch=name):
                self._metrics.switch_rollbacks.labels(self._fleet.kind(name)).inc()
            case LeftAlone(switch=name):
                self._metrics.switch_failures.labels(self._fleet.kind(name), "concurrent_edit").inc()
            case Applying(switch=name) if name in state.plan.written:
                self._gate.watermark_changed()
