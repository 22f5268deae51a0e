"""What results amount to: regret, time to settle, what was suffered meanwhile; by tuner over seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from bench.rivals.judge import SLICE_S, WORSE_BEYOND, Slices, bootstrap, regret, settled_after_s
from bench.rivals.scenarios import SCENARIOS, scenario_named
from bench.rivals.store import Key, Row, slices_of
from bench.rivals.tuner import Floats
from bench.rivals.tuners import INCUMBENT
from twin.errors import ParameterError

ONE_STATIC = "one static in hindsight"


@dataclass(frozen=True, slots=True)
class Standing:
    """How one tuner did on one scenario and seed.

    ``over_incumbent`` is the sum over phases of J less the incumbent's. ``settled_after_s`` has an entry a
    phase, inf where it never settled; ``worst_shortfall`` is the worst millisecond's, below the phase's best
    static; ``worse_share`` of milliseconds were worse than the incumbent's. While exploring:
    ``shortfall_exploring`` below the best static, a millisecond's mean, and over the incumbent in the same
    milliseconds ``extra_pauses``, ``extra_drops``, and ``extra_mice`` in ln of their p99.
    """

    row: Row
    regret: float
    regret_settled: float
    over_incumbent: float
    settled_after_s: tuple[float, ...]
    worst_shortfall: float
    worse_share: float
    shortfall_exploring: float
    extra_pauses: float
    extra_drops: float
    extra_mice: float


class Standings:
    """All results of a folder compared; raises ``ParameterError`` where the statics are missing."""

    def __init__(self, folder: Path, rows: Sequence[Row]) -> None:
        self.folder = folder
        self._rows = {row.key: row for row in rows}
        self._slices: dict[Key, Slices] = {}
        self._stitched: dict[tuple[str, int], Floats] = {}

    @cached_property
    def scenarios(self) -> list[str]:
        place = {name: number for number, name in enumerate(SCENARIOS)}
        found = dict.fromkeys(key.scenario for key in self._rows)
        return sorted(found, key=lambda name: (place.get(name.partition("+")[0], len(place)), name))

    @cached_property
    def seeds(self) -> list[int]:
        return sorted({key.seed for key in self._rows})

    @cached_property
    def tuners(self) -> list[tuple[str, str]]:
        """Name and budget of every tuner but the oracle's statics, best mean regret first."""
        pairs = dict.fromkeys(
            (key.tuner, key.budget) for key in self._rows if not key.tuner.startswith("static:")
        )
        return sorted(pairs, key=lambda pair: _mean(self.figures(pair[0], pair[1], lambda one: one.regret)))

    @cached_property
    def all(self) -> dict[Key, Standing]:
        return {
            key: self._standing(row) for key, row in self._rows.items() if not key.tuner.startswith("static:")
        }

    def figures(
        self, tuner: str, budget: str, figure: Callable[[Standing], float], scenario: str | None = None
    ) -> list[float]:
        """A figure by seed; without ``scenario`` the mean over all of them."""
        by_seed: dict[int, list[float]] = {}
        for key, one in self.all.items():
            if (key.tuner, key.budget) == (tuner, budget) and scenario in (None, key.scenario):
                by_seed.setdefault(key.seed, []).append(figure(one))
        return [float(np.mean(by_seed[seed])) for seed in sorted(by_seed)]

    def one_static(self, scenario: str | None = None) -> list[float]:
        """Regret by seed of the static that is best over a whole run of its scenario, known afterwards."""
        found = []
        for seed in self.seeds:
            by_scenario = [
                self._statics(where, seed) for where in self.scenarios if scenario in (None, where)
            ]
            regrets = [
                min(regret(row.j, [one.j for one in all_]) for row in all_) for all_ in by_scenario if all_
            ]
            found += [float(np.mean(regrets))] if regrets else []
        return found

    def shortfall(self, key: Key) -> Floats:
        """The best static's score of each phase less this one's, by millisecond."""
        return self._best(key.scenario, key.seed) - self.slices(key).score

    def best_statics(self, scenario: str, seed: int) -> list[Row]:
        statics = self._statics(scenario, seed)
        return [max(statics, key=lambda row: row.j[phase]) for phase in range(len(self.spans(scenario)))]

    def _statics(self, scenario: str, seed: int) -> list[Row]:
        return [
            row
            for key, row in self._rows.items()
            if (key.scenario, key.seed) == (scenario, seed) and key.tuner.startswith("static:")
        ]

    def slices(self, key: Key) -> Slices:
        if key not in self._slices:
            self._slices[key] = slices_of(self.folder, key)
        return self._slices[key]

    def spans(self, scenario: str) -> list[slice]:
        """The milliseconds of each phase."""
        return [
            slice(round(begin_s / SLICE_S), round(end_s / SLICE_S))
            for begin_s, end_s in scenario_named(scenario).spans_s
        ]

    def _best(self, scenario: str, seed: int) -> Floats:
        """Scores of the best static of each phase, one after the other."""
        if (scenario, seed) not in self._stitched:
            best = zip(self.best_statics(scenario, seed), self.spans(scenario), strict=True)
            parts = [self.slices(row.key).score[span] for row, span in best]
            self._stitched[scenario, seed] = np.concatenate(parts)
        return self._stitched[scenario, seed]

    def _standing(self, row: Row) -> Standing:
        statics = self._statics(row.scenario, row.seed)
        beside = self._rows.get(Key(row.scenario, INCUMBENT, "none", row.seed))
        if not statics or beside is None:
            rule = "regret needs the oracle's statics and the incumbent, which are not all there yet"
            remedy = "let the run go on"
            raise ParameterError(f"results of {row.scenario}, seed {row.seed}", None, rule, remedy)
        own, incumbent = self.slices(row.key), self.slices(beside.key)
        best = self._best(row.scenario, row.seed)
        exploring = own.exploring > 0
        with np.errstate(invalid="ignore", divide="ignore"):
            mice = np.log(own.mice_p99 / incumbent.mice_p99)[exploring]
        mice = mice[np.isfinite(mice)]
        return Standing(
            row=row,
            regret=regret(row.j, [one.j for one in statics]),
            regret_settled=regret(row.j_settled, [one.j_settled for one in statics]),
            over_incumbent=sum(row.j) - sum(beside.j),
            settled_after_s=tuple(
                settled_after_s(own.score[span], best[span]) for span in self.spans(row.scenario)
            ),
            worst_shortfall=float((best - own.score).max()),
            worse_share=float(np.mean(own.score < incumbent.score - WORSE_BEYOND)),
            shortfall_exploring=float((best - own.score)[exploring].mean()) if exploring.any() else math.nan,
            extra_pauses=float((own.pauses - incumbent.pauses)[exploring].sum()),
            extra_drops=float((own.dropped_packets - incumbent.dropped_packets)[exploring].sum()),
            extra_mice=float(mice.mean()) if mice.size else math.nan,
        )


def interval(values: Sequence[float]) -> str:
    """Mean and half the width of its bootstrap interval: ``0.12 ± 0.04``."""
    mean, low, high = bootstrap(values)
    return "" if math.isnan(mean) else f"{mean:.2f} ± {(high - low) / 2:.2f}".replace("-", "−")


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if len(values) else math.inf
