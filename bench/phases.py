"""What each phase of the demo's traffic wants: the best of twelve settings, by phase and over all of them.

``python -m bench.phases [SEED]`` prints a table: gains over the vendor default, in the lab's packets. Phases
were chosen by it, never by how the closed loop does on them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from rich.console import Console

from bench.accuracy import markdown
from lab.demo.closed_loop import POLICY, Run, keep, measured
from lab.demo.plan import FULL, VENDOR_DEFAULT, DemoPlan
from lab.documents import FiguresDocument
from lab.figures import Stretch
from lab.setup import Feed
from twin.dcqcn import PRESETS
from twin.packet.fabric import Fabric
from twin.packet.plan import FabricPlan
from twin.search.gain import POLICIES, gain_over
from twin.traffic.base import Hosts
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
        hosts = Hosts(
            count=len(made.hosts),
            nic_bytes_per_s=min(port.rate_bytes_per_s for port in made.ports if port.port is None),
            mtu_payload_bytes=made.mtu_payload_bytes,
            wire_overhead_bytes=made.wire_overhead_bytes,
        )
        traffic = read_traffic(plan.traffic, where="traffic")
        self._feed = Feed(traffic.traffic(hosts, duration_s=plan.duration_s, seed=seed))
        self._fabric = Fabric(made, watermark=watermark, seed=seed)
        self._whole, self._phase = (Stretch(self._fabric.measured()) for _ in range(2))

    def advance(self, until_s: float) -> FiguresDocument:
        stretch = Stretch(self._fabric.measured())
        while self._fabric.now_s < until_s:
            if self._feed.next_s <= self._fabric.now_s:
                self._fabric.offer(self._feed.take())
            happened = self._fabric.advance(min(until_s, self._feed.next_s))
            for one in (stretch, self._whole, self._phase):
                one.add(happened.completions)
        return FiguresDocument.of(stretch.figures(self._fabric.measured()))

    def mark(self) -> FiguresDocument:
        now = self._fabric.measured()
        found = FiguresDocument.of(self._phase.figures(now, self._fabric.under_way()))
        self._phase = Stretch(now)
        return found

    def figures(self) -> FiguresDocument:
        return FiguresDocument.of(self._whole.figures(self._fabric.measured(), self._fabric.under_way()))


def static_run(plan: DemoPlan, seed: int, watermark: Watermark) -> Run:
    """The whole traffic under one setting."""
    return keep(str(watermark), LabHere(plan, seed, watermark), plan, watermark, lambda *_: None)


def static_runs(plan: DemoPlan, seed: int, statics: Sequence[Watermark] = STATICS) -> list[Run]:
    """The whole traffic under each setting, in their order."""
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(partial(static_run, plan, seed), statics))


def by_phase(runs: list[Run]) -> list[list[float]]:
    """Gains over the first run, [run][phase]."""
    now = [measured(figures) for figures in runs[0].phases]
    return [
        [
            gain_over(before, measured(after), POLICIES[POLICY], 0.0).value
            for before, after in zip(now, run.phases, strict=True)
        ]
        for run in runs
    ]


def main(arguments: list[str]) -> None:
    """Prints the table of one seed."""
    plan, seed = FULL, int(arguments[0]) if arguments else 1
    gains = by_phase(static_runs(plan, seed))
    table = markdown("watermark", *(phase.name for phase in plan.phases), "mean")
    for mark, row in sorted(zip(STATICS, gains, strict=True), key=lambda one: -sum(one[1])):
        table.add_row(str(mark), *(f"{value:+.3f}" for value in (*row, sum(row) / len(row))))
    console = Console(width=160)
    console.print(table)
    best = [max(row[phase] for row in gains) for phase in range(len(plan.phases))]
    single = max(sum(row) / len(row) for row in gains)
    console.print(
        f"Seed {seed}: the best of each phase gains {sum(best) / len(best):+.3f}, the best single setting "
        f"{single:+.3f}: {sum(best) / len(best) - single:.3f} is there to be won by changing.",
        highlight=False,
    )


if __name__ == "__main__":
    main(sys.argv[1:])
