"""Decisions of policies on round-trip times and of DECC's, in NumPy, from their definition alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from twin.senders.rtt import DeccPolicy, Network, RttPolicy, Rule, Trees


def action(policy: RttPolicy | DeccPolicy, inputs: NDArray[np.float64]) -> float:
    """The action in [−1, 1] on ``policy.inputs``; of DECC's form twice its action."""
    match policy.form:
        case Rule(width=width):
            return float(-np.tanh(inputs[1] / width))
        case Network(weights=layers):
            passed = inputs
            for layer in layers[:-1]:
                passed = np.maximum(np.array(layer) @ passed, 0.0)
            return float(np.tanh(np.array(layers[-1]) @ passed)[0])
        case Trees(trees=trees, base=base):
            total = base
            for tree in trees:
                node = tree[0]
                while node.feature >= 0:
                    node = tree[node.left if inputs[node.feature] <= node.value else node.right]
                total += node.value
            return float(np.clip(total, -1.0, 1.0))


def multiplier(policy: RttPolicy | DeccPolicy, taken: float) -> float:
    """What the action multiplies the rate or the window by."""
    step = policy.step if isinstance(policy, RttPolicy) else 0.5 * policy.alpha
    return 1.0 + step * taken if taken >= 0 else 1.0 / (1.0 - step * taken)
