"""INT headers of HPCC, 42 bytes each, as columns; imports only numpy.

As in the authors' implementation (alibaba-edu/High-Precision-Congestion-Control, ``int-header.h``): five hops
of 64 bits in the order of the path, then how many hops there were (16 bits), all little-endian. From its low
end a hop is the line rate's code (3 bits), when the packet left (24 bits of ns), what the port had sent by
then (20 bits of 128 bytes), and what waited in it (17 bits of 80 bytes). The last two units are larger by the
factor ``multi`` that the fabric is set to. No header says where a hop was.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

HEADER_BYTES = 42
MOST_HOPS = 5
TX_UNIT_BYTES = 128
QUEUE_UNIT_BYTES = 80
LINE_RATES_GBPS = (25.0, 50.0, 100.0, 200.0, 400.0)
TIME_BITS, TX_BITS, QUEUE_BITS = 24, 20, 17
_RATE_BITS = 3
_HEADER = np.dtype([("hop", "<u8", (MOST_HOPS,)), ("count", "<u2")])
_BYTES_PER_S_A_GBPS = 125_000_000.0
_NS_PER_S = 1e9


@dataclass(frozen=True, slots=True, eq=False)
class HpccHops:
    """Hops of several headers in compressed rows: those of header h are ``offset[h]:offset[h + 1]``, in path
    order.

    ``passed`` is how many hops each header's packet passed: beyond five the first are overwritten. A hop has
    ``line_rate_gbps`` (NaN: a code of none), ``time_ns`` and ``tx_units`` as they are, which go round, and
    ``queue_units``.
    """

    offset: NDArray[np.int64]
    passed: NDArray[np.int64]
    line_rate_gbps: NDArray[np.float64]
    time_ns: NDArray[np.int64]
    tx_units: NDArray[np.int64]
    queue_units: NDArray[np.int64]

    @classmethod
    def read(cls, headers: bytes) -> HpccHops:
        """Headers one after the other; a length that is no multiple of theirs is a ``ValueError``."""
        held = np.frombuffer(headers, _HEADER)
        passed = held["count"].astype(np.int64)
        kept = np.minimum(passed, MOST_HOPS)
        offset = np.zeros(len(held) + 1, np.int64)
        np.cumsum(kept, out=offset[1:])
        # The sixth hop is written over the first: the oldest one left is where the next would go.
        begin = np.where(passed > MOST_HOPS, passed % MOST_HOPS, 0)
        header = np.repeat(np.arange(len(held)), kept)
        rank = np.arange(offset[-1]) - offset[header]
        word = held["hop"][header, (begin[header] + rank) % MOST_HOPS]

        def field(begin_bit: int, bits: int) -> NDArray[np.int64]:
            return (word >> np.uint64(begin_bit) & np.uint64((1 << bits) - 1)).astype(np.int64)

        rates = np.array([*LINE_RATES_GBPS, *[np.nan] * (2**_RATE_BITS - len(LINE_RATES_GBPS))])
        return cls(
            offset=offset,
            passed=passed,
            line_rate_gbps=rates[field(0, _RATE_BITS)],
            time_ns=field(_RATE_BITS, TIME_BITS),
            tx_units=field(_RATE_BITS + TIME_BITS, TX_BITS),
            queue_units=field(_RATE_BITS + TIME_BITS + TX_BITS, QUEUE_BITS),
        )

    def tx_utilisation(
        self, flow: NDArray[np.int64], ts_ns: NDArray[np.int64], multi: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """How full each hop's port was since the header before it of the same flow, 1 is full; NaN where
        there was none, or so long ago that a count may have gone round meanwhile. Per header: its ``flow``,
        when it was read (``ts_ns``), and its ``multi``.

        The difference of bytes over that of time, each modulo its width, as HPCC's sender reckons.
        """
        utilisation = np.full(len(self.time_ns), np.nan)
        order = np.lexsort((ts_ns, flow))
        alike = (np.diff(flow[order]) == 0) & (np.diff(self.passed[order]) == 0)
        alike &= np.diff(multi[order]) == 0
        before, after = order[:-1][alike], order[1:][alike]
        count = np.diff(self.offset)[after]
        rank = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
        old, new = (np.repeat(self.offset[:-1][rows], count) + rank for rows in (before, after))
        unit_bytes = np.repeat(TX_UNIT_BYTES * multi[after], count)
        rate = self.line_rate_gbps[new] * _BYTES_PER_S_A_GBPS
        round_bytes_s = 2**TX_BITS * unit_bytes / rate
        passed_s = np.repeat(ts_ns[after] - ts_ns[before], count) / _NS_PER_S
        time_s = (self.time_ns[new] - self.time_ns[old]) % 2**TIME_BITS / _NS_PER_S
        sent_bytes = (self.tx_units[new] - self.tx_units[old]) % 2**TX_BITS * unit_bytes
        sound = (passed_s < np.minimum(round_bytes_s, 2**TIME_BITS / _NS_PER_S)) & (time_s > 0)
        utilisation[new[sound]] = sent_bytes[sound] / (time_s * rate)[sound]
        return utilisation
