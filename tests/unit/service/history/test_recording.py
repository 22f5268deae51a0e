"""What is written down of ports: queues added, counters beside them, in steps, and no more than can wait."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from sqlalchemy import func, select

from service.events import Clocks
from service.history import service as history
from service.history.service import STEPS_PRUNED_AT_ONCE, History, QueueHistory, port_steps
from service.ingest.counter_owner import RecentPorts
from service.ingest.window_owner import LatestState
from settings.history import DAY_S, Steps
from settings.model import Settings
from store import alarm_rows, gain_rows, residual_rows
from store.alarm_rows import AlarmRow
from store.database import Database, Recorder
from store.gain_rows import GainRow
from store.queue_rows import PortStep, series
from store.residual_rows import ResidualRow
from store.tables import alarms, gains, queue_history, residuals
from telemetry.counters.window import PortRates, Rates
from telemetry.settings import NS_PER_S
from telemetry.state import QueueRef, QueueState

EPOCH_NS = 1_767_225_600 * NS_PER_S
NAN = float("nan")


def queue(
    number: int = 3,
    depth: float = 100.0,
    *,
    switch: str = "leaf1",
    port: str = "e0",
    marks: float | None = 5.0,
) -> QueueState:
    return QueueState(
        ref=QueueRef(switch, port, number),
        n_samples=10,
        depth_mean_bytes=depth,
        depth_p99_bytes=depth,
        depth_max_bytes=2 * depth,
        marked_ratio=None if marks is None else 0.1,
        throughput_bytes_per_s=1e9,
        capacity_bytes_per_s=None,
        marked_packets_per_s=marks,
    )


def rates(switch: str = "leaf1", port: str = "e0", **told: float) -> PortRates:
    return PortRates(switch, port, 10.0, Rates(**told), {})


def test_the_queues_of_a_port_are_added() -> None:
    assert port_steps([queue(3, 100.0), queue(4, 50.0)], []) == [
        PortStep("leaf1", "e0", 150.0, 300.0, 2e9, 10.0, None)
    ]


def test_what_no_device_told_is_not_told() -> None:
    (step,) = port_steps([queue(3, NAN, marks=None)], [])
    assert step == PortStep("leaf1", "e0", None, None, 1e9, None, None)
    (part,) = port_steps([queue(3, NAN, marks=None), queue(4, 50.0)], [])
    assert (part.depth_bytes, part.depth_max_bytes, part.marked_packets_per_s) == (50.0, 100.0, 5.0)


def test_counters_tell_pauses_and_marks_where_reports_do_not() -> None:
    told = [rates(pause_share=0.25, ecn_marked_per_s=80.0)]
    (of_reports,) = port_steps([queue()], told)
    (of_counters,) = port_steps([queue(marks=None)], told)
    assert (of_reports.marked_packets_per_s, of_reports.pause_share) == (5.0, 0.25)
    assert of_counters.marked_packets_per_s == 80.0


def test_of_ports_with_counters_alone_those_are_told_that_were_paused_or_marked() -> None:
    found = port_steps(
        [queue()],
        [
            rates(port="idle", pause_share=0.0, ecn_marked_per_s=0.0),
            rates(port="silent"),
            rates(port="paused", pause_share=0.5),
            rates(port="marked", ecn_marked_per_s=1.0),
        ],
    )
    assert [step.port for step in found[:1]] == ["e0"]
    assert {step.port for step in found} == {"e0", "paused", "marked"}


@pytest.mark.parametrize("name", ["e\0", "e\ud800", "e" * 257])
def test_a_name_that_no_database_takes_costs_the_others_nothing(name: str) -> None:
    assert [step.port for step in port_steps([queue(port=name), queue()], [])] == ["e0"]


class World:
    """A history whose window, counters, clock and database a test sets."""

    def __init__(self, url: str | None, steps: Steps | None = None) -> None:
        self.database = Database(url)
        self.database.open()
        self.now_s = 0.0
        self.set_s = 0.0
        self.window = SimpleNamespace(latest=None, stale=False)
        self.ports = SimpleNamespace(latest=None)
        self.recorder = Recorder(self.database)
        self.clocks = Clocks(
            lambda: self.now_s, lambda: EPOCH_NS + round((self.now_s + self.set_s) * NS_PER_S)
        )
        self.history = QueueHistory(
            steps or Steps({10: 3_600.0, 60: 36_000.0}),
            recorder=self.recorder,
            durable=self.database.durable,
            window=cast(Any, self.window),
            ports=cast(Any, self.ports),
            clocks=self.clocks,
        )

    def sees(self, *queues: QueueState) -> None:
        self.window.latest = LatestState(cast(Any, SimpleNamespace(queues=queues)), self.now_s)

    async def passes(self, times: int, *queues: QueueState) -> None:
        for _ in range(times):
            self.sees(*(queues or (queue(),)))
            assert await self.history.record()
            await self.recorder.flush()
            self.now_s += 10

    def rows(self) -> list[tuple[int, int, float]]:
        """Length, seconds, depth."""
        columns = queue_history.c
        query = select(columns.step_s, columns.at_ns, columns.depth_bytes).order_by(
            columns.step_s, columns.at_ns
        )
        return [
            (row[0], (row[1] - EPOCH_NS) // NS_PER_S, row[2])
            for row in self.database.read_now(lambda one: one.execute(query).all())
        ]


def in_world(url: str | None, story: Any, **more: Any) -> None:
    world = World(url, **more)
    try:
        asyncio.run(story(world))
    finally:
        world.database.close()


def test_a_state_is_written_once_in_the_step_in_which_it_was_looked_at() -> None:
    async def story(world: World) -> None:
        assert not await world.history.record()
        world.now_s = 12.0
        world.sees(queue())
        world.now_s = 21.0
        assert await world.history.record()
        assert not await world.history.record()
        await world.recorder.flush()
        assert world.rows() == [(10, 10, 100.0)]

    in_world(None, story)


def test_a_window_that_tells_nothing_of_now_is_not_written() -> None:
    async def story(world: World) -> None:
        world.sees(queue())
        world.window.stale = True
        assert not await world.history.record()
        world.ports.latest = RecentPorts((rates(pause_share=0.5),), {}, 0.0)
        assert await world.history.record()
        world.window.stale = False
        world.ports.latest = RecentPorts((rates(pause_share=0.5),), {}, 1.0)
        world.history._seen = world.window.latest
        assert not await world.history.record()

    in_world(None, story)


def test_ports_whose_reports_fall_silent_are_unknown_not_idle_while_counters_go_on() -> None:
    async def story(world: World) -> None:
        world.sees(queue(port="busy"), queue(port="paused"))
        for stale in (False, True):
            world.window.stale = stale
            world.ports.latest = RecentPorts((rates(port="paused", pause_share=0.5),), {}, world.now_s)
            assert await world.history.record()
            await world.recorder.flush()
            world.now_s += 10
        until_ns = EPOCH_NS + 20 * NS_PER_S
        ports = [("leaf1", "busy"), ("leaf1", "paused")]
        found = world.database.read_now(
            lambda one: series(one, 10, width_s=20, since_ns=EPOCH_NS, until_ns=until_ns, ports=ports)
        )
        throughputs = {port: [point.step.throughput_bytes_per_s for point in found[port]] for port in ports}
        assert throughputs == {port: [1e9] for port in ports}

    in_world(None, story)


def test_minutes_are_made_as_they_end_and_anew_after_a_restart(database_url: str) -> None:
    async def first(world: World) -> None:
        await world.passes(8)
        assert [row for row in world.rows() if row[0] == 60] == [(60, 0, 100.0)]

    async def second(world: World) -> None:
        world.now_s = 600.0
        await world.passes(1)
        assert [row for row in world.rows() if row[0] == 60] == [(60, 0, 100.0), (60, 60, 100.0)]

    in_world(database_url, first)
    in_world(database_url, second)


def test_a_clock_that_is_set_back_or_far_ahead_breaks_nothing_and_loses_little() -> None:
    async def story(world: World) -> None:
        await world.passes(12)
        world.set_s = -60.0
        await world.passes(3, queue(depth=7.0))
        assert (10, 60, 7.0) in world.rows()
        before = len(world.rows())
        world.set_s = 1e8
        await world.passes(1)
        world.set_s = 0.0
        await world.passes(1)
        assert len([row for row in world.rows() if row[1] < 1e7]) >= before - 2 * STEPS_PRUNED_AT_ONCE

    in_world(None, story)


def test_steps_that_are_too_old_are_removed_also_those_of_other_settings(database_url: str) -> None:
    async def once(world: World) -> None:
        await world.passes(3)
        assert {row[0] for row in world.rows()} == {7}

    async def now(world: World) -> None:
        world.now_s = 100_000.0
        await world.passes(40)
        found = world.rows()
        assert {row[0] for row in found} == {10, 60}
        assert min(row[1] for row in found if row[0] == 10) >= world.now_s - 10 - 100

    in_world(database_url, once, steps=Steps({7: 3_600.0}))
    in_world(database_url, now, steps=Steps({10: 100.0, 60: 200.0}))


def test_a_database_in_memory_holds_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MOST_ROWS_IN_MEMORY", 5)

    async def story(world: World) -> None:
        await world.passes(30)
        assert len(world.rows()) <= 5 + 1 + 5

    in_world(None, story)


def test_what_can_wait_no_longer_is_counted_and_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MOST_WAITING_ROWS", 4)

    async def story(world: World) -> None:
        kept = []
        for _ in range(6):
            world.sees(queue())
            kept.append(await world.history.record())
            world.now_s += 10
        assert kept[0]
        assert not kept[-1]
        assert world.history.lost == kept.count(False)
        await world.recorder.flush()
        assert len([row for row in world.rows() if row[0] == 10]) == kept.count(True)
        world.sees(queue())
        assert await world.history.record()

    in_world(None, story)


def test_only_rows_of_ports_count_towards_what_may_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MOST_WAITING_ROWS", 4)

    async def story(world: World) -> None:
        for _ in range(9):
            world.recorder.put(lambda connection: None)
        world.sees(queue(port="e1"), queue(port="e2"))
        assert await world.history.record()
        world.now_s += 10
        world.sees(*(queue(port=f"e{number}") for number in range(9)))
        assert not await world.history.record()
        await world.recorder.flush()
        world.sees(*(queue(port=f"e{number}") for number in range(9)))
        assert await world.history.record()  # one step alone, however large
        assert world.history.lost == 1

    in_world(None, story)


def test_settings_may_say_that_nothing_is_written() -> None:
    async def story(world: World) -> None:
        world.history.steps = None
        world.sees(queue())
        assert not await world.history.record()
        await world.history.run_forever()

    in_world(None, story)


def test_a_thousand_ports_are_one_entry_that_waits() -> None:
    async def story(world: World) -> None:
        world.sees(*(queue(port=f"e{number}") for number in range(1_000)))
        assert await world.history.record()
        assert world.recorder.waiting <= 3
        await world.recorder.flush()
        count = select(func.count()).select_from(queue_history)
        assert world.database.read_now(lambda one: one.scalar(count)) == 1_000

    in_world(None, story)


def test_it_goes_on_by_itself_as_each_step_begins_whatever_goes_wrong(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(world: World) -> None:
        world.set_s = 9.999  # a millisecond before the next step, for as long as the clock stands still
        fails = [True]
        written = asyncio.Event()
        record = world.history.record

        async def fails_once() -> bool:
            if fails.pop():
                raise RuntimeError("the network is on fire")
            fails.append(False)
            found = await record()
            written.set()
            return found

        monkeypatch.setattr(world.history, "record", fails_once)
        fails.insert(0, False)
        world.sees(queue())
        running = asyncio.create_task(world.history.run_forever())
        await asyncio.wait_for(written.wait(), 60.0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await world.recorder.flush()
        assert [row[0] for row in world.rows()] == [10]
        assert "could not be recorded; the next one is tried" in caplog.text

    in_world(None, story)


def test_a_clock_years_ahead_outdates_no_alarm_residual_and_gain(database_url: str) -> None:
    async def story(world: World) -> None:
        for key in ("a", "b"):
            alarm = AlarmRow(key, "drifted", "leaf1", "leaf1", "warning", "It drifted.", EPOCH_NS, EPOCH_NS)
            gain = GainRow(key, EPOCH_NS, "balanced", 0.1, 0.01)
            residual = ResidualRow(EPOCH_NS + ord(key), key, 1.0, 1.0)
            world.database.write_now(lambda one, row=alarm: alarm_rows.put(one, row))  # type: ignore[misc]
            world.database.write_now(lambda one, row=gain: gain_rows.put(one, row))  # type: ignore[misc]
            world.database.write_now(lambda one, row=residual: residual_rows.put(one, row))  # type: ignore[misc]
        world.now_s = 1.0
        window, ports = cast(Any, world.window), cast(Any, world.ports)
        history = History(
            Settings(), world.database, world.recorder, window=window, ports=ports, clocks=world.clocks
        )
        world.set_s = 20 * 365 * DAY_S
        for ran_days, left in ((399, 2), (401, 0)):
            world.now_s = ran_days * DAY_S
            history.prune()
            await world.recorder.flush()
            for table in (alarms, gains, residuals):
                query = select(func.count()).select_from(table)
                assert world.database.read_now(lambda one, query=query: one.scalar(query)) == left  # type: ignore[misc]

    in_world(database_url, story)
