"""What a round finds is set for the intervals after it; what fails or is held changes nothing."""

from __future__ import annotations

import pytest

from lab.demo.closed_loop import Answer, Interval, Round, close_the_loop, keep
from lab.demo.plan import FULL, PAPER, QUICK, VENDOR_DEFAULT
from tests.unit.lab.demo.runs import ScriptedLab, ScriptedService, recommends
from twin.watermark import Watermark

FIRST, SECOND = Watermark(20_000, 400_000, 0.5), Watermark(30_000, 600_000, 0.5)


def closed(service: ScriptedService) -> tuple[list[Interval], list[Round], ScriptedLab]:
    told: list[tuple[Interval, Round | None]] = []
    lab = ScriptedLab()
    ticks = iter(range(1000))
    run = close_the_loop(
        "loop",
        lab,
        service,
        QUICK,
        VENDOR_DEFAULT,
        lambda interval, round_: told.append((interval, round_)),
        clock_s=lambda: float(next(ticks)),
    )
    assert [one for one, _ in told] == list(run.intervals)
    assert [one for _, one in told] == [*run.rounds, None]
    assert run.whole.end_s == QUICK.duration_s
    return list(run.intervals), list(run.rounds), lab


def test_a_push_holds_from_the_next_interval_on() -> None:
    service = ScriptedService([recommends(FIRST), recommends(None), recommends(SECOND)])
    intervals, rounds, lab = closed(service)
    assert lab.ends == list(QUICK.ends_s)
    n = len(QUICK.ends_s)
    assert [one.watermark for one in intervals] == [VENDOR_DEFAULT, FIRST, FIRST, *[SECOND] * (n - 3)]
    assert [one.outcome for one in rounds] == ["pushed", "kept", "pushed", *["kept"] * (n - 4)]
    assert service.approved == ["20000-400000", "30000-600000"]
    assert {one.wall_s for one in rounds} == {1.0}


def test_what_is_held_or_fails_changes_nothing() -> None:
    service = ScriptedService([recommends(FIRST, holds=["Held: no."]), Answer(None, "no traffic")])
    intervals, rounds, _ = closed(service)
    assert {one.watermark for one in intervals} == {VENDOR_DEFAULT}
    assert [(one.outcome, one.why) for one in rounds[:2]] == [("held", "Held: no."), ("failed", "no traffic")]
    assert service.approved == []


def test_a_refused_approval_is_a_failure() -> None:
    service = ScriptedService([recommends(FIRST)], refuses="the switch is away")
    intervals, rounds, _ = closed(service)
    assert (rounds[0].outcome, rounds[0].why) == ("failed", "the switch is away")
    assert intervals[1].watermark == VENDOR_DEFAULT


def test_a_kept_setting_is_told_of_every_interval() -> None:
    told: list[Interval] = []
    run = keep("paper", ScriptedLab(), FULL, PAPER, lambda interval, _: told.append(interval))
    assert told == list(run.intervals)
    assert {one.watermark for one in told} == {PAPER}
    assert run.rounds == ()
    assert run.whole.end_s == pytest.approx(FULL.duration_s)
