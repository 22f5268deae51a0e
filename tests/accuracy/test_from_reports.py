"""Predictions on scenarios rebuilt from reports: against the packets, and against denser sampling."""

from __future__ import annotations

import pytest

from bench import from_reports

pytestmark = pytest.mark.accuracy


@pytest.mark.parametrize("problem", ["incast-burst-leafspine", "websearch-16", "parking-lot"])
def test_reports_alone_predict_every_watermark(problem: str) -> None:
    for one in from_reports.against_truth(problem):
        if one.figure == "mice p99":  # most of them left no sample
            assert 0.7 < one.ratio < 1.5
        else:
            assert one.ratio == pytest.approx(1.0, abs=from_reports.RATIO_GOAL), one.figure
            assert one.rank >= 0.95


@pytest.mark.parametrize("problem", ["incast-burst-leafspine", "websearch-16", "parking-lot"])
def test_coarser_sampling_predicts_the_same_queue(problem: str) -> None:
    for coarse in from_reports.thinned(problem):
        assert coarse.off <= from_reports.COARSER[coarse.one_in], coarse
