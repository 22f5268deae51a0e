"""Alarms that began at once are a group: switches that went away, and one kind on several switches."""

from __future__ import annotations

from service.alarms.groups import AT_ONCE_S, IncastSite, JoinedAlarm, together
from telemetry.alarms import Alarm, Level, Subject


def alarm(
    kind: str,
    switch: str | None,
    *,
    since_s: float = 100.0,
    value: float = 1.0,
    seen_s: float = 200.0,
    level: Level = Level.WARNING,
    incast: IncastSite | None = None,
) -> JoinedAlarm:
    lead = Alarm(Subject(kind, switch or "INT reports", switch), level, value, 1.0, since_s, seen_s, "bad")
    return JoinedAlarm(f"{kind} {switch}", lead, (lead,), since_s, switch, incast)


def lasting(kind: str, switch: str | None, began_s: float, *, since_s: float) -> JoinedAlarm:
    """One whose value is for how long it has lasted, raised once that was long enough."""
    return alarm(kind, switch, since_s=since_s, value=200.0 - began_s)


def ids(*active: JoinedAlarm) -> list[list[str]]:
    return [[one.id for one in group.alarms] for group in together(active)]


DEAD = (
    lasting("telemetry_silent", None, 92.0, since_s=122.0),
    lasting("unreachable", "leaf1", 95.0, since_s=125.0),
    lasting("unreachable", "spine1", 95.0, since_s=125.0),
    lasting("switch_silent", "leaf1", 92.0, since_s=152.0),
    lasting("switch_silent", "spine1", 92.0, since_s=152.0),
)


def test_switches_that_went_away_at_once_are_one_group_however_late_each_was_told() -> None:
    (group,) = together(DEAD)
    assert group.alarms == DEAD
    assert (group.id, group.level) == ("telemetry_silent None", Level.WARNING)
    assert group.kinds == ("telemetry_silent", "unreachable", "switch_silent")
    assert group.switches == ("leaf1", "spine1")
    assert group.sentence == (
        "leaf1 and spine1, at once: telemetry silent, unreachable, switch silent; "
        "look first for one cause of all"
    )
    assert group.open_count({"unreachable leaf1", "another"}) == 4


def test_one_that_went_away_at_another_time_is_not_among_them() -> None:
    before = lasting("unreachable", "leaf9", 92.0 - AT_ONCE_S - 1.0, since_s=123.0)
    source = alarm("counter_source", "leaf9", since_s=92.0 - AT_ONCE_S)
    assert ids(before, *DEAD) == [[before.id], [one.id for one in DEAD]]
    assert ids(before, source) == [[before.id, source.id]]
    assert together([before, source])[0].sentence.startswith("leaf9, at once: unreachable, counter source;")


def test_one_kind_on_several_switches_is_a_group_and_other_kinds_are_not_in_it() -> None:
    worst = alarm("drifted", "leaf10", level=Level.CRITICAL, since_s=130.0)
    others = [alarm("drifted", f"leaf{number}", since_s=100.0) for number in range(2, 8)]
    other = alarm("ecn_off", "leaf3")
    later = alarm("drifted", "leaf9", since_s=130.0 + AT_ONCE_S + 1.0)
    found = together([worst, *others, other, later])
    assert [len(group.alarms) for group in found] == [7, 1, 1]
    assert (found[0].level, found[0].id) == (Level.CRITICAL, "drifted leaf2")
    assert found[0].sentence.startswith("leaf2, leaf3, leaf4, leaf5 and 3 more, at once: drifted;")


def test_what_is_on_no_switch_and_an_incast_stand_alone() -> None:
    site = IncastSite("h0", 9, "leaf1", "e0")
    active = [
        alarm("pfc_storm", "leaf1", incast=site),
        alarm("pfc_storm", "leaf2"),
        alarm("storage", None),
        alarm("history_lost", None),
    ]
    assert ids(*active) == [[one.id] for one in active]
    assert together([]) == ()
