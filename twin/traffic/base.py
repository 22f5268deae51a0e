"""Traffic: flows as columns, with the deliveries each one waits for; the interface of patterns; checks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from twin.errors import ParameterError, check_above_zero, check_count, check_not_negative

_TYPES: dict[str, DTypeLike] = {
    "src": np.int32,
    "dst": np.int32,
    "payload_bytes": np.float64,
    "start_s": np.float64,
    "after_offset": np.int64,
    "after": np.int64,
    "gap_s": np.float64,
}
_PER_FLOW = ("src", "dst", "payload_bytes", "start_s", "gap_s")


@dataclass(frozen=True, kw_only=True, eq=False)
class Traffic:
    """n flows between hosts 0 … n_hosts − 1, in order of ``start_s``. Arrays are read-only.

    - ``src``, ``dst`` [n]: hosts, different ones.
    - ``payload_bytes`` [n]: above 0; inf for a flow that never ends.
    - ``start_s`` [n]: no flow starts before this.
    - ``after_offset`` [n + 1], ``after``: rows ``after[after_offset[f]:after_offset[f + 1]]``, all before f,
      must be delivered before f starts.
    - ``gap_s`` [n]: pause between the last of those deliveries and the start.

    Raises ``ParameterError`` naming the first bad row.
    """

    src: NDArray[np.int32]
    dst: NDArray[np.int32]
    payload_bytes: NDArray[np.float64]
    start_s: NDArray[np.float64]
    after_offset: NDArray[np.int64]
    after: NDArray[np.int64]
    gap_s: NDArray[np.float64]

    def __post_init__(self) -> None:
        for field in fields(self):
            object.__setattr__(self, field.name, _column(field.name, getattr(self, field.name)))
        _check_lengths(self)
        _check_rows(self)
        _check_dependencies(self)

    def __len__(self) -> int:
        return len(self.src)

    @classmethod
    def independent(
        cls, src: ArrayLike, dst: ArrayLike, payload_bytes: ArrayLike, start_s: ArrayLike
    ) -> Traffic:
        """Flows that wait for no other, in any order; ``payload_bytes`` or ``start_s`` may be one for all."""
        count = np.size(src)
        given = {"src": src, "dst": dst, "payload_bytes": payload_bytes, "start_s": start_s}
        columns = {
            name: _column(name, np.full(count, values) if np.ndim(values) == 0 else values)
            for name, values in given.items()
        }
        _check_same_length(columns, count)
        order = np.argsort(columns["start_s"], kind="stable")
        return cls(
            **{name: column[order] for name, column in columns.items()},
            after_offset=np.zeros(count + 1, dtype=np.int64),
            after=np.empty(0, dtype=np.int64),
            gap_s=np.zeros(count),
        )

    @property
    def awaited(self) -> list[list[int]]:
        """The rows that each row waits for."""
        return [self.after[begin:end].tolist() for begin, end in pairwise(self.after_offset.tolist())]

    def shifted(self, by_s: float) -> Traffic:
        """The same flows, every start ``by_s`` later (or earlier, but not before 0)."""
        if not math.isfinite(by_s):
            raise ParameterError("traffic shift", str(by_s), "a shift is finite", "give it in seconds")
        return replace(self, start_s=self.start_s + by_s)

    @staticmethod
    def merged(*parts: Traffic) -> Traffic:
        """All flows of the parts in order of start (earlier parts first where equal), with their waits."""
        if not parts:
            return Traffic.independent([], [], [], [])
        if len(parts) == 1:
            return parts[0]
        start = np.concatenate([part.start_s for part in parts])
        # Stable, so that rows stay behind those they wait for.
        order = np.argsort(start, kind="stable")
        new_row = np.empty(len(order), dtype=np.int64)
        new_row[order] = np.arange(len(order))
        first_row = np.cumsum([0, *(len(part) for part in parts)])
        after = np.concatenate([part.after + first for part, first in zip(parts, first_row, strict=False)])
        counts = np.concatenate([np.diff(part.after_offset) for part in parts])
        begin = np.cumsum(counts) - counts
        return Traffic(
            after_offset=np.concatenate([[0], np.cumsum(counts[order])]),
            after=new_row[after[_runs(begin[order], counts[order])]],
            **{name: np.concatenate([getattr(one, name) for one in parts])[order] for name in _PER_FLOW},
        )

    def between(self, begin_s: float, end_s: float) -> Traffic:
        """Flows with ``begin_s`` ≤ ``start_s`` < ``end_s``; others they wait for count as delivered."""
        first, stop = np.searchsorted(self.start_s, [begin_s, max(begin_s, end_s)], side="left")
        entries = slice(self.after_offset[first], self.after_offset[stop])
        kept = self.after[entries] >= first
        before = np.concatenate([[0], np.cumsum(kept)])
        return Traffic(
            after_offset=before[self.after_offset[first : stop + 1] - self.after_offset[first]],
            after=self.after[entries][kept] - first,
            **{name: getattr(self, name)[first:stop] for name in _PER_FLOW},
        )


def _runs(begin: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """begin[0], begin[0] + 1, … (counts[0] numbers), then begin[1], and so on."""
    ends = np.cumsum(counts)
    within = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - counts, counts)
    return np.asarray(np.repeat(begin, counts) + within, dtype=np.int64)


def _column(name: str, values: ArrayLike) -> NDArray[Any]:
    wanted = np.dtype(_TYPES[name])
    given = np.asarray(values)
    if given.ndim != 1:
        rule = "a column is flat"
        raise ParameterError(f"traffic {name}", f"an array of shape {given.shape}", rule, "flatten it")
    if given.size == 0:
        column = np.empty(0, dtype=wanted)
    elif given.dtype.kind not in ("iu" if wanted.kind == "i" else "iuf"):
        what = "whole numbers" if wanted.kind == "i" else "numbers"
        raise ParameterError(f"traffic {name}", f"{given.dtype} values", f"it holds {what}", "convert it")
    elif wanted.kind == "i" and (given.max() > np.iinfo(wanted).max or given.min() < np.iinfo(wanted).min):
        rule = f"it must fit {wanted}"
        raise ParameterError(f"traffic {name}", f"{given.max()}", rule, "correct the number")
    else:
        column = given.astype(wanted)
    column.flags.writeable = False
    return column


def _check_same_length(columns: dict[str, NDArray[Any]], count: int) -> None:
    for name, column in columns.items():
        if len(column) != count:
            rule = f"there are {count} flows"
            raise ParameterError(f"traffic {name}", f"{len(column)} entries", rule, "give one a flow")


def _check_lengths(traffic: Traffic) -> None:
    count = len(traffic.src)
    _check_same_length({name: getattr(traffic, name) for name in _PER_FLOW}, count)
    offset = traffic.after_offset
    if (
        len(offset) != count + 1
        or offset[0] != 0
        or offset[-1] != len(traffic.after)
        or np.any(np.diff(offset) < 0)
    ):
        raise ParameterError(
            "traffic after_offset",
            f"{len(offset)} entries from {offset[0] if len(offset) else 'nothing'} "
            f"to {offset[-1] if len(offset) else 'nothing'}",
            f"it rises from 0 to the length of after ({len(traffic.after)}) in {count + 1} entries",
            "correct it",
        )


def _check_rows(traffic: Traffic) -> None:
    src, dst, payload = traffic.src, traffic.dst, traffic.payload_bytes
    start, gap = traffic.start_s, traffic.gap_s
    for name, hosts in (("src", src), ("dst", dst)):
        _refuse(name, hosts, hosts < 0, "hosts are numbered from 0", "give the host's number")
    _refuse("dst", dst, src == dst, "a flow joins two different hosts", "choose another receiver")
    _refuse(
        "payload_bytes", payload, ~(payload > 0), "a flow carries more than 0 bytes", "drop it or size it"
    )
    finite = "it is finite and 0 or more"
    _refuse("start_s", start, ~((start >= 0) & np.isfinite(start)), finite, "give it in seconds")
    _refuse("gap_s", gap, ~((gap >= 0) & np.isfinite(gap)), finite, "give it in seconds")
    earlier = np.concatenate([[False], start[1:] < start[:-1]]) if len(start) else np.zeros(0, dtype=np.bool_)
    _refuse("start_s", start, earlier, "rows are in order of start_s", "sort them, or use Traffic.merged")


def _check_dependencies(traffic: Traffic) -> None:
    waiting = np.repeat(np.arange(len(traffic)), np.diff(traffic.after_offset))
    bad = (traffic.after < 0) | (traffic.after >= waiting)
    if np.any(bad):
        entry = int(np.argmax(bad))
        received = f"row {traffic.after[entry]}"
        rule = "a flow waits only for earlier rows"
        remedy = "order the rows so that what is waited for comes first"
        raise ParameterError(f"traffic row {waiting[entry]} after", received, rule, remedy)
    endless = np.isinf(traffic.payload_bytes[traffic.after])
    if np.any(endless):
        entry = int(np.argmax(endless))
        received = f"row {traffic.after[entry]}, which never ends"
        rule = "a flow waits only for flows that end"
        raise ParameterError(f"traffic row {waiting[entry]} after", received, rule, "give that row a size")


def _refuse(name: str, values: NDArray[Any], bad: NDArray[np.bool_], rule: str, remedy: str) -> None:
    if np.any(bad):
        row = int(np.argmax(bad))
        raise ParameterError(f"traffic row {row} {name}", str(values[row]), rule, remedy)


def inside(where: str, refused: ParameterError) -> ParameterError:
    """The same error, for a part of ``where``."""
    return ParameterError(f"{where}: {refused.where}", refused.received, refused.rule, refused.remedy)


Seed = int | np.random.Generator

MOST_FLOWS = 20_000_000  # a gigabyte of columns


@dataclass(frozen=True, kw_only=True)
class Hosts:
    """The hosts of a traffic, numbered 0 … ``count`` − 1, with equal NICs; rates are in wire bytes."""

    count: int
    nic_bytes_per_s: float = 12.5e9
    mtu_payload_bytes: int = 1000
    wire_overhead_bytes: int = 48

    def __post_init__(self) -> None:
        check_count("hosts count", self.count, least=2)
        check_above_zero("hosts nic_bytes_per_s", self.nic_bytes_per_s)
        check_count("hosts mtu_payload_bytes", self.mtu_payload_bytes)
        check_count("hosts wire_overhead_bytes", self.wire_overhead_bytes, least=0)

    def wire_bytes(self, payload_bytes: float) -> float:
        """Wire bytes of a flow of ``payload_bytes``."""
        return (
            payload_bytes + float(np.ceil(payload_bytes / self.mtu_payload_bytes)) * self.wire_overhead_bytes
        )

    def alone_s(self, payload_bytes: float) -> float:
        """Seconds that an idle NIC takes to send ``payload_bytes``."""
        return self.wire_bytes(payload_bytes) / self.nic_bytes_per_s


class Pattern(Protocol):
    """Makes flows: a frozen set of options, with all randomness from the seed."""

    def traffic(self, hosts: Hosts, *, duration_s: float, seed: Seed) -> Traffic:
        """Flows that start in [0, ``duration_s``), or wait for such; the same for the same options and seed.

        Raises ``ParameterError`` where the options do not fit the hosts.
        """
        ...


def generator_of(seed: Seed) -> np.random.Generator:
    """The generator of a seed; a generator is returned as it is."""
    if not isinstance(seed, np.random.Generator):
        check_count("traffic seed", seed, least=0)
    return np.random.default_rng(seed)


def check_duration(duration_s: float) -> None:
    check_not_negative("traffic duration_s", duration_s)


def check_flows(where: str, count: float) -> None:
    """Raises ``ParameterError`` for more than ``MOST_FLOWS``."""
    if count > MOST_FLOWS:
        rule = f"at most {MOST_FLOWS} are made at once"
        remedy = "shorten the duration, or make larger and fewer flows"
        raise ParameterError(where, f"options that make {count:.3g} flows", rule, remedy)


def chosen_hosts(where: str, wanted: Sequence[int] | None, hosts: Hosts) -> NDArray[np.int64]:
    """The hosts an option names, None: all. Raises ``ParameterError`` for an unknown host."""
    if wanted is None:
        return np.arange(hosts.count)
    for host in wanted:
        check_count(where, host, least=0)
        if host >= hosts.count:
            rule = f"hosts are numbered 0 to {hosts.count - 1}"
            raise ParameterError(where, str(host), rule, "name a host there is")
    if len(wanted) == 0 or len(set(wanted)) != len(wanted):
        rule = "it names at least one host, none twice"
        raise ParameterError(where, str(list(wanted)), rule, "correct the list")
    return np.array(wanted, dtype=np.int64)
