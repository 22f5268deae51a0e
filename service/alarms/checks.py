"""Measures everything that may raise an alarm: ports, queues, reports, switches, rollouts, the database."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from rollout.machine import not_undone
from service.alarms.groups import IncastSite, incast_sites
from service.alarms.links import Fabric, LinkChecks
from service.documents.base import list_text
from service.events import Clocks
from service.history.forecast import Forecasts
from service.history.service import History
from service.ingest.counter_owner import PortMonitor
from service.ingest.p4_reports import BinaryReports
from service.ingest.window_owner import WindowOwner
from service.metrics import StorageMetrics
from service.neighbours.cabling import Cabling
from service.nics.polling import NicPolling
from service.polling.lossless import LosslessCheck
from service.polling.poller import CounterPolling
from service.rollouts.manager import Rollouts
from service.switches.fleet import Fleet
from service.udp.listener import UdpListener
from store.database import Database, Recorder
from store.journal import Journal
from telemetry.alarms import (
    Alarm,
    Finding,
    Subject,
    ecn_findings,
    gap_findings,
    loss_findings,
    pause_findings,
    rate_findings,
)
from telemetry.counters.window import PortRates
from telemetry.decode.p4.sequence import Sender, SequenceCounts
from telemetry.errors import WindowError
from telemetry.state import NetworkState, QueueRef


@dataclass
class DatabaseHealth:
    """Whether decisions and history can be written, for alarms and metrics."""

    database: Database
    journal: Journal
    recorder: Recorder
    history: History
    metrics: StorageMetrics

    def __post_init__(self) -> None:
        self._lost_before = 0
        self.metrics.failing.set_function(lambda: float(self.failing is not None))
        self.metrics.waiting.set_function(lambda: self.recorder.waiting)

    @property
    def failing(self) -> str | None:
        """Why no change may be decided on: the database cannot be written, or was not read; None where one
        may.
        """
        if self.database.failing is not None:
            return f"the database cannot be written ({self.database.failing})"
        return (
            None if self.journal.known else "the database could not be read, and what was begun is not known"
        )

    def findings(self) -> Iterator[Finding]:
        failing = self.failing
        yield Finding(
            Subject("storage", "the database"),
            float(failing is not None),
            "Decisions can be stored"
            if failing is None
            else f"No switch is set: {failing}. Reports and recommendations go on as before",
        )
        lost, before = self.history.lost, self._lost_before
        self._lost_before = lost
        self.metrics.dropped.inc(lost - before)
        yield Finding(
            Subject("history_lost", "the history"),
            float(lost > before),
            f"{lost - before} entries of the history were dropped, as the database did not take them in "
            "time: the history has a gap",
        )


@dataclass(kw_only=True)
class TelemetrySources:
    """Sequence gaps, drops and failures of the ways telemetry comes in."""

    binary: BinaryReports
    polling: CounterPolling
    nics: NicPolling | None = None
    udp: UdpListener | None = None

    def __post_init__(self) -> None:
        self._inventoried = frozenset(self.binary.devices.switches.values())

    def sequence_counts(self) -> Mapping[Sender, SequenceCounts]:
        """By sender of binary reports, sequence gaps and restarts since it was first heard."""
        return self.binary.sequence_counts()

    def name_of(self, sender: Sender) -> tuple[str, str | None]:
        """The sender's display name, and its switch if the inventory has it."""
        name = self.binary.name(sender)
        known = name in self._inventoried
        return f"{name if known else f'sender {name}'} unit {sender.hardware}", name if known else None

    def untuned(self) -> Mapping[str, str]:
        """Devices without a unit profile, each with a sentence."""
        return {
            name: f"{name} reports INT in unknown units: its queues are not known, and it is not tuned"
            for name in self.binary.untuned
        }

    @property
    def dropped(self) -> int:
        return 0 if self.udp is None else self.udp.dropped

    @property
    def listens(self) -> bool:
        return self.udp is not None and bool(self.udp.addresses)

    def failing(self) -> Mapping[str, str]:
        """Switches whose counters cannot be read, each with a sentence."""
        return {
            switch: f"The counters of {switch} cannot be read ({reason}): pauses and drops on it are not seen"
            for switch, reason in self.polling.failing.items()
        }


STATE_SHARE = 0.05
"""The share of time spent at most on computing the state for alarms."""
SAME_TIME_BASE_S = 86_400.0
SAME_PACE = (0.5, 2.0)
"""Clocks further off, or of another pace, are not reported: recordings and labs have their own."""
GIVEN_UP_S = 86_400.0  # a switch silent for a day was removed
ROLLOUTS_CHECKED = 100
MOST_REPORTED = 4_096
"""Switches checked for silence: senders of reports can name any number."""

_log = logging.getLogger("ecntwin.alarms")


class _Totals(NamedTuple):
    """Reports, hops and datagrams since the service began."""

    accepted: int = 0
    rejected: int = 0
    skewed: int = 0
    behind: int = 0
    backwards: int = 0
    dropped: int = 0


@dataclass(slots=True)
class CheckResult:
    """Every finding of one run, and the ports and state it used. ``state`` is None where none was computed;
    ``silent``: the window is stale. ``incasts`` are those of the last state, ``notes`` sentences on
    conditions that watch nothing.
    """

    findings: list[Finding] = field(default_factory=list)
    ports: tuple[PortRates, ...] = ()
    state: NetworkState | None = None
    silent: bool = False
    incasts: tuple[IncastSite, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(kw_only=True)
class AlarmChecks:
    """``lossless`` are the queues that PFC protects (None: PFC is off), ``links`` the operator's conditions.
    For one event loop.
    """

    window: WindowOwner
    ports: PortMonitor
    fleet: Fleet
    rollouts: Rollouts
    sources: TelemetrySources
    database: DatabaseHealth | None = None
    cabling: Cabling | None = None
    lossless_check: LosslessCheck | None = None
    links: LinkChecks | None = None
    forecasts: Forecasts | None = None
    lossless: frozenset[int] | None
    clocks: Clocks

    def __post_init__(self) -> None:
        self._state_from_s = float("-inf")
        # For conditions on links between states: counters in place of reports would be another figure.
        self._shown: NetworkState | None = None
        self._ran_s = self.clocks.monotonic_s()
        self._totals = _Totals()
        self._sequence: Mapping[Sender, SequenceCounts] = {}
        self._reported: dict[str, float] = {}
        self._unreachable: dict[str, float] = {}
        self._reported_before: dict[str, frozenset[str]] = {}
        self._paced: tuple[float, float] | None = None
        self._incasts: tuple[IncastSite, ...] = ()

    def go_on(self, carried: Iterable[Alarm]) -> None:
        """Counts on from alarms of an earlier run how long switches have been out of reach."""
        for alarm in carried:
            if alarm.subject.kind == "unreachable":
                switch = alarm.subject.of
                self._unreachable[switch] = min(self._unreachable.get(switch, alarm.since_s), alarm.since_s)

    async def run(self, awaited: Container[str] | None = None) -> CheckResult:
        """Runs every check once. Healthy ports and queues are reported of ``awaited`` switches (None: all)
        only.
        """
        now_s = self.clocks.monotonic_s()
        recent = await self.ports.recent()
        state = await self._state(now_s)
        result = CheckResult(ports=recent.ports, state=state, silent=self.window.stale)
        # Thousands of ports: not on the event loop.
        result.findings.extend(await asyncio.to_thread(_collected, self._of_ports(recent.ports, awaited)))
        if self.links is not None:
            forecast = None if self.forecasts is None else self.forecasts.utilisation
            found = self.links.findings(
                self._fabric(self._shown), self._shown, recent.ports, awaited, forecast
            )
            result.findings.extend(await asyncio.to_thread(_collected, found))
            result.notes = self.links.notes()
        if state is not None:
            found = self._of_queues(state, recent.ports, awaited)
            result.findings.extend(await asyncio.to_thread(_collected, found))
        for findings in (
            () if state is None else self._of_state(state, now_s),
            self._of_silence(recent.silent_s),
            self._of_intake(now_s, state),
            self._of_switches(now_s),
            self._of_sources(),
            () if self.database is None else self.database.findings(),
            () if self.cabling is None else await self._of_cabling(self.cabling),
            () if self.lossless_check is None else self.lossless_check.findings(),
        ):
            result.findings.extend(_collected(findings))
        if result.silent:
            self._incasts = ()
        result.incasts = self._incasts
        self._ran_s = now_s
        return result

    async def _state(self, now_s: float) -> NetworkState | None:
        """The state of the window, unless it is stale, or too early after the last, costly computation."""
        if self.window.stale:
            self._shown = None
            return None
        if now_s < self._state_from_s:
            return None
        self._shown, begun_s = None, self.clocks.cost_s()
        try:
            self._shown = await self.window.state()
            return self._shown
        except WindowError:
            return None
        except Exception:
            _log.exception("computing the window's state for alarms failed; the others run")
            return None
        finally:
            self._state_from_s = now_s + (self.clocks.cost_s() - begun_s) / STATE_SHARE

    def _fabric(self, state: NetworkState | None) -> Fabric | None:
        if state is not None:
            return Fabric(state.topology, state.topology_declared)
        declared = self.window.declared
        return None if declared is None else Fabric(declared, True)

    def _of_ports(self, ports: tuple[PortRates, ...], awaited: Container[str] | None) -> Iterator[Finding]:
        yield from pause_findings(ports, awaited)
        if self.lossless is not None:
            yield from loss_findings(ports, self.lossless, awaited)

    def _of_queues(
        self, state: NetworkState, ports: tuple[PortRates, ...], awaited: Container[str] | None
    ) -> Iterator[Finding]:
        switches = {queue.ref.switch for queue in state.queues}
        marks = {switch: (self.fleet.queues_of(switch), self.fleet.runs(switch)) for switch in switches}

        def kmax_of(ref: QueueRef) -> int | None:
            by_queue, usual = marks[ref.switch]
            # Where queues were read one by one, those not read are unknown.
            mark = by_queue.get((ref.port, ref.queue)) if by_queue else usual
            return None if mark is None else mark.kmax_bytes

        self._incasts = incast_sites(state, kmax_of)
        yield from ecn_findings(state.queues, ports, kmax_of, awaited)
        if state.topology_declared:
            yield from rate_findings(state.queues, awaited)

    def _of_state(self, state: NetworkState, now_s: float) -> Iterator[Finding]:
        off_s = self._offset_s(state)
        if off_s is not None:
            yield Finding(
                Subject("clock_offset", "INT reports"),
                off_s,
                f"The newest INT report was {off_s:.3g} s off this machine's clock when it came: one of the "
                "two clocks is wrong, or it was delayed",
            )
        for switch in sorted({queue.ref.switch for queue in state.queues}):
            self._reported.pop(switch, None)  # most recent last
            self._reported[switch] = now_s
        for switch in list(self._reported)[:-MOST_REPORTED]:
            del self._reported[switch]
        for switch, seen_s in list(self._reported.items()):
            if now_s - seen_s > GIVEN_UP_S:
                del self._reported[switch]
                continue
            yield _silent(f"INT reports of {switch}", switch, now_s - seen_s)

    def _offset_s(self, state: NetworkState) -> float | None:
        """The newest report's time minus its arrival; None where that says nothing about clocks."""
        age_s = self.window.age_s()
        if age_s is None:
            return None
        arrival_s, report_s = self.clocks.wall_ns() / 1e9 - age_s, state.window_end_ns / 1e9
        before, self._paced = self._paced, (arrival_s, report_s)
        if before is None or arrival_s <= before[0] or abs(arrival_s - report_s) > SAME_TIME_BASE_S:
            return None
        pace = (report_s - before[1]) / (arrival_s - before[0])
        return abs(arrival_s - report_s) if SAME_PACE[0] <= pace <= SAME_PACE[1] else None

    def _of_silence(self, silent_s: Mapping[str, float]) -> Iterator[Finding]:
        age_s = self.window.age_s()
        if age_s is not None:
            yield Finding(
                Subject("telemetry_silent", "INT reports"),
                age_s,
                f"{self.window.silence} for {age_s:.0f} s: the state of the network is not known, and "
                "nothing is tuned"
                if self.window.stale
                else f"The newest INT report came {age_s:.0f} s ago",
            )
        for switch, age_s in silent_s.items():
            if age_s <= GIVEN_UP_S:
                yield _silent(f"Counters of {switch}", switch, age_s)

    def _of_intake(self, now_s: float, state: NetworkState | None) -> Iterator[Finding]:
        counters = self.window.counters
        now = _Totals(
            accepted=self.window.accepted,
            rejected=self.window.rejected,
            skewed=counters.skewed,
            behind=counters.behind,
            backwards=counters.negative_latencies,
            dropped=self.sources.dropped,
        )
        before, self._totals = self._totals, now
        accepted, rejected, skewed, behind, backwards, dropped = (
            new - old for new, old in zip(now, before, strict=True)
        )
        if came := accepted + rejected:
            # Where most are behind the newest, these few move the window away from the others.
            dragged = 2 * behind > accepted
            yield Finding(
                Subject("clock_skew", "INT reports"),
                (skewed + behind if dragged else skewed) / came,
                f"{behind} of the last {came} INT reports were seconds behind the newest when they came: the "
                f"clocks of {self._ahead(state)} are ahead, or most reports are sent late; the newest "
                "traffic in the window is that of a few, and a round sets nothing where most came so"
                if dragged
                else f"{skewed} of the last {came} INT reports were too far from the time of the others: the "
                "clock of a sink is off",
            )
            yield Finding(
                Subject("reports_rejected", "INT reports"),
                rejected / came,
                f"{rejected} of the last {came} INT reports were rejected: the window misses them",
            )
            yield Finding(
                Subject("clock_backwards", "INT reports"),
                backwards / came,
                f"In {backwards} hops of the last {came} INT reports a packet left before it came: a "
                "switch's clock runs backwards, or its unit profile is wrong",
            )
        lasted_s = now_s - self._ran_s
        if lasted_s > 0 and self.sources.listens:
            yield Finding(
                Subject("ingest_drops", "UDP"),
                dropped / lasted_s,
                f"{dropped} datagrams were dropped in the last {lasted_s:.3g} s: the window misses them",
            )

    def _ahead(self, state: NetworkState | None) -> str:
        """Sinks that sent the newest reports, where others sent none as new."""
        newest = {} if state is None else state.newest_ns
        near_ns = 0 if state is None else state.window_end_ns - self.window.step_ns
        ahead = sorted(sink for sink, at_ns in newest.items() if at_ns >= near_ns)
        return list_text(ahead) if len(ahead) < len(newest) else "some sinks"

    def _of_switches(self, now_s: float) -> Iterator[Finding]:
        since_s = {one: at_s for one, at_s in self._unreachable.items() if not self.fleet.was_tried(one)}
        for switch in self.fleet.names:
            if not self.fleet.was_tried(switch):
                continue  # after a start: an alarm of an earlier run is not over yet
            failure = self.fleet.failure(switch)
            if failure is not None:
                since_s[switch] = self._unreachable.get(switch, now_s)
            away_s = now_s - since_s.get(switch, now_s)
            why = f"it could not be read for {away_s:.0f} s: {failure}" if failure else "it answers again"
            yield Finding(Subject("unreachable", switch, switch), away_s, f"{switch}: {why}")
            drifted = self.fleet.drifted(switch)
            yield Finding(
                Subject("drifted", switch, switch),
                float(drifted),
                f"{switch} runs a watermark that was not set from here: it was changed elsewhere"
                if drifted
                else f"{switch} runs what was set or adopted",
            )
        self._unreachable = since_s
        for rollout in self.rollouts.newest(ROLLOUTS_CHECKED):
            state = rollout.state
            stuck = [state.members[name].detail for name in not_undone(state, self.rollouts.now_s())]
            stalled = None if state.phase.ended else rollout.stalled or next(iter(stuck), None)
            yield Finding(
                Subject("rollout_stalled", f"rollout {rollout.id}"),
                float(stalled is not None),
                f"Rollout {rollout.id} stands still with switches in between: {stalled}"
                if stalled
                else f"Rollout {rollout.id} continues",
            )

    async def _of_cabling(self, cabling: Cabling) -> list[Finding]:
        try:
            return await cabling.findings()
        except Exception:
            _log.exception("comparing the cabling failed; the other checks run")
            return []

    def _of_sources(self) -> Iterator[Finding]:
        counts = dict(self.sources.sequence_counts())
        yield from gap_findings(self._sequence, counts, self.sources.name_of)
        self._sequence = counts
        for kind, found in (
            ("untuned", self.sources.untuned()),
            ("counter_source", self.sources.failing()),
            ("nic_source", {} if self.sources.nics is None else self.sources.nics.failing()),
        ):
            for device, sentence in found.items():
                yield Finding(_of_device(kind, device), 1.0, sentence)
            for device in self._reported_before.get(kind, frozenset()).difference(found):
                yield Finding(_of_device(kind, device), 0.0, f"{device} is well again, or no longer heard")
            self._reported_before[kind] = frozenset(found)
        if self.sources.nics is not None and self.sources.nics.polls:
            if self.rollouts.active_on(self.sources.nics.hosts) is not None:
                return  # NICs differ while a rollout has set only some of them
            for of, how in self.sources.nics.contradictions():
                yield Finding(Subject("senders", of), float(how is not None), how or f"{of} agree")


def _of_device(kind: str, device: str) -> Subject:
    """Of a switch, or of a host, which is none."""
    return Subject(kind, device, None if kind == "nic_source" else device)


def _collected(findings: Iterable[Finding]) -> list[Finding]:
    """The findings of one check; after an unexpected failure, those made before it, so that other checks go
    on.
    """
    collected: list[Finding] = []
    try:
        for finding in findings:
            collected.append(finding)
    except Exception:
        _log.exception("an alarm check failed; the others run")
    return collected


def _silent(of: str, switch: str, age_s: float) -> Finding:
    return Finding(Subject("switch_silent", of, switch), age_s, f"{of} last came {age_s:.0f} s ago")
