"""What each phase of the demo's traffic wants: the best of twelve settings, by phase and over all of them.

``python -m bench.phases [SEED]`` prints a table: gains over the vendor default, in the lab's packets, and
what one would gain who knows the best setting of each phase as soon as its first interval is over. Phases
were chosen by it, never by how the closed loop does on them.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from rich.console import Console

from bench.__main__ import parser_of
from bench.accuracy import markdown
from lab.demo.closed_loop import Interval, Run, by_phase
from lab.demo.plan import FULL, VENDOR_DEFAULT, DemoPlan
from lab.documents import FiguresDocument
from lab.figures import Stretch
from lab.setup import Feed
from twin.packet.fabric import Fabric
from twin.packet.plan import FabricPlan
from twin.senders.dcqcn import PRESETS
from twin.traffic.notation import read_traffic
from twin.watermark import Watermark

# From the lowest that vendors and papers name to twice the vendor default, steep and gentle.
STATICS = (
    VENDOR_DEFAULT,
    Watermark(5_000, 200_000, 0.01),
    Watermark(5_000, 200_000, 0.1),
    Watermark(5_000, 800_000, 0.05),
    Watermark(6_000, 21_000, 0.05),
    Watermark(20_000, 40_000, 1.0),
    Watermark(20_000, 200_000, 0.15),
    Watermark(40_000, 250_000, 0.16),
    Watermark(100_000, 400_000, 0.2),
    Watermark(130_000, 1_000_000, 0.045),
    Watermark(350_000, 2_500_000, 0.011),
    Watermark(800_000, 3_200_000, 0.2),
)


class LabHere:
    """The demo's lab in this process, without reports."""

    def __init__(self, plan: DemoPlan, seed: int, watermark: Watermark) -> None:
        made = FabricPlan(
            ports=plan.fabric.topology().ports,
            dcqcn=PRESETS["paper"],
            buffer_bytes=plan.buffer_bytes,
            pfc=True,
        )
        traffic = read_traffic(plan.traffic, where="traffic")
        self._feed = Feed(traffic.traffic(made.traffic_hosts, duration_s=plan.duration_s, seed=seed))
        self._fabric = Fabric(made, watermark=watermark, seed=seed)
        self._queues = made.switch_ports
        self._whole, self._interval = (Stretch(self._fabric.measured()) for _ in range(2))

    def set_watermark(self, watermark: Watermark) -> None:
        self._fabric.set_watermark(self._queues, watermark)

    def advance(self, until_s: float) -> None:
        while self._fabric.now_s < until_s:
            if self._feed.next_s <= self._fabric.now_s:
                self._fabric.offer(self._feed.take())
            happened = self._fabric.advance(min(until_s, self._feed.next_s))
            for one in (self._interval, self._whole):
                one.add(happened.completions)

    def mark(self) -> FiguresDocument:
        now = self._fabric.measured()
        found = self._interval.figures(now, self._fabric.under_way())
        self._interval = Stretch(now)
        return found

    def figures(self) -> FiguresDocument:
        return self._whole.figures(self._fabric.measured(), self._fabric.under_way())


def changing_run(plan: DemoPlan, seed: int, name: str, begins: Sequence[tuple[float, Watermark]]) -> Run:
    """The whole traffic under settings that change at the ends of intervals; the first begins at 0."""
    lab, intervals = LabHere(plan, seed, begins[0][1]), []
    for begin_s, end_s in zip((0.0, *plan.ends_s), plan.ends_s, strict=False):
        watermark = [one for at_s, one in begins if at_s <= begin_s + 1e-9][-1]
        lab.set_watermark(watermark)
        lab.advance(end_s)
        intervals.append(Interval(watermark, lab.mark()))
    return Run(name, tuple(intervals), lab.figures())


def static_run(plan: DemoPlan, seed: int, watermark: Watermark) -> Run:
    return changing_run(plan, seed, str(watermark), [(0.0, watermark)])


def static_runs(plan: DemoPlan, seed: int, statics: Sequence[Watermark] = STATICS) -> list[Run]:
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(partial(static_run, plan, seed), statics))


def best_of_each(plan: DemoPlan, gains: Sequence[Sequence[float]]) -> tuple[Watermark, ...]:
    """The best static setting of each phase, of gains by setting and phase."""
    rows = range(len(gains))
    return tuple(STATICS[max(rows, key=lambda row: gains[row][phase])] for phase in range(len(plan.phases)))


def one_interval_late(plan: DemoPlan, seed: int, best: Sequence[Watermark]) -> Run:
    """What one gains who knows the best static setting of a phase when its first interval is over."""
    begins = [
        (phase.begin_s + plan.interval_s, watermark)
        for phase, watermark in zip(plan.phases, best, strict=True)
    ]
    return changing_run(plan, seed, "one interval late", [(0.0, VENDOR_DEFAULT), *begins])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = parser_of("bench.phases", __doc__)
    parser.add_argument("seed", nargs="?", type=int, default=1, help="default: %(default)s")
    plan, seed = FULL, parser.parse_args(arguments).seed
    runs = static_runs(plan, seed)
    gains = [by_phase(plan, runs[0], run) for run in runs]
    best = best_of_each(plan, gains)
    late = by_phase(plan, runs[0], one_interval_late(plan, seed, best))
    rows = sorted(zip(map(str, STATICS), gains, strict=True), key=lambda row: -sum(row[1]))
    table = markdown("watermark", *(phase.name for phase in plan.phases), "mean")
    for name, row in [*rows, ("the best of each, an interval late", late)]:
        table.add_row(name, *(f"{value:+.3f}" for value in (*row, statistics.mean(row))))
    console = Console(width=160)
    console.print(table)
    each = statistics.mean(max(row[phase] for row in gains) for phase in range(len(plan.phases)))
    single = statistics.mean(rows[0][1])
    console.print(
        f"Seed {seed}: the best of each phase gains {each:+.3f}, the best single setting {single:+.3f}; who "
        f"changes to the best of each an interval after it began gains {statistics.mean(late):+.3f}.",
        highlight=False,
    )


if __name__ == "__main__":
    main()
