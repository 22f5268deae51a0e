"""What setting more than the watermark gains, on traffic that did not choose it, judged by packets.

Each problem is tuned on one draw of its traffic. Two other draws judge, packet by packet, what ran before,
the best watermark alone, and all that was changed together. ``python -m bench.co_tuning [PROBLEM ...]``
prints a row as each is done, ``--sweep [PROBLEM ...]`` what each NIC parameter alone does to goodput,
``--classes [PROBLEM ...]`` what values of their own for each class of NICs gain over one set for all hosts.
Nothing of the search was tuned on these problems.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, fields, replace
from itertools import product

from rich.console import Console

from bench.__main__ import one_of, parser_of
from bench.accuracy import markdown
from bench.figure import Figure
from bench.replay import INCUMBENT, flows_of
from bench.rivals.scenarios import Scenario as Bench
from lab.demo.plan import Phase
from lab.setup import LeafSpine
from telemetry.topology import GBPS
from twin.engine import engine
from twin.prediction import Prediction
from twin.scenario import Scenario
from twin.search.co_tuning import change_of, co_tune
from twin.search.coordinates import SENDERS, Settings, What
from twin.search.gain import POLICIES, Gain, gain_over, joined_over_moments, persistent_bytes_share
from twin.search.problem import SearchSettings, TuningProblem
from twin.search.recommendation import CoTuning
from twin.search.round import tune
from twin.senders.dcqcn import PRESETS
from twin.units import change_text, gain_text
from twin.watermark import Watermark
from twin.workers.pool import Workers, make_workers, shipped

TUNED_ON, JUDGED_ON = 1, (101, 102)  # seeds of traffic
_SAME = LeafSpine(leaves=4, spines=2, hosts=4, rate_gbps=100.0, uplink_gbps=100.0)
_MIXED = LeafSpine(leaves=4, spines=2, hosts=4, rate_gbps=25.0, uplink_gbps=100.0)
_FAST = LeafSpine(leaves=2, spines=2, hosts=8, rate_gbps=25.0, uplink_gbps=400.0)
_RATES = (25.0, 100.0)
_BURSTS = "websearch:0.5,incast:8:each_bytes=64KB:period=2ms:receiver=0"
_JITTER = "compute=300us:compute_jitter=0.3,hadoop:0.1"
_STORED = "websearch:0.6:senders=0..7,hadoop:0.3:senders=8..15"
_LARGE = "elephants-and-mice:0.2:elephants=6:per_receiver=3:elephant_bytes=5MB,hadoop:0.4"


@dataclass(frozen=True, slots=True)
class Problem:
    name: str
    traffic: str
    what: tuple[What, ...]
    fabric: LeafSpine = _SAME
    rates_gbps: tuple[float, ...] = ()
    duration_s: float = 0.015

    def scenario(self, seed: int, clocks: str) -> Scenario:
        """Its traffic with that seed."""
        made = Bench(
            name=self.name,
            phases=(Phase(self.name, 0.0, self.traffic),),
            duration_s=self.duration_s,
            fabric=self.fabric,
            mixed_gbps=self.rates_gbps,
            dcqcn=clocks,
        )
        plan, traffic = made.plan, made.traffic(seed)
        return Scenario(
            name=self.name,
            ports=plan.ports,
            flows=flows_of(traffic, plan, seed),
            monitored=plan.switch_ports,
            dcqcn=PRESETS[clocks],
            duration_s=self.duration_s,
            window_s=(0.05 * self.duration_s, self.duration_s),
        )


_NIC: tuple[What, ...] = ("watermark", "nic")
_ROLES: tuple[What, ...] = ("watermark", "roles")
PROBLEMS = (
    Problem("all-to-all", f"all-to-all:2MB:{_JITTER}", _NIC, duration_s=0.01),
    Problem("ring all-reduce", f"ring-all-reduce:64MB:{_JITTER}", _NIC),
    Problem("web search 60 %", "websearch:0.6", _NIC),
    Problem("incast", "websearch:0.3,incast:8:each_bytes=64KB:period=2ms:receiver=0", _NIC),
    Problem("25G and 100G, web search", "websearch:0.7", _ROLES, _MIXED, _RATES, 0.03),
    Problem("25G and 100G, incast", _BURSTS, _ROLES, _MIXED, _RATES, 0.03),
    Problem("25G, 100G under 400G, large transfers", _LARGE, _ROLES, _FAST, _RATES, 0.015),
)


OF_CLASSES = (
    Problem("25G and 100G, web search", "websearch:0.5", _NIC, _MIXED, _RATES, 0.015),
    Problem("25G, 100G under 400G, large transfers", _LARGE, _NIC, _FAST, _RATES, 0.015),
    Problem("storage and compute at 100G", _STORED, _NIC),
)
UNLIKE = "25G vendor, 100G paper"


@dataclass(frozen=True, slots=True)
class Judged:
    """A problem's outcome; gains are over what ran before, by packets, on traffic that chose nothing."""

    problem: Problem
    clocks: str
    found: CoTuning
    alone: Gain
    together: Gain

    @property
    def more(self) -> Gain:
        return self.together.less(self.alone)


def judged(problem: Problem, clocks: str, workers: Workers) -> Judged:
    scenario = problem.scenario(TUNED_ON, clocks)
    alone = best_alone(scenario, workers)
    found = _together(scenario, alone, problem.what, workers)
    before, first = (Settings(mark, scenario.dcqcn) for mark in (INCUMBENT, alone))
    fresh = [problem.scenario(seed, clocks) for seed in JUDGED_ON]
    runs = [(_packets(one, before), _packets(one, first), _changed(one, found)) for one in fresh]
    now, *others = zip(*runs, strict=True)
    return Judged(problem, clocks, found, *(gain_of(fresh, now, new) for new in others))


@dataclass(frozen=True, slots=True)
class ByClass:
    """What is found for all hosts ``alike``, and by class, and the gains of both over what ran before."""

    alike: CoTuning
    own: CoTuning
    gain_alike: Gain
    gain_own: Gain


def judged_by_class(problem: Problem, clocks: str, workers: Workers) -> ByClass:
    """A class is the rate of a NIC, or the half of the hosts. Without classes all are taken to run what 100G
    does.
    """

    def drawn(seed: int) -> Scenario:
        scenario = problem.scenario(seed, "paper" if clocks == UNLIKE else clocks)
        nics = [port for port in scenario.ports if port.port is None]
        if problem.rates_gbps:
            classes = {nic.node: f"{nic.rate_bytes_per_s / GBPS:g}G" for nic in nics}
        else:
            half = len(nics) // 2
            classes = {nic.node: "storage" if at < half else "compute" for at, nic in enumerate(nics)}
        return replace(
            scenario,
            nic_class=classes,
            dcqcn_by_class={"25G": PRESETS["vendor"]} if clocks == UNLIKE else {},
        )

    own = drawn(TUNED_ON)
    alike = replace(own, nic_class={}, dcqcn_by_class={})
    found = [_together(one, best_alone(one, workers), problem.what, workers) for one in (alike, own)]
    fresh = [drawn(seed) for seed in JUDGED_ON]
    before = Settings(INCUMBENT, own.dcqcn)
    now = [_packets(one, before) for one in fresh]
    gain_alike, gain_own = (gain_of(fresh, now, [_changed(one, then) for one in fresh]) for then in found)
    return ByClass(alike=found[0], own=found[1], gain_alike=gain_alike, gain_own=gain_own)


def _asked(scenario: Scenario) -> TuningProblem:
    return TuningProblem(scenario=scenario, incumbent=INCUMBENT, base=INCUMBENT, dominant_class="elephant")


def best_alone(scenario: Scenario, workers: Workers) -> Watermark:
    """What a round finds for the watermark, over the incumbent."""
    return tune(_asked(scenario), SearchSettings(), seed=TUNED_ON, workers=workers).improvement.best


def _together(scenario: Scenario, alone: Watermark, what: tuple[What, ...], workers: Workers) -> CoTuning:
    with shipped([scenario]) as files:
        found = co_tune(
            _asked(scenario),
            SearchSettings(what=what),
            alone,
            [(scenario, files[0])],
            [],
            seed=TUNED_ON,
            workers=workers,
            progress=lambda *_: None,
        )
    assert found is not None
    return found


def _packets(scenario: Scenario, settings: Settings) -> Prediction:
    on = replace(scenario, dcqcn=settings.senders)
    return engine("packet").predict(on, [settings.marks], seed=1)[0]


def _changed(scenario: Scenario, found: CoTuning) -> Prediction:
    """With what a rollout sets: the values that change, on what each class runs."""
    changed = {
        one.name: value
        for one in fields(found.senders)
        if (value := getattr(found.senders, one.name)) != getattr(found.senders_now, one.name)
    }
    own = {name: replace(now, **changed) for name, now in scenario.dcqcn_by_class.items()}
    own |= {one.nic_class: one.then for one in found.by_class}
    settings = Settings(found.watermark, found.senders, found.by_role)
    return _packets(replace(scenario, dcqcn_by_class=own), settings)


def gain_of(scenarios: Sequence[Scenario], before: Sequence[Prediction], after: Sequence[Prediction]) -> Gain:
    """Over all scenarios, those with more goodput before counting more."""
    gains, weights = [], []
    for scenario, now, new in zip(scenarios, before, after, strict=True):
        share = persistent_bytes_share(scenario, now.gain_figures)
        gains.append(gain_over(now, new, POLICIES["balanced"], share))
        weights.append(now.goodput_bytes_per_s)
    return joined_over_moments(gains, weights, len(gains))


def cases(names: Iterable[str] = ()) -> Iterator[tuple[Problem, str]]:
    """Problems of roles under the paper's clocks, of NICs under the vendors' too."""
    wanted = set(names)
    for problem in PROBLEMS:
        if not wanted or problem.name in wanted:
            yield problem, "paper"
            if "nic" in problem.what:
                yield problem, "vendor"


def measure() -> Iterator[Figure]:
    with closing(make_workers(os.cpu_count() or 1)) as workers:
        for problem, clocks in cases():
            one = judged(problem, clocks, workers)
            goal = 0.05 if problem.name in ("all-to-all", "ring all-reduce") or problem.rates_gbps else 0.0
            name = f"{' and '.join(problem.what)} over the watermark alone, {problem.name}, {clocks} clocks"
            note = f"± {one.more.error:.3f}; {one.found.sentence}"
            yield Figure(name, one.more.value, "gain", goal=goal, better="higher", note=note)


def sweep(names: Iterable[str]) -> None:
    """Goodput by packets under every value of each NIC parameter alone, others and the watermark as now."""
    table = markdown("problem", "clocks", "parameter", "least", "most", "now, Gbit/s")
    for problem, clocks in cases(names):
        if "nic" not in problem.what:
            continue
        scenario = problem.scenario(JUDGED_ON[0], clocks)
        now = Settings(INCUMBENT, scenario.dcqcn)
        before = _packets(scenario, now).goodput_bytes_per_s
        spread: list[float] = [1.0]
        for one in SENDERS:
            found = [_packets(scenario, tried).goodput_bytes_per_s / before for tried in one.tried(now)]
            spread += found
            low, high = (change_text(edge(found) - 1.0) for edge in (min, max))
            table.add_row(problem.name, clocks, one.name, low, high, f"{before * 8e-9:.1f}")
        whole = change_text(max(spread) / min(spread) - 1.0)
        table.add_row(problem.name, clocks, "best ÷ worst of all", "", whole, "")
        sys.stderr.write(f"{problem.name}, {clocks} clocks: best ÷ worst {whole}\n")
    Console(width=160).print(table)


def classes(names: Iterable[str]) -> None:
    wanted = set(names)
    table = markdown("problem", "clocks", "one set for all", "by class", "more", "for all", "by class")
    with closing(make_workers(os.cpu_count() or 1)) as workers:
        for problem, clocks in product(OF_CLASSES, ("paper", "vendor", UNLIKE)):
            if (wanted and problem.name not in wanted) or (clocks == UNLIKE and not problem.rates_gbps):
                continue
            one = judged_by_class(problem, clocks, workers)
            gains = (one.gain_alike, one.gain_own, one.gain_own.less(one.gain_alike))
            found = (
                ", ".join(change_of(part) for part in of.changes if part.kind != "watermark")
                + ("" if of.recommended else " (not recommended)")
                for of in (one.alike, one.own)
            )
            row = problem.name, clocks, *(gain_text(gain.value, gain.error) for gain in gains), *found
            table.add_row(*row)
            sys.stderr.write(" | ".join(row) + "\n")
    Console(width=220).print(table)


def together(names: Iterable[str]) -> None:
    table = markdown("problem", "clocks", "set", "watermark alone", "together", "more", "changes")
    with closing(make_workers(os.cpu_count() or 1)) as workers:
        for problem, clocks in cases(names):
            one = judged(problem, clocks, workers)
            gains = (gain_text(gain.value, gain.error) for gain in (one.alone, one.together, one.more))
            changes = [change_of(part) for part in one.found.changes if part.kind != "watermark"]
            recommended = "" if one.found.recommended else " (not recommended)"
            row = (
                problem.name,
                clocks,
                problem.what[1],
                *gains,
                (", ".join(changes) or "none") + recommended,
            )
            table.add_row(*row)
            sys.stderr.write(" | ".join(row) + "\n")
    Console(width=220).print(table)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = parser_of("bench.co_tuning", __doc__)
    known = one_of({one.name for one in (*PROBLEMS, *OF_CLASSES)})
    parser.add_argument("names", nargs="*", type=known, metavar="PROBLEM", help="default: all")
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--sweep", action="store_const", const=sweep, dest="show", help="goodput by NIC parameter"
    )
    what.add_argument(
        "--classes", action="store_const", const=classes, dest="show", help="values by NIC class"
    )
    given = parser.parse_args(arguments)
    (given.show or together)(given.names)


if __name__ == "__main__":
    main()
