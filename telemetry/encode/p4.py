"""Writes v2.0 INT reports of P4.org's telemetry report format, many of one layout at once, from columns."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MOST_OCCUPANCY = 0xFF_FFFE
_UDP = 17
_HOP_LIMIT, _REMAINING_HOPS = 64, 8
_INT_REPORT, _TRACKED_FLOW, _MOST_WORDS = 1, 2, 255
_INT_MD, _NPT_UDP = 1, 1
_OWN_BITS, _OWN_BYTES = 0x5C00, 24  # interfaces, queue, both times
_HOP_BITS, _HOP_BYTES = 0xDC00, 28  # the same and the node
_OWN_AT, _INNER_AT = 12, 36
_STACK_AFTER_UDP = 16  # shim and INT-MD header
_ADDRESS = {4: (20, 12, 4), 6: (40, 8, 16)}  # size of the header, place and size of the source address
_INNER_TYPE = {4: 4, 6: 5}
_INT_PORT = 5000


def datagram_v2(node: int, hardware: int, sequence: int, reports: Sequence[bytes]) -> bytes:
    """A payload of v2.0 with these reports."""
    head = 2 << 28 | hardware << 22 | sequence % (1 << 22)
    return struct.pack(">II", head, node) + b"".join(reports)


@dataclass(frozen=True, slots=True, eq=False)
class ReportColumns:
    """UDP packets of one IP version, with equally many hops.

    Per hop, of shape (reports, hops) in path order: ``node``, interface ids ``ingress`` and ``egress`` (16
    bits), ``queue``, ``occupancy`` in device units (at most ``MOST_OCCUPANCY``), times in nanoseconds. Per
    packet: raw addresses (reports, 4 or 16), ports, ``packet_bytes`` from the IP header on, the ECN field.
    """

    node: NDArray[np.int64]
    ingress: NDArray[np.int64]
    egress: NDArray[np.int64]
    queue: NDArray[np.int64]
    occupancy: NDArray[np.int64]
    ingress_time: NDArray[np.int64]
    egress_time: NDArray[np.int64]
    source: NDArray[np.uint8]
    destination: NDArray[np.uint8]
    source_port: NDArray[np.int64]
    destination_port: NDArray[np.int64]
    packet_bytes: NDArray[np.int64]
    ecn: NDArray[np.int64]

    @property
    def version(self) -> int:
        return 4 if self.source.shape[1] == 4 else 6


def reports_v2(columns: ReportColumns) -> NDArray[np.uint8]:
    """The reports as bytes, a row each, as the last hop would send them.

    The last hop is in the report's header (its node in the datagram's, not included here), the hops before
    are an INT stack in the packet, which goes to ``_INT_PORT`` and has its original port in the shim.
    """
    n_reports, n_hops = columns.node.shape
    template = np.frombuffer(_template(columns.version, n_hops), np.uint8)
    rows = np.tile(template, (n_reports, 1))
    if not n_reports:
        return rows
    _write_hop(rows, _OWN_AT, columns, n_hops - 1)
    network_bytes, address_at, address_bytes = _ADDRESS[columns.version]
    udp_at = _INNER_AT + network_bytes
    length = columns.packet_bytes
    _put(rows, udp_at, ">u2", columns.source_port)
    _put(rows, udp_at + 4, ">u2", length - network_bytes)
    for place, address in enumerate((columns.source, columns.destination)):
        begin = _INNER_AT + address_at + place * address_bytes
        rows[:, begin : begin + address_bytes] = address
    if columns.version == 4:
        rows[:, _INNER_AT + 1] |= columns.ecn.astype(np.uint8)
        _put(rows, _INNER_AT + 2, ">u2", length)
        _put(rows, _INNER_AT + 10, ">u2", _checksums(rows[:, _INNER_AT : _INNER_AT + 20]))
    else:
        rows[:, _INNER_AT + 1] |= (columns.ecn << 4).astype(np.uint8)
        _put(rows, _INNER_AT + 4, ">u2", length - 40)
    if n_hops == 1:
        _put(rows, udp_at + 2, ">u2", columns.destination_port)
        return rows
    _put(rows, udp_at + 8 + 2, ">u2", columns.destination_port)
    begin = udp_at + 8 + _STACK_AFTER_UDP
    for place, hop in enumerate(reversed(range(n_hops - 1))):  # the last hop comes first
        at = begin + place * _HOP_BYTES
        _put(rows, at, ">u4", columns.node[:, hop])
        _write_hop(rows, at + 4, columns, hop)
    return rows


def _template(version: int, n_hops: int) -> bytes:
    """A report whose values are 0, its headers complete except for addresses, ports and lengths."""
    if version == 4:
        network = struct.pack(">BBHHHBBHII", 0x45, 0, 0, 1, 0x4000, _HOP_LIMIT, _UDP, 0, 0, 0)
    else:
        network = struct.pack(">IHBB32x", 6 << 28, 0, _UDP, _HOP_LIMIT)
    inner = network + struct.pack(">HHHH", 0, _INT_PORT, 0, 0)
    if n_hops > 1:
        stack = bytes(_HOP_BYTES * (n_hops - 1))
        inner += struct.pack(">BBH", _INT_MD << 4 | _NPT_UDP << 2, 3 + len(stack) // 4, 0)
        inner += (
            struct.pack(">BBBBHHHH", 0x20, 0, _HOP_BYTES // 4, _REMAINING_HOPS, _HOP_BITS, 0, 0, 0) + stack
        )
    body = struct.pack(">HHHH", _OWN_BITS, 0, 0, 0) + bytes(_OWN_BYTES) + inner
    body += bytes(-len(body) % 4)
    words = min(len(body) // 4, _MOST_WORDS)
    head = struct.pack(
        ">BBBB", _INT_REPORT << 4 | _INNER_TYPE[version], words, _OWN_BYTES // 4, _TRACKED_FLOW << 4
    )
    return head + body


def _write_hop(rows: NDArray[np.uint8], at: int, columns: ReportColumns, hop: int) -> None:
    """Interfaces, queue and times, in their order on the wire."""
    _put(rows, at, ">u2", columns.ingress[:, hop])
    _put(rows, at + 2, ">u2", columns.egress[:, hop])
    _put(rows, at + 4, ">u4", columns.queue[:, hop] << 24 | columns.occupancy[:, hop])
    _put(rows, at + 8, ">u8", columns.ingress_time[:, hop])
    _put(rows, at + 16, ">u8", columns.egress_time[:, hop])


def _put(rows: NDArray[np.uint8], at: int, kind: str, values: NDArray[np.int64]) -> None:
    np.ndarray((len(rows),), kind, rows, at, (rows.shape[1],))[:] = values


def _checksums(headers: NDArray[np.uint8]) -> NDArray[np.int64]:
    words = headers.astype(np.int64)
    total = (words[:, 0::2] << 8 | words[:, 1::2]).sum(axis=1)
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    checksums: NDArray[np.int64] = ~total & 0xFFFF
    return checksums
