"""The learnt advice as a JSON file: its tree, the watermarks it chooses among, and where it comes from."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from twin.advice._tree import leaf_of
from twin.advice.codebook import Code
from twin.advice.features import FEATURES
from twin.errors import ParameterError

SCHEMA = "ecntwin-advice/1"
SHIPPED = Path(__file__).with_name("advice.json")
MOST_BYTES = 50_000

_Columns = tuple[
    NDArray[np.float64],
    NDArray[np.float64],
    NDArray[np.int32],
    NDArray[np.float64],
    NDArray[np.int32],
    NDArray[np.int32],
]
_AboveZero = Annotated[float, Meta(gt=0)]


class Tree(Struct, frozen=True, forbid_unknown_fields=True):
    """Node 0 is the root; a leaf's ``feature`` is −1. What equals the ``threshold`` goes ``left``; of a leaf,
    ``left`` is its place among the leaves.
    """

    feature: list[int]
    threshold: list[float]
    left: list[int]
    right: list[int]


class Leaf(Struct, frozen=True, forbid_unknown_fields=True):
    """``behind``: by how much each code gains less than the best of a state, in the mean; the least is
    advised.
    ``regret``: how much that one gains less, at most, in nine of ten states.
    """

    behind: list[float]
    regret: float


class Feature(Struct, frozen=True, forbid_unknown_fields=True):
    """A feature and the range of the states it was learnt from, ends included."""

    name: str
    low: float
    high: float


class Learnt(Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """An artefact; ``codes`` are watermarks, ``leaves`` what the tree leads to. A leaf whose ``regret`` is
    above ``regret_limit`` gives no advice. ``provenance`` says from what it was learnt, with which versions,
    and what came out.
    """

    schema: str
    features: list[Feature]
    codes: list[Code]
    tree: Tree
    leaves: list[Leaf]
    regret_limit: _AboveZero
    provenance: dict[str, Any]

    def __post_init__(self) -> None:
        if self.schema != SCHEMA:
            raise ValueError(f"its schema is {self.schema!r}, and this version reads {SCHEMA!r}")
        if len(self.features) != len(FEATURES):
            raise ValueError(f"it has {len(self.features)} features, and this version has {len(FEATURES)}")
        for given, known in zip(self.features, FEATURES, strict=True):
            if given.name != known:
                raise ValueError(f"it has the feature {given.name!r} where {known!r} is expected")
            if given.low > given.high:
                raise ValueError(f"the range of the feature {known!r} ends before it begins")
        tree, n = self.tree, len(self.tree.feature)
        if n == 0 or any(len(getattr(tree, name)) != n for name in tree.__struct_fields__):
            raise ValueError("the columns of its tree are empty, or differ in length")
        for node, feature in enumerate(tree.feature):
            if feature >= len(FEATURES):
                raise ValueError(f"node {node} of its tree asks for feature {feature}")
            if feature < 0 and not 0 <= tree.left[node] < len(self.leaves):
                raise ValueError(f"node {node} of its tree leads to leaf {tree.left[node]}")
            # Children behind their parents: no walk goes round in circles.
            if feature >= 0 and not (node < tree.left[node] < n and node < tree.right[node] < n):
                raise ValueError(f"node {node} of its tree has children that do not come after it")
        if not self.codes or any(len(leaf.behind) != len(self.codes) for leaf in self.leaves):
            raise ValueError(f"it has {len(self.codes)} codes, and leaves that know another number")

    @cached_property
    def columns(self) -> _Columns:
        """What the kernels take beside a row."""
        tree = self.tree
        return (
            np.array([one.low for one in self.features]),
            np.array([one.high for one in self.features]),
            np.array(tree.feature, dtype=np.int32),
            np.array(tree.threshold, dtype=np.float64),
            np.array(tree.left, dtype=np.int32),
            np.array(tree.right, dtype=np.int32),
        )

    def leaf(self, row: NDArray[np.float64]) -> int:
        """The place of the leaf of a row of ``FEATURES``; −1 − i where feature i is outside its range."""
        return leaf_of(row, *self.columns)


def read(path: Path = SHIPPED) -> Learnt:
    """The artefact in a file; raises ``ParameterError`` with what is wrong with it."""
    where, remedy = f"advice {path.name}", "name another file in tuning.advice_file, or none"
    try:
        with path.open("rb") as file:
            body = file.read(MOST_BYTES + 1)
        if len(body) > MOST_BYTES:
            rule = f"an artefact has at most {MOST_BYTES}"
            raise ParameterError(where, f"more than {MOST_BYTES} bytes", rule, remedy)
        return msgspec.json.decode(body, type=Learnt)
    except FileNotFoundError as error:
        remedy = f"run ecntwin advice train, or {remedy}"
        raise ParameterError(where, None, "there is no such file", remedy) from error
    except OSError as error:
        raise ParameterError(where, None, f"it cannot be read ({error.strerror})", remedy) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ParameterError(where, None, str(error).removesuffix(" - at `$`"), remedy) from error
