"""The service's push gate: what it remembers between rounds, and what no sequence of events lets through."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from service.tuning.gate import NOTHING_STAGED, Cleared, PushGate
from twin.search.push_gate import GateSettings, residual_ratio
from twin.watermark import Watermark

INCUMBENT, TARGET = Watermark(400_000, 1_600_000, 0.2), Watermark(100_000, 800_000, 0.1)
SETTINGS = GateSettings()


class Clock:
    now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


FAR_OFF = residual_ratio(50_000.0, 200_000.0)


def answer(**changes: Any) -> Any:
    given_: dict[str, Any] = {
        "changes": True,
        "incumbent": INCUMBENT,
        "watermark": TARGET,
        "second_opinion": None,
    }
    return SimpleNamespace(**(given_ | changes))


def test_a_residual_closes_the_gate_until_a_comparison_clears_it() -> None:
    gate = PushGate(SETTINGS, clock_s=Clock())
    assert gate.round_ended(answer(), FAR_OFF, age_s=0.0).holds
    gate.watermark_changed(age_s=60.0)
    assert gate.round_ended(answer(), None, age_s=0.0).holds, "nothing was measured since"
    assert gate.round_ended(answer(), 0.2, age_s=0.0) == Cleared(TARGET)


def test_a_round_that_keeps_the_incumbent_is_compared_too() -> None:
    gate = PushGate(SETTINGS, clock_s=Clock())
    assert gate.round_ended(answer(changes=False), FAR_OFF, age_s=0.0) == NOTHING_STAGED
    assert gate.round_ended(answer(), None, age_s=0.0).holds


def test_a_window_whose_newest_traffic_is_of_a_few_holds_until_a_round_without() -> None:
    gate = PushGate(SETTINGS, clock_s=Clock())
    assert gate.round_ended(answer(), 0.0, age_s=0.0, behind_share=0.5).holds == ()
    [held] = gate.round_ended(answer(), 0.0, age_s=0.0, behind_share=0.7).holds
    assert held.startswith("Held: 70 % of the INT reports since the last round were seconds behind")
    assert gate.held(age_s=0.0) == (held,)
    assert gate.round_ended(answer(), 0.0, age_s=0.0).holds == gate.held(age_s=0.0) == ()


def test_a_change_cools_down_by_the_clock() -> None:
    clock = Clock()
    gate = PushGate(SETTINGS, clock_s=clock)
    assert gate.cooling_left_s() == 0.0
    gate.watermark_changed(age_s=10.0)
    assert gate.cooling_left_s() == 20.0
    assert gate.round_ended(answer(), None, age_s=0.0).holds == (), "it passes without another round"
    clock.now_s += 20.0
    assert gate.cooling_left_s() == 0.0


def test_an_opinion_that_did_not_decide_holds_nothing() -> None:
    gate = PushGate(SETTINGS, clock_s=Clock())
    for decided in (True, False):
        opinion = SimpleNamespace(disagreement_ratio=9.0, decided=decided)
        assert bool(gate.round_ended(answer(second_opinion=opinion), None, age_s=0.0).holds) is decided


def test_what_is_held_is_staged_all_the_same() -> None:
    gate = PushGate(SETTINGS, clock_s=Clock())
    assert gate.round_ended(answer(), None, age_s=100.0).staged == TARGET
    assert gate.round_ended(answer(watermark=INCUMBENT), None, age_s=100.0) == NOTHING_STAGED


QUEUES = st.floats(0, 1e8)
WATERMARKS = st.tuples(
    st.integers(1, 10_000_000), st.integers(1, 10_000_000), st.floats(0.001, 1.0, allow_subnormal=False)
).map(lambda drawn: Watermark(drawn[0], drawn[0] + drawn[1], drawn[2]))
OPINIONS = st.none() | st.builds(SimpleNamespace, disagreement_ratio=st.floats(0, 3), decided=st.booleans())
ROUNDS = st.tuples(
    st.builds(
        answer,
        changes=st.booleans(),
        incumbent=WATERMARKS,
        watermark=WATERMARKS,
        second_opinion=OPINIONS,
    ),
    st.none() | st.tuples(QUEUES, QUEUES),
    st.floats(0, 20),
)


@given(events=st.lists(st.tuples(st.floats(0, 60), ROUNDS | st.none()), max_size=25))
def test_no_sequence_of_events_lets_through_what_it_must_not(events: list[tuple[float, Any]]) -> None:
    clock = Clock()
    gate = PushGate(SETTINGS, clock_s=clock)
    changed_at_s, measured_over_predicted = None, None
    for later_s, round_ in events:
        clock.now_s += later_s
        if round_ is None:
            gate.watermark_changed()
            changed_at_s = clock.now_s
            continue
        asked, measured, age_s = round_
        residual = None
        if measured is not None:
            predicted, measured = measured
            residual = residual_ratio(predicted, measured)
            measured_over_predicted = (measured + 1_000) / (predicted + 1_000)
        cleared = gate.round_ended(asked, residual, age_s=age_s)
        if cleared.staged is None or cleared.holds or gate.cooling_left_s() > 0:
            continue
        assert asked.changes
        assert cleared.staged != asked.incumbent
        assert SETTINGS.bounds.contains(cleared.staged)
        assert age_s <= SETTINGS.fresh_for_s
        assert changed_at_s is None or clock.now_s - changed_at_s >= SETTINGS.cool_down_s
        if measured_over_predicted is not None:
            assert 1 / 1.5 - 1e-12 <= measured_over_predicted <= 1.5 + 1e-12
        opinion = asked.second_opinion
        assert opinion is None or not opinion.decided or opinion.disagreement_ratio <= 1.0
