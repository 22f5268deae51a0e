"""The packet engine: what a packet-hop costs, how that compares with the other simulator, how much memory a
large fabric takes, and how close the answers come to the reference truths.

Times are of one thread alone, warm. The other simulator's time is what the truth files recorded
(``simulator_wall_s``) on its own machine. ``python -m bench.packet drawn [FIRST [COUNT]]`` holds the replay
against packets on fabrics and traffic drawn at random, on their flows and as rebuilt from reports: ten
seconds each on a core.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from bench import accuracy
from bench.__main__ import parser_of
from bench.accuracy import Cell, markdown
from bench.figure import Figure, write
from bench.from_reports import rebuilt_state
from bench.replay import INCUMBENT, REFERENCE
from learn.states import any_watermark, state
from telemetry.topology import leaf_spine
from twin.engine import engine
from twin.packet.fabric import Fabric
from twin.packet.model import PacketEngine
from twin.packet.plan import FabricPlan
from twin.prediction import Prediction
from twin.scenario import Scenario
from twin.search.gain import POLICIES, gains_over_first
from twin.senders.dcqcn import PAPER
from twin.traffic.patterns import Poisson
from twin.traffic.sizes import SizeDistribution
from twin.watermark import Watermark

TIMED_ROWS = (0, 20, 40)  # watermarks of each problem's truth
REPEATS = 3
HOPS_GOAL, FASTER_GOAL = 5e6, 10.0
LARGE_S, LARGE_WALL_GOAL_S, LARGE_MEMORY_GOAL_MB = 0.01, 120.0, 2000.0
RATIO_GOAL, RANK_GOAL, NOISY_RANK_GOAL = 0.10, 0.97, 0.93
FIRST_DRAWN, N_DRAWN = 6_000_000, 70  # beyond the states that anything was learnt from or worked out on
LEAST_QUEUE_BYTES = 300.0  # of a shorter mean a ratio says nothing
VENDOR_CNP_S = 15e-6
BY_REPLAY, FROM_REPORTS, BY_PACKETS = "replay", "replay from reports", "another seed of packets"
POLICY = POLICIES["balanced"]
TRUTH_PACKET_S = 83e-9  # what 1048 bytes take at the truths' 100 Gbit/s ports (PROVENANCE.md)


@dataclass(frozen=True, slots=True)
class Timing:
    """One problem: seconds a watermark (the least of several, mean over watermarks), packet-hops, packets."""

    problem: str
    seconds: float
    hops: float
    packets: float
    other_simulator_s: float


def timed(name: str) -> Timing:
    """A few watermarks of a problem, each run several times."""
    document = json.loads((REFERENCE / f"{name}.truth.json").read_text("utf-8"))
    problem, rows = accuracy.scenario(name), [document["results"][row] for row in TIMED_ROWS]
    seconds, hops, packets = [], [], []
    for row in rows:
        watermark = Watermark(row["kmin_bytes"], row["kmax_bytes"], row["pmax"])
        runs = []
        for _ in range(REPEATS):
            fabric = Fabric(FabricPlan.of(problem), watermark=watermark, seed=1, monitored=problem.monitored)
            begun = time.thread_time()
            fabric.offer_routed(problem.flows)
            fabric.advance(problem.duration_s)
            runs.append(time.thread_time() - begun)
        seconds.append(min(runs))
        hops.append(fabric.measured().hops)
        packets.append(fabric.measured().injected_packets)
    theirs = [row["simulator_wall_s"] for row in document["results"]]
    return Timing(
        name, float(np.mean(seconds)), float(np.mean(hops)), float(np.mean(packets)), float(np.mean(theirs))
    )


def large(uplink_gbps: float) -> dict[str, float]:
    """288 hosts, 12 leaves, 6 spines, websearch at 60 % of the NICs, in a process of its own."""
    code = f"import json; from bench.packet import large_here; print(json.dumps(large_here({uplink_gbps})))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def large_here(uplink_gbps: float) -> dict[str, float]:
    plan = FabricPlan(ports=leaf_spine(12, 6, 24, uplink_gbps=uplink_gbps).ports, dcqcn=PAPER)
    traffic = Poisson(sizes=SizeDistribution.named("websearch"), load=0.6).traffic(
        plan.traffic_hosts, duration_s=LARGE_S, seed=1
    )
    fabric = Fabric(plan, watermark=INCUMBENT, seed=1, sampling_rate=1 / 256)
    fabric.advance(1e-6)  # compiled and loaded
    begun = time.perf_counter()
    fabric.offer(traffic)
    fabric.advance(LARGE_S)
    wall_s = time.perf_counter() - begun
    return {
        "wall_s": wall_s,
        "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
        "hops_per_s": fabric.measured().hops / wall_s,
        "flows": float(len(traffic)),
    }


def at_the_truths_rate(problem: Scenario) -> Scenario:
    """The problem with ports as fast as the truth's were: 101.01 Gbit/s where the file says 100."""
    faster = problem.packet_wire_bytes / 12.5e9 / TRUTH_PACKET_S
    ports = tuple(replace(port, rate_bytes_per_s=port.rate_bytes_per_s * faster) for port in problem.ports)
    return replace(problem, ports=ports)


def cells(name: str, predictions: Sequence[Prediction]) -> list[Cell]:
    """Every figure of a problem against its truth, with this engine's goals."""
    found = []
    for one in accuracy.cells(name, predictions):
        goal = one.rank_goal
        if goal is not None:
            goal = NOISY_RANK_GOAL if one.figure in {*accuracy.NOISY.get(name, ()), "pause"} else RANK_GOAL
        found.append(replace(one, ratio_goal=RATIO_GOAL, rank_goal=goal))
    return found


def run() -> dict[str, Any]:
    by = PacketEngine()
    compared: dict[str, list[Cell]] = {"as given": [], "at the truths' rate": []}
    for name in accuracy.PROBLEMS:
        problem, watermarks = accuracy.scenario(name), [row.watermark for row in accuracy.truth(name)]
        compared["as given"] += cells(name, by.predict(problem, watermarks, seed=1))
        faster = at_the_truths_rate(problem)
        compared["at the truths' rate"] += cells(name, by.predict(faster, watermarks, seed=1))
    return {
        "timings": [asdict(timed(name)) for name in accuracy.PROBLEMS],
        "large": {f"{rate:g}G uplinks": large(rate) for rate in (400.0, 100.0)},
        "cells": {how: [asdict(one) for one in found] for how, found in compared.items()},
    }


def measure() -> Iterable[Figure]:
    found = run()
    write("packet", found)
    for one in (Timing(**row) for row in found["timings"]):
        yield Figure(
            f"packet, {one.problem}: packet-hops a second", one.hops / one.seconds / 1e6, "million/s",
            goal=HOPS_GOAL / 1e6, better="higher",
            note=f"one core, warm; {one.seconds / one.packets * 1e9:.0f} ns a packet and its acknowledgement",
        )  # fmt: skip
        yield Figure(
            f"packet, {one.problem}: the other simulator's time ÷ ours",
            one.other_simulator_s / one.seconds, "×", goal=FASTER_GOAL, better="higher",
            note=f"{one.other_simulator_s:.2f} s recorded on its machine, {one.seconds:.3f} s here",
        )  # fmt: skip
    for uplinks, row in found["large"].items():
        hops = f"{row['hops_per_s'] / 1e6:.1f} million hops/s, {row['flows']:.0f} flows"
        yield Figure(
            f"packet, 288 hosts, {uplinks}: 10 ms simulated", row["wall_s"], "s",
            goal=LARGE_WALL_GOAL_S, note=hops,
        )  # fmt: skip
        yield Figure(
            f"packet, 288 hosts, {uplinks}: memory", row["memory_mb"], "MB", goal=LARGE_MEMORY_GOAL_MB
        )  # fmt: skip
    for how, rows in found["cells"].items():
        compared = [Cell(**row) for row in rows]
        for name in accuracy.PROBLEMS:
            own = [one for one in compared if one.problem == name]
            yield from accuracy.agreement(f"packet, {name}, {how}", "truth", own)


@dataclass(frozen=True, slots=True)
class Drawn:
    """A state drawn at random: by figure, replay ÷ packets of each watermark; and of the replay on its flows,
    of the replay on what reports show, and of another seed of packets, how far gains are from those by
    packets (median), and the gain that the pick loses to the best of these, judged by packets.
    """

    clocks: str
    ratios: dict[str, list[float]]
    off: dict[str, float]
    lost: dict[str, float]


def drawn(seed: int) -> Drawn:
    """Two seeds of the replay and three of packets, on what runs and 15 watermarks."""
    found = state(seed)
    rng = np.random.default_rng([seed, 21])
    watermarks = [found.incumbent, *(any_watermark(rng) for _ in range(15))]
    runs = {
        name: [engine(name).predict(found.scenario, watermarks, seed=one) for one in range(1, count + 1)]
        for name, count in (("replay", 2), ("packet", 3))
    }
    ratios: defaultdict[str, list[float]] = defaultdict(list)
    for row in range(len(watermarks)):
        ours, packets = ([_figures(run[row]) for run in runs[name]] for name in ("replay", "packet"))
        for figure in packets[0]:
            mean = float(np.mean([one[figure] for one in packets]))
            if mean > (LEAST_QUEUE_BYTES if figure == "mean queue" else 0.0):
                ratios[figure].append(float(np.mean([one[figure] for one in ours])) / mean)
    from_reports = rebuilt_state(found)
    seen = [engine("replay").predict(from_reports, watermarks, seed=one) for one in (1, 2)]
    by_packets = _gains(found.scenario, runs["packet"])
    truth, of_two = by_packets.mean(axis=0), by_packets[1:].mean(axis=0)
    judged = {
        BY_REPLAY: (_gains(found.scenario, runs["replay"]).mean(axis=0), truth),
        FROM_REPORTS: (_gains(from_reports, seen).mean(axis=0), truth),
        BY_PACKETS: (by_packets[0], of_two),
    }
    return Drawn(
        "vendor" if found.scenario.dcqcn.cnp_interval_s < VENDOR_CNP_S else "paper",
        dict(ratios),
        {name: float(np.median(np.abs(gain - true)[1:])) for name, (gain, true) in judged.items()},
        {name: float(true.max() - true[gain.argmax()]) for name, (gain, true) in judged.items()},
    )


def _gains(scenario: Scenario, runs: Sequence[Sequence[Prediction]]) -> NDArray[np.float64]:
    """Gains [seed, watermark] over the first watermark."""
    return np.array([[one.value for one in gains_over_first(scenario, run, POLICY)] for run in runs])


def _figures(prediction: Prediction) -> dict[str, float]:
    classes = {name: one for name, one in prediction.slowdown.items() if name != "all"}
    return {
        "mean queue": prediction.queue_mean_bytes,
        "goodput": prediction.goodput_bytes_per_s,
        **{f"{name} mean": one.mean for name, one in classes.items()},
        **{f"{name} p99": one.p99 for name, one in classes.items()},
    }


def show_drawn(first: int, count: int) -> None:
    """Prints a table: a column a kind of clocks, medians and what eight in ten watermarks lie within."""
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(drawn, range(first, first + count)))
    kinds = {clocks: [one for one in found if one.clocks == clocks] for clocks in ("paper", "vendor")}
    table = markdown("replay ÷ packets", *(f"{clocks}, {len(of)} states" for clocks, of in kinds.items()))
    for figure in dict.fromkeys(name for one in found for name in one.ratios):
        cells = []
        for of in kinds.values():
            all_of = [ratio for one in of for ratio in one.ratios.get(figure, [])]
            low, median, high = np.quantile(all_of, (0.1, 0.5, 0.9)) if all_of else (np.nan,) * 3
            cells.append(f"{median:.2f} ({low:.2f} to {high:.2f})")
        table.add_row(figure, *cells)
    for name in (BY_REPLAY, FROM_REPORTS, BY_PACKETS):
        cells = [
            f"{np.mean([one.off[name] for one in of]):.3f}, {np.mean([one.lost[name] for one in of]):.3f}"
            for of in kinds.values()
        ]
        table.add_row(f"gains off, lost by the pick: {name}", *cells)
    Console(width=120).print(table)


if __name__ == "__main__":
    parser = parser_of("bench.packet", "States drawn at random; the rest: python -m bench packet.")
    parser.add_argument("what", choices=["drawn"])
    parser.add_argument("first", nargs="?", type=int, default=FIRST_DRAWN, help="default: %(default)s")
    parser.add_argument("count", nargs="?", type=int, default=N_DRAWN, help="default: %(default)s")
    given = parser.parse_args()
    show_drawn(given.first, given.count)
