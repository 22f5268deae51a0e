"""The flows a window has met, by number; imports only numpy and ``telemetry``."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from telemetry.appearance import as_they_appear
from telemetry.fingerprint import fingerprint_of
from telemetry.flow_keys import FlowKeys
from telemetry.growing import GrowingArray
from telemetry.window.hash_table import ABSENT
from telemetry.window.interning import GONE, KeyTable
from telemetry.window.number_table import NumberTable
from telemetry.window.samples import NEVER_NS, Samples

_ONE = np.int32(1)  # of the column's own kind: numpy is thirty times as quick


class KnownFlows:
    """Numbers flows 0, 1, 2, ... as they appear, in columns: some 60 bytes a flow.

    Of each flow it knows how many samples are held (``hold``, ``release``), and when the last that is no
    longer held was seen.
    """

    def __init__(self) -> None:
        self._hosts: KeyTable[str] = KeyTable(_fingerprint_of_host)
        self._table = NumberTable()
        self._fingerprint = GrowingArray(np.uint64)
        self._src, self._dst = GrowingArray(np.int32), GrowingArray(np.int32)
        self._sport, self._dport = GrowingArray(np.uint16), GrowingArray(np.uint16)
        self._protocol = GrowingArray(np.uint8)
        self._before_ns = GrowingArray(np.int64)
        self._held = GrowingArray(np.int32)

    def __len__(self) -> int:
        return len(self._fingerprint)

    @property
    def held(self) -> NDArray[np.int32]:
        """How many samples of each are held."""
        return self._held.values

    @property
    def before_ns(self) -> NDArray[np.int64]:
        """When each was last seen by a sample that is no longer held; ``NEVER_NS``."""
        return self._before_ns.values

    @property
    def all_fingerprints(self) -> NDArray[np.uint64]:
        """Every flow's fingerprint, by number."""
        return self._fingerprint.values

    def keys(self) -> FlowKeys:
        """A copy of every flow's key, by number."""
        return FlowKeys(
            tuple(self._hosts.keys),
            self._src.values.copy(),
            self._dst.values.copy(),
            self._sport.values.copy(),
            self._dport.values.copy(),
            self._protocol.values.copy(),
        )

    def fingerprints(self, keys: FlowKeys) -> NDArray[np.uint64]:
        """The fingerprint of each key, known or not; numbers none of them."""
        return keys.fingerprints(self._hosts.fingerprints(keys.hosts))

    def numbers(self, keys: FlowKeys, fingerprints: NDArray[np.uint64]) -> NDArray[np.int32]:
        """The number of each key, by its fingerprint; new ones get one."""
        found = self._table.find(fingerprints)
        new = np.flatnonzero(found == ABSENT)
        if len(new) == 0:
            return found
        first, number = as_they_appear(fingerprints[new])
        rows = new[first]
        found[new] = len(self) + number
        self._append(keys.take(rows), fingerprints[rows])
        return found

    def hold(self, flow: NDArray[np.int32]) -> None:
        """Samples of these flows are held from now on (negative ones are nobody's)."""
        live = flow[flow >= 0].astype(np.intp)
        np.add.at(self._held.values, live, _ONE)

    def release(self, flow: NDArray[np.int32], ts_ns: NDArray[np.int64]) -> None:
        """Samples of these flows, seen then, are no longer held (negative ones are nobody's)."""
        live = flow >= 0
        np.subtract.at(self._held.values, flow[live].astype(np.intp), _ONE)
        self.pass_by(flow[live], ts_ns[live])

    def pass_by(self, flow: NDArray[np.int32], ts_ns: NDArray[np.int64]) -> None:
        """Samples of these flows, seen then, were never held."""
        np.maximum.at(self._before_ns.values, flow.astype(np.intp), ts_ns)

    def recount(self, parts: Iterable[Samples]) -> None:
        """Count anew what is held."""
        held = np.zeros(len(self), np.int64)
        for part in parts:
            held += np.bincount(part.flow[part.flow >= 0], minlength=len(self))
        self._held.replace(held)

    def keep(self, numbers: NDArray[np.int64]) -> NDArray[np.int32]:
        """Drop all others and renumber these in order; returns new number by old (``GONE`` for dropped)."""
        renumbered = np.full(len(self), GONE, np.int32)
        renumbered[numbers] = np.arange(len(numbers), dtype=np.int32)
        for column in (
            *(self._fingerprint, self._src, self._dst, self._sport, self._dport, self._protocol),
            *(self._before_ns, self._held),
        ):
            column.replace(column.values[numbers])
        ends = np.unique(np.concatenate((self._src.values, self._dst.values)))
        host = self._hosts.keep(ends.astype(np.int64))
        self._src.replace(host[self._src.values])
        self._dst.replace(host[self._dst.values])
        self._table = NumberTable()
        self._table.add(self.all_fingerprints, np.arange(len(self), dtype=np.int32))
        return renumbered

    def _append(self, keys: FlowKeys, fingerprints: NDArray[np.uint64]) -> None:
        self._table.add(fingerprints, np.arange(len(self), len(self) + len(keys), dtype=np.int32))
        used, ends = np.unique(np.concatenate((keys.src, keys.dst)), return_inverse=True)
        host = self._hosts.numbers([keys.hosts[number] for number in used.tolist()])[ends]
        self._fingerprint.extend(fingerprints)
        self._src.extend(host[: len(keys)])
        self._dst.extend(host[len(keys) :])
        self._sport.extend(keys.sport)
        self._dport.extend(keys.dport)
        self._protocol.extend(keys.protocol)
        self._before_ns.extend(np.full(len(keys), NEVER_NS, np.int64))
        self._held.extend(np.zeros(len(keys), np.int32))


def _fingerprint_of_host(host: str) -> int:
    return fingerprint_of((host,))
