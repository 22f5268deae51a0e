"""ecntwin as a tuner: near the best static of a packet scenario, by its rounds and gates, the same again.

``bench.rivals.toy`` has no packets, so no report that a round could see: there it must keep what runs. Its
optimum is replaced by that of a few statics on a small fabric.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from functools import cache
from itertools import pairwise

import pytest

from bench.rivals.arena import Played, play
from bench.rivals.observe import BUDGETS
from bench.rivals.scenarios import Phase, Scenario
from bench.rivals.toy import Toy
from bench.rivals.tuner import FabricFacts, Settings
from bench.rivals.tuners import INCUMBENT, tuner_named
from bench.rivals.tuners.ecntwin import Ecntwin
from bench.rivals.tuners.statics import static_name
from lab.setup import LeafSpine
from settings.model import Settings as ServiceSettings
from telemetry.settings import NS_PER_S
from twin.watermark import Watermark, WatermarkBounds
from twin.workers.pool import Workers, make_workers

COLLECTOR = BUDGETS["collector"]
HADOOP = Scenario(
    name="hadoop",
    phases=(Phase("hadoop", 0.0, "hadoop:0.5"),),
    duration_s=0.06,
    fabric=LeafSpine(leaves=2, spines=1, hosts=4, rate_gbps=25.0, uplink_gbps=100.0),
)
# One far below what runs, one of its kind at a fifth, one far above.
STATICS = (
    Watermark(6_000, 21_000, 0.05),
    Watermark(20_000, 200_000, 0.15),
    Watermark(350_000, 2_500_000, 0.011),
)
SHORT = replace(HADOOP, duration_s=0.032)
SEED = 20  # of which 15 ms tell surely enough of so few hosts for a change


class Strict(Ecntwin):
    """With other limits of ``TuningSettings``; as if a switch had been set when the run began."""

    def __init__(self, **limits: float) -> None:
        super().__init__(candidates=24, narrowed=8, round_every_s=0.020, window_s=0.015)
        self.limits = limits

    def begin(self, facts: FabricFacts, seed: int) -> Settings:
        settings = super().begin(facts, seed)
        self._gate.watermark_changed()
        return settings

    def _settings(self, facts: FabricFacts, seed: int) -> ServiceSettings:
        found = super()._settings(facts, seed)
        return found.model_copy(update={"tuning": found.tuning.model_copy(update=self.limits)})


def quick(workers: Workers | None = None, compute_s: float = 0.0) -> Ecntwin:
    return Ecntwin(
        candidates=24,
        narrowed=8,
        round_every_s=0.020,
        window_s=0.015,
        workers=workers,
        compute_s=compute_s,
    )


@cache
def the_run() -> tuple[Ecntwin, Played]:
    tuner = quick()
    return tuner, play(HADOOP, tuner, SEED, COLLECTOR)


def what_came_of(tuner: Ecntwin) -> list[tuple[float, str, str]]:
    return [(one.at_s, one.outcome, one.why) for one in tuner.rounds]


def test_settles_at_what_the_best_of_some_statics_reach() -> None:
    settled = {
        name: play(HADOOP, tuner_named(name), SEED, BUDGETS["none"]).settled[0].j
        for name in (INCUMBENT, *map(static_name, STATICS))
    }
    best = max(settled.values())
    assert best - settled[INCUMBENT] > 0.05, "there is something to gain"
    assert best - the_run()[1].settled[0].j < 0.05


def test_only_rounds_that_pass_change_settings_and_after_the_delay() -> None:
    tuner, played = the_run()
    pushed = [one for one in tuner.rounds if one.outcome == "pushed"]
    assert len(pushed) >= 1
    assert [one.at_s for one in tuner.rounds] == pytest.approx([0.02, 0.04])
    assert not tuner.exploring
    changed_s = sorted({one.at_s for one in played.changes})
    assert changed_s == pytest.approx([one.at_s + COLLECTOR.delay_s for one in pushed])
    for one in pushed:
        assert one.result is not None
        recommended = one.result.recommendation
        assert recommended.improvement.score_gain > recommended.improvement.margin
        now = [each for each in played.changes if each.at_s == pytest.approx(one.at_s + COLLECTOR.delay_s)]
        assert {each.after for each in now} == {recommended.watermark}
        switches = {HADOOP.plan.ports[HADOOP.plan.switch_ports[each.queue]].node for each in now}
        assert switches <= set(one.result.switches)
        assert WatermarkBounds().contains(recommended.watermark)


@pytest.mark.slow
def test_a_run_is_the_same_again_with_any_number_of_workers() -> None:
    tuner = quick()
    runs = []
    for _ in range(2):  # one that is used again has forgotten the run before
        played = play(SHORT, tuner, SEED, COLLECTOR)
        runs.append((played.phases, played.changes, played.exchanged_bytes, what_came_of(tuner)))
    with closing(make_workers(2)) as workers:
        tuner = quick(workers)
        played = play(SHORT, tuner, SEED, COLLECTOR)
        runs.append((played.phases, played.changes, played.exchanged_bytes, what_came_of(tuner)))
    assert runs[0] == runs[1] == runs[2]
    assert played.changes, "there was something to repeat"


def test_a_round_that_computes_for_long_acts_later_and_leaves_out_the_next() -> None:
    tuner = quick(compute_s=0.025)
    played = play(HADOOP, tuner, SEED, COLLECTOR)
    assert [(one.at_s, one.outcome) for one in tuner.rounds] == [(pytest.approx(0.02), "pushed")]
    changed_s = sorted({one.at_s for one in played.changes})
    assert changed_s == pytest.approx([0.02 + 0.025 + COLLECTOR.delay_s])


@pytest.mark.slow
def test_what_is_being_rolled_out_is_found_again_but_not_set_again() -> None:
    tuner = Ecntwin(candidates=12, narrowed=0, round_every_s=0.003, window_s=0.008)
    played = play(SHORT, tuner, 6, COLLECTOR)
    first, again = next(pair for pair in pairwise(tuner.rounds) if pair[0].outcome == "pushed")
    assert again.at_s < first.at_s + COLLECTOR.delay_s
    assert first.result is not None
    assert again.result is not None
    assert (first.outcome, again.outcome) == ("pushed", "kept")
    assert again.result.recommendation.changes
    assert again.result.recommendation.watermark == first.result.recommendation.watermark
    assert {one.at_s for one in played.changes} == {played.changes[0].at_s}


@pytest.mark.parametrize(
    ("limits", "outcome", "says"),
    [
        ({"cool_down_s": 30.0}, "pushed", "better for the balanced policy"),  # exactly a round has passed
        ({"cool_down_s": 31.0}, "held", "cools down for 1 s"),
        ({"disagreement_limit": 1e-6}, "held", "engines disagree"),
        ({"residual_limit": 1.000001}, "held", "times the predicted one, outside 1/1 to 1"),
        ({"margin": 3.0}, "kept", "does not exceed the margin"),
    ],
)
def test_a_change_that_a_gate_holds_back_is_not_made(
    limits: dict[str, float], outcome: str, says: str
) -> None:
    tuner = Strict(**limits)
    played = play(SHORT, tuner, SEED, COLLECTOR)
    [only] = tuner.rounds
    assert (only.outcome, bool(played.changes)) == (outcome, outcome == "pushed")
    assert says in only.why


@pytest.mark.slow
def test_what_a_round_says_of_nics_is_set_with_its_watermark() -> None:
    tuner = Ecntwin(candidates=24, narrowed=8, round_every_s=0.020, window_s=0.015, what=("watermark", "nic"))
    played = play(HADOOP, tuner, SEED, COLLECTOR)
    assert played.sender_changes >= 1
    first = next(one for one in tuner.rounds if one.outcome == "pushed")
    assert first.result is not None
    together = first.result.recommendation.co_tuning
    assert together is not None
    assert together.recommended
    now = [one.after for one in played.changes if one.at_s == pytest.approx(0.02 + COLLECTOR.delay_s)]
    assert set(now) == {together.watermark}
    assert played.settled[0].j > the_run()[1].settled[0].j


def test_without_reports_no_round_runs_and_all_stays() -> None:
    tuner = quick()
    toy = Toy(COLLECTOR)
    answers = {settings.watermarks for _, settings in toy.run(tuner, 100, 1)}
    assert answers == {toy.facts.incumbent}
    assert {one.outcome for one in tuner.rounds} == {"skipped"}
    assert tuner.exchanged_bytes == 0


def test_windows_hold_the_reports_of_their_time_only() -> None:
    tuner, played = the_run()
    for one in tuner.rounds:
        assert one.result is not None
        state = one.result.state
        assert (state.window_end_ns - state.window_start_ns) / NS_PER_S <= tuner.window_s
        assert 0 <= one.at_s - (state.window_end_ns / NS_PER_S - 1_767_225_600) < 1e-3
    assert played.exchanged_bytes > 100 * sum(
        one.result.state.n_reports for one in tuner.rounds[:1] if one.result
    )
