"""One cost-sensitive decision tree over the regrets of codes, and how it does on states it has not seen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray
from sklearn.tree import DecisionTreeRegressor

from learn.labels import Labelled
from twin.advice.artefact import Feature, Leaf, Tree
from twin.advice.features import FEATURES, running_features
from twin.search.gain import POLICIES, Policy

DEPTH, LEAST_LEAF = 10, 20  # states of a leaf, each of which brings several rows
INCUMBENTS = 4  # of each state: the drawn one, and codes
CALIBRATED = 0.35  # of the states; the others grow the tree
COVERED = 0.9
MOST_REGRET = 0.4  # the tree grows as if no code were further behind: it tells the good ones apart
FAILED = 2.0  # how far behind the incumbent a failed run is
_SLACK = 0.02  # of the trained range, by which a feature may leave it


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Examples: ``x`` [row, feature]; ``behind`` [row, code], how much a code gains less than the best of its
    state, and ``kept`` [row], how much the incumbent does, in the mean over two moments of its traffic; the
    place of the state and its family. ``drawn``: one row of each state, with the incumbent and the policy
    that it drew. ``later`` [row, code] is ``behind`` on the second moment alone, ``full`` [row] how much the
    best of the first moment is behind there: what a full run over the codes would lack.
    """

    x: NDArray[np.float64]
    behind: NDArray[np.float64]
    kept: NDArray[np.float64]
    state: NDArray[np.int64]
    family: NDArray[np.str_]
    drawn: NDArray[np.bool_]
    later: NDArray[np.float64]
    full: NDArray[np.float64]

    @classmethod
    def of(cls, first: Sequence[Labelled], second: Sequence[Labelled]) -> Rows:
        """Each state under several incumbents and every policy; of the same states two moments."""
        pairs = enumerate(zip(first, second, strict=True))
        made = [
            row
            for number, (one, two) in pairs
            for seen in (one, two)
            for row in _rows(number, seen, one, two)
        ]
        columns = (np.array(column) for column in zip(*made, strict=True))
        return cls(*columns)

    def where(self, chosen: NDArray[np.bool_]) -> Rows:
        return Rows(*(getattr(self, one.name)[chosen] for one in fields(self)))


_Behind = NDArray[np.float64]
_Row = tuple[NDArray[np.float64], _Behind, float, int, str, bool, _Behind, float]


def _rows(number: int, seen: Labelled, first: Labelled, second: Labelled) -> list[_Row]:
    """The rows of a state as one of its moments shows it."""
    rng = np.random.default_rng([first.seed, 30])
    others = 1 + rng.permutation(len(first.marks) - 1)[: INCUMBENTS - 1]
    policies: list[Policy] = list(POLICIES.values())
    own = int(rng.integers(len(policies)))
    found = []
    for at in [0, *others.tolist()]:
        for place, policy in enumerate(policies):
            one, two = (np.nan_to_num(moment.gains(policy), nan=-FAILED) for moment in (first, second))
            running = running_features(seen.queues[at], seen.marks[at], policy, seen.scales)
            row = np.concatenate((seen.fixed, running))
            behind, later = (_behind(gains, at) for gains in (0.5 * (one + two), two))
            full = later[int(np.argmin(_behind(one, at)))]
            drawn = seen is first and at == 0 and place == own
            found.append((row, behind[:-1], behind[-1], number, first.family, drawn, later[:-1], full))
    return found


def _behind(gains: NDArray[np.float64], incumbent: int) -> NDArray[np.float64]:
    """How much the codes, and last the incumbent, gain less than the best of them.

    Gains over one incumbent tell those over another: all are logarithms.
    """
    choices = np.append(gains[1:], gains[incumbent])
    found: NDArray[np.float64] = choices.max() - choices
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Made:
    """A tree with its leaves and the ranges of its features; ``grown`` is scikit-learn's own."""

    tree: Tree
    leaves: list[Leaf]
    ranges: list[Feature]
    grown: DecisionTreeRegressor

    def leaf_of(self, x: NDArray[np.float64]) -> NDArray[np.int64]:
        found: NDArray[np.int64] = np.array(self.tree.left)[self.grown.apply(x)]
        return found


def made(rows: Rows) -> Made:
    """The tree grown on a part of the states, with bounds of regrets from the rest.

    Rows whose codes differ more count for more, as in VIPER (Bastani and others, NeurIPS 2018). The bound is
    the split-conformal one (Lei and others, JASA 2018) of the rest's states in a leaf, or where these are too
    few, of its parent's, and so on.
    """
    rest = np.random.default_rng(40).random(int(rows.state.max()) + 1) < CALIBRATED
    calibrating = rest[rows.state]
    grow, held = rows.where(~calibrating), rows.where(calibrating & rows.drawn)
    target = np.minimum(grow.behind, MOST_REGRET)
    least = LEAST_LEAF * len(grow.x) / len(np.unique(grow.state))
    grown = DecisionTreeRegressor(max_depth=DEPTH, min_samples_leaf=round(least), random_state=0)
    grown.fit(grow.x, target, sample_weight=np.ptp(target, axis=1) + 1e-3)
    found = grown.tree_
    parent = np.full(found.node_count, -1)
    for children in (found.children_left, found.children_right):
        parent[children[children >= 0]] = np.flatnonzero(children >= 0)
    in_node = [grown.decision_path(one.x).toarray() > 0 for one in (grow, held)]
    leaves, left = [], found.children_left.copy()
    for node in np.flatnonzero(found.children_left < 0).tolist():
        behind = np.minimum(grow.behind[in_node[0][:, node]], FAILED).mean(axis=0)
        regrets, at, bound = held.behind[:, int(np.argmin(behind))], node, None
        while bound is None and at >= 0:
            bound, at = _bound(regrets[in_node[1][:, at]]), parent[at]
        left[node] = len(leaves)
        leaves.append(Leaf(np.round(behind, 3).tolist(), round(FAILED if bound is None else bound, 3)))
    tree = Tree(
        np.maximum(found.feature, -1).tolist(),
        found.threshold.tolist(),
        left.tolist(),
        found.children_right.tolist(),
    )
    low, high = rows.x.min(axis=0), rows.x.max(axis=0)
    slack = _SLACK * (high - low) + 1e-9
    ranges = zip(FEATURES, (low - slack).tolist(), (high + slack).tolist(), strict=True)
    return Made(tree, leaves, [Feature(*one) for one in ranges], grown)


def _bound(regrets: NDArray[np.float64]) -> float | None:
    """What nine of ten regrets do not exceed, that of a new state included; None where there are too few."""
    rank = math.ceil(COVERED * (len(regrets) + 1))
    return float(np.sort(regrets)[rank - 1]) if rank <= len(regrets) else None


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
    found = made(train)
    leaf, each = found.leaf_of(test.x), np.arange(len(test.x))
    code = np.array([int(np.argmin(one.behind)) for one in found.leaves])[leaf]
    static = int(np.argmin(np.minimum(train.behind, FAILED).mean(axis=0)))
    low, high = (np.array([getattr(one, end) for one in found.ranges]) for end in ("low", "high"))
    return Held(
        advised=test.behind[each, code],
        kept=test.kept,
        static=test.behind[:, static],
        in_range=((test.x >= low) & (test.x <= high)).all(axis=1),
        bound=np.array([one.regret for one in found.leaves])[leaf],
        later=test.later[each, code],
        full=test.full,
    )
