"""The learner's gradients against finite differences, and a few of its updates."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learn import rlcc

DECISIONS = st.lists(st.tuples(st.floats(-5, 5), st.floats(-0.99, 0.99)), min_size=2, max_size=12)


def loss_by_definition(signals: np.ndarray, actions: np.ndarray) -> float:
    n = len(actions)
    total = 0.0
    for t in range(n):
        ahead = np.mean([rlcc.DISCOUNT ** (k - t) * signals[k] for k in range(t, n)])
        total += actions[t] * ahead
        if t + 1 < n:
            total += 0.5 * np.mean((actions[t] - actions[t + 1 :]) ** 2)
    return total / n


@settings(max_examples=50)
@given(DECISIONS)
def test_the_loss_and_its_derivative_by_actions(decisions: list[tuple[float, float]]) -> None:
    signals, actions = (np.array(column) for column in zip(*decisions, strict=True))
    loss, gradient = rlcc.action_gradient(signals, actions)
    assert loss == pytest.approx(loss_by_definition(signals, actions), abs=1e-9)
    step = 1e-6
    for k in range(len(actions)):
        moved = np.eye(len(actions))[k] * step
        slope = loss_by_definition(signals, actions + moved) - loss_by_definition(signals, actions - moved)
        assert gradient[k] == pytest.approx(slope / (2 * step), abs=1e-6)


def test_the_derivative_by_weights() -> None:
    rng = np.random.default_rng(1)
    weights = rlcc.orthogonal(rng)
    inputs, by_action = rng.standard_normal((7, 4)), rng.standard_normal(7)

    def weighed() -> float:
        return float(np.dot(by_action, rlcc.actions_of(weights, inputs)))

    found = rlcc.network_gradient(weights, inputs, by_action)
    step = 1e-6
    for layer, gradient in zip(weights, found, strict=True):
        for place in [(0, 0), (0, layer.shape[1] - 1), (layer.shape[0] - 1, 1)]:
            layer[place] += step
            above = weighed()
            layer[place] -= 2 * step
            below = weighed()
            layer[place] += step
            assert gradient[place] == pytest.approx((above - below) / (2 * step), abs=1e-6)


def test_layers_begin_orthogonal() -> None:
    for layer in rlcc.orthogonal(np.random.default_rng(3)):
        square = layer @ layer.T if layer.shape[0] <= layer.shape[1] else layer.T @ layer
        np.testing.assert_allclose(square, np.eye(len(square)), atol=1e-12)


@pytest.mark.slow
def test_updates_lower_the_loss_and_repeat() -> None:
    losses: list[float] = []
    first = rlcc.train(1, updates=15, progress=lambda _, loss: losses.append(loss))
    assert np.mean(losses[-3:]) < np.mean(losses[:3])
    again = rlcc.train(1, updates=15)
    assert all(np.array_equal(one, other) for one, other in zip(first, again, strict=True))
