"""``make policies``: trains, distils, measures and writes the policies that come with ecntwin.

A policy whose file in ``learn/out`` has the same recipe is not made again: the command resumes. What is made
is compared with the files kept in ``twin/senders/policies``, and replaces them with ``--keep``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import platform
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from learn import distil, rlcc
from learn.closed_loop import Settled, settled
from twin.errors import TwinError
from twin.packet.policies import DECISION
from twin.senders.artefact import policy_to_json, read_policy
from twin.senders.rtt import INPUTS, Network, RttPolicy

KEPT = Path(__file__).parents[1] / "twin" / "senders" / "policies"
OUT = Path(__file__).parent / "out"
SEED = 1
FLOWS = (2, 16, 64)
TREES, DEPTH = 16, 4
TURNS, ROWS, ROLLOUTS = 3, 40_000, 40  # what trees learn from
INFLATION_TOLERANCE = 0.15
"""How far two trainings of one recipe may settle apart, relative.

A rollout amplifies the rounding of another processor as it would another seed, and seeds 1 to 5 settle
within 12 % of each other.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make policies", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--keep", action="store_true", help="replace the files that come with ecntwin")
    asked = parser.parse_args(arguments)
    OUT.mkdir(exist_ok=True)
    network = _made(f"{rlcc.NAME}.json", _recipe(updates=rlcc.UPDATES), _network)
    recipe = _recipe(trees=TREES, depth=DEPTH, turns=TURNS, of=network.read_text("utf-8"))
    trees = _made(f"{rlcc.NAME}-trees.json", recipe, lambda: _trees(read_policy(network)))
    return max(_compared(made, keep=asked.keep) for made in (network, trees))


def _recipe(**settings: object) -> str:
    """A digest of what decides a policy: the learner's sources, the seed, and these settings."""
    digest = hashlib.sha256(json.dumps([SEED, sorted(settings.items())], default=str).encode())
    for source in (rlcc, distil):
        digest.update(Path(source.__file__).read_bytes())
    return digest.hexdigest()[:16]


def _made(name: str, recipe: str, make: Callable[[], RttPolicy]) -> Path:
    path = OUT / name
    if path.exists() and json.loads(path.read_text("utf-8"))["provenance"]["recipe"] == recipe:
        print(f"{name}: made before")
        return path
    policy = make()
    figures = [settled(policy, flows) for flows in FLOWS]
    provenance = {
        "recipe": recipe,
        "command": "make policies",
        "seed": SEED,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scikit-learn": version("scikit-learn"),
        "settled": [{key: round(value, 4) for key, value in asdict(one).items()} for one in figures],
    }
    part = path.with_suffix(".part")
    part.write_text(policy_to_json(policy, provenance), "utf-8")
    part.replace(path)
    return path


def _network() -> RttPolicy:
    def progress(update: int, loss: float) -> None:
        if update % 50 == 0:
            print(f"{rlcc.NAME}: update {update} of {rlcc.UPDATES}, loss {loss:+.4f}", flush=True)

    return rlcc.policy_of(rlcc.train(SEED, progress=progress))


def _trees(network: RttPolicy) -> RttPolicy:
    """Trees on what the network sees, then on what they themselves see too (DAgger, Ross et al., 2011).

    Without the latter, small errors take them where the network never went.
    """
    assert isinstance(network.form, Network)
    seen, policy = np.zeros((0, len(INPUTS))), network
    for turn in range(TURNS):
        print(f"{rlcc.NAME}-trees: {TREES} trees of depth {DEPTH}, turn {turn + 1} of {TURNS}", flush=True)
        rows = np.concatenate(list(_inputs(policy, SEED + 1 + turn)))
        pick = np.random.default_rng(SEED + turn).permutation(len(rows))[:ROWS]
        seen = np.concatenate([seen, rows[pick]])
        actions = rlcc.actions_of([np.array(layer) for layer in network.form.layers], seen)
        form = distil.boosted(seen, actions, trees=TREES, depth=DEPTH, seed=SEED)
        policy = RttPolicy(name=f"{rlcc.NAME}-trees", form=form)
    return policy


def _inputs(policy: RttPolicy, seed: int) -> Iterator[NDArray[np.float64]]:
    """What the policy itself sees, from the start of its flows on."""
    first = DECISION.index(INPUTS[0])
    rollouts = rlcc.Rollouts(np.random.default_rng(seed), policy)
    for _ in range(ROLLOUTS):
        for decisions in rollouts.decisions(policy):
            yield decisions[:, first : first + len(INPUTS)]


def _compared(made: Path, *, keep: bool) -> int:
    """Prints what the policy settles at beside the one kept; 1 where they differ and it is not to be kept."""
    kept = KEPT / made.name
    figures = _settled_in(made)
    before = _settled_in(kept) if kept.exists() else []
    apart = len(figures) != len(before)
    for one, other in zip(figures, [*before, *[None] * len(figures)], strict=False):
        law = read_policy(made).inflation(one.flows)
        line = (
            f"{made.stem}: {one.flows} flows settle at {one.inflation:.3f} RTT0 (law {law:.3f}), p99 "
            f"{one.inflation_p99:.2f}, utilisation {one.utilisation:.1%}, Jain {one.jain:.4f}"
        )
        if other is not None:
            off = one.inflation / other.inflation - 1
            apart = apart or abs(off) > INFLATION_TOLERANCE
            line += f"; {off:+.1%} from the file kept"
        print(line)
    if keep:
        KEPT.mkdir(exist_ok=True)
        shutil.copyfile(made, kept)
        return 0
    if apart:
        print(f"{made.stem}: more than {INFLATION_TOLERANCE:.0%} from the file kept; --keep replaces it")
    return int(apart)


def _settled_in(path: Path) -> list[Settled]:
    return [Settled(**one) for one in json.loads(path.read_text("utf-8"))["provenance"]["settled"]]


if __name__ == "__main__":
    try:
        sys.exit(main())
    except TwinError as error:
        sys.exit(str(error))
