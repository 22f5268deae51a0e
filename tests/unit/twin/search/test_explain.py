"""The sentence of why, and quantities as an operator says them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.twin.analytic_engine import AnalyticEngine
from tests.unit.twin.fabrics import star
from twin.prediction import Prediction, Probe, Slowdown, SolveStatus
from twin.search.explain import absent_notes, relative_changes, why
from twin.search.gain import Policy
from twin.search.recommendation import Verdict, VerdictKind
from twin.units import bytes_text, change_text, duration_text, percent_text
from twin.watermark import Watermark

CHANGE = Verdict(VerdictKind.CHANGE, "Change.")


def prediction(queue: float, elephant: float | None, mice: float | None, pause: float = 0.0) -> Prediction:
    seen = {"elephant": (elephant, elephant), "mice": (1.5, mice)}
    slowdown = {
        name: Slowdown(9, mean, p99)
        for name, (mean, p99) in seen.items()
        if mean is not None and p99 is not None
    }
    watermark = Watermark(120_000, 480_000, 0.1)
    return Prediction(watermark, SolveStatus.OK, queue, 0.0, 0.0, 1e10, 0.0, 0.0, pause, slowdown)


def sentence(before: Prediction, after: Prediction, pfc: bool = True, probe: float = 0.5) -> str:
    return why(
        CHANGE,
        after.watermark,
        before,
        after,
        dominant_class="mouse",
        pfc=pfc,
        policy=Policy(probe=probe),
        gained="8.1 ± 1.9 % better for the balanced policy",
    )


def test_a_change_in_numbers_with_units() -> None:
    assert sentence(prediction(62_700, 6.0, 20.0, 0.009), prediction(30_000, 6.2, 15.0)) == (
        "Kmin 120 KB, Kmax 480 KB, Pmax 10 %: 8.1 ± 1.9 % better for the balanced policy: "
        "mice 25 % faster at p99, elephants 3 % slower, mean queue falls from 62.7 KB to 30 KB (−52 %), "
        "no pause (was 9 ms of PFC pause); mice carry the most bytes."
    )


@pytest.mark.parametrize(
    ("share", "order"),
    [
        (0.5, "a small message 30 % faster at p99, mice 25 % faster at p99,"),
        (0.0, "mice 25 % faster at p99, a small message 30 % faster at p99,"),
    ],
)
def test_mice_and_the_probe_are_told_in_the_order_of_their_weights(share: float, order: str) -> None:
    before, after = (
        replace(prediction(10_000, 2.0, mice), probe={"all": Probe(9, 1.0, probe)})
        for mice, probe in ((20.0, 10.0), (15.0, 7.0))
    )
    assert order in sentence(before, after, probe=share)


def test_what_no_weight_counts_is_told_where_it_loses() -> None:
    before, after = prediction(10_000, 2.0, 20.0), prediction(5_000, 2.0, 10.0)
    slower = replace(
        after, slowdown=after.slowdown | {"medium": Slowdown(9, 6.0, 6.0)}, goodput_bytes_per_s=8e9
    )
    before = replace(before, slowdown=before.slowdown | {"medium": Slowdown(9, 2.0, 2.0)})
    said = "goodput −20 % (not weighed), messages of 100 KB to 1 MB 200 % slower (not weighed), mean queue"
    assert said in sentence(before, slower)
    assert "not weighed" not in sentence(slower, before)


def test_a_note_tells_where_medium_messages_are_the_traffic() -> None:
    steps = star([(0, 1)] * 3 + [(1, 2)] * 9, payload_bytes=[5e5] * 3 + [1e3] * 9)
    few, medium = absent_notes(prediction(10_000, None, 2.0), steps)
    assert few.startswith("No elephants and no persistent flows")
    assert medium.startswith("Messages of 100 KB to 1 MB carry 99")
    assert len(absent_notes(prediction(10_000, None, 2.0), star([(0, 1)], payload_bytes=1e3))) == 1


def test_a_run_that_failed_says_nothing_of_its_traffic() -> None:
    failed = Prediction.failed(Watermark(120_000, 480_000, 0.1), SolveStatus.BUDGET)
    assert absent_notes(failed, star([(0, 1)], payload_bytes=1e3)) == ()


def test_without_completions_it_speaks_of_goodput() -> None:
    text = sentence(prediction(10_000, None, None), prediction(20_000, None, None), pfc=False)
    assert "goodput +0 %, mean queue rises from 10 KB to 20 KB (+100 %), no loss;" in text


def test_a_queue_that_stays_and_one_that_was_empty() -> None:
    assert "mean queue stays at 10 KB" in sentence(
        prediction(10_000, 2.0, None), prediction(10_010, 2.0, None)
    )
    assert "elephants as fast as before, mean queue 10 KB" in sentence(
        prediction(0.0, 2.0, None), prediction(10_000, 2.0, None)
    )


def test_relative_changes_name_what_both_have() -> None:
    before, after = AnalyticEngine().predict(
        star([(0, 1)]), [Watermark(400_000, 1_600_000, 0.2), Watermark(10_000, 40_000, 0.2)], seed=1
    )
    changes = relative_changes(before, after)
    assert set(changes) == {"queue_mean", "queue_p99", "goodput", "elephant_slowdown", "mice_p99_slowdown"}
    assert changes["queue_mean"] == pytest.approx(after.queue_mean_bytes / before.queue_mean_bytes - 1)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0 B"), (999, "999 B"), (999_999, "1 MB"), (62_730, "62.7 KB"), (1.2e6, "1.2 MB"), (32e9, "32 GB")],
)
def test_bytes(value: float, text: str) -> None:
    assert bytes_text(value) == text


def test_times_ratios_and_changes() -> None:
    assert [duration_text(value) for value in (2.5, 0.23, 0.009, 1.1e-5)] == [
        "2.5 s",
        "230 ms",
        "9 ms",
        "11 µs",
    ]
    assert [percent_text(value) for value in (0.1, 0.0113, 1)] == ["10 %", "1.13 %", "100 %"]
    assert [change_text(value) for value in (-0.521, 0.03)] == ["−52 %", "+3 %"]
