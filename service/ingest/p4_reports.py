"""Binary INT reports of the fabric's devices in, reports for the window out; must not know how they came.

What is no traffic is counted here: dropped packets, flags, sequence numbers, devices whose units nobody told.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.binary_metrics import OTHERS, BinaryMetrics
from service.ingest.binary_untuned import UntunedDevices
from service.ingest.p4_senders import NOBODY, Senders
from service.ingest.postcards import Postcards
from settings.int_keys import IntSettings
from telemetry.decode.decoded import Decoded
from telemetry.decode.p4.decoder import P4Decoder
from telemetry.decode.p4.devices import Devices
from telemetry.decode.p4.result import NOT_TOLD, P4Reports
from telemetry.decode.p4.sequence import Sender, SequenceCounts
from telemetry.decode.p4.source_nodes import NodesOf
from telemetry.report import ReportBatch
from telemetry.topology import Topology

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
        metrics.named(self._named)

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
