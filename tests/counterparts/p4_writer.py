"""Writes P4.org telemetry reports as a switch would send them: report v2.0, v1.0 and v0.5, INT v2.1 and v1.0.

Numbers are the wire's: a device's own units, all ones for an unavailable value.
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Literal

from telemetry.state import FlowKey

TCP, UDP = 6, 17
_MOST_WORDS = 255
_SHIM_MD, _SHIM_MX = 1, 3


class InnerType(IntEnum):
    """What follows the metadata of a v2.0 report."""

    NONE = 0
    TLV = 1
    DOMAIN = 2
    ETHERNET = 3
    IPV4 = 4
    IPV6 = 5


@dataclass(frozen=True, slots=True)
class Metadata:
    """A node's values for one packet; None is left out.

    ``layer1`` and ``layer2`` are interface ids (in, out),
    ``queue`` and ``buffer`` (id, occupancy), ``drop`` (queue id, reason).
    """

    node: int | None = None
    layer1: tuple[int, int] | None = None
    latency: int | None = None
    queue: tuple[int, int] | None = None
    ingress_time: int | None = None
    egress_time: int | None = None
    layer2: tuple[int, int] | None = None
    utilisation: int | None = None
    buffer: tuple[int, int] | None = None
    drop: tuple[int, int] | None = None


def _word(value: int) -> bytes:
    return struct.pack(">I", value)


def _long(value: int) -> bytes:
    return struct.pack(">Q", value)


def _queue(value: tuple[int, int]) -> bytes:
    return _word(value[0] << 24 | value[1])


def _values(values: Metadata, *, long_times: bool) -> dict[str, bytes]:
    """The bytes of each given value, by field."""
    time = _long if long_times else _word
    written: dict[str, bytes] = {}
    for name, write in (("node", _word), ("latency", _word), ("utilisation", _word)):
        if (value := getattr(values, name)) is not None:
            written[name] = write(value)
    for name in ("ingress_time", "egress_time"):
        if (value := getattr(values, name)) is not None:
            written[name] = time(value)
    for name, form in (("layer1", ">HH"), ("layer2", ">II"), ("drop", ">BBxx")):
        if (pair := getattr(values, name)) is not None:
            written[name] = struct.pack(form, *pair)
    for name in ("queue", "buffer"):
        if (pair := getattr(values, name)) is not None:
            written[name] = _queue(pair)
    return written


_V2_BITS = {
    "layer1": 1,
    "latency": 2,
    "queue": 3,
    "ingress_time": 4,
    "egress_time": 5,
    "layer2": 6,
    "utilisation": 7,
    "buffer": 8,
    "drop": 15,
}
_INT_BITS = {"node": 0} | {name: bit for name, bit in _V2_BITS.items() if name != "drop"}
_V1_BITS = {"layer1": 0, "latency": 1, "queue": 2, "egress_time": 3, "drop": 4, "utilisation": 5}


def report_v2(
    values: Metadata,
    *,
    flags: int,
    inner: bytes = b"",
    inner_type: InnerType = InnerType.NONE,
    domain: tuple[int, int, int, bytes] = (0, 0, 0, b""),
) -> bytes:
    """An INT report of v2.0. ``flags`` are D Q F I as 8, 4, 2, 1; ``domain`` is the domain's id, its metadata
    bits and status, and its metadata. A report too long for its length field goes to the datagram's end.
    """
    written = _values(values, long_times=True)
    written.pop("node", None)
    bits = sum(0x8000 >> _V2_BITS[name] for name in written)
    identity, domain_bits, status, more = domain
    metadata = b"".join(written[name] for name in _V2_BITS if name in written) + more
    body = struct.pack(">HHHH", bits, identity, domain_bits, status) + metadata + inner
    return _individual(1, inner_type, len(metadata) // 4, flags, _padded(body))


def inner_only_v2(inner: bytes, inner_type: InnerType, *, flags: int) -> bytes:
    """A report of v2.0 that has a packet and no metadata."""
    return _individual(0, inner_type, 0, flags, _padded(inner))


def _individual(kind: int, inner_type: int, metadata_words: int, flags: int, body: bytes) -> bytes:
    words = min(len(body) // 4, _MOST_WORDS)
    return struct.pack(">BBBB", kind << 4 | inner_type, words, metadata_words, flags << 4) + body


def _padded(body: bytes) -> bytes:
    return body + bytes(-len(body) % 4)


def tlv(kind: Literal[0, 1, 2, 3], contents: bytes) -> bytes:
    """One of the contents of ``InnerType.TLV``: 0 domain-specific, 1 Ethernet, 2 IPv4, 3 IPv6."""
    body = _padded(contents)
    return struct.pack(">BBH", kind << 4, min(len(body) // 4, _MOST_WORDS), 0) + body


def datagram_v1(
    values: Metadata,
    *,
    flags: int,
    hardware: int,
    sequence: int,
    inner: bytes = b"",
    inner_type: InnerType = InnerType.ETHERNET,
) -> bytes:
    """A payload of v1.0: ``values`` has a node and an ingress time."""
    written = _values(values, long_times=False)
    fixed = written.pop("node") + _word(sequence) + written.pop("ingress_time")
    metadata = b"".join(written[name] for name in _V1_BITS if name in written)
    bits = sum(0x20 >> _V1_BITS[name] for name in written)
    protocol = int(inner_type) - int(InnerType.ETHERNET)
    words = 4 + len(metadata) // 4
    head = 1 << 28 | words << 24 | protocol << 21 | bits << 15 | flags >> 1 << 6 | hardware
    return _word(head) + fixed + metadata + inner


def datagram_v0(values: Metadata, *, flags: int, hardware: int, sequence: int, inner: bytes = b"") -> bytes:
    """A payload of v0.5, which has an ingress time: with the header of a drop where ``values.drop`` is there,
    that of the switch where ``values.queue`` is, else with neither. Both have a node and ``layer1``.
    """
    written = _values(values, long_times=False)
    kind, more = 0, b""
    if values.drop is not None:
        kind, more = 1, written["node"] + written["layer1"] + written["drop"]
    elif values.queue is not None:
        kind, more = 2, written["node"] + written["layer1"] + written["queue"] + written["egress_time"]
    head = kind << 24 | flags >> 1 << 21 | hardware
    return _word(head) + _word(sequence) + written["ingress_time"] + more + inner


def int_headers(
    hops: Sequence[Metadata],
    *,
    version: Literal[1, 2] = 2,
    next_protocol: Literal[0, 1, 2] = 0,
    original: int = 0,
    source_only: bytes = b"",
    domain: tuple[int, int] = (0, 0),
    remaining_hops: int = 8,
) -> bytes:
    """Shim, INT-MD header and stack. ``hops`` are in path order, all with the same values given.

    ``original`` is the shim's copy of the UDP destination port (``next_protocol`` 1) or IP protocol (2).
    ``source_only`` is the source's own metadata below the stack, ``domain`` its domain id and instructions.
    INT v1.0 has none of them.
    """
    names = [one.name for one in fields(Metadata) if hops and getattr(hops[0], one.name) is not None]
    bits = sum(0x8000 >> _INT_BITS[name] for name in names)
    stack = b""
    for hop in reversed(hops):
        written = _values(hop, long_times=version == 2)
        stack += b"".join(written[name] for name in _INT_BITS if name in written)
    words = len(stack) // 4 // len(hops) if hops else 0
    if version == 1:
        header = struct.pack(">BBBBHH", 0x10, 0, words, remaining_hops, bits, 0)
        return struct.pack(">BBBB", _SHIM_MD, 0, 1 + len(header + stack) // 4, 0) + header + stack
    header = struct.pack(">BBBBHHHH", 0x20, 0, words, remaining_hops, bits, *domain, 0)
    body = header + stack + source_only
    return struct.pack(">BBH", _SHIM_MD << 4 | next_protocol << 2, len(body) // 4, original) + body


def mx_headers(*, next_protocol: Literal[0, 1, 2] = 0, original: int = 0) -> bytes:
    """Shim and INT-MX header: every hop sends its own report, the packet carries no stack."""
    header = struct.pack(">BBHHHHH", 0x20, 0, 0, 0xF000, 0, 0, 0)
    return struct.pack(">BBH", _SHIM_MX << 4 | next_protocol << 2, len(header) // 4, original) + header


def packet(
    flow: FlowKey,
    behind: bytes,
    *,
    packet_bytes: int,
    ecn: int = 0,
    dscp: int = 0,
    ethernet: bool = False,
    hop_limit: int = 64,
    identification: int = 1,
    tcp_sequence: int = 1,
) -> bytes:
    """A packet from its IP header (or Ethernet header) on, cut after ``behind``, which follows its UDP or TCP
    header; ``packet_bytes`` is the whole packet's length as its headers give it, those included.
    ``identification`` is IPv4's.
    """
    source, destination = (ipaddress.ip_address(end) for end in (flow.src, flow.dst))
    length = packet_bytes - 14 * ethernet
    if flow.protocol == UDP:
        network = 20 if source.version == 4 else 40
        layer4 = struct.pack(">HHHH", flow.sport, flow.dport, length - network, 0)
    elif flow.protocol == TCP:
        layer4 = struct.pack(">HHIIBBHHH", flow.sport, flow.dport, tcp_sequence, 0, 0x50, 0x10, 0xFFFF, 0, 0)
    else:
        layer4 = b""
    service = dscp << 2 | ecn
    if source.version == 4:
        fixed = struct.pack(
            ">BBHHHBBH", 0x45, service, length, identification, 0x4000, hop_limit, flow.protocol, 0
        )
    else:
        fixed = struct.pack(">IHBB", 6 << 28 | service << 20, length - 40, flow.protocol, hop_limit)
    header = fixed + source.packed + destination.packed
    if source.version == 4:
        header = header[:10] + _checksum(header) + header[12:]
    kind = b"\x08\x00" if source.version == 4 else b"\x86\xdd"
    return (bytes(12) + kind if ethernet else b"") + header + layer4 + behind


def _checksum(header: bytes) -> bytes:
    total = sum(struct.unpack(f">{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return struct.pack(">H", ~total & 0xFFFF)


def base_transport(queue_pair: int, sequence: int, *, opcode: int = 0x0A) -> bytes:
    """RoCEv2's base transport header: destination queue pair and packet sequence number."""
    return struct.pack(">BBHII", opcode, 0x40, 0xFFFF, queue_pair, 0x8000_0000 | sequence)
