"""ACC and PET find the best action of a port with a known optimum, and learn as their papers say."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
import pytest

from bench.rivals.arena import facts_of
from bench.rivals.observe import BUDGETS
from bench.rivals.scenarios import scenario_named
from bench.rivals.toy import Toy, threshold_bytes, used
from bench.rivals.tuner import FabricFacts, Seen
from bench.rivals.tuners import acc, pet
from bench.rivals.tuners.acc import Acc
from bench.rivals.tuners.agents import Crew, Learner, Mode, exploration
from bench.rivals.tuners.monitor import delay_score, per_queue_score
from bench.rivals.tuners.pet import Pet
from twin.watermark import Watermark

TOY = Toy(BUDGETS["box"])
WEBSEARCH, DATA_MINING = (0.3, 0.7), (0.7, 0.3)


def earned(mark: Watermark, learner: Learner) -> float:
    """The reward of a watermark on the toy."""
    depth = np.array([threshold_bytes(mark)])
    score = delay_score if learner.score == "delay" else per_queue_score
    return float((learner.reward[0] * used(depth[0]) + learner.reward[1] * score(depth))[0])


def asked(learner: Learner, intervals: int, seed: int = 1, toy: Toy = TOY) -> list[Watermark]:
    return [settings.watermarks[0] for _, settings in toy.run(learner, intervals, seed)]


@pytest.mark.parametrize(
    ("kind", "variant", "intervals", "reward"),
    [
        pytest.param(Acc, {}, 9_000, WEBSEARCH, marks=pytest.mark.slow),
        pytest.param(Acc, {}, 9_000, DATA_MINING, marks=pytest.mark.slow),
        (Pet, {}, 4_000, WEBSEARCH),
        pytest.param(Pet, {}, 4_000, DATA_MINING, marks=pytest.mark.slow),
        pytest.param(Pet, {"score": "delay"}, 8_000, WEBSEARCH, marks=pytest.mark.slow),
        pytest.param(Pet, {"score": "delay"}, 8_000, DATA_MINING, marks=pytest.mark.slow),
        # With WebSearch's weights these two end at 0.92 to 0.98 of the best, by seed: D(L) has steps.
        pytest.param(Pet, {"score": "delay", "flows": False}, 8_000, DATA_MINING, marks=pytest.mark.slow),
        pytest.param(Pet, {"score": "delay", "trace": 0.95}, 8_000, DATA_MINING, marks=pytest.mark.slow),
    ],
)
def test_a_learner_comes_within_5_percent_of_its_best_action(
    kind: type[Learner], variant: Mapping[str, object], intervals: int, reward: tuple[float, float]
) -> None:
    learner = kind(Mode.OFFLINE, reward=reward, first_seed=1, **variant)  # type: ignore[call-arg, arg-type]
    asked(learner, intervals)
    frozen = kind(Mode.FROZEN, learner.trained(), **variant)  # type: ignore[call-arg, arg-type]
    assert frozen.reward == reward
    found = asked(frozen, 30)[-1]
    assert earned(found, learner) > 0.95 * max(earned(mark, learner) for mark in learner.actions)


def test_the_rewards_weights_decide_where_the_optimum_lies() -> None:
    best = {}
    for reward in (WEBSEARCH, DATA_MINING):
        learner = Pet(Mode.ONLINE, score="delay", reward=reward)
        best[reward] = threshold_bytes(max(Pet.actions, key=partial(earned, learner=learner)))
    assert best[WEBSEARCH] == pytest.approx(20e3)
    assert best[DATA_MINING] == pytest.approx(320e3)


def test_pets_own_score_prefers_the_deepest_queue_as_its_ladder_begins_at_20_kb() -> None:
    learner = Pet(Mode.ONLINE, reward=WEBSEARCH)
    best = max(Pet.actions, key=partial(earned, learner=learner))
    assert best == Watermark(5_120_000, 10_240_000, 0.05)


def test_actions_are_those_of_the_papers() -> None:
    assert len(acc.ACTIONS) == len(set(acc.ACTIONS)) == 180
    assert len({(mark.kmin_bytes, mark.kmax_bytes) for mark in acc.ACTIONS}) == 30
    assert len(pet.PAIRS) == 45
    assert len(pet.ACTIONS) == len(set(pet.ACTIONS)) == 900
    assert {mark.kmin_bytes for mark in pet.ACTIONS} == {20_000 * 2**n for n in range(9)}
    assert (pet.PMAX[0], pet.PMAX[-1]) == (0.05, 1.0)


@pytest.mark.parametrize("kind", [Acc, Pet])
@pytest.mark.parametrize("mode", [Mode.ONLINE, Mode.OFFLINE])
def test_the_same_seed_gives_the_same_settings_and_another_one_others(
    kind: type[Learner], mode: Mode
) -> None:
    def run(seed: int) -> list[Watermark]:
        return asked(kind(mode, first_seed=seed), 400, seed)  # type: ignore[call-arg]

    first = run(1)
    assert run(1) == first
    assert run(2) != first


@pytest.mark.parametrize("kind", [Acc, Pet])
def test_an_online_learner_begins_each_run_with_its_policy(kind: type[Learner]) -> None:
    trained = kind(Mode.OFFLINE)  # type: ignore[call-arg]
    learner = kind(Mode.ONLINE, trained.trained())  # type: ignore[call-arg]
    assert asked(learner, 300) == asked(learner, 300)


@pytest.mark.parametrize("kind", [Acc, Pet])
def test_training_goes_on_as_if_it_had_never_stopped(kind: type[Learner]) -> None:
    whole, stopped = kind(Mode.OFFLINE), kind(Mode.OFFLINE)  # type: ignore[call-arg]
    for learner in (whole, stopped):
        asked(learner, 300)
    again = kind(Mode.OFFLINE)  # type: ignore[call-arg]
    again.resume(stopped.checkpoint())
    assert asked(again, 300) == asked(whole, 300)
    for name, array in whole.checkpoint().items():
        assert (array == again.checkpoint()[name]).all()


def test_exploration_halves_each_3448_steps_and_never_rises() -> None:
    found = [exploration(step) for step in range(20_000)]
    assert set(found[:51]) == {0.2}
    assert found[3_548] / found[100] == pytest.approx(0.5, abs=1e-4)
    assert found[6_996] / found[3_548] == pytest.approx(0.5, abs=1e-4)
    assert found == sorted(found, reverse=True)


@pytest.mark.parametrize("kind", [Acc, Pet])
def test_as_many_actions_are_tries_as_exploration_says(kind: type[Learner]) -> None:
    learner = kind(Mode.ONLINE)  # type: ignore[call-arg]
    tries = [learner.exploring for _ in TOY.run(learner, 1_500, 1)]
    expected = sum(exploration(step) for step in range(1_500))
    assert sum(tries) == pytest.approx(expected, rel=0.15)
    frozen = kind(Mode.FROZEN)  # type: ignore[call-arg]
    assert not any(frozen.exploring for _ in TOY.run(frozen, 100, 1))


def test_acc_explores_less_and_less_offline() -> None:
    learner = Acc(Mode.OFFLINE)
    assert learner.epsilon == 1.0
    learner.steps = acc.OFFLINE_STEPS // 2
    assert learner.epsilon == pytest.approx(0.525)
    learner.steps = 10 * acc.OFFLINE_STEPS
    assert learner.epsilon == 0.05


def test_an_action_is_paid_by_the_interval_in_which_it_ran() -> None:
    class Noted(Acc):
        def learn(self, step: object) -> None:
            action, reward = int(step.choice.action[0, 0]), float(step.reward[0, 0])  # type: ignore[attr-defined]
            pairs.append((self.actions[action], reward))

    for budget in ("box", "collector"):
        pairs: list[tuple[Watermark, float]] = []
        learner = Noted(Mode.ONLINE)
        marks = asked(learner, 40, toy=Toy(BUDGETS[budget]))
        late = round(BUDGETS[budget].delay_s / BUDGETS[budget].interval_s)
        assert [mark for mark, _ in pairs] == marks[: 40 - 1 - late]
        assert all(reward == pytest.approx(earned(mark, learner)) for mark, reward in pairs)


def test_a_crew_puts_each_queue_with_its_switch() -> None:
    crew = Crew(["a", "b", "a", "a"])
    assert (crew.agents, crew.rows) == (2, 3)
    assert crew.there.tolist() == [[True, True, True], [True, False, False]]
    given = np.array([10, 20, 30, 40])
    assert crew.spread(given)[crew.there].tolist() == [10, 30, 40, 20]
    assert crew.gather(crew.spread(given)).tolist() == given.tolist()


@pytest.fixture(scope="module")
def fabric() -> FabricFacts:
    return facts_of(scenario_named("websearch-20+small"), BUDGETS["box"])


def busy_interval(facts: FabricFacts, number: int, *, idle: int) -> Seen:
    """Half used, all queues but the first ``idle``."""
    count = len(facts.queues)
    none, sent = np.zeros(count), 0.5 * facts.rate_bytes_per_s * facts.interval_s
    sent[:idle] = 0.0
    counts = np.zeros(count, dtype=np.int64)
    return Seen(
        begin_s=number * facts.interval_s,
        end_s=(number + 1) * facts.interval_s,
        depth_mean_bytes=none,
        depth_peak_bytes=none,
        sent_bytes=sent,
        marked_bytes=none,
        dropped_packets=counts,
        paused_s=none,
        pausing_s=none,
        pauses_sent=counts,
        watermarks=facts.incumbent,
        dcqcn=facts.dcqcn,
    )


def test_idle_queues_are_left_out_of_what_is_learned(fabric: FabricFacts) -> None:
    for learner in (Acc(Mode.ONLINE), Pet(Mode.ONLINE, flows=False)):
        learner.begin(fabric, 1)
        for number in range(11):
            learner.act(busy_interval(fabric, number, idle=5))
        assert learner.transitions == 10 * (len(fabric.queues) - 5)


def test_acc_counts_what_its_switches_send_each_other(fabric: FabricFacts) -> None:
    learner = Acc(Mode.ONLINE)
    learner.begin(fabric, 1)
    sent = []
    for number in range(202):
        learner.act(busy_interval(fabric, number, idle=0))
        sent.append(learner.exchanged_bytes)
    assert [number for number in range(1, 202) if sent[number] > sent[number - 1]] == [100, 200]
    a_transition = 2 * 18 * 4 + 2 + 4
    others = len(set(fabric.switch)) - 1
    held = [min(100 * fabric.switch.count(name), acc.MEMORY) for name in dict.fromkeys(fabric.switch)]
    assert sent[100] == others * a_transition * sum(round(0.1 * one) for one in held)


def test_pet_sends_nothing(fabric: FabricFacts) -> None:
    learner = Pet(Mode.ONLINE, flows=False)
    learner.begin(fabric, 1)
    for number in range(300):
        learner.act(busy_interval(fabric, number, idle=0))
    assert learner.exchanged_bytes == 0


def test_agents_drift_apart_as_each_trains_on(fabric: FabricFacts) -> None:
    learner = Pet(Mode.ONLINE, flows=False)
    learner.begin(fabric, 1)
    for number in range(pet.ROLLOUT + 2):
        learner.act(busy_interval(fabric, number, idle=0))
    first, second = learner.checkpoint()["actor.0"][:2]
    assert (first != second).any()
