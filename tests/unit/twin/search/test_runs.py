"""What a round keeps of its predictions, and the batches that workers get."""

from __future__ import annotations

from dataclasses import replace

import pytest

from twin.prediction import Prediction, SolveStatus
from twin.search.candidates import Origin, Proposal
from twin.search.runs import Ledger, Rung, in_batches
from twin.watermark import Watermark

ONE = Watermark(10_000, 40_000, 0.2)


def with_mean_queue(queue_bytes: float) -> Prediction:
    found = Prediction.failed(ONE, SolveStatus.DIVERGED)
    return replace(found, status=SolveStatus.OK, queue_mean_bytes=queue_bytes)


def test_a_mean_follows_runs_under_further_seeds() -> None:
    ledger = Ledger(1, [Rung(1.0)], seeds=(1, 2, 3))
    [number] = ledger.extend([Proposal(ONE, Origin.INCUMBENT)])
    for seed, mean in ((1, 100.0), (2, 150.0), (3, 200.0)):
        ledger.record(0, number, 0, 0, seed, with_mean_queue(100.0 * seed))
        for _ in range(2):
            assert ledger.full(0, number).queue_mean_bytes == mean
            assert ledger.full(0, number, 0).queue_mean_bytes == mean


def test_runs_of_two_candidates_are_paired_in_the_order_of_the_seeds() -> None:
    ledger = Ledger(1, [Rung(1.0)], seeds=(7, 900, 30))
    now, new = ledger.extend([Proposal(one, Origin.DRAWN) for one in (ONE, Watermark(20_000, 40_000, 0.2))])
    for seed in (30, 900, 7):
        ledger.record(0, now, 0, 0, seed, with_mean_queue(seed))
    for seed in (900, 7):
        ledger.record(0, new, 0, 0, seed, with_mean_queue(seed))
    [pair], [same] = ledger.paired(0, new, now), ledger.paired(0, now, now)
    assert pair.seeds == (7, 900)
    # The error of a difference is that of runs of one seed, so both begin with the same.
    assert same.seeds == (7, 900, 30)
    assert [one.queue_mean_bytes for one in pair.new_runs] == [7, 900]


@pytest.mark.parametrize(
    ("count", "most", "sizes"),
    [(0, 4, []), (3, 4, [3]), (9, 4, [3, 3, 3]), (8, 3, [2, 3, 3]), (97, 13, [12] * 7 + [13])],
)
def test_batches_are_few_and_alike(count: int, most: int, sizes: list[int]) -> None:
    batches = in_batches(range(count), most)
    assert sorted(map(len, batches)) == sizes
    assert [number for batch in batches for number in batch] == list(range(count))
