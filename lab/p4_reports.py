"""The lab's sampled packets as binary INT reports (``docs/telemetry/int-binary.md``), and their inventory."""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import yaml
from numpy.typing import NDArray

from lab.reports import DATA_QUEUE, EPOCH_NS, FIRST_SOURCE_PORT, ROCE_PORT, SOURCE_PORTS
from settings.errors import InputError
from telemetry.encode.p4 import MOST_OCCUPANCY, ReportColumns, datagram_v2, reports_v2
from twin.packet.plan import FabricPlan
from twin.packet.results import Samples

_MOST_CELL_BYTES = 65_535


@dataclass(frozen=True, slots=True, eq=False)
class IntNumbers:
    """Node ids of switches and interface ids of their ports, from 1 in the order of the plan.

    ``node`` and ``interface``: (fabric port,), 0 for hosts. ``cell_bytes``: the unit of queue occupancy, the
    smallest in which a full buffer fits 24 bits.
    """

    node: NDArray[np.int64]
    interface: NDArray[np.int64]
    cell_bytes: int

    @classmethod
    def of(cls, plan: FabricPlan) -> Self:
        node, interface = (np.zeros(len(plan.ports), np.int64) for _ in range(2))
        nodes = {switch: number for number, switch in enumerate(plan.switches, 1)}
        ports = dict.fromkeys(plan.switches, 0)
        for port in plan.switch_ports:
            switch = plan.ports[port].node
            ports[switch] += 1
            node[port], interface[port] = nodes[switch], ports[switch]
        cells = math.ceil(min(plan.buffer_bytes / MOST_OCCUPANCY, _MOST_CELL_BYTES))
        return cls(node, interface, max(cells, 1))


def inventory(plan: FabricPlan, *, address: str, sampling_rate: float) -> str:
    """The YAML of an inventory with this lab's switches, controlled at ``address``."""
    numbers = IntNumbers.of(plan)
    units: dict[str, Any] = {"occupancy": "bytes"}
    if numbers.cell_bytes > 1:
        units = {"occupancy": "cells", "cell_bytes": numbers.cell_bytes}
    switches: dict[str, Any] = {
        switch: {"int": {"node_id": number, "interfaces": {}}}
        for number, switch in enumerate(plan.switches, 1)
    }
    for port in plan.switch_ports:
        interfaces = switches[plan.ports[port].node]["int"]["interfaces"]
        interfaces[int(numbers.interface[port])] = str(plan.ports[port].port)
    document = {
        "defaults": {
            "platform": "lab",
            "address": address,
            "int": units | {"time": "ns", "timing": "dequeue", "sampling_rate": sampling_rate},
        },
        "switches": switches,
    }
    return yaml.safe_dump(document, sort_keys=False)


PAYLOAD_BYTES = 1_452  # of an Ethernet frame after IPv6 and UDP headers
_HEADER_BYTES = 8
_MOST_PACKET_BYTES = 65_535
_CE, _ECT_0 = 3, 2


class IntReportWriter:
    """Encodes sampled packets. ``addresses``: hosts' by name.

    Raises ``InputError`` if a host has none, or IPv4 and IPv6 are mixed.
    """

    def __init__(
        self, plan: FabricPlan, addresses: Mapping[str, str | None], *, epoch_ns: int = EPOCH_NS
    ) -> None:
        self._numbers = IntNumbers.of(plan)
        found = [_address(name, addresses.get(name)) for name in plan.hosts]
        if len({address.version for address in found}) > 1:
            raise InputError(
                "hosts of the topology",
                "addresses of IPv4 and of IPv6",
                "binary reports show a packet, whose addresses are of one version",
                "give all hosts an ip of the same version, or leave --int-udp out",
            )
        self._raw = np.array([list(address.packed) for address in found], np.uint8)
        self._epoch_ns = epoch_ns
        self._sequence: dict[int, int] = {}

    def datagrams(self, samples: Samples) -> list[bytes]:
        """The reports packed into datagrams, in order per switch."""
        reports: list[bytes] = [b""] * len(samples)
        n_hops = np.diff(samples.hop_offset)
        for count in np.unique(n_hops).tolist():
            rows = np.flatnonzero(n_hops == count)
            written = reports_v2(self._columns(samples, rows, count))
            for row, report in zip(rows.tolist(), written, strict=True):
                reports[row] = report.tobytes()
        made: list[bytes] = []
        nodes = self._numbers.node[samples.port[samples.hop_offset[1:] - 1]]
        for node in np.unique(nodes).tolist():
            self._pack([reports[row] for row in np.flatnonzero(nodes == node)], node, made)
        return made

    def _columns(self, samples: Samples, rows: NDArray[np.int64], n_hops: int) -> ReportColumns:
        hops = samples.hop_offset[rows][:, None] + np.arange(n_hops)
        numbers, port = self._numbers, samples.port[hops]
        occupancy = np.rint(samples.queue_bytes[hops] / numbers.cell_bytes).astype(np.int64)
        return ReportColumns(
            node=numbers.node[port],
            ingress=numbers.interface[samples.ingress_port[hops]],
            egress=numbers.interface[port],
            queue=np.full(hops.shape, DATA_QUEUE, np.int64),
            occupancy=np.minimum(occupancy, MOST_OCCUPANCY),
            ingress_time=self._ns(samples.ingress_s[hops]),
            egress_time=self._ns(samples.egress_s[hops]),
            source=self._raw[samples.src[rows]],
            destination=self._raw[samples.dst[rows]],
            source_port=FIRST_SOURCE_PORT + samples.flow[rows] % SOURCE_PORTS,
            destination_port=np.full(len(rows), ROCE_PORT, np.int64),
            packet_bytes=np.minimum(samples.wire_bytes[rows].astype(np.int64), _MOST_PACKET_BYTES),
            ecn=np.where(samples.marked[hops].any(axis=1), _CE, _ECT_0),
        )

    def _ns(self, seconds: NDArray[np.float64]) -> NDArray[np.int64]:
        return self._epoch_ns + np.rint(seconds * 1e9).astype(np.int64)

    def _pack(self, reports: list[bytes], node: int, into: list[bytes]) -> None:
        begin, size = 0, _HEADER_BYTES
        for place, report in enumerate(reports):
            if size + len(report) > PAYLOAD_BYTES and place > begin:
                into.append(self._datagram(node, reports[begin:place]))
                begin, size = place, _HEADER_BYTES
            size += len(report)
        into.append(self._datagram(node, reports[begin:]))

    def _datagram(self, node: int, reports: list[bytes]) -> bytes:
        sequence = self._sequence.get(node, 0)
        self._sequence[node] = sequence + 1
        return datagram_v2(node, 0, sequence, reports)


def _address(name: str, text: str | None) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    try:
        return ipaddress.ip_address(text or "")
    except ValueError:
        raise InputError(
            f"host {name}",
            repr(text) if text else "no address",
            "binary reports show a packet with its addresses",
            "give the host an ip in the topology, or leave --int-udp out",
        ) from None
