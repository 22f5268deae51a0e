"""Whose clock the window believes, where senders post bodies of tens of thousands of reports."""

from __future__ import annotations

import numpy as np
import pytest

from telemetry.settings import WindowSettings
from telemetry.window.timeline import Timeline, Verdict

PART = 2_000
NOW = 1_767_225_600  # the period of a second
HOUR = 3_600


def rejected(timeline: Timeline, second: int, reports: int) -> int:
    """Adds a body of that second in parts, as a window takes it."""
    refused = 0
    for _ in range(reports // PART):
        periods = np.full(PART, second)
        verdicts, _ = timeline.judge(periods)
        timeline.record(periods[verdicts == Verdict.KEEP])
        refused += int(np.count_nonzero(verdicts == Verdict.FAR))
    return refused


@pytest.mark.parametrize("wrong_by", [HOUR, -HOUR])
def test_one_sender_of_ten_does_not_take_the_window_away_by_one_large_body(wrong_by: int) -> None:
    timeline = Timeline(WindowSettings())
    refused = dict.fromkeys(range(10), 0)
    for second in range(NOW, NOW + 15):
        for sender in refused:
            wrong = wrong_by if sender == 9 else 0
            refused[sender] += rejected(timeline, second + wrong, 20_000)
    assert refused == dict.fromkeys(range(9), 0) | {9: 15 * 20_000}
    assert timeline.end == NOW + 14


@pytest.mark.parametrize("alone", [0, 1, 60])
@pytest.mark.parametrize("ahead", [11, 30, 100])
def test_the_one_clock_that_is_ahead_gives_way_to_the_others_however_long_it_was_alone(
    ahead: int, alone: int
) -> None:
    timeline = Timeline(WindowSettings())
    for second in range(NOW - alone, NOW + 15):
        for sender in range(10 if second >= NOW else 1):
            rejected(timeline, second + (0 if sender else ahead), 20_000)
    assert timeline.end == NOW + 14


@pytest.mark.parametrize("back", [11, 40, 109, 111])
def test_a_step_back_of_all_clocks_is_followed_after_two_windows_at_most(back: int) -> None:
    timeline = Timeline(WindowSettings())
    for second in range(NOW, NOW + 60):
        rejected(timeline, second, 20_000)
    for second in range(NOW + 60 - back, NOW + 82 - back):
        rejected(timeline, second, 20_000)
    assert timeline.end == NOW + 81 - back


@pytest.mark.parametrize("times_as_fast", [4, 10])
def test_reports_sent_late_do_not_take_the_window_back(times_as_fast: int) -> None:
    timeline = Timeline(WindowSettings())
    late = iter(range(NOW - 60, NOW))
    for second in range(NOW, NOW + 60 // times_as_fast):
        rejected(timeline, second, 2_000)
        for _ in range(times_as_fast):
            rejected(timeline, next(late), 20_000)
        assert timeline.end == second


def test_a_second_wrong_clock_does_not_bring_the_window_to_the_first() -> None:
    timeline = Timeline(WindowSettings())
    for second in range(NOW, NOW + 15):
        rejected(timeline, second, 20_000)
    rejected(timeline, NOW + HOUR, 10_000)
    for second in range(NOW + 15, NOW + 30, 4):
        rejected(timeline, second, 2_000)
    rejected(timeline, NOW - HOUR, 2_000)
    assert timeline.end == NOW + 27


def test_a_step_of_all_clocks_is_followed_within_a_second() -> None:
    timeline = Timeline(WindowSettings())
    for second in range(NOW, NOW + 15):
        assert rejected(timeline, second, 20_000) == 0
    assert rejected(timeline, NOW + HOUR, 20_000) < 20_000
    assert timeline.end == NOW + HOUR


@pytest.mark.parametrize("apart", [1, 60])
def test_thin_traffic_after_dense_is_followed_once_it_goes_on(apart: int) -> None:
    timeline = Timeline(WindowSettings())
    for second in range(NOW, NOW + 15):
        rejected(timeline, second, 20_000)
    seconds = [NOW + HOUR + number * apart for number in range(30)]
    refused = [rejected(timeline, second, 2_000) for second in seconds]
    assert 0 in refused
    assert timeline.end == seconds[-1]
