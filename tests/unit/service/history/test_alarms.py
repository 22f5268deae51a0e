"""Alarms from their raise to their end in the database, also over a restart and while it is away."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from service.events import Clocks
from service.history.service import AWAY, AlarmHistory
from store.alarm_rows import AlarmRow, listed
from store.database import Database, Recorder
from telemetry.alarms import Alarm, Change, Level, Subject

S = 1_000_000_000
T = 1_767_225_600 * S
STORM = Subject("pfc_storm", "leaf1 e0", "leaf1")


def alarm(since_s: float, level: Level = Level.WARNING, subject: Subject = STORM) -> Alarm:
    return Alarm(subject, level, 0.1, 0.05, since_s, since_s, f"It is {level.label}.")


def raised(one: Alarm) -> Change:
    return Change("raised", one, Level.NONE)


def turned(one: Alarm, before: Level) -> Change:
    return Change("level", one, before)


def cleared(one: Alarm, at_s: float, why: str | None = None) -> Change:
    return Change("cleared", replace(one, ended_s=at_s, why=why), one.level)


class World:
    """One service's alarms; its clock begins at 0 and the wall's at ``began_s``."""

    def __init__(self, url: str, began_s: float = 0.0) -> None:
        self.database = Database(url)
        self.database.open()
        self.recorder = Recorder(self.database)
        self.now_s = 0.0
        self.began_s = began_s
        self.history = AlarmHistory(
            self.database,
            self.recorder,
            take_over_s=600.0,
            clocks=Clocks(lambda: self.now_s, lambda: self.wall_ns(self.now_s)),
        )

    def wall_ns(self, at_s: float) -> int:
        return T + round((self.began_s + at_s) * S)

    async def hears(self, *changes: Change) -> None:
        self.history.record(changes, self.wall_ns)
        await self.recorder.flush()

    async def rows(self) -> list[AlarmRow]:
        await self.recorder.flush()
        return self.database.read_now(lambda one: listed(one, since_ns=0, until_ns=2 * T, limit=99))

    async def row(self) -> AlarmRow:
        (row,) = await self.rows()
        return row


Story = Callable[[World], Awaitable[None]]


def told(url: str, *stories: tuple[float, Story]) -> None:
    """Each as a service of its own that begins so many seconds after the first."""
    for began_s, story in stories:
        world = World(url, began_s)
        try:
            asyncio.run(story(world))  # type: ignore[arg-type]
        finally:
            world.database.close()


def test_one_row_has_the_worst_level_and_what_was_said_then(database_url: str) -> None:
    async def story(world: World) -> None:
        bad, worse = alarm(5), alarm(5, Level.CRITICAL)
        await world.hears(raised(bad))
        assert (await world.row()).level == "warning"
        await world.hears(turned(worse, Level.WARNING))
        await world.hears(turned(bad, Level.CRITICAL))
        await world.hears(cleared(bad, 50, "it is not measured any more"))
        row = await world.row()
        assert (row.level, row.sentence) == ("critical", "It is critical.")
        assert (row.raised_ns, row.ended_ns) == (T + 5 * S, T + 50 * S)
        assert row.why == "it is not measured any more"
        await world.hears(raised(alarm(60)))
        assert len(await world.rows()) == 2

    told(database_url, (0, story))


async def storms(world: World) -> None:
    await world.history.restore()
    await world.hears(raised(alarm(5, Level.CRITICAL)))


def test_one_that_is_there_again_soon_goes_on(database_url: str) -> None:
    async def again(world: World) -> None:
        await world.history.restore()
        world.now_s = 599.0
        world.history.settle()
        await world.hears(raised(alarm(590)))
        world.now_s = 700.0
        world.history.settle()
        row = await world.row()
        assert (row.level, row.raised_ns, row.ended_ns) == ("critical", T + 5 * S, None)
        await world.hears(cleared(alarm(590), 750))
        assert (await world.row()).ended_ns == T + 850 * S

    told(database_url, (0, storms), (100, again))


def test_one_that_is_not_ended_when_the_service_was_last_heard_of(database_url: str) -> None:
    async def before(world: World) -> None:
        await storms(world)
        world.now_s = 60.0
        await world.hears(raised(alarm(60, subject=Subject("drifted", "leaf2", "leaf2"))))
        await world.hears(cleared(alarm(60, subject=Subject("drifted", "leaf2", "leaf2")), 70))

    async def after(world: World) -> None:
        await world.history.restore()
        world.now_s = 600.0
        world.history.settle()
        world.history.settle()
        storm = next(row for row in await world.rows() if row.kind == "pfc_storm")
        assert (storm.ended_ns, storm.why) == (T + 70 * S, AWAY)
        await world.hears(raised(alarm(601)))
        assert len(await world.rows()) == 3

    told(database_url, (0, before), (100, after))


def test_one_raised_before_the_database_could_be_read_is_another(database_url: str) -> None:
    async def later(world: World) -> None:
        await world.hears(raised(alarm(10)))
        await world.history.restore()
        old, new = sorted(await world.rows(), key=lambda row: row.raised_ns)
        assert (old.why, new.ended_ns) == (AWAY, None)

    told(database_url, (0, storms), (100, later))


def test_a_clock_that_was_set_back_ends_nothing_before_it_began(database_url: str) -> None:
    async def after(world: World) -> None:
        await world.history.restore()
        world.now_s = 601.0
        world.history.settle()
        row = await world.row()
        assert row.ended_ns == row.raised_ns

    told(database_url, (0, storms), (-5_000, after))


@pytest.mark.parametrize("name", ["leaf\0", "leaf\ud800", "leaf" * 60])
def test_names_that_a_database_refuses_are_written_as_it_takes_them(database_url: str, name: str) -> None:
    async def story(world: World) -> None:
        odd = alarm(5, subject=Subject("untuned", name))
        await world.hears(raised(odd))
        await world.hears(cleared(odd, 9))
        assert (await world.row()).ended_ns == T + 9 * S

    told(database_url, (0, story))
