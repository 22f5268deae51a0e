"""Networks of learners: gradients against differences, Adam, one agent's rows apart from another's."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from bench.rivals.tuners import pet
from bench.rivals.tuners.networks import Activation, Adam, Mlp, Reals, log_softmax

STEP = 1e-6


def differences(of: Reals, loss: Callable[[], float]) -> Reals:
    """Slopes of a loss by each number of ``of``, which it reads."""
    found = np.zeros_like(of)
    for at in range(of.size):
        before = of.flat[at]
        of.flat[at] = before + STEP
        above = loss()
        of.flat[at] = before - STEP
        found.flat[at] = (above - loss()) / (2 * STEP)
        of.flat[at] = before
    return found


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_gradients_are_those_of_the_loss(activation: Activation) -> None:
    draws = np.random.default_rng(1)
    network = Mlp.drawn(draws, (5, 7, 6, 4), activation, agents=2, dtype=np.float64)
    for weight in network.weights:
        weight += draws.normal(0.0, 0.3, weight.shape)  # agents that differ, biases that are not 0
    inputs, scale = draws.normal(size=(2, 9, 5)), draws.normal(size=(2, 9, 4))

    def loss() -> float:
        return float((scale * network(inputs) ** 2 / 2).sum())

    layers = network.layers(inputs)
    gradients = network.gradients(layers, scale * layers[-1])
    for weight, gradient in zip(network.weights, gradients, strict=True):
        assert np.abs(gradient).max() > 0.1
        assert gradient == pytest.approx(differences(weight, loss), abs=1e-6)
    by_inputs = network.by_inputs(layers, scale * layers[-1])
    assert by_inputs == pytest.approx(differences(inputs, loss), abs=1e-6)


def test_the_slope_of_ppo_is_that_of_its_clipped_objective() -> None:
    draws = np.random.default_rng(1)
    shape = (2, 40)
    logits = draws.normal(size=(*shape, 65))
    action = draws.integers(len(pet.ACTIONS), size=shape)
    epsilon, weight = np.full(shape, 0.2), np.full(shape, 1 / 40)
    likelihood, _ = pet.mixture(*pet.heads(logits), action, epsilon)
    # Ratios on both sides of the clip.
    old, advantage = np.log(likelihood) + draws.normal(0.0, 0.3, shape), draws.normal(size=shape)

    def objective() -> float:
        ratio = pet.mixture(*pet.heads(logits), action, epsilon)[0] / np.exp(old)
        clipped = np.clip(ratio, 1 - pet.CLIP, 1 + pet.CLIP)
        return float((weight * np.minimum(ratio * advantage, clipped * advantage)).sum())

    slope = pet.surrogate_slope(logits, action, old, epsilon, advantage, weight)
    clipped = (slope == 0).all(axis=2)
    assert 0.1 < clipped.mean() < 0.9
    assert -slope == pytest.approx(differences(logits, objective), abs=1e-7)


def test_adam_finds_a_minimum_and_leaves_an_agent_without_slope_alone() -> None:
    network = Mlp([np.array([[[3.0]], [[3.0]]]), np.zeros((2, 1, 1))], "relu")
    adam = Adam(network, 0.05)
    inputs, wanted = np.ones((2, 1, 1)), np.array([[[-1.0]], [[3.0]]])
    for _ in range(500):
        layers = network.layers(inputs)
        adam.step(network.gradients(layers, layers[-1] - wanted))
    assert network(inputs) == pytest.approx(wanted, abs=1e-3)
    assert network.weights[0][1] == 3.0


def test_a_network_is_the_same_from_the_same_seed_and_alike_for_all_agents() -> None:
    first, again, other = (
        Mlp.drawn(np.random.default_rng(seed), (3, 4, 2), "tanh", agents=2) for seed in (1, 1, 2)
    )
    inputs = np.ones((2, 1, 3), dtype=np.float32)
    assert (first(inputs) == again(inputs)).all()
    assert (first(inputs) != other(inputs)).any()
    assert (first(inputs)[0] == first(inputs)[1]).all()


def test_log_softmax_stands_large_logits() -> None:
    assert np.exp(log_softmax(np.array([1e4, 1e4, -1e4]))) == pytest.approx([0.5, 0.5, 0.0])


def test_advantages_are_one_step_or_summed_until_an_idle_interval() -> None:
    off = np.array([[[1.0], [2.0], [4.0], [8.0]]])
    busy = np.array([[[True], [True], [False], [True]]])
    assert pet.advantages(off, busy, 0.0).ravel().tolist() == [1.0, 2.0, 0.0, 8.0]
    assert pet.advantages(off, busy, 0.5).ravel().tolist() == [2.0, 2.0, 0.0, 8.0]
    assert pet.advantages(off, np.ones_like(busy), 0.5).ravel().tolist() == [4.0, 6.0, 8.0, 8.0]
