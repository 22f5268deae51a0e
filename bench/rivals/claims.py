"""Claims of the rivals' publications, and what results here show beside them.

A claim of a change is compared by ours: own ÷ other − 1 in pairs, seed by seed, in the case (a scenario's
phase) where that is best for the claim, as papers print "up to". Slowdown against alone on the path stands
for their flow completion times.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from bench.rivals.judge import bootstrap
from bench.rivals.scenarios import FULL, scenario_named
from bench.rivals.store import Row
from bench.rivals.tuner import Floats
from bench.rivals.tuners import INCUMBENT, NO_BUDGET, TUNERS, budgets_of

BEST_STATIC = "best static"  # of the oracle's, by the claim's own statistic, over all seeds of a case
LEAST_SEEDS = 5  # a bootstrap of fewer says little: three of one sign come by chance once in four times

STATISTICS = {
    "flow_mean": "mean",
    "small_mean": "mean below 1 MB",
    "small_p99": "p99 below 1 MB",
    "elephant_mean": "mean from 1 MB",
    "mice_mean": "mean below 100 KB",
    "mice_p99": "p99 below 100 KB",
    "queue_mean_bytes": "mean depth",
    "queue_std_bytes": "σ of depths",
    "probe_mean": "probes' mean",
}
_SLOWDOWNS = tuple(STATISTICS)[:6]
_PET = ("pet", "pet-delay-lambda-0.95")
_SEARCH = tuple(f"websearch-{load}" for load in (20, 40, 60, 80))
_VENDOR = "+vendor"
_OTHERS = ("acc", "pet", "pet-delay-lambda-0.95", "ai-ecn", "bytetuning", "annealing")  # of Paraleon
_INCAST = tuple(f"incast-{fan_in}" for fan_in in (8, 16, 32, 64))


class Verdict(StrEnum):
    CONFIRMED = "confirmed"  # its interval lies on the claimed side of 0
    CONTRADICTED = "contradicted"  # on the other
    NOT_SHOWN = "not shown"
    NOT_COMPARABLE = "not comparable"
    NO_RESULTS = "no results"


@dataclass(frozen=True, slots=True)
class Claim:
    """A published claim.

    ``printed`` has its numbers, in percent, by the tuner it compares with; ``statistics`` are columns of
    ``Row``, several where the source names none. Only ``phases`` count, all where it is (). ``standing``: P
    printed, A of an abstract. ``note`` says what differs here, or why nothing here can stand beside it.
    """

    id: str
    says: str
    where: str
    printed: tuple[tuple[str, float], ...] = ()
    statistics: tuple[str, ...] = ()
    scenarios: tuple[str, ...] = _SEARCH
    note: str = ""
    own: tuple[str, ...] = _PET
    phases: tuple[int, ...] = ()
    standing: str = "P"


def _over_three(acc: float, secn1: float, secn2: float) -> tuple[tuple[str, float], ...]:
    return ("acc", acc), ("secn1", secn1), ("secn2", secn2)


def _over_acc(percent: float) -> tuple[tuple[str, float], ...]:
    return (("acc", percent),)


_P2, _P3 = _over_three(-2.6, -5.2, -18.4), _over_three(-9.9, -23.6, -48.6)
_P5, _P6 = _over_three(-8.2, -23.2, -67.3), _over_three(-3.7, -7.6, -13.4)
_TABLE, _SWITCHES = ("websearch-60",), ("pet-switches", "pet-switches-10x")
_SWITCHED = (1, 2, 3)
_BETA = "β (0.3, 0.7) throughout"
_MICE = ("small_mean", "small_p99", "mice_mean", "mice_p99")
_SENDERS = tuple(name + senders for name in ("websearch-60", "incast-32") for senders in ("", _VENDOR))
_ALL = tuple(name for name in FULL if "+" not in name)
_MEAN, _ELEPHANTS = ("flow_mean",), ("elephant_mean",)
_UNPRINTED = "its search is not printed; two of its four collectives here"
_TUNED = ((INCUMBENT, -30.0), (BEST_STATIC, -30.0))

CLAIMS = (
    Claim("P1", "WebSearch, mean FCT", "§5.5.1, Fig. 4a", _over_three(-3.9, -5.8, -17.6), _MEAN),
    Claim("P2", "mice mean", "Fig. 4b", _P2, ("small_mean",)),
    Claim("P2", "mice mean", "Fig. 4b", _P2, ("mice_mean",)),
    Claim("P3", "mice p99", "Fig. 4c", _P3, ("small_p99",)),
    Claim("P3", "mice p99", "Fig. 4c", _P3, ("mice_p99",)),
    Claim("P4", "elephants mean", "Fig. 4d", _over_three(-4.9, -9.6, -8.7), _ELEPHANTS),
    Claim("P5", "WebSearch, unnamed", "§5.5.2, Fig. 5a", _P5, _SLOWDOWNS),
    Claim("P6", "DataMining, unnamed", "Fig. 5b", _P6, _SLOWDOWNS, ("data-mining-50",), _BETA),
    Claim("P7", "queue mean: 5.3, ACC 6.1 KB", "Table 1", _over_acc(-13.1), ("queue_mean_bytes",), _TABLE),
    Claim(
        "P7", "queue variance: 10.2, ACC 14.1 KB", "Table 1", _over_acc(-27.7), ("queue_std_bytes",), _TABLE
    ),
    Claim(
        "P8",
        "pattern switches, best: elephants",
        "§5.5.4, Fig. 6",
        _over_acc(-2.1),
        _ELEPHANTS,
        _SWITCHES,
        _BETA,
        phases=_SWITCHED,
    ),
    Claim(
        "P8",
        "pattern switches, best: mice",
        "§5.5.4, Fig. 6",
        _over_acc(-7.2),
        _MICE,
        _SWITCHES,
        _BETA,
        phases=_SWITCHED,
    ),
    Claim(
        "P9",
        "link failures, mean FCT",
        "§5.5.5, Fig. 7",
        _over_acc(-26.0),
        _MEAN,
        ("link-cuts",),
        phases=(1,),
    ),
    Claim("P10", "latency, WebSearch", "§5.5.6, Fig. 8", _over_three(-3.0, -7.2, -18.3), ("probe_mean",)),
    Claim(
        "P11",
        "with D_incast, R_flow or without",
        "§5.5.7, Fig. 9",
        (("pet-delay-no-flows", -6.3),),
        _MEAN,
        (*_SEARCH, *_INCAST),
        "both with ACC's D(L)",
        ("pet-delay",),
    ),
    Claim("A1", "storage IOPS +20 %", "abstract", note="no storage here", own=("acc",), standing="A"),
    Claim(
        "A2",
        "FCT over a tuned static",
        "abstract",
        _TUNED,
        _MEAN,
        (*_TABLE, *_INCAST),
        own=("acc",),
        standing="A",
    ),
    Claim(
        "L1",
        "utility over other tuners: here J",
        "abstract",
        (("least", 3.8), ("most", 61.4)),
        scenarios=_ALL,
        own=("paraleon", "paraleon-plus"),
        standing="A",
    ),
    Claim(
        "U1",
        "throughput spread over DCQCN parameters",
        "Unicom §2.3.1",
        (("", 50.0),),
        scenarios=_SENDERS,
        note="goodput under the paper's and the NICs' values; no sweep of them yet",
        own=(INCUMBENT,),
    ),
    Claim("U2", "effect on training TFLOPS 50 %", "Unicom §3.3", note="no training here", own=()),
    Claim("U3", "all collectives gain, all-to-all most", "Unicom Fig. 9", note=_UNPRINTED, own=()),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What results show beside one number of a claim.

    ``values`` are ours in percent, by seed, in the ``case`` that is best of ``cases``; ``overall`` the mean
    over all of them, ``figures`` the two tuners' means there. ``missing``: the command for runs that the
    claim needs and the results lack, or ''.
    """

    claim: Claim
    tuner: str
    verdict: Verdict
    against: str = ""
    printed: float | None = None
    statistic: str = ""
    values: tuple[float, ...] = ()
    case: str = ""
    cases: int = 0
    overall: float = math.nan
    figures: tuple[float, ...] = ()
    missing: str = ""

    @property
    def ours(self) -> tuple[float, float, float]:
        """Mean and its 95 % interval; NaN without values."""
        return bootstrap(self.values)

    @property
    def why(self) -> str:
        """Remarks on the verdict: too few seeds, and the claim's own note."""
        if self.verdict is Verdict.NO_RESULTS:
            return ""
        few = f"{len(self.values)} seeds" if 0 < len(self.values) < LEAST_SEEDS else ""
        return "; ".join(filter(None, (few, self.claim.note)))

    @property
    def measure(self) -> str:
        """The statistic in words, and whether it was chosen as the nearest."""
        several = len(self.claim.statistics)
        if several > 1:
            return (
                f"nearest of {several}: {STATISTICS[self.statistic]}" if self.values else f"any of {several}"
            )
        return STATISTICS.get(self.statistic, "")


def verdict_on(values: Sequence[float], printed: float, *, beyond: float = 0.0) -> Verdict:
    """Whether values paired by seed lie on the side of ``beyond`` that the sign of ``printed`` claims."""
    if not values:
        return Verdict.NO_RESULTS
    _, low, high = bootstrap(values)
    above, below = Verdict.CONFIRMED, Verdict.CONTRADICTED
    if printed < 0:
        above, below = below, above
    if len(values) < LEAST_SEEDS or low <= beyond <= high:
        return Verdict.NOT_SHOWN
    return above if low > beyond else below


Pair = tuple[str, str]  # tuner, budget


class Results:
    """Rows by case and tuner; ``variant`` is put behind the names of all scenarios."""

    def __init__(self, rows: Iterable[Row], *, variant: str = "", into: str = "") -> None:
        self._suffix = f"+{variant}" if variant else ""
        self._rows: dict[tuple[str, Pair], dict[int, Row]] = {}
        for row in rows:
            self._rows.setdefault((row.scenario, (row.tuner, row.budget)), {})[row.seed] = row
        scenario_named(f"{_SEARCH[0]}{self._suffix}")  # refuses an unknown variant
        seeds = sorted({seed for found in self._rows.values() for seed in found}) or list(range(1, 11))
        self._options = f"--seeds {','.join(map(str, seeds))}" + (f" --into {into}" if into else "")

    def of(self, scenario: str, pair: Pair) -> dict[int, Row]:
        """The rows of a tuner on a scenario, by seed."""
        return self._rows.get((scenario + self._suffix, pair), {})

    def in_pairs(self, one: tuple[str, Pair], other: tuple[str, Pair | None]) -> list[tuple[Row, Row]]:
        """Rows of two tuners, each with its scenario, by the seeds that both have."""
        ours, theirs = self.of(*one), {} if other[1] is None else self.of(other[0], other[1])
        return [(ours[seed], theirs[seed]) for seed in sorted(ours.keys() & theirs.keys())]

    def pairs(self, scenario: str) -> list[Pair]:
        return sorted(pair for name, pair in self._rows if name == scenario + self._suffix)

    def cases(self, claim: Claim, pair: Pair) -> list[tuple[str, int]]:
        """Scenario and phase of each."""
        found = []
        for scenario in claim.scenarios:
            for row in list(self.of(scenario, pair).values())[:1]:
                phases = claim.phases or range(len(row.j))
                found += [(scenario, phase) for phase in phases]
        return found

    def label(self, scenario: str, phase: int, pair: Pair) -> str:
        """``websearch-40``, or ``pet-switches, phase 2`` where there are several."""
        several = len(next(iter(self.of(scenario, pair).values())).j) > 1
        return scenario + self._suffix + (f", phase {phase + 1}" if several else "")

    def best_static(self, scenario: str, phase: int, statistic: str) -> Pair | None:
        statics = [pair for pair in self.pairs(scenario) if pair[0].startswith("static:")]
        return min(statics, key=lambda pair: self._mean(scenario, pair, phase, statistic), default=None)

    def command(self, claim: Claim, pairs: Sequence[Pair]) -> str:
        """Makes the runs of these tuners that are not there; '' where all are."""
        lacking = [
            (scenario + self._suffix, named(*pair, at="@"))
            for scenario in claim.scenarios
            for pair in pairs
            if scenario in FULL and not self.of(scenario, pair)
        ]
        if not lacking:
            return ""
        scenarios, tuners = (",".join(dict.fromkeys(names)) for names in zip(*lacking, strict=True))
        return f"python -m bench.rivals run --scenarios {scenarios} --tuners {tuners} {self._options}"

    def _mean(self, scenario: str, pair: Pair, phase: int, statistic: str) -> float:
        return _mean([_value(row, statistic, phase) for row in self.of(scenario, pair).values()])


def findings(results: Results, *, every_variant: bool = False) -> list[Finding]:
    """What ``results`` show beside each claim.

    Of each tuner the variant on its own budget that learns online, else the first that is there;
    ``every_variant``: all that are there.
    """
    found: list[Finding] = []
    for claim in CLAIMS:
        if not claim.printed:
            tuner = ", ".join(claim.own)
            found.append(Finding(claim=claim, tuner=tuner, verdict=Verdict.NOT_COMPARABLE))
            continue
        own = _variants(claim, results, every_variant)
        others = _OTHERS if claim.id == "L1" else [other for other, _ in claim.printed if other in TUNERS]
        missing = results.command(claim, [*own, *(_beside(other, pair) for pair in own for other in others)])
        look = {"L1": _over_others, "U1": _spread}.get(claim.id, _nearest)
        found += [replace(one, missing=missing) for pair in own for one in look(claim, pair, results)]
    return found


def named(tuner: str, budget: str, at: str = " @") -> str:
    return tuner if budget == NO_BUDGET else f"{tuner}{at}{budget}"


def _variants(claim: Claim, results: Results, every: bool) -> list[Pair]:
    found: list[Pair] = []
    for name in claim.own:
        known = [
            (name + suffix, budget)
            for suffix in ("", "-frozen")
            for budget in ("box", "collector", NO_BUDGET)
            if name + suffix in TUNERS and budget in budgets_of(name + suffix)
        ]
        there = [one for one in known if any(results.of(scenario, one) for scenario in claim.scenarios)]
        found += (there if every else there[:1]) or known[:1]
    return found


def _beside(other: str, own: Pair) -> Pair:
    """The other tuner as ``own`` runs: on its budget, frozen or not."""
    if other == BEST_STATIC or budgets_of(other) == (NO_BUDGET,):
        return other, NO_BUDGET
    frozen = "-frozen" if own[0].endswith("-frozen") and f"{other}-frozen" in TUNERS else ""
    return other + frozen, own[1]


def _nearest(claim: Claim, own: Pair, results: Results) -> list[Finding]:
    """By the one statistic whose numbers are nearest to all that are printed."""
    tried = [
        [_change(claim, own, other, printed, statistic, results) for other, printed in claim.printed]
        for statistic in claim.statistics
    ]

    def off(found: list[Finding]) -> float:
        there = [abs(one.ours[0] - (one.printed or 0.0)) for one in found if one.values]
        return float(np.mean(there)) if there else math.inf

    return min(tried, key=off)


def _change(
    claim: Claim, own: Pair, against: str, printed: float, statistic: str, results: Results
) -> Finding:
    """Own ÷ other − 1 in the case where that is least."""
    other = _beside(against, own)
    pairs: dict[tuple[str, int], Floats] = {}
    for scenario, phase in results.cases(claim, own):
        beside = results.best_static(scenario, phase, statistic) if against == BEST_STATIC else other
        both = np.array(
            [
                [_value(row, statistic, phase) for row in rows]
                for rows in results.in_pairs((scenario, own), (scenario, beside))
            ]
        ).reshape(-1, 2)
        both = both[np.isfinite(both).all(axis=1) & (both[:, 1] > 0)]
        if both.size:
            pairs[scenario, phase] = both
    changes = {case: 100 * (both[:, 0] / both[:, 1] - 1) for case, both in pairs.items()}
    best = min(changes, key=lambda case: float(changes[case].mean()), default=None)
    values = () if best is None else tuple(changes[best].tolist())
    return Finding(
        claim=claim,
        tuner=named(*own),
        against=named(*other),
        printed=printed,
        statistic=statistic,
        values=values,
        case="" if best is None else results.label(*best, own),
        cases=len(changes),
        overall=_mean([float(one.mean()) for one in changes.values()]),
        figures=() if best is None else tuple(pairs[best].mean(axis=0).tolist()),
        verdict=verdict_on(values, printed),
    )


def _over_others(claim: Claim, own: Pair, results: Results) -> list[Finding]:
    """Gain in J over the tuner over which it is least, and most; in percent of a slowdown."""
    gains: dict[Pair, list[float]] = {}
    scenarios: dict[Pair, int] = {}
    for other in (_beside(name, own) for name in _OTHERS):
        by_seed: dict[int, list[float]] = {}
        for scenario in claim.scenarios:
            pairs = results.in_pairs((scenario, own), (scenario, other))
            scenarios[other] = scenarios.get(other, 0) + bool(pairs)
            for ours, theirs in pairs:
                by_seed.setdefault(ours.seed, []).append(_mean(ours.j) - _mean(theirs.j))
        if by_seed:
            gains[other] = [100 * math.expm1(_mean(by_seed[seed])) for seed in sorted(by_seed)]
    if not gains:
        return [Finding(claim=claim, tuner=named(*own), verdict=Verdict.NO_RESULTS)]
    ordered = sorted(gains, key=lambda one: _mean(gains[one]))
    return [
        Finding(
            claim=claim,
            tuner=named(*own),
            against=f"{named(*other)}, the {which}",
            printed=printed,
            statistic="j",
            values=tuple(gains[other]),
            case=f"{scenarios[other]} scenarios",
            cases=1,
            verdict=verdict_on(gains[other], printed),
        )
        for (which, printed), other in zip(claim.printed, (ordered[0], ordered[-1]), strict=True)
    ]


def _spread(claim: Claim, own: Pair, results: Results) -> list[Finding]:
    """How far the goodput under two sets of DCQCN parameters lies apart, where that is widest."""
    spreads: dict[str, list[float]] = {}
    for scenario in (name for name in claim.scenarios if not name.endswith(_VENDOR)):
        for rows in results.in_pairs((scenario, own), (scenario + _VENDOR, own)):
            got = [row.goodput_bytes_per_s for row in rows]
            spreads.setdefault(scenario, []).append(100 * (1 - min(got) / max(got)))
    widest = max(spreads, key=lambda name: _mean(spreads[name]), default="")
    values = tuple(spreads.get(widest, ()))
    [(_, printed)] = claim.printed
    verdict = verdict_on(values, printed, beyond=printed)
    # Two sets of many: that theirs is narrower contradicts nothing.
    verdict = Verdict.NOT_SHOWN if verdict is Verdict.CONTRADICTED else verdict
    return [
        Finding(
            claim=claim,
            tuner=named(*own),
            printed=printed,
            statistic="goodput_bytes_per_s",
            values=values,
            case=widest,
            cases=len(spreads),
            overall=_mean([_mean(one) for one in spreads.values()]),
            verdict=verdict,
        )
    ]


def _value(row: Row, statistic: str, phase: int) -> float:
    """Of a phase, or of the whole run for figures that are kept of that alone."""
    value = getattr(row, statistic)
    return float(value[phase] if isinstance(value, tuple) else value)


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if len(values) else math.nan
