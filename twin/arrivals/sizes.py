"""Message sizes behind thinned counts: their distribution, unseen messages included.

A message of B bytes on the wire, each packet of which is sampled with the same probability, has a Poisson
number of samples of mean B ÷ ``spacing_bytes``, the bytes between two samples of one sender. So how many
messages have 1, 2, 3 … samples tells how many there are of each size, those without a sample included: the
likeliest numbers on a logarithmic grid of sizes. Sizes far below the spacing leave single samples only, which
tell their bytes but not their number. Their number is told by samples shorter than a full packet: a message
has one such packet, its last, however many it has (none where its size is a multiple of full ones, as blocks
of storage are: for how many that holds is fitted too, from a guess of few). What the
samples do not tell is taken from a first guess, a power of the size as in heavy-tailed traffic: the true
numbers are that guess times a factor whose logarithm wanders with the size, drawn back to 0 (an
Ornstein-Uhlenbeck process). Many messages show sizes as sharp as they are, few stay near the guess.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

STEPS_PER_DECADE = 8
_MOST_STEPS, _SETTLED = 2_000, 1e-9  # of the optimiser; relative change of what it minimises
_WANDERS, _DRAWN_BACK = 1.0, 4.0  # that logarithm's deviation from step to step; steps until it is back
_FARTHEST = 60.0  # of that logarithm from 0, so that nothing overflows
_TAIL = 1.5  # the largest size on the grid ÷ the largest estimate
_PRIOR_POWER = 0.75  # of the size, for bytes per logarithmic step where nothing else is known
_FALLING_POWER = 2.0
MANY_SAMPLES = 16  # the size is known to a quarter
SHARPEST = 100.0  # samples that tell a size to a tenth
_MULTIPLES = 0.1  # of messages, whose last packet is a full one: a guess ...
_MOST_OFF = 10.0  # ... that the logit is so far from at most, so that nothing overflows
_FEW, _LEAST_MEAN = 30, 0.25  # messages seen, and samples of each: fewer do not tell one size from several
_ONE_SIZE_WITHIN = 1.3  # times the variance of one size; exponential sizes have 1.4 to 2 times as much
_TRIMS, _UNTYPICAL, _MOST_LEFT_OUT = 8, 1e-3, 0.08  # counts so unlikely are of other messages


@dataclass(frozen=True, slots=True, eq=False)
class SizeFit:
    """Expected number of ``messages`` [k] of each size on a grid ``size_bytes`` [k], seen or not.

    ``packet_bytes``: of a full packet, None where samples do not tell ends of messages; ``multiples`` [k]:
    the share of messages whose last packet is a full one too.
    """

    spacing_bytes: float
    size_bytes: NDArray[np.float64]
    messages: NDArray[np.float64]
    packet_bytes: float | None = None
    multiples: NDArray[np.float64] | float = 1.0

    @property
    def unseen(self) -> NDArray[np.float64]:
        """Expected messages of each size [k] without a sample."""
        return np.asarray(self.messages * np.exp(-self.size_bytes / self.spacing_bytes))

    def share_given(
        self, n_samples: NDArray[np.int64], end_seen: NDArray[np.bool_] | None = None
    ) -> NDArray[np.float64]:
        """The probability of each size [len(n_samples), k] for a message with so many samples (1 or more),
        its last packet among them or not.
        """
        ends = np.zeros(len(n_samples), np.bool_) if end_seen is None else end_seen
        short, full = _likelihoods(n_samples, ends, self.size_bytes, self.spacing_bytes, self.packet_bytes)
        weight = self.messages * ((1.0 - self.multiples) * short + self.multiples * full)
        return np.asarray(weight / weight.sum(axis=1, keepdims=True))

    def within(self, place: NDArray[np.int64], part: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sizes inside steps of the grid: ``part`` 0 is a step's lower edge, 1 its upper one."""
        return np.asarray(self.size_bytes[place] * 10.0 ** ((part - 0.5) / STEPS_PER_DECADE))

    def quantile(self, share: NDArray[np.float64], q: NDArray[np.float64]) -> NDArray[np.float64]:
        """Quantiles of sizes with this ``share`` [k] (sum 1) in each step of the grid."""
        below = np.concatenate(([0.0], np.cumsum(share)))
        place = np.clip(np.searchsorted(below, q, side="right") - 1, 0, len(share) - 1)
        part = np.clip((q - below[place]) / np.maximum(share[place], 1e-300), 0.0, 1.0)
        return self.within(place, part)


def fit_sizes(
    n_samples: NDArray[np.int64],
    spacing_bytes: float,
    least_bytes: float,
    bend_bytes: float = np.inf,
    *,
    end_seen: NDArray[np.bool_] | None = None,
) -> SizeFit:
    """Sizes from the samples (1 or more) of each message seen; none is below ``least_bytes``, a full packet.

    ``end_seen``: whether one of its samples was shorter than that (None: not known).

    Where counts do not tell, bytes per logarithmic step grow as a power of the size up to ``bend_bytes``, and
    fall beyond.
    """
    from scipy.optimize import minimize  # imported here: 0.4 s that a service starts without
    from scipy.special import expit, logit, pdtr

    ends = np.zeros(len(n_samples), np.bool_) if end_seen is None else end_seen
    packet = least_bytes if ends.any() else None
    kinds, how_many = np.unique(2 * n_samples + ends, return_counts=True)
    seen, ends = kinds // 2, kinds % 2 > 0
    total = float(n_samples.sum()) * spacing_bytes
    largest = max(float(seen[-1]) * _TAIL * spacing_bytes, 2 * spacing_bytes, 2 * least_bytes)
    steps = int(np.ceil(np.log10(largest / least_bytes) * STEPS_PER_DECADE)) + 1
    size = least_bytes * 10.0 ** (np.arange(steps) / STEPS_PER_DECADE)
    mean = size / spacing_bytes
    short, full = _likelihoods(seen, ends, size, spacing_bytes, packet)
    prior = size**_PRIOR_POWER / (1.0 + (size / bend_bytes) ** _FALLING_POWER)
    prior *= total / prior.sum()
    visible = -np.expm1(-mean)

    guess = logit(_MULTIPLES)

    def unlikely(at: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Minus the logarithm of the posterior density, and its gradient: of the factors' logarithms, and of
        the logits of the shares of multiples, less the guess.
        """
        log_factor, off = at.reshape(2, -1)
        multiples = expit(guess + off)
        messages = np.exp(log_factor) * prior / size
        likelihood = short + multiples * (full - short)
        expected = np.maximum(likelihood @ messages, 1e-300)
        rarity, pull = _wandering(log_factor)
        rarity_off, pull_off = _wandering(off)
        value = messages @ visible - how_many @ np.log(expected) + rarity + rarity_off
        ratio = how_many / expected
        by_size = messages * (visible - ratio @ likelihood) + pull
        by_off = pull_off - messages * (ratio @ (full - short)) * multiples * (1.0 - multiples)
        return float(value), np.concatenate((by_size, by_off))

    found = minimize(
        unlikely,
        np.zeros(2 * len(size)),
        jac=True,
        bounds=[*[(-_FARTHEST, _FARTHEST)] * len(size), *[(-_MOST_OFF, _MOST_OFF)] * len(size)],
        method="L-BFGS-B",
        options={"maxiter": _MOST_STEPS, "maxfun": 2 * _MOST_STEPS, "ftol": _SETTLED},
    )
    log_factor, off = found.x.reshape(2, -1)
    # As many bytes in messages of few samples as have few, and of many as have many: the fit may have too
    # little of one large message, and to make up for it all over would multiply the small ones.
    carried = prior * np.exp(log_factor)
    by_few = pdtr(MANY_SAMPLES - 2, mean)  # share of the samples
    few = float((seen * how_many)[seen < MANY_SAMPLES].sum()) * spacing_bytes
    carried *= sum(
        wanted / max(float(carried @ part), 1e-300) * part
        for wanted, part in ((few, by_few), (total - few, 1.0 - by_few))
    )
    return SizeFit(spacing_bytes, size, carried / size, packet, expit(guess + off))


def _wandering(value: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
    """Minus the logarithm of how likely values are that wander from step to step, and its gradient."""
    wandered, away = np.diff(value) / _WANDERS, value / (_WANDERS * _DRAWN_BACK)
    slope = away / (_WANDERS * _DRAWN_BACK)
    slope[1:] += wandered / _WANDERS
    slope[:-1] -= wandered / _WANDERS
    return float(0.5 * (wandered @ wandered + away @ away)), slope


def one_size(
    n_samples: NDArray[np.int64], spacing_bytes: float, least_bytes: float
) -> tuple[SizeFit, NDArray[np.bool_]] | None:
    """The one size of all messages but a few large ones, if sampling alone explains how their samples differ,
    and which messages are of it.

    ``n_samples`` [i]: 1 or more. None where they differ more, or are too few to tell, or leave too few
    samples. Seen counts have a Poisson distribution without its zero: mean m ÷ (1 − e^−m), variance
    mean · (1 + m − mean).
    """
    from scipy.special import lambertw, pdtrc  # imported here: see fit_sizes

    kept, mean, m = n_samples, 1.0, 0.0
    for _ in range(_TRIMS):
        mean = float(kept.mean()) if len(kept) else 1.0
        if len(kept) < _FEW or mean <= 1.0 + _LEAST_MEAN / 2.0:  # m ÷ (1 − e^−m) is 1 + m/2 for a small m
            return None
        m = mean + float(lambertw(-mean * np.exp(-mean)).real)  # solves that for m
        typical = pdtrc(kept - 1, m) > _UNTYPICAL
        if typical.all():
            break
        kept = kept[typical]
    few_left_out = len(kept) >= (1.0 - _MOST_LEFT_OUT) * len(n_samples)
    if not few_left_out or float(kept.var()) > _ONE_SIZE_WITHIN * mean * (1.0 + m - mean):
        return None
    size = np.array([max(m * spacing_bytes, least_bytes)])
    fit = SizeFit(spacing_bytes, size, np.array([len(kept) / -np.expm1(-m)]))
    return fit, n_samples <= int(kept.max())


def _likelihoods(
    n_samples: NDArray[np.int64],
    end_seen: NDArray[np.bool_],
    size_bytes: NDArray[np.float64],
    spacing_bytes: float,
    packet_bytes: float | None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """How likely each size [k] leaves so many samples, that of a short last packet among them or not
    [len(n_samples), k], up to a factor of the row alone: where the last packet is short, and where it is
    full.

    Each of a message's packets is sampled by itself, the last one too. Without ``packet_bytes`` both go by
    the number of samples.
    """
    mean = size_bytes / spacing_bytes
    full = _poisson(n_samples, mean)
    if packet_bytes is None:
        return full, full
    others = np.maximum(mean - packet_bytes / spacing_bytes, 1e-12)
    short = np.empty_like(full)
    full[end_seen] = 0.0
    # Of the other packets: n where the last one left none, n − 1 where it did.
    short[~end_seen] = _poisson(n_samples[~end_seen], others)
    one = n_samples == 1
    short[end_seen & one] = np.exp(-others)
    short[end_seen & ~one] = _poisson(n_samples[end_seen & ~one] - 1, others)
    return short, full


def _poisson(count: NDArray[np.int64], mean: NDArray[np.float64]) -> NDArray[np.float64]:
    """The probability [counts, means] of so many samples, up to a factor of the count alone.

    The factor is chosen so that nothing overflows; it divides out of every use. No count tells a size more
    closely than the grid does, or a large one would be likely at no step of it.
    """
    n = count[:, None].astype(np.float64)
    log = np.minimum(n, SHARPEST) * (np.log(mean / n) - mean / n + 1.0)
    return np.asarray(np.exp(log))
