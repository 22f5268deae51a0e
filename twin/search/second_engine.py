"""The last stage of a round: the second engine runs the few best, and the decision is based on that."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from twin.errors import ScenarioError, SearchError
from twin.prediction import Prediction, SolveStatus, averaged, pooled
from twin.scenario import Scenario, affordable_s
from twin.search.disagreement import ahead, differ_text, disagreement, few, of_both
from twin.search.explain import watermark_text
from twin.search.gain import Gain
from twin.search.parts import FleetScores
from twin.search.problem import SearchSettings
from twin.search.recommendation import Compared, SecondOpinion
from twin.search.runs import Ledger
from twin.search.score import Scores, choose
from twin.units import duration_text, percent_text

STAGE = "second opinion"
LEAST_WINDOW_S = 2e-3  # forty CNP intervals of 50 µs: rates do not settle in less


@dataclass(frozen=True, slots=True)
class Asked:
    """Runs of one engine: candidates and a part by their numbers, cut at ``duration_s``."""

    part: int
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


@dataclass(frozen=True)
class RoundSoFar:
    """The round, as far as this stage needs it.

    ``predict`` runs engines, ``confirm`` has the first engine run candidates under all its seeds, ``gain`` is
    that of a prediction over the incumbent's on a part. ``gains`` are the first engine's by part, ``score``
    scores all candidates by those given.
    """

    scenario: Scenario
    settings: SearchSettings
    ledger: Ledger
    n_parts: int
    incumbent: int
    first_seeds: tuple[int, ...]
    second_seeds: tuple[int, ...]
    predict: Callable[[str, Sequence[Asked]], list[list[Prediction]]]
    confirm: Callable[[Collection[int]], None]
    gain: Callable[[int, Prediction, Prediction], Gain]
    gains: Callable[[], list[list[Gain]]]
    score: Callable[[list[list[Gain]]], FleetScores]


def second_stage(so_far: RoundSoFar, first: Decision) -> Decision:
    """Reviews ``first``, the first engine's decision, by the second engine.

    Only a candidate that ran to its end under the second engine may win, on the gains of both (``of_both``);
    a normalised score stays the first engine's. Where the second engine cannot run the incumbent, or fails,
    the first decision stands, with a note. Other errors of ``predict`` than ``SearchError`` and
    ``ScenarioError`` end the round.
    """
    settings = so_far.settings
    if settings.second_engine is None:
        return first
    scenario = so_far.scenario
    window_s = affordable_s(scenario, settings.second_packet_hops)
    if window_s < min(LEAST_WINDOW_S, scenario.duration_s):
        return _unasked(
            first,
            f"No second opinion: within {settings.second_packet_hops:g} packet-hops a run, "
            f"{settings.second_engine} would see only {duration_text(window_s)} of this fabric, "
            f"less than {duration_text(LEAST_WINDOW_S)}; raise second_packet_hops for one.",
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
    return replace(first, scores=so_far.score(so_far.gains()))


class _Review:
    """Runs of both engines on one window, and the decision based on them."""

    def __init__(self, so_far: RoundSoFar, first: Decision, window_s: float) -> None:
        self._so_far = so_far
        self._first = first
        self._window_s = window_s
        self._share = window_s / so_far.scenario.duration_s
        self._engine = so_far.settings.second_engine or ""
        # (part, candidate): the first engine's figures of the window, and the second's.
        self._runs: dict[tuple[int, int], tuple[Prediction, Prediction]] = {}
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
        for _ in range(settings.second_candidates):
            front = ahead(scores.fleet, self._fleet) if settings.score == "gain" else None
            if front is None:
                break
            self._fleet.append(front)
            self._run({part: [front] for part in range(so_far.n_parts)})
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

    def _run(self, by_part: dict[int, list[int]]) -> None:
        """Runs both engines on the window, for candidates of each part that have not run it yet."""
        so_far = self._so_far
        wanted = {
            part: [row for row in rows if (part, row) not in self._runs] for part, rows in by_part.items()
        }
        so_far.confirm(dict.fromkeys(row for rows in wanted.values() for row in rows))
        asked, keys = [], []
        for part, rows in wanted.items():
            # One candidate at a time: each of these runs is long.
            for seed in so_far.second_seeds:
                for row in rows:
                    asked.append(Asked(part, self._engine, self._window_s, (row,), seed))
                    keys.append(1)
            if self._share < 1.0 and rows:
                for seed in so_far.first_seeds:
                    asked.append(Asked(part, so_far.settings.engine, self._window_s, tuple(rows), seed))
                    keys.append(0)
        found: dict[tuple[int, int, int], list[Prediction]] = {}
        for which, one, predictions in zip(keys, asked, so_far.predict(STAGE, asked), strict=True):
            for row, prediction in zip(one.candidates, predictions, strict=True):
                found.setdefault((which, one.part, row), []).append(prediction)
        for part, rows in wanted.items():
            for row in rows:
                short = averaged(found[0, part, row]) if self._share < 1.0 else so_far.ledger.full(part, row)
                self._runs[part, row] = short, averaged(found[1, part, row])

    def _best(self, scores: Scores, among: Collection[int]) -> int:
        so_far = self._so_far
        return choose(
            scores,
            among=among,
            incumbent=so_far.incumbent,
            margin=so_far.settings.margin,
            watermarks=[one.watermark for one in so_far.ledger.proposals],
            near_tie=so_far.settings.near_tie,
        ).row

    def _ok(self, part: int, row: int) -> bool:
        return all(one.status is SolveStatus.OK for one in self._runs[part, row])

    def _sound(self, row: int) -> bool:
        return all(self._ok(part, row) for part in range(self._so_far.n_parts))

    def _scores(self) -> FleetScores:
        """All candidates on both engines' gains."""
        so_far, first = self._so_far, self._so_far.gains()
        watermarks = [one.watermark for one in so_far.ledger.proposals]
        return so_far.score(
            [
                of_both(first[part], self._second_gains(part, first[part]), watermarks)
                for part in range(so_far.n_parts)
            ]
        )

    def _second_gains(self, part: int, first: Sequence[Gain]) -> dict[int, Gain]:
        """The second engine's gains on a part, from a window cut short moved as the first's are."""
        short_now, now = self._runs[part, self._so_far.incumbent]
        found = {}
        for (at, row), (short, second) in self._runs.items():
            if at == part:
                gain = self._so_far.gain(part, now, second)
                if self._share < 1.0:
                    gain = gain.moved(self._so_far.gain(part, short_now, short), first[row])
                found[row] = gain
        return found

    def _undecided(self) -> Decision:
        so_far, first = self._so_far, _as_of_now(self._so_far, self._first)
        pick = self._best(first.scores.fleet, first.fleet)
        bad = next(
            one.status
            for part in range(so_far.n_parts)
            for one in self._runs[part, so_far.incumbent]
            if one.status is not SolveStatus.OK
        )
        sentence = (
            f"No second opinion: status {bad.code} for the incumbent under {self._engine} ({bad.value}), "
            f"so {so_far.settings.engine} decided alone."
        )
        opinion = self._opinion(pick, pick, first.scores, sentence)
        return replace(first, opinion=opinion, notes=(*first.notes, sentence))

    def _opinion(
        self, pick: int, after: int, scores: FleetScores, sentence: str | None = None
    ) -> SecondOpinion:
        so_far, fleet = self._so_far, scores.fleet
        candidates = []
        for row in sorted(self._fleet, key=lambda at: (at != so_far.incumbent, -float(fleet.score[at]), at)):
            runs = [self._runs[part, row] for part in range(so_far.n_parts)]
            candidates.append(
                Compared(
                    so_far.ledger.proposals[row].watermark,
                    pooled([short for short, _ in runs]),
                    pooled([second for _, second in runs]),
                    float(fleet.score[row]) if fleet.feasible[row] else None,
                )
            )
        by_figure = disagreement([(one.first, one.second) for one in candidates])
        first_pick, last_pick = (so_far.ledger.proposals[row].watermark for row in (pick, after))
        opinion = SecondOpinion(
            engine=self._engine,
            n_seeds=len(so_far.second_seeds),
            window_s=self._window_s,
            cut=self._share < 1.0,
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
                f"{opinion.engine} prefers {watermark_text(opinion.pick)} to {first}'s pick, "
                f"{watermark_text(opinion.first_pick)}"
            )
        else:
            says = f"{opinion.engine} picks the same watermark as {first}"
        differ = differ_text(opinion.disagreement)
        margin = percent_text(opinion.margin)
        apart = (
            f"the engines disagree by {differ}, beyond the margin of {margin}"
            if opinion.disagrees
            else f"the engines differ by at most {differ}"
        )
        ran = f"; it ran the first {duration_text(opinion.window_s)} of the window" if opinion.cut else ""
        return f"{says[:1].upper()}{says[1:]}; {apart}{ran}."
