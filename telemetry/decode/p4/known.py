"""Things named once and known again by what the wire calls them; imports only numpy and its neighbour
``numbering``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from telemetry.decode.p4.numbering import Numbering

Name = TypeVar("Name")

_CALM_CALLS = 8


class Known(Generic[Name]):
    """Names of rows of ``n_words`` 64-bit values, as ``named`` gives them; begins anew beyond ``most``.

    Names are handed out as the same tuple call after call, so that whoever works something out for each need
    not do so again; while new ones keep coming, a call gets those that it asked for, and no others.
    """

    def __init__(self, n_words: int, named: Callable[..., Name], most: int) -> None:
        self._rows = Numbering(n_words)
        self._named = named
        self._most = most
        self._names: list[Name] = []
        self._all: tuple[Name, ...] = ()
        self._calm = 0
        self._seen = np.empty(0, np.int64)

    def __len__(self) -> int:
        return len(self._names)

    @property
    def is_full(self) -> bool:
        """Whether the next call forgets what is known."""
        return len(self._rows) > self._most

    def fits(self, numbers: NDArray[np.int64], most: int) -> NDArray[np.bool_]:
        """Which of these numbers have a name or are among the first ``most`` that have none yet."""
        return numbers < len(self._names) + most

    def forget(self) -> None:
        """Begins anew; what was numbered has no number any more."""
        self._rows.forget()
        self._names, self._all = [], ()

    def numbers(self, words: Sequence[NDArray[np.uint64]]) -> NDArray[np.int64]:
        """The number of every row, good until all is forgotten."""
        if self.is_full:
            self.forget()
        return self._rows.numbers(words)

    def handed_out(self, numbers: NDArray[np.int64]) -> tuple[tuple[Name, ...], NDArray[np.int64]]:
        """Names, among them those of all these numbers, and the place of each number's among them."""
        self._calm += 1
        if len(self._rows) > len(self._names):
            self._calm = 0
            self._names += map(self._named, *[word.tolist() for word in self._rows.values(len(self._names))])
        if len(self._all) < len(self._names):
            if self._calm < _CALM_CALLS:
                return self._alone(numbers)
            self._all = tuple(self._names)
        return self._all, numbers

    def _alone(self, numbers: NDArray[np.int64]) -> tuple[tuple[Name, ...], NDArray[np.int64]]:
        """Those in order of first appearance."""
        if len(self._seen) < len(self._names):
            self._seen = np.empty(2 * len(self._names), np.int64)
        seen, place = self._seen, np.arange(len(numbers))
        seen[numbers[::-1]] = place[::-1]  # the last writer stays: the first of its kind
        distinct = numbers[seen[numbers] == place]
        seen[distinct] = place[: len(distinct)]
        names = self._names
        return tuple([names[number] for number in distinct.tolist()]), seen[numbers]
