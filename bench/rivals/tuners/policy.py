"""Files of trained policies: weights, and what they were trained on."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.rivals.tuners.networks import Reals
from twin.errors import ParameterError

FOLDER = Path(__file__).resolve().parents[1] / "policies"
VERSION = 1
MOST_BYTES = 50_000
ABOUT = "about"  # what a file says about itself


@dataclass(frozen=True, slots=True, eq=False)
class Policy:
    """Weights of ``kind``, whose inputs are ``features``; ``provenance`` says how they came about.

    ``weights[0]`` and ``[1]`` of ``reward`` weigh rate and queue in the reward it was trained for.
    """

    kind: str
    features: tuple[str, ...]
    reward: tuple[float, float]
    arrays: Mapping[str, Reals]
    provenance: Mapping[str, Any]

    def save(self, path: Path) -> None:
        """Writes it, weights in 16 bits; raises ``ParameterError`` where it is larger than 50 KB."""
        about = {
            "version": VERSION,
            "kind": self.kind,
            "features": self.features,
            "reward": self.reward,
            **self.provenance,
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        halves = {name: one.astype(np.float16) for name, one in self.arrays.items()}
        np.savez_compressed(path, **{ABOUT: np.array(json.dumps(about))}, **halves)  # type: ignore[arg-type]
        if path.stat().st_size > MOST_BYTES:
            rule = f"a policy file has at most {MOST_BYTES}"
            remedy = "make the network smaller"
            raise ParameterError(f"policy {path.name}", f"{path.stat().st_size} bytes", rule, remedy)


def load(path: Path, kind: str, features: tuple[str, ...]) -> Policy:
    """Reads a policy of this kind and these features; raises ``ParameterError`` for any other file."""
    where, remedy = f"policy {path.name}", f"train one: python -m bench.rivals train {kind}"
    if not path.exists():
        raise ParameterError(where, "no such file", "a trained policy is needed", remedy)
    about, given = read(path, where, remedy)
    arrays = {name: one.astype(np.float32) for name, one in given.items()}
    for what, received, wanted in (
        ("version", about.pop("version", None), VERSION),
        ("kind", about.pop("kind", None), kind),
        ("features", tuple(about.pop("features", ())), features),
    ):
        if received != wanted:
            raise ParameterError(where, f"{what} {_said(received)}", f"it must be {_said(wanted)}", remedy)
    rate, queue = about.pop("reward")
    return Policy(kind, features, (float(rate), float(queue)), arrays, about)


def read(path: Path, where: str, remedy: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a file says about itself, and its arrays; raises ``ParameterError`` where it is none of ours."""
    try:
        # From memory: NumPy leaves a file open that it cannot read.
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as given:
            about = dict(json.loads(str(given[ABOUT])))
            return about, {name: given[name] for name in given.files if name != ABOUT}
    except (OSError, EOFError, ValueError, TypeError, KeyError, zipfile.BadZipFile):
        raise ParameterError(where, "another file", "it must be one that training wrote", remedy) from None


def _said(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
