"""Network states with gains that the twin told; a file keeps those that the shipped tree is learnt from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from twin.advice.codebook import Code
from twin.advice.features import Queue, Scales
from twin.search.gain import Policy
from twin.watermark import Watermark

STATES = Path(__file__).with_name("states.npz")
EVEN = Policy(0.5, 0.5)


@dataclass(frozen=True, slots=True, eq=False)
class Labelled:
    """A state and its watermarks, the incumbent first.

    ``fixed`` are the features that do not depend on what runs. ``queues[k]`` and ``parts[k]`` are under
    watermark k: of the gain over the incumbent bulk and delay, before their weights, and harm; NaN where a
    run failed.
    """

    seed: int
    family: str
    scales: Scales
    fixed: NDArray[np.float64]
    marks: tuple[Watermark, ...]
    queues: tuple[Queue, ...]
    parts: NDArray[np.float64]

    def gains(self, policy: Policy) -> NDArray[np.float64]:
        """Gains over the incumbent [watermark], with the price of harm that the parts were taken with."""
        weights = np.array([policy.bulk, policy.delay, policy.harm_price / EVEN.harm_price])
        found: NDArray[np.float64] = self.parts @ weights
        return found


def keep(first: Sequence[Labelled], second: Sequence[Labelled], file: Path) -> None:
    """Writes two moments of each state, without their codes, in half precision where that is far finer than
    what moments differ by.
    """
    both = [*first, *second]
    incumbents = [(one.marks[0].kmin_bytes, one.marks[0].kmax_bytes, one.marks[0].pmax) for one in both]
    queues = [[(queue.mean_bytes, queue.deepest_bytes) for queue in one.queues] for one in both]
    np.savez_compressed(
        file,
        seed=np.array([one.seed for one in both], np.int32),
        family=np.array([one.family for one in both]),
        scales=np.array([(one.scales.rtt_s, one.scales.bdp_bytes) for one in both]),
        fixed=np.array([one.fixed for one in both], np.float32),
        incumbent=np.array(incumbents),
        queues_log=np.log1p(np.array(queues)).astype(np.float16),
        parts=np.array([one.parts for one in both], np.float16),
    )


def kept(codes: Sequence[Code]) -> tuple[list[Labelled], list[Labelled]]:
    """The states that ship, under these codes: a first and a second moment of each."""
    with np.load(STATES, allow_pickle=False) as found:
        columns = {name: found[name] for name in found.files}
    coded = {
        bdp: tuple(one.watermark(bdp) for one in codes) for bdp in np.unique(columns["scales"][:, 1]).tolist()
    }
    states = []
    for at, (kmin, kmax, pmax) in enumerate(columns["incumbent"].tolist()):
        scales = Scales(*columns["scales"][at].tolist())
        marks = (Watermark(int(kmin), int(kmax), pmax), *coded[scales.bdp_bytes])
        queues = np.expm1(columns["queues_log"][at].astype(np.float64)).tolist()
        states.append(
            Labelled(
                int(columns["seed"][at]),
                str(columns["family"][at]),
                scales,
                columns["fixed"][at].astype(np.float64),
                marks,
                tuple(Queue(*one) for one in queues),
                columns["parts"][at].astype(np.float64),
            )
        )
    return states[: len(states) // 2], states[len(states) // 2 :]
