"""The last stage of a round: the second engine runs the few best, and the decision is based on that."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from twin.errors import ScenarioError, SearchError
from twin.prediction import Prediction, SolveStatus, averaged, over_moments, pooled
from twin.scenario import Scenario, affordable_s, packet_hops
from twin.search.disagreement import ahead, differ_text, disagreement, few, of_both
from twin.search.explain import watermark_text
from twin.search.gain import Gain
from twin.search.looks import LEAST_WINDOW_S
from twin.search.parts import FleetScores
from twin.search.problem import SearchSettings
from twin.search.recommendation import Compared, SecondOpinion
from twin.search.runs import Ledger
from twin.search.score import Scores, choose
from twin.units import duration_text, percent_text
from twin.watermark import Watermark

STAGE = "second opinion"
AT_ONCE = 2  # candidates run together that came to the front; these runs are long


@dataclass(frozen=True, slots=True)
class Asked:
    """Runs of one engine: candidates, a part and a moment by their numbers, cut at ``duration_s``."""

    part: int
    moment: int
    engine: str
    duration_s: float
    candidates: tuple[int, ...]
    seed: int


@dataclass(frozen=True)
class Decision:
    """Scores to decide on, and which candidates may win: over the fleet, and in each part."""

    scores: FleetScores
    fleet: frozenset[int]
    parts: tuple[frozenset[int], ...]
    opinion: SecondOpinion | None = None
    notes: tuple[str, ...] = ()


class RoundRuns(Protocol):
    """The runs of a round that this stage needs; candidates, parts and moments are numbers."""

    def predict_apart(self, stage: str, asked: Sequence[Asked]) -> list[list[Prediction]]:
        """Runs that are not recorded, of any engine."""
        ...

    def confirm_these(self, candidates: Collection[int]) -> None:
        """Has the first engine run these candidates under all its seeds."""
        ...

    def gain(self, part: int, moment: int, now: Prediction, new: Prediction) -> Gain:
        """The gain of a prediction over the incumbent's on a part in one moment."""
        ...

    def joined(self, part: int, gains: Mapping[int, Gain]) -> Gain:
        """One candidate's gain on a part, of its gains by moment."""
        ...

    def gains(self) -> list[list[Gain]]:
        """The first engine's gains of all candidates, by part."""
        ...

    def scores(self, gains: list[list[Gain]]) -> FleetScores:
        """Scores of all candidates by these gains."""
        ...


@dataclass(frozen=True)
class RoundSoFar:
    """The round, as far as this stage needs it; ``runs`` makes more of them.

    ``first_saw_more``: the first engine's leaders ran on more than ``moments``, and that decided.
    """

    moments: tuple[Scenario, ...]
    settings: SearchSettings
    ledger: Ledger
    n_parts: int
    incumbent: int
    standing: Watermark | None
    first_saw_more: bool
    first_seeds: tuple[int, ...]
    second_seeds: tuple[int, ...]
    runs: RoundRuns


def second_stage(so_far: RoundSoFar, first: Decision) -> Decision:
    """Reviews ``first``, the first engine's decision, by the second engine.

    Only a candidate that ran to its end under the second engine may win, on the gains of both (``of_both``);
    a normalised score stays the first engine's. Where the second engine cannot run the incumbent, or fails,
    the first decision stands, with a note. Other errors of its runs than ``SearchError`` and
    ``ScenarioError`` end the round.
    """
    settings = so_far.settings
    if settings.second_engine is None:
        return first
    scenario = so_far.moments[0]
    window_s = affordable_s(scenario, settings.second_packet_hops)
    if window_s < min(LEAST_WINDOW_S, scenario.duration_s):
        return _unasked(
            first,
            f"No second opinion: within {settings.second_packet_hops:g} packet-hops a run, "
            f"the {settings.second_engine} engine would see only {duration_text(window_s)} of this fabric, "
            f"less than {duration_text(LEAST_WINDOW_S)}; raise search.second_opinion_packet_hops for one.",
        )
    review = _Review(so_far, first, window_s)
    try:
        return review.decide()
    except (SearchError, ScenarioError) as error:
        return _unasked(_as_of_now(so_far, first), f"No second opinion: {error}.")


def _unasked(first: Decision, note: str) -> Decision:
    return replace(first, notes=(*first.notes, note))


def _as_of_now(so_far: RoundSoFar, first: Decision) -> Decision:
    """The first engine's decision on all of its runs: it has run more seeds since."""
    return replace(first, scores=so_far.runs.scores(so_far.runs.gains()))


def _affordable(moments: Sequence[Scenario], budget: float) -> int:
    """How many of the moments ``budget`` packet-hops pay for, at least one."""
    spent = np.cumsum([packet_hops(scenario, scenario.duration_s) for scenario in moments])
    return max(int(np.count_nonzero(spent <= budget)), 1)


class _Review:
    """Runs of both engines on the same traffic, and the decision based on them.

    That is as many of the newest moments as the budget pays for, else the start of the newest.
    """

    def __init__(self, so_far: RoundSoFar, first: Decision, window_s: float) -> None:
        self._so_far = so_far
        self._first = first
        self._window_s = window_s
        self._cut = window_s < so_far.moments[0].duration_s
        self._moments = range(_affordable(so_far.moments, so_far.settings.second_packet_hops))
        self._engine = so_far.settings.second_engine or ""
        # (part, candidate): by moment, the first engine's figures and the second's.
        self._runs: dict[tuple[int, int], list[tuple[Prediction, Prediction]]] = {}
        self._fleet: list[int] = []

    def decide(self) -> Decision:
        so_far, settings, first = self._so_far, self._so_far.settings, self._first
        pick = self._best(first.scores.fleet, first.fleet)
        wanted = few(first.scores.fleet, settings.weights, settings.second_candidates, pick, so_far.incumbent)
        by_part = {part: [so_far.incumbent, *wanted] for part in range(so_far.n_parts)}
        if so_far.n_parts > 1:
            for part, alone in enumerate(first.scores.parts):
                own = self._best(alone, first.parts[part])
                by_part[part] = list(dict.fromkeys([*by_part[part], own]))
        self._fleet = [so_far.incumbent, *wanted]
        self._run(by_part)
        if not self._sound(so_far.incumbent):
            return self._undecided()
        scores = self._scores()
        for _ in range(0, settings.second_candidates, AT_ONCE):
            fronts = ahead(scores.fleet, self._fleet)[:AT_ONCE] if settings.score == "gain" else []
            if not fronts:
                break
            self._fleet += fronts
            self._run(dict.fromkeys(range(so_far.n_parts), fronts))
            scores = self._scores()
        may_win = frozenset(row for row in self._fleet if self._sound(row))
        after = self._best(scores.fleet, may_win)
        return Decision(
            scores,
            may_win,
            tuple(
                frozenset(row for at, row in self._runs if at == part and self._ok(part, row))
                for part in range(so_far.n_parts)
            ),
            self._opinion(pick, after, scores),
            first.notes,
        )

    @property
    def _ran_s(self) -> float:
        """Seconds of traffic, all moments together."""
        if self._cut:
            return self._window_s
        return sum(self._so_far.moments[moment].duration_s for moment in self._moments)

    def _run(self, by_part: dict[int, list[int]]) -> None:
        """Runs both engines on the window, for candidates of each part that have not run it yet."""
        so_far = self._so_far
        wanted = {
            part: [row for row in rows if (part, row) not in self._runs] for part, rows in by_part.items()
        }
        so_far.runs.confirm_these(dict.fromkeys(row for rows in wanted.values() for row in rows))
        asked, keys = [], []
        for part, rows in wanted.items():
            # One candidate at a time: each of these runs is long.
            for moment in self._moments:
                duration_s = self._window_s if self._cut else so_far.moments[moment].duration_s
                for seed in so_far.second_seeds:
                    for row in rows:
                        asked.append(Asked(part, moment, self._engine, duration_s, (row,), seed))
                        keys.append(1)
                if self._cut and rows:
                    for seed in so_far.first_seeds:
                        engine = so_far.settings.engine
                        asked.append(Asked(part, moment, engine, duration_s, tuple(rows), seed))
                        keys.append(0)
        found: dict[tuple[int, int, int, int], list[Prediction]] = {}
        for which, one, predictions in zip(keys, asked, so_far.runs.predict_apart(STAGE, asked), strict=True):
            for row, prediction in zip(one.candidates, predictions, strict=True):
                found.setdefault((which, one.part, one.moment, row), []).append(prediction)
        for part, rows in wanted.items():
            for row in rows:
                self._runs[part, row] = [
                    (
                        averaged(found[0, part, moment, row])
                        if self._cut
                        else so_far.ledger.full(part, row, moment),
                        averaged(found[1, part, moment, row]),
                    )
                    for moment in self._moments
                ]

    def _best(self, scores: Scores, among: Collection[int]) -> int:
        so_far = self._so_far
        return choose(
            scores,
            among=among,
            incumbent=so_far.incumbent,
            margin=so_far.settings.margin,
            watermarks=[one.watermark for one in so_far.ledger.proposals],
            near_tie=so_far.settings.near_tie,
            standing=so_far.standing,
        ).row

    def _ok(self, part: int, row: int) -> bool:
        return all(one.status is SolveStatus.OK for both in self._runs[part, row] for one in both)

    def _sound(self, row: int) -> bool:
        return all(self._ok(part, row) for part in range(self._so_far.n_parts))

    def _scores(self) -> FleetScores:
        """All candidates on both engines' gains."""
        so_far, first = self._so_far, self._so_far.runs.gains()
        watermarks = [one.watermark for one in so_far.ledger.proposals]
        return so_far.runs.scores(
            [
                of_both(first[part], self._second_gains(part, first[part]), watermarks)
                for part in range(so_far.n_parts)
            ]
        )

    def _second_gains(self, part: int, first: Sequence[Gain]) -> dict[int, Gain]:
        """The second engine's gains on a part; those of less than all traffic moved as the first's are."""
        now = self._runs[part, self._so_far.incumbent]
        partly = self._cut or self._so_far.first_saw_more or len(self._moments) < len(self._so_far.moments)
        found = {}
        for (at, row), runs in self._runs.items():
            if at == part:
                gain = self._joined(
                    part, [(before[1], after[1]) for before, after in zip(now, runs, strict=True)]
                )
                found[row] = gain.moved(self._first_gain(part, row), first[row]) if partly else gain
        return found

    def _first_gain(self, part: int, row: int) -> Gain:
        """The first engine's gain over the traffic that the second ran."""
        incumbent = self._so_far.incumbent
        if self._cut:
            now, runs = self._runs[part, incumbent], self._runs[part, row]
            return self._joined(part, [(now[0][0], runs[0][0])])
        pairs = self._so_far.ledger.paired(part, row, incumbent)
        return self._joined(part, [(pair.now, pair.new) for pair in pairs[: len(self._moments)]])

    def _joined(self, part: int, pairs: Sequence[tuple[Prediction, Prediction]]) -> Gain:
        """The gain over the first moments, from the incumbent's and a candidate's prediction of each."""
        gains = {
            moment: self._so_far.runs.gain(part, moment, now, new) for moment, (now, new) in enumerate(pairs)
        }
        return self._so_far.runs.joined(part, gains)

    def _undecided(self) -> Decision:
        so_far, first = self._so_far, _as_of_now(self._so_far, self._first)
        pick = self._best(first.scores.fleet, first.fleet)
        bad = next(
            one.status
            for part in range(so_far.n_parts)
            for both in self._runs[part, so_far.incumbent]
            for one in both
            if one.status is not SolveStatus.OK
        )
        sentence = (
            f"No second opinion: status {bad.code} for the incumbent under the {self._engine} engine "
            f"({bad.value}), so the {so_far.settings.engine} engine decided alone."
        )
        opinion = self._opinion(pick, pick, first.scores, sentence)
        return replace(first, opinion=opinion, notes=(*first.notes, sentence))

    def _opinion(
        self, pick: int, after: int, scores: FleetScores, sentence: str | None = None
    ) -> SecondOpinion:
        so_far, fleet = self._so_far, scores.fleet
        candidates = []
        for row in sorted(self._fleet, key=lambda at: (at != so_far.incumbent, -float(fleet.score[at]), at)):
            by_part = [list(zip(*self._runs[part, row], strict=True)) for part in range(so_far.n_parts)]
            candidates.append(
                Compared(
                    so_far.ledger.proposals[row].watermark,
                    pooled([over_moments(first) for first, _ in by_part]),
                    pooled([over_moments(second) for _, second in by_part]),
                    float(fleet.score[row]) if fleet.feasible[row] else None,
                )
            )
        by_figure = disagreement([(one.first, one.second) for one in candidates])
        first_pick, last_pick = (so_far.ledger.proposals[row].watermark for row in (pick, after))
        opinion = SecondOpinion(
            engine=self._engine,
            n_seeds=len(so_far.second_seeds),
            window_s=self._ran_s,
            cut=self._cut or len(self._moments) < len(so_far.moments),
            candidates=tuple(candidates),
            disagreement=by_figure,
            margin=so_far.settings.second_margin,
            first_pick=first_pick,
            pick=last_pick,
            decided=sentence is None,
            sentence=sentence or "",
        )
        return opinion if sentence else replace(opinion, sentence=self._sentence(opinion))

    def _sentence(self, opinion: SecondOpinion) -> str:
        first = self._so_far.settings.engine
        if opinion.changed_pick:
            says = (
                f"The {opinion.engine} engine prefers {watermark_text(opinion.pick)} to {first}'s pick, "
                f"{watermark_text(opinion.first_pick)}"
            )
        else:
            says = f"The {opinion.engine} engine picks the same watermark as {first}"
        differ = differ_text(opinion.disagreement)
        margin = percent_text(opinion.margin)
        apart = (
            f"the engines disagree by {differ}, beyond the margin of {margin}"
            if opinion.disagrees
            else f"the engines differ by at most {differ}"
        )
        ran = ""
        if opinion.cut:
            which = "the first" if self._cut else f"the newest {len(self._moments)} moments,"
            ran = f"; it ran {which} {duration_text(opinion.window_s)} of the traffic"
        return f"{says}; {apart}{ran}."
