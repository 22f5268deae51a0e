"""What the demo found: runs over the same traffic, scored against each other as rounds score candidates.

Must import no engine; pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lab.demo.loop import Run
from lab.demo.plan import VENDOR_DEFAULT, DemoPlan
from lab.documents import FiguresDocument
from twin.dcqcn import GBPS
from twin.result import Prediction, Slowdown, SolveStatus
from twin.search.score import Scores, score, weights_named

CLOSED_LOOP, VENDOR, PAPER_SETTING = "closed loop", "vendor default", "DCQCN paper"
WEIGHTS = "balanced"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The runs, the closed loop first, and their scores over the whole run in that order.

    ``wall_s`` is how long all of it took.
    """

    plan: DemoPlan
    seed: int
    runs: tuple[Run, ...]
    scores: Scores
    wall_s: float

    @property
    def loop(self) -> Run:
        """The closed loop's run."""
        return self.runs[0]

    @property
    def lead(self) -> float:
        """The closed loop's score less that of the better static setting."""
        found = self.scores.score.tolist()
        return float(found[0] - max(found[1:]))


def outcome_of(plan: DemoPlan, seed: int, runs: Sequence[Run], wall_s: float) -> Outcome:
    """The runs scored; the first is the closed loop's."""
    predictions = [measured(run.whole) for run in runs]
    return Outcome(plan, seed, tuple(runs), score(predictions, weights_named(WEIGHTS), True), wall_s)


def measured(figures: FiguresDocument) -> Prediction:
    """A lab's figures in the shape that scores are made of; nothing of it was predicted.

    The watermark in it means nothing: a closed loop has many.
    """
    found = {
        name: Slowdown(one.n, float(one.mean), float(one.p99))
        for name, one in figures.slowdown.items()
        if one.n and one.mean is not None and one.p99 is not None
    }
    return Prediction(
        watermark=VENDOR_DEFAULT,
        status=SolveStatus.OK,
        queue_mean_bytes=figures.queue_mean_bytes,
        queue_p99_bytes=figures.queue_p99_bytes,
        queue_peak_bytes=float("nan"),
        goodput_bytes_per_s=figures.goodput_gbps * GBPS,
        marked_fraction=figures.marked_fraction,
        loss_bytes=figures.dropped_bytes,
        pfc_pause_s=figures.paused_s,
        slowdown=found,
    )
