"""Prunes and quantises a network for DECC (Chen et al., section 3.2; OPQ, Hu et al., AAAI 2021).

Which weights go, and the step of each layer, are derived once from the trained network. Then what is left is
tuned with both in force in every forward pass, on states that were replayed, towards the actions of the
network that it came from.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bench.rivals.tuners.networks import Adam, Mlp, Reals

PRUNED, BITS = 0.65, 4
UPDATES, BATCH, RATE = 16_000, 192, 0.003


@dataclass(frozen=True, slots=True, eq=False)
class Compressed:
    """Layers ``[1, input, output]`` of whole ``steps``, one step a layer, and how they came to be.

    ``difference`` is the mean distance of its actions from those of the whole network ÷ the mean size of
    these, ``of_range`` that ÷ the range of actions; ``bits`` is log2 of the levels of a weight's channel, in
    the mean over those kept.
    """

    layers: list[Reals]
    steps: list[float]
    pruned: float
    bits: float
    threshold: float
    laplace_threshold: float
    difference: float
    of_range: float


def balanced(weights: Sequence[Reals]) -> list[Reals]:
    """The same network with layers of one root mean square: without biases, only their product counts.

    One magnitude for all layers would otherwise prune all of a layer of small weights.
    """
    sizes = np.array([np.sqrt(np.mean(one**2)) for one in weights])
    scales = np.exp(np.mean(np.log(sizes))) / sizes
    return [one * scale.astype(one.dtype) for one, scale in zip(weights, scales, strict=True)]


def masks_of(weights: Sequence[Reals], share: float) -> tuple[list[Reals], float]:
    """1 for weights above one magnitude for all layers, below which ``share`` of them lie; and that."""
    size = np.abs(np.concatenate([one.ravel() for one in weights]))
    threshold = float(np.quantile(size, share))
    return [(np.abs(one) > threshold).astype(one.dtype) for one in weights], threshold


def laplace_threshold(weights: Sequence[Reals], share: float) -> float:
    """The same if sizes were exponential with the mean that they have (weights of a Laplace density)."""
    mean = float(np.mean(np.abs(np.concatenate([one.ravel() for one in weights]))))
    return -mean * math.log(1.0 - share)


def layer_steps(kept: Sequence[Reals], bits: int) -> list[float]:
    """Δ of each layer, of weights ``[1, input, output]`` of which 0 are pruned.

    They make the sum of Δ² the least where 2 α ÷ Δ, the levels of a channel (an output, with α its largest
    weight), are 2^bits in the mean over all weights kept:

        Δ_i = 2^(1 − bits) · S_i^(1/3) · Σ_k S_k^(2/3) ÷ N        S_i = Σ_j N_ij α_ij
    """
    counts = [(one[0] != 0).sum(axis=0) for one in kept]
    spans = [
        float((count * np.abs(one[0]).max(axis=0)).sum()) for one, count in zip(kept, counts, strict=True)
    ]
    total = sum(span ** (2 / 3) for span in spans) / sum(int(count.sum()) for count in counts)
    return [2.0 ** (1 - bits) * span ** (1 / 3) * total for span in spans]


def compressed(actor: Mlp, inputs: Reals, rng: np.random.Generator, *, updates: int = UPDATES) -> Compressed:
    """An actor without biases, pruned, quantised and tuned on these inputs ``[row, input]``."""
    whole = balanced(actor.weights[::2])
    masks, threshold = masks_of(whole, PRUNED)
    steps = layer_steps([one * mask for one, mask in zip(whole, masks, strict=True)], BITS)
    fine = Mlp([one.copy() for one in actor.weights], "relu")
    fine.weights[::2] = [one.copy() for one in whole]
    adam = Adam(fine, RATE)
    wanted = np.tanh(actor(inputs[None]))
    for done in range(updates):
        adam.rate = RATE * (1.0 - done / updates)
        rows = rng.integers(0, len(inputs), BATCH)
        coarse = _coarse(fine, masks, steps)
        layers = coarse.layers(inputs[None, rows])
        action = np.tanh(layers[-1])
        slope = (action - wanted[:, rows]) * (1.0 - action**2) / BATCH
        descend(adam, coarse.gradients(layers, slope), masks)
    coarse = _coarse(fine, masks, steps)
    off = np.abs(np.tanh(coarse(inputs[None])) - wanted).mean()
    layers = coarse.weights[::2]
    channels = [
        np.log2(np.maximum(2 * np.abs(one[0]).max(axis=0) / step, 1.0)) * (one[0] != 0).sum(axis=0)
        for one, step in zip(layers, steps, strict=True)
    ]
    left = sum(int((one != 0).sum()) for one in layers)
    return Compressed(
        layers=layers,
        steps=steps,
        pruned=1.0 - left / sum(one.size for one in layers),
        bits=float(sum(one.sum() for one in channels)) / left,
        threshold=threshold,
        laplace_threshold=laplace_threshold(whole, PRUNED),
        difference=float(off / np.abs(wanted).mean()),
        of_range=float(off / 2),
    )


def _coarse(fine: Mlp, masks: Sequence[Reals], steps: Sequence[float]) -> Mlp:
    """What is left of the weights, to the nearest step; its gradients are taken as those of ``fine``."""
    weights = list(fine.weights)
    for at, (mask, step) in enumerate(zip(masks, steps, strict=True)):
        rounded = np.rint(weights[2 * at] * mask / np.float32(step)) * np.float32(step)
        weights[2 * at] = rounded.astype(np.float32)
    return Mlp(weights, "relu")


def descend(adam: Adam, gradients: Sequence[Reals], masks: Sequence[Reals] | None = None) -> None:
    """A step of a network without biases, along the weights that are kept."""
    for at, gradient in enumerate(gradients):
        gradient *= 0 if at % 2 else (1 if masks is None else masks[at // 2])
    adam.step(gradients)
