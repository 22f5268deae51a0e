"""Accepted reports of the window by period: append, look up, thin, renumber."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from telemetry.columns import offsets, take_rows
from telemetry.state import FlowClass
from telemetry.window.hash_table import FingerprintTable

# High bits: the low ones already place a fingerprint in its hash table.
_THINNING_SHIFT = np.uint64(32)

_LARGE = 32_768  # chunks of this size are not merged any more

NEVER_NS = -1
"""The time of an event that has not happened."""


def merged_flow(flow_class: FlowClass) -> int:
    """The (negative) flow number of all merged flows of a class."""
    return -1 - int(flow_class)


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Reports as the window stores them; hops in compressed rows as in ``ReportBatch``.

    ``flow`` and ``path`` index the window's tables (negative flows are merged ones, by class);
    ``true_bytes`` are the bytes the report represents with all sampling undone; ``stands_for`` how many
    reports (1 unless thinned). Per hop ``queue_bytes`` (NaN: unknown), ``residence_ns`` in the switch by its
    own clock (-1: unknown) and ``marked`` (-1: unknown).
    """

    ts_ns: NDArray[np.int64]
    fingerprint: NDArray[np.uint64]
    flow: NDArray[np.int32]
    path: NDArray[np.int32]
    packet_bytes: NDArray[np.int32]
    true_bytes: NDArray[np.float64]
    stands_for: NDArray[np.int32]
    hop_offset: NDArray[np.int64]
    queue_bytes: NDArray[np.float64]
    residence_ns: NDArray[np.int32]
    marked: NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.ts_ns)

    @property
    def hop_row(self) -> NDArray[np.int64]:
        return np.repeat(np.arange(len(self)), np.diff(self.hop_offset))

    def take(self, rows: NDArray[np.int64]) -> Samples:
        offset, hops = take_rows(self.hop_offset, rows)
        per_hop = ("queue_bytes", "residence_ns", "marked")
        return Samples(
            hop_offset=offset,
            **{
                field.name: getattr(self, field.name)[hops if field.name in per_hop else rows]
                for field in fields(self)
                if field.name != "hop_offset"
            },
        )

    @classmethod
    def joined(cls, parts: Sequence[Samples]) -> Samples:
        """All rows of all parts (at least one), in order."""
        if len(parts) == 1:
            return parts[0]
        columns = {
            field.name: np.concatenate([getattr(part, field.name) for part in parts])
            for field in fields(cls)
            if field.name != "hop_offset"
        }
        counts = np.concatenate([np.diff(part.hop_offset) for part in parts])
        return cls(hop_offset=offsets(counts), **columns)

    def in_canonical_order(self) -> Samples:
        """Sorted by time, then fingerprint: independent of the order of arrival."""
        order = np.argsort(self.ts_ns, kind="stable")
        ts_ns = self.ts_ns[order]
        if np.any(ts_ns[1:] == ts_ns[:-1]):
            order = np.lexsort((self.fingerprint, self.ts_ns))
        return self.take(order)


class _Period:
    def __init__(self, expected: int) -> None:
        self.chunks: list[Samples] = []
        self.seen = FingerprintTable(expected)
        self.rows = 0
        self.newest_ns = NEVER_NS


class SampleStore:
    """Samples of each period, and the fingerprints seen in it."""

    def __init__(self) -> None:
        self._periods: dict[int, _Period] = {}
        self.rows = 0

    def __iter__(self) -> Iterator[Samples]:
        for period in self._periods.values():
            yield from period.chunks

    def append(self, period_number: int, samples: Samples) -> None:
        """Adds samples of one period, none of them in it yet."""
        period = self._periods.get(period_number)
        if period is None:
            expected = self.rows // len(self._periods) if self._periods else 0
            period = self._periods[period_number] = _Period(expected)
        period.chunks.append(samples)
        period.seen.add(samples.fingerprint)
        period.rows += len(samples)
        if len(samples):
            period.newest_ns = max(period.newest_ns, int(samples.ts_ns.max()))
        self.rows += len(samples)
        # Merging chunks of similar size keeps them few, and copies each row only a few times.
        while len(period.chunks) > 1 and len(period.chunks[-2]) < min(2 * len(period.chunks[-1]), _LARGE):
            last = period.chunks.pop()
            period.chunks[-1] = Samples.joined([period.chunks[-1], last])

    def known(self, period_numbers: Iterable[int]) -> list[int]:
        """Those of these periods that are stored."""
        return [number for number in period_numbers if number in self._periods]

    def seen(self, period_number: int, fingerprints: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Which of these fingerprints the period already holds."""
        period = self._periods.get(period_number)
        return np.zeros(len(fingerprints), np.bool_) if period is None else period.seen.contains(fingerprints)

    def newest(self, last: int) -> tuple[int, int] | None:
        """The newest non-empty period up to ``last``, and its newest timestamp; None without one.

        The last period itself may be empty: its reports were rejected for lack of room, or thinned out.
        """
        held = [number for number, period in self._periods.items() if period.rows and number <= last]
        return (max(held), self._periods[max(held)].newest_ns) if held else None

    def pop(self, period_number: int) -> list[Samples]:
        """Removes a period and returns its chunks."""
        period = self._periods.pop(period_number, None)
        if period is None:
            return []
        self.rows -= period.rows
        return period.chunks

    def between(self, first: int, last: int) -> tuple[Samples, ...]:
        """The chunks of these periods (both included)."""
        return tuple(
            part
            for number, period in self._periods.items()
            if first <= number <= last
            for part in period.chunks
        )

    def renumber(
        self, *, flow: NDArray[np.int32] | None = None, path: NDArray[np.int32] | None = None
    ) -> None:
        """Replaces flow and path numbers (``new[old]``; the negative ones of merged flows stay)."""
        for period in self._periods.values():
            for place, part in enumerate(period.chunks):
                if flow is not None:
                    part = replace(
                        part, flow=np.where(part.flow >= 0, flow[np.maximum(part.flow, 0)], part.flow)
                    )
                if path is not None:
                    part = replace(part, path=path[part.path])
                period.chunks[place] = part

    def thin(self, level: int) -> None:
        """Keeps about one report in 2**level, chosen by fingerprint, each standing for the others too."""
        chunks = {number: period.chunks for number, period in self._periods.items()}
        self._periods, self.rows = {}, 0
        for number, parts in chunks.items():
            self.append(number, thinned(Samples.joined(parts), level))


def thinned(samples: Samples, level: int) -> Samples:
    """About one sample in 2**level, chosen by fingerprint; each stands for at least 2**level reports."""
    if level == 0:
        return samples
    low_bits = np.uint64((1 << level) - 1)
    kept = samples.take(np.flatnonzero((samples.fingerprint >> _THINNING_SHIFT) & low_bits == 0))
    stands_for = np.maximum(kept.stands_for, np.int32(1 << level))
    return replace(kept, true_bytes=kept.true_bytes * (stands_for / kept.stands_for), stands_for=stands_for)


def used_numbers(columns: Iterable[NDArray[np.signedinteger[Any]]], size: int) -> NDArray[np.bool_]:
    """Which of the numbers from 0 to ``size`` occur."""
    used = np.zeros(size, np.bool_)
    for column in columns:
        used[column[column >= 0]] = True
    return used
