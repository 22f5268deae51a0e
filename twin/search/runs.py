"""The predictions of a round so far, by part, candidate, window length (rung) and seed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from twin.prediction import Prediction, averaged, pooled, stretched
from twin.search.candidates import Proposal, without_repeats


class Ledger:
    """Candidates in the order proposed, and every prediction of them."""

    def __init__(self, n_parts: int, n_rungs: int) -> None:
        self.proposals: list[Proposal] = []
        self._n_parts = n_parts
        self._last_rung = n_rungs - 1
        self._by_seed: defaultdict[tuple[int, int, int], dict[int, Prediction]] = defaultdict(dict)

    def extend(self, proposals: Sequence[Proposal]) -> list[int]:
        """Adds proposals whose watermark is new; returns their candidate numbers."""
        before = len(self.proposals)
        self.proposals = without_repeats([*self.proposals, *proposals])
        return list(range(before, len(self.proposals)))

    def record(self, part: int, candidate: int, rung: int, seed: int, prediction: Prediction) -> None:
        self._by_seed[part, candidate, rung][seed] = prediction

    def rung_of(self, candidate: int) -> int:
        """The longest window this candidate ran."""
        return max(rung for rung in range(self._last_rung + 1) if (0, candidate, rung) in self._by_seed)

    def n_seeds(self, candidate: int) -> int:
        """The number of seeds it ran its longest window under."""
        return len(self._by_seed[0, candidate, self.rung_of(candidate)])

    def at(self, part: int, candidates: Sequence[int], rung: int) -> list[Prediction]:
        """Predictions of these candidates at one window length, each the mean over its seeds."""
        return [self._mean(part, candidate, rung) for candidate in candidates]

    def full(self, part: int, candidate: int) -> Prediction:
        """Its prediction on the full window of one part."""
        return self._mean(part, candidate, self._last_rung)

    def whole(self, candidate: int) -> Prediction:
        """Its prediction at its longest window, the parts pooled."""
        rung = self.rung_of(candidate)
        return pooled([self._mean(part, candidate, rung) for part in range(self._n_parts)])

    def paired(self, part: int, candidate: int, with_: int) -> tuple[Prediction, Prediction]:
        """Another candidate's prediction and its own, of its longest window, over the seeds both ran."""
        rung = self.rung_of(candidate)
        theirs, own = self._by_seed[part, with_, rung], self._by_seed[part, candidate, rung]
        seeds = sorted(theirs.keys() & own.keys())
        return averaged([theirs[seed] for seed in seeds]), averaged([own[seed] for seed in seeds])

    def settled(self, part: int) -> list[Prediction]:
        """Every candidate at full length: as run, or estimated from the longest window it ran."""
        everyone = range(len(self.proposals))

        def ran(rung: int) -> list[int]:
            return [candidate for candidate in everyone if (part, candidate, rung) in self._by_seed]

        full = {candidate: self.full(part, candidate) for candidate in ran(self._last_rung)}
        estimate = {}
        for rung in range(self._last_rung):
            both = [candidate for candidate in ran(rung) if candidate in full]
            stretch = stretched(self.at(part, both, rung), [full[candidate] for candidate in both])
            for candidate in ran(rung):
                estimate[candidate] = stretch(self._mean(part, candidate, rung))
        return [full[candidate] if candidate in full else estimate[candidate] for candidate in everyone]

    def _mean(self, part: int, candidate: int, rung: int) -> Prediction:
        # Sorted by seed: a mean in order of arrival differs in the last bit.
        runs = self._by_seed[part, candidate, rung]
        return averaged([runs[seed] for seed in sorted(runs)])
