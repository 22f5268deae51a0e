"""The replay engine against the packets, at the accuracy the project promises; no figure here is loosened.

What is not reached is expected to fail, with the number measured and why; where it begins to pass, that is a
failure too (``strict``), so that the mark goes.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench import accuracy
from bench.accuracy import FIGURES, PAUSING, PROBLEMS, Cell
from tests.accuracy.conftest import Predicted
from twin.replay.model import ReplayEngine

pytestmark = pytest.mark.accuracy

FLOWS_COMPLETE = {"websearch-16", "websearch-16-shallow"}
MEASURED = [
    (problem, figure)
    for problem in PROBLEMS
    for figure in FIGURES
    if not (figure == "elephant mean" and problem not in FLOWS_COMPLETE)
    and not (figure == "mice p99" and problem not in FLOWS_COMPLETE | {"incast-64"})
    and not (figure == "pause" and problem != PAUSING)
]


def cell(predicted: Predicted, problem: str, figure: str) -> Cell:
    [found] = [one for one in accuracy.cells(problem, predicted(problem)) if one.figure == figure]
    return found


@pytest.mark.parametrize("problem", PROBLEMS)
def test_every_watermark_is_predicted_and_every_figure_compared(predicted: Predicted, problem: str) -> None:
    rows = predicted(problem)
    assert len(rows) == 47
    assert {row.status.code for row in rows} == {"ok"}
    compared = {one.figure for one in accuracy.cells(problem, rows)}
    assert compared == {figure for name, figure in MEASURED if name == problem}


@pytest.mark.parametrize(("problem", "figure"), [one for one in MEASURED if one[1] != "pause"])
def test_the_median_ratio_is_within_ten_percent(predicted: Predicted, problem: str, figure: str) -> None:
    assert cell(predicted, problem, figure).ratio == pytest.approx(1.0, abs=0.10)


# Where the truth spreads over 20 % (goodput 5 %): 0.95, or 0.9 where another seed of the packets moves it
# more than 5 %.
RANKED = [
    *((problem, "mean queue", 0.90) for problem in ("websearch-16", "websearch-16-shallow", "parking-lot")),
    *((problem, "p99 queue", 0.90) for problem in ("websearch-16", "websearch-16-shallow")),
    *((problem, "mice p99", 0.90) for problem in ("websearch-16", "websearch-16-shallow")),
    *((problem, "elephant mean", 0.90) for problem in ("websearch-16", "websearch-16-shallow")),
    *((problem, "goodput", 0.95) for problem in PROBLEMS if problem not in ("parking-lot", "incast-64")),
    ("steady-64", "mean queue", 0.95),
    ("steady-64", "p99 queue", 0.95),
    ("parking-lot", "p99 queue", 0.95),
    pytest.param(
        "incast-64",
        "goodput",
        0.95,
        marks=pytest.mark.xfail(
            strict=True,
            reason="measured 0.91: 18 of the 47 true goodputs lie within 2 %, "
            "of which the replay has those of a low Kmax up to 3 % too high",
        ),
    ),
    pytest.param(
        "parking-lot",
        "goodput",
        0.95,
        marks=pytest.mark.xfail(
            strict=True,
            reason="measured 0.69: 36 of the truth's 47 goodputs lie within 2 %, 29 of them within 1 %, and "
            "the engine's own answers under two seeds agree with each other only to 0.51 to 0.78",
        ),
    ),
]


@pytest.mark.parametrize(("problem", "figure", "goal"), RANKED)
def test_watermarks_come_in_the_packets_order(
    predicted: Predicted, problem: str, figure: str, goal: float
) -> None:
    found = cell(predicted, problem, figure)
    assert found.rank_goal == goal
    assert found.rank >= goal


def test_no_order_is_left_out_that_the_truth_has(predicted: Predicted) -> None:
    listed = {tuple(getattr(one, "values", one))[:2] for one in RANKED} | {(PAUSING, "pause")}
    every = [one for problem in PROBLEMS for one in accuracy.cells(problem, predicted(problem))]
    assert {(one.problem, one.figure) for one in every if one.rank_goal is not None} == listed


def test_pause_time_follows_the_packets(predicted: Predicted) -> None:
    found = cell(predicted, PAUSING, "pause")
    assert found.rank >= 0.9
    assert 0.5 <= found.ratio <= 2.0


def test_reports_alone_give_the_incumbents_queue() -> None:
    for ours, theirs in accuracy.incumbent_from_reports(ReplayEngine()).values():
        assert ours == pytest.approx(theirs, rel=0.15)


def test_the_reference_problems_are_the_ones_tested(reference: Path) -> None:
    assert reference == accuracy.REFERENCE
    assert {*PROBLEMS, *accuracy.TIERED} == {
        path.name.removesuffix(".truth.json") for path in reference.glob("*.truth.json")
    } - {"published-2flow"}


def test_the_ceiling_of_the_goodput_order_is_as_stated() -> None:
    # The reason given above: two seeds of the engine do not agree with each other either.
    assert max(accuracy.seeds_agree("parking-lot", "goodput", ReplayEngine(), (2, 3))) < 0.9
    goodput = np.sort([row.goodput_bytes_per_s for row in accuracy.truth("parking-lot")])
    assert max(np.count_nonzero((goodput >= low) & (goodput <= 1.01 * low)) for low in goodput) == 29
