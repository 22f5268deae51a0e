"""Alarms for random sequences of values: no flapping inside the band, bounded, every change reported once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from telemetry.alarms import AlarmBoard, Change, Finding, Level, Rule, Subject

VALUES = st.one_of(
    st.floats(0, 250, allow_nan=False), st.sampled_from([0.0, 4.9, 5.0, 9.9, 10.0, 49.9, 50.0, 99.9, 100.0])
)
RULES = st.builds(
    Rule,
    warning=st.sampled_from([None, 10.0]),
    critical=st.sampled_from([None, 100.0]),
    hold_s=st.integers(0, 5).map(float),
    clear_s=st.integers(0, 5).map(float),
    clear_ratio=st.sampled_from([0.25, 0.5, 1.0]),
)
LOOKS = st.lists(
    st.tuples(st.integers(0, 4), st.dictionaries(st.sampled_from("abcdefgh"), VALUES, max_size=8)),
    max_size=40,
)


def of(subject: str, value: float) -> Finding:
    return Finding(Subject("kind", subject), value, "")


def level_of(board: AlarmBoard, subject: str) -> Level:
    return next((alarm.level for alarm in board.active if alarm.subject.of == subject), Level.NONE)


@given(RULES, LOOKS, st.integers(1, 4))
def test_what_is_told_is_what_is_and_memory_is_bounded(
    rule: Rule, looks: list[tuple[int, dict[str, float]]], most: int
) -> None:
    board = AlarmBoard({"kind": rule}, forget_s=6.0, most=most)
    heard: dict[str, Level] = {}
    now_s = 0
    for pause_s, values in looks:
        now_s += pause_s
        for change in board.update(now_s, [of(*one) for one in values.items()]):
            follow(heard, change)
        assert {alarm.subject.of: alarm.level for alarm in board.active} == heard
        assert len(board) <= most
        assert 0 <= board.left_off <= len(values)


def follow(heard: dict[str, Level], change: Change) -> None:
    name, level = change.alarm.subject.of, change.alarm.level
    assert heard.get(name, Level.NONE) is change.before
    if change.what == "cleared":
        assert level is change.before
        del heard[name]
        return
    assert level > Level.NONE
    assert (change.what == "raised") == (change.before is Level.NONE)
    assert level is not change.before
    heard[name] = level


@given(RULES, st.lists(VALUES, max_size=20), st.data())
def test_inside_the_band_of_a_level_it_never_changes(
    rule: Rule, before: list[float], data: st.DataObject
) -> None:
    board = AlarmBoard({"kind": rule}, forget_s=1e9)
    for second, value in enumerate(before):
        board.update(second, [of("a", value)])
    level = level_of(board, "a")
    if level is Level.NONE:
        return
    above = rule.threshold(Level.CRITICAL) if level is Level.WARNING else 1e9
    band = st.floats(rule.threshold(level) * rule.clear_ratio, min(above, 1e9), exclude_max=True)
    for second, value in enumerate(data.draw(st.lists(band, max_size=20))):
        assert board.update(len(before) + second, [of("a", value)]) == ()


@given(RULES, st.lists(VALUES, max_size=40))
def test_between_being_raised_and_cleared_it_held_and_waited(rule: Rule, values: list[float]) -> None:
    board = AlarmBoard({"kind": rule}, forget_s=1e9)
    for second, value in enumerate(values):
        for change in board.update(second, [of("a", value)]):
            if change.alarm.level > change.before:
                held = values[max(second - int(rule.hold_s), 0) : second + 1]
                assert min(held) >= rule.threshold(change.alarm.level)
                assert len(held) > rule.hold_s
            else:
                waited = values[max(second - int(rule.clear_s), 0) : second + 1]
                left = change.before
                assert max(waited) < rule.threshold(left) * rule.clear_ratio
                assert len(waited) > rule.clear_s
