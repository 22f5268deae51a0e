"""The watermark picked by its gain, judged on the truth of another simulator.

What is not reached is expected to fail, strictly, with the number measured and why.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pytest

from bench import picks
from bench.accuracy import PROBLEMS
from twin.search.gain import POLICIES

pytestmark = pytest.mark.accuracy

ALIKE = {
    ("websearch-16",): (
        "measured 0.84: 34 of 47 watermarks gain within 0.15 of each other, and the engines are 0.04 apart, "
        "as two seeds of each are together"
    ),
    ("websearch-16-shallow",): (
        "measured 0.76: 38 of 47 watermarks gain within 0.15 of each other; two seeds of the packets agree "
        "to 0.92, two of the replay to 0.81"
    ),
    ("incast-64",): (
        "measured 0.93: goodputs of a low Kmax are up to 3 % too high, and half of the gains lie within "
        "0.005 of the next; two seeds of the packets agree to 0.965"
    ),
}
SEEDS = (1, 2, 3, 4)  # one seed picks among leaders alike by luck, and loses up to 0.14


def cases(rows: Iterable[tuple[str, ...]], not_reached: Mapping[tuple[str, ...], str]) -> list[Any]:
    """Parameters; what is not reached fails strictly, for the reason given."""
    return [
        pytest.param(
            *row,
            marks=[pytest.mark.xfail(strict=True, reason=not_reached[row])] if row in not_reached else [],
        )
        for row in rows
    ]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("problem", [name for name in PROBLEMS if "mice" in picks.judges(name)])
def test_the_watermark_picked_is_close_to_the_best(problem: str, policy: str) -> None:
    rows = [picks.picked(problem, POLICIES[policy], seed) for seed in SEEDS]
    lost = [picks.lost(problem, row, POLICIES[policy], "mice") for row in rows]
    assert np.mean(lost) <= picks.WORST_GOAL


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_the_watermark_picked_is_close_to_the_best_for_a_probe(problem: str, policy: str) -> None:
    row = picks.picked(problem, POLICIES[policy])
    assert picks.lost(problem, row, POLICIES[policy], "probe") <= picks.WORST_GOAL


@pytest.mark.slow
def test_picks_lose_little_on_average_alone_and_reviewed_by_packets() -> None:
    alone, reviewed = [], []
    for problem in PROBLEMS:
        policy = POLICIES["balanced"]
        one, (both, ran) = picks.picked(problem, policy), picks.picked_twice(problem, policy)
        assert both in ran
        for judge in picks.judges(problem):
            alone.append(picks.lost(problem, one, policy, judge))
            reviewed.append(picks.lost(problem, both, policy, judge))
    assert np.mean(alone) <= picks.MEAN_GOAL
    assert np.mean(reviewed) <= picks.MEAN_GOAL
    assert max(reviewed) <= picks.WORST_GOAL


@pytest.mark.slow
@pytest.mark.parametrize("problem", cases(zip(PROBLEMS), ALIKE))
def test_two_engines_put_gains_in_one_order(problem: str) -> None:
    assert picks.rank_of_gain(problem, POLICIES["balanced"], "replay", "packet") >= picks.RANK_GOAL
