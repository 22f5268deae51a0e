"""AI-ECN: the heuristic climbs, rests and wakes; the model knows scenes and decides where it is sure."""

from __future__ import annotations

import numpy as np
import pytest

from bench.rivals.observe import BUDGETS
from bench.rivals.toy import Toy, threshold_bytes, used
from bench.rivals.tuner import Tuner
from bench.rivals.tuners.ai_ecn import (
    FEATURES,
    SETTINGS,
    WINDOW,
    AiEcn,
    Climb,
    Recorder,
    Window,
    agreement,
    fit,
    settings_at,
)
from bench.rivals.tuners.monitor import delay_score
from bench.rivals.tuners.networks import Reals
from bench.rivals.tuners.policy import Policy
from twin.watermark import Watermark

WEBSEARCH, DATA_MINING = (0.3, 0.7), (0.7, 0.3)
LOW, MIDDLE = Watermark(5_000, 20_000, 0.2), Watermark(45_000, 180_000, 0.2)
MICE, ELEPHANTS = Toy(BUDGETS["box"]), Toy(BUDGETS["box"], large=True)


def earned(mark: Watermark, reward: tuple[float, float]) -> float:
    depth = threshold_bytes(mark)
    return reward[0] * used(depth) + reward[1] * float(delay_score(np.array([depth]))[0])


_DEPTHS = np.arange(1e3, 1e6, 1e3)
OPTIMUM = float((0.7 * used(_DEPTHS) + 0.3 * delay_score(_DEPTHS)).max())  # of DATA_MINING


def asked(tuner: Tuner, toy: Toy, intervals: int) -> list[Watermark]:
    return [settings.watermarks[0] for _, settings in toy.run(tuner, intervals, 1)]


@pytest.mark.parametrize("budget", ["box", "collector"])
def test_the_heuristic_climbs_to_within_5_percent_of_the_optimum_and_rests(budget: str) -> None:
    toy = Toy(BUDGETS[budget], incumbent=MIDDLE)
    tuner = AiEcn(None, reward=DATA_MINING)
    marks = asked(tuner, toy, 2_000)
    assert earned(MIDDLE, DATA_MINING) < 0.94 * OPTIMUM
    assert earned(marks[-1], DATA_MINING) > 0.98 * OPTIMUM
    assert len(set(marks[-500:])) == 1
    assert not tuner.exploring


def test_a_step_of_the_reward_stops_the_heuristic_far_below_the_optimum() -> None:
    tuner = AiEcn(None, reward=DATA_MINING)
    last = asked(tuner, Toy(BUDGETS["box"], incumbent=LOW), 2_000)[-1]
    assert threshold_bytes(last) == pytest.approx(40e3, rel=0.1)  # where D(L) falls by a tenth
    assert 1.3 * earned(LOW, DATA_MINING) < earned(last, DATA_MINING) < 0.9 * OPTIMUM


def window(*, reward: float, used_share: float = 0.5, marked: float = 0.1) -> Window:
    one = np.ones(1)
    return Window(np.zeros((1, 4)), one * reward, one * used_share, one * marked, one > 0)


def test_a_step_is_kept_where_it_pays_and_taken_back_reversed_and_smaller_where_not() -> None:
    all_of = np.ones(1, dtype=np.bool_)
    climb = Climb((Watermark(100_000, 400_000, 0.2),))

    def tries_after(reward: float) -> tuple[int, int, float]:
        climb.after(window(reward=reward), all_of)
        mark = climb.watermark(0)
        return mark.kmin_bytes, mark.kmax_bytes, round(mark.pmax, 6)

    assert tries_after(0.50) == (125_000, 500_000, 0.2)  # thresholds first, ...
    assert tries_after(0.52) == (125_000, 500_000, 0.16)  # ... then Pmax
    assert tries_after(0.52) == (156_250, 625_000, 0.2)  # no gain: taken back, and on with the other
    reversed_pmax = round(0.2 / 0.8**0.5, 6)
    assert tries_after(0.52) == (125_000, 500_000, reversed_pmax)
    assert tries_after(0.53) == (round(125e3 / 1.25**0.5), round(500e3 / 1.25**0.5), reversed_pmax)


def test_the_heuristic_rests_when_its_steps_are_small_and_wakes_when_traffic_moves() -> None:
    all_of = np.ones(1, dtype=np.bool_)
    climb = Climb((Watermark(100_000, 400_000, 0.2),))
    windows = 0
    while not climb.resting[0]:
        climb.after(window(reward=0.5), all_of)
        windows += 1
    assert windows == 7  # the first, and three fruitless steps of each knob
    assert climb.watermark(0) == Watermark(100_000, 400_000, 0.2)
    climb.after(window(reward=0.5, used_share=0.59, marked=0.119), all_of)
    assert climb.resting[0]
    climb.after(window(reward=0.5, used_share=0.61), all_of)
    assert not climb.resting[0]
    assert climb.watermark(0) != Watermark(100_000, 400_000, 0.2)


def test_queues_that_are_not_climbing_are_left_alone() -> None:
    mark = Watermark(100_000, 400_000, 0.2)
    climb = Climb((mark, mark))
    both = window(reward=0.5)
    pair = Window(*(np.repeat(getattr(both, name), 2, axis=0) for name in Window.__slots__))
    climb.after(pair, np.array([True, False]))
    assert climb.watermark(0) != mark
    assert climb.watermark(1) == mark


@pytest.fixture(scope="module")
def scenes() -> list[tuple[Reals, int]]:
    """Mice, which want short queues, and elephants, which want long ones; labelled by the reward."""
    found = []
    for toy, reward in ((MICE, WEBSEARCH), (ELEPHANTS, DATA_MINING)):
        rows, worths = [], []
        for number in range(len(SETTINGS)):
            recorder = Recorder(number)
            [last] = set(asked(recorder, toy, 5 * WINDOW))
            rows.append(recorder.rows)
            worths.append(earned(last, reward))
        found.append((np.concatenate(rows), int(np.argmax(worths))))
    return found


@pytest.fixture(scope="module")
def policy(scenes: list[tuple[Reals, int]]) -> Policy:
    return fit(scenes, 1)


def test_the_model_names_the_best_setting_of_each_scene(
    policy: Policy, scenes: list[tuple[Reals, int]]
) -> None:
    assert scenes[0][1] != scenes[1][1]
    assert agreement(policy, scenes) == {"rows": 240, "sure_share": 1.0, "right_of_sure": 1.0}
    for toy, reward, (_, best) in zip((MICE, ELEPHANTS), (WEBSEARCH, DATA_MINING), scenes, strict=True):
        rates = toy.facts.rate_bytes_per_s
        tuner = AiEcn(policy)
        mark = asked(tuner, toy, 3 * WINDOW)[-1]
        assert tuner.by_model.all()
        assert not tuner.exploring
        assert mark == settings_at(rates, best)[0]
        every = [settings_at(rates, number)[0] for number in range(len(SETTINGS))]
        assert earned(mark, reward) == max(earned(one, reward) for one in every)


def test_the_heuristic_takes_over_where_the_model_is_not_sure(policy: Policy) -> None:
    tuner = AiEcn(policy, confident=1.1)
    marks = asked(tuner, MICE, 10 * WINDOW)
    assert not tuner.by_model.any()
    assert len(set(marks)) > 3
    assert marks == asked(AiEcn(None), MICE, 10 * WINDOW)


def test_the_same_scenes_and_seed_give_the_same_model(
    scenes: list[tuple[Reals, int]], policy: Policy
) -> None:
    again = fit(scenes, 1)
    assert all((again.arrays[name] == policy.arrays[name]).all() for name in policy.arrays)


def test_settings_are_24_in_proportion_to_the_rate() -> None:
    assert len(set(SETTINGS)) == 24
    assert len(FEATURES) == 6
    slow, fast = settings_at(np.array([25e9, 100e9]) / 8, 5)
    assert (slow.kmin_bytes, slow.kmax_bytes, slow.pmax) == (18_000, 72_000, 0.2)
    assert (fast.kmin_bytes, fast.kmax_bytes) == (72_000, 288_000)
