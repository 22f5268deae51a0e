"""Alarms as the service keeps them: joined by cause, acknowledged, silenced, and carried over a restart."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from service.alarms.attention import Silences
from service.alarms.checks import CheckResult
from service.alarms.groups import IncastSite
from service.alarms.service import MOST_PUBLISHED, Alarms
from service.documents.history import AlarmsDocument
from service.events import Broadcaster, Clocks, Event
from service.history.alarms import UNRECORDED, AlarmHistory
from service.network_metrics import NetworkMetrics
from settings.alarms import AlarmSettings
from settings.errors import NotFoundError, UnprocessableError
from store.alarm_rows import AlarmRow, listed, put
from store.database import Database, Recorder
from telemetry.alarms import GONE, UNSEEN, Alarm, Finding, Subject
from telemetry.counters.window import PortRates, Rates

pytestmark = pytest.mark.anyio


class World:
    """What is found, and the time; its database is in memory."""

    def __init__(self, url: str | None = None, *, later_s: int = 0, **settings: Any) -> None:
        self.findings: list[Finding] = []
        self.incasts: tuple[IncastSite, ...] = ()
        self.ports: tuple[PortRates, ...] = ()
        self.now_s = 50.0
        self.wall_ns = 1_767_225_600_000_000_000 + later_s * 1_000_000_000
        self.fails = False
        self.looked = asyncio.Event()
        self.carried: list[Alarm] = []
        self.registry = CollectorRegistry()
        self.events = Broadcaster()
        self.database = Database(url)
        self.database.open()
        self.recorder = Recorder(self.database)
        clocks = Clocks(lambda: self.now_s, lambda: self.wall_ns)
        self.history = AlarmHistory(self.database, self.recorder, clocks=clocks)
        self.alarms = Alarms(
            AlarmSettings(**({"hold_s": 0, "clear_s": 0} | settings)),
            cast(Any, self),
            metrics=NetworkMetrics(self.registry),
            events=self.events,
            clocks=clocks,
            history=self.history,
            silences=Silences(self.database, clocks=clocks),
        )

    def passes(self, seconds: float) -> None:
        self.now_s += seconds
        self.wall_ns += round(seconds * 1e9)

    async def finds(self, *findings: Finding) -> AlarmsDocument:
        """Checks with these findings, and what is listed then."""
        self.findings = list(findings)
        await self.alarms.check()
        return self.alarms.document(limit=99, ended=True)

    async def rows(self) -> list[AlarmRow]:
        await self.recorder.flush()
        return await self.database.read(lambda one: listed(one, since_ns=0, until_ns=1 << 62, limit=99))

    async def run(self, awaited: frozenset[str]) -> CheckResult:
        self.looked.set()
        if self.fails:
            self.fails = False
            raise RuntimeError("the network is on fire")
        return CheckResult(list(self.findings), self.ports, incasts=self.incasts)

    def go_on(self, carried: Iterable[Alarm]) -> None:
        self.carried.extend(carried)

    def storm(self, port: int, share: float, switch: str = "leaf1") -> Finding:
        return Finding(Subject("pfc_storm", f"{switch} {port}", switch), share, f"port {port} is paused")

    def metric(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)


def heard(queue: asyncio.Queue[Event | None]) -> list[Event]:
    found = []
    while not queue.empty():
        event = queue.get_nowait()
        assert event is not None
        found.append(event)
    return found


async def test_a_flood_is_told_worst_first_and_the_rest_by_number() -> None:
    world = World()
    world.findings = [world.storm(1, 0.1 if leaf < 40 else 0.5, f"leaf{leaf}") for leaf in range(50)]
    with world.events.listen() as queue:
        assert len(await world.alarms.check()) == 50
        told = heard(queue)
    assert len(told) == MOST_PUBLISHED + 1
    assert [event.data["level"] for event in told[:12]] == ["critical"] * 10 + ["warning"] * 2
    assert told[-1].data == {"what": "more", "count": 50 - MOST_PUBLISHED}
    assert world.metric("ecntwin_alarms", kind="pfc_storm", level="warning") == 40
    assert world.metric("ecntwin_alarms_raised_total", kind="pfc_storm") == 50


async def test_times_are_told_by_the_wall_clock_of_now() -> None:
    world = World()
    world.findings = [world.storm(1, 0.5)]
    await world.alarms.check()
    world.now_s += 90
    world.wall_ns += 90_000_000_000 + 3_600_000_000_000  # somebody has set it an hour on
    document = world.alarms.document(limit=10, ended=False)
    assert document.looked == document.alarms[0].since == "2026-01-01T01:00:00.000Z"


async def test_who_is_held_back_and_why() -> None:
    world = World()
    world.findings = [world.storm(port, 0.5) for port in range(5)]
    world.findings.append(Finding(Subject("telemetry_silent", "INT reports"), 1e3, "nothing comes"))
    world.findings.append(Finding(Subject("unreachable", "leaf2", "leaf2"), 1e3, "it does not answer"))
    await world.alarms.check()
    said = world.alarms.holding(["leaf1", "leaf2"])
    assert said is not None
    assert "pfc_storm on leaf1 0; pfc_storm on leaf1 1; pfc_storm on leaf1 2 and 2 more" in said
    assert world.alarms.holding(["leaf2"]) is None
    assert world.alarms.holding([]) is None


async def test_a_look_that_fails_changes_nothing_and_is_not_the_last(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(every_s=0.001)
    world.findings = [world.storm(1, 0.5)]
    await world.alarms.check()
    world.fails = True
    world.looked.clear()
    with caplog.at_level(logging.ERROR, "ecntwin.alarms"):
        task = asyncio.create_task(world.alarms.run_forever())
        await world.looked.wait()
        world.looked.clear()
        await world.looked.wait()
        task.cancel()
    assert "they stay as they are" in caplog.text
    assert len(world.alarms.active) == 1


async def test_rates_are_summed_by_switch_and_taken_away_with_it() -> None:
    world = World()
    world.ports = (
        PortRates("leaf1", "1", 1.0, Rates(pause_share=0.1, drops_per_s=2.0), {}),
        PortRates("leaf1", "2", 1.0, Rates(pause_share=0.3, drops_per_s=5.0), {}),
        PortRates("leaf2", "1", 1.0, Rates(pause_share=0.2), {}),
    )
    await world.alarms.check()
    assert world.metric("ecntwin_switch_pause_ratio", switch="leaf1") == 0.3
    assert world.metric("ecntwin_switch_dropped_packets_per_second", switch="leaf1") == 7
    assert world.metric("ecntwin_switch_dropped_packets_per_second", switch="leaf2") is None
    world.ports = world.ports[2:]
    await world.alarms.check()
    assert world.metric("ecntwin_switch_pause_ratio", switch="leaf1") is None
    assert world.metric("ecntwin_switch_pause_ratio", switch="leaf2") == 0.2


async def test_ports_of_one_switch_are_one_alarm_that_changes_as_they_join_and_leave() -> None:
    world = World()
    with world.events.listen() as queue:
        (one,) = (await world.finds(world.storm(1, 0.1))).alarms
        assert (one.subject, one.subject_count, one.sentence) == ("leaf1 1", 1, "port 1 is paused")
        world.passes(5)
        (more,) = (await world.finds(*(world.storm(port, 0.1) for port in range(1, 18)))).alarms
        assert (more.id, more.since, more.subject_count) == (one.id, one.since, 17)
        assert more.sentence == "port 1 is paused (and 16 more are in this alarm)"
        worse = await world.finds(world.storm(1, 0.1), world.storm(2, 0.5))
        assert (worse.critical, worse.warning) == (1, 0)
        assert (worse.alarms[0].level, worse.alarms[0].subject) == ("critical", "leaf1 2")
        over = await world.finds(world.storm(1, 0.0), world.storm(2, 0.0))
        events = [(event.data["what"], event.data["subjects"]) for event in heard(queue)]
    # The ports that are not measured any more are kept for alarms.forget_s.
    assert events == [("raised", 1), ("members", 17), ("level", 17), ("level", 15)]
    assert over.alarms[0].subject_count == 15
    world.passes(700)
    gone = await world.finds()
    assert (gone.alarms, gone.ended is not None and len(gone.ended)) == ([], 1)
    assert gone.ended is not None
    assert (gone.ended[0].id, gone.ended[0].subject_count) == (one.id, 17)
    assert gone.ended[0].why == "it is not measured any more"
    (row,) = await world.rows()
    assert (row.key, row.level, row.ended_ns) == (one.id, "critical", world.wall_ns)
    assert world.metric("ecntwin_alarms_raised_total", kind="pfc_storm") == 1


async def test_other_kinds_and_other_switches_are_alarms_of_their_own() -> None:
    world = World()
    frames = Finding(Subject("pfc_frames", "leaf1 1", "leaf1"), 2e3, "port 1 pauses")
    found = await world.finds(world.storm(1, 0.1), world.storm(1, 0.1, "leaf2"), frames)
    assert len({one.id for one in found.alarms}) == 3


async def test_those_that_began_at_once_are_a_group_and_stay_alarms_of_their_own() -> None:
    world = World()
    alone = await world.finds(world.storm(1, 0.1))
    assert (alone.groups, alone.alarms[0].group, alone.open_causes) == ([], None, 1)
    found = await world.finds(
        *(world.storm(1, 0.1, f"leaf{number}") for number in range(1, 5)),
        Finding(Subject("history_lost", "the history"), 1.0, "a gap"),
    )
    (group,) = found.groups
    assert (group.kinds, group.level, group.alarm_count, group.open_count) == (["pfc_storm"], "warning", 4, 4)
    assert (group.switches, group.switch_count) == (["leaf1", "leaf2", "leaf3", "leaf4"], 4)
    assert [one.kind for one in found.alarms if one.group == group.id] == ["pfc_storm"] * 4
    assert (found.warning, found.open_warning, found.open_causes) == (5, 5, 2)
    in_group = [one.id for one in found.alarms if one.group]
    assert world.alarms.acknowledge(in_group[0], "ann", None).group == group.id
    await silenced(world, 60.0, kind="pfc_storm", switch="leaf2")
    some = world.alarms.document(limit=99, ended=False, subjects=1)
    assert (some.groups[0].open_count, some.open_warning, some.open_causes) == (2, 3, 2)
    assert (some.groups[0].switches, some.groups[0].switch_count) == (["leaf1"], 4)
    for alarm_id in in_group:
        world.alarms.acknowledge(alarm_id, "ann", None)
    all_known = world.alarms.document(limit=0, ended=False)
    assert (all_known.groups, all_known.open_warning, all_known.open_causes) == ([], 1, 1)
    ended = await world.finds(
        *(world.storm(1, 0.0, f"leaf{number}") for number in range(1, 5)),
        Finding(Subject("history_lost", "the history"), 0.0, "whole"),
    )
    assert len(ended.ended or []) == 5
    assert (ended.groups, ended.open_causes, {one.group for one in ended.ended or []}) == ([], 0, {None})


async def test_an_acknowledgement_is_kept_until_it_gets_worse() -> None:
    world = World()
    (alarm,) = (await world.finds(world.storm(1, 0.1))).alarms
    known = world.alarms.acknowledge(alarm.id, "ann", "ticket 4711").acknowledged
    assert known is not None
    assert (known.by, known.note, known.at) == ("ann", "ticket 4711", "2026-01-01T00:00:00.000Z")
    still = await world.finds(world.storm(1, 0.1), world.storm(2, 0.1))
    assert (still.alarms[0].acknowledged, still.acknowledged) == (known, 1)
    assert (await world.rows())[0].acked_by == "ann"
    worse = await world.finds(world.storm(1, 0.5))
    assert (worse.alarms[0].acknowledged, worse.acknowledged) == (None, 0)
    assert (await world.rows())[0].acked_by is None
    noted = world.alarms.acknowledge(alarm.id, "bob", "a\0b").acknowledged
    assert noted is not None
    assert noted.note == "a\N{REPLACEMENT CHARACTER}b", "PostgreSQL takes no NUL, and would lose the row"
    world.alarms.acknowledge(alarm.id, "bob", None)
    assert world.alarms.withdraw(alarm.id).acknowledged is None
    with pytest.raises(NotFoundError, match="not among the active alarms"):
        world.alarms.acknowledge("never", "ann", None)


async def silenced(world: World, for_s: float, **what: str) -> str:
    until_ns = world.alarms.silences.end_ns(None, for_s)
    row = await world.alarms.silence(
        kind=what.get("kind"), switch=what.get("switch"), until_ns=until_ns, by="ann", note=None
    )
    return row.id


async def test_a_silenced_alarm_is_listed_and_holds_and_tells_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    await silenced(world, 3_600, kind="pfc_storm", switch="leaf1")
    with world.events.listen() as queue, caplog.at_level(logging.INFO, "ecntwin.alarms"):
        found = await world.finds(world.storm(1, 0.5))
        (event,) = heard(queue)
        assert (event.data["what"], event.data["silenced"], caplog.text) == ("raised", True, "")
        assert (found.critical, found.silenced) == (1, 1)
        silence = found.alarms[0].silenced
        assert silence is not None
        assert (silence.by, silence.until) == ("ann", "2026-01-01T01:00:00.000Z")
        assert world.metric("ecntwin_alarms", kind="pfc_storm", level="critical") == 0
        assert world.metric("ecntwin_alarms_silenced") == 1
        assert "pfc_storm on leaf1 1" in (world.alarms.holding(["leaf1"]) or "")
        world.passes(3_600)
        again = await world.finds(world.storm(1, 0.5))
        (event,) = heard(queue)
    assert (event.data["what"], event.data["silenced"]) == ("unsilenced", False)
    assert "unsilenced critical (pfc_storm): port 1 is paused" in caplog.text
    assert (again.silenced, again.alarms[0].silenced) == (0, None)
    assert world.metric("ecntwin_alarms", kind="pfc_storm", level="critical") == 1


async def test_a_silence_ended_by_hand_is_told_at_the_next_check() -> None:
    world = World()
    await world.finds(world.storm(1, 0.1))
    silence = await silenced(world, 60, switch="leaf1")
    assert world.alarms.document(limit=9, ended=False).silenced == 1
    with world.events.listen() as queue:
        await world.alarms.end_silence(silence)
        await world.alarms.check()
        assert [event.data["what"] for event in heard(queue)] == ["silences", "unsilenced"]
    with pytest.raises(NotFoundError):
        await world.alarms.end_silence(silence)


@pytest.mark.parametrize("for_s", [0.0, -1.0, 8 * 86_400.0])
async def test_a_silence_ends_within_days(for_s: float) -> None:
    with pytest.raises(UnprocessableError, match="within 7 days"):
        World().alarms.silences.end_ns(None, for_s)


async def test_after_a_restart_what_still_holds_is_the_same_alarm(database_url: str) -> None:
    world = World(database_url)
    await world.alarms.restore()
    (before,) = (await world.finds(world.storm(1, 0.5), world.storm(2, 0.1))).alarms
    world.alarms.acknowledge(before.id, "ann", None)
    await silenced(world, 3_600, kind="pfc_storm")
    await world.rows()
    world.database.close()

    world = World(database_url, later_s=100, clear_s=30)
    await world.alarms.restore()
    (left,) = world.alarms.document(limit=9, ended=True).alarms
    assert (left.id, left.since, left.level, left.carried) == (before.id, before.since, "critical", True)
    assert (left.subject, left.subject_count, left.value, left.threshold) == ("leaf1 1", 2, 0.5, 0.25)
    assert left.sentence.startswith("leaf1 1 had this alarm when the service ended")
    assert left.acknowledged is not None
    assert left.silenced is not None
    assert world.alarms.holding(["leaf1"]) is not None
    assert [one.subject.of for one in world.carried] == ["leaf1 1", "leaf1 2"]
    with world.events.listen() as queue:
        (same,) = (await world.finds(world.storm(1, 0.5), world.storm(2, 0.0))).alarms
        assert (same.id, same.since, same.carried) == (before.id, before.since, False)
        assert heard(queue) == []
    world.passes(31)
    (same,) = (await world.finds(world.storm(1, 0.5), world.storm(2, 0.0))).alarms
    assert same.subject_count == 1
    assert len(await world.rows()) == 1
    world.database.close()


async def test_after_a_restart_what_is_over_ended_when_it_was_last_known(database_url: str) -> None:
    world = World(database_url)
    await world.finds(world.storm(1, 0.1), world.storm(1, 0.1, "leaf2"))
    world.passes(20)
    await world.finds(world.storm(1, 0.1, "leaf3"))
    alive_ns = world.wall_ns
    await world.rows()
    world.database.close()

    world = World(database_url, later_s=100)
    await world.alarms.restore()
    assert len(world.alarms.active) == 3
    found = await world.finds(world.storm(1, 0.0))
    assert [one.switch for one in found.alarms] == ["leaf2", "leaf3"]
    world.passes(601)
    assert (await world.finds()).alarms == []
    ended = {row.switch: (row.ended_ns, row.why) for row in await world.rows()}
    assert ended == {"leaf1": (alive_ns, GONE), "leaf2": (alive_ns, UNSEEN), "leaf3": (alive_ns, UNSEEN)}
    world.database.close()


async def test_switches_that_went_away_minutes_apart_are_no_group_after_a_restart(database_url: str) -> None:
    world = World(database_url)
    await world.alarms.restore()

    def away(switch: str, for_s: float) -> Finding:
        return Finding(Subject("unreachable", switch, switch), for_s, "it does not answer")

    await world.finds(away("leaf1", 31.0))
    world.passes(200)
    assert (await world.finds(away("leaf1", 231.0), away("leaf2", 31.0))).groups == []
    await world.rows()
    world.database.close()

    world = World(database_url, later_s=300)
    await world.alarms.restore()
    left = world.alarms.document(limit=9, ended=False)
    assert ([one.switch for one in left.alarms], left.groups) == (["leaf1", "leaf2"], [])
    world.database.close()


async def test_an_alarm_that_an_older_version_left_open_goes_on() -> None:
    world = World()
    row = AlarmRow("a", "telemetry_silent", "INT reports", None, "critical", "Nothing came.", world.wall_ns)
    await world.database.write(lambda one: put(one, row))
    await world.alarms.restore()
    (left,) = world.alarms.document(limit=9, ended=False).alarms
    assert (left.id, left.kind, left.value, left.carried) == ("a", "telemetry_silent", None, True)


async def test_the_history_calls_nothing_open_that_is_not_listed(database_url: str) -> None:
    world = World(database_url)
    await world.alarms.restore()
    (alarm,) = (await world.finds(world.storm(1, 0.1))).alarms
    (row,) = await world.rows()
    await world.finds(world.storm(1, 0.0))
    assert world.history.current(row).ended_ns is not None  # before it is written
    await world.rows()
    world.database.write_now(lambda one: put(one, row))  # as if its end had been lost
    world.history.tidy()
    assert ((await world.rows())[0].why, alarm.id) == (UNRECORDED, row.key)
    world.database.close()


async def test_a_wall_clock_that_is_ahead_for_a_while_ends_no_silence(tmp_path: Path) -> None:
    url, ahead_ns = f"sqlite:///{tmp_path}/ecntwin.db", 86_400 * 10**9
    world = World(url)
    silence = await silenced(world, 3_600, switch="leaf1")
    world.wall_ns += ahead_ns
    assert world.alarms.silences.current() == []
    world.wall_ns -= ahead_ns
    assert [row.id for row in world.alarms.silences.current()] == [silence]
    world.database.close()
    world = World(url, later_s=86_400)
    await world.alarms.restore()
    world.wall_ns -= ahead_ns
    assert [row.id for row in world.alarms.silences.current()] == [silence]
    world.database.close()


async def test_a_silence_may_last_for_seven_days_and_no_longer() -> None:
    world, week_s = World(), 7 * 86_400
    for _ in range(50):
        world.wall_ns += 1_000_000_007  # floats this large are 256 ns apart
        until_ns = world.wall_ns + week_s * 1_000_000_000
        assert world.alarms.silences.end_ns(None, float(week_s)) == until_ns
        assert world.alarms.silences.end_ns(until_ns, None) == until_ns
        with pytest.raises(UnprocessableError, match="within 7 days"):
            world.alarms.silences.end_ns(until_ns + 1, None)


async def test_a_silence_of_a_switch_covers_its_incast_and_one_of_a_kind_not_what_else_it_does() -> None:
    world = World()
    world.incasts = (IncastSite("h0", 3, "leaf1", "1"),)
    frames = Finding(Subject("pfc_frames", "leaf1 2", "leaf1"), 2e3, "port 2 pauses")
    (alarm,) = (await world.finds(world.storm(1, 0.1), frames)).alarms
    assert alarm.incast is not None
    silence = await silenced(world, 60, kind="pfc_storm")
    assert world.alarms.document(limit=9, ended=False).silenced == 0
    await silenced(world, 90, kind="pfc_frames", switch="leaf1")
    both = world.alarms.document(limit=9, ended=False).alarms[0].silenced
    assert both is not None
    assert both.id == silence  # the first to end
    await world.alarms.end_silence(silence)
    await silenced(world, 60, switch="leaf1")
    assert world.alarms.document(limit=9, ended=False).silenced == 1
