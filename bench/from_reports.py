"""Predictions on scenarios rebuilt from INT reports, against the packets' truth and against denser sampling.

``python -m bench.from_reports [PROBLEM ...]`` prints both tables. Thinned reports are drawn at random, with a
seed, from a recording; each then stands for as many more packets.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType

import numpy as np
from rich.console import Console

from bench.__main__ import one_of, parser_of
from bench.accuracy import FIGURES, markdown, order_agreement, truth
from bench.figure import Figure
from bench.replay import INCUMBENT, REFERENCE
from lab.reports import ReportWriter
from learn.states import State
from service.tuning.fabric import Fabric, read_fabric
from service.tuning.round import rebuilt
from settings.load import read_bytes
from telemetry.decode.json import decode
from telemetry.report import ReportBatch, joined
from telemetry.settings import WindowSettings
from telemetry.state import NetworkState
from telemetry.topology import Topology
from telemetry.window.window import Window
from twin.packet.fabric import Fabric as PacketFabric
from twin.packet.plan import FabricPlan
from twin.prediction import Prediction, averaged
from twin.replay.model import ReplayEngine
from twin.scenario import Scenario

SAMPLED = MappingProxyType({"incast-burst-leafspine": 64, "websearch-16": 64, "parking-lot": 256})
COMPARED = ("mean queue", "p99 queue", "elephant mean", "mice p99")
COARSER = MappingProxyType({256: 0.10, 1_024: 0.10, 4_096: 0.20})  # one packet in so many, and the goal
THINNING_SEEDS = (1, 2, 3, 4, 5)
ENGINE_SEEDS = (1, 2, 3, 4)  # one alone moves the mean queue of `parking-lot` by 8 %
RATIO_GOAL = 0.15
DRAWN_ONE_IN, REPORTS_SEED = 64, 4  # a seed that judges no watermark


@dataclass(frozen=True, slots=True)
class Compared:
    """One figure over all watermarks of a truth: median, least and largest prediction ÷ truth, and Spearman's
    correlation of their order.
    """

    figure: str
    ratio: float
    lowest: float
    highest: float
    rank: float


@dataclass(frozen=True, slots=True)
class Thinned:
    """Mean queue of the incumbent from reports at one in ``one_in``, ÷ that from all of them, by seed."""

    one_in: int
    ratios: tuple[float, ...]

    @property
    def off(self) -> float:
        """How far from 1 the ratios are, in the mean over seeds."""
        return float(np.mean([abs(ratio - 1.0) for ratio in self.ratios]))


def state_of(name: str, thinned: int = 1, seed: int = 0) -> NetworkState:
    """The state that a problem's reports show, of which one in ``thinned`` is kept."""
    topology, _ = read_fabric(REFERENCE / f"{name}.scenario.json", None)
    batch = _reports(name)
    if thinned > 1:
        kept = np.random.default_rng(seed).random(len(batch)) < 1 / thinned
        batch = replace(batch, sampling_rate=batch.sampling_rate / thinned).take(kept)
    return _seen(batch, topology)


def _seen(batch: ReportBatch, topology: Topology) -> NetworkState:
    window = Window(WindowSettings.covering(batch), topology)
    window.add(batch)
    return window.state()


def scenario_of(name: str, thinned: int = 1, seed: int = 0) -> Scenario:
    """The scenario that a round makes of that state."""
    _, fabric = read_fabric(REFERENCE / f"{name}.scenario.json", None)
    return rebuilt(state_of(name, thinned, seed), fabric, INCUMBENT).scenario


def rebuilt_state(drawn: State) -> Scenario:
    """The scenario that a round makes of the reports of a drawn state's packets, one in ``DRAWN_ONE_IN``."""
    scenario, rate = drawn.scenario, 1.0 / DRAWN_ONE_IN
    plan = FabricPlan.of(scenario)
    fabric = PacketFabric(plan, watermark=drawn.incumbent, seed=REPORTS_SEED, sampling_rate=rate)
    fabric.offer_routed(scenario.flows)
    writer = ReportWriter(plan, {host.name: host.ip for host in drawn.topology.hosts}, sampling_rate=rate)
    bodies = writer.bodies(fabric.advance(scenario.duration_s).samples)
    state = _seen(joined([decode(body.content).batch for body in bodies]), drawn.topology)
    known = Fabric(
        dcqcn=scenario.dcqcn,
        mtu_payload_bytes=scenario.mtu_payload_bytes,
        buffer_bytes=scenario.buffer_bytes,
        pfc=scenario.pfc,
    )
    return rebuilt(state, known, drawn.incumbent, live=True).scenario


@cache
def _reports(name: str) -> ReportBatch:
    return decode(read_bytes(REFERENCE / f"{name}.int.ndjson.gz", "reports")).batch


def against_truth(name: str) -> list[Compared]:
    """The figures that the problem has, predicted from all its reports."""
    rows = truth(name)
    found = ReplayEngine().predict(scenario_of(name), [row.watermark for row in rows], seed=1)
    return [compared for figure in COMPARED if (compared := _compared(figure, found, rows)) is not None]


def _compared(figure: str, found: Sequence[Prediction], true: Sequence[Prediction]) -> Compared | None:
    ours, theirs = (np.array([FIGURES[figure](row) for row in rows]) for rows in (found, true))
    if np.isnan(theirs).any():
        return None
    ratios = ours / theirs
    median, low, high = float(np.median(ratios)), float(ratios.min()), float(ratios.max())
    return Compared(figure, median, low, high, order_agreement(ours, theirs))


def thinned(name: str, seeds: Sequence[int] = THINNING_SEEDS) -> list[Thinned]:
    """The incumbent's mean queue from fewer and fewer of the reports."""
    engine = ReplayEngine()

    def queue(kept: int, seed: int) -> float:
        scenario = scenario_of(name, kept, seed)
        runs = [engine.predict(scenario, [INCUMBENT], seed=one)[0] for one in ENGINE_SEEDS]
        return averaged(runs).queue_mean_bytes

    every = queue(1, 0)
    coarser = [one_in for one_in in COARSER if one_in > SAMPLED[name]]
    return [
        Thinned(one_in, tuple(queue(one_in // SAMPLED[name], seed) / every for seed in seeds))
        for one_in in coarser
    ]


def measure() -> Iterable[Figure]:
    for name in SAMPLED:
        for one in against_truth(name):
            yield Figure(
                f"from reports, {name}: {one.figure}", abs(one.ratio - 1.0) * 100, "% off",
                goal=None if one.figure == "mice p99" else RATIO_GOAL * 100,
                note=f"median {one.ratio:.2f}, {one.lowest:.2f} to {one.highest:.2f}; rank {one.rank:.2f}",
            )  # fmt: skip
        for coarse in thinned(name):
            yield Figure(
                f"from reports, {name}: mean queue at 1 in {coarse.one_in}", coarse.off * 100, "% off",
                goal=COARSER[coarse.one_in] * 100,
                note="mean over seeds; ÷ all reports: " + ", ".join(f"{one:.2f}" for one in coarse.ratios),
            )  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    parser = parser_of("bench.from_reports", __doc__)
    parser.add_argument("names", nargs="*", type=one_of(SAMPLED), metavar="PROBLEM", help="default: all")
    console = Console(width=160)
    truths = markdown("problem", "figure", "reports ÷ truth", "lowest to highest", "rank")
    coarse = markdown("problem", "1 packet in", "mean queue ÷ that from all reports, by seed", "off")
    for name in parser.parse_args(arguments).names or SAMPLED:
        for one in against_truth(name):
            span = f"{one.lowest:.2f} to {one.highest:.2f}"
            truths.add_row(name, one.figure, f"{one.ratio:.3f}", span, f"{one.rank:.3f}")
        for less in thinned(name):
            ratios = ", ".join(f"{ratio:.2f}" for ratio in less.ratios)
            coarse.add_row(name, f"{less.one_in}", ratios, f"{less.off:.1%}")
    console.print(truths, coarse)


if __name__ == "__main__":
    main()
