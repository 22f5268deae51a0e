"""The lab's INT reports and counters as JSON (``docs/telemetry/int-report.md``, ``counters.md``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise, repeat

import msgspec
import numpy as np
from msgspec import Raw, Struct
from numpy.typing import NDArray

from twin.packet.plan import FabricPlan
from twin.packet.results import Measured, Samples

EPOCH_NS = 1_767_225_600_000_000_000  # 2026-01-01: simulated time 0
DATA_QUEUE = 3
REPORTS_A_BODY = 5_000
REPORTS_PATH = "/v1/telemetry/int"
COUNTERS_PATH = "/v1/telemetry/counters"
COUNT_EVERY_S = 1e-3

ROCE_PORT = 4791  # UDP destination port of RoCEv2 (InfiniBand Architecture Specification, annex A17)
_UDP = 17
FIRST_SOURCE_PORT = 1_024
SOURCE_PORTS = 65_536 - FIRST_SOURCE_PORT


class _Hop(Struct, gc=False):
    switch: str
    ingress_port: str
    egress_port: str
    queue: int
    queue_bytes: int
    ingress_ts_ns: int
    egress_ts_ns: int
    ecn_marked: bool


class _Flow(Struct, gc=False):
    src: str
    dst: str
    sport: int
    dport: int
    protocol: int


class _Report(Struct, gc=False):
    ts_ns: int
    flow: Raw
    packet_bytes: int
    sampling_rate: float
    hops: list[_Hop]


@dataclass(frozen=True, slots=True)
class Body:
    """NDJSON of ``records`` reports or counter samples, for ``path`` of the service."""

    content: bytes
    records: int
    path: str = REPORTS_PATH


class ReportWriter:
    """Encodes sampled packets. ``addresses``: hosts' by name; a host without one reports its name."""

    def __init__(
        self,
        plan: FabricPlan,
        addresses: Mapping[str, str | None],
        *,
        sampling_rate: float,
        epoch_ns: int = EPOCH_NS,
        reports_a_body: int = REPORTS_A_BODY,
    ) -> None:
        self._switch = np.array([port.node for port in plan.ports], dtype=object)
        self._port = np.array([port.port for port in plan.ports], dtype=object)
        self._address = [addresses.get(name) or name for name in plan.hosts]
        self._sampling_rate = sampling_rate
        self._epoch_ns = epoch_ns
        self._reports_a_body = reports_a_body
        self._encoder = msgspec.json.Encoder()

    def bodies(self, samples: Samples) -> Iterator[Body]:
        """The reports in order, up to ``reports_a_body`` each."""
        if not len(samples):
            return
        reports = self._reports(samples)
        for begin in range(0, len(reports), self._reports_a_body):
            part = reports[begin : begin + self._reports_a_body]
            yield Body(self._encoder.encode_lines(part), len(part))

    def _reports(self, samples: Samples) -> list[_Report]:
        hops = list(
            map(
                _Hop,
                self._switch[samples.port].tolist(),
                self._port[samples.ingress_port].tolist(),
                self._port[samples.port].tolist(),
                repeat(DATA_QUEUE),
                np.rint(samples.queue_bytes).astype(np.int64).tolist(),
                self._ns(samples.ingress_s),
                self._ns(samples.egress_s),
                samples.marked.tolist(),
            )
        )
        return list(
            map(
                _Report,
                self._ns(samples.delivered_s),
                self._flows(samples),
                samples.wire_bytes.tolist(),
                repeat(self._sampling_rate),
                [hops[begin:end] for begin, end in pairwise(samples.hop_offset.tolist())],
            )
        )

    def _ns(self, seconds: np.ndarray) -> list[int]:
        nanoseconds: list[int] = (self._epoch_ns + np.rint(seconds * 1e9).astype(np.int64)).tolist()
        return nanoseconds

    def _flows(self, samples: Samples) -> list[Raw]:
        """The five-tuple of each sample; each flow's is encoded once."""
        numbers, first, which = np.unique(samples.flow, return_index=True, return_inverse=True)
        written = [
            Raw(
                self._encoder.encode(
                    _Flow(
                        self._address[src],
                        self._address[dst],
                        FIRST_SOURCE_PORT + number % SOURCE_PORTS,
                        ROCE_PORT,
                        _UDP,
                    )
                )
            )
            for number, src, dst in zip(
                numbers.tolist(), samples.src[first].tolist(), samples.dst[first].tolist(), strict=True
            )
        ]
        return [written[place] for place in which.tolist()]


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
    """Encodes counters: transmitted bytes of each switch port, and the counters of its data queue.

    A pause counts once, when it stops a port: as ``pfc_rx_frames`` there, as ``pfc_tx_frames`` at its peer.
    """

    def __init__(
        self, plan: FabricPlan, *, epoch_ns: int = EPOCH_NS, period_s: float = COUNT_EVERY_S
    ) -> None:
        self._ports = np.array(plan.switch_ports, dtype=np.int64)
        self._peers = np.array([plan.reverse[port] for port in plan.switch_ports], dtype=np.int64)
        self._names = [(plan.ports[port].node, str(plan.ports[port].port)) for port in plan.switch_ports]
        self._epoch_ns = epoch_ns
        self._encoder = msgspec.json.Encoder()
        self.period_s = period_s

    def body(self, measured: Measured) -> Body:
        ts_ns = self._epoch_ns + round(measured.now_s * 1e9)
        columns = zip(
            self._names,
            self._whole(measured.sent_bytes),
            measured.pauses[self._peers].tolist(),
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
