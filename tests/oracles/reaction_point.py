"""A DCQCN sender stepped one clock event at a time, written from the reference problems' own description.

Independent of twin. Time runs in whole steps; in one step CNPs come first, then the α tick, the cut tick
and the increase tick, each if it is due.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Sender:
    """Rates in anything a step, clocks in steps; no byte counter."""

    line_rate: float
    ai_rate: float
    hai_rate: float
    gain: float
    cut_clock: int
    alpha_clock: int
    increase_clock: int
    fast_recovery_steps: int
    min_rate: float
    clamp_target: bool


def rates(sender: Sender, cnp_steps: Collection[int], n_steps: int) -> NDArray[np.float64]:
    """Current and target rate at the end of each step, for CNPs that reach the sender in ``cnp_steps``."""
    current = target = sender.line_rate
    alpha, stage = 1.0, 0
    next_cut = next_alpha = next_increase = -1
    cnp_since_cut = cnp_since_alpha = armed = False
    out = np.empty((n_steps, 2))
    for step in range(n_steps):
        if step in cnp_steps:
            if armed:
                cnp_since_cut = cnp_since_alpha = True
            else:
                # The first cuts nothing: it arms both clocks, and is what the first cut tick finds.
                armed, cnp_since_cut, alpha, target = True, True, 1.0, current
                next_cut, next_alpha = step + sender.cut_clock, step + sender.alpha_clock
        if step == next_alpha:
            alpha = (1.0 - sender.gain) * alpha + (sender.gain if cnp_since_alpha else 0.0)
            cnp_since_alpha = False
            next_alpha += sender.alpha_clock
        if step == next_cut:
            if cnp_since_cut:
                if sender.clamp_target or stage > 0:
                    target = current
                current = max(sender.min_rate, current * (1.0 - alpha / 2.0))
                stage, cnp_since_cut = 0, False
                next_increase = step + sender.increase_clock
            next_cut += sender.cut_clock
        if step == next_increase:
            if stage == sender.fast_recovery_steps:
                target = min(target + sender.ai_rate, sender.line_rate)
            elif stage > sender.fast_recovery_steps:
                target = min(target + sender.hai_rate, sender.line_rate)
            current = min((current + target) / 2.0, sender.line_rate)
            stage += 1
            next_increase += sender.increase_clock
        out[step] = current, target
    return out
