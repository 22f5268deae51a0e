"""The push gate's rules: what is held and why, what the residual is, how far one step goes."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twin.errors import ParameterError
from twin.search.push_gate import GateSettings, holds, next_step, residual_ratio, within_step
from twin.watermark import Watermark, WatermarkBounds

INCUMBENT, TARGET = Watermark(400_000, 1_600_000, 0.2), Watermark(100_000, 800_000, 0.1)
SETTINGS = GateSettings()
WORDS = ("the last report", "times the predicted one", "engines disagree")


def held(settings: GateSettings = SETTINGS, **changes: Any) -> tuple[str, ...]:
    quiet: dict[str, Any] = {"report_age_s": 1.0, "residual": None, "disagreement": None}
    return holds(settings, **(quiet | changes))


def test_a_good_recommendation_on_fresh_telemetry_is_not_held() -> None:
    assert held() == ()
    assert next_step(SETTINGS, INCUMBENT, TARGET) == TARGET


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"report_age_s": 5.1}, "the last report"),
        ({"residual": 1 / 1.6 - 1}, "times the predicted one"),
        ({"residual": 1 / 0.6 - 1}, "times the predicted one"),
        ({"disagreement": 1.01}, "engines disagree"),
        ({"disagreement": math.nan}, "engines disagree"),
    ],
)
def test_each_reason_to_hold(changes: dict[str, float], word: str) -> None:
    [sentence] = held(**changes)
    assert [one for one in WORDS if one in sentence] == [word]


def test_every_reason_that_applies_is_given_in_a_sentence() -> None:
    assert held(report_age_s=100.0, residual=1 / 3 - 1, disagreement=1.5) == (
        "Held: the last report is 100 s old, above 5 s.",
        "Held: the measured queue is 3.00 times the predicted one, outside 1/1.5 to 1.5.",
        "Held: the twin's engines disagree by 150 %, beyond the limit of 100 %.",
    )


def test_engines_within_the_limit_pass_and_any_do_without_one() -> None:
    assert held(disagreement=1.0) == ()
    assert held(GateSettings(disagreement_limit=math.inf), disagreement=9.0) == ()


def test_the_residual_is_predicted_over_measured_less_1() -> None:
    assert residual_ratio(60_000.0, 50_000.0) == pytest.approx(61_000 / 51_000 - 1)
    assert held(residual=residual_ratio(60_000.0, 50_000.0)) == ()
    assert held(residual=residual_ratio(50_000.0, 200_000.0)) != ()


def test_near_empty_queues_do_not_close_the_gate() -> None:
    assert held(residual=residual_ratio(10.0, 300.0)) == ()


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0])
def test_a_queue_that_cannot_be_is_refused(bad: float) -> None:
    for predicted, measured in ((bad, 1.0), (1.0, bad)):
        with pytest.raises(ParameterError, match="residual"):
            residual_ratio(predicted, measured)


def test_a_far_recommendation_is_walked_to_in_steps() -> None:
    far, at, steps = Watermark(5_000, 20_000, 0.01), INCUMBENT, 0
    while at != far:
        step = next_step(SETTINGS, at, far)
        assert step is not None
        at, steps = step, steps + 1
        assert steps < 10
    assert steps == math.ceil(math.log(80) / math.log(8))


def test_from_outside_the_bounds_it_goes_to_the_bounds() -> None:
    step = next_step(SETTINGS, Watermark(10, 100, 0.0001), TARGET)
    assert step is not None
    assert SETTINGS.bounds.contains(step)
    assert step != TARGET


def test_bounds_that_leave_only_the_incumbent_stage_nothing() -> None:
    at_bounds = GateSettings(bounds=WatermarkBounds(400_000, 400_001, 1_600_000, 1_600_001, 0.2, 0.2001))
    assert (
        next_step(at_bounds, Watermark(400_000, 1_600_000, 0.2), Watermark(300_000, 1_500_000, 0.1)) is None
    )
    assert next_step(SETTINGS, INCUMBENT, INCUMBENT) is None


WATERMARKS = st.tuples(
    st.integers(1, 10_000_000), st.integers(1, 10_000_000), st.floats(0.001, 1.0, allow_subnormal=False)
).map(lambda drawn: Watermark(drawn[0], drawn[0] + drawn[1], drawn[2]))


@given(incumbent=WATERMARKS, target=WATERMARKS, max_step=st.floats(1.01, 100))
def test_a_step_stays_within_its_factor_and_on_the_way(
    incumbent: Watermark, target: Watermark, max_step: float
) -> None:
    step = within_step(incumbent, target, max_step)
    for name in ("kmin_bytes", "kmax_bytes", "pmax"):
        before, after, goal = (getattr(one, name) for one in (incumbent, step, target))
        slack = 1 if name == "kmin_bytes" else 0  # Kmin gives way a byte where Kmax sits right above it
        assert before / max_step - 1e-9 * before - slack <= after <= before * max_step * (1 + 1e-9)
        assert min(before, goal) * (1 - 1e-9) - slack <= after <= max(before, goal) * (1 + 1e-9)
    if max_step > 1e8:
        assert step == target


@given(incumbent=WATERMARKS, target=WATERMARKS)
def test_what_is_staged_differs_from_what_runs_and_is_inside_the_bounds(
    incumbent: Watermark, target: Watermark
) -> None:
    step = next_step(SETTINGS, incumbent, target)
    if step is not None:
        assert step != incumbent
        assert SETTINGS.bounds.contains(step)


@pytest.mark.parametrize(
    "bad",
    [
        {"max_step": 1.0},
        {"fresh_for_s": -1.0},
        {"residual_limit": math.nan},
        {"cool_down_s": math.inf},
        {"cool_down_s": math.nan},
        {"disagreement_limit": 0.0},
    ],
)
def test_limits_outside_their_meaning_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ParameterError, match="push gate "):
        GateSettings(**bad)  # type: ignore[arg-type]
