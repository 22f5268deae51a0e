"""The guard as a machine: what passes, what is held and why, and what no sequence of events can do."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twin.errors import ParameterError
from twin.search.push_gate import (
    Event,
    GuardSettings,
    GuardState,
    Hold,
    HoldReason,
    Issue,
    QueueMeasured,
    QueuePredicted,
    Recommended,
    TelemetryArrived,
    WatermarkChanged,
    advance,
    in_step,
    within_step,
)
from twin.watermark import Watermark, WatermarkBounds

INCUMBENT, TARGET = Watermark(400_000, 1_600_000, 0.2), Watermark(100_000, 800_000, 0.1)
SETTINGS = GuardSettings()
FRESH = GuardState(telemetry_at_s=100.0)


def recommended(**changes: Any) -> Recommended:
    given_: dict[str, Any] = {"at_s": 101.0, "watermark": TARGET, "incumbent": INCUMBENT, "score_gain": 0.3}
    return Recommended(**(given_ | changes))


def reasons(state: GuardState, event: Recommended, settings: GuardSettings = SETTINGS) -> list[HoldReason]:
    after, actions = advance(state, event, settings)
    assert after == state
    return [action.reason for action in actions if isinstance(action, Hold)]


def run(events: list[Event], settings: GuardSettings = SETTINGS) -> GuardState:
    state = GuardState()
    for event in events:
        state, actions = advance(state, event, settings)
        assert actions == () or isinstance(event, Recommended)
    return state


def test_a_good_recommendation_on_fresh_telemetry_is_issued() -> None:
    assert advance(FRESH, recommended(), SETTINGS) == (FRESH, (Issue(TARGET, shortened=False),))


@pytest.mark.parametrize(
    ("state", "event", "reason"),
    [
        (GuardState(), recommended(), HoldReason.TELEMETRY_STALE),
        (FRESH, recommended(at_s=105.1), HoldReason.TELEMETRY_STALE),
        (FRESH, recommended(score_gain=0.05), HoldReason.GAIN_BELOW_MARGIN),
        (FRESH, recommended(score_gain=math.nan), HoldReason.GAIN_BELOW_MARGIN),
        (FRESH, recommended(watermark=INCUMBENT), HoldReason.NO_CHANGE),
        (GuardState(100.0, changed_at_s=80.0), recommended(), HoldReason.COOLING_DOWN),
        (GuardState(100.0, residual=1.6), recommended(), HoldReason.TWIN_OUT_OF_STEP),
        (GuardState(100.0, residual=0.6), recommended(), HoldReason.TWIN_OUT_OF_STEP),
        (FRESH, recommended(disagreement=1.01), HoldReason.ENGINES_DISAGREE),
        (FRESH, recommended(disagreement=math.nan), HoldReason.ENGINES_DISAGREE),
    ],
)
def test_each_reason_to_hold(state: GuardState, event: Recommended, reason: HoldReason) -> None:
    assert reasons(state, event) == [reason]


def test_every_reason_that_applies_is_given_in_a_sentence() -> None:
    state = GuardState(telemetry_at_s=1.0, changed_at_s=90.0, residual=3.0)
    _, actions = advance(state, recommended(score_gain=0.01, disagreement=1.5), SETTINGS)
    assert [action.sentence for action in actions if isinstance(action, Hold)] == [
        "Held: a gain of 0.010 does not exceed the margin of 0.05.",
        "Held: the last report is 100 s old, above 5 s.",
        "Held: the last change cools down for another 19 s.",
        "Held: the measured queue is 3.00 times the predicted one, outside 1/1.5 to 1.5.",
        "Held: the twin's engines disagree by 150 %, beyond the limit of 100 %.",
    ]


def test_engines_within_the_limit_pass_and_any_do_without_one() -> None:
    assert reasons(FRESH, recommended(disagreement=1.0)) == []
    assert reasons(FRESH, recommended(disagreement=9.0), GuardSettings(disagreement_limit=math.inf)) == []


def test_the_cool_down_ends() -> None:
    assert reasons(GuardState(100.0, changed_at_s=71.0), recommended(at_s=101.0)) == []


def test_a_residual_closes_the_gate_until_a_comparison_clears_it() -> None:
    out = run([QueuePredicted(50_000.0), QueueMeasured(200_000.0)])
    assert not in_step(out, SETTINGS)
    changed, _ = advance(out, WatermarkChanged(5.0), SETTINGS)
    assert not in_step(changed, SETTINGS)
    unchecked, _ = advance(changed, QueueMeasured(50_000.0), SETTINGS)
    assert not in_step(unchecked, SETTINGS)
    predicted, _ = advance(unchecked, QueuePredicted(60_000.0), SETTINGS)
    cleared, _ = advance(predicted, QueueMeasured(50_000.0), SETTINGS)
    assert cleared.residual == pytest.approx(51_000 / 61_000)
    assert in_step(cleared, SETTINGS)


def test_near_empty_queues_do_not_close_the_gate() -> None:
    assert in_step(run([QueuePredicted(10.0), QueueMeasured(300.0)]), SETTINGS)


def test_late_telemetry_does_not_turn_time_back() -> None:
    assert run([TelemetryArrived(9.0), TelemetryArrived(4.0)]).telemetry_at_s == 9.0


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0])
def test_a_queue_that_cannot_be_is_refused(bad: float) -> None:
    for event in (QueuePredicted(bad), QueueMeasured(bad)):
        with pytest.raises(ParameterError, match="guard queue"):
            advance(GuardState(), event, SETTINGS)


def test_a_far_recommendation_is_walked_to_in_steps() -> None:
    far, at, steps = Watermark(5_000, 20_000, 0.01), INCUMBENT, 0
    while at != far:
        _, (action,) = advance(FRESH, recommended(watermark=far, incumbent=at), SETTINGS)
        assert isinstance(action, Issue)
        assert action.shortened == (action.watermark != far)
        at, steps = action.watermark, steps + 1
        assert steps < 10
    assert steps == math.ceil(math.log(80) / math.log(8))


def test_from_outside_the_bounds_it_goes_to_the_bounds() -> None:
    outside = Watermark(10, 100, 0.0001)
    _, (action,) = advance(FRESH, recommended(incumbent=outside), SETTINGS)
    assert isinstance(action, Issue)
    assert SETTINGS.bounds.contains(action.watermark)
    assert action.shortened


def test_bounds_that_leave_only_the_incumbent_hold() -> None:
    at_bounds = GuardSettings(bounds=WatermarkBounds(400_000, 400_001, 1_600_000, 1_600_001, 0.2, 0.2001))
    incumbent = Watermark(400_000, 1_600_000, 0.2)
    below = Watermark(300_000, 1_500_000, 0.1)
    assert reasons(FRESH, recommended(incumbent=incumbent, watermark=below), at_bounds) == [
        HoldReason.NO_CHANGE
    ]


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


TIMES = st.floats(0, 1e4)
QUEUES = st.floats(0, 1e8)
EVENTS: st.SearchStrategy[Event] = st.one_of(
    TIMES.map(TelemetryArrived),
    QUEUES.map(QueuePredicted),
    QUEUES.map(QueueMeasured),
    TIMES.map(WatermarkChanged),
    st.builds(Recommended, TIMES, WATERMARKS, WATERMARKS, st.floats(-3, 3), st.none() | st.floats(0, 3)),
)


@given(events=st.lists(EVENTS, max_size=25))
def test_no_sequence_of_events_issues_what_it_must_not(events: list[Event]) -> None:
    state = GuardState()
    for event in events:
        before = state
        state, actions = advance(state, event, SETTINGS)
        if not isinstance(event, Recommended):
            assert actions == ()
            continue
        assert state == before
        assert actions
        issued = [action for action in actions if isinstance(action, Issue)]
        assert len(issued) in (0, 1)
        if not issued:
            continue
        assert len(actions) == 1
        assert issued[0].watermark != event.incumbent
        assert SETTINGS.bounds.contains(issued[0].watermark)
        assert event.score_gain > SETTINGS.margin
        assert before.telemetry_at_s is not None
        assert event.at_s - before.telemetry_at_s <= SETTINGS.fresh_for_s
        assert before.changed_at_s is None or event.at_s - before.changed_at_s >= SETTINGS.cool_down_s
        assert before.residual is None or 1 / 1.5 <= before.residual <= 1.5
        assert event.disagreement is None or event.disagreement <= SETTINGS.disagreement_limit


@pytest.mark.parametrize(
    "bad",
    [
        {"max_step": 1.0},
        {"margin": -1.0},
        {"residual_limit": math.nan},
        {"cool_down_s": math.inf},
        {"disagreement_limit": 0.0},
    ],
)
def test_limits_outside_their_meaning_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ParameterError, match="guard "):
        GuardSettings(**bad)  # type: ignore[arg-type]
