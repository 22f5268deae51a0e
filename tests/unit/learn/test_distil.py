"""Boosted trees as ecntwin evaluates them: as scikit-learn does."""

from __future__ import annotations

import numpy as np

from learn import distil
from tests.oracles import rtt_policy
from twin.senders.rtt import RttPolicy


def test_trees_are_those_of_scikit_learn() -> None:
    rng = np.random.default_rng(2)
    # Single precision, in which scikit-learn compares; many rows lie on a threshold's very value.
    inputs = np.round(rng.uniform(-2, 2, (10_000, 4)), 1).astype(np.float32).astype(np.float64)
    actions = np.tanh(inputs @ [0.1, -1.0, 0.2, 0.3])
    trees, model = distil.fitted(inputs[:4_000], actions[:4_000], trees=4, depth=3, seed=1)
    policy = RttPolicy(name="trees", form=trees)
    expected = np.clip(model.predict(inputs), -1, 1)
    found = [rtt_policy.action(policy, row) for row in inputs]
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert np.std(found) > 0.3
