"""Senders that act on round-trip times and read no ECN: policies of RL-CC's form, and Swift.

A flow has one probe under way at a time: the round trip of a data packet, from its first bit to its
acknowledgement. RTT0 is that of a packet alone on the flow's path.

Sources: Fuhrer et al., "Implementing Reinforcement Learning Datacenter Congestion Control in NVIDIA NICs",
CCGrid 2023, and its public code (NVlabs/RLCC); Kumar et al., "Swift: Delay is Simple and Effective for
Congestion Control in the Datacenter", SIGCOMM 2020, sections 3.1 to 3.5.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from twin.errors import ParameterError, check_above_zero, check_count, check_not_negative

INPUTS = ("multiplier", "signal", "multiplier before", "signal before")
"""What a network or trees see: the last rate multiplier, the signal now, and both one decision earlier."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One line instead of a network: a = −tanh(s ÷ ``width``)."""

    width: float = 10.0

    def __post_init__(self) -> None:
        check_above_zero("sender rule width", self.width)


@dataclass(frozen=True, slots=True)
class Network:
    """Fully connected layers without biases, ReLU between them and tanh at the end.

    ``layers[l][o][i]`` weighs input i for output o of layer l; the first has ``INPUTS``, the last one output.
    """

    layers: tuple[tuple[tuple[float, ...], ...], ...]

    def __post_init__(self) -> None:
        expected = len(INPUTS)
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
                if not (0 <= node.feature < len(INPUTS) and inside):
                    rule = f"it splits one of {len(INPUTS)} inputs between two later nodes of its tree"
                    raise ParameterError(f"{at} node {place}", str(node), rule, "export the tree again")


@dataclass(frozen=True, slots=True, kw_only=True)
class RttPolicy:
    """A policy of RL-CC's form: each returned probe is one decision a in [−1, 1] on the flow's rate.

    Its signal is s = ``scale`` · (max(RTT ÷ RTT0 − ``beta``, 0) · √(rate ÷ line rate) − ``target``); the rate
    is multiplied by 1 + ``step`` · a, or where a < 0 divided by 1 − ``step`` · a. N equal flows settle at RTT
    ÷ RTT0 = ``beta`` + ``target`` · √N. A decision takes effect ``decision_s`` after its probe returned.
    Raises ``ParameterError``.
    """

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


RttSender = RttPolicy | Swift


def _check_finite(at: str, values: Iterable[float]) -> None:
    for value in values:
        if not math.isfinite(value):
            raise ParameterError(at, str(value), "its numbers are finite", "export it again")
