"""Learns the advice between rounds: ``python -m learn.advice`` writes ``twin/advice/advice.json``, and the
states that it is learnt from beside it.

States are drawn, the replay engine runs the codebook on each, and one tree learns which code gains most. What
was run stays in ``build/advice``: a run that was ended goes on there. Prints how the tree does on families of
traffic that it has not seen.
"""

from __future__ import annotations

import argparse
import hashlib
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numba
import numpy as np
import sklearn
from numpy.typing import NDArray
from scipy.stats import qmc

from learn import states as drawing
from learn.labels import labelled
from learn.states import FAMILIES, State
from learn.tree import Held, held_out
from twin.advice import growing
from twin.advice._tree import leaf_of
from twin.advice.artefact import SHIPPED, Learnt
from twin.advice.codebook import Code
from twin.advice.features import Scales
from twin.advice.growing import FAILED, REGRET_LIMIT, Rows, drawn_to_calibrate, made
from twin.advice.labelled import STATES, Labelled, keep
from twin.jit import kernel
from twin.search.gain import POLICIES
from twin.watermark import Watermark

N_CODES = 32
N_STATES = 2_100
POOL_STATES, FIRST_POOL_SEED = 84, 1_000_000
_POOL = 48  # codes in BDP and as many in bytes
_USUAL_BDP = 35_000.0  # bytes, between that of 25 and of 100 Gbit/s


def pool_codes() -> list[Code]:
    """An even draw: Kmin of a twentieth to 20 BDP, Kmax up to 30 times that, Pmax from 1 % to 1."""
    cube = qmc.Sobol(3, seed=7).random(64)[:_POOL]
    low, high = np.log([0.05, 1.1, 0.01]), np.log([20.0, 30.0, 1.0])
    return [Code(*np.exp(low + one * (high - low)).tolist()) for one in cube]


def pool_marks(drawn: State, scales: Scales) -> list[Watermark]:
    """The pool in BDP, then in bytes."""
    codes = pool_codes()
    return [code.watermark(bdp) for bdp in (scales.bdp_bytes, _USUAL_BDP) for code in codes]


def codebook(pool: Sequence[Labelled], places: Sequence[int]) -> list[int]:
    """Of these places of the pool those that together come closest to the best of all states, one by one."""
    gains = np.concatenate([_pool_gains(one)[:, places] for one in pool])
    reached, chosen = np.zeros(len(gains)), list[int]()
    for _ in range(N_CODES):
        chosen.append(int(np.argmax(np.maximum(gains, reached[:, None]).mean(axis=0))))
        reached = np.maximum(reached, gains[:, chosen[-1]])
    return [places[one] for one in chosen]


def _pool_gains(one: Labelled) -> NDArray[np.float64]:
    """Gains of the pool [policy, place]; a failed run gains least."""
    gains = np.array([one.gains(policy)[1:] for policy in POLICIES.values()])
    return np.where(np.isnan(gains), -FAILED, gains)


def codebook_regret(pool: Sequence[Labelled], places: Sequence[int]) -> tuple[float, float]:
    """Mean and 95th percentile of what codes chosen without a family lack of the best on its states."""
    lack = []
    for family in FAMILIES:
        chosen = codebook([one for one in pool if one.family != family], places)
        for one in pool:
            if one.family == family:
                gains = np.maximum(_pool_gains(one), 0.0)  # 0: what runs
                lack.append(gains.max(axis=1) - gains[:, chosen].max(axis=1))
    found = np.concatenate(lack)
    return float(found.mean()), float(np.quantile(found, 0.95))


def figures(held: Held) -> dict[str, float]:
    """Of states held out: coverage, and regrets where advice is given and of all."""
    given = held.where(held.covered(REGRET_LIMIT))
    found = {
        "states": len(held.advised),
        "in range": held.in_range.mean(),
        "within bound": (held.advised <= held.bound).mean(),
        "regret, all": held.advised.mean(),
        "static, all": held.static.mean(),
        "keep, all": held.kept.mean(),
        "coverage": len(given.advised) / len(held.advised),
    }
    if len(given.advised):
        found |= {
            "regret": given.advised.mean(),
            "regret p95": np.quantile(given.advised, 0.95),
            "static": given.static.mean(),
            "static p95": np.quantile(given.static, 0.95),
            "keep": given.kept.mean(),
            "next moment": given.later.mean(),
            "full run there": given.full.mean(),
        }
    return {name: round(float(value), 3) for name, value in found.items()}


def evaluated(rows: Rows) -> dict[str, dict[str, float]]:
    """Figures by family held out, of all of them, and of states held out whose families were seen."""
    by_family = {family: held_out(rows, rows.family == family) for family in FAMILIES}
    tenth = np.random.default_rng(50).integers(0, 5, int(rows.state.max()) + 1)[rows.state]
    seen = Held.joined([held_out(rows, tenth == one) for one in range(5)])
    every = {**by_family, "all, unseen": Held.joined(list(by_family.values())), "all, seen": seen}
    return {name: figures(held) for name, held in every.items()}


@kernel
def _leaves_of(
    rows: NDArray[np.float64], columns: tuple[NDArray[Any], ...], found: NDArray[np.int64]
) -> None:
    """``leaf_of`` each row, into ``found``."""
    for row in range(rows.shape[0]):
        found[row] = leaf_of(rows[row], *columns)


def decision_ns(learnt: Learnt, x: NDArray[np.float64]) -> float:
    """Nanoseconds a row, the median of five runs over a million of them."""
    rows = np.ascontiguousarray(x[np.random.default_rng(60).integers(0, len(x), 1_000_000)])
    found = np.empty(len(rows), np.int64)
    took = []
    for _ in range(6):  # the first one compiles
        began_s = time.perf_counter()
        _leaves_of(rows, learnt.columns, found)
        took.append(time.perf_counter() - began_s)
    return float(np.median(took[1:])) / len(rows) * 1e9


def recipe() -> str:
    """A digest of the code that draws, runs and grows."""
    digest = hashlib.blake2b(digest_size=8)
    for module in (drawing, growing):
        digest.update(Path(str(module.__file__)).read_bytes())
    return digest.hexdigest()


def table(found: dict[str, dict[str, float]]) -> str:
    """Markdown."""
    names = list(dict.fromkeys(name for row in found.values() for name in row))
    lines = ["| held out | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for family, row in found.items():
        lines.append(
            f"| {family} | " + " | ".join(f"{row[name]:g}" if name in row else "–" for name in names) + " |"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m learn.advice", description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--states", type=int, default=N_STATES, help="so many states, each about a second of CPU"
    )
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument(
        "--folder", type=Path, default=Path("build/advice"), help="where what was run is kept"
    )
    parser.add_argument("--out", type=Path, default=SHIPPED)
    given = parser.parse_args(arguments)
    seeds = range(FIRST_POOL_SEED, FIRST_POOL_SEED + POOL_STATES)
    pool = labelled(given.folder / "pool.jsonl", seeds, pool_marks, processes=given.processes)
    for name, place in (("BDP", 0), ("bytes", _POOL)):
        mean, p95 = codebook_regret(pool, range(place, place + _POOL))
        print(f"codebook in {name}: regret {mean:.3f}, p95 {p95:.3f} on families held out")
    codes = [pool_codes()[place] for place in codebook(pool, range(_POOL))]
    first, second = (
        labelled(
            given.folder / f"states-{draw}.jsonl",
            range(given.states),
            lambda _, scales: [code.watermark(scales.bdp_bytes) for code in codes],
            processes=given.processes,
            draw=draw,
        )
        for draw in (0, 1)
    )
    rows = Rows.of(first, second)
    metrics = evaluated(rows)
    print(table(metrics))
    versions = {one.__name__: one.__version__ for one in (np, numba, sklearn)}
    provenance = {"states": given.states, "recipe": recipe(), "versions": versions, "held out": metrics}
    learnt = made(rows, drawn_to_calibrate(rows)).learnt(codes, provenance)
    body = msgspec.json.encode(learnt)
    given.out.write_bytes(body + b"\n")
    keep(first, second, given.out.with_name(STATES.name))
    took_ns = decision_ns(learnt, rows.x)
    print(f"{given.out}: {len(body)} bytes, {len(learnt.leaves)} leaves; {took_ns:.0f} ns a decision")


if __name__ == "__main__":
    main()
