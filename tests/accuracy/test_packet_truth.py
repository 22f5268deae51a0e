"""The packet engine against the packets of another simulator, at the promised accuracy.

A problem's 47 runs are made once, for these tests and those of the picks. A figure that misses its goal is
listed with what was measured and why; one that no longer misses fails too, so that the list stays true.
"""

from __future__ import annotations

import numpy as np
import pytest

from bench import accuracy, packet, picks
from bench.accuracy import PROBLEMS
from twin.packet.model import PacketEngine

pytestmark = pytest.mark.accuracy

LARGE = ("parking-lot", "websearch-16", "websearch-16-shallow", "steady-64")  # up to a minute each
RANK_MISSED = {
    ("parking-lot", "goodput"): (
        "measured 0.60: 36 of the truth's 47 goodputs lie within 2 %, and this engine's own seeds agree with "
        "each other only to 0.62 to 0.86"
    ),
    ("incast-64", "goodput"): (
        "measured 0.93: the truth's ports carried 101 Gbit/s where the problem says 100; at their rate it is "
        "0.98 (tested below)"
    ),
}


@pytest.mark.parametrize(
    "problem", [pytest.param(one, marks=[pytest.mark.slow] if one in LARGE else []) for one in PROBLEMS]
)
def test_every_figure_is_as_close_as_promised(problem: str) -> None:
    predictions = picks.runs(problem, "packet", 1)
    assert {one.status.code for one in predictions} == {"ok"}
    if accuracy.scenario(problem).pfc:
        assert max(one.loss_bytes for one in predictions) == 0
    compared = packet.cells(problem, predictions)
    far = {one.figure: one.ratio for one in compared if abs(one.ratio - 1.0) > packet.RATIO_GOAL}
    assert not far
    missed = {
        one.figure: one.rank for one in compared if one.rank_goal is not None and one.rank < one.rank_goal
    }
    assert set(missed) == {figure for name, figure in RANK_MISSED if name == problem}, missed


def test_at_the_truths_port_rate_the_incasts_are_in_order() -> None:
    problem = packet.at_the_truths_rate(accuracy.scenario("incast-64"))
    watermarks = [row.watermark for row in accuracy.truth("incast-64")]
    compared = packet.cells("incast-64", PacketEngine().predict(problem, watermarks, seed=1))
    [goodput] = [one for one in compared if one.figure == "goodput"]
    assert goodput.rank >= packet.RANK_GOAL
    assert goodput.ratio == pytest.approx(1.0, abs=0.002)


@pytest.mark.slow
def test_no_engine_could_meet_the_parking_lots_goodput_order() -> None:
    # The reason given above, on a third of the watermarks.
    watermarks = [row.watermark for row in accuracy.truth("parking-lot")][::3]
    runs = [
        np.array([one.goodput_bytes_per_s for one in PacketEngine().predict(problem, watermarks, seed=seed)])
        for problem in (accuracy.scenario("parking-lot"),)
        for seed in (1, 2)
    ]
    assert accuracy.order_agreement(*runs) < 0.95
