"""The gain measured between windows of telemetry: pure arithmetic.

Before and after are different traffic, so their errors are independent: the variance of a measured gain is
the sum of both windows' jackknife variances.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rollout.plan import Figures
from telemetry.network.figures import TrafficFigures, WindowFigures
from twin.prediction import BLOCKS, GainFigures, Prediction, Probe, Slowdown, SolveStatus
from twin.search.gain import Policy, gain_over
from twin.watermark import Watermark

_ANY = Watermark(1, 2, 1.0)  # any: a gain does not depend on it
_TRAFFIC = ("goodput_bytes_per_s", "elephant_slowdown", "mice_p99_slowdown", "probe_p99_slowdown")


@dataclass(frozen=True, slots=True)
class Measured:
    """What a gain compares, of one window, and with each of its blocks left out.

    ``persistent_share`` weighs the two kinds of bulk traffic (``WindowFigures``). Counters have no blocks:
    they add nothing to the error.
    """

    figures: GainFigures
    without_block: tuple[GainFigures, ...]
    persistent_share: float | None

    @classmethod
    def of(cls, found: WindowFigures, counted: Figures) -> Measured:
        """``counted``: pauses and drops by the switches' counters."""
        drops = counted.drops_per_s
        sent = found.packets_per_s + (drops or 0.0)
        lost = None if drops is None or sent <= 0 else drops / sent

        def with_harm(traffic: TrafficFigures) -> GainFigures:
            return GainFigures(*traffic, paused_share=counted.pause_share, loss_share=lost)

        blocks = tuple(with_harm(one) for one in found.without_block)
        return cls(with_harm(found.whole), blocks, found.persistent_share)


class MeasuredGain(NamedTuple):
    """A gain with its standard error."""

    value: float
    error: float


def measured_gain(before: Measured, after: Sequence[Measured], policy: Policy) -> MeasuredGain | None:
    """The mean gain of the windows ``after`` over the one ``before``; None where no figure of traffic is
    known on both sides.
    """
    known = [one for one in after if _comparable(before.figures, one.figures)]
    if not known:
        return None
    share = before.persistent_share
    gains = [
        gain_over(
            _window(before.figures, before.without_block),
            _window(one.figures, (one.figures,) * len(before.without_block)),
            policy,
            share,
        )
        for one in known
    ]
    gains_after = [
        gain_over(
            _window(before.figures, (before.figures,) * len(one.without_block)),
            _window(one.figures, one.without_block),
            policy,
            share,
        )
        for one in known
    ]
    # Of blocks alone: what few mice leave open is of predictions, and a window does not tell how many it has.
    shaken_before, shaken_after = (
        np.array([gain.deviations[:BLOCKS] for gain in found]) for found in (gains, gains_after)
    )
    # The window before is the same in all of them, each window after only in its own.
    error_before = float(np.linalg.norm(shaken_before.mean(axis=0)))
    error_after = float(np.linalg.norm(shaken_after)) / len(known)
    value = sum(gain.value for gain in gains) / len(known)
    return MeasuredGain(value, math.hypot(error_before, error_after))


def _comparable(before: GainFigures, after: GainFigures) -> bool:
    return any(getattr(before, name) is not None and getattr(after, name) is not None for name in _TRAFFIC)


def _window(figures: GainFigures, without_block: tuple[GainFigures, ...] = ()) -> Prediction:
    """A window's figures in the form that ``gain_over`` takes."""
    nan = math.nan
    elephants, mice, probe = figures.elephant_slowdown, figures.mice_p99_slowdown, figures.probe_p99_slowdown
    goodput = figures.goodput_bytes_per_s
    return Prediction(
        _ANY,
        SolveStatus.OK,
        *(nan, nan, nan, nan if goodput is None else goodput, nan, nan, nan),
        slowdown={
            **({} if elephants is None else {"elephant": Slowdown(1, elephants, nan)}),
            **({} if mice is None else {"mice": Slowdown(1, nan, mice)}),
        },
        probe={} if probe is None else {"all": Probe(1, nan, probe)},
        paused_share=figures.paused_share,
        loss_share=figures.loss_share,
        without_block=without_block,
    )
