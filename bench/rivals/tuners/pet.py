"""PET (arXiv 2405.11956): independent PPO, an agent a switch, nothing exchanged.

[P] printed in the paper, [O] our choice where it does not say. What it leaves open or gets wrong, and what
is done here instead:

- ε is both PPO's clip and an exploration probability. The clip stays 0.2; actions are drawn from the mixture
  (1 − ε_t) π + ε_t · uniform, and it is the mixture whose likelihoods make up the ratio, new and old alike.
- One action a switch or a port? The policy is a switch's, applied to each egress queue with its own state.
- Which exploration the pre-trained copies begin with: Eq. 13 from its start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from bench.rivals.tuner import Looks
from bench.rivals.tuners.agents import Choice, Learner, Mode, Step, exploration
from bench.rivals.tuners.monitor import LADDER_BYTES
from bench.rivals.tuners.networks import Adam, Mlp, Reals, log_softmax
from bench.rivals.tuners.policy import Policy
from twin.watermark import Watermark

_RUNGS = len(LADDER_BYTES)
PAIRS = [(low, high) for low in range(_RUNGS) for high in range(low + 1, _RUNGS)]  # [P Eq. 4-5] 45
PMAX = tuple(step / 20 for step in range(1, 21))  # [P] steps of 5 %; [O] not 0
ACTIONS = tuple(
    Watermark(int(LADDER_BYTES[low]), int(LADDER_BYTES[high]), pmax) for low, high in PAIRS for pmax in PMAX
)
REWARD = (0.3, 0.7)  # [P section 5.2] of WebSearch; (0.7, 0.3) of DataMining

ACTOR_RATE, CRITIC_RATE = 4e-4, 1e-3  # [P]
CLIP = 0.2  # [P]
TRACE = 0.01  # [P] λ: one-step advantages
DISCOUNT = 0.99  # [O], as are those below
HIDDEN = (64, 64)
ROLLOUT = 128  # intervals
EPOCHS = 10


@dataclass(frozen=True, slots=True, eq=False)
class _Batch:
    """A rollout's rows, the busy ones first: [agent, row, ...], ``weight`` 0 beyond an agent's last."""

    state: Reals
    action: NDArray[np.int64]
    old: Reals
    epsilon: Reals
    advantage: Reals
    target: Reals
    weight: Reals


class Pet(Learner):
    """PPO with one head for the pair of thresholds and one for Pmax. Its variants:

    ``flows`` False leaves its two features out; ``trace`` 0.95 is the usual λ; ``score`` "delay" rewards with
    ACC's D(L) in place of 1 ÷ q̄.
    """

    kind: ClassVar[str] = "pet"
    actions: ClassVar[tuple[Watermark, ...]] = ACTIONS

    def __init__(
        self,
        mode: Mode,
        policy: Policy | None = None,
        *,
        flows: bool = True,
        trace: float = TRACE,
        score: str = "per-queue",
        reward: tuple[float, float] = REWARD,
        first_seed: int = 0,
    ) -> None:
        self.looks = Looks.FLOWS if flows else Looks.COUNTERS  # type: ignore[misc]
        self.trace = trace
        super().__init__(mode, policy, flows=flows, score=score, reward=reward, first_seed=first_seed)

    @property
    def epsilon(self) -> float:
        """The probability of a uniform action now."""
        return 0.0 if self.mode is Mode.FROZEN else exploration(self.steps)

    def drawn(self, agents: int) -> None:
        if self.policy is None:
            outputs = len(PAIRS) + len(PMAX)
            self._actor = Mlp.drawn(
                self.draws, (self.inputs, *HIDDEN, outputs), "tanh", agents=agents, last_gain=0.01
            )
            self._critic = Mlp.drawn(self.draws, (self.inputs, *HIDDEN, 1), "tanh", agents=agents)
        else:
            self._actor, self._critic = (
                Mlp.named(self.policy.arrays, name, "tanh").copied(agents) for name in ("actor", "critic")
            )
        self._adams = (Adam(self._actor, ACTOR_RATE), Adam(self._critic, CRITIC_RATE))

    def begun(self) -> None:
        self._rollout: list[Step] = []

    def choose(self, state: Reals) -> Choice:
        pairs, pmax = heads(self._actor(state))
        if self.mode is Mode.FROZEN:
            action = pairs.argmax(axis=2) * len(PMAX) + pmax.argmax(axis=2)
            shape = action.shape
            return Choice(action, np.zeros(shape), 0.0, np.zeros(shape, dtype=np.bool_))
        epsilon = self.epsilon
        by_policy = drawn_from(pairs, self.draws) * len(PMAX) + drawn_from(pmax, self.draws)
        tried = self.draws.random(by_policy.shape) < epsilon
        action = np.where(tried, self.draws.integers(len(ACTIONS), size=by_policy.shape), by_policy)
        likelihood, _ = mixture(pairs, pmax, action, epsilon)
        return Choice(action, np.log(likelihood), epsilon, tried)

    def learn(self, step: Step) -> None:
        self._rollout.append(step)
        if len(self._rollout) == ROLLOUT:
            batch = self._batch()
            self._rollout = []
            if batch is not None:
                for _ in range(EPOCHS):
                    self._epoch(batch)

    def _batch(self) -> _Batch | None:
        """None where nothing was busy."""
        steps = self._rollout
        busy = np.stack([one.busy for one in steps], axis=1)  # [agent, interval, row]
        most = int(busy.sum(axis=(1, 2)).max())
        if most == 0:
            return None
        state = np.stack([one.state for one in steps], axis=1)
        agents, intervals, rows, inputs = state.shape
        value = self._critic(state.reshape(agents, -1, inputs)).reshape(agents, intervals, rows)
        following = np.stack([one.following for one in steps], axis=1).reshape(agents, -1, inputs)
        later = self._critic(following).reshape(agents, intervals, rows)
        off = np.stack([one.reward for one in steps], axis=1) + DISCOUNT * later - value
        advantage = advantages(off, busy, DISCOUNT * self.trace)
        epsilon = np.array([one.choice.epsilon for one in steps], dtype=np.float32)[None, :, None]
        first = np.argsort(~busy.reshape(agents, -1), axis=1, kind="stable")[:, :most]

        def kept(column: NDArray[Any]) -> NDArray[Any]:
            return np.take_along_axis(column.reshape(agents, -1), first, axis=1)

        weight = kept(busy).astype(np.float32)
        weight /= np.maximum(weight.sum(axis=1, keepdims=True), 1)
        chosen = kept(advantage)
        mean = (chosen * weight).sum(axis=1, keepdims=True)
        spread = np.sqrt(((chosen - mean) ** 2 * weight).sum(axis=1, keepdims=True))
        return _Batch(
            state=np.take_along_axis(state.reshape(agents, -1, inputs), first[..., None], axis=1),
            action=kept(np.stack([one.choice.action for one in steps], axis=1)),
            old=kept(np.stack([one.choice.log_likelihood for one in steps], axis=1)),
            epsilon=kept(np.broadcast_to(epsilon, busy.shape)),
            advantage=(chosen - mean) / (spread + 1e-8),
            target=chosen + kept(value),
            weight=weight,
        )

    def _epoch(self, batch: _Batch) -> None:
        layers = self._actor.layers(batch.state)
        by_logits = surrogate_slope(
            layers[-1], batch.action, batch.old, batch.epsilon, batch.advantage, batch.weight
        )
        self._adams[0].step(self._actor.gradients(layers, by_logits))
        layers = self._critic.layers(batch.state)
        off = (layers[-1][..., 0] - batch.target) * batch.weight
        self._adams[1].step(self._critic.gradients(layers, off[..., None]))

    def trained(self) -> Policy:
        arrays = {**self._actor.arrays("actor"), **self._critic.arrays("critic")}
        return Policy(self.kind, self.features, self.reward, arrays, {})

    def checkpoint(self) -> dict[str, Any]:
        return {
            **super().checkpoint(),
            **self._actor.arrays("actor"),
            **self._critic.arrays("critic"),
            **self._adams[0].arrays("adam0"),
            **self._adams[1].arrays("adam1"),
        }

    def resume(self, arrays: Mapping[str, Any]) -> None:
        super().resume(arrays)
        self._actor, self._critic = (Mlp.named(arrays, name, "tanh") for name in ("actor", "critic"))
        self._adams = (Adam(self._actor, ACTOR_RATE), Adam(self._critic, CRITIC_RATE))
        for number, one in enumerate(self._adams):
            one.remember(arrays, f"adam{number}")


def heads(logits: Reals) -> tuple[Reals, Reals]:
    """Log-probabilities of the pairs and of Pmax."""
    return log_softmax(logits[..., : len(PAIRS)]), log_softmax(logits[..., len(PAIRS) :])


def drawn_from(log_probability: Reals, draws: np.random.Generator) -> NDArray[np.int64]:
    """A number for each row, drawn by these log-probabilities."""
    noise = draws.gumbel(size=log_probability.shape)
    found: NDArray[np.int64] = (log_probability + noise).argmax(axis=-1)
    return found


def mixture(pairs: Reals, pmax: Reals, action: NDArray[np.int64], epsilon: Any) -> tuple[Reals, Reals]:
    """How likely an action is under the mixture, and which share of that is the policy's."""
    pair, step = np.divmod(action, len(PMAX))
    log_policy = (
        np.take_along_axis(pairs, pair[..., None], axis=-1)
        + np.take_along_axis(pmax, step[..., None], axis=-1)
    )[..., 0]
    by_policy = (1 - epsilon) * np.exp(log_policy)
    likelihood = by_policy + epsilon / len(ACTIONS)
    return likelihood, by_policy / likelihood


def advantages(off: Reals, busy: NDArray[np.bool_], decay: float) -> Reals:
    """Generalised advantages along axis 1 (Schulman et al., 2016); an idle interval ends a trace."""
    found = np.zeros_like(off)
    ahead = np.zeros_like(off[:, 0])
    for at in range(off.shape[1] - 1, -1, -1):
        ahead = np.where(busy[:, at], off[:, at] + decay * ahead, 0.0)
        found[:, at] = ahead
    return found


def surrogate_slope(
    logits: Reals, action: NDArray[np.int64], old: Reals, epsilon: Reals, advantage: Reals, weight: Reals
) -> Reals:
    """Derivative by the logits of −PPO's clipped objective (Eq. 11, which is maximised) [agent, row] summed
    by ``weight``.
    """
    pairs, pmax = heads(logits)
    likelihood, of_policy = mixture(pairs, pmax, action, epsilon)
    ratio = likelihood / np.exp(old)
    moves = np.where(advantage > 0, ratio < 1 + CLIP, ratio > 1 - CLIP)
    by_log_policy = (-weight * advantage * ratio * of_policy * moves)[..., None]
    pair, step = np.divmod(action, len(PMAX))
    parts = []
    for log_probability, chosen in ((pairs, pair), (pmax, step)):
        part = -np.exp(log_probability) * by_log_policy
        at = chosen[..., None]
        np.put_along_axis(part, at, np.take_along_axis(part, at, axis=-1) + by_log_policy, axis=-1)
        parts.append(part)
    found: Reals = np.concatenate(parts, axis=-1)
    return found
