"""Each guard at its limit and just beyond; what is not reported breaches none."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollout.plan import COUNTED_FACTOR, QUEUE_SLACK_BYTES, Figures, Limits, breaches

LIMITS = Limits(
    pause_share=0.01,
    pfc_frames_per_s=100.0,
    drops_per_s=2.0,
    queue_factor=2.0,
    throughput_share=0.5,
)
BEFORE = Figures(
    queue_mean_bytes=50_000.0,
    throughput_bytes_per_s=1e9,
    pause_share=0.02,
    pfc_frames_per_s=200.0,
    drops_per_s=4.0,
)
QUIET = Figures()


def said(now: Figures, before: Figures = BEFORE, predicted: Figures = QUIET) -> list[str]:
    return list(breaches(now, before, predicted, LIMITS))


@pytest.mark.parametrize(
    ("figure", "allowed", "too_much", "says"),
    [
        ("pause_share", 0.03, 0.0301, "3.01% of their time paused by PFC, 2.00% before"),
        ("pfc_frames_per_s", COUNTED_FACTOR * 200 + 100, 401.0, "401 PFC frames a second are sent, 200 bef"),
        ("drops_per_s", COUNTED_FACTOR * 4 + 2, 8.1, "8.1 packets a second are dropped, 4 before"),
        (
            "queue_mean_bytes",
            2 * 50_000 + QUEUE_SLACK_BYTES,
            110_001.0,
            "the mean queue is 110,001 B, above 2 times",
        ),
        ("throughput_bytes_per_s", 5e8, 4.9e8, "throughput is 49% of before; at least 50%"),
    ],
)
def test_each_guard_holds_at_its_limit_and_not_beyond(
    figure: str, allowed: float, too_much: float, says: str
) -> None:
    assert said(Figures(**{figure: allowed})) == []
    (sentence,) = said(Figures(**{figure: too_much}))
    assert says in sentence


def test_several_guards_are_all_told() -> None:
    assert len(said(Figures(pause_share=1.0, drops_per_s=1e6, throughput_bytes_per_s=0.0))) == 3


def test_the_queue_may_grow_as_far_as_was_predicted() -> None:
    now = Figures(queue_mean_bytes=180_000.0)
    assert said(now)
    assert said(now, predicted=Figures(queue_mean_bytes=90_000.0)) == []


def test_without_a_queue_before_or_predicted_nothing_can_be_said_of_it() -> None:
    assert said(Figures(queue_mean_bytes=1e9), before=QUIET) == []
    assert said(Figures(throughput_bytes_per_s=0.0), before=QUIET) == []


def test_a_queue_that_was_empty_under_traffic_may_not_grow_without_bound() -> None:
    limits = msgspec.structs.replace(LIMITS, from_empty=True)
    empty = Figures(queue_mean_bytes=0.0, throughput_bytes_per_s=1e9)
    slack = Figures(queue_mean_bytes=QUEUE_SLACK_BYTES)
    grown = Figures(queue_mean_bytes=QUEUE_SLACK_BYTES + 1)
    assert list(breaches(slack, empty, QUIET, limits)) == []
    (sentence,) = breaches(grown, empty, QUIET, limits)
    assert "before (0 B)" in sentence
    idle = Figures(queue_mean_bytes=0.0, throughput_bytes_per_s=0.0)
    assert list(breaches(grown, idle, QUIET, limits)) == []
    assert said(grown, empty) == [], "a journal of before ends as it did"


def test_counts_that_were_not_reported_before_count_from_nothing() -> None:
    assert said(Figures(drops_per_s=2.1), before=QUIET)
    assert said(Figures(pause_share=0.011), before=QUIET)
    assert said(Figures(pfc_frames_per_s=101.0), before=QUIET)


def test_what_is_not_reported_breaches_nothing() -> None:
    assert said(QUIET) == []


@given(
    st.builds(
        Figures,
        queue_mean_bytes=st.floats(0, 1e9),
        throughput_bytes_per_s=st.floats(0, 1e12),
        pause_share=st.floats(0, 1),
        pfc_frames_per_s=st.floats(0, 1e9),
        drops_per_s=st.floats(0, 1e9),
    ),
    st.sampled_from(msgspec.structs.fields(Figures)),
)
def test_what_is_as_before_or_not_reported_is_never_a_breach(
    before: Figures, left_out: msgspec.structs.FieldInfo
) -> None:
    assert said(before, before) == []
    assert said(msgspec.structs.replace(before, **{left_out.name: None}), before) == []
