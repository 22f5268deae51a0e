"""What learners share: agents by switch, exploration that decays, actions credited once they ran."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from bench.rivals.tuner import FabricFacts, Seen, Settings, Tuner
from bench.rivals.tuners.monitor import SLOTS, Monitor, feature_names, rewards
from bench.rivals.tuners.networks import Reals
from bench.rivals.tuners.policy import Policy
from twin.watermark import Watermark

FIRST_EXPLORATION = 0.2  # [O] for ACC online; PET's ε by its other use as the clip [P]


def exploration(steps: int) -> float:
    """PET's Eq. 13 [P]: ε · 0.99^(t ÷ 50) once t > 50; halves each 3 448 steps and never rises."""
    return FIRST_EXPLORATION * (1.0 if steps <= 50 else 0.99 ** (steps / 50))


class Mode(Enum):
    """How far a learner learns."""

    FROZEN = "frozen"  # the trained policy, its best action each time
    ONLINE = "online"  # a copy of it a switch, each trained on
    OFFLINE = "offline"  # one agent for all queues, kept from run to run


class Crew:
    """Which rows of which agent the queues are: arrays [queue, ...] to [agent, row, ...] and back.

    Agents with fewer queues than others have rows that stand for none; ``there`` says which stand for one.
    """

    def __init__(self, agent_of: Sequence[str]) -> None:
        names = list(dict.fromkeys(agent_of))
        self._agent = np.array([names.index(one) for one in agent_of])
        counts = np.bincount(self._agent)
        self._row = np.zeros(len(agent_of), dtype=np.int64)
        for agent, count in enumerate(counts.tolist()):
            self._row[self._agent == agent] = np.arange(count)
        self.agents, self.rows = len(names), int(counts.max())
        self._at = np.zeros((self.agents, self.rows), dtype=np.int64)
        self.there = np.zeros((self.agents, self.rows), dtype=np.bool_)
        self._at[self._agent, self._row] = np.arange(len(agent_of))
        self.there[self._agent, self._row] = True

    def spread(self, of_queues: NDArray[Any]) -> NDArray[Any]:
        return of_queues[self._at]

    def gather(self, of_agents: NDArray[Any]) -> NDArray[Any]:
        found: NDArray[Any] = of_agents[self._agent, self._row]
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """Actions by number [agent, row], the log of how likely they were under ε, and which were tries."""

    action: NDArray[np.int64]
    log_likelihood: Reals
    epsilon: float
    tried: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One interval of all agents: [agent, row, feature] states before and after, [agent, row] the others."""

    state: Reals
    choice: Choice
    reward: Reals
    following: Reals
    busy: NDArray[np.bool_]


class Learner(Tuner):
    """Chooses a watermark for each queue from its own state; an agent is a switch and all its queues.

    An action is paid by the interval in which it runs, which a push delay puts off. Without a policy it
    begins with drawn weights. ``seed`` of ``begin`` draws all that is random, except offline: there the
    learner is drawn once, from ``first_seed``.
    """

    kind: ClassVar[str]
    actions: ClassVar[tuple[Watermark, ...]]

    def __init__(
        self,
        mode: Mode,
        policy: Policy | None = None,
        *,
        flows: bool,
        score: str,
        reward: tuple[float, float],
        first_seed: int = 0,
    ) -> None:
        self.mode, self.policy, self.flows, self.score = mode, policy, flows, score
        self.reward = reward if policy is None else policy.reward
        self.steps = 0
        self.transitions = 0
        if mode is Mode.OFFLINE:
            self.draws = np.random.default_rng(first_seed)
            self.drawn(1)

    @property
    def features(self) -> tuple[str, ...]:
        return feature_names(flows=self.flows)

    @property
    def inputs(self) -> int:
        return SLOTS * len(self.features)

    def begin(self, facts: FabricFacts, seed: int) -> Settings:
        self.facts = facts
        self.exploring = False
        self.exchanged_bytes = 0
        self._monitor = Monitor(facts, flows=self.flows)
        self.crew = Crew(["all"] * len(facts.queues) if self.mode is Mode.OFFLINE else facts.switch)
        self._late = round(facts.delay_s / facts.interval_s)
        self._pending: deque[tuple[Reals, Choice]] = deque()
        if self.mode is not Mode.OFFLINE:
            self.draws = np.random.default_rng(seed)
            self.steps = self.transitions = 0
            self.drawn(self.crew.agents)
        self.begun()
        return Settings(facts.incumbent)

    def act(self, seen: Seen) -> Settings:
        state = self.crew.spread(self._monitor.after(seen)).astype(np.float32)
        if self.mode is not Mode.FROZEN:
            self._credit(seen, state)
        choice = self.choose(state)
        if self.mode is not Mode.FROZEN:
            self._pending.append((state, choice))
            self.exploring = bool((choice.tried & self.crew.there).any())
        self.steps += 1
        return Settings(tuple(self.actions[one] for one in self.crew.gather(choice.action).tolist()))

    def _credit(self, seen: Seen, state: Reals) -> None:
        if len(self._pending) <= self._late:
            return
        then, choice = self._pending.popleft()
        following = self._pending[0][0] if self._pending else state
        earned, busy = rewards(self.facts, seen, self.reward, self.score)
        step = Step(
            then,
            choice,
            self.crew.spread(earned).astype(np.float32),
            following,
            self.crew.spread(busy) & self.crew.there,
        )
        self.transitions += int(step.busy.sum())
        self.learn(step)

    @abstractmethod
    def drawn(self, agents: int) -> None:
        """Makes the networks of so many agents, from the policy or from ``self.draws``."""

    @abstractmethod
    def begun(self) -> None:
        """A run begins."""

    @abstractmethod
    def choose(self, state: Reals) -> Choice:
        """Actions for these states."""

    @abstractmethod
    def learn(self, step: Step) -> None:
        """Learns from an interval."""

    @abstractmethod
    def trained(self) -> Policy:
        """What offline training has come to, without provenance."""

    def checkpoint(self) -> dict[str, Any]:
        """Arrays that ``resume`` goes on from, between runs offline."""
        return {
            "draws": np.array(json.dumps(self.draws.bit_generator.state)),
            "counts": np.array([self.steps, self.transitions]),
        }

    def resume(self, arrays: Mapping[str, Any]) -> None:
        """Goes on as if it had never stopped where ``checkpoint`` was taken."""
        self.draws.bit_generator.state = json.loads(str(arrays["draws"]))
        self.steps, self.transitions = arrays["counts"].tolist()
