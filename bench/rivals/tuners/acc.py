"""ACC (SIGCOMM 2021): a double DQN a switch, with memories that switches exchange.

[P: PET section 4.3.1] printed of it in PET's paper, [N] reading notes, [A] abstract, [O] our choice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.rivals.tuner import Looks
from bench.rivals.tuners.agents import Choice, Learner, Mode, Step, exploration
from bench.rivals.tuners.monitor import LADDER_BYTES
from bench.rivals.tuners.networks import Adam, Mlp, Reals
from bench.rivals.tuners.policy import Policy
from twin.watermark import Watermark

KMAX_BYTES = (1_000_000, 2_000_000, 5_000_000, 10_000_000)  # [N]
PMAX = (0.01, 0.05, 0.1, 0.2, 0.5, 1.0)  # [O] its steps are unreadable
ACTIONS = tuple(  # 30 pairs × 6
    Watermark(int(kmin), kmax, pmax)
    for kmin in LADDER_BYTES.tolist()
    for kmax in KMAX_BYTES
    if kmin < kmax
    for pmax in PMAX
)
REWARD = (0.3, 0.7)  # [P: PET section 5.2] of WebSearch; (0.7, 0.3) of DataMining

# All [O]:
HIDDEN = (64, 64)
DISCOUNT = 0.5  # at 0.9 it missed the toy's optimum by over 5 % in 5 of 8 trials, at 0.5 in none
RATE = 1e-3
MINIBATCH = 32  # half from the shared memory
MEMORY = 2_000
PUBLISHED_EVERY, PUBLISHED_SHARE = 100, 0.1
TARGET_EVERY = 100
OFFLINE_EXPLORATION = (1.0, 0.05)  # falls in a line over the first ...
OFFLINE_STEPS = 10_000  # ... intervals


class Rows(NamedTuple):
    """Transitions: states [..., feature] before and after; action and reward [...]."""

    state: Reals
    action: NDArray[np.int64]
    reward: Reals
    following: Reals

    @classmethod
    def none(cls, inputs: int) -> Rows:
        empty = np.zeros((0, inputs), dtype=np.float32)
        return cls(empty, np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float32), empty)

    @classmethod
    def joined(cls, all_of: Sequence[Rows]) -> Rows:
        columns: Any = [np.concatenate(each) for each in zip(*all_of, strict=True)]
        return cls(*columns)

    @property
    def length(self) -> int:
        return int(self.reward.size)

    @property
    def wire_bytes(self) -> int:
        """Its size when sent: 32-bit numbers, 16 bits an action."""
        return self.length * (4 * 2 * int(self.state.shape[-1]) + 2 + 4)


class Memory:
    """The last ``capacity`` transitions of each agent, in rings."""

    def __init__(self, agents: int, capacity: int, inputs: int) -> None:
        self.agents, self._capacity = agents, capacity
        self._rows = Rows(
            np.zeros((agents, capacity, inputs), dtype=np.float32),
            np.zeros((agents, capacity), dtype=np.int64),
            np.zeros((agents, capacity), dtype=np.float32),
            np.zeros((agents, capacity, inputs), dtype=np.float32),
        )
        self._added = np.zeros(agents, dtype=np.int64)

    @property
    def sizes(self) -> NDArray[np.int64]:
        return np.minimum(self._added, self._capacity)

    def add(self, agent: int, rows: Rows) -> None:
        at = (self._added[agent] + np.arange(rows.length)) % self._capacity
        for ring, column in zip(self._rows, rows, strict=True):
            ring[agent, at] = column
        self._added[agent] += rows.length

    def _taken(self, *at: Any) -> Rows:
        columns: Any = [ring[at] for ring in self._rows]
        return Rows(*columns)

    def newest(self, agent: int, share: float) -> Rows:
        """The newest ``share`` of the agent's transitions."""
        count = round(share * int(self.sizes[agent]))
        at = (self._added[agent] - 1 - np.arange(count)) % self._capacity
        return self._taken(agent, at)

    def drawn(self, draws: np.random.Generator, count: int) -> Rows:
        """``count`` transitions of each agent, drawn at random with replacement."""
        most = np.maximum(self.sizes, 1)[:, None]
        at = (draws.random((self.agents, count)) * most).astype(np.int64)
        agent = np.arange(self.agents)[:, None]
        return self._taken(agent, at)

    def arrays(self) -> dict[str, Any]:
        return {f"memory.{i}": ring for i, ring in enumerate(self._rows)} | {"memory.added": self._added}

    def remember(self, arrays: Mapping[str, Any]) -> None:
        self._rows = Rows(*(arrays[f"memory.{i}"].copy() for i in range(len(self._rows))))
        self._added = arrays["memory.added"].copy()


class Acc(Learner):
    """Double DQN. Offline one agent stands for all switches: with their memories and minibatches together.

    A publication reaches every other switch; ``exchanged_bytes`` counts its rows once for each.
    """

    kind: ClassVar[str] = "acc"
    actions: ClassVar[tuple[Watermark, ...]] = ACTIONS
    looks: ClassVar[Looks] = Looks.COUNTERS

    def __init__(
        self,
        mode: Mode,
        policy: Policy | None = None,
        *,
        reward: tuple[float, float] = REWARD,
        first_seed: int = 0,
        switches: int = 1,
    ) -> None:
        """``switches``: how many train together, offline."""
        self._switches = switches
        super().__init__(mode, policy, flows=False, score="delay", reward=reward, first_seed=first_seed)

    @property
    def epsilon(self) -> float:
        """The probability of a random action now."""
        if self.mode is Mode.FROZEN:
            return 0.0
        if self.mode is Mode.ONLINE:
            return exploration(self.steps)
        first, last = OFFLINE_EXPLORATION
        return max(last, first + (last - first) * self.steps / OFFLINE_STEPS)

    def drawn(self, agents: int) -> None:
        sizes = (self.inputs, *HIDDEN, len(ACTIONS))
        if self.policy is None:
            self._network = Mlp.drawn(self.draws, sizes, "relu", agents=agents, last_gain=0.01)
        else:
            self._network = Mlp.named(self.policy.arrays, "q", "relu").copied(agents)
        self._target = Mlp([one.copy() for one in self._network.weights], "relu")
        self._adam = Adam(self._network, RATE)
        self._updates = 0
        self._memory = Memory(agents, MEMORY * self._switches, self.inputs)
        self._shared: list[Rows] = [Rows.none(self.inputs)] * agents

    def begun(self) -> None:
        """Nothing to forget between runs offline: the memory holds whole transitions."""

    def choose(self, state: Reals) -> Choice:
        action = self._network(state).argmax(axis=2)
        epsilon = self.epsilon
        tried = np.zeros(action.shape, dtype=np.bool_)
        if epsilon > 0:
            tried = self.draws.random(action.shape) < epsilon
            action = np.where(tried, self.draws.integers(len(ACTIONS), size=action.shape), action)
        return Choice(action, np.zeros(action.shape), epsilon, tried)

    def learn(self, step: Step) -> None:
        for agent, busy in enumerate(step.busy):
            self._memory.add(
                agent,
                Rows(
                    step.state[agent, busy],
                    step.choice.action[agent, busy],
                    step.reward[agent, busy],
                    step.following[agent, busy],
                ),
            )
        if len(step.busy) > 1 and self.steps % PUBLISHED_EVERY == 0:
            self._publish()
        self._update()

    def _publish(self) -> None:
        """Each agent's newest tenth replaces what it published before."""
        self._shared = [self._memory.newest(agent, PUBLISHED_SHARE) for agent in range(self._memory.agents)]
        sent = sum(one.wire_bytes for one in self._shared)
        self.exchanged_bytes += sent * (self._memory.agents - 1)

    def _update(self) -> None:
        size = MINIBATCH * self._switches
        sizes = self._memory.sizes
        ready = sizes >= size
        if not ready.any():
            return
        pool = Rows.joined(self._shared)
        local = size - (size // 2 if pool.length else 0)
        drawn = self._memory.drawn(self.draws, local)
        if pool.length:
            at = self.draws.integers(pool.length, size=(len(sizes), size - local))
            drawn = Rows(*(np.concatenate([a, b[at]], axis=1) for a, b in zip(drawn, pool, strict=True)))
        best = self._network(drawn.following).argmax(axis=2)[..., None]
        later = np.take_along_axis(self._target(drawn.following), best, axis=2)[..., 0]
        layers = self._network.layers(drawn.state)
        at_action = drawn.action[..., None]
        off = np.take_along_axis(layers[-1], at_action, axis=2)[..., 0] - (drawn.reward + DISCOUNT * later)
        by_outputs = np.zeros_like(layers[-1])
        np.put_along_axis(by_outputs, at_action, (off * ready[:, None] / size)[..., None], axis=2)
        self._adam.step(self._network.gradients(layers, by_outputs))
        self._updates += 1
        if self._updates % TARGET_EVERY == 0:
            self._target = Mlp([one.copy() for one in self._network.weights], "relu")

    def trained(self) -> Policy:
        return Policy(self.kind, self.features, self.reward, self._network.arrays("q"), {})

    def checkpoint(self) -> dict[str, Any]:
        return {
            **super().checkpoint(),
            **self._network.arrays("q"),
            **self._target.arrays("target"),
            **self._adam.arrays("adam"),
            **self._memory.arrays(),
            "updates": np.array(self._updates),
        }

    def resume(self, arrays: Mapping[str, Any]) -> None:
        super().resume(arrays)
        self._network = Mlp.named(arrays, "q", "relu")
        self._target = Mlp.named(arrays, "target", "relu")
        self._adam = Adam(self._network, RATE)
        self._adam.remember(arrays, "adam")
        self._memory.remember(arrays)
        self._updates = int(arrays["updates"])
