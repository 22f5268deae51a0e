"""RL-CC's learner: a network that holds every flow's signal at 0, from rollouts inside the packet fabric.

Loss, constants and scenarios: Fuhrer et al., CCGrid 2023, and its public code (NVlabs/RLCC); the learner is
ADPG (Tessler et al., 2022). For the decisions of one flow, with actions a and signals s taken as constants,

    L = mean_t a_t · mean_{k ≥ t} γ^{k−t} s_k  +  mean_t ½ mean_{k > t} (a_t − a_k)²

averaged over flows: an action is pushed against the signals that follow it, and towards the later actions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from telemetry.topology import Host, Link, Topology
from twin.packet.fabric import Fabric
from twin.packet.layout import PacketSettings
from twin.packet.plan import FabricPlan
from twin.packet.policies import DECISION
from twin.senders.dcqcn import PAPER
from twin.senders.rtt import INPUTS, Network, RttPolicy
from twin.traffic.base import Traffic
from twin.watermark import Watermark

Floats = NDArray[np.float64]
NAME = "rl-cc"
WIDTHS = (len(INPUTS), 12, 12, 1)
DISCOUNT = 0.99
UPDATES = 1000
RATE, EPSILON, LARGEST_GRADIENT = 0.01, 1e-5, 0.5
DECISIONS_A_FLOW = 15
UNREAD = Watermark(5_000, 200_000, 0.01)  # policies do not see what it marks
_MOST_DECISIONS = 20_000
_LONGEST_S = 0.02  # of a rollout ...
_UNTIL_S = 0.3  # ... unless no flow has decided twice by then: at the least rate a packet leaves every 88 ms
_SIGNAL, _ACTION = DECISION.index("signal"), DECISION.index("action")
_INPUTS = slice(DECISION.index(INPUTS[0]), DECISION.index(INPUTS[0]) + len(INPUTS))
_BETAS = (0.9, 0.999)


@dataclass(frozen=True, slots=True)
class Lesson:
    """Hosts on one switch, whose flows never end: all to host 0, or each host to all others."""

    hosts: int
    flows: int
    all_to_all: bool = False

    def topology(self) -> Topology:
        """100 Gbit/s, and cables of 2 µs: a packet alone takes 8.2 µs there and back."""
        names = [f"h{number}" for number in range(self.hosts)]
        links = [Link(name, "s", 100.0, 2.0, b_port=f"to-{name}") for name in names]
        return Topology(tuple(map(Host, names)), ("s",), tuple(links))

    def traffic(self, rng: np.random.Generator) -> Traffic:
        """Starts are spread over 200 µs: flows that begin together decide together for ever."""
        pairs = [
            (src, dst)
            for src in range(self.hosts)
            for dst in (range(self.hosts) if self.all_to_all else (0,))
            if src != dst
        ]
        each = self.flows if not self.all_to_all else max(self.flows // (self.hosts - 1), 1)
        src, dst = (list(column) for column in zip(*(pairs * each), strict=True))
        starts_s = rng.uniform(0.0, 2e-4, len(src))
        order = np.argsort(starts_s)
        return Traffic.independent(
            np.array(src)[order].tolist(), np.array(dst)[order].tolist(), [np.inf] * len(src), starts_s[order]
        )


# The scenarios of RL-CC's public code: hosts × flows of each.
LESSONS = (
    Lesson(5, 1),
    Lesson(9, 1),
    Lesson(33, 1),
    Lesson(4, 16, all_to_all=True),
    Lesson(4, 8, all_to_all=True),
)


def orthogonal(rng: np.random.Generator) -> list[Floats]:
    """Weights ``[output, input]`` of each layer, with orthonormal rows or columns."""
    found = []
    for n_in, n_out in pairwise(WIDTHS):
        base, upper = np.linalg.qr(rng.standard_normal((max(n_in, n_out), min(n_in, n_out))))
        base *= np.sign(np.diag(upper))
        found.append(base if n_out >= n_in else base.T)
    return found


def policy_of(weights: list[Floats]) -> RttPolicy:
    layers = tuple(tuple(map(tuple, layer.tolist())) for layer in weights)
    return RttPolicy(name=NAME, form=Network(layers))


class Rollouts:
    """One fabric for each lesson, which goes on from update to update: flows live on as policies change."""

    def __init__(self, rng: np.random.Generator, policy: RttPolicy) -> None:
        self._fabrics = []
        for lesson in LESSONS:
            topology = lesson.topology()
            senders = dict.fromkeys((host.name for host in topology.hosts), policy)
            plan = FabricPlan(ports=topology.ports, dcqcn=PAPER, senders=senders)
            seed = int(rng.integers(1 << 31))
            seldom = PacketSettings(queue_sample_s=1e-3)
            fabric = Fabric(plan, watermark=UNREAD, seed=seed, settings=seldom, monitored=())
            fabric.offer(lesson.traffic(rng))
            self._fabrics.append(fabric)

    def decisions(self, policy: RttPolicy) -> Iterator[Floats]:
        """By lesson: decisions of all its flows under ``policy``, at least some of each (``DECISION``)."""
        for fabric in self._fabrics:
            fabric.set_policies([policy])
            fabric.keep_decisions(_MOST_DECISIONS)
            begin_s = fabric.now_s
            each: NDArray[np.int64] = np.zeros(len(fabric.acknowledged_bytes()), np.int64)
            while fabric.now_s < begin_s + (_LONGEST_S if each.max() > 1 else _UNTIL_S):
                fabric.advance(fabric.now_s + 2e-4)
                each = np.bincount(fabric.decisions[:, 0].astype(int), minlength=len(each))
                if each.min() >= DECISIONS_A_FLOW or len(fabric.decisions) == _MOST_DECISIONS:
                    break
            yield fabric.decisions.copy()


def action_gradient(signals: Floats, actions: Floats) -> tuple[float, Floats]:
    """The loss of one flow's decisions in a row, and its derivative by each action."""
    n = len(actions)
    later = np.arange(n - 1, -1, -1.0)  # decisions after each
    ahead = np.empty(n)
    total = 0.0
    for t in range(n - 1, -1, -1):
        total = signals[t] + DISCOUNT * total
        ahead[t] = total / (n - t)
    after = (np.cumsum(actions[::-1])[::-1] - actions) / np.maximum(later, 1.0)
    squares = (np.cumsum(actions[::-1] ** 2)[::-1] - actions**2) / np.maximum(later, 1.0)
    has = later > 0
    smooth = np.where(has, 0.5 * (actions**2 - 2.0 * actions * after + squares), 0.0)
    share = np.where(has, 1.0 / np.maximum(later, 1.0), 0.0)
    before = np.concatenate([[0.0], np.cumsum(share)[:-1]])
    before_a = np.concatenate([[0.0], np.cumsum(share * actions)[:-1]])
    gradient = ahead + np.where(has, actions - after, 0.0) + actions * before - before_a
    return float(np.mean(actions * ahead + smooth)), gradient / n


def actions_of(weights: Sequence[Floats], inputs: Floats) -> Floats:
    """The network's action on each row of ``inputs``."""
    passed = inputs
    for layer in weights[:-1]:
        passed = np.maximum(passed @ layer.T, 0.0)
    actions: Floats = np.tanh(passed @ weights[-1].T)[:, 0]
    return actions


def network_gradient(weights: list[Floats], inputs: Floats, by_action: Floats) -> list[Floats]:
    """The derivative by each weight, given that by each action (rows of ``inputs`` are decisions)."""
    passed = [inputs]
    for layer in weights[:-1]:
        passed.append(np.maximum(passed[-1] @ layer.T, 0.0))
    action = np.tanh(passed[-1] @ weights[-1].T)[:, 0]
    back = (by_action * (1.0 - action**2))[:, None]
    found = []
    for layer, seen in zip(reversed(weights), reversed(passed), strict=True):
        found.append(back.T @ seen)
        back = (back @ layer) * (seen > 0.0)
    return found[::-1]


def update_gradient(weights: list[Floats], lessons: Iterator[Floats]) -> tuple[float, list[Floats]]:
    """Mean loss and gradient over the flows of all lessons, each lesson counting alike."""
    losses, gradients = [], []
    for decisions in lessons:
        order = np.lexsort((decisions[:, 1], decisions[:, 0]))
        decisions = decisions[order]
        cuts = np.flatnonzero(np.diff(decisions[:, 0])) + 1
        flows = [flow for flow in np.split(decisions, cuts) if len(flow) > 1]
        if not flows:
            continue
        each = [action_gradient(flow[:, _SIGNAL], flow[:, _ACTION]) for flow in flows]
        losses.append(float(np.mean([loss for loss, _ in each])))
        by_action = np.concatenate([gradient for _, gradient in each]) / len(flows)
        inputs = np.concatenate([flow[:, _INPUTS] for flow in flows])
        gradients.append(network_gradient(weights, inputs, by_action))
    mean = [np.mean(layers, axis=0) for layers in zip(*gradients, strict=True)]
    return float(np.mean(losses)), mean


@dataclass(slots=True)
class Adam:
    """Adam (2015), with gradients clipped by value first."""

    first: list[Floats]
    second: list[Floats]
    steps: int = 0

    @classmethod
    def for_weights(cls, weights: list[Floats]) -> Adam:
        return cls([np.zeros_like(one) for one in weights], [np.zeros_like(one) for one in weights])

    def step(self, weights: list[Floats], gradient: list[Floats]) -> None:
        self.steps += 1
        for layer, grad, first, second in zip(weights, gradient, self.first, self.second, strict=True):
            clipped = np.clip(grad, -LARGEST_GRADIENT, LARGEST_GRADIENT)
            first += (1 - _BETAS[0]) * (clipped - first)
            second += (1 - _BETAS[1]) * (clipped**2 - second)
            mean = first / (1 - _BETAS[0] ** self.steps)
            spread = second / (1 - _BETAS[1] ** self.steps)
            layer -= RATE * mean / (np.sqrt(spread) + EPSILON)


def train(
    seed: int, *, updates: int = UPDATES, progress: Callable[[int, float], None] = lambda update, loss: None
) -> list[Floats]:
    """The weights after so many updates; ``progress`` gets the number of each and its loss."""
    rng = np.random.default_rng(seed)
    weights = orthogonal(rng)
    rollouts = Rollouts(rng, policy_of(weights))
    adam = Adam.for_weights(weights)
    for update in range(updates):
        loss, gradient = update_gradient(weights, rollouts.decisions(policy_of(weights)))
        adam.step(weights, gradient)
        progress(update + 1, loss)
    return weights
