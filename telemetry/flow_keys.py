"""Many flows' five-tuples in columns; imports only numpy, ``telemetry.fingerprint`` and ``telemetry.state``.

A million of them are a few arrays, where as many tuples would be a quarter of a gigabyte.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from telemetry.fingerprint import mixed
from telemetry.state import FlowKey

_SPORT, _DPORT = np.uint64(40), np.uint64(16)


@dataclass(frozen=True, slots=True, eq=False)
class FlowKeys(Sequence[FlowKey]):
    """A sequence of ``FlowKey``: ``src`` and ``dst`` number ``hosts``, the rest is as in the key.

    Equal to any sequence of the same keys.
    """

    hosts: tuple[str, ...]
    src: NDArray[np.int32]
    dst: NDArray[np.int32]
    sport: NDArray[np.uint16]
    dport: NDArray[np.uint16]
    protocol: NDArray[np.uint8]

    @classmethod
    def of(cls, keys: Iterable[FlowKey]) -> FlowKeys:
        """These keys in columns."""
        src, dst, sport, dport, protocol = tuple(zip(*keys, strict=True)) or ((),) * 5
        numbers: dict[str, int] = {}
        sender, receiver = (
            np.array([numbers.setdefault(host, len(numbers)) for host in side], np.int32)
            for side in (src, dst)
        )
        return cls(
            tuple(numbers),
            sender,
            receiver,
            np.array(sport, np.uint16),
            np.array(dport, np.uint16),
            np.array(protocol, np.uint8),
        )

    def __len__(self) -> int:
        return len(self.src)

    @overload
    def __getitem__(self, place: int) -> FlowKey: ...
    @overload
    def __getitem__(self, place: slice) -> FlowKeys: ...
    def __getitem__(self, place: int | slice) -> FlowKey | FlowKeys:
        if isinstance(place, slice):
            return self.take(np.arange(len(self))[place])
        return FlowKey(
            self.hosts[self.src[place]],
            self.hosts[self.dst[place]],
            int(self.sport[place]),
            int(self.dport[place]),
            int(self.protocol[place]),
        )

    def __iter__(self) -> Iterator[FlowKey]:
        hosts = self.hosts
        for src, dst, *others in zip(
            *(column.tolist() for column in (self.src, self.dst, self.sport, self.dport, self.protocol)),
            strict=True,
        ):
            yield FlowKey(hosts[src], hosts[dst], *others)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def take(self, rows: NDArray[np.integer[Any]]) -> FlowKeys:
        """The keys at these places, in that order; hosts are shared."""
        return FlowKeys(
            self.hosts,
            self.src[rows],
            self.dst[rows],
            self.sport[rows],
            self.dport[rows],
            self.protocol[rows],
        )

    def fingerprints(self, host: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """The fingerprint of each key, from those of ``hosts``."""
        ports = (self.sport.astype(np.uint64) << _SPORT) | (self.dport.astype(np.uint64) << _DPORT)
        return mixed(mixed(mixed(host[self.src]) ^ host[self.dst]) ^ (ports | self.protocol))
