"""Predicts what other paths would do to elephants that collide: a few of them moved, or another hash seed.

The replay runs the same flows with the same draws on the paths as they are, with one elephant after the other
moved, and with all flows of the switch hashed anew under many seeds. The second engine judges the moves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path as File

import numpy as np

from telemetry.network.collisions import Collision, collisions, port_loads
from telemetry.state import NetworkState
from telemetry.topology import Topology
from twin.paths.moves import Carried, Changes, Move, carried, hashed, rerouted, spread
from twin.paths.result import Goodput, Hashed, Moved, PathAdvice, PathFix, PathMove, fix_sentence, summary
from twin.prediction import Prediction, SolveStatus, averaged
from twin.scenario import Scenario, affordable_s
from twin.search.gain import MODEL_ERROR, Gain, gain_over, of_two_engines, persistent_bytes_share
from twin.search.looks import CORES, HOP_S, LEAST_WINDOW_S
from twin.search.problem import SearchSettings
from twin.search.round import Progress, engine_seeds
from twin.watermark import Setting
from twin.workers.pool import Workers, answering, shipped, shipped_scenario

MOST_FIXES = 3  # collisions that are predicted, the worst ones
MOST_LISTED = 8
HASH_SEEDS = 16
_SEEDS = 2  # engine seeds of the moves
_BUDGET_SHARE = 0.25  # of the round's budget, beside what the round takes
_RUNS = 100  # about how many runs that is


@dataclass(frozen=True, slots=True)
class PathTask:
    """The scenario in ``scenario_file`` with these flows on other paths, under what runs now."""

    scenario_file: File
    engine: str
    duration_s: float
    watermark: Setting
    seed: int
    changes: Changes
    watched: tuple[int, ...]

    def run(self) -> Prediction:
        """Raises ``SearchError`` for an engine that raises."""
        with answering(self.engine) as engine:
            whole = shipped_scenario(self.scenario_file, math.inf)
            # Rows are those of the whole, so they change before the scenario is cut.
            scenario = replace(whole, flows=rerouted(whole.flows, self.changes), watched=self.watched)
            [found] = engine.predict(scenario.until(self.duration_s), [self.watermark], seed=self.seed)
            return found


def advise(
    state: NetworkState,
    scenario: Scenario | None,
    running: Setting,
    settings: SearchSettings,
    *,
    seed: int,
    workers: Workers,
    progress: Callable[[Progress], None],
) -> PathAdvice:
    """The collisions of the window, and what other paths would do in ``scenario``, its newest moment.

    ``scenario`` None: the twin does not describe this network, and predicts nothing. The same input gives the
    same advice on any number of workers. Raises ``SearchError`` where workers keep dying.
    """
    ratio = settings.collision_ratio
    seen = collisions(state, ratio)
    worst = seen.found[:MOST_FIXES] if scenario is not None else ()
    others = seen.found[len(worst) : MOST_LISTED]
    runs = None
    fixes: list[PathFix] = []
    unpredicted = "the twin is not like this network, so that it does not say what would help"
    if worst and scenario is not None:
        left = _BUDGET_SHARE * CORES * settings.budget_s / (_RUNS * HOP_S)
        length_s = min(max(affordable_s(scenario, left), LEAST_WINDOW_S), scenario.duration_s)
        cut = scenario.until(length_s)
        with shipped([cut]) as [file]:
            seeds = engine_seeds(seed, _SEEDS)
            runs = _Runs(state.topology, cut, file, running, settings, seeds, workers, progress)
            fixes = [runs.fix(one, port_loads(state)) for one in worst]
        unpredicted = "only the worst are predicted"
    fixes += [PathFix(one, None, None, fix_sentence(one, None, None, unpredicted)) for one in others]
    unknown = seen.n_unknown if seen.n_unknown < seen.n_elephants else 0
    notes = []
    if unknown:
        notes.append(f"The paths of {unknown} of {seen.n_elephants} elephants are unknown.")
    if (unlisted := len(seen.found) - MOST_LISTED) > 0:
        notes.append(f"The {MOST_LISTED} worst collisions are listed, and {unlisted} more are not.")
    if not state.topology_declared:
        notes.append(
            "The topology is made of reports, which do not show ports that carry nothing: declare it to have "
            "all equal-cost ports known."
        )
    return PathAdvice(
        fixes=tuple(fixes),
        sentence=summary(seen, ratio),
        notes=tuple(notes),
        n_runs=0 if runs is None else runs.count,
        traffic_s=0.0 if runs is None else runs.cut.duration_s,
    )


@dataclass(frozen=True, slots=True)
class _Outcome:
    """Runs of one engine, one a seed, that watch the elephants."""

    predictions: tuple[Prediction, ...]

    @property
    def sound(self) -> bool:
        return all(
            one.status is SolveStatus.OK and one.watched and self._mean(one) > 0.0 for one in self.predictions
        )

    @property
    def goodput_bytes_per_s(self) -> float:
        return float(np.mean([self._mean(one) for one in self.predictions]))

    def log_ratios(self, before: _Outcome) -> list[float]:
        """By seed, ln of how many times their goodput elephants have."""
        pairs = zip(before.predictions, self.predictions, strict=True)
        return [math.log(self._mean(new) / self._mean(now)) for now, new in pairs]

    def _mean(self, prediction: Prediction) -> float:
        """Of an elephant while it sends: all bytes by all the time, so that short ones count for little."""
        carried, taken_s = np.array(prediction.watched).sum(axis=0).tolist()
        return carried / taken_s if taken_s > 0.0 else 0.0


@dataclass(slots=True)
class _Runs:
    """The runs of one round's advice on one moment of traffic; ``count`` is how many."""

    topology: Topology
    cut: Scenario
    file: File
    running: Setting
    settings: SearchSettings
    seeds: Sequence[int]
    workers: Workers
    progress: Callable[[Progress], None]
    count: int = 0

    def fix(self, collision: Collision, loads: Mapping[int, float]) -> PathFix:
        flows = self.cut.flows
        elephants = carried(flows, collision)
        if not elephants:
            absent = "the newest moment shows none of them, so that nothing is predicted"
            return PathFix(collision, None, None, fix_sentence(collision, None, None, absent))
        moves = spread(self.topology, flows, collision, elephants, loads)
        first = [
            hashed(self.topology, flows, collision.switch, elephants, seed) for seed in range(HASH_SEEDS)
        ]
        nested = [_changes(moves[:count]) for count in range(len(moves) + 1)]
        now, *moved = self._outcomes(nested, elephants, self.settings.engine, self.cut.duration_s, self.seeds)
        drawn = self._outcomes(first, elephants, self.settings.engine, self.cut.duration_s, self.seeds[:1])
        if not now.sound:
            failed = "the engine could not run it, so that nothing is predicted"
            return PathFix(collision, None, None, fix_sentence(collision, None, None, failed))
        best = self._judged(collision, elephants, moves, now, moved)
        another = self._hashed(_Outcome(now.predictions[:1]), drawn)
        return PathFix(collision, best, another, fix_sentence(collision, best, another, ""))

    def _judged(
        self,
        collision: Collision,
        elephants: Sequence[Carried],
        moves: Sequence[Move],
        now: _Outcome,
        moved: Sequence[_Outcome],
    ) -> Moved | None:
        """The fewest moves whose goodput no more moves better by the margin; None where none gives more."""
        gained = [float(np.mean(one.log_ratios(now))) if one.sound else -math.inf for one in moved]
        if max(gained, default=0.0) <= 0.0:
            return None
        enough = max(gained) - min(self.settings.margin, 0.5 * max(gained))
        count = next(at for at, value in enumerate(gained, 1) if value >= enough)
        chosen, after, times = moves[:count], moved[count - 1], gained[count - 1]
        ratios = after.log_ratios(now)
        error = math.hypot(float(np.std(ratios)) / math.sqrt(max(len(ratios) - 1, 1)), MODEL_ERROR * times)
        gain = self._gain(now, after, self.cut)
        first = Goodput(
            self.settings.engine, now.goodput_bytes_per_s, after.goodput_bytes_per_s, self.cut.duration_s
        )
        second, second_gain = None, None
        agreed = True
        if self.settings.second_engine is not None:
            judged = self._second(elephants, chosen, self.settings.second_engine)
            if judged is not None:
                second, its_gain = judged
                its_times = math.log(second.after_bytes_per_s / second.before_bytes_per_s)
                error = math.hypot(error, 0.5 * abs(its_times - times))
                times = 0.5 * (times + its_times)
                gain, second_gain = of_two_engines(gain, its_gain, 0.5), its_gain.value
                agreed = its_times > 0.0
        name = {one.port: one.name for one in collision.ports}
        return Moved(
            moves=tuple(
                PathMove(
                    one.elephant.key,
                    one.elephant.src_host,
                    one.elephant.dst_host,
                    name[one.elephant.port],
                    name[one.to],
                )
                for one in chosen
            ),
            times=math.exp(times),
            times_error=math.exp(times) * error,
            first=first,
            second=second,
            gain=gain.value,
            gain_error=gain.error,
            second_gain=second_gain,
            advised=agreed
            and times - 2.0 * error > self.settings.margin
            and not gain.value + 2.0 * gain.error < 0.0,
        )

    def _second(
        self, elephants: Sequence[Carried], moves: Sequence[Move], engine: str
    ) -> tuple[Goodput, Gain] | None:
        """The same by the second engine, over as much as it has time for; None where that is too
        little, or it could not run.
        """
        length_s = min(self.cut.duration_s, affordable_s(self.cut, self.settings.second_packet_hops))
        if length_s < min(self.cut.duration_s, LEAST_WINDOW_S):
            return None
        pair = [_changes(()), _changes(moves)]
        now, after = self._outcomes(pair, elephants, engine, length_s, self.seeds[:1])
        if not (now.sound and after.sound):
            return None
        found = Goodput(engine, now.goodput_bytes_per_s, after.goodput_bytes_per_s, length_s)
        return found, self._gain(now, after, self.cut.until(length_s))

    def _hashed(self, now: _Outcome, drawn: Sequence[_Outcome]) -> Hashed | None:
        sound = [one for one in drawn if one.sound]
        if not sound:
            return None
        times = np.exp([one.log_ratios(now)[0] for one in sound])
        gains = np.array([self._gain(now, one, self.cut).value for one in sound])
        return Hashed(
            len(sound), float(times.mean()), float(times.std()), float(gains.mean()), float(gains.std())
        )

    def _gain(self, now: _Outcome, after: _Outcome, scenario: Scenario) -> Gain:
        before, new = averaged(now.predictions), averaged(after.predictions)
        share = persistent_bytes_share(scenario, before.gain_figures)
        return gain_over(before, new, self.settings.policy, share).repeated(scenario.repeated)

    def _outcomes(
        self,
        variants: Sequence[Changes],
        elephants: Sequence[Carried],
        engine: str,
        duration_s: float,
        seeds: Sequence[int],
    ) -> list[_Outcome]:
        """What elephants get, and all others, with each variant of the paths."""
        watched = tuple(row for one in elephants for row in one.rows)
        tasks = [
            PathTask(self.file, engine, duration_s, self.running, seed, changes, watched)
            for changes in variants
            for seed in seeds
        ]
        found: dict[int, Prediction] = {}
        self.progress(Progress("paths", 0, len(tasks)))

        def enter(number: int, prediction: Prediction) -> None:
            found[number] = prediction
            self.progress(Progress("paths", len(found), len(tasks)))

        self.workers.run(tasks, enter)
        self.count += len(tasks)
        return [
            _Outcome(tuple(found[at] for at in range(first, first + len(seeds))))
            for first in range(0, len(tasks), len(seeds))
        ]


def _changes(moves: Sequence[Move]) -> Changes:
    return {row: path for move in moves for row, path in move.paths}
