"""Events as lines for people."""

from __future__ import annotations

from typing import Any

import pytest

from cli.client import ServiceEvent
from cli.watch import REPORTS_EVERY_S, EventLines

RUNNING = {"kmin_bytes": 7_000, "kmax_bytes": 750_000, "pmax": 0.1}


class Hand:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def told(kind: str, /, **data: Any) -> str | None:
    line = EventLines(Hand()).line(ServiceEvent(kind, data))
    return None if line is None else line.plain


@pytest.mark.parametrize(
    ("kind", "data", "says"),
    [
        ("round", {"stage": "started"}, "started"),
        ("round", {"stage": "finished", "outcome": "change"}, "finished, change"),
        ("round", {"stage": "finished", "outcome": "failed", "detail": "why"}, "finished, failed: why"),
        ("recommendation", {"id": "a", "status": "pending", "why": "because"}, "a pending: because"),
        ("decision", {"id": "a", "status": "rolled_back", "by": None}, "a rolled back by –"),
        ("validity", {"id": "a", "status": "expired", "blocked": [], "expired": "Why."}, "a expired: Why."),
        ("validity", {"id": "a", "status": "pending", "blocked": ["B."]}, "a pending, blocked: B."),
        ("validity", {"id": "a", "status": "pending", "blocked": []}, "a pending, no longer blocked"),
        (
            "rollout",
            {"id": "a", "phase": "canary", "what": "LeftAlone", "switch": "leaf1", "why": None},
            "a canary: leaf1 left alone",
        ),
        ("rollout", {"id": "a", "phase": "proposed", "what": "Proposed", "switch": None}, "a proposed"),
        (
            "rollout",
            {"id": "a", "phase": "rolling_back", "what": "RollbackAsked", "why": "bob asked for it"},
            "a rolling back: rollback asked; bob asked for it",
        ),
        ("condition", {}, None),
        ("advice", {"why": "Keep: no gain is sure."}, "Keep: no gain is sure."),
        ("whatif", {"done": 3, "total": 4}, None),
        ("whatif", {"done": 4, "total": 4}, "4 predicted"),
        ("switch", {"switch": "leaf1", "reachable": False}, "leaf1 does not answer"),
        (
            "switch",
            {"switch": "leaf1", "reachable": True, "running": None},
            "leaf1 answers; queues differ",
        ),
        (
            "switch",
            {"switch": "leaf1", "reachable": True, "running": RUNNING, "drifted": True},
            "leaf1 runs Kmin 7 KB, Kmax 750 KB, Pmax 10 %, which is not what was set here",
        ),
        ("alarm", {"what": "raised", "kind": "k", "level": "critical", "sentence": "S"}, "critical k: S"),
        ("alarm", {"what": "cleared", "kind": "k", "subject": "leaf1"}, "cleared: k of leaf1"),
        ("alarm", {"what": "raised", "kind": "k", "level": "critical", "silenced": True}, None),
        ("alarm", {"what": "silences"}, None),
        ("alarm", {"what": "acknowledged", "kind": "k", "subject": "leaf1"}, "acknowledged: k of leaf1"),
        ("alarm", {"what": "more", "count": 9}, "9 more changed: ecntwin alarms"),
        ("newer", {"a": [1]}, '{"a":[1]}'),
    ],
)
def test_each_kind_has_its_words(kind: str, data: dict[str, Any], says: str | None) -> None:
    assert told(kind, **data) == says


@pytest.mark.parametrize(
    "kind",
    ["reports", "round", "recommendation", "decision", "validity", "rollout", "whatif", "switch", "alarm"],
)
def test_an_event_of_another_shape_breaks_nothing(kind: str) -> None:
    told(kind)
    keys = ("id", "status", "stage", "what", "accepted", "done", "running", "switch")
    told(kind, **{key: [] for key in keys})
    told(kind, reachable=True, running={"kmin_bytes": "x"}, accepted="many")


def test_progress_within_a_step_is_left_out() -> None:
    lines = EventLines(Hand())
    stages = ["started", "short", "short", "long", "long", "finished", "started"]
    shown = [lines.line(ServiceEvent("round", {"stage": stage})) is not None for stage in stages]
    assert shown == [True, True, False, True, False, True, True]


def test_reports_are_counted_together() -> None:
    hand = Hand()
    lines = EventLines(hand)
    event = ServiceEvent("reports", {"accepted": 1_000, "rejected": 1})
    first = lines.line(event)
    assert first is not None
    assert first.plain == "1 000 reports accepted, 1 rejected"
    hand.now_s += REPORTS_EVERY_S / 2
    assert lines.line(event) is None
    hand.now_s += REPORTS_EVERY_S
    second = lines.line(event)
    assert second is not None
    assert second.plain == "2 000 reports accepted, 2 rejected"


def test_a_gap_is_seen_unless_the_connection_is_new() -> None:
    lines = EventLines(Hand())
    missed = [lines.missed(ServiceEvent("round", {}, number)) for number in (5, 6, 9, None, 12)]
    assert missed == [0, 0, 2, 0, 0]
    lines.reconnected()
    assert lines.missed(ServiceEvent("round", {}, 1)) == 0
    assert lines.missed(ServiceEvent("round", {}, 2)) == 0
