"""A fabric's port counters in the product's own format (``docs/telemetry/counters.md``); must not send them.

What a fabric did over a stretch of simulated time, in the figures that recommendations are judged by.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from lab.reports import DATA_QUEUE, EPOCH_NS, Body
from twin.packet.happenings import Completions, Measured
from twin.packet.plan import FabricPlan
from twin.prediction import Slowdown, by_class

COUNTERS_PATH = "/v1/telemetry/counters"
PERIOD_S = 1e-3


class _Port(Struct, gc=False):
    switch: str
    port: str
    ts_ns: int
    tx_bytes: int


class _Queue(Struct, gc=False):
    switch: str
    port: str
    queue: int
    ts_ns: int
    pfc_tx_frames: int
    pfc_rx_frames: int
    pfc_pause_ns: int
    ecn_marked_packets: int
    dropped_packets: int
    dropped_bytes: int
    tx_packets: int


class CounterWriter:
    """Writes what a fabric counted: of each switch port what left it in all, and what its data queue did.

    A pause counts once, as it reaches the port that it stops: ``pfc_rx_frames`` there, ``pfc_tx_frames`` at
    the port across.
    """

    def __init__(self, plan: FabricPlan, *, epoch_ns: int = EPOCH_NS, period_s: float = PERIOD_S) -> None:
        self._ports = np.array(plan.switch_ports, dtype=np.int64)
        self._across = np.array([plan.reverse[port] for port in plan.switch_ports], dtype=np.int64)
        self._names = [(plan.ports[port].node, str(plan.ports[port].port)) for port in plan.switch_ports]
        self._epoch_ns = epoch_ns
        self._encoder = msgspec.json.Encoder()
        self.period_s = period_s

    def body(self, measured: Measured) -> Body:
        """The counters now, one body."""
        ts_ns = self._epoch_ns + round(measured.now_s * 1e9)
        columns = zip(
            self._names,
            self._whole(measured.sent_bytes),
            measured.pauses[self._across].tolist(),
            measured.pauses[self._ports].tolist(),
            self._whole(measured.paused_s * 1e9),
            measured.marked_packets[self._ports].tolist(),
            measured.dropped_packets[self._ports].tolist(),
            self._whole(measured.dropped_wire_bytes),
            measured.sent_packets[self._ports].tolist(),
            strict=True,
        )
        samples: list[_Port | _Queue] = []
        for (switch, port), sent_bytes, *counts in columns:
            samples.append(_Port(switch, port, ts_ns, sent_bytes))
            samples.append(_Queue(switch, port, DATA_QUEUE, ts_ns, *counts))
        return Body(self._encoder.encode_lines(samples), len(samples), COUNTERS_PATH)

    def _whole(self, values: NDArray[np.float64]) -> list[int]:
        whole: list[int] = np.rint(values[self._ports]).astype(np.int64).tolist()
        return whole


@dataclass(frozen=True, slots=True)
class Figures:
    """From ``begin_s`` to ``end_s``. Queues are the monitored ports' pooled, classes go by payload bytes.

    ``slowdown`` is of the flows that completed, classes without any left out, and where asked for of those
    still under way at their age; ``completions`` counts the former. ``paused_s`` adds all ports' pauses.
    """

    begin_s: float
    end_s: float
    queue_mean_bytes: float
    queue_p99_bytes: float
    slowdown: dict[str, Slowdown]
    completions: int
    goodput_bytes_per_s: float
    marked_fraction: float
    cnps: int
    pauses: int
    paused_s: float
    dropped_packets: int
    dropped_bytes: float


class Stretch:
    """Collects a stretch from ``begun`` on."""

    def __init__(self, begun: Measured) -> None:
        self._begun = begun
        self._slowdowns: list[NDArray[np.float64]] = []
        self._sizes: list[NDArray[np.float64]] = []

    @property
    def begin_s(self) -> float:
        """When it began."""
        return self._begun.now_s

    def add(self, completions: Completions) -> None:
        """Takes the flows that completed in a slice of it."""
        if len(completions):
            self._slowdowns.append(completions.slowdown)
            self._sizes.append(completions.payload_bytes)

    def figures(self, now: Measured, under_way: Completions | None = None) -> Figures:
        """What happened until now; flows ``under_way`` count at their age, lest slow ones go unseen."""
        during = now.since(self._begun)
        lasted_s = now.now_s - self._begun.now_s
        sent, marked = int(during.sent_packets.sum()), int(during.marked_packets.sum())
        slowdowns, sizes = list(self._slowdowns), list(self._sizes)
        completions = sum(map(len, sizes))
        if under_way is not None:
            slowdowns.append(under_way.slowdown)
            sizes.append(under_way.payload_bytes)
        return Figures(
            begin_s=self._begun.now_s,
            end_s=now.now_s,
            queue_mean_bytes=during.queue_mean_bytes,
            queue_p99_bytes=during.queue_quantile_bytes(0.99),
            slowdown=by_class(np.concatenate(slowdowns), np.concatenate(sizes)) if slowdowns else {},
            completions=completions,
            goodput_bytes_per_s=during.delivered_bytes / lasted_s if lasted_s > 0 else 0.0,
            marked_fraction=marked / sent if sent else 0.0,
            cnps=during.cnps,
            pauses=int(during.pauses.sum()),
            paused_s=float(during.paused_s.sum()),
            dropped_packets=int(during.dropped_packets.sum()),
            dropped_bytes=float(during.dropped_wire_bytes.sum()),
        )
