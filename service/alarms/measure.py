"""What alarms ask of the database: whether it takes what is written, and what it did not; must not write.

What alarms ask of the ways telemetry comes in; any of them may not be there.

Everything of the service that may be worth an alarm, measured once a call; must not know thresholds.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from service.fleet import Fleet
from service.ingest.counter_owner import PortMonitor
from service.ingest.p4_reports import BinaryReports
from service.ingest.window_owner import WindowOwner
from service.metrics import StorageMetrics
from service.polling.poller import CounterPolling
from service.rollouts.manager import Rollouts
from service.udp.listener import UdpListener
from store.database import Database
from telemetry.alarms.board import Finding, Subject
from telemetry.alarms.findings import ecn_findings, gap_findings, loss_findings, pause_findings
from telemetry.counters.window import PortRates
from telemetry.decode.p4.sequence import Sender, SequenceCounts
from telemetry.errors import WindowError
from telemetry.state import NetworkState, QueueRef


class DatabaseHealth:
    """``knows`` is whether what was begun before the service started is taken up; ``lost`` counts entries of
    the history that were never written.
    """

    def __init__(
        self,
        database: Database,
        *,
        knows: Callable[[], bool],
        waiting: Callable[[], int],
        lost: Callable[[], int],
        metrics: StorageMetrics,
    ) -> None:
        self._database = database
        self._knows = knows
        self._lost = lost
        self._metrics = metrics
        self._lost_before = 0
        metrics.failing.set_function(lambda: float(self.failing is not None))
        metrics.waiting.set_function(waiting)

    @property
    def failing(self) -> str | None:
        """Why nothing can be decided, None where it can: the database cannot be written, or was not read."""
        if self._database.failing is not None:
            return f"the database cannot be written ({self._database.failing})"
        return None if self._knows() else "the database could not be read, and what was begun is not known"

    def findings(self) -> Iterator[Finding]:
        """Of storage and of the history, since the last time."""
        failing = self.failing
        yield Finding(
            Subject("storage", "the database"),
            float(failing is not None),
            "What is decided can be written down"
            if failing is None
            else f"No switch is set: {failing}. Reports are taken and advice is given as before",
        )
        lost, before = self._lost(), self._lost_before
        self._lost_before = lost
        self._metrics.dropped.inc(lost - before)
        yield Finding(
            Subject("history_lost", "the history"),
            float(lost > before),
            f"{lost - before} entries of the history could not wait for the database any longer: in its "
            "figures there is a gap",
        )


class TelemetrySources:
    """Binary reports, datagrams and polled counters, of which each may be None."""

    def __init__(
        self,
        *,
        binary: BinaryReports | None = None,
        udp: UdpListener | None = None,
        polling: CounterPolling | None = None,
    ) -> None:
        self._binary = binary
        self._named = frozenset() if binary is None else frozenset(binary.devices.switches.values())
        self._udp = udp
        self._polling = polling

    def sequence_counts(self) -> Mapping[Sender, SequenceCounts]:
        """Of every sender of binary reports, since it was first heard."""
        return {} if self._binary is None else self._binary.sequence_counts()

    def name_of(self, sender: Sender) -> tuple[str, str | None]:
        """A sender in words, and the switch it is where the inventory has it."""
        if self._binary is None:
            return str(sender.node), None
        name = self._binary.name(sender)
        known = name in self._named
        return f"{name if known else f'sender {name}'} unit {sender.hardware}", name if known else None

    def untuned(self) -> Mapping[str, str]:
        """Devices whose units nobody told, and a sentence of each."""
        names = () if self._binary is None else self._binary.untuned
        return {
            name: f"{name} reports INT in units that nobody told: its queues are not known, and it is not "
            "tuned"
            for name in names
        }

    @property
    def dropped(self) -> int:
        """Datagrams dropped on the way in, wherever."""
        return 0 if self._udp is None else self._udp.dropped

    @property
    def listens(self) -> bool:
        """Whether datagrams are taken at all."""
        return self._udp is not None and bool(self._udp.addresses)

    def failing(self) -> Mapping[str, str]:
        """Switches whose counters cannot be read, and a sentence of each."""
        found = {} if self._polling is None else self._polling.failing
        return {
            switch: f"The counters of {switch} cannot be read ({reason}): pauses and drops on it are not seen"
            for switch, reason in found.items()
        }


STATE_SHARE = 0.05
"""Of its time, at most so much is spent on working the state out for alarms."""
SAME_TIME_BASE_S = 86_400.0
SAME_PACE = (0.5, 2.0)
"""A recording or a lab has a time and a pace of its own: what is farther off, or of another pace, says
nothing of clocks.
"""
GIVEN_UP_S = 86_400.0  # a switch that said nothing for a day was taken away
STALLED_LOOKED_AT = 100
MOST_REPORTED = 4_096
"""Switches whose reports are waited for: who sends reports names them."""

_log = logging.getLogger("ecntwin.alarms")


@dataclass(frozen=True, slots=True)
class _Came:
    """What came in since the service began, in all."""

    accepted: int = 0
    rejected: int = 0
    skewed: int = 0
    backwards: int = 0
    dropped: int = 0


@dataclass(slots=True)
class CheckResult:
    """One look: every finding, and what else it came by. ``state`` is None where none was worked out;
    ``silent``: the window tells nothing of now, as no report came for too long.
    """

    findings: list[Finding] = field(default_factory=list)
    ports: tuple[PortRates, ...] = ()
    state: NetworkState | None = None
    silent: bool = False


class AlarmChecks:
    """``lossless`` are the queues that PFC protects (None: PFC is off). ``clock_s`` is monotonic seconds,
    ``wall_s`` seconds since 1970. Use from one event loop only.
    """

    def __init__(
        self,
        *,
        window: WindowOwner,
        ports: PortMonitor,
        fleet: Fleet,
        rollouts: Rollouts,
        sources: TelemetrySources,
        memory: DatabaseHealth | None = None,
        lossless: frozenset[int] | None,
        clock_s: Callable[[], float],
        wall_s: Callable[[], float],
        cost_s: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._window = window
        self._ports = ports
        self._fleet = fleet
        self._rollouts = rollouts
        self._sources = sources
        self._memory = memory
        self._lossless = lossless
        self._clock_s = clock_s
        self._wall_s = wall_s
        self._cost_s = cost_s
        self._state_from_s = float("-inf")
        self._looked_s = clock_s()
        self._came = _Came()
        self._sequence: Mapping[Sender, SequenceCounts] = {}
        self._reported: dict[str, float] = {}
        self._unreachable: dict[str, float] = {}
        self._named: dict[str, frozenset[str]] = {}
        self._paced: tuple[float, float] | None = None

    async def run(self, awaited: Container[str] | None = None) -> CheckResult:
        """Runs every check once. Of ports that are well only those of ``awaited`` switches (None: all) are
        told.
        """
        now_s = self._clock_s()
        recent = await self._ports.recent()
        state = await self._state(now_s)
        result = CheckResult(ports=recent.ports, state=state, silent=self._window.stale)
        # Ports may be thousands: not on the loop.
        result.findings.extend(await asyncio.to_thread(_told, self._of_ports(recent.ports, awaited)))
        for findings in (
            () if state is None else self._of_state(state, recent.ports, now_s),
            self._of_silence(recent.silent_s),
            self._of_intake(now_s),
            self._of_switches(now_s),
            self._of_sources(),
            () if self._memory is None else self._memory.findings(),
        ):
            result.findings.extend(_told(findings))
        self._looked_s = now_s
        return result

    async def _state(self, now_s: float) -> NetworkState | None:
        """The window, unless the last time it took so long that it is too early for the next, or it is of
        long ago: it keeps what the last reports showed, and traffic may have ended with them.
        """
        if now_s < self._state_from_s or self._window.stale:
            return None
        begun_s = self._cost_s()
        try:
            return await self._window.state()
        except WindowError:
            return None
        except Exception:
            _log.exception("the window could not be result at for alarms; all else is")
            return None
        finally:
            self._state_from_s = now_s + (self._cost_s() - begun_s) / STATE_SHARE

    def _of_ports(self, ports: tuple[PortRates, ...], awaited: Container[str] | None) -> Iterator[Finding]:
        yield from pause_findings(ports, awaited)
        if self._lossless is not None:
            yield from loss_findings(ports, self._lossless, awaited)

    def _of_state(self, state: NetworkState, ports: tuple[PortRates, ...], now_s: float) -> Iterator[Finding]:
        switches = {queue.ref.switch for queue in state.queues}
        marks = {switch: (self._fleet.queues_of(switch), self._fleet.runs(switch)) for switch in switches}

        def kmax_of(ref: QueueRef) -> int | None:
            by_queue, usual = marks[ref.switch]
            # Where queues were read one by one, what those run that were not read is not known.
            mark = by_queue.get((ref.port, ref.queue)) if by_queue else usual
            return None if mark is None else mark.kmax_bytes

        yield from ecn_findings(state.queues, ports, kmax_of)
        off_s = self._offset_s(state)
        if off_s is not None:
            yield Finding(
                Subject("clock_offset", "INT reports"),
                off_s,
                f"The newest INT report was {off_s:.3g} s off this machine's clock by its own when it "
                "came: one of the two is wrong, or it was long on its way",
            )
        for switch in sorted(switches):
            self._reported.pop(switch, None)  # the last heard stands last
            self._reported[switch] = now_s
        for switch in list(self._reported)[:-MOST_REPORTED]:
            del self._reported[switch]
        for switch, seen_s in list(self._reported.items()):
            if now_s - seen_s > GIVEN_UP_S:
                del self._reported[switch]
                continue
            yield _silent(f"INT reports of {switch}", switch, now_s - seen_s)

    def _offset_s(self, state: NetworkState) -> float | None:
        """How far the newest report's time is from when it came; None where that says nothing of clocks."""
        age_s = self._window.age_s()
        if age_s is None:
            return None
        came_s, by_itself_s = self._wall_s() - age_s, state.window_end_ns / 1e9
        before, self._paced = self._paced, (came_s, by_itself_s)
        if before is None or came_s <= before[0] or abs(came_s - by_itself_s) > SAME_TIME_BASE_S:
            return None
        pace = (by_itself_s - before[1]) / (came_s - before[0])
        return abs(came_s - by_itself_s) if SAME_PACE[0] <= pace <= SAME_PACE[1] else None

    def _of_silence(self, silent_s: Mapping[str, float]) -> Iterator[Finding]:
        age_s = self._window.age_s()
        if age_s is not None:
            yield Finding(
                Subject("telemetry_silent", "INT reports"),
                age_s,
                "INT reports come again"
                if age_s < 1.0
                else f"No INT report came for {age_s:.0f} s: what the network does now is not known, and "
                "nothing is tuned",
            )
        for switch, age_s in silent_s.items():
            if age_s <= GIVEN_UP_S:
                yield _silent(f"Counters of {switch}", switch, age_s)

    def _of_intake(self, now_s: float) -> Iterator[Finding]:
        counters = self._window.counters
        now = _Came(
            accepted=self._window.accepted,
            rejected=self._window.rejected,
            skewed=counters.skewed,
            backwards=counters.negative_latencies,
            dropped=self._sources.dropped,
        )
        before, self._came = self._came, now
        accepted, rejected = now.accepted - before.accepted, now.rejected - before.rejected
        skewed, backwards = now.skewed - before.skewed, now.backwards - before.backwards
        if came := accepted + rejected:
            yield Finding(
                Subject("clock_skew", "INT reports"),
                skewed / came,
                f"{skewed} of the last {came} INT reports were of a time that the others do not believe: the "
                "clock of a sink is off",
            )
            yield Finding(
                Subject("reports_rejected", "INT reports"),
                rejected / came,
                f"{rejected} of the last {came} INT reports were left out: the window sees less than "
                "it is sent",
            )
            yield Finding(
                Subject("clock_backwards", "INT reports"),
                backwards / came,
                f"In {backwards} hops of the last {came} INT reports a packet left before it came: a "
                "switch's clock runs backwards, or its unit is not the one told",
            )
        lasted_s, dropped = now_s - self._looked_s, now.dropped - before.dropped
        if lasted_s > 0 and self._sources.listens:
            yield Finding(
                Subject("ingest_drops", "UDP"),
                dropped / lasted_s,
                f"{dropped} datagrams were dropped on the way in over the last {lasted_s:.3g} s: what they "
                "said is missing from the window",
            )

    def _of_switches(self, now_s: float) -> Iterator[Finding]:
        since_s: dict[str, float] = {}
        for switch in self._fleet.names:
            failure = self._fleet.failure(switch)
            if failure is not None:
                since_s[switch] = self._unreachable.get(switch, now_s)
            away_s = now_s - since_s.get(switch, now_s)
            why = f"it could not be read for {away_s:.0f} s: {failure}" if failure else "it answers again"
            yield Finding(Subject("unreachable", switch, switch), away_s, f"{switch}: {why}")
            drifted = self._fleet.drifted(switch)
            yield Finding(
                Subject("drifted", switch, switch),
                float(drifted),
                f"{switch} runs what was not set from here: somebody else has changed it"
                if drifted
                else f"{switch} runs what was set, or what was adopted",
            )
        self._unreachable = since_s
        for rollout in self._rollouts.newest(STALLED_LOOKED_AT):
            stalled = rollout.stalled if not rollout.state.phase.ended else None
            yield Finding(
                Subject("rollout_stalled", f"rollout {rollout.id}"),
                float(stalled is not None),
                f"Rollout {rollout.id} stands still with switches in between: {stalled}"
                if stalled
                else f"Rollout {rollout.id} goes on",
            )

    def _of_sources(self) -> Iterator[Finding]:
        counts = dict(self._sources.sequence_counts())
        yield from gap_findings(self._sequence, counts, self._sources.name_of)
        self._sequence = counts
        for kind, found in (
            ("untuned", self._sources.untuned()),
            ("counter_source", self._sources.failing()),
        ):
            for device, sentence in found.items():
                yield Finding(Subject(kind, device, device), 1.0, sentence)
            for device in self._named.get(kind, frozenset()).difference(found):
                yield Finding(
                    Subject(kind, device, device), 0.0, f"{device} is as it should be again, or heard no more"
                )
            self._named[kind] = frozenset(found)


def _told(findings: Iterable[Finding]) -> list[Finding]:
    """These findings; where looking fails in a way it should not, those before: the others go on."""
    told: list[Finding] = []
    try:
        for finding in findings:
            told.append(finding)
    except Exception:
        _log.exception("a part of what alarms look at could not be result at")
    return told


def _silent(of: str, switch: str, age_s: float) -> Finding:
    return Finding(
        Subject("switch_silent", of, switch),
        age_s,
        f"{of} came before, and none came for {age_s:.0f} s: what it does now is not known",
    )
