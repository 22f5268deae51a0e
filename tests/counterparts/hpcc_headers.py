"""Writes INT headers of HPCC as its switches fill them; the layout is in ``telemetry.decode.hpcc``."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

LINE_RATES_GBPS = (25, 50, 100, 200, 400)
_MOST_HOPS = 5


class HpccHop(NamedTuple):
    """A switch's values: its port's line rate, its clock, bytes sent by the port so far, bytes queued."""

    line_rate_gbps: int
    time_ns: int
    tx_bytes: int
    queue_bytes: int


def hpcc_header(hops: Sequence[HpccHop], *, multi: int = 1) -> bytes:
    """The header of a packet that passed these hops; counts wrap, and the sixth hop overwrites the first."""
    words = [0] * _MOST_HOPS
    for number, hop in enumerate(hops):
        code = LINE_RATES_GBPS.index(hop.line_rate_gbps)
        time = hop.time_ns % (1 << 24)
        sent = hop.tx_bytes // (128 * multi) % (1 << 20)
        queue = hop.queue_bytes // (80 * multi) % (1 << 17)
        words[number % _MOST_HOPS] = code | time << 3 | sent << 27 | queue << 47
    return struct.pack("<5QH", *words, len(hops))
