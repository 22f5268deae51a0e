"""One tuning round: propose, predict in workers, drop the worse, draw closer, confirm, review, recommend."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from twin.errors import ParameterError, SearchError, TwinError
from twin.prediction import Prediction, SolveStatus, averaged, over_moments
from twin.scenario import Scenario
from twin.search.candidates import (
    ENGINE_STREAM,
    NARROWED_STREAM,
    NarrowedSampler,
    Origin,
    fill,
    generator,
    propose,
)
from twin.search.co_tuning import co_tune
from twin.search.conclusion import recommend
from twin.search.disagreement import moved_with
from twin.search.gain import Gain, gain_over, joined_over_moments, persistent_bytes_share
from twin.search.looks import Plan, WholeRuns, fewer, long_moments, look
from twin.search.parts import FleetScores, fleet_scores, split_moments
from twin.search.problem import SearchSettings, TuningProblem, persistent_share
from twin.search.recommendation import Recommendation
from twin.search.runs import Ledger, Pair, Rung, in_batches
from twin.search.score import lead, rank, tie_width
from twin.search.second_engine import Asked, Decision, RoundSoFar, second_stage
from twin.search.trajectories import predict_trajectories
from twin.watermark import Setting
from twin.workers.pool import Task, Workers, shipped

_INCUMBENT = 0  # proposed first, so its candidate number
_CONFIRMATIONS = 4
BATCHES_EACH = 4  # of a stage, for each worker


@dataclass(frozen=True, slots=True)
class Progress:
    """``done`` of ``total`` candidate runs of one stage."""

    stage: str
    done: int
    total: int


def tune(
    problem: TuningProblem,
    settings: SearchSettings,
    *,
    seed: int,
    workers: Workers,
    progress: Callable[[Progress], None] | None = None,
    version: str = "unknown",
) -> Recommendation:
    """One round. The same problem, settings, seed and version give the same result for any number of workers.

    ``progress`` is called in this thread after every batch; an exception from it ends the round. All
    candidates of a stage run under the same engine seeds (``seed`` first), so that differences are due to the
    watermark. Raises ``SearchError`` where workers keep dying or the incumbent cannot be predicted,
    ``ParameterError`` for a seed below 0 or an unknown engine.
    """
    if seed < 0:
        raise ParameterError("seed", repr(seed), "a seed is a whole number, 0 or more", "give such as 1")
    report = progress or (lambda _: None)
    problem, settings = _by_senders(problem, settings)
    with shipped(problem.moments) as files:
        looks, slices, incumbent = look(
            problem.moments,
            files,
            settings,
            problem.as_run(problem.incumbent),
            seed,
            workers,
            lambda done, total: report(Progress("slices", done, total)),
        )
        settings = fewer(settings, looks.candidates_share)
        if not slices:
            n_looks = len(looks.looks)
            problem = replace(problem, earlier=problem.moments[1:n_looks], long=problem.long[:n_looks])
            files = files[: len(problem.moments)]
        parts = [slices] if slices else split_moments(problem.moments, settings.max_parts)
        scenarios = [scenario for moments in parts for scenario in moments]
        long, note = long_moments(
            problem.long,
            settings,
            problem.scenario.duration_s,
            in_parts=bool(slices) or len(parts) > 1,
        )
        looks = replace(looks, notes=(*looks.notes, *note))
        with shipped([*scenarios, *long]) as part_files:
            if long:
                whole = WholeRuns("long moments", long, part_files[len(scenarios) :], settings, seed)
            else:
                newest = problem.moments[: looks.n_whole]
                runs = [incumbent[at] for at in range(looks.n_whole)]
                whole = WholeRuns("whole fabric", newest, files, settings, seed, runs)
            round_ = _Round(problem, settings, seed, workers, report, looks, parts, part_files, files, whole)
            answer = round_.run(version)
            together = co_tune(
                problem,
                settings,
                answer.improvement.best,
                list(zip(slices or problem.moments, part_files if slices else files, strict=False)),
                list(zip(long, part_files[len(scenarios) :], strict=True)),
                seed=seed,
                workers=workers,
                progress=lambda stage, done, total: report(Progress(stage, done, total)),
            )
            return replace(answer, co_tuning=together)


def _by_senders(problem: TuningProblem, settings: SearchSettings) -> tuple[TuningProblem, SearchSettings]:
    """The packet engine alone where a host sends by something else than DCQCN."""
    if not any(scenario.sending for scenario in problem.moments):
        return problem, settings
    settings = replace(settings, engine="packet", second_engine=None, what=("watermark",))
    if problem.scenario.unmarked:  # the incumbent's figures say all there is to say
        return problem, settings.for_the_incumbent_alone()
    note = (
        f"The packet engine ran every candidate, without a second opinion: {problem.scenario.sending_text} "
        "act on round-trip times, which only it models."
    )
    return replace(problem, notes=(*problem.notes, note)), settings


def engine_seeds(seed: int, count: int) -> tuple[int, ...]:
    """The engine seeds of a round: ``seed`` itself, then fixed others derived from it."""
    derived = np.random.SeedSequence([seed, ENGINE_STREAM]).generate_state(count - 1, np.uint32).tolist()
    return (seed, *derived)


class _Round:
    """The state of one round: its predictions and how to get more of them."""

    def __init__(
        self,
        problem: TuningProblem,
        settings: SearchSettings,
        seed: int,
        workers: Workers,
        progress: Callable[[Progress], None],
        looks: Plan,
        parts: Sequence[Sequence[Scenario]],
        files: Sequence[Path],
        whole_files: Sequence[Path],
        whole: WholeRuns,
    ) -> None:
        self._problem = problem
        self._settings = settings
        self._seed = seed
        self._looks = looks
        self._n_moments = len(looks.looks)
        self._moments = [problem.moments[one.moment] for one in looks.looks]  # whole, also of slices
        seeds, most_seeds = self._seeds_each()
        every = engine_seeds(seed, max(seeds, most_seeds))
        self._seeds, self._more_seeds = every[:seeds], every[seeds:]
        self._workers = workers
        self._progress = progress
        self._parts = parts
        self._files = files
        self._whole_files = whole_files
        self._whole = whole
        self._shares = [persistent_share(moments[0]) for moments in parts]
        self._bytes_shares: dict[tuple[int, int], float | None] = {}
        self._known: dict[tuple[int, int, int, float, tuple[int, ...]], Gain] = {}
        rungs = Rung.all_of(settings.fractions, self._n_moments)
        self._ledger = Ledger(len(parts), rungs, every)

    def run(self, version: str) -> Recommendation:
        settings = self._settings
        alive = self._ledger.extend(propose(self._problem, settings, self._seed))
        for rung, traffic in enumerate(self._ledger.rungs):
            self._predict(traffic.name(self._n_moments), alive, rung, self._seeds[:1])
            if rung < self._ledger.last_rung:
                alive = self._survivors(alive, rung)
        if self._decides_on_long:
            self._confirm(attempts=2)  # what short moments say of elephants would draw to the wrong place
        self._draw_closer(alive)
        confirmed = frozenset(self._confirm())
        first = Decision(self.scores(self.gains()), confirmed, (confirmed,) * len(self._parts))
        decision = second_stage(self._so_far(), first)
        sliced = self._looks.n_slices > 1
        answer = recommend(
            self._problem,
            settings,
            parts=[self._problem.scenario] if sliced else [moments[0] for moments in self._parts],
            moments=self._moments,
            ledger=self._ledger,
            predicted=self._prediction(),
            decision=decision,
            incumbent=_INCUMBENT,
            whole=self._predict_whole,
            looked_at=self._looks.notes,
            seed=self._seed,
            version=version,
        )
        return self._with_trajectories(answer)

    def _with_trajectories(self, answer: Recommendation) -> Recommendation:
        """Adds the queues over time under the incumbent and the winner; a failure is only noted."""
        try:
            found = predict_trajectories(
                self._problem.scenario,
                self._whole_files[0],
                (self._problem.as_run(answer.incumbent), self._problem.as_run(answer.watermark)),
                engine=self._settings.engine,
                seed=self._seed,
                workers=self._workers,
                progress=lambda done, total: self._progress(Progress("trajectories", done, total)),
            )
        except TwinError as error:
            return replace(answer, notes=(*answer.notes, f"No trajectories of the queues: {error}."))
        return replace(answer, trajectories=found)

    def _so_far(self) -> RoundSoFar:
        return RoundSoFar(
            moments=tuple(self._parts[0]) if self._looks.n_slices > 1 else self._problem.moments,
            settings=self._settings,
            ledger=self._ledger,
            n_parts=len(self._parts),
            incumbent=_INCUMBENT,
            standing=self._problem.standing,
            first_saw_more=bool(self._whole),
            first_seeds=self._seeds,
            second_seeds=engine_seeds(self._seed, self._settings.second_seeds),
            runs=self,
        )

    def _seeds_each(self) -> tuple[int, int]:
        """Seeds of every leader, and the most in a race: moments share them, as each is a draw of its own."""
        seeds, most, moments = self._settings.seeds, self._settings.most_seeds, self._n_moments
        return math.ceil(seeds / moments), max(math.ceil(most / moments), min(most, 2))

    @property
    def _decides_on_long(self) -> bool:
        return bool(self._whole) and self._looks.n_slices == 1

    def _standing(self) -> list[int]:
        """The candidate recommended before, which must be confirmed to stay."""
        watermarks = [one.watermark for one in self._ledger.proposals]
        standing = self._problem.standing
        return [watermarks.index(standing)] if standing in watermarks else []

    def _known_far_and_wide(self) -> list[int]:
        """The vendors' settings, from low to high: the others' gains move with those near them."""
        return [at for at, one in enumerate(self._ledger.proposals) if one.origin is Origin.VENDOR]

    def _survivors(self, alive: Sequence[int], rung: int) -> list[int]:
        """The better share: the best over all parts, the best of each part, the incumbent."""
        scores = self._scores_at(alive, rung)
        n_kept = max(math.ceil(self._settings.keep * len(alive)), self._settings.leaders)
        kept = set(rank(scores.fleet, near_tie=0.0)[:n_kept].tolist())
        if len(self._parts) > 1:
            each = math.ceil(n_kept / (2 * len(self._parts)))
            for part in scores.parts:
                kept.update(rank(part, near_tie=0.0)[:each].tolist())
        feasible, standing = scores.fleet.feasible, self._standing()
        return [
            number
            for row, number in enumerate(alive)
            if number == _INCUMBENT or ((row in kept or number in standing) and feasible[row])
        ]

    def _draw_closer(self, alive: Sequence[int]) -> None:
        if self._settings.narrowed == 0:
            return
        if self._decides_on_long:
            order = rank(self.scores(self.gains()).fleet, near_tie=0.0).tolist()
        else:
            order = [
                alive[row] for row in rank(self._scores_at(alive, self._ledger.last_rung).fleet, near_tie=0.0)
            ]
        known = self._ledger.proposals
        near = [known[number] for number in order if number in alive][: self._settings.neighbourhoods]
        sampler = NarrowedSampler([one.watermark for one in near], self._settings.bounds)
        drawn = fill(
            known,
            sampler,
            Origin.NARROWED,
            len(known) + self._settings.narrowed,
            generator(self._seed, NARROWED_STREAM),
            sources=[f"near {one.source or one.origin.value}" for one in near],
        )
        self._predict("narrowed", self._ledger.extend(drawn), self._ledger.last_rung, self._seeds[:1])

    def _confirm(self, attempts: int = _CONFIRMATIONS) -> list[int]:
        """Runs the leaders under every seed until the best is among them; returns all that ran so.

        More seeds move scores, so a candidate with one seed, or dropped early, may come to the front: it runs
        under every seed too before it may win. While several may still be the best, they get further seeds.
        """
        settings = self._settings
        confirmed: list[int] = []
        for attempt in range(attempts):
            scores = self.scores(self.gains())
            by_gain = settings.score == "gain"
            width = 0.0 if by_gain else tie_width(scores.fleet, settings.near_tie)
            order = rank(scores.fleet, incumbent=_INCUMBENT, near_tie=width).tolist()
            if order[0] in confirmed:
                break
            leaders = order[: settings.leaders]
            if attempt == 0:
                leaders = [_INCUMBENT, *self._standing(), *leaders]
                if self._decides_on_long:
                    leaders += self._known_far_and_wide()
                if len(self._parts) > 1:
                    for part in scores.parts:
                        own = rank(part, incumbent=_INCUMBENT, near_tie=0.0 if by_gain else settings.near_tie)
                        leaders += own[:2].tolist()
            fresh = [number for number in dict.fromkeys(leaders) if number not in confirmed]
            self.confirm_these(fresh)
            confirmed += fresh
        if settings.score == "gain" and not self._whole:
            self._race(confirmed)
        return confirmed

    def _race(self, confirmed: Sequence[int]) -> None:
        """One more seed at a time for those that cannot be told apart from the best, while there are any."""
        for seed in self._more_seeds:
            found = self._scores_at(confirmed, self._ledger.last_rung).fleet.gains
            gains = dict(zip(confirmed, found, strict=True))
            best = max(confirmed, key=lambda number: (gains[number].value, -number))
            rivals = [number for number in confirmed if lead(gains[best], gains[number]) <= 0.0]
            if len(rivals) < 2:
                break
            racing = list(dict.fromkeys([_INCUMBENT, *rivals]))
            self._predict("leaders", racing, self._ledger.last_rung, (seed,))

    def _run_as_leaders(self, candidates: Collection[int]) -> None:
        """Runs the full window under every seed, as far as these have not."""
        rung_of, n_seeds = self._ledger.rung_of, self._ledger.n_seeds
        in_full = [number for number in candidates if rung_of(number) == self._ledger.last_rung]
        once = [number for number in in_full if n_seeds(number) < len(self._seeds)]
        self._predict("leaders", once, self._ledger.last_rung, self._seeds[1:])
        dropped = [number for number in candidates if number not in in_full]
        self._predict("leaders", dropped, self._ledger.last_rung, self._seeds)

    def confirm_these(self, candidates: Collection[int]) -> None:
        """Runs the full window under every seed, and a fabric looked at in slices as a whole."""
        self._run_as_leaders(candidates)
        watermarks = self._watermarks(range(len(self._ledger.proposals)))
        self._whole.run(candidates, watermarks, self._workers.n_workers, self._all)

    def _prediction(self) -> Callable[[int], Prediction]:
        """Every candidate's prediction of most traffic."""
        if not self._whole:
            return self._ledger.whole
        return self._whole.estimate(self._ledger.settled(0).__getitem__)

    def _predict_whole(self, candidates: Sequence[int]) -> list[Prediction]:
        """The undivided scenario under these candidates, over all seeds."""
        if len(self._parts) == 1:
            return list(map(self._prediction(), candidates))
        watermarks, n_seeds = self._watermarks(candidates), len(self._seeds)
        tasks = [
            Task(file, self._settings.engine, moment.duration_s, watermarks, seed)
            for file, moment in zip(self._whole_files, self._problem.moments, strict=True)
            for seed in self._seeds
        ]
        runs = self._all("whole", tasks)
        by_moment = [runs[first : first + n_seeds] for first in range(0, len(runs), n_seeds)]
        return [
            over_moments([averaged([run[place] for run in by_seed]) for by_seed in by_moment])
            for place in range(len(candidates))
        ]

    def _predict(self, stage: str, candidates: Sequence[int], rung: int, seeds: Sequence[int]) -> None:
        """Predicts candidates on every part and moment of a rung, under each seed they have not run."""
        wanted = {
            (moment, seed): [one for one in candidates if not self._ledger.ran(one, rung, moment, seed)]
            for seed in seeds
            for moment in range(self._ledger.rungs[rung].n_moments)
        }
        n_runs = sum(map(len, wanted.values())) * len(self._parts)
        if not n_runs:
            return
        # Small enough to end together, large enough that compiling a scenario's tables costs little.
        even = math.ceil(n_runs / (BATCHES_EACH * max(self._workers.n_workers, 1)))
        jobs = [
            (part, moment, numbers, seed)
            for part in range(len(self._parts))
            for (moment, seed), missing in wanted.items()
            for numbers in in_batches(missing, min(self._settings.batch, even))
        ]
        tasks = [
            self._task(part, moment, rung, self._watermarks(chunk), seed)
            for part, moment, chunk, seed in jobs
        ]

        def enter(task: int, predictions: list[Prediction]) -> None:
            part, moment, chunk, seed = jobs[task]
            for number, prediction in zip(chunk, predictions, strict=True):
                self._ledger.record(part, number, rung, moment, seed, prediction)

        self._run(stage, tasks, enter)
        self._check_incumbent(rung)

    def predict_apart(self, stage: str, asked: Sequence[Asked]) -> list[list[Prediction]]:
        """Runs of another engine or window, which are not recorded."""
        tasks = [
            Task(
                self._file(one.part, one.moment),
                one.engine,
                one.duration_s,
                self._watermarks(one.candidates),
                one.seed,
            )
            for one in asked
        ]
        return self._all(stage, tasks)

    def _task(self, part: int, moment: int, rung: int, watermarks: tuple[Setting, ...], seed: int) -> Task:
        duration_s = self._ledger.rungs[rung].fraction * self._moments[moment].duration_s
        return Task(self._file(part, moment), self._settings.engine, duration_s, watermarks, seed)

    def _file(self, part: int, moment: int) -> Path:
        return self._files[part * self._n_moments + moment]

    def _watermarks(self, candidates: Sequence[int]) -> tuple[Setting, ...]:
        return tuple(self._problem.as_run(self._ledger.proposals[number].watermark) for number in candidates)

    def _all(self, stage: str, tasks: Sequence[Task]) -> list[list[Prediction]]:
        """The predictions of all tasks, in their order."""
        by_task: dict[int, list[Prediction]] = {}
        self._run(stage, tasks, by_task.__setitem__)
        return [by_task[number] for number in range(len(tasks))]

    def _run(self, stage: str, tasks: Sequence[Task], enter: Callable[[int, list[Prediction]], None]) -> None:
        total, done = sum(len(task.watermarks) for task in tasks), 0
        self._progress(Progress(stage, 0, total))

        def finished(number: int, predictions: list[Prediction]) -> None:
            nonlocal done
            enter(number, predictions)
            done += len(predictions)
            self._progress(Progress(stage, done, total))

        self._workers.run(tasks, finished)

    def _check_incumbent(self, rung: int) -> None:
        if self._ledger.rung_of(_INCUMBENT) < rung:
            return
        for part, moments in enumerate(self._parts):
            status = self._ledger.at(part, [_INCUMBENT], rung)[0].status
            if status is not SolveStatus.OK:
                received = f"status {status.code} for the incumbent ({self._problem.incumbent})"
                rule = "candidates are judged against the incumbent, so its run must reach its end"
                remedy = status.value.partition("; ")[2] or "look at the scenario"
                raise SearchError(f"tuning round, {moments[0].name!r}", received, rule, remedy)

    def gain(self, part: int, moment: int, now: Prediction, new: Prediction) -> Gain:
        """The gain of one prediction over the incumbent's on a part in one moment."""
        if (part, moment) not in self._bytes_shares:
            incumbent = self._ledger.first(part, _INCUMBENT, moment).gain_figures
            self._bytes_shares[part, moment] = persistent_bytes_share(self._parts[part][moment], incumbent)
        return gain_over(now, new, self._settings.policy, self._bytes_shares[part, moment])

    def joined(self, part: int, gains: Mapping[int, Gain]) -> Gain:
        """One candidate's gain on a part over these moments, each weighted by the bytes it delivers."""
        weights = [self._goodput(part, moment) * self._moments[moment].duration_s for moment in gains]
        return joined_over_moments(list(gains.values()), weights, self._n_moments)

    def _goodput(self, part: int, moment: int) -> float:
        """Delivered under the incumbent, bytes per second."""
        found = self._ledger.first(part, _INCUMBENT, moment).goodput_bytes_per_s
        return found if math.isfinite(found) else 0.0

    def _gain_of(self, part: int, number: int, pair: Pair) -> Gain:
        """The gain of one candidate in a moment; most are asked for again and again."""
        key = part, number, pair.moment, pair.fraction, pair.seeds
        if key not in self._known:
            self._known[key] = self.gain(part, pair.moment, pair.now, pair.new)
        return self._known[key]

    def _gain_at(self, part: int, number: int, rung: int | None = None) -> Gain:
        """One candidate's gain over the traffic of a rung (None: the most it ran)."""
        pairs = self._ledger.paired(part, number, _INCUMBENT, rung)
        return self.joined(part, {pair.moment: self._gain_of(part, number, pair) for pair in pairs})

    def gains(self) -> list[list[Gain]]:
        """By part, the first engine's gains of all candidates.

        Those of candidates that ran less than all traffic are moved as the rest of it moved others near them:
        the newest moment alone may favour what was dropped over all that was kept.
        """
        watermarks = [one.watermark for one in self._ledger.proposals]
        parts = range(len(self._parts))
        found = [[self._gain_at(part, number) for number in range(len(watermarks))] for part in parts]
        for rung in range(self._ledger.last_rung):
            ran = [number for number in range(len(watermarks)) if self._ledger.reached(number, rung)]
            near = [watermarks[number] for number in ran]
            for part, gains in enumerate(found):
                in_full = {
                    place: gains[number]
                    for place, number in enumerate(ran)
                    if self._ledger.reached(number, self._ledger.last_rung)
                }
                moved = moved_with([self._gain_at(part, number, rung) for number in ran], in_full, near)
                for number, gain in zip(ran, moved, strict=True):
                    if self._ledger.rung_of(number) == rung:
                        gains[number] = gain
        return [self._whole.decide(found[0], watermarks, self._n_moments)] if self._whole else found

    def _scores_at(self, alive: Sequence[int], rung: int) -> FleetScores:
        """Scores of candidates that all ran one window."""
        rows = [self._ledger.at(part, alive, rung) for part in range(len(self._parts))]
        gains = [[self._gain_at(part, number) for number in alive] for part in range(len(self._parts))]
        return self._scored(rows, gains)

    def scores(self, gains: list[list[Gain]]) -> FleetScores:
        """Scores of all candidates by these gains."""
        return self._scored([self._ledger.settled(part) for part in range(len(self._parts))], gains)

    def _scored(self, rows: Sequence[Sequence[Prediction]], gains: list[list[Gain]]) -> FleetScores:
        settings = self._settings
        return fleet_scores(
            rows,
            _INCUMBENT,
            settings.weights,
            self._problem.scenario.pfc,
            self._shares,
            gains,
            settings.score,
        )
