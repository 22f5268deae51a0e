"""Packet captures (pcap, pcapng): their UDP payloads, each with its time; IP fragments are reported as
problems, and UDP behind other extension headers of IPv6 is passed over.

Layouts: draft-ietf-opsawg-pcap and draft-ietf-opsawg-pcapng.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Collection, Iterator
from typing import Literal, NamedTuple

from telemetry.errors import DecodeError, ReportError
from telemetry.report import ReportProblem
from telemetry.settings import NS_PER_S

MOST_FRAGMENTS = 100_000
"""Limit of fragments reported per capture: the sentence may be longer than the fragment."""
IPV4, IPV6 = 0x0800, 0x86DD
VLAN_TAGS = frozenset({0x8100, 0x88A8, 0x9100, 0x9200})
"""802.1Q, 802.1ad, and the two outer tags usual before it, which switches still offer."""

Order = Literal["<", ">"]

_PCAP: dict[bytes, tuple[Order, int]] = {
    b"\xd4\xc3\xb2\xa1": ("<", 1000),
    b"\xa1\xb2\xc3\xd4": (">", 1000),
    b"\x4d\x3c\xb2\xa1": ("<", 1),
    b"\xa1\xb2\x3c\x4d": (">", 1),
}
_PCAPNG = b"\x0a\x0d\x0d\x0a"
_SECTION, _INTERFACE, _PACKET_OLD, _SIMPLE, _PACKET = 0x0A0D0D0A, 1, 2, 3, 6
_RESOLUTION, _OFFSET = 9, 14

_MOST_NS = 2**63 - 1
_ETHERNET = 1
_RAW_IP = frozenset({12, 14, 101, 228, 229})
_LOOPBACK = frozenset({0, 108})
_COOKED = {113: (14, 16), 276: (0, 20)}
_MOST_TAGS = 8
_UDP, _IPV6_FRAGMENT = 17, 44
_ORDERS: tuple[Order, Order] = ("<", ">")
_WORDS: dict[Order, Literal["little", "big"]] = {"<": "little", ">": "big"}
_HEADS = {order: struct.Struct(f"{order}II") for order in _ORDERS}
_PACKETS = {order: struct.Struct(f"{order}IIII") for order in _ORDERS}
_OLD_PACKETS = {order: struct.Struct(f"{order}HxxIII") for order in _ORDERS}
_OPTIONS = {order: struct.Struct(f"{order}HH") for order in _ORDERS}
_REMEDY = "earlier frames are kept; capture again for the rest"


class Datagram(NamedTuple):
    """A UDP payload: its frame's number (from 0) and time (None: unknown), its destination port, and its
    source address (4 or 16 bytes).
    """

    frame: int
    time_ns: int | None
    port: int
    payload: bytes
    source: bytes


class _Frame(NamedTuple):
    time_ns: int | None
    link: int
    data: memoryview


def address_text(raw: bytes) -> str:
    """An address of 4 or 16 bytes as text."""
    return socket.inet_ntop(socket.AF_INET if len(raw) == 4 else socket.AF_INET6, raw)


def is_capture(data: bytes) -> bool:
    """Whether these bytes begin as a pcap or pcapng file."""
    return data[:4] in _PCAP or data[:4] == _PCAPNG


def udp_datagrams(
    data: bytes, problems: list[ReportProblem], ports: Collection[int] = ()
) -> Iterator[Datagram]:
    """The UDP datagrams of a capture to ``ports`` (none: all), in order; unreadable frames are added to
    ``problems`` by number (at most ``MOST_FRAGMENTS`` fragments). Only the first fragment of a datagram shows
    its port. Raises ``DecodeError`` where the bytes are not a capture.
    """
    if data[:4] == _PCAPNG:
        frames = _pcapng(memoryview(data), problems)
    elif data[:4] in _PCAP:
        frames = _pcap(memoryview(data), problems)
    else:
        rule = "a pcap or pcapng file"
        raise DecodeError("capture", f"first bytes {data[:4].hex() or 'none'}", rule, "capture again")
    fragments = 0
    for number, frame in enumerate(frames):
        packet = _ip(frame)
        if packet is None:
            continue
        found = _udp(packet)
        if found is None or (ports and found[0] not in ports):
            continue
        if isinstance(found, _Fragment):
            fragments += 1
            if fragments <= MOST_FRAGMENTS:
                remedy = "raise the path's MTU"
                remedy += "; further ones are not reported" if fragments == MOST_FRAGMENTS else ""
                received, rule = "a fragment of a datagram", "a datagram is in one whole packet"
                said = ReportError(f"frame {number}", received, rule, remedy)
                problems.append(ReportProblem(number, str(said)))
        else:
            yield Datagram(number, frame.time_ns, *found)


def _broken(problems: list[ReportProblem], number: int, at: int, received: str, rule: str) -> None:
    said = ReportError(f"capture byte {at}", received, rule, _REMEDY)
    problems.append(ReportProblem(number, str(said)))


def _pcap(data: memoryview, problems: list[ReportProblem]) -> Iterator[_Frame]:
    order, fraction_ns = _PCAP[bytes(data[:4])]
    if len(data) < 24:
        raise DecodeError("capture", f"{len(data)} bytes", "a pcap file begins with 24", "capture again")
    link = struct.unpack_from(f"{order}I", data, 20)[0] & 0xFFFF
    header, end = _PACKETS[order], len(data)
    at, number = 24, 0
    while at < end:
        if at + 16 > end:
            _broken(problems, number, at, f"{len(data) - at} bytes", "a record begins with 16")
            return
        seconds, fraction, held, _ = header.unpack_from(data, at)
        if at + 16 + held > end:
            _broken(problems, number, at + 8, f"a frame of {held} bytes", "it ends within the file")
            return
        yield _Frame(seconds * NS_PER_S + fraction * fraction_ns, link, data[at + 16 : at + 16 + held])
        at, number = at + 16 + held, number + 1


class _Interface(NamedTuple):
    link: int
    ticks_per_s: int
    offset_s: int

    def time_ns(self, high: int, low: int) -> int:
        ticks = high << 32 | low
        return min(max(ticks * NS_PER_S // self.ticks_per_s + self.offset_s * NS_PER_S, 0), _MOST_NS)


def _pcapng(data: memoryview, problems: list[ReportProblem]) -> Iterator[_Frame]:
    order: Order = "<"
    head = _HEADS[order]
    interfaces: list[_Interface] = []
    at, number, end = 0, 0, len(data)
    while at < end:
        if at + 12 > end:
            _broken(problems, number, at, f"{end - at} bytes", "a block has at least 12")
            return
        kind, size = head.unpack_from(data, at)
        if kind == _SECTION:  # the same in both orders
            magic = bytes(data[at + 8 : at + 12])
            if magic not in (b"\x4d\x3c\x2b\x1a", b"\x1a\x2b\x3c\x4d"):
                _broken(problems, number, at + 8, magic.hex(), "a section gives its byte order, 1a2b3c4d")
                return
            order, interfaces = ("<" if magic[0] == 0x4D else ">"), []
            head = _HEADS[order]
            kind, size = head.unpack_from(data, at)
        if size < 12 or size % 4 or at + size > end:
            rule = "it ends within the file, on a multiple of 4"
            _broken(problems, number, at + 4, f"a block of {size} bytes", rule)
            return
        if kind in (_PACKET, _PACKET_OLD, _SIMPLE):
            frame = _frame(kind, data[at + 8 : at + size - 4], order, interfaces)
            if frame is None:
                _broken(problems, number, at, "a packet block", "it names its interface and holds its frame")
                return
            yield frame
            number += 1
        elif kind == _INTERFACE and size >= 20:
            interfaces.append(_interface(data[at + 8 : at + size - 4], order))
        at += size


def _frame(kind: int, body: memoryview, order: Order, interfaces: list[_Interface]) -> _Frame | None:
    if kind == _SIMPLE:
        if len(body) < 4 or not interfaces:
            return None
        held = min(int.from_bytes(body[:4], _WORDS[order]), len(body) - 4)
        return _Frame(None, interfaces[0].link, body[4 : 4 + held])
    if len(body) < 20:
        return None
    form = (_PACKETS if kind == _PACKET else _OLD_PACKETS)[order]
    which, high, low, held = form.unpack_from(body)
    if which >= len(interfaces) or 20 + held > len(body):
        return None
    return _Frame(interfaces[which].time_ns(high, low), interfaces[which].link, body[20 : 20 + held])


def _interface(body: memoryview, order: Order) -> _Interface:
    link = int.from_bytes(body[:2], _WORDS[order])
    ticks_per_s, offset_s = 1_000_000, 0
    form, at, end = _OPTIONS[order], 8, len(body)
    while at + 4 <= end:
        code, size = form.unpack_from(body, at)
        if code == 0:
            break
        if code == _RESOLUTION and size == 1 and at + 4 < end:
            value = body[at + 4]
            ticks_per_s = 2 ** (value & 0x7F) if value & 0x80 else 10**value
        elif code == _OFFSET and size == 8 and at + 12 <= end:
            offset_s = int.from_bytes(body[at + 4 : at + 12], _WORDS[order], signed=True)
        at += 4 + size + -size % 4
    return _Interface(link, ticks_per_s, offset_s)


def _ip(frame: _Frame) -> memoryview | None:
    """The frame from its IP header on; None without one."""
    data = frame.data
    if frame.link in _RAW_IP:
        return data
    if frame.link in _LOOPBACK:
        return data[4:]
    if frame.link in _COOKED:
        kind_at, begin = _COOKED[frame.link]
    elif frame.link == _ETHERNET:
        kind_at, begin = 12, 14
    else:
        return None
    kind = _number(data, kind_at)
    for _ in range(_MOST_TAGS):
        if kind not in VLAN_TAGS:
            break
        kind, begin = _number(data, begin + 2), begin + 4
    return data[begin:] if kind in (IPV4, IPV6) else None


def _number(data: memoryview, at: int) -> int:
    return int.from_bytes(data[at : at + 2], "big")


class _Fragment(NamedTuple):
    """``port`` is the destination port, which only a datagram's first fragment shows."""

    port: int | None


def _udp(packet: memoryview) -> tuple[int, bytes, bytes] | _Fragment | None:
    """Destination port, payload and source address of a UDP packet."""
    if len(packet) < 20:
        return None
    if packet[0] >> 4 == 4:
        if packet[9] != _UDP:
            return None
        begin, source = 4 * (packet[0] & 0xF), packet[12:16]
        if (place := _number(packet, 6)) & 0x3FFF:
            return _Fragment(None if place & 0x1FFF else _number(packet, begin + 2))
    elif packet[0] >> 4 == 6 and len(packet) > 40:
        if packet[6] == _IPV6_FRAGMENT and packet[40] == _UDP:
            return _Fragment(None if _number(packet, 42) >> 3 else _number(packet, 50))
        if packet[6] != _UDP:
            return None
        begin, source = 40, packet[8:24]
    else:
        return None
    size = _number(packet, begin + 4)
    if begin < 20 or len(packet) < begin + 8 or size < 8:
        return None
    return _number(packet, begin + 2), bytes(packet[begin + 8 : begin + size]), bytes(source)
