"""Decodes the binary INT reports of the fabric's switches for the window; drops are counted apart."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from service.ingest.postcards import Postcards
from service.ingest.senders import UNKNOWN, SenderStats, UntunedDevices
from service.ingest.threads import ReportSink
from service.metrics import OTHERS, BinaryMetrics
from settings.telemetry import IntSettings
from telemetry.decode.body import Decoded
from telemetry.decode.p4.assemble import NO_VALUE, NodesOf, P4Reports
from telemetry.decode.p4.decoder import P4Decoder
from telemetry.decode.p4.devices import Devices
from telemetry.decode.p4.sequence import Sender, SequenceCounts
from telemetry.report import ReportBatch, ReportProblem, joined
from telemetry.topology import Topology

MOST_DROP_PLACES = 16_384
"""Ports, queues and reasons of drops counted apart; further ones of unknown switches share a label."""
DATAGRAMS_AT_ONCE = 1_024
"""Datagrams of a capture that are decoded at once: live ones wait meanwhile."""

_log = logging.getLogger("ecntwin.postcards")


class BinaryReports:
    """Decodes from any thread, one call at a time. ``clock_s`` is monotonic seconds."""

    def __init__(
        self,
        settings: IntSettings,
        devices: Devices,
        *,
        metrics: BinaryMetrics,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.devices = devices
        self._decoder = P4Decoder(devices, settings.marks(), device_time=settings.device_time)
        self._metrics = metrics
        hold_s = settings.merge_postcards_s
        self._postcards = None if hold_s is None else Postcards(hold_s, metrics=metrics)
        self._decoding = threading.Lock()
        self._senders = SenderStats(devices, metrics=metrics)
        self._drop_places: set[tuple[str | None, str | None, int | None, int]] = set()
        self._untuned = UntunedDevices(devices, metrics=metrics, clock_s=clock_s)
        self._inventoried = frozenset(devices.switches.values())
        metrics.register_switches(self._inventoried)

    @property
    def untuned(self) -> tuple[str, ...]:
        """Devices that report without a unit profile, by name or node id; sorted."""
        return self._untuned.names

    @property
    def pending(self) -> int:
        """Number of postcards that wait for others about their packet."""
        return 0 if self._postcards is None else self._postcards.pending

    def declare(self, topology: Topology | None) -> None:
        if self._postcards is not None:
            self._postcards.declare(topology)

    def sequence_counts(self) -> Mapping[Sender, SequenceCounts]:
        return self._senders.counts()

    def name(self, sender: Sender) -> str:
        return self._senders.name(sender)

    def decode(
        self,
        payloads: Sequence[bytes],
        received_ns: int | NDArray[np.int64],
        sources: Sequence[str] | None = None,
    ) -> Decoded:
        """Decodes UDP payloads received at ``received_ns`` (one time, or one each) from these addresses.

        ``errors`` names unreadable payloads by position and byte. Raises ``DecodeError`` for invalid times.
        """
        with self._decoding:
            reports = self._read(payloads, received_ns, sources)
            if self._postcards is None or not len(payloads):
                return _decoded(reports, _kept(reports))
            batch = self._postcards.merged(reports, int(np.max(received_ns)))
            return replace(_decoded(reports, batch), accepted_before=True)

    def decode_capture(
        self, payloads: Sequence[bytes], received_ns: NDArray[np.int64], sources: Sequence[str]
    ) -> Decoded:
        """Like ``decode``, for payloads after which no others come, such as a capture's: a part at a time, as
        live ones wait meanwhile. Postcards are merged over all parts, in order of time.
        """
        problems: list[ReportProblem] = []
        found: list[int] = []

        def parts(order: NDArray[np.int64]) -> Iterator[P4Reports]:
            for begin in range(0, len(order), DATAGRAMS_AT_ONCE):
                rows = order[begin : begin + DATAGRAMS_AT_ONCE]
                places = rows.tolist()
                with self._decoding:
                    reports = self._read(
                        [payloads[place] for place in places],
                        received_ns[rows],
                        [sources[place] for place in places],
                    )
                for problem in reports.problems:
                    place = places[problem.index]
                    problems.append(renamed(problem, place, f"datagram {place}"))
                found.append(len(reports))
                yield replace(reports, batch=replace(reports.batch, index=rows[reports.batch.index]))

        if self._postcards is None:
            batch = joined([_kept(reports) for reports in parts(np.arange(len(payloads)))])
        else:
            batch = self._postcards.whole(parts(np.argsort(received_ns, kind="stable")), received_ns)
        return Decoded(batch, tuple(sorted(problems)), aside=sum(found) - len(batch))

    def due(self, now_ns: int) -> Decoded:
        if self._postcards is None:
            return Decoded(ReportBatch.empty(), ())
        with self._decoding:
            batch = self._postcards.due(now_ns)
        return Decoded(batch, (), aside=-len(batch), accepted_before=True)

    def flush(self) -> ReportBatch:
        """The paths of all postcards that still wait."""
        if self._postcards is None:
            return ReportBatch.empty()
        with self._decoding:
            return self._postcards.flush()

    def _read(
        self, payloads: Sequence[bytes], received_ns: int | NDArray[np.int64], sources: Sequence[str] | None
    ) -> P4Reports:
        reports = self._decoder.decode(payloads, received_ns, self._nodes(sources))
        self._senders.note(reports, sources)
        self._untuned.note(reports.untuned)
        if reports.dropped.any():
            self._note_drops(reports, reports.dropped)
        return reports

    def _nodes(self, sources: Sequence[str] | None) -> NodesOf | None:
        known = self.devices.sources
        if sources is None or not known:
            return None
        return lambda asked: np.array([known.get(sources[one], NO_VALUE) for one in asked.tolist()], np.int64)

    def _note_drops(self, reports: P4Reports, dropped: NDArray[np.bool_]) -> None:
        batch = reports.batch
        site = batch.hop_site[batch.hop_offset[1:] - 1][dropped].astype(np.int64)
        where, times = np.unique(
            np.stack((site, reports.drop_reason[dropped].astype(np.int64))), axis=1, return_counts=True
        )
        for number, reason, count in zip(*where.tolist(), times.tolist(), strict=True):
            at = batch.sites[number]
            if len(self._drop_places) < MOST_DROP_PLACES:
                self._drop_places.add((at.switch, at.egress_port, at.queue, reason))
            known = (at.switch, at.egress_port, at.queue, reason) in self._drop_places
            queue = UNKNOWN if at.queue is None else str(at.queue)
            if not known and at.switch not in self._inventoried:
                queue = OTHERS
            self._metrics.drops.labels(self._metrics.label(at.switch or UNKNOWN), queue).inc(count)


def renamed(problem: ReportProblem, place: int, words: str) -> ReportProblem:
    """The same problem of the datagram at ``place``, called ``words``."""
    return ReportProblem(place, problem.detail.replace(f"datagram {problem.index}", words, 1))


def _kept(reports: P4Reports) -> ReportBatch:
    """Those of packets that were not dropped."""
    return reports.delivered() if reports.dropped.any() else reports.batch


def _decoded(reports: P4Reports, batch: ReportBatch) -> Decoded:
    return Decoded(batch, reports.problems, aside=len(reports) - len(batch))


class PostcardFlusher:
    """Flushes due postcards into ``sink`` every ``every_s`` seconds when traffic is idle; None: postcards are
    not merged. ``start`` and ``stop`` on one event loop.
    """

    def __init__(
        self, binary: BinaryReports, sink: ReportSink, *, every_s: float | None, wall_ns: Callable[[], int]
    ) -> None:
        self._binary = binary
        self._sink = sink
        self._every_s = every_s
        self._wall_ns = wall_ns
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._every_s is not None:
            self._task = asyncio.create_task(self._run(self._every_s), name="postcards")

    async def stop(self) -> None:
        """Stops flushing; what is held stays where it is."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self, every_s: float) -> None:
        while True:
            await asyncio.sleep(every_s)
            if self._binary.pending:
                try:
                    await self._sink.ingest(partial(self._binary.due, self._wall_ns()))
                except Exception:  # the task must survive
                    _log.exception("merged reports were left out; the next flush is tried")
