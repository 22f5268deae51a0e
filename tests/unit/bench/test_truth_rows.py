"""Rows of truth and what-if documents as predictions."""

from __future__ import annotations

import math
from typing import Any

import pytest

from bench.accuracy import as_predictions, prediction_from_row
from twin.errors import ParameterError, WatermarkError
from twin.prediction import Probe, Slowdown, SolveStatus


def test_rows_of_a_whatif_document_are_predictions() -> None:
    row = {
        "kmin_bytes": 5000,
        "kmax_bytes": 200000,
        "pmax": 0.01,
        "status": "diverged",
        "queue_mean_bytes": None,
        "goodput_gbps": 8,
        "drops": 2,
        "slowdown": {
            "mice": {"n": 3, "mean": 1.5, "p99": 2.0},
            "elephant": {"n": 0, "mean": None, "p99": None},
        },
        "probe_slowdown": {"p50": 1.0, "p99": 9.0},
        "paused_share": 0.01,
    }
    made = prediction_from_row(row)
    assert made.status is SolveStatus.DIVERGED
    assert made.goodput_bytes_per_s == 1e9
    assert made.loss_bytes == 2 * 1048
    assert dict(made.slowdown) == {"mice": Slowdown(3, 1.5, 2.0)}
    assert dict(made.probe) == {"all": Probe(1, 1.0, 9.0)}
    assert (made.paused_share, made.loss_share) == (0.01, None)
    assert math.isnan(made.queue_mean_bytes)
    assert repr(as_predictions([row])) == repr([made])


GOOD_ROW = {"kmin_bytes": 1, "kmax_bytes": 2, "pmax": 0.5}


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ({"kmax_bytes": 2, "pmax": 0.5}, "results\\[0\\] kmin_bytes: a row names its watermark"),
        (GOOD_ROW | {"status": "fine"}, "status: received 'fine'"),
        (GOOD_ROW | {"goodput_gbps": "8"}, "goodput_gbps: received '8'"),
        (GOOD_ROW | {"slowdown": [1]}, "slowdown: received \\[1\\]"),
    ],
)
def test_a_row_that_is_no_prediction_names_its_key(bad: dict[str, Any], says: str) -> None:
    with pytest.raises(ParameterError, match=says):
        as_predictions([bad])


def test_a_row_with_an_impossible_watermark_says_so() -> None:
    with pytest.raises(WatermarkError, match="Kmin must be below Kmax"):
        as_predictions([GOOD_ROW | {"kmin_bytes": 3}])
