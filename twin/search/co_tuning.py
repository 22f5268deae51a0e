"""Sets what the NICs run, and thresholds by port role, together with the watermark.

The round finds the watermark alone. Beside it every other value is tried over its range; those that gain are
climbed together, then drawn near the best with the watermark. The leaders run again, on long moments where
there are any, under seeds that did not choose them. The best loses every change that it does not need. Where
NICs are of several classes, the same is done from there with the values of each, and taken where it surely
gains more. The second engine judges the best beside the watermark alone (docs/twin/co-tuning.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Literal

import numpy as np

from twin.errors import ScenarioError, SearchError
from twin.prediction import Prediction, averaged
from twin.scenario import Scenario, affordable_s, packet_hops
from twin.search.candidates import CONFIRM_STREAM, TOGETHER_STREAM, NarrowedSampler, generator
from twin.search.coordinates import (
    Coordinate,
    RoleThresholds,
    Settings,
    What,
    class_coordinates,
    classes_set,
    coordinates,
    running,
)
from twin.search.gain import Gain, gain_over, joined_over_moments, of_two_engines, persistent_bytes_share
from twin.search.looks import CORES, HOP_S, LEAST_WINDOW_S
from twin.search.problem import SearchSettings, TuningProblem
from twin.search.recommendation import Between, ClassSenders, CoTuning, Sensitivity, SettingChange
from twin.search.score import lead, surely_above
from twin.units import gain_text, setting_text
from twin.watermark import Watermark
from twin.workers.pool import Task, Workers

MOST_CHANGED = 5  # values beside the watermark: shares are of every subset of the changes
MOST_OF_CLASSES = 3  # values of classes beside those
LEAST_GAIN = 0.01  # of a change that is kept
_CLIMBS = 6
_LEADERS = 4  # that draws are near to
_DRAWS = ((64, 1.0), (32, 0.5))  # how many, and how far
_CONFIRMED = 6
_BUDGET_SHARE = 0.75  # of the round's budget, beside what the round takes
_RUNS = 350  # about how many candidates run
_RUNS_OF_CLASSES, _RUNS_A_CLASS = 200, 42  # the same of a search by class

Shipped = Sequence[tuple[Scenario, Path]]
"""Traffic, each with the file that ``workers.pool.shipped`` wrote of it."""
On = Literal["search", "decide", "second"]
"""Many candidates on moments, the leaders on longer ones, a few by the second engine."""


def co_tune(
    problem: TuningProblem,
    settings: SearchSettings,
    alone: Watermark,
    moments: Shipped,
    long: Shipped,
    *,
    seed: int,
    workers: Workers,
    progress: Callable[[str, int, int], None],
) -> CoTuning | None:
    """What ``settings.what`` allows, set together with the watermark; None where there is nothing to set, or
    the traffic is not like the network's.

    ``alone`` is the best watermark alone. Candidates run on ``moments`` of traffic, the leaders on ``long``
    ones where there are any, each with the file that holds it. ``progress(stage, done, total)`` is called in
    this thread. Raises ``SearchError`` where workers keep dying.
    """
    newest = moments[0][0]
    every = coordinates(settings.what, newest, settings.bounds, settings.sender_bounds)
    if not every or problem.unlike is not None:
        return None
    of_classes = class_coordinates(settings.what, newest, settings.sender_bounds)
    n_runs = _RUNS
    if of_classes:
        n_runs += _RUNS_OF_CLASSES + _RUNS_A_CLASS * len(classes_set(newest))
    runs = _Runs(problem, settings, _looks(moments, long, settings, n_runs), workers, progress)
    stays = "watermark" not in settings.what or alone == problem.incumbent
    start = runs.incumbent if stays else running(alone, problem.scenario)
    return _Search(problem, settings, runs, (every, of_classes), start, seed).run()


@dataclass(frozen=True, slots=True)
class _Moment:
    scenario: Scenario
    file: Path
    duration_s: float


@dataclass(frozen=True, slots=True)
class _Look:
    """What one kind of run looks at, by which engine; its gains compare with those of ``n_moments``."""

    engine: str
    moments: tuple[_Moment, ...]
    n_moments: int


def _looks(moments: Shipped, long: Shipped, settings: SearchSettings, n_runs: int) -> Mapping[On, _Look]:
    search = _affordable(moments, settings, n_runs)
    decide = tuple(_Moment(one, file, one.duration_s) for one, file in long) or search
    looks: dict[On, _Look] = {
        "search": _Look(settings.engine, search, len(search)),
        "decide": _Look(settings.engine, decide, len(decide)),
    }
    newest = search[0]
    length_s = min(newest.duration_s, affordable_s(newest.scenario, settings.second_packet_hops))
    if settings.second_engine is not None and length_s >= min(LEAST_WINDOW_S, newest.duration_s):
        seconds = (replace(newest, duration_s=length_s),)
        looks["second"] = _Look(settings.second_engine, seconds, len(decide))
    return looks


def _affordable(moments: Shipped, settings: SearchSettings, n_runs: int) -> tuple[_Moment, ...]:
    """As many of the newest moments as the budget allows, or a part of the newest."""
    left = _BUDGET_SHARE * CORES * settings.budget_s / (n_runs * HOP_S)
    found: list[_Moment] = []
    for scenario, file in moments:
        hops = packet_hops(scenario, scenario.duration_s)
        if found and hops > left:
            break
        length_s = min(max(affordable_s(scenario, left), LEAST_WINDOW_S), scenario.duration_s)
        found.append(_Moment(scenario, file, length_s))
        left -= hops
    return tuple(found)


class _Runs:
    """Predictions of candidates under the seeds asked for, and their gains over what runs now."""

    def __init__(
        self,
        problem: TuningProblem,
        settings: SearchSettings,
        looks: Mapping[On, _Look],
        workers: Workers,
        progress: Callable[[str, int, int], None],
    ) -> None:
        self.incumbent = running(problem.incumbent, problem.scenario, problem.by_role)
        self.looks = looks
        self.count = 0
        self._settings = settings
        self._workers = workers
        self._progress = progress
        self._found: dict[tuple[str, Path, float, int, Settings], Prediction] = {}
        self._gains: dict[tuple[On, tuple[int, ...], Settings], Gain] = {}

    def gains(
        self, stage: str, wanted: Iterable[Settings], seeds: tuple[int, ...], on: On = "search"
    ) -> list[Gain]:
        """Each one's gain over what runs now, over all moments that this kind of run looks at."""
        asked = list(wanted)
        self._predict(stage, self.looks[on], [self.incumbent, *asked], seeds)
        return [self._gain(on, one, seeds) for one in asked]

    def _predict(self, stage: str, look: _Look, wanted: Sequence[Settings], seeds: Sequence[int]) -> None:
        jobs: list[tuple[_Moment, int, list[Settings]]] = []
        for moment in look.moments:
            for seed in seeds:
                by_senders: dict[tuple[object, ...], list[Settings]] = {}
                for one in dict.fromkeys(wanted):
                    if _key(look, moment, seed, one) not in self._found:
                        by_senders.setdefault(_nics_of(one), []).append(one)
                jobs += [(moment, seed, group) for group in by_senders.values()]
        total, done = sum(len(group) for _, _, group in jobs), 0
        if not total:
            return
        self._progress(stage, 0, total)

        def enter(number: int, predictions: list[Prediction]) -> None:
            nonlocal done
            moment, seed, group = jobs[number]
            for one, prediction in zip(group, predictions, strict=True):
                self._found[_key(look, moment, seed, one)] = prediction
            done += len(group)
            self._progress(stage, done, total)

        tasks = [
            Task(
                moment.file,
                look.engine,
                moment.duration_s,
                tuple(one.marks for one in group),
                seed,
                group[0].senders,
                group[0].dcqcn_by_class,
            )
            for moment, seed, group in jobs
        ]
        self._workers.run(tasks, enter)
        self.count += total

    def _gain(self, on: On, one: Settings, seeds: tuple[int, ...]) -> Gain:
        key = on, seeds, one
        if key not in self._gains:
            look = self.looks[on]
            gains, weights = [], []
            for moment in look.moments:
                now, new = (
                    averaged([self._found[_key(look, moment, seed, which)] for seed in seeds])
                    for which in (self.incumbent, one)
                )
                scenario = moment.scenario
                share = persistent_bytes_share(scenario, now.gain_figures)
                found = gain_over(now, new, self._settings.policy, share)
                gains.append(found.repeated(scenario.repeated))
                weights.append(np.nan_to_num(now.goodput_bytes_per_s) * moment.duration_s)
            self._gains[key] = joined_over_moments(gains, weights, look.n_moments)
        return self._gains[key]

    def queue_ratio(self, one: Settings, seed: int) -> float | None:
        """Its mean queue ÷ that of now over the moments searched on, of runs that ``gains`` has made."""
        look = self.looks["search"]
        now, new = (
            sum(
                self._found[_key(look, moment, seed, which)].queue_mean_bytes * moment.duration_s
                for moment in look.moments
            )
            for which in (self.incumbent, one)
        )
        return new / now if math.isfinite(new) and math.isfinite(now) and now > 0 else None


def _key(look: _Look, moment: _Moment, seed: int, one: Settings) -> tuple[str, Path, float, int, Settings]:
    return look.engine, moment.file, moment.duration_s, seed, one


@dataclass(frozen=True, slots=True)
class _WatermarkPart:
    """The watermark as one part of a joint change: of all ports but those of ``own_roles``, which are parts
    themselves.
    """

    own_roles: frozenset[str] = frozenset()
    name: str = "watermark"
    unit: str = ""
    kind: What = "watermark"

    def taken_from(self, settings: Settings, other: Settings) -> Settings:
        every = [one for one in other.by_role if one[0] not in self.own_roles]
        every += [one for one in settings.by_role if one[0] in self.own_roles]
        kept = tuple(sorted(one for one in every if one[1] != other.watermark))
        return replace(settings, watermark=other.watermark, by_role=kept)


_Part = Coordinate | _WatermarkPart


class _Search:
    """The state of one search; ``start`` is the watermark alone, ``every`` what is set for all hosts alike,
    then what is set by class.
    """

    def __init__(
        self,
        problem: TuningProblem,
        settings: SearchSettings,
        runs: _Runs,
        every: Sequence[Sequence[Coordinate]],
        start: Settings,
        seed: int,
    ) -> None:
        self._problem = problem
        self._settings = settings
        self._runs = runs
        self._every = every
        self._start = start
        self._seed = seed
        self._first = (seed,)
        # Roles whose ports run another watermark keep it, or change it as a part of their own.
        by_role = dict(problem.by_role)
        self._other_roles = [
            one for one in every[0] if isinstance(one, RoleThresholds) and one.role in by_role
        ]
        state = np.random.SeedSequence([seed, CONFIRM_STREAM]).generate_state(2, np.uint32)
        self._fresh = tuple(int(one) for one in state)
        self._tried: dict[Settings, float] = {}

    def run(self) -> CoTuning:
        rng = generator(self._seed, TOGETHER_STREAM)
        sensitivities, active = self._screen(self._every[0], self._start, MOST_CHANGED)
        pick = self._start
        if active or ("watermark" in self._settings.what and self._other_roles and self._start.by_role):
            self._climb(active)
            self._draw(active, rng)
            pick = self._pruned(self._confirmed(active), active)
        if self._every[1]:
            found, own = self._screen(self._every[1], pick, MOST_OF_CLASSES)
            sensitivities += found
            if own:
                every = [*active, *own]
                self._climb(every)
                self._draw(every, rng)
                best = self._pruned(self._confirmed(every), every)
                by_class, alike = self._runs.gains("leaders", [best, pick], self._fresh, "decide")
                # Values of a class follow this traffic closer than those for all: they have to be worth it.
                if surely_above(by_class.less(alike), self._settings.margin):
                    pick, active = best, every
        return self._concluded(pick, active, sensitivities)

    def _values(self, stage: str, wanted: Iterable[Settings]) -> list[float]:
        """Gains under the first seed, −inf for a run that failed; remembered for draws near the best."""
        asked = list(dict.fromkeys(wanted))
        found = [_value(one) for one in self._runs.gains(stage, asked, self._first)]
        self._tried.update(zip(asked, found, strict=True))
        return found

    def _screen(
        self, every: Sequence[Coordinate], here: Settings, most: int
    ) -> tuple[list[Sensitivity], list[Coordinate]]:
        """Every value alone over its range beside ``here``; those that gain, the best first."""
        tries = [one.tried(here) for one in every]
        self._values("screening", [here, *(one for group in tries for one in group)])
        base = self._tried[here]
        found: list[Sensitivity] = []
        for coordinate, group in zip(every, tries, strict=True):
            values = [(self._tried[one] - base, one) for one in group]
            best, at = max(values, key=lambda pair: pair[0], default=(0.0, here))
            worst = min((value for value, _ in values), default=0.0)
            before, after = coordinate.value(here), coordinate.value(at)
            found.append(Sensitivity(coordinate.name, coordinate.unit, before, after, best, worst))
        order = sorted(range(len(found)), key=lambda row: -found[row].gain)
        active = [every[row] for row in order if found[row].gain > LEAST_GAIN][:most]
        return [found[row] for row in order], active

    def _climb(self, active: Sequence[Coordinate]) -> None:
        """Steepest ascent: of all single moves the best, until none gains."""
        [here] = self._leaders(1, active)
        for _ in range(_CLIMBS):
            moves = [move for one in active for move in one.tried(here) if move not in self._tried]
            self._values("climbing", moves)
            there = max([here, *moves], key=lambda one: self._tried[one])
            if self._tried[there] <= self._tried[here] + LEAST_GAIN:
                break
            here = there

    def _draw(self, active: Sequence[Coordinate], rng: np.random.Generator) -> None:
        """Draws the watermark and the active values near the best, twice, the second time nearer."""
        for count, width in _DRAWS:
            leaders = self._leaders(_LEADERS, active)
            drawn = [self._drawn(leaders[at % len(leaders)], active, width, rng) for at in range(count)]
            self._values("joint draw", drawn)

    def _drawn(
        self, near: Settings, active: Sequence[Coordinate], width: float, rng: np.random.Generator
    ) -> Settings:
        found = near
        if "watermark" in self._settings.what:
            [mark] = NarrowedSampler([near.watermark], self._settings.bounds, sigma=0.4 * width).draw(1, rng)
            found = self._mark(active).taken_from(found, replace(found, watermark=mark, by_role=()))
        for coordinate, normal in zip(active, rng.standard_normal(len(active)).tolist(), strict=True):
            found = coordinate.near(found, width * normal)
        return found

    def _leaders(self, count: int, active: Sequence[Coordinate]) -> list[Settings]:
        """The best that change nothing but the watermark and ``active``: what a screening has tried beside
        them would be no part of the change.
        """

        def without(one: Settings) -> Settings:
            for part in self._all_parts(active):
                one = part.taken_from(one, self._start)
            return one

        every = [one for one in self._tried if without(one) == self._start]
        return sorted(every, key=lambda one: -self._tried[one])[:count]

    def _confirmed(self, active: Sequence[Coordinate]) -> Settings:
        """The best of the leaders under seeds that did not choose them."""
        leaders = self._leaders(_CONFIRMED, active)
        gains = self._runs.gains("leaders", [self._start, *leaders], self._fresh, "decide")[1:]
        return leaders[int(np.argmax([_value(one) for one in gains]))]

    def _mark(self, active: Sequence[Coordinate]) -> _WatermarkPart:
        every = (*active, *self._other_roles)
        return _WatermarkPart(frozenset(one.role for one in every if isinstance(one, RoleThresholds)))

    def _all_parts(self, active: Sequence[Coordinate]) -> list[_Part]:
        """All that may be changed: the watermark first."""
        return [self._mark(active), *dict.fromkeys((*active, *self._other_roles))]

    def _parts(self, pick: Settings, active: Sequence[Coordinate]) -> list[_Part]:
        """What a setting changes of what runs now."""
        return [one for one in self._all_parts(active) if one.taken_from(pick, self._runs.incumbent) != pick]

    def _pruned(self, pick: Settings, active: Sequence[Coordinate]) -> Settings:
        """Without the changes that gain next to nothing, or that cannot be told from nothing."""
        found = pick
        while True:
            less = [one.taken_from(found, self._runs.incumbent) for one in self._parts(found, active)]
            if found.watermark not in (self._start.watermark, self._problem.incumbent):
                less.append(self._mark(active).taken_from(found, self._start))
            if not less:
                return found
            now, *gains = self._runs.gains("pruning", [found, *less], self._fresh, "decide")
            order = sorted(range(len(less)), key=lambda row: -_value(gains[row]))
            loss = now.value - _value(gains[order[0]])
            alike = loss <= self._settings.margin and lead(now, gains[order[0]]) <= 0.0
            if not (loss <= LEAST_GAIN or alike):
                return found
            found = less[order[0]]

    def _shares(self, pick: Settings, parts: Sequence[_Part]) -> list[float]:
        """Shapley values: what each part adds, on average over the orders in which parts can be changed; NaN
        where a part of the change cannot be predicted.
        """
        count = len(parts)
        subsets = [subset for size in range(count + 1) for subset in combinations(range(count), size)]
        made = []
        for subset in subsets:
            one = self._runs.incumbent
            for part in subset:
                one = parts[part].taken_from(one, pick)
            made.append(one)
        gains = self._runs.gains("shares", made, self._fresh[:1])
        value = {subset: gain.value for subset, gain in zip(subsets, gains, strict=True)}
        if not all(map(math.isfinite, value.values())):
            return [math.nan] * count
        shares = []
        for part in range(count):
            weighed = [
                math.factorial(len(subset))
                * math.factorial(count - len(subset) - 1)
                * (value[tuple(sorted((*subset, part)))] - value[subset])
                for subset in subsets
                if part not in subset
            ]
            shares.append(sum(weighed) / math.factorial(count))
        return shares

    def _concluded(
        self, pick: Settings, active: Sequence[Coordinate], sensitivities: Sequence[Sensitivity]
    ) -> CoTuning:
        """The pick against the watermark alone, by both engines."""
        both = [self._start, pick]
        alone, joint = self._runs.gains("leaders", both, self._fresh, "decide")
        second_more = None
        if "second" in self._runs.looks and pick != self._start:
            # Where it fails, the first engine decides alone, as in the rest of the round.
            with suppress(SearchError, ScenarioError):
                seconds = self._runs.gains("second opinion", both, self._fresh[:1], "second")
                if math.isfinite(told := seconds[1].value - seconds[0].value):
                    second_more = told
                    alone, joint = (
                        of_two_engines(first, second, 0.5)
                        for first, second in zip((alone, joint), seconds, strict=True)
                    )
        more = joint.less(alone)
        recommended = (
            pick != self._start
            and surely_above(more, self._settings.margin)
            and surely_above(joint, self._settings.margin)
            and (second_more is None or second_more > 0.0)
        )
        parts = self._parts(pick, active)
        shares = self._shares(pick, parts) if parts else []
        incumbent = self._runs.incumbent
        mark = self._mark(active)
        mark_first, others_first = mark.taken_from(incumbent, pick), mark.taken_from(pick, incumbent)
        if _nics_of(pick) != _nics_of(incumbent):  # switches are set with their roles, NICs before or after
            mark_first, others_first = (
                replace(one, senders=other.senders, by_class=other.by_class)
                for one, other in ((pick, incumbent), (incumbent, pick))
            )
        two = incumbent not in (mark_first, others_first)
        changes = tuple(
            _change(part, incumbent, pick, share)
            for part, share in sorted(zip(parts, shares, strict=True), key=lambda pair: -pair[1])
        )
        return CoTuning(
            watermark=pick.watermark,
            by_role=pick.by_role,
            senders=pick.senders,
            senders_now=incumbent.senders,
            changes=changes,
            gain=joint.value,
            gain_error=joint.error,
            alone=alone.value,
            more=more.value,
            more_error=more.error,
            second_more=second_more,
            recommended=recommended,
            sensitivities=tuple(sensitivities),
            n_runs=self._runs.count,
            traffic_s=sum(one.duration_s for one in self._runs.looks["search"].moments),
            sentence=_sentence(pick, changes, joint, more, second_more, recommended, self._settings),
            watermark_first=self._between(mark_first) if two else None,
            others_first=self._between(others_first) if two else None,
            queue_ratio=self._between(pick).queue_ratio if parts else None,
            by_class=tuple(
                ClassSenders(name, incumbent.of_class(name), pick.of_class(name))
                for name in sorted(dict((*incumbent.dcqcn_by_class, *pick.dcqcn_by_class)))
            ),
        )

    def _between(self, one: Settings) -> Between:
        """One of the subsets that ``_shares`` has run."""
        [gain] = self._runs.gains("shares", [one], self._fresh[:1])
        return Between(_value(gain), self._runs.queue_ratio(one, self._fresh[0]))


def _nics_of(settings: Settings) -> tuple[object, ...]:
    return settings.senders, settings.dcqcn_by_class


def _value(gain: Gain) -> float:
    return gain.value if math.isfinite(gain.value) else -math.inf


def _change(part: _Part, before: Settings, after: Settings, share: float) -> SettingChange:
    if isinstance(part, _WatermarkPart):
        return SettingChange(part.name, part.kind, part.unit, None, None, share)
    return SettingChange(part.name, part.kind, part.unit, part.value(before), part.value(after), share)


def _sentence(
    pick: Settings,
    changes: Sequence[SettingChange],
    joint: Gain,
    more: Gain,
    second_more: float | None,
    recommended: bool,
    settings: SearchSettings,
) -> str:
    others = [one for one in changes if one.kind != "watermark"]
    stay = ", ".join(role for role, _ in pick.by_role) if changes else ""
    if not others and not stay:
        return "Nothing beside the watermark gains anything that can be told from noise."
    by = "" if second_more is None else f" ({settings.second_engine}: {gain_text(second_more, None)})"
    gained = (
        f"{gain_text(joint.value, joint.error)} better than now, "
        f"{gain_text(more.value, more.error)} more than the watermark alone{by}"
    )
    said = ", ".join(change_of(one) for one in others) or f"while ports of {stay} stay as they run"
    if recommended:
        what = "together with the watermark" if others else "the watermark of the others"
        return f"Set {what}, {said}: {gained}."
    return f"The best found, {said}, is not sure enough to recommend: {gained}."


def change_of(change: SettingChange) -> str:
    """Such as ``cut interval 4 → 12 µs``."""
    before, after = setting_text(change.before, change.unit), setting_text(change.after, change.unit)
    if change.before == change.after:  # a class keeps what it runs, where others change
        return f"{change.name} stays at {after}"
    return f"{change.name} {before.removesuffix(f' {change.unit}')} → {after}"
