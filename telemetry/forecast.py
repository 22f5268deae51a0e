"""Forecasts of a port's throughput from its own history, each with the error that it has had there.

A few simple methods are tried on the past (rolling origin): at every step of it each says what it would have
said then, for each distance ahead. The method that erred least is taken; its errors are the forecast's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

DAY_S = 86_400
WEEK_S = 7 * DAY_S
LEAST_STEPS = 40
AHEAD_TIMES = 3
"""A history is at least so many times as long as what lies ahead, and as a season to be used."""
DISTANCES = 12
"""Distances ahead whose errors are measured; those between are interpolated."""
BAND = 0.95
_WEIGHTS = {"smoothed lightly": 0.5, "smoothed": 0.2, "smoothed strongly": 0.05}
_OF_A_DAY = 0.4


@dataclass(frozen=True, slots=True)
class Forecast:
    """Of one port, for the steps ahead: ``values``, the band from ``low`` to ``high`` that held ``BAND`` of
    what came, and the mean absolute ``errors``; arrays of one length. ``method`` in words; ``now``: the last
    value that was measured.
    """

    method: str
    now: float
    values: Floats
    low: Floats
    high: Floats
    errors: Floats


class _Method(NamedTuple):
    """``level``: at each step what it says of all times ahead, where ``season`` is 0; else what it says of
    the step one season of so many steps later. An array like the history's.
    """

    name: str
    level: Floats
    season: int

    def errors(self, history: Floats, distance: int, begin: int) -> Floats:
        """Of each step from ``begin`` on what came, less what was said ``distance`` steps before it."""
        back = -(-distance // self.season) * self.season if self.season else distance
        return history[:, begin:] - self.level[:, begin - back : self.level.shape[1] - back]

    def values(self, ahead: int) -> Floats:
        """What it says now of each of the steps ahead, for each port."""
        back = -np.arange(1, ahead + 1) % self.season if self.season else np.zeros(ahead, int)
        return self.level[:, self.level.shape[1] - 1 - back]


def needed(ahead: int) -> int:
    """The steps of history without which there is no forecast so many steps ahead."""
    return max(LEAST_STEPS, AHEAD_TIMES * ahead)


def predictable(history: Floats) -> NDArray[np.bool_]:
    """Whether each row of ``history`` (ports × steps) is known in half of its later half at least."""
    known = ~np.isnan(history[:, history.shape[1] // 2 :])
    return np.asarray(known.mean(axis=1) >= 0.5)


def forecasts(history: Floats, *, ahead: int, step_s: int, most: Floats) -> list[Forecast]:
    """One for each row of ``history`` (ports × steps, NaN where nothing was measured).

    There are ``needed`` steps at least, maybe no rows; each row is ``predictable``, and ``ahead`` is a day at
    most. ``most`` bounds each port (infinite: not at all).
    """
    filled = _filled(history)
    methods = list(_methods(filled, step_s))
    # All are judged by the same steps, of which each can say something.
    begin = max(max(method.season for method in methods), ahead)
    distances = np.unique(np.geomspace(1, ahead, DISTANCES).round().astype(int)).tolist()
    mean = np.array([
        [np.nanmean(np.abs(method.errors(history, one, begin)), axis=1) for one in distances]
        for method in methods
    ])  # fmt: skip
    chosen = np.argmin(mean.mean(axis=1), axis=0)
    steps = np.arange(1, ahead + 1)
    found: dict[int, Forecast] = {}
    for number, method in enumerate(methods):
        ports = np.flatnonzero(chosen == number)
        if not len(ports):
            continue
        mine, past = method._replace(level=method.level[ports]), history[ports]
        edges = np.array([_edges(mine.errors(past, one, begin), one) for one in distances])
        values = mine.values(ahead)
        for row, port in enumerate(ports.tolist()):
            low, high = (np.interp(steps, distances, edges[:, side, row]) for side in (0, 1))
            found[port] = Forecast(
                method.name,
                float(filled[port, -1]),
                np.clip(values[row], 0.0, most[port]),
                np.clip(values[row] + low, 0.0, most[port]),
                np.clip(values[row] + high, 0.0, most[port]),
                np.interp(steps, distances, mean[number, :, port]),
            )
    return [found[port] for port in range(len(history))]


def _methods(filled: Floats, step_s: int) -> Iterator[_Method]:
    yield _Method("last value", filled, 0)
    for name, weight in _WEIGHTS.items():
        yield _Method(name, _smoothed(filled, weight), 0)
    steps = filled.shape[1]
    day, week = DAY_S // step_s, WEEK_S // step_s
    if DAY_S % step_s or steps < AHEAD_TIMES * day:
        return
    yield _Method("a day before", filled, day)
    whole = filled[:, steps % day :]
    by_day = whole.reshape(len(filled), steps // day, day)
    days = np.moveaxis(_smoothed(np.moveaxis(by_day, 1, 2), _OF_A_DAY), 2, 1).reshape(whole.shape)
    yield _Method("days before, smoothed", np.hstack([filled[:, : steps % day], days]), day)
    if steps >= AHEAD_TIMES * week:
        yield _Method("a week before", filled, week)


def _smoothed(values: Floats, weight: float) -> Floats:
    """Exponential smoothing along the last axis, from its first value on."""
    from scipy.signal import lfilter  # imported here: it takes a second, and a service starts without it

    first = values[..., :1]
    found, _ = lfilter([weight], [1.0, weight - 1.0], values, axis=-1, zi=(1 - weight) * first)
    return np.asarray(found)


def _edges(errors: Floats, distance: int) -> Floats:
    """The lower and the upper edge of the band around each port's forecast.

    Errors of forecasts that overlap are alike: of so few that do not, the extremes count for more.
    """
    apart = max(errors.shape[1] / distance, 1.0)
    tail = max((1 - BAND) / 2 - 0.5 / apart, 0.0)
    return np.asarray(np.nanquantile(errors, [tail, 1 - tail], axis=1))


def _filled(history: Floats) -> Floats:
    """What was not measured is as before it, or at the beginning as first measured."""
    known = ~np.isnan(history)
    places = np.where(known, np.arange(history.shape[1]), -1)
    last = np.maximum.accumulate(places, axis=1)
    first = np.argmax(known, axis=1)[:, None]
    return np.take_along_axis(history, np.where(last < 0, first, last), axis=1)
