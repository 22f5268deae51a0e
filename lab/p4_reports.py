"""The lab's sampled packets as binary INT reports (``docs/telemetry/int-binary.md``), and their inventory.

They are sent by UDP, paced, in a thread of its own.
"""

from __future__ import annotations

import ipaddress
import logging
import math
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import httpx
import msgspec
import numpy as np
import yaml
from numpy.typing import NDArray

from lab.reports import (
    DATA_QUEUE,
    EPOCH_NS,
    FIRST_PAUSE_S,
    FIRST_SOURCE_PORT,
    LONGEST_PAUSE_S,
    ROCE_PORT,
    SOURCE_PORTS,
    TIMEOUT_S,
    Outbox,
    PostError,
)
from settings.errors import InputError
from settings.tls import client_options
from telemetry.encode.p4 import MOST_OCCUPANCY, ReportColumns, datagram_v2, reports_v2
from twin.packet.plan import FabricPlan
from twin.packet.results import Samples

UDP_PATH = "/v1/telemetry/udp"
ROOM_DATAGRAMS = 4_096
BURST_DATAGRAMS = 32
PAUSE_S = 0.001  # pause after each burst: some 30 000 datagrams a second, 250 000 reports
POLL_S = 0.002
SILENT_FOR_S = 2.0  # datagrams that have not arrived after this time are lost

PAYLOAD_BYTES = 1_452  # of an Ethernet frame after IPv6 and UDP headers
_HEADER_BYTES = 8
_MOST_PACKET_BYTES = 65_535
_CE, _ECT_0 = 3, 2
_MOST_CELL_BYTES = 65_535

_log = logging.getLogger("ecntwin.lab")


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
    if sampling_rate:  # an inventory takes no 0, and a lab that reports nothing needs none
        units["sampling_rate"] = sampling_rate
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
            "int": units | {"time": "ns", "timing": "dequeue"},
        },
        "switches": switches,
    }
    return yaml.safe_dump(document, sort_keys=False)


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


@dataclass(frozen=True, slots=True)
class Sent:
    """Datagrams and reports sent; ``lost``: None without a ``Taker``; ``waits_for``: why sending waits."""

    datagrams: int = 0
    reports: int = 0
    lost: int | None = None
    waits_for: str | None = None


class _Answer(msgspec.Struct, frozen=True):
    addresses: Sequence[str]
    received: int
    taken: int
    dropped: Mapping[str, int]

    @property
    def came(self) -> int:
        """Datagrams that have reached the service's machine."""
        return self.received + self.dropped.get("kernel", 0)

    @property
    def done(self) -> bool:
        """Whether the service has processed all of them."""
        return self.taken + sum(self.dropped.values()) >= self.came


@dataclass(frozen=True, slots=True)
class Portion:
    """Datagrams of one slice, and how many reports they hold."""

    datagrams: Sequence[bytes]
    reports: int


class Taker:
    """Polls the service at ``url`` for its UDP counters."""

    def __init__(
        self, url: str, *, token: str | None = None, transport: httpx.BaseTransport | None = None
    ) -> None:
        self._url = url.rstrip("/")
        self._client = httpx.Client(timeout=TIMEOUT_S, transport=transport, **client_options(url, token))

    def ask(self) -> _Answer:
        """Raises ``ConnectionError`` if the service is away, ``PostError`` if it takes no datagrams."""
        try:
            answer = self._client.get(self._url + UDP_PATH)
        except httpx.HTTPError as error:
            raise ConnectionError(str(error) or type(error).__name__) from None
        if answer.is_server_error:
            raise ConnectionError(f"it answers {answer.status_code}")
        try:
            found = msgspec.json.decode(answer.content, type=_Answer) if answer.is_success else None
        except ValueError:
            found = None
        if found is None or not found.addresses:
            said = "no address" if found else " ".join(answer.text[:300].split()) or "no text"
            raise PostError(
                f"service at {self._url}",
                f"{answer.status_code} to GET {UDP_PATH}: {said}",
                "a service that takes binary reports shows its addresses to callers with the scope telemetry",
                "set telemetry.udp.ports of the service, or correct --post-to, or the token",
            )
        return found

    def close(self) -> None:
        self._client.close()


class IntSender(Outbox[Portion]):
    """Sends to ``host`` and ``port``; with a ``taker``, waits until the service's counters show that each
    portion was taken or dropped.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        taker: Taker | None = None,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__("ecntwin-int-sender")
        self._name = f"{host}:{port}"
        self._socket = _connected(host, port)
        self._taker = taker
        self._clock_s = clock_s
        self.counts = Sent(lost=None if taker is None else 0)

    @property
    def has_room(self) -> bool:
        return sum(len(portion.datagrams) for portion in list(self._waiting)) < ROOM_DATAGRAMS

    def _close(self) -> None:
        self._socket.close()
        if self._taker is not None:
            self._taker.close()

    def _deliver(self, portion: Portion) -> bool:
        before = self._asked()
        for number, datagram in enumerate(portion.datagrams, 1):
            if not self._sent(datagram):
                return False
            if number % BURST_DATAGRAMS == 0:
                self._stopping.wait(PAUSE_S)
        self.counts = replace(
            self.counts,
            datagrams=self.counts.datagrams + len(portion.datagrams),
            reports=self.counts.reports + portion.reports,
        )
        if before is not None:
            self._wait_until_taken(before, len(portion.datagrams))
        return not self._stopping.is_set()

    def _sent(self, datagram: bytes) -> bool:
        """Sends one datagram; retries while the host reports (ICMP) that the port is closed."""
        for _ in self._attempts():
            try:
                self._socket.send(datagram)
            except OSError as error:
                self._waits(f"no receiver at {self._name} ({error.strerror or error})")
            else:
                self._goes_on()
                return True
        return False

    def _attempts(self) -> Iterator[None]:
        """Retries with growing pauses until stopped."""
        pause_s = FIRST_PAUSE_S
        while not self._stopping.is_set():
            yield
            self._stopping.wait(pause_s)
            pause_s = min(2.0 * pause_s, LONGEST_PAUSE_S)

    def _asked(self) -> _Answer | None:
        """The service's counters, retried until it answers; None without a taker or when stopping."""
        if self._taker is None:
            return None
        for _ in self._attempts():
            try:
                answer = self._taker.ask()
            except ConnectionError as error:
                self._waits(f"the service does not answer ({error})")
            else:
                self._goes_on()
                return answer
        return None

    def _wait_until_taken(self, before: _Answer, sent: int) -> None:
        """Waits until the service has processed ``sent`` more datagrams.

        If no more arrive for ``SILENT_FOR_S``, the missing ones are counted as lost.
        """
        came, since_s = -1, self._clock_s()
        while (now := self._asked()) is not None:
            if now.came < before.came:  # the service was restarted
                before = _Answer(now.addresses, 0, 0, {})
            if now.came != came:
                came, since_s = now.came, self._clock_s()
            silent = self._clock_s() - since_s >= SILENT_FOR_S
            if now.done and (silent or now.came - before.came >= sent):
                break
            self._stopping.wait(POLL_S)
        else:
            return
        lost = max(sent - (now.taken - before.taken), 0)
        if lost:
            _log.warning("%d of %d datagrams were lost: the window lacks their reports", lost, sent)
            self.counts = replace(self.counts, lost=(self.counts.lost or 0) + lost)

    def _waits(self, reason: str) -> None:
        if self.counts.waits_for is None:
            _log.warning("reports wait: %s", reason)
        self.counts = replace(self.counts, waits_for=reason)

    def _goes_on(self) -> None:
        if self.counts.waits_for is not None:
            _log.warning("reports are sent again")
            self.counts = replace(self.counts, waits_for=None)


def _connected(host: str, port: int) -> socket.socket:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
        family, _, _, _, address = found[0]
        made = socket.socket(family, socket.SOCK_DGRAM)
        made.connect(address)
    except OSError as error:
        raise InputError(
            "--int-udp",
            f"{host}:{port}: {error.strerror or error}",
            "it is where datagrams can be sent",
            "give such as 127.0.0.1:32766",
        ) from error
    return made
