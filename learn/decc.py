"""DECC's learner: a deterministic actor, critics that see the whole fabric, rollouts in the packet fabric.

Chen et al., Journal on Communications, 2025: state, action, reward (equations 3 to 8), constants (table 5);
what it leaves open is that of Astraea's public code (EuroSys 2024), whose formulation it follows. Rewards are
mended where signs and units contradict the text: latency costs nothing below (1 + β) · RTT0, and dispersions
are positive and subtracted. The paper's network has an LSTM; this one sees the five periods at once, as trees
must.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.rivals.tuners.networks import Adam, Mlp, Reals
from learn.compress import descend
from learn.rlcc import UNREAD, Lesson
from twin.packet.fabric import Fabric
from twin.packet.layout import PacketSettings
from twin.packet.plan import FabricPlan
from twin.packet.policies import DECISION
from twin.senders.artefact import Policy
from twin.senders.dcqcn import PAPER
from twin.senders.rtt import DECC_INPUTS, INPUTS, OF_PERIOD, PERIODS, DeccPolicy, Network
from twin.traffic.base import Traffic

Floats = NDArray[np.float64]
NAME = "decc"
WIDTHS = (len(DECC_INPUTS), 128, 64, 32, 16, 1)
CRITIC_WIDTHS = (128, 64, 32, 1)
FLOWS = (4, 8, 32)  # of a lesson
EPISODES, UPDATES = 400, 150  # of the critics, after each episode
WARM_UP, TRIED_EVERY = 24, 10  # episodes of random actions, and between trials of the actor
CRITICS_ALONE = 3_000  # updates before the actor's first
EPISODE_S, STARTS_S = 6e-3, 2e-3  # how long, and within what its flows begin
DISCOUNT, RATE, ACTOR_RATE, BATCH = 0.98, 0.001, 0.0003, 192
FOLLOWED, DELAY = 0.005, 10  # share that copies follow by an update, updates a step of the actor
TARGET_NOISE, MOST_NOISE = 0.1, 0.2  # of 2a, as all actions here
EXPLORE = (0.6, 0.1)  # after the warm-up, and in the last episode
WEIGHTS = (0.1, 0.02, 1.0, 0.02, 0.01)  # of throughput, latency, loss, unfairness, unsteadiness
SPARE_LATENCY, CLIP = 0.1, 0.1
SCALE = 10.0  # of rewards, as critics see them
EFFORT = 0.05  # what ½ (2a)² costs the actor: it stays off its bounds, where tanh has no slope
MOST_WORTH = SCALE * CLIP / (1.0 - DISCOUNT)
KEPT, OF_EPISODE = 200_000, 1_500  # transitions
LATEST = 60_000  # of which as many are of policies close to the last one

_FLOW, _TIME, _ACTION, _INFLATION = (DECISION.index(name) for name in DECISION[: -len(INPUTS)])
_FIRST = DECISION.index(INPUTS[0])
_GOODPUT, _LOSS, _RATE = (_FIRST + OF_PERIOD.index(name) for name in ("goodput", "loss", "rate"))
_OF_GLOBAL = 9


def policy_of(weights: Sequence[Reals], *, steps: Sequence[float] = (), explore: float = 0.0) -> DeccPolicy:
    """A network of matrices ``[1, input, output]``; with ``steps`` as whole numbers of them."""
    layers = [layer[0].T / step for layer, step in zip(weights, steps or [1.0] * len(weights), strict=True)]
    listed = [np.rint(one).astype(int).tolist() if steps else one.tolist() for one in layers]
    form = Network(tuple(tuple(map(tuple, layer)) for layer in listed), tuple(steps))
    return DeccPolicy(name=NAME, form=form, explore=explore)


def episode(policy: Policy, flows: int, rng: np.random.Generator) -> Floats:
    """Decisions of so many flows to one host that join, half of which end; ``[decision, column]`` in time."""
    lesson = Lesson(flows + 1, 1)
    ports = lesson.topology().ports
    senders = dict.fromkeys((f"h{number}" for number in range(flows + 1)), policy)
    plan = FabricPlan(ports=ports, dcqcn=PAPER, senders=senders)
    seldom = PacketSettings(queue_sample_s=1e-3)
    seed = int(rng.integers(1 << 31))
    fabric = Fabric(plan, watermark=UNREAD, seed=seed, settings=seldom, monitored=())
    share_bytes = ports[0].rate_bytes_per_s * EPISODE_S / flows
    payload = np.where(rng.random(flows) < 0.5, np.inf, share_bytes * rng.uniform(0.2, 1.0, flows))
    starts_s = np.sort(rng.uniform(0.0, STARTS_S, flows))
    fabric.offer(Traffic.independent(range(1, flows + 1), [0] * flows, payload.tolist(), starts_s))
    fabric.keep_decisions(100_000)
    fabric.advance(EPISODE_S)
    return fabric.decisions.copy()


def inputs_of(decisions: Floats) -> Floats:
    return decisions[:, _FIRST:]


def known_at(decisions: Floats) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The last decision of each flow at each decision ``[decision, flow]``, and whether the flow is there."""
    n = len(decisions)
    numbers, flow = np.unique(decisions[:, _FLOW], return_inverse=True)
    own = np.full((n, len(numbers)), -1)
    own[np.arange(n), flow] = np.arange(n)
    last = np.maximum.accumulate(own, axis=0)
    later = np.maximum.accumulate(own[::-1] >= 0, axis=0)[::-1]
    return last, (last >= 0) & later


def rewards(decisions: Floats) -> tuple[Floats, Floats]:
    """The reward of the period that ends with each decision, and what critics see besides.

    The latter ``[decision, 9]``, in logarithms: total, least and most goodput, mean latency, least, most and
    mean window, mean loss, flows. Base delay, buffer and line rate are the same in all lessons.
    """
    last, there = known_at(decisions)
    n = there.sum(axis=1)
    rows = decisions[last]
    past = rows[:, :, _GOODPUT : _GOODPUT + PERIODS * len(OF_PERIOD) : len(OF_PERIOD)]

    def mean(values: Floats) -> Floats:
        found: Floats = np.where(there, values, 0.0).sum(axis=1) / n
        return found

    def extremes(values: Floats) -> tuple[Floats, Floats]:
        return np.where(there, values, np.inf).min(axis=1), np.where(there, values, -np.inf).max(axis=1)

    goodput, latency, rate, loss = (rows[:, :, column] for column in (_GOODPUT, _INFLATION, _RATE, _LOSS))
    average = past.mean(axis=2)
    least = 1e-3  # of line rate, where shares are taken of a goodput
    mean_latency = mean(latency)
    # Times the largest rate ÷ line rate, which is 1 as flows begin at it; with the largest rate of the moment
    # a queue would cost N flows an N-th.
    late = np.maximum(mean_latency - 1.0 - SPARE_LATENCY, 0.0)
    spread = np.sqrt(mean((average - mean(average)[:, None]) ** 2)) * n
    unsteady = mean(past.std(axis=2) / np.maximum(average, least))
    lost = mean(loss / np.maximum(goodput, least))
    total = mean(goodput) * n
    parts = (total, -late, -lost, -spread, -unsteady)
    reward = sum(weight * part for weight, part in zip(WEIGHTS, parts, strict=True))
    window = rate * latency
    seen = (total, *extremes(goodput), mean_latency, *extremes(window), mean(window), mean(loss), n / 32.0)
    return np.clip(reward, -CLIP, CLIP), np.log1p(np.stack(seen, axis=1))


@dataclass(slots=True)
class Replay:
    """Transitions ``[row, columns]``: global and local state, action, reward, then both states after it."""

    rows: Reals
    size: int = 0
    at: int = 0

    @classmethod
    def empty(cls) -> Replay:
        return cls(np.zeros((KEPT, 2 * (_OF_GLOBAL + len(DECC_INPUTS)) + 2), dtype=np.float32))

    def add(self, decisions: Floats, rng: np.random.Generator) -> None:
        """Some of an episode's."""
        reward, seen = rewards(decisions)
        state = np.concatenate([seen, inputs_of(decisions)], axis=1)
        order = np.lexsort((decisions[:, _TIME], decisions[:, _FLOW]))
        same = np.flatnonzero(np.diff(decisions[order, _FLOW]) == 0)
        picked = rng.permutation(same)[:OF_EPISODE]
        now, then = order[picked], order[picked + 1]
        for k, j in zip(now.tolist(), then.tolist(), strict=True):
            self.rows[self.at] = np.concatenate([state[k], [decisions[k, _ACTION], reward[j]], state[j]])
            self.at = (self.at + 1) % KEPT
            self.size = min(self.size + 1, KEPT)

    def latest(self, count: int) -> Reals:
        """The last rows that were added, so many at most."""
        return np.roll(self.rows, -self.at, axis=0)[-min(count, self.size) :]

    def draw(self, rng: np.random.Generator) -> tuple[Reals, Reals, Reals, Reals]:
        """A batch: states, actions, rewards, states after them."""
        rows = self.rows[rng.integers(0, self.size, BATCH)]
        n = _OF_GLOBAL + len(DECC_INPUTS)
        return rows[:, :n], rows[:, n : n + 1], rows[:, n + 1 : n + 2], rows[:, n + 2 :]


class Learner:
    """An actor, two critics, and copies of them that follow slowly (TD3, Fujimoto et al., 2018)."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.actor = Mlp.drawn(rng, WIDTHS, "relu", last_gain=0.1)
        widths = (_OF_GLOBAL + len(DECC_INPUTS) + 1, *CRITIC_WIDTHS)
        two = [Mlp.drawn(rng, widths, "relu").weights for _ in range(2)]
        self.critics = Mlp([np.concatenate(pair) for pair in zip(*two, strict=True)], "relu")
        self.target_actor, self.target_critics = (
            Mlp([one.copy() for one in net.weights], "relu") for net in (self.actor, self.critics)
        )
        self._steps = [Adam(self.actor, ACTOR_RATE), Adam(self.critics, RATE)]
        self._n = 0

    def update(self, replay: Replay) -> None:
        """One step of the critics, and each ``DELAY``-th time one of the actor."""
        state, action, reward, after = replay.draw(self.rng)
        noise = np.clip(self.rng.normal(0.0, TARGET_NOISE, action.shape), -MOST_NOISE, MOST_NOISE)
        next_action = np.clip(acted(self.target_actor, after[:, _OF_GLOBAL:]) + noise, -1.0, 1.0)
        worth = self.target_critics(_twice(after, next_action)).min(axis=0)
        wanted = SCALE * reward + DISCOUNT * np.clip(worth, -MOST_WORTH, MOST_WORTH)
        self._fitted(_twice(state, action), wanted)
        self._n += 1
        if self._n % DELAY == 0:
            if self._n > CRITICS_ALONE:
                self._improved(state)
            for net, follower in ((self.actor, self.target_actor), (self.critics, self.target_critics)):
                for weight, slow in zip(net.weights, follower.weights, strict=True):
                    slow += np.float32(FOLLOWED * DELAY) * (weight - slow)

    def _fitted(self, inputs: Reals, wanted: Reals) -> None:
        """The critics step down the slope of Huber's loss."""
        layers = self.critics.layers(inputs)
        error = layers[-1] - wanted
        self._steps[1].step(self.critics.gradients(layers, np.clip(error, -1.0, 1.0) / BATCH))

    def _improved(self, state: Reals) -> None:
        """The actor steps up the first critic's slope by its action."""
        layers = self.actor.layers(state[None, :, _OF_GLOBAL:])
        action = np.tanh(layers[-1])
        judged = self.critics.layers(_twice(state, action[0]))
        by_worth = np.zeros_like(judged[-1])
        by_worth[0] = -1.0 / BATCH
        by_action = self.critics.by_inputs(judged, by_worth)[:1, :, -1:] + EFFORT / BATCH * action
        descend(self._steps[0], self.actor.gradients(layers, by_action * (1.0 - action**2)))


def acted(actor: Mlp, inputs: Reals) -> Reals:
    """2a on each row ``[row, 1]``."""
    found: Reals = np.tanh(actor(inputs[None])[0])
    return found


def _twice(state: Reals, action: Reals) -> Reals:
    """What both critics take: states beside actions."""
    one = np.concatenate([state, action], axis=1, dtype=np.float32)
    return np.repeat(one[None], 2, axis=0)


def earned(policy: DeccPolicy, seed: int) -> float:
    """Mean reward over one episode of each lesson."""
    rng = np.random.default_rng(seed)
    return float(np.mean([rewards(episode(policy, flows, rng))[0].mean() for flows in FLOWS]))


def train(
    seed: int, *, episodes: int = EPISODES, progress: Callable[[int, float], None] = lambda done, best: None
) -> tuple[Mlp, Reals]:
    """The actor that earned most of those tried while training, and the latest inputs ``[row, input]``.

    ``progress`` gets the episodes done and the most earned so far, each time one was tried.
    """
    rng = np.random.default_rng(seed)
    learner, replay = Learner(rng), Replay.empty()
    best, kept = -np.inf, learner.actor
    for done in range(episodes):
        late = max(done - WARM_UP, 0) / max(episodes - WARM_UP, 1)
        explore = 1.0 if done < WARM_UP else EXPLORE[0] + late * (EXPLORE[1] - EXPLORE[0])
        policy = policy_of(learner.actor.weights[::2], explore=explore)
        replay.add(episode(policy, FLOWS[done % len(FLOWS)], rng), rng)
        if done < WARM_UP:
            continue
        for _ in range(UPDATES):
            learner.update(replay)
        if (done + 1) % TRIED_EVERY == 0:
            now = earned(policy_of(learner.actor.weights[::2]), seed)
            if now > best:
                best, kept = now, Mlp([one.copy() for one in learner.actor.weights], "relu")
            progress(done + 1, best)
    return kept, replay.latest(LATEST)[:, _OF_GLOBAL : _OF_GLOBAL + len(DECC_INPUTS)]
