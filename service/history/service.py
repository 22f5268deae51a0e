"""Records the history of queues and residuals, and prunes it and that of alarms and gains."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from sqlalchemy import Connection

from service.events import Clocks
from service.history.alarms import AlarmHistory
from service.ingest.counter_owner import PortMonitor, RecentPorts
from service.ingest.window_owner import LatestState, WindowOwner
from service.tuning.round import RoundResult
from settings.history import DAY_S, Steps
from settings.model import Settings
from store import alarm_rows, lesson_rows, residual_rows
from store.ages import Instant, Uptime, outdated_ns
from store.database import Database, Recorder
from store.queue_rows import PortStep, begin_ns, fold, lengths, newest_ns, prune, write_step
from store.residual_rows import ResidualRow
from store.tables import NAME_LENGTH, alarms, gains, prune_oldest, residuals
from telemetry.counters.window import PortRates, Rates
from telemetry.settings import NS_PER_S
from telemetry.state import QueueState
from twin.advice.lessons import Lesson

PRUNE_EVERY_S = 60.0
PRUNED_AT_ONCE = 5_000
MOST_ALARMS = 1_000_000
MOST_ALARMS_IN_MEMORY = 10_000
MOST_LESSONS = 10_000
"""Three days of rounds every 30 s, about 6 KB each."""
MOST_WAITING_ROWS = 500_000
"""Queued rows of ports, about 120 MB: 15 steps of 32 000. Beyond, new steps are dropped until the database
catches up.
"""
MOST_ROWS_IN_MEMORY = 50_000
"""Rows of each step length in an in-memory database; about 15 MB."""
STEPS_PRUNED_AT_ONCE = 4
"""Steps removed for each written: enough to end a backlog, and few enough not to delay decisions."""

_log = logging.getLogger("ecntwin.history")

Port = tuple[str, str]


@dataclass
class QueueHistory:
    """Records queues and ports periodically, from the state and counters that alarms and rounds last
    computed: computing the state of a million flows takes far longer than a step.

    ``durable``: the database outlives the service; one in memory holds little. ``lost`` counts dropped
    steps. For one event loop.
    """

    steps: Steps | None
    recorder: Recorder
    durable: bool
    window: WindowOwner
    ports: PortMonitor
    clocks: Clocks

    def __post_init__(self) -> None:
        self._clock_s = self.clocks.monotonic_s
        self._wall_ns = self.clocks.wall_ns
        self._seen: LatestState | None = None
        self._counted: RecentPorts | None = None
        self._last_ns: int | None = None
        self._reported: set[Port] = set()  # in the newest state
        self._waiting_rows: dict[Hashable, int] = {}
        self.lost = 0

    async def run_forever(self) -> None:
        """Records a step as each begins by the wall clock; a failure is logged, and the next is tried."""
        while self.steps is not None:
            step_ns = self.steps.finest_s * NS_PER_S
            await asyncio.sleep((step_ns - self._wall_ns() % step_ns) / NS_PER_S)
            try:
                await self.record()
            except Exception:
                _log.exception("a step of the history could not be recorded; the next one is tried")

    async def record(self) -> bool:
        """Queues the figures that are new since the last call; returns whether there were any."""
        if self.steps is None:
            return False
        seen, counted = self._new_state(), self._new_ports()
        if seen is None and (counted is None or not self.window.stale):
            # While reports arrive, counters alone would record unknown queues as empty.
            return False
        queues = () if seen is None else seen.state.queues
        rates = () if counted is None else counted.ports
        ports = await asyncio.to_thread(port_steps, queues, rates)
        if seen is not None:
            self._reported = {(queue.ref.switch, queue.ref.port) for queue in queues}
        elif ports:  # a port that is left out of a step was idle, and of the silent ones nothing is known
            unknown = self._reported - {(one.switch, one.port) for one in ports}
            ports += [PortStep(*port, None, None, None, None, None) for port in filter(_storable, unknown)]
        if not ports:
            return False
        held = self.recorder.holds
        self._waiting_rows = {key: rows for key, rows in self._waiting_rows.items() if held(key)}
        waiting = sum(self._waiting_rows.values())
        if waiting and waiting + len(ports) > MOST_WAITING_ROWS:
            self.lost += 1
            return False
        seen_s = max(one.at_s for one in (seen, counted) if one is not None)
        ago_ns = round((self._clock_s() - seen_s) * NS_PER_S)
        self._put(begin_ns(self._wall_ns() - ago_ns, self.steps.finest_s), ports)
        return True

    def _new_state(self) -> LatestState | None:
        """The last computed state, unless it was recorded before or is stale."""
        latest = self.window.latest
        if latest is None or latest is self._seen or self.window.stale:
            return None
        self._seen = latest
        return latest

    def _new_ports(self) -> RecentPorts | None:
        latest = self.ports.latest
        if latest is None or latest is self._counted:
            return None
        self._counted = latest
        return latest

    def _put(self, at_ns: int, ports: Sequence[PortStep]) -> None:
        steps = self.steps
        assert steps is not None
        finest_s, before_ns = steps.finest_s, self._last_ns
        self._last_ns = at_ns

        def written(connection: Connection) -> None:
            write_step(connection, finest_s, at_ns, ports)

        def folded(connection: Connection) -> None:
            last_ns = before_ns
            if last_ns is None:  # after a restart: merges steps that the previous service left
                last_ns = newest_ns(connection, finest_s, until_ns=at_ns - 1)
            if last_ns is not None:
                for from_s, to_s in steps.folds:
                    fold(connection, from_s=from_s, to_s=to_s, within_ns=last_ns)

        def pruned(connection: Connection) -> None:
            for step_s in lengths(connection):  # includes step lengths of earlier settings
                keep_s = steps.keep_s.get(step_s, steps.longest_s)
                if not self.durable:
                    keep_s = min(keep_s, step_s * max(MOST_ROWS_IN_MEMORY // len(ports), 1))
                prune(connection, step_s, at_ns - math.ceil(keep_s * NS_PER_S), most=STEPS_PRUNED_AT_ONCE)

        key = object()  # a write of its own, since a step may be written more than once
        self._waiting_rows[key] = len(ports)
        self.recorder.put(written, key=key)
        second_s = next((to_s for _, to_s in steps.folds), None)
        if second_s is not None and (
            before_ns is None or begin_ns(before_ns, second_s) != begin_ns(at_ns, second_s)
        ):
            self.recorder.put(folded)
        self.recorder.put(pruned, key="prune queue_history")


def port_steps(queues: Iterable[QueueState], rates: Iterable[PortRates]) -> list[PortStep]:
    """The ports of these queues, and ports with only counters that were paused or marked.

    Marks are from reports, else from counters. Names that no database stores are left out.
    """
    of_port: defaultdict[Port, list[QueueState]] = defaultdict(list)
    for queue in queues:
        of_port[queue.ref.switch, queue.ref.port].append(queue)
    counted = {(one.switch, one.port): one.rates for one in rates}
    counters_only = {
        port
        for port, one in counted.items()
        if port not in of_port and (one.pause_share or one.ecn_marked_per_s)
    }
    return [
        _port_step(port, of_port.get(port, ()), counted)
        for port in (*of_port, *counters_only)
        if _storable(port)
    ]


def _port_step(port: Port, queues: Sequence[QueueState], counted: dict[Port, Rates]) -> PortStep:
    rates = counted.get(port)
    deep = [queue for queue in queues if queue.has_depth]
    marks = [queue.marked_packets_per_s for queue in queues if queue.marked_packets_per_s is not None]
    return PortStep(
        *port,
        depth_bytes=sum(queue.depth_mean_bytes for queue in deep) if deep else None,
        depth_max_bytes=sum(queue.depth_max_bytes for queue in deep) if deep else None,
        throughput_bytes_per_s=sum(queue.throughput_bytes_per_s for queue in queues) if queues else None,
        marked_packets_per_s=sum(marks) if marks else None if rates is None else rates.ecn_marked_per_s,
        pause_share=None if rates is None else rates.pause_share,
    )


def _storable(port: Port) -> bool:
    """PostgreSQL refuses NUL in text, and both databases lone surrogates."""
    return all(len(name) <= NAME_LENGTH and name.isprintable() for name in port)


class History:
    """Records all history, and prunes it; for one event loop."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        recorder: Recorder,
        *,
        window: WindowOwner,
        ports: PortMonitor,
        clocks: Clocks,
    ) -> None:
        self._recorder = recorder
        self._clocks = clocks
        self._began = self._now()
        self._keep_ns = round(settings.storage.keep_days * DAY_S * NS_PER_S)
        self._most_alarms = MOST_ALARMS if database.durable else MOST_ALARMS_IN_MEMORY
        # They are learnt from by a command, in a process of its own.
        self.keeps_lessons = database.durable
        self.queues = QueueHistory(
            settings.storage.steps(),
            recorder=recorder,
            durable=database.durable,
            window=window,
            ports=ports,
            clocks=clocks,
        )
        self.alarms = AlarmHistory(database, recorder, clocks=clocks)

    @property
    def lost(self) -> int:
        """Entries dropped since the start: the database refused them, or did not take them in time."""
        return self._recorder.dropped + self.queues.lost

    async def run_forever(self) -> None:
        async with asyncio.TaskGroup() as both:
            both.create_task(self.queues.run_forever(), name="queue-history")
            both.create_task(self._prune_forever(), name="history-tidied")

    def round_ended(self, recommendation_id: str, result: RoundResult, lesson: Lesson | None) -> None:
        """Records the twin's prediction against what was measured, what the round's advice is worth, and
        what it teaches.
        """
        answer = result.recommendation
        gain, error = answer.improvement.score_gain, answer.improvement.score_error
        if not answer.changes:
            gain, error = 0.0, None
        by_gain = answer.score_is == "gain"
        row = ResidualRow(
            self._clocks.wall_ns(),
            recommendation_id,
            result.predicted_queue_bytes,
            result.measured_queue_bytes,
            gain if by_gain else None,
            error if by_gain else None,
        )
        self._recorder.put(partial(residual_rows.put, row=row))
        if lesson is not None:
            document = lesson.packed()
            self._recorder.put(partial(lesson_rows.put, at_ns=row.at_ns, document=document))

    def prune(self) -> None:
        """Prunes some of the entries that are too old, and ends alarms whose end was lost."""
        self.alarms.tidy()
        uptime = Uptime(self._began, self._now())

        def pruned(connection: Connection) -> None:
            ended_ns = outdated_ns(connection, alarms.c.ended_ns, self._keep_ns, uptime)
            alarm_rows.prune(
                connection, ended_before_ns=ended_ns, keep=self._most_alarms, most=PRUNED_AT_ONCE
            )
            for at_ns in (residuals.c.at_ns, gains.c.at_ns):
                before_ns = outdated_ns(connection, at_ns, self._keep_ns, uptime)
                prune_oldest(connection, at_ns, before_ns=before_ns, most=PRUNED_AT_ONCE)
            lesson_rows.prune(connection, keep=MOST_LESSONS)

        self._recorder.put(pruned, key="prune history")

    def _now(self) -> Instant:
        return Instant(self._clocks.wall_ns(), self._clocks.monotonic_s())

    async def _prune_forever(self) -> None:
        while True:
            await asyncio.sleep(PRUNE_EVERY_S)
            try:
                self.prune()
            except Exception:
                _log.exception("the history could not be pruned; retrying")
