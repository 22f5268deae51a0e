"""How trees do on states that they have not seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from twin.advice.growing import FAILED, Rows, drawn_to_calibrate, made


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """By state held out: the regret of the advised code, of what runs, and of one code for all; whether all
    features are in range; the bound of the leaf. On the second moment alone: the regret of the advised code,
    and of the code that a full run on the first one finds.
    """

    advised: NDArray[np.float64]
    kept: NDArray[np.float64]
    static: NDArray[np.float64]
    in_range: NDArray[np.bool_]
    bound: NDArray[np.float64]
    later: NDArray[np.float64]
    full: NDArray[np.float64]

    def where(self, chosen: NDArray[np.bool_]) -> Held:
        return Held(*(getattr(self, one.name)[chosen] for one in fields(self)))

    def covered(self, limit: float) -> NDArray[np.bool_]:
        """Where advice is given if the bound may be so large."""
        return self.in_range & (self.bound <= limit)

    @classmethod
    def joined(cls, parts: Sequence[Held]) -> Held:
        return cls(*(np.concatenate([getattr(part, one.name) for part in parts]) for one in fields(cls)))


def held_out(rows: Rows, chosen: NDArray[np.bool_]) -> Held:
    """A tree made of the other rows, tried on the drawn rows of those ``chosen``."""
    train, test = rows.where(~chosen), rows.where(chosen & rows.drawn)
    found = made(train, drawn_to_calibrate(train))
    leaf, each = found.leaf_of(test.x), np.arange(len(test.x))
    code = np.array([int(np.argmin(one.behind)) for one in found.leaves])[leaf]
    static = int(np.argmin(np.minimum(train.behind, FAILED).mean(axis=0)))
    low, high = (np.array([getattr(one, end) for one in found.ranges]) for end in ("low", "high"))
    return Held(
        advised=test.behind[each, code],
        kept=test.kept,
        static=test.behind[:, static],
        in_range=np.logical_and.reduce((test.x >= low) & (test.x <= high), axis=1),
        bound=np.array([one.regret for one in found.leaves])[leaf],
        later=test.later[each, code],
        full=test.full,
    )
