"""One cost-sensitive decision tree over the regrets of codes; scikit-learn (extra ``learn``) grows it.

A forest learns the regrets first. The tree learns from it, also between the examples, where it says more
than they do (Breiman and Shang, "Born again trees", 1996).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from twin.advice.artefact import SCHEMA, Feature, Leaf, Learnt, Tree
from twin.advice.codebook import Code
from twin.advice.features import FEATURES, running_features
from twin.advice.labelled import Labelled
from twin.advice.lessons import Lesson
from twin.search.gain import POLICIES, Policy

if TYPE_CHECKING:
    from sklearn.tree import DecisionTreeRegressor

FOREST, FOREST_FEATURES = 20, 0.5  # trees, and the share of features that each split may choose from
DEPTH = 14
LEAST_LEAF = 20  # times the rows of a state; in the forest once
MIXED, KEPT_SHARE = 2, 0.7  # times as many rows between examples, with so much of one and the rest of another
INCUMBENTS = 4  # of each state: the drawn one, and codes
CALIBRATED = 0.35  # of the states; the others grow the tree
COVERED = 0.9
OWN = "own"  # the family of a service's own rounds
MOST_REGRET = 1.0  # the tree grows as if no code were further behind: it tells the good ones apart
FAILED = 2.0  # how far behind the incumbent a failed run is
REGRET_LIMIT = 0.3  # about what nine of ten full runs over the codes lack on the next moment of traffic
_SURE = 0.03  # regret where none is expected, of which the bound is a multiple
_NEAREST = 0.1  # as Watermark.distance_to (a factor of e in one value is 1); nearer is not surer
_SLACK = 0.02  # of the trained range, by which a feature may leave it
_DIGITS = 5  # of a threshold or range in the file


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

    @classmethod
    def of_lessons(cls, lessons: Sequence[Lesson], codes: Sequence[Code], *, copies: int, first: int) -> Self:
        """Each round as a state, from the number ``first`` on, with ``copies`` rows, so that it counts like
        one that was drawn. What a code gains is told by all that the round tried, weighed by the inverse
        distance to the fourth.
        """
        made = [
            (x, behind, kept, first + number, OWN, copy == 0, behind, math.nan)
            for number, lesson in enumerate(lessons)
            for x, behind, kept in [_of_lesson(lesson, codes)]
            for copy in range(copies)
        ]
        return cls(*(np.array(column) for column in zip(*made, strict=True)))

    @classmethod
    def joined(cls, parts: Sequence[Rows]) -> Self:
        return cls(*(np.concatenate([getattr(part, one.name) for part in parts]) for one in fields(cls)))

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
    one, two = (
        np.nan_to_num([moment.gains(policy) for policy in policies], nan=-FAILED)
        for moment in (first, second)
    )
    mean, found = 0.5 * (one + two), []
    for at in [0, *others.tolist()]:
        behind, later = _behind(mean, at), _behind(two, at)
        full = later[np.arange(len(policies)), np.argmin(_behind(one, at), axis=1)]
        for place, policy in enumerate(policies):
            running = running_features(seen.queues[at], seen.marks[at], policy, seen.scales)
            row = np.concatenate((seen.fixed, running))
            lacks, kept = behind[place, :-1], behind[place, -1]
            drawn = seen is first and at == 0 and place == own
            found.append((row, lacks, kept, number, first.family, drawn, later[place, :-1], full[place]))
    return found


def _behind(gains: NDArray[np.float64], incumbent: int) -> NDArray[np.float64]:
    """How much the codes, and last the incumbent, gain less than the best of them [policy, choice].

    Gains over one incumbent tell those over another: all are logarithms.
    """
    choices = np.column_stack((gains[:, 1:], gains[:, incumbent]))
    found: NDArray[np.float64] = choices.max(axis=1, keepdims=True) - choices
    return found


def _of_lesson(lesson: Lesson, codes: Sequence[Code]) -> tuple[NDArray[np.float64], _Behind, float]:
    """Features, how far behind the best each code is, and what ran."""
    tried = np.array([one[:3] for one in lesson.tried], dtype=np.float64)
    gain = np.array([-FAILED if one[3] is None else one[3] for one in lesson.tried])
    marks = [code.watermark(lesson.bdp_bytes) for code in codes]
    asked = np.array([(one.kmin_bytes, one.kmax_bytes, one.pmax) for one in marks])
    apart = np.log(np.maximum(asked, 1e-9))[:, None, :] - np.log(np.maximum(tried, 1e-9))[None, :, :]
    distance = np.sqrt((apart**2).sum(axis=2))
    weight = 1.0 / np.maximum(distance, _NEAREST) ** 4
    told = (weight @ gain) / weight.sum(axis=1)
    best = max(0.0, float(told.max()))  # 0: what runs
    behind = best - told
    return np.array([lesson.features[name] for name in FEATURES]), behind, best


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

    def learnt(self, codes: Sequence[Code], provenance: dict[str, Any]) -> Learnt:
        """The artefact."""
        ranges = [Feature(one.name, _rounded(one.low), _rounded(one.high)) for one in self.ranges]
        short = [Code(*(_rounded(getattr(one, name)) for name in one.__struct_fields__)) for one in codes]
        return Learnt(SCHEMA, ranges, short, self.tree, self.leaves, REGRET_LIMIT, provenance)


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def drawn_to_calibrate(rows: Rows) -> NDArray[np.bool_]:
    """The rows of a part of the states, drawn at random."""
    chosen: NDArray[np.bool_] = np.random.default_rng(40).random(int(rows.state.max()) + 1) < CALIBRATED
    return chosen[rows.state]


def made(rows: Rows, calibrating: NDArray[np.bool_]) -> Made:
    """The tree grown on a part of the states, with bounds of regrets from the rest, which is ``calibrating``.

    The bound is the split-conformal one (Lei and others, JASA 2018) of the rest's regrets as multiples of
    what the leaf expects. Where own rounds come, they alone tell what to expect of the next.
    """
    from sklearn.tree import DecisionTreeRegressor

    grow, held = rows.where(~calibrating), rows.where(calibrating & rows.drawn)
    of_state = len(grow.x) / len(np.unique(grow.state))
    x, behind = _taught(grow, round(of_state))
    grown = DecisionTreeRegressor(
        max_depth=DEPTH, min_samples_leaf=round(LEAST_LEAF * of_state), random_state=0
    )
    grown.fit(x, behind)
    found = grown.tree_
    expected = found.value[:, :, 0]
    best = expected.argmin(axis=1)
    own, at_leaf = held.family == OWN, grown.apply(held.x)
    regrets = held.behind[np.arange(len(at_leaf)), best[at_leaf]]
    times = regrets / (expected[at_leaf].min(axis=1) + _SURE)
    bounds = {of_own: _bound(times[own == of_own]) for of_own in (True, False)}
    leaves, left, visited = list[Leaf](), found.children_left.copy(), set(at_leaf[own].tolist())
    for node in np.flatnonzero(found.children_left < 0).tolist():
        most = bounds[node in visited]
        bound = FAILED if most is None else most * (float(expected[node].min()) + _SURE)
        left[node] = len(leaves)
        leaves.append(Leaf(np.round(expected[node], 3).tolist(), round(bound, 3)))
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


def _taught(rows: Rows, of_state: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The rows and others between them, and how far behind a forest takes each code to be there.

    Rows whose codes differ more count for more, as in VIPER (Bastani and others, NeurIPS 2018).
    """
    from sklearn.ensemble import ExtraTreesRegressor

    target = np.minimum(rows.behind, MOST_REGRET)
    forest = ExtraTreesRegressor(
        FOREST, min_samples_leaf=of_state, max_features=FOREST_FEATURES, random_state=0
    )
    forest.fit(rows.x, target, sample_weight=np.ptp(target, axis=1) + 1e-3)
    rng = np.random.default_rng(1)
    one, other = (rng.integers(0, len(rows.x), MIXED * len(rows.x)) for _ in range(2))
    kept = rng.random((len(one), rows.x.shape[1])) < KEPT_SHARE
    x = np.concatenate([rows.x, np.where(kept, rows.x[one], rows.x[other])])
    return x, np.asarray(forest.predict(x))


def _bound(regrets: NDArray[np.float64]) -> float | None:
    """What nine of ten regrets do not exceed, that of a new state included; None where there are too few."""
    rank = math.ceil(COVERED * (len(regrets) + 1))
    return float(np.sort(regrets)[rank - 1]) if rank <= len(regrets) else None
