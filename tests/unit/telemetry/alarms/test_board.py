"""The alarm board: holding, clearing, subjects without measurements, bounds."""

from __future__ import annotations

import math

import pytest

from telemetry.alarms import FORGOTTEN, OUTDONE, AlarmBoard, Change, Finding, Level, Rule, Subject

RULE = Rule(warning=10.0, critical=100.0, hold_s=10.0, clear_s=20.0)
PORT = Subject("pause", "leaf1 Ethernet0", "leaf1")


def board(rule: Rule = RULE, **options: float) -> AlarmBoard:
    return AlarmBoard({"pause": rule}, **({"forget_s": 1_000.0} | options))  # type: ignore[arg-type]


def found(value: float, of: str = "leaf1 Ethernet0") -> Finding:
    return Finding(Subject("pause", of, "leaf1"), value, f"it is {value:g}")


def told(changes: tuple[Change, ...]) -> list[tuple[str, str]]:
    return [(change.what, change.alarm.level.label) for change in changes]


def through(made: AlarmBoard, *steps: tuple[float, float]) -> list[tuple[float, str, str]]:
    """The changes, by time, for values at times."""
    return [(at_s, *one) for at_s, value in steps for one in told(made.update(at_s, [found(value)]))]


def test_a_value_that_stays_over_the_threshold_is_raised_once() -> None:
    made = board()
    assert through(made, (0, 10), (5, 50), (9.9, 10), (10, 12), (15, 50), (90, 10)) == [
        (10, "raised", "warning")
    ]
    (alarm,) = made.active
    assert (alarm.subject, alarm.level, alarm.value, alarm.threshold) == (PORT, Level.WARNING, 10, 10)
    assert (alarm.since_s, alarm.seen_s, alarm.sentence) == (10, 90, "it is 10")
    assert alarm.ended_s is None


def test_one_look_below_the_threshold_begins_the_hold_anew() -> None:
    assert through(board(), (0, 10), (5, 9.9), (6, 10), (14, 10)) == []
    assert through(board(), (0, 10), (5, 9.9), (6, 10), (16, 10)) == [(16, "raised", "warning")]


def test_without_a_hold_it_is_raised_at_once() -> None:
    at_once = Rule(warning=10, critical=100, hold_s=0, clear_s=0)
    steps = [(0, 10), (1, 100), (2, 10), (3, 5), (4, 4.9)]
    assert through(board(at_once), *steps) == [
        (0, "raised", "warning"),
        (1, "level", "critical"),
        (2, "level", "warning"),
        (4, "cleared", "warning"),
    ]


def test_what_can_be_a_warning_at_most_is_one_however_large() -> None:
    made = board()
    changes = [made.update(at_s, [found(1e9)._replace(worst=Level.WARNING)]) for at_s in (0, 10, 20, 30)]
    assert [told(one) for one in changes] == [[], [("raised", "warning")], [], []]
    assert through(made, (40, 0), (61, 0)) == [(61, "cleared", "warning")]
    never = board(Rule(warning=None, critical=100, hold_s=0, clear_s=0))
    assert never.update(0, [found(1e9)._replace(worst=Level.WARNING)]) == ()
    assert len(never) == 0


def test_it_worsens_and_goes_down_level_by_level() -> None:
    made = board()
    steps = [(0, 500), (10, 500), (20, 60), (60, 49), (79, 49), (80, 49), (90, 4)]
    assert through(made, *steps) == [(10, "raised", "critical"), (80, "level", "warning")]
    ((what, alarm, before),) = made.update(110, [found(4)])
    assert (what, before) == ("cleared", Level.WARNING)
    assert (alarm.since_s, alarm.ended_s, alarm.why, alarm.value) == (10, 110, None, 4)
    assert made.active == ()
    assert len(made) == 0


def test_from_critical_straight_to_nothing_where_it_fell_far_enough() -> None:
    assert through(board(), (0, 500), (10, 500), (20, 0), (40, 0)) == [
        (10, "raised", "critical"),
        (40, "cleared", "critical"),
    ]


def test_between_the_thresholds_nothing_changes_for_ever() -> None:
    made = board()
    through(made, (0, 50), (10, 50))
    assert through(made, *((20 + 10 * step, 5 + step % 5) for step in range(100))) == []
    assert made.active[0].seen_s == 10


def test_a_rule_may_have_one_level_only() -> None:
    only_critical = Rule(warning=None, critical=100, hold_s=0, clear_s=10)
    assert through(board(only_critical), (0, 99), (1, 100), (2, 0), (12, 0)) == [
        (1, "raised", "critical"),
        (12, "cleared", "critical"),
    ]
    only_warning = Rule(warning=10, critical=None, hold_s=0, clear_s=0)
    assert through(board(only_warning), (0, 1e9), (1, 0)) == [
        (0, "raised", "warning"),
        (1, "cleared", "warning"),
    ]
    off = Rule(warning=None, critical=None, hold_s=0, clear_s=0)
    assert through(board(off), (0, math.inf)) == []


def test_zero_clears_whatever_the_threshold() -> None:
    tiny = Rule(warning=1e-9, critical=100, hold_s=0, clear_s=0)
    assert through(board(tiny), (0, 1e-9), (1, 0)) == [(0, "raised", "warning"), (1, "cleared", "warning")]


def test_what_is_not_measured_stays_until_it_is_forgotten() -> None:
    made = board(forget_s=60.0)
    through(made, (0, 500), (10, 500))
    assert made.update(70, []) == ()
    assert made.active[0].level is Level.CRITICAL
    (change,) = made.update(70.1, [])
    assert (change.what, change.before) == ("cleared", Level.CRITICAL)
    assert change.alarm.why == FORGOTTEN
    assert len(made) == 0


def test_no_number_is_no_measurement_and_an_unknown_kind_none_of_its_business() -> None:
    made = board()
    assert made.update(0, [found(math.nan), Finding(Subject("other", "x"), 1e9, "")]) == ()
    assert len(made) == 0
    assert made.switches == frozenset()
    made.update(0, [found(10)])
    assert made.switches == {"leaf1"}


def test_the_worst_and_the_oldest_come_first() -> None:
    made = board(Rule(warning=10, critical=100, hold_s=0, clear_s=0))
    made.update(0, [found(10, "b")])
    made.update(1, [found(10, "b"), found(10, "a"), found(100, "z")])
    assert [alarm.subject.of for alarm in made.active] == ["z", "b", "a"]


def test_only_so_many_are_watched_and_the_rest_is_counted() -> None:
    made = board(Rule(warning=10, critical=100, hold_s=0, clear_s=0), most=3)
    made.update(0, [found(10 + number, str(number)) for number in range(5)])
    assert [alarm.subject.of for alarm in made.active] == ["2", "3", "4"]
    assert made.left_off == 2
    changes = made.update(1, [found(20, "2"), found(200, "new"), found(30, "newer")])
    assert told(changes) == [("cleared", "warning"), ("raised", "critical")]
    assert changes[0].alarm.why == OUTDONE
    assert made.left_off == 1
    assert len(made) == 3
    made.update(2, [found(1e6, name) for name in "abcdef"])
    assert all(alarm.level is Level.CRITICAL for alarm in made.active)
    assert (len(made), made.left_off) == (3, 4)


def test_what_unknown_senders_cause_takes_no_room_from_a_switch() -> None:
    at_once = Rule(warning=10, critical=100, hold_s=0, clear_s=0)
    made = AlarmBoard({"pause": at_once}, forget_s=60, most=3)
    strangers = [Finding(Subject("pause", f"sender {n}"), 1e9, "many") for n in range(5)]
    made.update(0, strangers)
    assert made.left_off == 2
    changes = made.update(1, [found(100), *strangers])
    assert told(changes) == [("cleared", "critical"), ("raised", "critical")]
    assert PORT in {alarm.subject for alarm in made.active}
    assert len(made) == 3
    made.update(2, [found(150), *strangers])
    assert PORT in {alarm.subject for alarm in made.active}


@pytest.mark.parametrize(
    "wrong",
    [
        {"warning": 0.0},
        {"warning": 10.0, "critical": 5.0},
        {"clear_ratio": 0.0},
        {"clear_ratio": 1.1},
        {"hold_s": -1.0},
        {"critical": -1.0},
    ],
)
def test_a_rule_that_means_nothing_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="correct it"):
        Rule(**({"warning": 1.0, "critical": 2.0, "hold_s": 0.0, "clear_s": 0.0} | wrong))  # type: ignore[arg-type]


def test_where_small_values_are_bad_the_same_holds_below_the_bound() -> None:
    idle = board(Rule(warning=0.2, critical=None, hold_s=10, clear_s=20, clear_ratio=0.8, below=True))
    steps = [(0, 0.3), (1, 0.2), (11, 0.0), (12, 0.25), (20, 0.26), (40, 0.3), (41, 0.9)]
    assert through(idle, *steps) == [(11, "raised", "warning"), (40, "cleared", "warning")]


def test_the_smallest_values_come_first_where_there_is_little_room() -> None:
    made = board(Rule(warning=10, critical=None, hold_s=0, clear_s=0, below=True), most=1)
    made.update(0, [found(9, "a"), found(0, "b")])
    assert [(one.subject.of, one.value, one.threshold) for one in made.active] == [("b", 0, 10)]
