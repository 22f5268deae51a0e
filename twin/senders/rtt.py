"""Senders that act on round-trip times and read no ECN: policies of RL-CC's and of DECC's form, and Swift.

A flow has one probe under way at a time: the round trip of a data packet, from its first bit to its
acknowledgement. RTT0 is that of a packet alone on the flow's path.

Sources: Fuhrer et al., "Implementing Reinforcement Learning Datacenter Congestion Control in NVIDIA NICs",
CCGrid 2023, and its public code (NVlabs/RLCC); Kumar et al., "Swift: Delay is Simple and Effective for
Congestion Control in the Datacenter", SIGCOMM 2020, sections 3.1 to 3.5; Chen et al., DECC, Journal on
Communications, 2025.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar

from twin.errors import ParameterError, check_above_zero, check_count, check_not_negative

INPUTS = ("multiplier", "signal", "multiplier before", "signal before")
"""What a policy of RL-CC's form sees: the last multiplier, the signal now, and both one decision earlier."""
OF_PERIOD, PERIODS = ("goodput", "latency", "loss", "in flight", "rate"), 5
DECC_INPUTS = (
    *(f"{name}{f' {ago} before' if ago else ''}" for ago in range(PERIODS) for name in OF_PERIOD),
    "constant",
)
"""What a policy of DECC's form sees: five periods, the last one first, and 1, in place of biases."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One line instead of a network: a = −tanh(s ÷ ``width``)."""

    width: float = 10.0

    def __post_init__(self) -> None:
        check_above_zero("sender rule width", self.width)


@dataclass(frozen=True, slots=True)
class Network:
    """Fully connected layers without biases, ReLU between them and tanh at the end.

    ``layers[l][o][i]`` weighs input i for output o of layer l; the last layer has one output. With ``steps``,
    one a layer, the network is quantised: a weight is that many steps of its layer.
    """

    layers: tuple[tuple[tuple[float, ...], ...], ...]
    steps: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        expected = self.n_inputs
        if self.steps and len(self.steps) != len(self.layers):
            received = f"{len(self.steps)} for {len(self.layers)} layers"
            raise ParameterError("sender network steps", received, "each layer has one", "give all or none")
        for step in self.steps:
            check_above_zero("sender network step", step)
        for number, layer in enumerate(self.layers):
            at = f"sender network layer {number}"
            if not layer or any(len(row) != expected for row in layer):
                received = f"{len(layer)} outputs of {sorted({len(row) for row in layer})} inputs"
                raise ParameterError(at, received, f"it has {expected} inputs", "correct its weights")
            _check_finite(at, (weight for row in layer for weight in row))
            expected = len(layer)
        if not self.layers or expected != 1:
            rule = "the last layer has one output, the action"
            raise ParameterError("sender network", f"{expected} outputs", rule, "correct its layers")

    @property
    def n_inputs(self) -> int:
        return len(self.layers[0][0]) if self.layers and self.layers[0] else 0

    @property
    def weights(self) -> tuple[tuple[tuple[float, ...], ...], ...]:
        """As ``layers``, in their own unit."""
        steps = self.steps or (1.0,) * len(self.layers)
        return tuple(
            tuple(tuple(step * weight for weight in row) for row in layer)
            for layer, step in zip(self.layers, steps, strict=True)
        )


@dataclass(frozen=True, slots=True)
class Node:
    """A node of a tree: ``left`` and ``right`` are nodes of the same tree by number, where the input
    ``feature`` is at most ``value``, or above it. A leaf has ``feature`` −1 and gives ``value``.
    """

    feature: int
    value: float
    left: int = -1
    right: int = -1


@dataclass(frozen=True, slots=True)
class Trees:
    """Regression trees: the action is ``base`` plus the leaf of each, clipped to [−1, 1].

    The first node of each tree is its root, and each node comes before its children.
    """

    trees: tuple[tuple[Node, ...], ...]
    base: float = 0.0

    def __post_init__(self) -> None:
        _check_finite("sender trees base", (self.base,))
        for number, tree in enumerate(self.trees):
            at = f"sender tree {number}"
            if not tree:
                raise ParameterError(at, "no node", "a tree has a root", "leave it out")
            _check_finite(at, (node.value for node in tree))
            for place, node in enumerate(tree):
                if node.feature == -1:
                    continue
                inside = place < min(node.left, node.right) and max(node.left, node.right) < len(tree)
                if not (node.feature >= 0 and inside):
                    rule = "it splits an input between two later nodes of its tree"
                    raise ParameterError(f"{at} node {place}", str(node), rule, "export the tree again")

    @property
    def n_inputs(self) -> int:
        """So many at least."""
        return 1 + max((node.feature for tree in self.trees for node in tree), default=-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class RttPolicy:
    """A policy of RL-CC's form: each returned probe is one decision a in [−1, 1] on the flow's rate.

    Its signal is s = ``scale`` · (max(RTT ÷ RTT0 − ``beta``, 0) · √(rate ÷ line rate) − ``target``); the rate
    is multiplied by 1 + ``step`` · a, or where a < 0 divided by 1 − ``step`` · a. N equal flows settle at RTT
    ÷ RTT0 = ``beta`` + ``target`` · √N. A decision takes effect ``decision_s`` after its probe returned.
    Raises ``ParameterError``.
    """

    inputs: ClassVar[tuple[str, ...]] = INPUTS
    name: str
    form: Rule | Network | Trees = field(default_factory=Rule)
    beta: float = 1.5
    target: float = 0.064
    scale: float = 12.5
    step: float = 0.2
    decision_s: float = 0.0

    def __post_init__(self) -> None:
        for name in ("beta", "scale", "step"):
            check_above_zero(f"sender {self.name} {name}", getattr(self, name))
        for name in ("target", "decision_s"):
            check_not_negative(f"sender {self.name} {name}", getattr(self, name))
        _check_inputs(self.form, len(INPUTS))

    def inflation(self, flows: int) -> float:
        """RTT ÷ RTT0 at which so many equal flows settle at one bottleneck."""
        check_count("sender flows", flows)
        return self.beta + self.target * math.sqrt(flows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Swift:
    """A sender as Swift: a window that follows a target delay, paced at window ÷ RTT.

    The target is ``base_rtts`` · RTT0 + ``hop_s`` for each port crossed, and up to ``range_s`` more for small
    windows: the whole of it at ``window_low`` packets, none from ``window_high`` on (section 3.5). Below the
    target the window grows by ``increase`` packets an RTT, above it is cut once an RTT by ``decrease`` times
    the excess, at most by ``largest_cut``. Raises ``ParameterError``.
    """

    name: str = "swift"
    base_rtts: float = 1.25
    hop_s: float = 0.5e-6
    range_s: float = 10e-6
    window_low: float = 0.1
    window_high: float = 100.0
    increase: float = 1.0
    decrease: float = 0.8
    largest_cut: float = 0.5
    decision_s: float = 0.0

    def __post_init__(self) -> None:
        for name in ("base_rtts", "window_low", "window_high", "increase", "decrease", "largest_cut"):
            check_above_zero(f"sender {self.name} {name}", getattr(self, name))
        for name in ("hop_s", "range_s", "decision_s"):
            check_not_negative(f"sender {self.name} {name}", getattr(self, name))
        if self.window_low >= self.window_high or self.largest_cut >= 1:
            windows = f"window_low {self.window_low}, window_high {self.window_high}"
            received = f"{windows}, largest_cut {self.largest_cut}"
            rule = "window_low is below window_high, and largest_cut below 1"
            raise ParameterError(f"sender {self.name}", received, rule, "correct them")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeccPolicy:
    """A policy of DECC's form: each period is one decision a on a window, which is paced at window ÷ RTT.

    A period is a probe's round trip, so one base RTT where nothing queues. Of each period a policy sees
    goodput, what was lost, and rate, as shares of line rate, RTT ÷ RTT0 up to 2, and what is in flight ÷
    window. With a in [−½, ½] the window is multiplied by 1 + ``alpha`` · a, or where a < 0 divided by
    1 − ``alpha`` · a (equation 2); a network or trees give 2a. ``explore`` moves 2a by up to so much, at
    random, for training. A decision takes effect ``decision_s`` after its probe returned. Raises
    ``ParameterError``.
    """

    inputs: ClassVar[tuple[str, ...]] = DECC_INPUTS
    name: str
    form: Network | Trees
    alpha: float = 0.85
    decision_s: float = 0.0
    explore: float = 0.0

    def __post_init__(self) -> None:
        check_above_zero(f"sender {self.name} alpha", self.alpha)
        for name in ("decision_s", "explore"):
            check_not_negative(f"sender {self.name} {name}", getattr(self, name))
        _check_inputs(self.form, len(DECC_INPUTS))


RttSender = RttPolicy | Swift | DeccPolicy


def _check_inputs(form: Rule | Network | Trees, count: int) -> None:
    """Raises ``ParameterError`` where a network has other inputs than these, or trees split others."""
    if (isinstance(form, Network) and form.n_inputs != count) or (
        isinstance(form, Trees) and form.n_inputs > count
    ):
        at = "sender network" if isinstance(form, Network) else "sender trees"
        rule = f"it has {count} inputs" if isinstance(form, Network) else f"each splits one of {count} inputs"
        raise ParameterError(at, f"{form.n_inputs} inputs", rule, "export it again")


def _check_finite(at: str, values: Iterable[float]) -> None:
    for value in values:
        if not math.isfinite(value):
            raise ParameterError(at, str(value), "its numbers are finite", "export it again")
