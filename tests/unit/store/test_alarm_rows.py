"""Alarms, residuals and gains in the database, on both kinds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from store import alarm_rows, gain_rows, queue_rows, residual_rows
from store.alarm_rows import AlarmRow, last_alive_ns, listed, open_rows
from store.database import Database
from store.gain_rows import GainRow
from store.queue_rows import PortStep
from store.residual_rows import ResidualRow
from store.tables import gains, prune_oldest, pulse, residuals
from telemetry.settings import NS_PER_DAY

S = 1_000_000_000
T = 1_767_225_600 * S


def alarm(key: str, raised_s: int = 0, ended_s: int | None = None, **more: str) -> AlarmRow:
    row = AlarmRow(key, "pfc_storm", f"leaf1 {key}", "leaf1", "warning", "It storms.", T + raised_s * S)
    return replace(row, ended_ns=None if ended_s is None else T + ended_s * S, **more)  # type: ignore[arg-type] # mypy knows no names of **


def put(database: Database, *rows: AlarmRow) -> None:
    for row in rows:
        database.write_now(lambda one, row=row: alarm_rows.put(one, row))  # type: ignore[misc]


def keys(database: Database, since_s: int, until_s: int, limit: int = 99) -> list[str]:
    rows = database.read_now(
        lambda one: listed(one, since_ns=T + since_s * S, until_ns=T + until_s * S, limit=limit)
    )
    return [row.key for row in rows]


def test_an_alarm_is_one_row_from_its_raise_to_its_end(database: Database) -> None:
    first = alarm("a")
    worse = replace(first, level="critical", sentence="It storms more.", raised_ns=T + 9 * S)
    put(database, first, first, worse)
    (row,) = database.read_now(open_rows)
    assert row == replace(worse, raised_ns=T)
    ended = replace(worse, raised_ns=T, ended_ns=T + 60 * S, why="it is not measured any more")
    put(database, ended, ended)
    assert database.read_now(open_rows) == []
    assert database.read_now(lambda one: listed(one, since_ns=0, until_ns=2 * T, limit=9)) == [ended]


def test_alarms_that_were_there_at_any_time_are_listed_the_last_raised_first(database: Database) -> None:
    put(database, alarm("a", 0, 10), alarm("b", 5), alarm("c", 20, 30), alarm("d", 20, 25))
    assert keys(database, 0, 100) == ["d", "c", "b", "a"]
    assert keys(database, 11, 20) == ["b"]
    assert keys(database, 10, 21) == ["d", "c", "b", "a"]
    assert keys(database, 0, 100, limit=1) == ["d"]


def test_old_alarms_are_removed_and_open_ones_are_not(database: Database) -> None:
    put(database, alarm("a", 0), alarm("b", 0, 10), alarm("c", 0, 11), alarm("d", 0, 90))

    def prune(ended_s: int, keep: int = 99, most: int = 99) -> None:
        database.write_now(
            lambda one: alarm_rows.prune(one, ended_before_ns=T + ended_s * S, keep=keep, most=most)
        )

    prune(50, most=1)
    assert keys(database, 0, 100) == ["d", "c", "a"]
    prune(50)
    assert keys(database, 0, 100) == ["d", "a"]
    prune(0, keep=3)
    assert keys(database, 0, 100) == ["d"]


def test_when_a_service_was_last_heard_of(database: Database) -> None:
    def last(before_s: int) -> int | None:
        at_ns = database.read_now(lambda one: last_alive_ns(one, T + before_s * S))
        return None if at_ns is None else (at_ns - T) // S

    assert last(1_000) is None
    put(database, alarm("a", 10, 20))
    assert (last(1_000), last(20)) == (20, 10)
    step = PortStep("leaf1", "e0", 1.0, 1.0, 1.0, None, None)
    for step_s, at_s in ((10, 50), (10, 70), (60, 60)):
        database.write_now(lambda one, n=step_s, at=at_s: queue_rows.write_step(one, n, T + at * S, [step]))  # type: ignore[misc]
    assert (last(1_000), last(60)) == (70, 50)
    database.write_now(lambda one: one.execute(pulse.insert().values(id=1, at_ns=T + 80 * S)))
    assert (last(1_000), last(80)) == (80, 70)


def test_residuals_are_one_a_time_the_newest_first_and_pruned(database: Database) -> None:
    rows = [ResidualRow(T + at_s * S, f"r{at_s}", 1e5 + at_s, None if at_s else 9e4) for at_s in range(4)]
    for row in (*rows, rows[1]._replace(recommendation="again")):
        database.write_now(lambda one, row=row: residual_rows.put(one, row))  # type: ignore[misc]

    def found(since_s: int, until_s: int, limit: int = 9) -> list[str]:
        rows = database.read_now(
            lambda one: residual_rows.listed(
                one, since_ns=T + since_s * S, until_ns=T + until_s * S, limit=limit
            )
        )
        return [row.recommendation for row in rows]

    assert found(0, 9) == ["r3", "r2", "again", "r0"]
    assert (found(1, 3), found(0, 9, 1)) == (["r2", "again"], ["r3"])
    database.write_now(lambda one: prune_oldest(one, residuals.c.at_ns, before_ns=T + 3 * S, most=2))
    assert found(0, 9) == ["r3", "r2"]
    database.write_now(lambda one: prune_oldest(one, residuals.c.at_ns, before_ns=T + 2 * S, most=2))
    assert found(0, 9) == ["r3", "r2"]


def test_advice_is_counted_by_day(database: Database) -> None:
    day = NS_PER_DAY
    first = T // day * day
    rows = [
        ResidualRow(first, "kept", None, None, 0.0, None),
        ResidualRow(first + 1, "a", None, None, 0.3, 0.02),
        ResidualRow(first + day - 1, "b", None, None, 0.6, 0.04),
        ResidualRow(first + day, "not by gain", None, None, None, None),
        ResidualRow(first + 2 * day, "c", None, None, -0.1, None),
    ]
    for row in rows:
        database.write_now(lambda one, row=row: residual_rows.put(one, row))  # type: ignore[misc]
    found = database.read_now(lambda one: residual_rows.by_day(one, since_ns=first, until_ns=first + 9 * day))
    assert [(one.day - first // day, *one[1:3], round(one.gain, 9), one.gain_error) for one in found] == [
        (0, 3, 2, 0.3, pytest.approx(0.03)),
        (2, 1, 1, -0.1, None),
    ]


def test_gains_are_one_a_rollout_the_newest_first_and_pruned(database: Database) -> None:
    rows = [GainRow(f"r{at_s}", T + at_s * S, "balanced", 0.1, 0.01) for at_s in range(4)]
    for row in (*rows, rows[1]._replace(predicted=0.2)):
        database.write_now(lambda one, row=row: gain_rows.put(one, row))  # type: ignore[misc]

    def found(since_s: int, until_s: int, limit: int = 9) -> list[GainRow]:
        since_ns, until_ns = T + since_s * S, T + until_s * S
        return database.read_now(
            lambda one: gain_rows.listed(one, since_ns=since_ns, until_ns=until_ns, limit=limit)
        )

    def ids(*span: int) -> list[str]:
        return [row.recommendation for row in found(*span)]

    assert (ids(0, 9), ids(1, 3), ids(0, 9, 1)) == (["r3", "r2", "r1", "r0"], ["r2", "r1"], ["r3"])
    for name, values in (("r1", {"measured": -0.05, "measured_error": 0.02}), ("r1", {"why": "It paused."})):
        database.write_now(lambda one, n=name, v=values: gain_rows.change(one, n, v))  # type: ignore[misc]
    database.write_now(lambda one: gain_rows.change(one, "never", {"why": "nothing"}))
    changed = rows[1]._replace(predicted=0.2, measured=-0.05, measured_error=0.02, why="It paused.")
    assert database.read_now(lambda one: gain_rows.one(one, "r1")) == changed
    assert database.read_now(lambda one: gain_rows.one(one, "never")) is None
    database.write_now(lambda one: prune_oldest(one, gains.c.at_ns, before_ns=T + 3 * S, most=2))
    assert ids(0, 9) == ["r3", "r2"]
    database.write_now(lambda one: prune_oldest(one, gains.c.at_ns, before_ns=T + 2 * S, most=2))
    assert ids(0, 9) == ["r3", "r2"]
