"""Which steps are kept, which of them answer a question, and what settings of them mean nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from settings.history import DAY_S, RANKED_BY, Chosen, Steps
from settings.model import StorageSettings

USUAL = Steps({10: DAY_S, 60: 14 * DAY_S, 600: 400 * DAY_S})


def test_the_usual_settings_are_three_lengths_each_made_of_the_one_before() -> None:
    steps = StorageSettings().steps()
    assert steps == USUAL
    assert (steps.finest_s, list(steps.folds), steps.longest_s) == (10, [(10, 60), (60, 600)], 400 * DAY_S)


def test_the_order_in_which_lengths_are_given_means_nothing() -> None:
    given_last = StorageSettings(history_coarser={600: 400.0, 60: 14.0}).steps()
    assert given_last is not None
    assert list(given_last.keep_s) == [10, 60, 600]


def test_none_writes_nothing_and_no_coarser_ones_are_well() -> None:
    assert StorageSettings(history_step_s=None).steps() is None
    alone = StorageSettings(history_step_s=5, history_coarser={}).steps()
    assert alone == Steps({5: DAY_S})
    assert alone.chosen(span_s=100.0, age_s=100.0, most=3) == Chosen(5, 35)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"history_coarser": {65: 14}}, "not made of whole steps of 10 s"),
        ({"history_coarser": {10: 14}}, "not made of whole steps"),
        ({"history_coarser": {60: 14, 90: 20}}, "not made of whole steps of 60 s"),
        ({"history_coarser": {60: 0.5}}, "keep the coarser for as long at least"),
        ({"history_coarser": {60: 14, 600: 3}}, "the finer 60 s for 14"),
        ({"history_coarser": {60: 0}}, "greater than 0"),
        ({"history_step_s": 0}, "greater than or equal to 1"),
        ({"history_keep_days": -1}, "greater than 0"),
        ({"keep_days": 1_000_000}, "less than or equal to 36500"),  # beyond a database's whole numbers
        ({"keep_audit_days": 1_000_000}, "less than or equal to 36500"),
    ],
)
def test_settings_that_make_no_steps_are_refused(wrong: dict[str, object], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        StorageSettings.model_validate(wrong)


@pytest.mark.parametrize(
    ("span_s", "age_s", "most", "chosen"),
    [
        (3_600, 3_600, 500, Chosen(10, 10)),
        (3_600, 3_600, 359, Chosen(60, 60)),
        (3_600, 2 * DAY_S, 500, Chosen(60, 60)),
        (DAY_S, DAY_S, 500, Chosen(600, 600)),
        (3_600, 300 * DAY_S, 500, Chosen(600, 600)),
        (400 * DAY_S, 400 * DAY_S, 500, Chosen(600, 69_600)),
        (3_600, 1_000 * DAY_S, 500, Chosen(600, 600)),
        (600, -600, 500, Chosen(10, 10)),
    ],
)
def test_the_finest_steps_that_are_kept_and_not_too_many_answer(
    span_s: float, age_s: float, most: int, chosen: Chosen
) -> None:
    assert USUAL.chosen(span_s=span_s, age_s=age_s, most=most) == chosen


@given(span_s=st.floats(0.001, 1e10), age_s=st.floats(-1e10, 1e10), most=st.integers(1, 5_000))
def test_there_are_never_more_steps_than_were_asked_for(span_s: float, age_s: float, most: int) -> None:
    step_s, width_s = USUAL.chosen(span_s=span_s, age_s=age_s, most=most)
    assert width_s % step_s == 0
    assert span_s / width_s <= most * (1 + 1e-9)
    assert USUAL.ranked_by(step_s, span_s=span_s) >= step_s


def test_the_deepest_are_told_by_as_coarse_steps_as_will_do() -> None:
    assert USUAL.ranked_by(10, span_s=3_600) == 60
    assert USUAL.ranked_by(10, span_s=60 * RANKED_BY - 1) == 10
    assert USUAL.ranked_by(10, span_s=600 * RANKED_BY) == 600
    assert USUAL.ranked_by(600, span_s=10) == 600
