"""Packet captures written by hand, in the forms that tcpdump, Wireshark and switches write them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Literal

from telemetry.state import FlowKey
from tests.counterparts.p4_writer import packet

Order = Literal["<", ">"]
TIME_NS = 1_700_000_000_123_456_000
REPORTS = FlowKey("192.0.2.1", "192.0.2.9", 40_000, 32_766, 17)


def udp(payload: bytes, flow: FlowKey = REPORTS, *, ethernet: bool = True) -> bytes:
    """A frame (or bare IP packet) that carries ``payload``."""
    headers = (14 if ethernet else 0) + (40 if ":" in flow.src else 20) + 8
    return packet(flow, payload, packet_bytes=headers + len(payload), ethernet=ethernet)


def pcap(frames: Sequence[bytes], *, order: Order = "<", nanoseconds: bool = False, link: int = 1) -> bytes:
    """A pcap file; frame n was captured n seconds after ``TIME_NS``."""
    magic, unit_ns = (0xA1B23C4D, 1) if nanoseconds else (0xA1B2C3D4, 1000)
    text = struct.pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, 65_535, link)
    for number, frame in enumerate(frames):
        seconds, fraction = divmod(TIME_NS, 1_000_000_000)
        text += struct.pack(f"{order}IIII", seconds + number, fraction // unit_ns, len(frame), len(frame))
        text += frame
    return text


def _block(order: Order, kind: int, body: bytes) -> bytes:
    body += bytes(-len(body) % 4)
    size = 12 + len(body)
    return struct.pack(f"{order}II", kind, size) + body + struct.pack(f"{order}I", size)


def pcapng(
    frames: Sequence[bytes],
    *,
    order: Order = "<",
    link: int = 1,
    resolution: int = 6,
    offset_s: int = 0,
    kind: Literal["enhanced", "simple", "old"] = "enhanced",
) -> bytes:
    """A pcapng file of one section and interface, with a block in it that readers pass over."""
    text = _block(order, 0x0A0D0D0A, struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1))
    options = struct.pack(f"{order}HHBxxx", 9, 1, resolution) + struct.pack(f"{order}HHq", 14, 8, offset_s)
    options += struct.pack(f"{order}HH", 0, 0)
    text += _block(order, 1, struct.pack(f"{order}HHI", link, 0, 0) + options)
    text += _block(order, 0x0BAD, b"abc")
    ticks_per_s = 2 ** (resolution & 0x7F) if resolution & 0x80 else 10**resolution
    for number, frame in enumerate(frames):
        time_ns = TIME_NS + (number - offset_s) * 1_000_000_000
        high, low = divmod(time_ns * ticks_per_s // 1_000_000_000, 1 << 32)
        if kind == "simple":
            text += _block(order, 3, struct.pack(f"{order}I", len(frame)) + frame)
        elif kind == "old":
            head = struct.pack(f"{order}HHIIII", 0, 0, high, low, len(frame), len(frame))
            text += _block(order, 2, head + frame)
        else:
            head = struct.pack(f"{order}IIIII", 0, high, low, len(frame), len(frame))
            text += _block(order, 6, head + frame)
    return text
