"""Every search finds the optimum of a port that has a known one, by its own objective."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.rivals.observe import BUDGETS
from bench.rivals.toy import (
    Toy,
    best_of_rate_and_delay,
    best_of_rate_per_queue,
    threshold_bytes,
    used,
)
from bench.rivals.tuners.annealing import Annealing
from bench.rivals.tuners.bytetuning import QUEUE_UNIT_BYTES, ByteTuning
from bench.rivals.tuners.paraleon import Paraleon, ParaleonPlus, Schedule
from bench.rivals.tuners.probing import Prober
from bench.rivals.tuners.utility import PLUS, RELEASED, Weights, divergence
from lab.demo.plan import VENDOR_DEFAULT
from twin.senders.dcqcn import DcqcnParams
from twin.watermark import Watermark

Objective = Callable[[Toy, float], float]


def paraleons(weights: Weights) -> tuple[Objective, Objective]:
    """Its utility at a threshold, and the best threshold."""

    def line_bytes(toy: Toy) -> float:
        return toy.facts.base_rtt_s * float(toy.facts.rate_bytes_per_s[0])

    def chosen(toy: Toy) -> tuple[float, float, float]:
        return weights.large if toy.large else weights.small

    def utility(toy: Toy, depth: float) -> float:
        rate, delay, pauses = chosen(toy)
        return rate * used(depth) + delay * line_bytes(toy) / (line_bytes(toy) + depth) + pauses

    def best(toy: Toy, _: float) -> float:
        rate, delay, _ = chosen(toy)
        return best_of_rate_and_delay(rate, delay, line_bytes(toy))

    return utility, best


def bytetunings() -> tuple[Objective, Objective]:
    return (
        lambda _, depth: used(depth) / (depth + QUEUE_UNIT_BYTES),
        lambda *_: best_of_rate_per_queue(QUEUE_UNIT_BYTES),
    )


SEARCHES: dict[str, tuple[type[Prober], tuple[Objective, Objective], int]] = {
    "annealing": (Annealing, paraleons(PLUS), 100),
    "paraleon": (Paraleon, paraleons(RELEASED), 130),
    "paraleon-plus": (ParaleonPlus, paraleons(PLUS), 72),
    "bytetuning": (ByteTuning, bytetunings(), 601),
}


def the_first_search(tuner: Prober, toy: Toy, seed: int) -> tuple[list[float], float]:
    """Thresholds while it ran, and the one it ended with."""
    during = []
    for _, settings in toy.run(tuner, 40_000, seed):
        [mark] = settings.watermarks
        if tuner.searches_ended:
            return during, threshold_bytes(mark)
        during.append(threshold_bytes(mark))
    raise AssertionError("the search has not ended")


@pytest.mark.parametrize("name", SEARCHES)
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("budget", ["box", "collector"])
def test_a_search_ends_within_5_percent_of_the_optimum(name: str, seed: int, budget: str) -> None:
    kind, (worth, best), _ = SEARCHES[name]
    # ByteTuning halves its step with each success, so that it comes a factor of ten far and no further.
    start = Watermark(20_000, 80_000, 0.2) if name == "bytetuning" else VENDOR_DEFAULT
    toy = Toy(BUDGETS[budget], incumbent=start)
    during, found = the_first_search(kind(), toy, seed)
    optimum = worth(toy, best(toy, 0.0))
    assert worth(toy, during[0]) < 0.8 * optimum  # it did not begin there
    assert worth(toy, found) > 0.95 * optimum


@pytest.mark.parametrize("name", SEARCHES)
def test_the_optimum_of_the_toy_is_the_best_of_all_thresholds(name: str) -> None:
    toy, (_, (worth, best), _) = Toy(BUDGETS["box"]), SEARCHES[name]
    at = best(toy, 0.0)
    assert all(worth(toy, at) > worth(toy, at * by) for by in (0.01, 0.5, 0.99, 1.01, 2.0, 100.0))


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_takes_as_many_probes_as_its_paper_says(name: str) -> None:
    kind, _, probes = SEARCHES[name]
    budget = BUDGETS["collector"]
    tuner = kind()
    during, _ = the_first_search(tuner, Toy(budget), 1)
    a_probe = tuner.effort.measured_s + tuner.effort.discarded_s + budget.delay_s
    assert len(during) == probes * round(a_probe / budget.interval_s)


@pytest.mark.parametrize("name", SEARCHES)
def test_the_same_seed_gives_the_same_search_and_another_one_another(name: str) -> None:
    kind, toy = SEARCHES[name][0], Toy(BUDGETS["box"])
    again = kind()
    first = the_first_search(again, toy, 1)
    assert first == the_first_search(again, toy, 1)  # begin forgets what an earlier run left
    assert first != the_first_search(kind(), toy, 2)


def test_a_search_explores_until_it_ends() -> None:
    tuner, toy = ParaleonPlus(), Toy(BUDGETS["box"])
    exploring = [(tuner.exploring, tuner.searches_ended) for _ in toy.run(tuner, 1_000, 1)]
    assert exploring[0] == (False, 0)  # nothing is known of the traffic yet
    assert {done for now, done in exploring if now} == {0}
    assert exploring[-1] == (False, 1)  # its traffic never changes


def test_paraleon_moves_sender_parameters_where_there_are_any() -> None:
    for settable in (False, True):
        tuner, toy = Paraleon(), Toy(BUDGETS["box"], sets_senders=settable)
        asked = [settings.dcqcn for _, settings in toy.run(tuner, 500, 1)]
        assert all(isinstance(one, DcqcnParams) == settable for one in asked)
        assert (len(set(asked)) > 10) == settable


@pytest.mark.parametrize(
    ("schedule", "probes"),
    [(Paraleon.schedule, 130), (ParaleonPlus.schedule, 72), (Schedule(1, 2, 0.5, 3), 0)],
)
def test_temperatures_fall_to_the_last(schedule: Schedule, probes: int) -> None:
    found = schedule.temperatures()
    assert len(found) == probes
    assert list(found) == sorted(found, reverse=True)


def test_divergence_tells_a_change_of_shares() -> None:
    assert divergence(0.5, 0.5) == 0.0
    assert divergence(0.6, 0.5) == pytest.approx(0.0201, abs=1e-4)
    assert divergence(1.0, 0.0) < 10  # finite
