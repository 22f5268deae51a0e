"""Gain over the incumbent, in logarithms of completion times, with its standard error.

    gain = α·ln(T/T₀) − β·ln(D/D₀) − γ·(L − L₀)

T is what bulk traffic gets: 1 ÷ mean elephant slowdown where elephants complete, the mean rate of flows that
persist (what is delivered of all flows, where an engine does not tell), weighted by their bytes where there
are both. D is what small messages suffer: the geometric mean of the mice's p99 slowdown and the probe's,
weighted alike unless the policy says otherwise. L is the share of port time paused plus the share of bytes
lost. A part whose figure one of the two runs lacks counts nothing. The incumbent gains exactly 0, and a
candidate's gain depends on itself and the incumbent alone. Elephants that carry less than a twentieth of the
bytes count nothing, where no flow persists.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from telemetry.network.figures import elephants_count
from twin.errors import ParameterError, check_not_negative
from twin.prediction import BLOCKS, ELEPHANT_FROM_BYTES, GainFigures, Prediction, SolveStatus
from twin.scenario import Scenario

HARM_PRICE = 10.0  # one percent of port time paused costs as much as everything ten percent slower
# What neither seeds nor blocks show: packets gain so much more or less than predicted on live traffic (root
# mean square over eight kinds of it under three seeds, beside the other errors; bench/live.py).
MODEL_ERROR = 0.13
MOMENTS_TELL = 4  # with as many moments of traffic their spread is the error
SEEDS_COUNTED = 16  # engine seeds that enter an error; further ones only move the mean
PARTS = ("bulk", "delay", "harm")
_ENGINE = BLOCKS + SEEDS_COUNTED
_FEW_MICE = _ENGINE + 1
_ONE_ELEPHANT = _FEW_MICE + 1
_N_DEVIATIONS = _ONE_ELEPHANT + 1


@dataclass(frozen=True, slots=True)
class Policy:
    """What an operator wants: the weights α of bulk speed and β of small-message delay, scaled to sum to 1,
    and γ, the price of a share of port time paused or of bytes lost. Of the delay, ``probe`` is the probe's
    share where there are mice too. Raises ``ParameterError``.
    """

    bulk: float = 0.5
    delay: float = 0.5
    harm_price: float = HARM_PRICE
    probe: float = 0.5

    def __post_init__(self) -> None:
        for name in ("bulk", "delay", "harm_price", "probe"):
            check_not_negative(f"weights {name}", getattr(self, name))
        if self.probe > 1.0:
            raise ParameterError("weights probe", f"{self.probe:g}", "a share is at most 1", "give 0 to 1")
        total = self.bulk + self.delay
        if total == 0:
            rule = "one of them must count"
            raise ParameterError("weights", "0 for bulk and for delay", rule, "give such as 0.5,0.5")
        object.__setattr__(self, "bulk", self.bulk / total)
        object.__setattr__(self, "delay", self.delay / total)


POLICIES: Mapping[str, Policy] = MappingProxyType(
    {"balanced": Policy(0.5, 0.5), "throughput": Policy(0.8, 0.2), "latency": Policy(0.2, 0.8)}
)


def policy_text(policy: Policy) -> str:
    """The policy's name, or its weights, such as ``0.7/0.3`` or, mice and probe apart, ``0.5/0.5/0``."""
    weights = (policy.bulk, policy.delay, policy.probe)
    names = (name for name, one in POLICIES.items() if (one.bulk, one.delay, one.probe) == weights)
    mice, probe = policy.delay * (1.0 - policy.probe), policy.delay * policy.probe
    apart = f"{policy.bulk:.2g}/{mice:.2g}/{probe:.2g}"
    return next(names, f"{policy.bulk:.2g}/{policy.delay:.2g}" if mice == probe else apart)


def policy_named(text: str, harm_price: float = HARM_PRICE) -> Policy:
    """The policy of that name, or of own weights: bulk speed and delay, such as ``0.7,0.3``, or bulk speed,
    mice and probe, such as ``0.5,0.5,0``. Raises ``ParameterError``.
    """
    weights = POLICIES.get(text)
    if weights is not None:
        return Policy(weights.bulk, weights.delay, harm_price)
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) not in (2, 3):
        known = ", ".join(sorted(POLICIES))
        raise ParameterError(
            "weights",
            repr(text),
            f"known policies are {known}; own weights are two numbers, bulk speed and small-message delay, "
            "or three: bulk speed, mice, probe",
            "name one of them, or give such as 0.7,0.3 or 0.5,0.5,0",
        )
    bulk, delay, *rest = numbers
    if not rest:
        return Policy(bulk, delay, harm_price)
    [probe] = rest
    check_not_negative("weights mice", delay)
    check_not_negative("weights probe", probe)
    both = delay + probe
    return Policy(bulk, both, harm_price, probe / both if both > 0 else 0.5)


def persistent_bytes_share(scenario: Scenario, now: GainFigures) -> float | None:
    """Bytes of never-ending flows as a share of theirs and of the completing elephants' under what runs now;
    None without either, or where no flow is never-ending and elephants carry too little to count
    (``elephants_count``).

    Never-ending flows send at their mean rate from their start on. Where an engine does not tell that, they
    get what is delivered beside the finite flows' payload, which is too little where those do not all end.
    """
    payload, left_s = scenario.flows.payload_bytes, scenario.duration_s - scenario.flows.start_s
    finite = np.isfinite(payload)
    # No flow sends more than its NIC carries in the time it has.
    nic = scenario.flows.path_ports[scenario.flows.path_offset[:-1]]
    carried = np.minimum(payload, np.maximum(left_s, 0.0) * scenario.port_rate_bytes_per_s[nic])
    elephants = float(carried[finite & (payload >= ELEPHANT_FROM_BYTES)].sum())
    if finite.all():
        return 0.0 if elephants_count(elephants, float(carried.sum())) else None
    if now.lasting_bytes_per_s is not None:
        persistent = now.lasting_bytes_per_s * float(np.maximum(left_s[~finite], 0.0).sum())
    else:
        delivered = (now.goodput_bytes_per_s or 0.0) * scenario.duration_s
        persistent = max(delivered - float(carried[finite].sum()), 0.0)
    return persistent / (persistent + elephants) if persistent + elephants > 0 else 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Gain:
    """A gain and what it is made of; NaN where a run failed.

    ``bulk``, ``delay`` and ``harm`` sum to ``value``. ``deviations`` are independent contributions to the
    error: of the window's blocks (jackknife), of engine seeds, of two engines, of few mice and of a single
    elephant; their root sum of squares is the ``noise``, that of the difference of two gains' deviations the
    noise of their difference. All NaN where nothing is known about it.
    """

    bulk: float
    delay: float
    harm: float
    deviations: NDArray[np.float64]

    @property
    def value(self) -> float:
        return self.bulk + self.delay + self.harm

    @property
    def noise(self) -> float:
        return float(np.sqrt(np.sum(self.deviations**2)))

    @property
    def error(self) -> float:
        """The standard error of a predicted gain: noise, and that predictions are off in proportion."""
        return math.hypot(self.noise, MODEL_ERROR * self.value)

    def less(self, other: Gain) -> Gain:
        """By how much this gain exceeds another's of the same runs, and the error of that."""
        return Gain(
            self.bulk - other.bulk,
            self.delay - other.delay,
            self.harm - other.harm,
            self.deviations - other.deviations,
        )

    def repeated(self, times: float) -> Gain:
        """This gain, of traffic that came so many times and tells no more of its error than once."""
        return replace(self, deviations=self.deviations * math.sqrt(times))

    def moved(self, before: Gain, after: Gain) -> Gain:
        """This gain changed as another went from ``before`` to ``after``: errors that this one and ``before``
        share cancel, and those of ``after`` count.
        """
        return Gain(
            self.bulk + after.bulk - before.bulk,
            self.delay + after.delay - before.delay,
            self.harm + after.harm - before.harm,
            self.deviations + after.deviations - before.deviations,
        )


def gain_over(now: Prediction, new: Prediction, policy: Policy, persistent_share: float | None) -> Gain:
    """The gain of ``new`` over the incumbent's ``now``, both of the same engine, flows and seeds.

    ``persistent_share`` weighs the two kinds of bulk traffic (``persistent_bytes_share``).
    """
    if now.status is not SolveStatus.OK or new.status is not SolveStatus.OK:
        return Gain(math.nan, math.nan, math.nan, np.full(_N_DEVIATIONS, math.nan))
    parts = _parts(now.gain_figures, new.gain_figures, policy, persistent_share)

    def paired(ours: Sequence[GainFigures], theirs: Sequence[GainFigures]) -> NDArray[np.float64]:
        return np.array(
            [sum(_parts(a, b, policy, persistent_share)) for a, b in zip(theirs, ours, strict=True)]
        )

    deviations = np.zeros(_N_DEVIATIONS)
    blocks = paired(new.without_block, now.without_block)
    if blocks.size > 1:
        # Delete-one-block jackknife, by successive differences: what drifts through a window is no noise.
        deviations[: blocks.size - 1] = np.diff(blocks) * math.sqrt((blocks.size - 1) / (2 * blocks.size))
    seeds = paired(new.by_seed, now.by_seed)[:SEEDS_COUNTED]
    if seeds.size > 1:
        scale = math.sqrt(seeds.size * (seeds.size - 1))
        deviations[BLOCKS : BLOCKS + seeds.size] = (seeds - seeds.mean()) / scale
    deviations[_FEW_MICE] = _few_mice(now, new, policy)
    deviations[_ONE_ELEPHANT] = _one_elephant(now, new, policy, persistent_share)
    if blocks.size < 2 and seeds.size < 2 and new.watermark != now.watermark:
        deviations[:] = math.nan
    return Gain(*parts, deviations)


def _few_mice(now: Prediction, new: Prediction, policy: Policy) -> float:
    """The error of mice that wait longer and do not show it, as few of them decide the p99.

    Of seven hundred mice seven do: whether as many met queues that are deeper now is chance, and neither
    blocks of the window nor seeds show it. The probe is sent at all times: by how much more it slows down
    than mice do counts as one standard deviation ÷ √(mice beyond the p99).
    """
    before, after, mice = now.gain_figures, new.gain_figures, new.slowdown.get("mice")
    waited = before.mice_p99_slowdown, after.mice_p99_slowdown
    probe = before.probe_p99_slowdown, after.probe_p99_slowdown
    if mice is None or None in (*waited, *probe):
        return 0.0
    hidden = max(_log_ratio(*probe) - max(_log_ratio(*waited), 0.0), 0.0)
    return policy.delay * (1.0 - policy.probe) * hidden / math.sqrt(max(0.01 * mice.n, 1.0))


def _one_elephant(now: Prediction, new: Prediction, policy: Policy, persistent_share: float | None) -> float:
    """The error of what a single elephant gets: blocks cannot leave it out, and it tells nothing of the next.

    Over web search of other draws, gains of one elephant spread as much as they are far from none.
    """
    elephants = new.slowdown.get("elephant")
    if elephants is None or elephants.n != 1 or persistent_share is None:
        return 0.0
    before, after = now.gain_figures.elephant_slowdown, new.gain_figures.elephant_slowdown
    return policy.bulk * (1.0 - persistent_share) * _log_ratio(before, after)


def gains_over_first(scenario: Scenario, predictions: Sequence[Prediction], policy: Policy) -> list[Gain]:
    """Gains of predictions of one scenario over the first, which is the incumbent's."""
    now = predictions[0]
    share = persistent_bytes_share(scenario, now.gain_figures)
    return [gain_over(now, one, policy, share) for one in predictions]


def of_two_engines(first: Gain, second: Gain, share: float) -> Gain:
    """One candidate's gain by two engines, the second's counting by ``share``.

    How far they are apart adds to the error, as one standard deviation where both count half.
    """
    rest = 1.0 - share
    # Of an engine that tells nothing of its error only the distance counts.
    known = np.where(np.isnan(second.deviations), first.deviations, second.deviations)
    deviations = rest * first.deviations + share * known
    deviations[_ENGINE] = math.sqrt(rest * share) * (second.value - first.value)
    return Gain(*_weighed([first, second], [rest, share]), deviations)


def joined(parts: Sequence[Gain], weights: Sequence[float]) -> Gain:
    """The weighted sum of one candidate's gains on parts that share no traffic: independent errors."""
    deviations = [weight * one.deviations for weight, one in zip(weights, parts, strict=True)]
    return Gain(*_weighed(parts, weights), np.concatenate(deviations))


def joined_over_moments(gains: Sequence[Gain], weights: Sequence[float], n_moments: int) -> Gain:
    """One candidate's gain over the first moments of traffic of ``n_moments``, each by its weight.

    The error is the spread between moments, which holds what changes from one to the next, widened so that
    two errors hold 95 % as Student's t does, and what few mice leave open. A moment draws the mean to itself
    by its weight, so its distance from that counts the more (HC2). The spread of what is worth fewer than
    ``MOMENTS_TELL`` moments of equal weight would say little: their own errors are joined, as of independent
    traffic.
    """
    if n_moments == 1:
        return gains[0]
    total = sum(weights)
    shares = [weight / total if total > 0 else 1 / len(gains) for weight in weights]
    parts = _weighed(gains, shares)
    deviations = np.zeros((n_moments, _N_DEVIATIONS))
    alike = 1.0 / sum(share * share for share in shares)  # so many moments of equal weight tell as much
    if alike > MOMENTS_TELL - 0.5:  # four moments that differ a little still tell
        scale = _students(alike)
        own = [
            share * scale * (one.value - sum(parts)) / math.sqrt(1.0 - share)
            for share, one in zip(shares, gains, strict=True)
        ]
        deviations[: len(gains), 0] = own
        # What few mice hide is hidden in every moment alike: the spread does not show it.
        few = [share * one.deviations[_FEW_MICE] for share, one in zip(shares, gains, strict=True)]
        deviations[: len(gains), _FEW_MICE] = np.nan_to_num(few)
    else:
        for row, share, one in zip(deviations, shares, gains, strict=False):
            row[:] = share * one.deviations
    return Gain(*parts, deviations.ravel())


@lru_cache(maxsize=64)
def _students(count: float) -> float:
    """By what the standard error of so many values is widened to hold as much as a normal one."""
    from scipy.special import ndtri, stdtrit  # imported here: see twin/arrivals/sizes.py

    return float(stdtrit(count - 1, 0.975) / ndtri(0.975))


def _weighed(gains: Sequence[Gain], weights: Sequence[float]) -> tuple[float, float, float]:
    """The weighted sums of bulk, delay and harm."""
    pairs = list(zip(weights, gains, strict=True))
    return (
        sum(weight * one.bulk for weight, one in pairs),
        sum(weight * one.delay for weight, one in pairs),
        sum(weight * one.harm for weight, one in pairs),
    )


def _parts(
    now: GainFigures, new: GainFigures, policy: Policy, persistent_share: float | None
) -> tuple[float, float, float]:
    bulk = 0.0
    share = persistent_share
    if share is not None and share < 1.0:
        bulk -= (1.0 - share) * _log_ratio(now.elephant_slowdown, new.elephant_slowdown)
    if share:
        if now.lasting_bytes_per_s and new.lasting_bytes_per_s:
            bulk += share * _log_ratio(now.lasting_bytes_per_s, new.lasting_bytes_per_s)
        else:
            bulk += share * _log_ratio(now.goodput_bytes_per_s, new.goodput_bytes_per_s)
    mice = (now.mice_p99_slowdown, new.mice_p99_slowdown)
    probe = (now.probe_p99_slowdown, new.probe_p99_slowdown)
    probes = policy.probe if None not in mice else 1.0
    if None in probe:
        probes = 0.0
    delay = (1.0 - probes) * _log_ratio(*mice) + probes * _log_ratio(*probe)
    harm = sum(
        after - before
        for before, after in ((now.paused_share, new.paused_share), (now.loss_share, new.loss_share))
        if before is not None and after is not None
    )
    return policy.bulk * bulk, -policy.delay * delay, -policy.harm_price * harm


def _log_ratio(before: float | None, after: float | None) -> float:
    return math.log(after / before) if before and after and before > 0 and after > 0 else 0.0
