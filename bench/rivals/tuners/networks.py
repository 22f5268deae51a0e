"""Small multilayer perceptrons in NumPy, several alike at once: forward, backward, Adam.

All arrays have a leading axis of agents, each with weights of its own: inputs [A, N, in], outputs
[A, N, out]. A row of one agent never touches the weights of another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Reals: TypeAlias = NDArray[np.floating[Any]]
Activation: TypeAlias = Literal["relu", "tanh"]

_NUMERIC_TYPE = np.float32


class Mlp:
    """Layers of ``sizes`` with an activation between them and none behind the last."""

    def __init__(self, weights: Sequence[Reals], activation: Activation) -> None:
        """``weights`` alternate: matrices [A, in, out] and biases [A, 1, out]."""
        self.weights = list(weights)
        self._activation = activation

    @classmethod
    def drawn(
        cls,
        draws: np.random.Generator,
        sizes: Sequence[int],
        activation: Activation,
        *,
        agents: int = 1,
        last_gain: float = 1.0,
        dtype: type[np.floating[Any]] = _NUMERIC_TYPE,
    ) -> Mlp:
        """Normal weights of variance gain² ÷ inputs (ReLU: gain² = 2), biases 0; all agents begin alike."""
        weights: list[Reals] = []
        for number, (inputs, outputs) in enumerate(pairwise(sizes)):
            last = number == len(sizes) - 2
            gain = last_gain if last else (np.sqrt(2.0) if activation == "relu" else 1.0)
            matrix = draws.normal(0.0, gain / np.sqrt(inputs), (1, inputs, outputs))
            weights += [matrix.astype(dtype), np.zeros((1, 1, outputs), dtype=dtype)]
        return cls(weights, activation).copied(agents)

    @classmethod
    def named(cls, arrays: Mapping[str, Reals], name: str, activation: Activation) -> Mlp:
        """One agent's network, from what ``arrays`` returned."""
        count = sum(key.startswith(f"{name}.") for key in arrays)
        return cls([arrays[f"{name}.{i}"].astype(_NUMERIC_TYPE) for i in range(count)], activation)

    def arrays(self, name: str) -> dict[str, Reals]:
        """The weights as ``NAME.0``, ``NAME.1``, ..."""
        return {f"{name}.{i}": one for i, one in enumerate(self.weights)}

    def copied(self, agents: int) -> Mlp:
        """The first agent's weights for ``agents`` agents."""
        return Mlp([np.repeat(one[:1], agents, axis=0) for one in self.weights], self._activation)

    def __call__(self, inputs: Reals) -> Reals:
        return self.layers(inputs)[-1]

    def layers(self, inputs: Reals) -> list[Reals]:
        """The inputs, what each hidden layer gives, and the outputs."""
        found = [inputs.astype(self.weights[0].dtype, copy=False)]
        for at in range(0, len(self.weights), 2):
            here = found[-1] @ self.weights[at] + self.weights[at + 1]
            if at < len(self.weights) - 2:
                here = np.tanh(here) if self._activation == "tanh" else np.maximum(here, 0)
            found.append(here)
        return found

    def gradients(self, layers: Sequence[Reals], by_outputs: Reals) -> list[Reals]:
        """Derivatives by each weight of a loss whose derivative by the outputs is ``by_outputs``."""
        found: list[Reals] = []
        for before, by_here in zip(reversed(layers[:-1]), self._backward(layers, by_outputs), strict=True):
            found[:0] = [before.swapaxes(1, 2) @ by_here, by_here.sum(axis=1, keepdims=True)]
        return found

    def by_inputs(self, layers: Sequence[Reals], by_outputs: Reals) -> Reals:
        """Derivatives by the inputs."""
        *_, by_first = self._backward(layers, by_outputs)
        found: Reals = by_first @ self.weights[0].swapaxes(1, 2)
        return found

    def _backward(self, layers: Sequence[Reals], by_outputs: Reals) -> Iterator[Reals]:
        """Derivatives by what each layer gives before its activation, the last one first."""
        by_here = by_outputs.astype(self.weights[0].dtype, copy=False)
        for at in range(len(self.weights) - 2, -1, -2):
            yield by_here
            if at:
                before = layers[at // 2]
                slope = 1 - before**2 if self._activation == "tanh" else before > 0
                by_here = (by_here @ self.weights[at].swapaxes(1, 2)) * slope


@dataclass(slots=True)
class Adam:
    """Adam (arXiv 1412.6980) on the weights of one network, in place."""

    network: Mlp
    rate: float
    beta1: float = 0.9
    beta2: float = 0.999
    tiny: float = 1e-8
    steps: int = 0
    mean: list[Reals] = field(default_factory=list)
    square: list[Reals] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.mean = [np.zeros_like(one) for one in self.network.weights]
        self.square = [np.zeros_like(one) for one in self.network.weights]

    def step(self, gradients: Sequence[Reals]) -> None:
        """One step of descent along these gradients."""
        self.steps += 1
        rate = self.rate * np.sqrt(1 - self.beta2**self.steps) / (1 - self.beta1**self.steps)
        pairs = zip(self.network.weights, gradients, self.mean, self.square, strict=True)
        for weight, gradient, mean, square in pairs:
            mean += (1 - self.beta1) * (gradient - mean)
            square += (1 - self.beta2) * (gradient**2 - square)
            weight -= (rate * mean / (np.sqrt(square) + self.tiny)).astype(weight.dtype)

    def arrays(self, name: str) -> dict[str, Reals]:
        """Its state, to be restored by ``remember``."""
        found: dict[str, Reals] = {f"{name}.steps": np.array(float(self.steps))}
        for kind, given in (("mean", self.mean), ("square", self.square)):
            found |= {f"{name}.{kind}.{i}": one for i, one in enumerate(given)}
        return found

    def remember(self, arrays: Mapping[str, Reals], name: str) -> None:
        """Restores the state that ``arrays`` returned."""
        self.steps = int(arrays[f"{name}.steps"])
        self.mean = [arrays[f"{name}.mean.{i}"].copy() for i in range(len(self.mean))]
        self.square = [arrays[f"{name}.square.{i}"].copy() for i in range(len(self.square))]


def log_softmax(logits: Reals) -> Reals:
    shifted = logits - logits.max(axis=-1, keepdims=True)
    found: Reals = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return found
