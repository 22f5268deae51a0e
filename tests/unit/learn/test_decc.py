"""DECC's learner: rewards by hand, and what pruning and quantisation keep."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize

from bench.rivals.tuners.networks import Mlp, Reals
from learn import compress, decc
from twin.packet.policies import DECISION
from twin.senders.rtt import DECC_INPUTS, INPUTS, OF_PERIOD, PERIODS

FIRST = DECISION.index(INPUTS[0])


def decision(flow: int, time_s: float, goodput: list[float], inflation: float, rate: float) -> list[float]:
    """Of a flow without loss whose goodputs of five periods are these, the last one first."""
    found = [0.0] * (FIRST + len(DECC_INPUTS))
    found[:FIRST] = [flow, time_s, 0.0, inflation]
    found[FIRST : FIRST + PERIODS * len(OF_PERIOD) : len(OF_PERIOD)] = goodput
    found[FIRST + OF_PERIOD.index("rate")] = rate
    return found


def test_rewards_by_hand() -> None:
    decisions = np.array(
        [
            decision(7, 1e-5, [0.5] * 5, 1.0, 0.5),
            decision(9, 2e-5, [0.3, 0.1, 0.3, 0.1, 0.2], 3.0, 0.4),
            decision(7, 3e-5, [0.5] * 5, 1.0, 0.5),
            decision(9, 4e-5, [0.3, 0.1, 0.3, 0.1, 0.2], 1.0, 0.4),
        ]
    )
    reward, seen = decc.rewards(decisions)
    spread = np.std([0.3, 0.1, 0.3, 0.1, 0.2]) / 0.2
    # One flow alone; then both: RTT 2 of which 0.9 count, averages 0.5 and 0.2 around 0.35; and last flow 9.
    assert reward[0] == pytest.approx(0.1 * 0.5)
    both = 0.1 * 0.8 - 0.02 * 0.9 - 0.02 * 2 * 0.15 - 0.01 * spread / 2
    assert reward[1] == pytest.approx(both)
    assert reward[3] == pytest.approx(0.1 * 0.3 - 0.01 * spread)
    np.testing.assert_allclose(np.expm1(seen[1])[[0, 1, 2, 3, 8]], [0.8, 0.3, 0.5, 2.0, 2 / 32])


def test_a_transition_is_paid_by_the_period_that_its_action_made() -> None:
    rng = np.random.default_rng(1)
    decisions = decc.episode(decc.policy_of(drawn(rng).weights[::2], explore=1.0), 3, rng)
    decisions[:, FIRST:] += rng.normal(0.0, 1e-3, decisions[:, FIRST:].shape)  # no state twice
    replay = decc.Replay.empty()
    replay.add(decisions, rng)
    reward, _ = decc.rewards(decisions)
    assert np.array_equal(replay.latest(5), replay.rows[replay.size - 5 : replay.size])
    n_state = 9 + len(DECC_INPUTS)
    state, inputs = replay.rows[: replay.size, 9:n_state], decisions[:, FIRST:].astype(np.float32)
    after = replay.rows[: replay.size, n_state + 2 + 9 :]
    for k in range(0, replay.size, 17):
        [now] = np.flatnonzero((inputs == state[k]).all(axis=1))
        [then] = np.flatnonzero((inputs == after[k]).all(axis=1))
        same = np.flatnonzero(decisions[:, 0] == decisions[now, 0])
        assert then == same[np.searchsorted(same, now) + 1]
        assert replay.rows[k, n_state] == pytest.approx(decisions[now, DECISION.index("action")])
        assert replay.rows[k, n_state + 1] == pytest.approx(reward[then], abs=1e-6)


def drawn(rng: np.random.Generator) -> Mlp:
    return Mlp.drawn(rng, (len(DECC_INPUTS), 24, 12, 1), "relu")


def kept_of(seed: int) -> list[Reals]:
    weights = [one.astype(np.float64) for one in drawn(np.random.default_rng(seed)).weights[::2]]
    masks, _ = compress.masks_of(weights, 0.65)
    return [weight * mask for weight, mask in zip(weights, masks, strict=True)]


@pytest.mark.parametrize("bits", [2, 4])
def test_steps_of_layers_are_the_numerical_optimum(bits: int) -> None:
    kept = kept_of(3)
    found = compress.layer_steps(kept, bits)
    counts = [(one[0] != 0).sum(axis=0) for one in kept]
    spans = [2 * np.abs(one[0]).max(axis=0) for one in kept]
    total = sum(count.sum() for count in counts)

    def levels(logs: NDArray[np.float64]) -> float:
        parts = zip(counts, spans, np.exp(logs), strict=True)
        return float(sum((count * span / step).sum() for count, span, step in parts) / total)

    best = minimize(
        lambda logs: float(np.exp(2 * logs).sum()) * 100,
        np.log([0.05] * len(kept)),
        constraints={"type": "eq", "fun": lambda logs: np.log2(levels(logs)) - bits},
        method="SLSQP",
        options={"ftol": 1e-12, "maxiter": 300},
    )
    assert best.success
    np.testing.assert_allclose(found, np.exp(best.x), rtol=1e-3)


def test_balanced_layers_act_as_before() -> None:
    rng = np.random.default_rng(5)
    actor = drawn(rng)
    actor.weights[2] *= np.float32(1e-2)
    inputs = rng.uniform(0, 2, (1, 50, len(DECC_INPUTS))).astype(np.float32)
    before = actor(inputs)
    actor.weights[::2] = compress.balanced(actor.weights[::2])
    np.testing.assert_allclose(actor(inputs), before, rtol=1e-4)
    sizes = [float(np.sqrt(np.mean(one**2))) for one in actor.weights[::2]]
    np.testing.assert_allclose(sizes, sizes[0], rtol=1e-5)


def test_the_threshold_is_a_quantile_of_all_weights() -> None:
    weights = drawn(np.random.default_rng(2)).weights[::2]
    masks, threshold = compress.masks_of(weights, 0.65)
    sizes = np.concatenate([np.abs(one).ravel() for one in weights])
    assert np.mean(np.concatenate([one.ravel() for one in masks])) == pytest.approx(0.35, abs=0.01)
    assert np.mean(sizes < threshold) == pytest.approx(0.65, abs=0.01)
    laplace = np.random.default_rng(3).laplace(0.0, 0.1, (1, 400, 400))
    assert compress.laplace_threshold([laplace], 0.65) == pytest.approx(
        compress.masks_of([laplace], 0.65)[1], rel=0.01
    )


def test_what_is_left_is_whole_steps_of_few_weights_and_acts_alike() -> None:
    rng = np.random.default_rng(4)
    actor = drawn(rng)
    inputs = rng.uniform(0, 2, (2_000, len(DECC_INPUTS))).astype(np.float32)
    found = compress.compressed(actor, inputs, rng, updates=600)
    masks, _ = compress.masks_of(compress.balanced(actor.weights[::2]), compress.PRUNED)
    for layer, mask, step in zip(found.layers, masks, found.steps, strict=True):
        assert np.all(layer[mask == 0] == 0)
        np.testing.assert_allclose(layer / step, np.rint(layer / step), atol=1e-3)
    assert found.pruned >= 0.64
    assert found.bits == pytest.approx(compress.BITS, abs=0.5)
    hasty = compress.compressed(actor, inputs, rng, updates=1)
    assert found.of_range < 0.5 * hasty.of_range
    policy = decc.policy_of(found.layers, steps=found.steps)
    assert policy.form.steps == tuple(found.steps)


@pytest.mark.slow
def test_training_earns_more_and_repeats() -> None:
    earned: list[float] = []
    first, _ = decc.train(1, episodes=60, progress=lambda _, best: earned.append(best))
    assert earned[-1] > earned[0] + 0.01
    again, _ = decc.train(1, episodes=60)
    assert all(np.array_equal(one, other) for one, other in zip(first.weights, again.weights, strict=True))
