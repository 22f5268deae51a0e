"""Alarms from their raise to their end in the database, also over a restart and while it is away."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from service.alarms.groups import IncastSite, JoinedAlarm, JoinedChange
from service.events import Clocks
from service.history.alarms import AlarmHistory, RowMembers, members_text
from store.alarm_rows import AlarmRow, listed
from store.database import Database, Recorder
from telemetry.alarms import GONE, Alarm, Level, Subject

S = 1_000_000_000
T = 1_767_225_600 * S
STORM = Subject("pfc_storm", "leaf1 e0", "leaf1")


def alarm(since_s: float, level: Level = Level.WARNING, subject: Subject = STORM) -> JoinedAlarm:
    one = Alarm(subject, level, 0.1, 0.05, since_s, since_s, f"It is {level.label}.")
    return JoinedAlarm(f"{subject.kind}-{since_s:g}", one, (one,), since_s, subject.switch)


def raised(one: JoinedAlarm) -> JoinedChange:
    return JoinedChange("raised", one, Level.NONE)


def turned(one: JoinedAlarm, before: Level) -> JoinedChange:
    return JoinedChange("level", one, before)


def cleared(one: JoinedAlarm, at_s: float, why: str | None = None) -> JoinedChange:
    return JoinedChange("cleared", replace(one, ended_s=at_s, why=why), one.level)


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
            clocks=Clocks(lambda: self.now_s, lambda: self.wall_ns(self.now_s)),
        )

    def wall_ns(self, at_s: float) -> int:
        return T + round((self.began_s + at_s) * S)

    async def hears(self, *changes: JoinedChange) -> None:
        self.history.record(changes, {}, self.wall_ns)
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
    await world.hears(raised(alarm(5, Level.CRITICAL)))


def test_what_was_left_open_goes_on_or_ended_when_it_was_last_known(database_url: str) -> None:
    async def before(world: World) -> None:
        await storms(world)
        await world.hears(raised(alarm(60, subject=Subject("drifted", "leaf2", "leaf2"))))

    async def after(world: World) -> None:
        left = await world.history.left_open()
        storm, drifted = left.rows
        assert (storm.kind, left.alive_ns) == ("pfc_storm", T + 60 * S)
        (said, level, value) = RowMembers.of(storm).subjects[0]
        assert (said, level, value) == (STORM, Level.CRITICAL, 0.1)
        world.history.settled([storm], [drifted], left)
        there, over = sorted(await world.rows(), key=lambda row: row.kind, reverse=True)
        assert (there.ended_ns, over.ended_ns, over.why) == (None, T + 60 * S, GONE)
        await world.hears(cleared(alarm(5), 50))
        assert (await world.rows())[-1].ended_ns == T + 150 * S

    told(database_url, (0, before), (100, after))


def test_rows_of_before_alarms_had_members_have_one(database_url: str) -> None:
    async def story(world: World) -> None:
        old = AlarmRow("a", *STORM, "warning", "It is bad.", T)
        said = RowMembers.of(old)
        assert [(subject, level) for subject, level, _ in said.subjects] == [(STORM, Level.WARNING)]
        (one,) = said.alarms(old, since_s=1.0, seen_s=2.0)
        assert (one.sentence, one.carried, one.seen_s) == ("It is bad.", True, 2.0)

    told(database_url, (0, story))


def test_an_incast_and_its_ports_come_back_as_they_were() -> None:
    site = IncastSite("h0", 9, "leaf1", "e0")
    made = replace(alarm(5), incast=site)
    row = AlarmRow("a", *STORM, "warning", "It is bad.", T, members=members_text(made))
    said = RowMembers.of(row)
    assert (said.incast, said.count, said.subjects[0][0]) == (site, 1, STORM)


def test_a_clock_that_was_set_back_ends_nothing_before_it_began(database_url: str) -> None:
    async def after(world: World) -> None:
        left = await world.history.left_open()
        world.history.settled([], left.rows, left)
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
