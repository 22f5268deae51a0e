"""The predictions of a round so far, by part, candidate, moment of traffic, window length and seed."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from twin.prediction import Prediction, averaged, over_moments, pooled, stretched
from twin.scenario import Scenario
from twin.search.candidates import Proposal, without_repeats


@dataclass(frozen=True, slots=True)
class Rung:
    """How much traffic one stage predicts: ``fraction`` of each of the first ``n_moments`` moments."""

    fraction: float
    n_moments: int = 1

    @classmethod
    def all_of(cls, fractions: Sequence[float], n_moments: int) -> tuple[Rung, ...]:
        """Rungs of these fractions of all traffic: of one moment's length, or of several moments.

        Where there is more than one rung, the first of several moments is the newest alone.
        """
        if n_moments == 1:
            return tuple(cls(fraction) for fraction in fractions)
        first = [1] if len(fractions) > 1 else []
        counts = {*first, *(max(1, round(fraction * n_moments)) for fraction in fractions)}
        return tuple(cls(1.0, count) for count in sorted(counts))

    def name(self, of_moments: int) -> str:
        """As progress and metrics call it: ``window 0.4``, ``traffic 0.375``."""
        return f"window {self.fraction:g}" if of_moments == 1 else f"traffic {self.n_moments / of_moments:g}"

    def traffic_s(self, moments: Sequence[Scenario]) -> float:
        """Seconds of traffic it predicts, all moments together."""
        return self.fraction * sum(one.duration_s for one in moments[: self.n_moments])


@dataclass(frozen=True, slots=True)
class Pair:
    """Two candidates' runs of one moment, as long as ``fraction`` of it, under the seeds both ran."""

    moment: int
    fraction: float
    seeds: tuple[int, ...]
    now_runs: tuple[Prediction, ...]
    new_runs: tuple[Prediction, ...]

    @property
    def now(self) -> Prediction:
        return averaged(self.now_runs)

    @property
    def new(self) -> Prediction:
        return averaged(self.new_runs)


def in_batches(candidates: Sequence[int], most: int) -> list[Sequence[int]]:
    """As few batches of at most ``most`` as it takes, alike in size: a short one leaves a worker idle."""
    n = len(candidates)
    count = math.ceil(n / most)
    return [candidates[n * part // count : n * (part + 1) // count] for part in range(count)]


class Ledger:
    """Candidates in the order proposed, and every prediction of them.

    Runs under several of the ``seeds`` are kept in the order of these, whichever ended first: means of them
    are the same to the last bit, and the first runs of two candidates are of the same seeds.
    """

    def __init__(self, n_parts: int, rungs: Sequence[Rung], seeds: Sequence[int]) -> None:
        self.proposals: list[Proposal] = []
        self.rungs = tuple(rungs)
        self.last_rung = len(rungs) - 1
        self._n_parts = n_parts
        self._place = {seed: place for place, seed in enumerate(seeds)}
        # Predictions by part, candidate and fraction, then by moment, then by seed.
        self._runs: defaultdict[tuple[int, int, float], dict[int, dict[int, Prediction]]] = defaultdict(dict)
        # Their means, by rung and moment, until another run is recorded: a round asks for them often.
        self._means: defaultdict[tuple[int, int, float], dict[tuple[int, int | None], Prediction]] = (
            defaultdict(dict)
        )
        # By candidate and fraction, then by moment, the seeds it ran under in every part.
        self._seeds: defaultdict[tuple[int, float], dict[int, set[int]]] = defaultdict(dict)

    def extend(self, proposals: Sequence[Proposal]) -> list[int]:
        """Adds proposals whose watermark is new; returns their candidate numbers."""
        before = len(self.proposals)
        self.proposals = without_repeats([*self.proposals, *proposals])
        return list(range(before, len(self.proposals)))

    def record(
        self, part: int, candidate: int, rung: int, moment: int, seed: int, prediction: Prediction
    ) -> None:
        fraction = self.rungs[rung].fraction
        self._runs[part, candidate, fraction].setdefault(moment, {})[seed] = prediction
        self._means.pop((part, candidate, fraction), None)
        self._seeds[candidate, fraction].setdefault(moment, set()).add(seed)

    def ran(self, candidate: int, rung: int, moment: int, seed: int) -> bool:
        """Whether it has run this moment, for as long as this rung does, under this seed."""
        return seed in self._seeds.get((candidate, self.rungs[rung].fraction), {}).get(moment, ())

    def rung_of(self, candidate: int) -> int:
        """The most traffic this candidate ran."""
        return max(rung for rung in range(self.last_rung + 1) if self.reached(candidate, rung))

    def reached(self, candidate: int, rung: int) -> bool:
        """Whether it ran all moments of a rung; they run in order."""
        stage = self.rungs[rung]
        return stage.n_moments - 1 in self._seeds.get((candidate, stage.fraction), {})

    def n_seeds(self, candidate: int) -> int:
        """The number of seeds it ran most traffic under."""
        return len(self._seeds[candidate, self.rungs[self.rung_of(candidate)].fraction][0])

    def at(self, part: int, candidates: Sequence[int], rung: int) -> list[Prediction]:
        """Predictions of these candidates at one rung, each the mean over its moments and seeds."""
        return [self._mean(part, candidate, rung) for candidate in candidates]

    def full(self, part: int, candidate: int, moment: int | None = None) -> Prediction:
        """Its prediction of one part's whole traffic, or of one moment of it."""
        return self._mean(part, candidate, self.last_rung, moment)

    def whole(self, candidate: int, at: int | None = None) -> Prediction:
        """Its prediction of a rung's traffic (None: the most it ran), the parts pooled."""
        rung = self.rung_of(candidate) if at is None else at
        return pooled([self._mean(part, candidate, rung) for part in range(self._n_parts)])

    def first(self, part: int, candidate: int, moment: int) -> Prediction:
        """Its first run of a moment, as long as the first rung."""
        runs = self._runs[part, candidate, self.rungs[0].fraction][moment]
        return next(iter(runs.values()))

    def paired(self, part: int, candidate: int, with_: int, at: int | None = None) -> list[Pair]:
        """Another candidate's predictions and its own, of every moment of one rung (None: its longest)."""
        rung = self.rungs[self.rung_of(candidate) if at is None else at]
        theirs, own = self._runs[part, with_, rung.fraction], self._runs[part, candidate, rung.fraction]
        pairs = []
        for moment in sorted(own)[: rung.n_moments]:
            seeds = self._in_order(theirs[moment].keys() & own[moment].keys())
            now, new = (tuple(runs[moment][seed] for seed in seeds) for runs in (theirs, own))
            pairs.append(Pair(moment, rung.fraction, seeds, now, new))
        return pairs

    def settled(self, part: int) -> list[Prediction]:
        """Every candidate on all traffic: as run, or estimated from the most it ran."""
        everyone = range(len(self.proposals))

        def ran(rung: int) -> list[int]:
            return [candidate for candidate in everyone if self.reached(candidate, rung)]

        full = {candidate: self.full(part, candidate) for candidate in ran(self.last_rung)}
        estimate = {}
        for rung in range(self.last_rung):
            both = [candidate for candidate in ran(rung) if candidate in full]
            stretch = stretched(self.at(part, both, rung), [full[candidate] for candidate in both])
            for candidate in ran(rung):
                estimate[candidate] = stretch(self._mean(part, candidate, rung))
        return [full[candidate] if candidate in full else estimate[candidate] for candidate in everyone]

    def _mean(self, part: int, candidate: int, rung: int, moment: int | None = None) -> Prediction:
        at = part, candidate, self.rungs[rung].fraction
        known = self._means[at]
        if (rung, moment) not in known:
            runs = self._runs[at]
            moments = range(self.rungs[rung].n_moments) if moment is None else [moment]
            known[rung, moment] = over_moments(
                [averaged([runs[one][seed] for seed in self._in_order(runs[one])]) for one in moments]
            )
        return known[rung, moment]

    def _in_order(self, seeds: Collection[int]) -> tuple[int, ...]:
        return tuple(sorted(seeds, key=self._place.__getitem__))
