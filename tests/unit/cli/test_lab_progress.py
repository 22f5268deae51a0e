"""How far a lab has come: a line now and then, with its pace since the last one."""

from __future__ import annotations

from typing import Any

import pytest

from cli.lab import LabProgress, progress_line
from lab.control import Lab
from lab.documents import CountersDocument, LabDocument, ReportsDocument
from tests.unit.lab.labs import parts_of, running

REPORTS = ReportsDocument(made=7, posted=0, accepted=0, rejected=0, retries=0, waits_for=None)
STATUS = LabDocument(
    now_s=0.0,
    duration_s=10.0,
    ended=False,
    stepwise=False,
    flows_offered=9,
    flows_completed=3,
    reports=REPORTS,
    counters=CountersDocument(accepted=0, rejected=0),
    lately=None,
    links_down=[],
    seed=1,
    version="1",
)


def status(**changes: Any) -> LabDocument:
    return STATUS.model_copy(update=changes)


def reports(**changes: Any) -> ReportsDocument:
    return REPORTS.model_copy(update=changes)


@pytest.mark.parametrize(
    ("now_s", "pace", "says"),
    [
        (0.0, 0.0, "0 µs of 10 s simulated; 3 flows completed, 7 reports"),
        (0.004, 0.002, "4 ms of 10 s simulated, 2 ms a second, about 83 min left; 3 flows completed"),
        (9.9, 0.002, "9.9 s of 10 s simulated, 2 ms a second, about 50 s left; 3 flows"),
        (1.0, 0.0005, "1 s of 10 s simulated, 500 µs a second, about 5 h left; 3 flows"),
        (1.0, 0.00001, "1 s of 10 s simulated, 10 µs a second, about 10 days left; 3 flows"),
    ],
)
def test_a_line_says_how_far_how_fast_and_how_long(now_s: float, pace: float, says: str) -> None:
    assert progress_line(status(now_s=now_s), pace).startswith(says)


def test_a_line_says_what_became_of_reports() -> None:
    assert progress_line(status(reports=reports(posted=5)), 0.0).endswith("7 reports, 5 of them posted")
    refused = status(reports=reports(posted=5, rejected=3))
    assert progress_line(refused, 0.0).endswith("5 of them posted, 3 rejected by the service")
    waiting = status(reports=reports(waits_for="nobody answers"))
    assert progress_line(waiting, 0.0).endswith("7 reports; reports wait: nobody answers")


def test_nothing_is_left_at_the_end() -> None:
    assert "left" not in progress_line(status(now_s=10.0, ended=True), 0.1)


def test_a_line_comes_when_it_is_due_with_the_pace_since_the_one_before() -> None:
    now_s, lines = [100.0], list[str]()
    parts = parts_of()
    with running(parts) as (runner, _):
        lab = Lab(parts.plan, runner, None, 1)
        progress = LabProgress(lambda _, line: lines.append(line), every_s=5.0, clock_s=lambda: now_s[0])
        runner.advance(0.001).result()
        now_s[0] = 104.9
        progress(lab)
        assert lines == []
        now_s[0] = 105.0
        progress(lab)
        runner.advance(0.005).result()
        now_s[0] = 113.0
        progress(lab)
        progress(lab)
    assert [line.partition(";")[0] for line in lines] == [
        "1 ms of 20 ms simulated, 200 µs a second, about 95 s left",
        "5 ms of 20 ms simulated, 500 µs a second, about 30 s left",
    ]
