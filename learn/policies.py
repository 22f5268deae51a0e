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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from bench.rivals.tuners import networks
from bench.rivals.tuners.networks import Mlp
from learn import compress, decc, distil, rlcc
from learn.closed_loop import Settled, settled
from twin.errors import TwinError
from twin.packet.policies import DECISION
from twin.senders.artefact import Policy, policy_to_json, read_policy
from twin.senders.rtt import INPUTS, DeccPolicy, Network, RttPolicy

KEPT = Path(__file__).parents[1] / "twin" / "senders" / "policies"
OUT = Path(__file__).parent / "out"
SEED = 1
FLOWS = (2, 16, 64)
TREES, DEPTH = 32, 4
TURNS, ROWS, ROLLOUTS = 3, 40_000, 40  # what trees learn from
INFLATION_TOLERANCE = {rlcc.NAME: 0.15, decc.NAME: 0.3}
"""How far two trainings of one recipe may settle apart, relative, by the name that a file's begins with.

A rollout amplifies the rounding of another processor as it would another seed: seeds 1 to 5 of RL-CC settle
within 12 % of each other, seeds 1 and 2 of DECC within 20 %.
"""
Figures = dict[str, float]
Inputs = Callable[[Policy, int], Iterator[NDArray[np.float64]]]  # what a policy itself sees, by seed


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make policies", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--keep", action="store_true", help="replace the files that come with ecntwin")
    asked = parser.parse_args(arguments)
    OUT.mkdir(exist_ok=True)
    network = _made(f"{rlcc.NAME}.json", _recipe(updates=rlcc.UPDATES), lambda: (_network(), {}))
    made = [network, _trees_of(network, _rlcc_inputs, _recipe)]
    with threadpool_limits(1):  # the last digits of a product depend on how many threads share it
        made.append(_made(f"{decc.NAME}.json", _decc_recipe(), _compressed))
        made.append(_trees_of(made[-1], _decc_inputs, _decc_recipe))
    return max([_compared(one, keep=asked.keep) for one in made])


def _recipe(*, sources: Sequence[ModuleType] = (rlcc, distil), **settings: object) -> str:
    """A digest of what decides a policy: the learner's sources, the seed, and these settings."""
    digest = hashlib.sha256(json.dumps([SEED, sorted(settings.items())], default=str).encode())
    for source in sources:
        digest.update(Path(str(source.__file__)).read_bytes())
    return digest.hexdigest()[:16]


def _decc_recipe(**settings: object) -> str:
    return _recipe(sources=(networks, rlcc, decc, compress, distil), **settings)


def _made(name: str, recipe: str, make: Callable[[], tuple[Policy, Figures]]) -> Path:
    path = OUT / name
    if path.exists() and json.loads(path.read_text("utf-8"))["provenance"]["recipe"] == recipe:
        print(f"{name}: made before")
        return path
    policy, measured = make()
    figures = [settled(policy, flows) for flows in FLOWS]
    provenance = {
        "recipe": recipe,
        "command": "make policies",
        "seed": SEED,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scikit-learn": version("scikit-learn"),
        **{key: float(f"{value:.4g}") for key, value in measured.items()},
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


def _compressed() -> tuple[DeccPolicy, Figures]:
    """DECC's network, pruned and quantised; the whole one stays in ``learn/out`` until its recipe changes."""
    whole, recipe = OUT / f"{decc.NAME}-whole.npz", _recipe(sources=(networks, rlcc, decc))
    kept: Mapping[str, Any] = np.load(whole) if whole.exists() else {"recipe": ""}
    if str(kept["recipe"]) != recipe:

        def progress(done: int, best: float) -> None:
            print(f"{decc.NAME}: episode {done} of {decc.EPISODES}, earned {best:+.4f}", flush=True)

        actor, inputs = decc.train(SEED, progress=progress)
        kept = actor.arrays("actor") | {"recipe": np.array(recipe), "inputs": inputs}
        part = whole.with_suffix(".part.npz")
        np.savez(part, **kept)
        part.replace(whole)
    print(f"{decc.NAME}: pruned and quantised, tuned in {compress.UPDATES} updates", flush=True)
    arrays = {key: kept[key] for key in kept if key.startswith("actor.")}
    actor, rng = Mlp.named(arrays, "actor", "relu"), np.random.default_rng(SEED)
    found = compress.compressed(actor, kept["inputs"], rng)
    figures = {key: value for key, value in asdict(found).items() if key not in ("layers", "steps")}
    return decc.policy_of(found.layers, steps=found.steps), figures


def _trees_of(network: Path, inputs: Inputs, recipe: Callable[..., str]) -> Path:
    digest = recipe(trees=TREES, depth=DEPTH, turns=TURNS, of=network.read_text("utf-8"))
    return _made(f"{network.stem}-trees.json", digest, lambda: (_trees(read_policy(network), inputs), {}))


def _trees(network: Policy, inputs_of: Inputs) -> Policy:
    """Trees on what the network sees, then on what they themselves see too (DAgger, Ross et al., 2011).

    Without the latter, small errors take them where the network never went.
    """
    assert isinstance(network.form, Network)
    seen, policy = np.zeros((0, len(network.inputs))), network
    for turn in range(TURNS):
        print(f"{network.name}-trees: {TREES} trees of depth {DEPTH}, turn {turn + 1} of {TURNS}", flush=True)
        rows = np.concatenate(list(inputs_of(policy, SEED + 1 + turn)))
        pick = np.random.default_rng(SEED + turn).permutation(len(rows))[:ROWS]
        seen = np.concatenate([seen, rows[pick]])
        actions = rlcc.actions_of([np.array(layer) for layer in network.form.weights], seen)
        form = distil.boosted(seen, actions, trees=TREES, depth=DEPTH, seed=SEED)
        policy = replace(network, name=f"{network.name}-trees", form=form)
    return policy


def _rlcc_inputs(policy: Policy, seed: int) -> Iterator[NDArray[np.float64]]:
    """From the start of its flows on."""
    assert isinstance(policy, RttPolicy)
    first = DECISION.index(INPUTS[0])
    rollouts = rlcc.Rollouts(np.random.default_rng(seed), policy)
    for _ in range(ROLLOUTS):
        for decisions in rollouts.decisions(policy):
            yield decisions[:, first : first + len(INPUTS)]


def _decc_inputs(policy: Policy, seed: int) -> Iterator[NDArray[np.float64]]:
    rng = np.random.default_rng(seed)
    for _ in range(ROLLOUTS):
        for flows in decc.FLOWS:
            yield decc.inputs_of(decc.episode(policy, flows, rng))


def _compared(made: Path, *, keep: bool) -> int:
    """Prints what the policy settles at beside the one kept; 1 where they differ and it is not to be kept."""
    kept = KEPT / made.name
    tolerance = INFLATION_TOLERANCE[made.stem.removesuffix("-trees")]
    figures = _settled_in(made)
    before = _settled_in(kept) if kept.exists() else []
    apart = len(figures) != len(before)
    policy = read_policy(made)
    for one, other in zip(figures, [*before, *[None] * len(figures)], strict=False):
        law = f" (law {policy.inflation(one.flows):.3f})" if isinstance(policy, RttPolicy) else ""
        line = (
            f"{made.stem}: {one.flows} flows settle at {one.inflation:.3f} RTT0{law}, p99 "
            f"{one.inflation_p99:.2f}, utilisation {one.utilisation:.1%}, Jain {one.jain:.4f}"
        )
        if other is not None:
            off = one.inflation / other.inflation - 1
            apart = apart or abs(off) > tolerance
            line += f"; {off:+.1%} from the file kept"
        print(line)
    if keep:
        KEPT.mkdir(exist_ok=True)
        shutil.copyfile(made, kept)
        return 0
    if apart:
        print(f"{made.stem}: more than {tolerance:.0%} from the file kept; --keep replaces it")
    return int(apart)


def _settled_in(path: Path) -> list[Settled]:
    return [Settled(**one) for one in json.loads(path.read_text("utf-8"))["provenance"]["settled"]]


if __name__ == "__main__":
    try:
        sys.exit(main())
    except TwinError as error:
        sys.exit(str(error))
