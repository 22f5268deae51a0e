"""How much of the traffic a round looks at: all of it, or slices of a large fabric, as its budget allows.

Slices find the candidates worth a closer look; the leaders then run on the whole fabric, over as many of the
newest moments as the budget allows, and those runs decide. Where slices would not tell the truth, fewer
candidates run on the whole. Leaders also run on the whole of long moments that were searched at their start.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from telemetry.state import NetworkState
from twin.arrivals.calibrate import MOST_RUNS
from twin.prediction import Prediction, over_moments, stretched
from twin.scenario import Scenario, affordable_s, packet_hops
from twin.search.disagreement import moved_with
from twin.search.gain import MOMENTS_TELL, Gain, gain_over, joined_over_moments, persistent_bytes_share
from twin.search.problem import SearchSettings
from twin.search.runs import Rung
from twin.search.slices import deal, groups, last_ports, slices
from twin.units import duration_text, percent_text
from twin.watermark import Setting, Watermark
from twin.workers.pool import Task, Workers, answering, shipped_scenario

CANDIDATE_SHARES = (1.0, 0.5, 0.25, 0.125)
LEAST_HOSTS = 128  # a smaller fabric is looked at as a whole
SLICE_RECEIVERS = 16  # of a slice, at least ...
SLICE_FLOWS = 200  # ... and flows: a 99th percentile of fewer says nothing
# Of one core, for a packet and a port that it crosses, by the replay engine: 2.4 ns (the DCQCN paper's
# clocks) to 5 (NIC vendors') at 1 024 hosts. A constant, so that answers do not depend on the machine.
HOP_S = 4e-9
CORES = 2
CALIBRATION_SHARE = 1 / 6  # of the budget, on one core: the incumbent's replays come one after the other
LEAST_WINDOW_S = 2e-3  # forty CNP intervals of 50 µs: rates do not settle in less
LEAST_LONG = 2.0  # times as long as what all candidates are compared over
OWN_SHARE = 0.95  # of the waiting at ports of their own, at least: below, slices misjudge (ADR 0015)
SEARCH_SHARE, WHOLE_SHARE = 0.5, 0.25  # of the budget; the second engine and the recordings take the rest


@dataclass(frozen=True, slots=True)
class Look:
    """A moment of traffic, and which slice of it: None is all of it."""

    moment: int
    slice: int | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """What a round looks at; ``notes`` say so.

    ``n_slices`` is 1 where it looks at everything, else leaders run on ``n_whole`` whole moments. Only a
    share of the candidates is drawn where all of them would take too long.
    """

    looks: tuple[Look, ...]
    candidates_share: float = 1.0
    n_slices: int = 1
    n_whole: int = 0
    notes: tuple[str, ...] = ()

    def wanted(self, moment: int) -> tuple[int, ...]:
        """The slices of a moment that are looked at."""
        return tuple(one.slice for one in self.looks if one.moment == moment and one.slice is not None)


def plan(moments: Sequence[Scenario], settings: SearchSettings) -> Plan:
    """What a round on these moments looks at within ``settings.budget_s``.

    Only the replay engine knows slices: others look at everything.
    """
    everything = Plan(tuple(Look(moment) for moment in range(len(moments))))
    newest = moments[0]
    n_hosts = len({port.node for port in newest.ports if port.port is None})
    work_s = _work_s(moments)
    budget_s = CORES * settings.budget_s
    search_s = SEARCH_SHARE * budget_s
    whole_s = full_runs(settings, len(moments)) * sum(work_s)
    if n_hosts < LEAST_HOSTS or settings.engine != "replay" or whole_s <= search_s:
        return everything
    n_flows = min(len(one.flows) for one in moments)
    n_receivers = min(len(np.unique(last_ports(one))) for one in moments)
    n_groups = min(len(groups(one)) for one in moments)
    most = min(n_groups, n_receivers // SLICE_RECEIVERS, n_flows // SLICE_FLOWS)
    if most < 2:
        return on_the_whole(
            moments, settings, f"Slices of this fabric would hold too few of its {n_flows} flows to judge by"
        )
    looks, n_slices = _slices(settings, work_s, search_s, most)
    each_s = (settings.leaders + 2) * work_s[0]
    n_whole = min(len({one.moment for one in looks}), int(WHOLE_SHARE * budget_s / each_s))
    if not n_whole and each_s <= search_s:
        n_whole = 1
    ran = duration_text(sum(one.duration_s for one in moments[:n_whole]))
    rest = (
        f", and the leaders on all of it, over {ran} of traffic."
        if n_whole
        else "; all of it would take too long even for the leaders."
    )
    note = (
        f"For a budget of {duration_text(settings.budget_s)} candidates were compared on {len(looks)} "
        f"slices, each 1/{n_slices} of the fabric's receivers{rest}"
    )
    return Plan(looks, n_slices=n_slices, n_whole=n_whole, notes=(note,))


def long_moments(
    long: Sequence[Scenario], settings: SearchSettings, look_s: float, *, in_parts: bool = False
) -> tuple[tuple[Scenario, ...], tuple[str, ...]]:
    """As much of the ``long`` moments as the budget allows the leaders to run on, and a note of it.

    The first come first, the last is cut short; less than twice the ``look_s`` of all candidates says
    nothing new. None where a fabric is judged ``in_parts``: each would need its own.
    """
    if not long:
        return (), ()
    if in_parts:
        why = "a fabric in parts or slices is judged on short moments only"
        return (), (f"Elephants may pile up more than predicted: {why}.",)
    # Leaders run before the second draw and after it, until the best is among those that ran.
    left = WHOLE_SHARE * CORES * settings.budget_s / (4 * settings.leaders * HOP_S)
    found: list[Scenario] = []
    for one in long:
        length_s = affordable_s(one, left)
        if length_s < LEAST_LONG * look_s:
            break
        found.append(one.until(length_s))
        left -= packet_hops(one, length_s)
    if not found:
        return (), (
            "Elephants may pile up more than predicted: long moments would take longer than the budget.",
        )
    ran = duration_text(sum(one.duration_s / one.repeated for one in found))
    again = f" {found[0].repeated:.2g} times over" if found[0].repeated > 1.0 else ""
    return tuple(found), (f"The best candidates were compared over {ran} of traffic{again}.",)


def calibration_s(state: NetworkState, packet_bytes: float, budget_s: float) -> float:
    """Seconds of traffic that a round has time to calibrate on; they are its newest moment.

    Without limit for a fabric that is looked at as a whole.
    """
    if len(state.topology.hosts) < LEAST_HOSTS:
        return math.inf
    sent = float(state.arrivals.sent_bytes.sum()) / state.duration_s
    crossed = sent + sum(queue.throughput_bytes_per_s for queue in state.queues)
    replays_s = MOST_RUNS * HOP_S * 2.0 * crossed / packet_bytes  # acknowledgements count too
    return max(CALIBRATION_SHARE * budget_s / max(replays_s, 1e-9), LEAST_WINDOW_S)


def on_the_whole(moments: Sequence[Scenario], settings: SearchSettings, why: str) -> Plan:
    """Fewer candidates on fewer moments of everything, as the budget allows; ``why`` no slices."""
    search_s = SEARCH_SHARE * CORES * settings.budget_s
    work_s = _work_s(moments)
    counts = sorted({len(moments), min(len(moments), MOMENTS_TELL), 1}, reverse=True)
    choices = [(count, share) for count in counts for share in CANDIDATE_SHARES]
    count, share = next(
        (
            (count, share)
            for count, share in choices
            if full_runs(fewer(settings, share), count) * sum(work_s[:count]) <= search_s
        ),
        choices[-1],
    )
    taken = fewer(settings, share)
    looked = "1 moment" if count == 1 else f"{count} moments"
    note = (
        f"{why}: {taken.candidates + taken.narrowed} candidates were compared on all of it, over {looked}, "
        f"for a budget of {duration_text(settings.budget_s)}."
    )
    looks = tuple(Look(moment) for moment in range(count))
    return Plan(looks, candidates_share=share, notes=(note,))


def _work_s(moments: Sequence[Scenario]) -> list[float]:
    """About how long one candidate takes on each moment, on one core."""
    return [HOP_S * packet_hops(one, one.duration_s) for one in moments]


def fewer(settings: SearchSettings, share: float) -> SearchSettings:
    if share == 1.0:
        return settings
    candidates = max(math.ceil(share * settings.candidates), 2)
    return replace(settings, candidates=candidates, narrowed=math.ceil(share * settings.narrowed))


def _slices(
    settings: SearchSettings, work_s: Sequence[float], search_s: float, most: int
) -> tuple[tuple[Look, ...], int]:
    """Looks at slices, and how many slices a moment has, at most ``most``.

    One slice of each moment, another each time; of fewer moments than tell an error, several.
    """
    n_moments = len(work_s)
    if n_moments < MOMENTS_TELL:
        each = min(math.ceil(MOMENTS_TELL / n_moments), most - 1)
        needed = full_runs(settings, each * n_moments) * each * sum(work_s) / search_s
        n_slices = min(max(math.ceil(needed), each + 1), most)
        return tuple(Look(at, one) for one in range(each) for at in range(n_moments)), n_slices
    needed = full_runs(settings, n_moments) * sum(work_s) / search_s
    n_slices = min(math.ceil(needed), most)
    n_looks = max(min(n_moments, int(n_moments * n_slices / needed)), MOMENTS_TELL)
    return tuple(Look(at, at % n_slices) for at in range(n_looks)), n_slices


def full_runs(settings: SearchSettings, n_looks: int) -> float:
    """About how many times a round runs all of its traffic, all candidates together."""
    alive, total, before = settings.candidates, float(settings.narrowed + 2 * settings.leaders), 0.0
    for rung in Rung.all_of(settings.fractions, n_looks):
        share = rung.fraction * rung.n_moments / n_looks
        # A longer window begins anew, further moments are added to those before.
        total += alive * (share - (before if n_looks > 1 else 0.0))
        before = share
        alive = max(math.ceil(settings.keep * alive), settings.leaders)
    return total


def look(
    moments: Sequence[Scenario],
    files: Sequence[Path],
    settings: SearchSettings,
    incumbent: Setting,
    seed: int,
    workers: Workers,
    progress: Callable[[int, int], None],
) -> tuple[Plan, tuple[Scenario, ...], dict[int, Prediction]]:
    """What a round looks at; its slices, and the incumbent's prediction of each whole moment they are of.

    Without slices there are neither. ``files`` hold the moments; ``progress(done, total)`` is called in this
    thread.
    """
    looks = plan(moments, settings)
    if looks.n_slices == 1:
        return looks, (), {}
    found, runs, own_share = _cut(looks, files, incumbent, seed, workers, progress)
    if own_share >= OWN_SHARE:
        return looks, found, runs
    why = f"Bytes wait to {percent_text(1.0 - own_share)} at ports that slices of this fabric share"
    return on_the_whole(moments, settings, why), (), {}


def _cut(
    looks: Plan,
    files: Sequence[Path],
    incumbent: Setting,
    seed: int,
    workers: Workers,
    progress: Callable[[int, int], None],
) -> tuple[tuple[Scenario, ...], dict[int, Prediction], float]:
    moments = sorted({one.moment for one in looks.looks})
    tasks = [SliceTask(files[at], looks.n_slices, looks.wanted(at), incumbent, seed) for at in moments]
    found: dict[Look, Scenario] = {}
    runs: dict[int, Prediction] = {}
    own_shares: dict[int, float] = {}

    def enter(number: int, answer: tuple[Prediction, list[Scenario], float]) -> None:
        moment = moments[number]
        runs[moment], slices_of_it, own_shares[moment] = answer
        wanted = (Look(moment, one) for one in looks.wanted(moment))
        found.update(zip(wanted, slices_of_it, strict=True))
        progress(len(runs), len(tasks))

    progress(0, len(tasks))
    workers.run(tasks, enter)
    return tuple(found[one] for one in looks.looks), runs, min(own_shares.values())


@dataclass(frozen=True, slots=True)
class SliceTask:
    """The slices ``wanted`` of ``n_slices`` of the scenario in ``scenario_file``."""

    scenario_file: Path
    n_slices: int
    wanted: tuple[int, ...]
    incumbent: Setting
    seed: int

    def run(self) -> tuple[Prediction, list[Scenario], float]:
        """See ``slices.slices``; raises ``SearchError``."""
        with answering("replay"):
            scenario = shipped_scenario(self.scenario_file, math.inf)
            slice_of = deal(scenario, self.n_slices)
            return slices(scenario, slice_of, self.wanted, self.incumbent, self.seed)


class WholeRuns:
    """Leaders' predictions of the newest whole ``moments``, which ``files`` hold, by candidate number.

    ``incumbent`` are the incumbent's, candidate 0, where it has run. Without moments nothing runs and nothing
    changes. ``stage`` names these runs.
    """

    def __init__(
        self,
        stage: str,
        moments: Sequence[Scenario],
        files: Sequence[Path],
        settings: SearchSettings,
        seed: int,
        incumbent: Sequence[Prediction] = (),
    ) -> None:
        self._stage = stage
        self._moments = moments
        self._files = files
        self._settings = settings
        self._seed = seed
        self._runs: dict[int, Sequence[Prediction]] = {0: incumbent} if incumbent else {}

    def __bool__(self) -> bool:
        return bool(self._moments)

    def run(
        self,
        candidates: Collection[int],
        watermarks: Sequence[Setting],
        n_workers: int,
        predict: Callable[[str, Sequence[Task]], list[list[Prediction]]],
    ) -> None:
        """Runs those that have not run, and the incumbent, spread over the workers."""
        fresh = [number for number in dict.fromkeys((0, *candidates)) if number not in self._runs]
        if not self or not fresh:
            return
        size = math.ceil(len(fresh) * len(self._moments) / max(n_workers, 1))
        chunks = [fresh[first : first + size] for first in range(0, len(fresh), size)]
        tasks = [
            Task(
                file,
                self._settings.engine,
                moment.duration_s,
                tuple(watermarks[number] for number in chunk),
                self._seed,
            )
            for moment, file in zip(self._moments, self._files, strict=False)
            for chunk in chunks
        ]
        found = predict(self._stage, tasks)
        for place, chunk in enumerate(chunks):
            by_moment = found[place :: len(chunks)]
            self._runs.update(zip(chunk, zip(*by_moment, strict=True), strict=True))

    def estimate(self, on_slices: Callable[[int], Prediction]) -> Callable[[int], Prediction]:
        """Every candidate's prediction of the whole, of those that have not run there by their slices'."""
        whole = {number: over_moments(runs) for number, runs in self._runs.items()}
        stretch = stretched([on_slices(number) for number in whole], list(whole.values()))
        return lambda number: whole[number] if number in whole else stretch(on_slices(number))

    def decide(self, gains: list[Gain], watermarks: Sequence[Watermark], n_looks: int) -> list[Gain]:
        """Gains on the whole of those that ran there; the others' are moved as these near them were."""
        if not self._runs:
            return gains
        weights = [run.goodput_bytes_per_s * moment.duration_s for run, moment in self._incumbent]
        whole: Mapping[int, Gain] = {
            number: joined_over_moments(
                [
                    gain_over(
                        now,
                        new,
                        self._settings.policy,
                        persistent_bytes_share(moment, now.gain_figures),
                    ).repeated(moment.repeated)
                    for (now, moment), new in zip(self._incumbent, runs, strict=True)
                ],
                weights,
                n_looks,
            )
            for number, runs in self._runs.items()
        }
        return moved_with(gains, whole, watermarks)

    @property
    def _incumbent(self) -> list[tuple[Prediction, Scenario]]:
        return list(zip(self._runs[0], self._moments, strict=True))
