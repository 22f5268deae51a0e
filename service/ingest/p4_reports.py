"""Devices that report INT in units nobody told: named, logged once, and forgotten when no more is heard.

Must not know what is in a report. Whoever can send datagrams makes up node ids, so of devices that the
inventory does not have only so many are remembered, and only as long as they are heard.

Binary INT reports of the fabric's devices in, reports for the window out; must not know how they came.

What is no traffic is counted here: dropped packets, flags, sequence numbers, devices whose units nobody told.

Lets merged reports go on also while no others come; must not know what a report is.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.ingest.p4_senders import NOBODY, Senders
from service.ingest.postcards import Postcards
from service.ingest.threads import ReportSink
from service.metrics import OTHERS, BinaryMetrics
from settings.int_keys import IntSettings
from telemetry.decode.body import Decoded
from telemetry.decode.p4.assemble import NOT_TOLD, NodesOf, P4Reports
from telemetry.decode.p4.decoder import P4Decoder
from telemetry.decode.p4.devices import Devices
from telemetry.decode.p4.sequence import Sender, SequenceCounts
from telemetry.report import ReportBatch
from telemetry.topology import Topology

MOST_UNTUNED = 256
"""Devices that the inventory does not have and that are remembered at a time, and that are logged at all."""
FORGOTTEN_AFTER_S = 600.0

_log = logging.getLogger("ecntwin.int")


class UntunedDevices:
    """``clock_s`` is monotonic seconds. ``note`` is for one thread; ``names`` may be asked from any."""

    def __init__(self, devices: Devices, *, metrics: BinaryMetrics, clock_s: Callable[[], float]) -> None:
        self._devices = devices
        self._metrics = metrics
        self._clock_s = clock_s
        self._lock = threading.Lock()
        self._known: set[int] = set()
        self._strangers: dict[int, float] = {}
        self._logged = 0

    @property
    def names(self) -> tuple[str, ...]:
        """By name or node id, sorted."""
        with self._lock:
            self._forget()
            return tuple(sorted(map(self._devices.switch, (*self._known, *self._strangers))))

    def note(self, nodes: Iterable[int]) -> None:
        """These have just reported, and have no profile."""
        now_s = self._clock_s()
        with self._lock:
            self._forget()
            for node in nodes:
                if node in self._devices.switches:
                    if node not in self._known:
                        self._known.add(node)
                        self._count(node)
                        self._tell(node)
                elif node in self._strangers:
                    self._strangers[node] = now_s
                elif len(self._strangers) < MOST_UNTUNED:
                    self._strangers[node] = now_s
                    self._count(node)
                    self._tell_stranger(node)

    def _tell_stranger(self, node: int) -> None:
        if self._logged < MOST_UNTUNED:
            self._tell(node)
        elif self._logged == MOST_UNTUNED:
            _log.warning(
                "%d devices that the inventory does not have reported without a unit profile; of others the "
                "log says nothing",
                MOST_UNTUNED,
            )
        self._logged += 1

    def _tell(self, node: int) -> None:
        _log.warning(
            "switch %s (node id %d) reports INT, and what it counts in is not known: it is shown and not "
            "tuned; give it a unit profile in the inventory (docs/telemetry/int-binary.md)",
            self._devices.switch(node),
            node,
        )

    def _count(self, node: int, there: bool = True) -> None:
        label = self._metrics.label(self._devices.switch(node))
        self._metrics.untuned.labels(label).inc(1 if there else -1)  # one label stands for many strangers

    def _forget(self) -> None:
        """Lets go of strangers that were not heard for long."""
        before_s = self._clock_s() - FORGOTTEN_AFTER_S
        for node in [node for node, heard_s in self._strangers.items() if heard_s < before_s]:
            del self._strangers[node]
            self._count(node, there=False)


MOST_DROP_PLACES = 16_384


class DropPlace(NamedTuple):
    """Where packets were dropped, as reported, and why: a reason of the device's own numbering, -1 where it
    gave none. Beyond ``MOST_DROP_PLACES`` all others are one place, of which nothing is known.
    """

    switch: str | None
    port: str | None
    queue: int | None
    reason: int


_ELSEWHERE = DropPlace(None, None, None, NOT_TOLD)


class BinaryReports:
    """May be used from any thread; they decode one after the other. ``clock_s`` is monotonic seconds."""

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
        self._lock = threading.Lock()  # between who decodes and whoever asks for counts
        self._senders = Senders(devices, metrics=metrics)
        self._drops: Counter[DropPlace] = Counter()
        self._untuned = UntunedDevices(devices, metrics=metrics, clock_s=clock_s)
        self._named = frozenset(devices.switches.values())
        metrics.register_switches(self._named)

    @property
    def untuned(self) -> tuple[str, ...]:
        """Devices that have reported and whose units nobody told, by name or node id; sorted."""
        return self._untuned.names

    @property
    def merges(self) -> bool:
        """Whether reports are merged; ``batch.index`` then counts paths, and is no position of a payload."""
        return self._postcards is not None

    @property
    def pending(self) -> int:
        """Reports that wait for others about their packet."""
        return 0 if self._postcards is None else self._postcards.pending

    def declare(self, topology: Topology | None) -> None:
        """Who sends to whom; puts the reports of several nodes about one packet in order."""
        if self._postcards is not None:
            self._postcards.declare(topology)

    def sequence_counts(self) -> Mapping[Sender, SequenceCounts]:
        """What each sender's sequence numbers tell, since it was first heard."""
        return self._senders.counts()

    def name(self, sender: Sender) -> str:
        """The switch's name, else its node id, else the address it sends from."""
        return self._senders.name(sender)

    def drop_counts(self) -> Mapping[DropPlace, int]:
        """Reports of dropped packets so far, by where and why."""
        with self._lock:
            return dict(self._drops)

    def decode(
        self,
        payloads: Sequence[bytes],
        received_ns: int | NDArray[np.int64],
        sources: Sequence[str] | None = None,
    ) -> Decoded:
        """The reports of UDP payloads received at ``received_ns`` (one time, or one each), for the window.

        ``sources`` are the addresses that they came from, where that is known. Payloads that cannot be read
        are named in ``errors`` by position and byte. Raises ``DecodeError`` where times are wrong.
        """
        with self._decoding:
            reports = self._read(payloads, received_ns, sources)
            if self._postcards is None or not len(payloads):
                return _decoded(reports, reports.delivered() if reports.dropped.any() else reports.batch)
            return _decoded(reports, self._postcards.merged(reports, int(np.max(received_ns))))

    def decode_capture(
        self, payloads: Sequence[bytes], received_ns: NDArray[np.int64], sources: Sequence[str]
    ) -> Decoded:
        """The same of payloads after which none are to come."""
        if self._postcards is None:
            return self.decode(payloads, received_ns, sources)
        with self._decoding:
            reports = self._read(payloads, received_ns, sources)
        return _decoded(reports, self._postcards.whole(reports, received_ns))

    def due(self, now_ns: int) -> Decoded:
        """The merged reports that need wait no longer, though nothing came."""
        if self._postcards is None:
            return Decoded(ReportBatch.empty(), ())
        with self._decoding:
            return Decoded(self._postcards.due(now_ns), ())

    def _read(
        self,
        payloads: Sequence[bytes],
        received_ns: int | NDArray[np.int64],
        sources: Sequence[str] | None,
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
        return lambda asked: np.array([known.get(sources[one], NOT_TOLD) for one in asked.tolist()], np.int64)

    def _note_drops(self, reports: P4Reports, dropped: NDArray[np.bool_]) -> None:
        batch = reports.batch
        site = batch.hop_site[batch.hop_offset[1:] - 1][dropped].astype(np.int64)
        where, times = np.unique(
            np.stack((site, reports.drop_reason[dropped].astype(np.int64))), axis=1, return_counts=True
        )
        for number, reason, count in zip(*where.tolist(), times.tolist(), strict=True):
            at = batch.sites[number]
            place = DropPlace(at.switch, at.egress_port, at.queue, reason)
            with self._lock:
                if place not in self._drops and len(self._drops) >= MOST_DROP_PLACES:
                    place = _ELSEWHERE
                self._drops[place] += count
            queue = NOBODY if at.queue is None else str(at.queue)
            if place is _ELSEWHERE and at.switch not in self._named:
                queue = OTHERS
            self._metrics.drops.labels(self._metrics.label(at.switch or NOBODY), queue).inc(count)


def _decoded(reports: P4Reports, batch: ReportBatch) -> Decoded:
    return Decoded(batch, reports.problems, aside=len(reports) - len(batch))


_postcards_log = logging.getLogger("ecntwin.postcards")


class PostcardFlusher:
    """Flushes due postcards into ``sink`` every ``every_s`` seconds when traffic is idle; None: postcards are
    not merged. ``start`` and ``stop`` on one event loop.
    """

    def __init__(
        self,
        binary: BinaryReports,
        sink: ReportSink,
        *,
        every_s: float | None,
        wall_ns: Callable[[], int],
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
        """Stops flushing; postcards still held are lost."""
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
                    _postcards_log.exception("merged reports were left out; the next flush is tried")
