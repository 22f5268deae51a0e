"""A fabric's port counters in the product's own format (``docs/counters.md``); must not send them."""

from __future__ import annotations

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from lab.reports import DATA_QUEUE, EPOCH_NS, Body
from twin.packet.happenings import Measured
from twin.packet.plan import FabricPlan

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
