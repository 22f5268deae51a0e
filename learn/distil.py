"""Boosted trees that imitate a network, on what the network itself sees (RL-CC, figure 5; DECC, section 3.3).

Needs scikit-learn, the extra ``learn``.
"""

from __future__ import annotations

import sys

import numpy as np
from numpy.typing import NDArray

try:
    from sklearn.ensemble import GradientBoostingRegressor
    from sklearn.tree._tree import Tree
except ModuleNotFoundError:
    sys.exit("learn.distil: scikit-learn is not installed; scripts/setup installs it")

from twin.senders.rtt import Node, Trees

LEARNING_RATE = 0.3
LEAST_LEAF = 20


def boosted(
    inputs: NDArray[np.float64], actions: NDArray[np.float64], *, trees: int, depth: int, seed: int
) -> Trees:
    """So many trees of that depth, fitted to ``actions[row]`` at ``inputs[row]`` by least squares."""
    return fitted(inputs, actions, trees=trees, depth=depth, seed=seed)[0]


def fitted(
    inputs: NDArray[np.float64], actions: NDArray[np.float64], *, trees: int, depth: int, seed: int
) -> tuple[Trees, GradientBoostingRegressor]:
    """``boosted``, and the model of scikit-learn that it is."""
    model = GradientBoostingRegressor(
        n_estimators=trees,
        max_depth=depth,
        learning_rate=LEARNING_RATE,
        min_samples_leaf=LEAST_LEAF,
        random_state=seed,
    ).fit(inputs, actions)
    return Trees(
        tuple(_nodes(tree.tree_) for (tree,) in model.estimators_), float(model.init_.constant_[0, 0])
    ), model


def _nodes(tree: Tree) -> tuple[Node, ...]:
    columns = (tree.feature, tree.threshold, tree.value[:, 0, 0], tree.children_left, tree.children_right)
    return tuple(
        Node(-1, LEARNING_RATE * float(value))
        if left < 0
        else Node(int(split), float(cut), int(left), int(right))
        for split, cut, value, left, right in zip(*columns, strict=True)
    )
