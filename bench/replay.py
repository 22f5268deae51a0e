"""Time a watermark takes in the replay engine: one core, warm, reference problems and growing fabrics.

``python -m bench.replay`` prints a table and writes ``bench/out/replay.json``. A figure is the time of one
call of ``predict`` ÷ its watermarks; the smallest of many is what the work costs when nothing else runs. The
growing fabrics are leaf-spine under web search, with the packet engine on the same problem beside them.
``python -m bench.replay slices [SEED ...]`` compares slices of one of them with the whole, packets as the
judge; a seed is one of traffic, watermarks and slices.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from bench.__main__ import parser_of
from bench.figure import Figure, write
from telemetry.topology import leaf_spine
from twin.engine import engine
from twin.packet.plan import FabricPlan
from twin.packet.routes import Routes, flow_key
from twin.replay.model import STEP_S, ReplayEngine
from twin.scenario import Flows, Scenario, Waits
from twin.scenario_file import load_scenario
from twin.search.candidates import Origin, SpaceFillingSampler, fill, generator
from twin.search.gain import MOMENTS_TELL, POLICIES, Gain, gains_over_first, joined_over_moments
from twin.search.slices import deal, slices
from twin.senders.dcqcn import PAPER, PRESETS
from twin.traffic.base import Traffic
from twin.traffic.notation import read_traffic
from twin.watermark import Watermark, WatermarkBounds

REFERENCE = Path(__file__).resolve().parents[1] / "tests" / "data" / "reference"
INCUMBENT = Watermark(400_000, 1_600_000, 0.2)  # what the recordings were made under
MAIN = "websearch-16"
OTHERS = ("websearch-16-shallow", "steady-64", "parking-lot", "incast-64")
BATCH = 32
REPEATS = 15
REPEATS_OTHERS = 5
GOAL_MS = 10.0
GROWING = (
    # leaves, spines, hosts a leaf, uplinks in Gbit/s, load, milliseconds, goal in seconds
    (2, 2, 8, 200.0, 0.4, 22.0, 0.02),
    (4, 4, 16, 400.0, 0.6, 5.0, 0.05),
    (8, 8, 32, 400.0, 0.6, 5.0, 0.2),
    (32, 8, 32, 400.0, 0.6, 5.0, 1.0),
)
N_SLICES, N_JUDGED = 8, 20
TRIED = (INCUMBENT, Watermark(50_000, 200_000, 0.1), Watermark(5_000, 50_000, 0.5))


@dataclass(frozen=True, slots=True)
class Timing:
    """Milliseconds a watermark over several repeats of one batch size, in process time of one thread."""

    problem: str
    batch: int
    repeats: int
    least_ms: float
    median_ms: float


def watermarks(name: str, count: int) -> list[Watermark]:
    """The first ``count`` watermarks of the problem's truth."""
    document = json.loads((REFERENCE / f"{name}.truth.json").read_text("utf-8"))
    rows = document["results"][:count]
    return [Watermark(row["kmin_bytes"], row["kmax_bytes"], row["pmax"]) for row in rows]


def timed(name: str, scenario: Scenario, batch: int, repeats: int) -> Timing:
    """One batch size of one problem, after a warm-up call."""
    replay = ReplayEngine()
    asked = watermarks(name, batch)
    replay.predict(scenario, asked[:1], seed=1)
    times = []
    for _ in range(repeats):
        # Time of this thread: others on the machine slow the caches, but are not counted.
        begun = time.thread_time()
        replay.predict(scenario, asked, seed=1)
        times.append((time.thread_time() - begun) / batch * 1e3)
    return Timing(name, batch, repeats, min(times), statistics.median(times))


def run() -> dict[str, Any]:
    """Everything measured, as one document."""
    main_problem = load_scenario(REFERENCE / f"{MAIN}.scenario.json")
    timings = [
        timed(MAIN, main_problem, BATCH, REPEATS),
        timed(MAIN, main_problem, 1, 4 * REPEATS),
    ]
    for name in OTHERS:
        scenario = load_scenario(REFERENCE / f"{name}.scenario.json")
        timings.append(timed(name, scenario, BATCH, REPEATS_OTHERS))
    return {"step_s": STEP_S, "flows": len(main_problem.flows), "timings": [asdict(one) for one in timings]}


def fabric_under(
    leaves: int,
    spines: int,
    hosts: int,
    uplink_gbps: float,
    load: float,
    duration_s: float,
    clocks: str,
    seed: int = 1,
) -> Scenario:
    """A leaf-spine fabric of 100 Gbit/s hosts under web search; every switch port is monitored."""
    topology = leaf_spine(leaves, spines, hosts, rate_gbps=100.0, uplink_gbps=uplink_gbps, delay_us=1.0)
    dcqcn = PRESETS[clocks]
    plan = FabricPlan(ports=topology.ports, dcqcn=dcqcn)
    pattern = read_traffic(f"websearch:{load}", where="bench")
    offered = pattern.traffic(plan.traffic_hosts, duration_s=duration_s, seed=seed).between(0.0, duration_s)
    return Scenario(
        name=f"{len(plan.hosts)} hosts",
        ports=topology.ports,
        flows=flows_of(offered, plan, seed=1),
        monitored=tuple(index for index, port in enumerate(topology.ports) if port.port is not None),
        dcqcn=dcqcn,
        duration_s=duration_s,
        window_s=(0.0, duration_s),
    )


def flows_of(traffic: Traffic, plan: FabricPlan, seed: int) -> Flows:
    """The traffic on the paths that the packet engine would choose, each flow at its NIC's rate at first."""
    routes, names = Routes(plan), plan.hosts
    ends = list(zip(traffic.src.tolist(), traffic.dst.tolist(), strict=True))
    paths = [
        routes.path(names[src], names[dst], flow_key(seed, src, dst, number)) or ()
        for number, (src, dst) in enumerate(ends)
    ]
    rates = {port.node: port.rate_bytes_per_s for port in plan.ports if port.port is None}
    return Flows(
        src=tuple(names[src] for src, _ in ends),
        dst=tuple(names[dst] for _, dst in ends),
        payload_bytes=traffic.payload_bytes,
        start_s=traffic.start_s,
        start_rate_bytes_per_s=np.array([rates[names[src]] for src, _ in ends]),
        path_offset=np.cumsum([0, *map(len, paths)]).astype(np.int32),
        path_ports=np.concatenate([np.array(path) for path in paths]).astype(np.int32),
        waits=Waits.of(traffic.awaited, traffic.gap_s),
    )


def growing() -> Iterable[Figure]:
    """Seconds a watermark of each growing fabric, by the clocks of two presets."""
    for leaves, spines, hosts, uplink_gbps, load, duration_ms, goal in GROWING:
        for clocks in ("paper", "vendor"):
            scenario = fabric_under(leaves, spines, hosts, uplink_gbps, load, duration_ms * 1e-3, clocks)
            replay_s = each_s("replay", scenario)
            note = f"{len(scenario.flows)} flows, {duration_ms:g} ms of {load:.0%} web search, mean of three"
            if scenario.dcqcn is PAPER:
                packet_s = each_s("packet", scenario)
                note += f"; packet engine {packet_s:.2f} s, {packet_s / replay_s:.0f} times as long"
            name = f"replay, a watermark of {scenario.name}, {clocks} clocks"
            yield Figure(name, replay_s, "s", goal=goal, note=note)


def slices_judged(seed: int = 1, clocks: str = "paper") -> Iterable[Figure]:
    """Gains of ``N_JUDGED`` watermarks at 256 hosts: by slices, by the whole, and by packets."""
    leaves, spines, hosts, uplink_gbps, load, duration_ms, _ = GROWING[2]
    scenario = fabric_under(leaves, spines, hosts, uplink_gbps, load, duration_ms * 1e-3, clocks, seed)
    bounds = WatermarkBounds()
    drawn = fill([], SpaceFillingSampler(bounds), Origin.SPREAD, N_JUDGED, generator(seed, 0))
    tried = [INCUMBENT, *(one.watermark for one in drawn)]
    _, parts, _ = slices(scenario, deal(scenario, N_SLICES), range(MOMENTS_TELL), INCUMBENT, seed)

    def gains(name: str, one: Scenario) -> list[Gain]:
        found = engine(name).predict(one, tried, seed=seed)
        return gains_over_first(one, found, POLICIES["balanced"])[1:]

    sampled = zip(*(gains("replay", part) for part in parts), strict=True)
    found = [joined_over_moments(row, [1.0] * len(row), len(row)) for row in sampled]
    of_slices = np.array([one.value for one in found])
    stated = np.array([1.96 * one.error for one in found])
    for judge in ("replay", "packet"):
        truth = np.array([one.value for one in gains(judge, scenario)])
        apart = np.abs(of_slices - truth)
        note = (
            f"{len(parts)} of {N_SLICES} slices of 256 hosts against all of them by the {judge} engine, "
            f"{clocks} clocks, seed {seed}, {N_JUDGED} watermarks from {truth.min():+.2f} to "
            f"{truth.max():+.2f}"
        )
        rank = float(spearmanr(of_slices, truth).statistic)
        yield Figure("slices, rank correlation of gains", rank, "", 0.97, "higher", note)
        inside = float(np.mean(apart <= stated))
        mean = f"; mean error {apart.mean():.3f}, stated {stated.mean():.3f}"
        yield Figure("slices, gains within the stated error", inside, "", 0.9, "higher", note + mean)


def each_s(name: str, scenario: Scenario) -> float:
    """Seconds of this thread that one of ``TRIED`` takes, warm."""
    runs = engine(name)
    runs.predict(scenario, TRIED[:1], seed=1)
    begun = time.thread_time()
    runs.predict(scenario, TRIED, seed=1)
    return (time.thread_time() - begun) / len(TRIED)


def measure() -> Iterable[Figure]:
    """The figures of ``make bench``; writes the whole document beside them."""
    found = run()
    write("replay", found)
    for number, one in enumerate(Timing(**row) for row in found["timings"]):
        yield Figure(
            f"replay, a watermark of {one.problem}, batch of {one.batch}",
            one.least_ms,
            "ms",
            goal=GOAL_MS if number == 0 else None,
            note=f"one core, its time alone, warm, best of {one.repeats}; median {one.median_ms:.1f} ms",
        )
    yield from growing()
    yield from slices_judged()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = parser_of("bench.replay", __doc__)
    parser.add_argument("what", nargs="?", choices=["slices"], help="these alone; default: all else")
    parser.add_argument(
        "seeds", nargs="*", type=int, default=[1], metavar="SEED", help="of slices; default: 1"
    )
    given = parser.parse_args(arguments)
    figures: Iterable[Figure] = measure()
    if given.what == "slices":
        figures = (one for seed in given.seeds for clocks in PRESETS for one in slices_judged(seed, clocks))
    for figure in figures:
        goal = "" if figure.goal is None else f"  goal {figure.goal:g}"
        print(f"{figure.name:58s} {figure.value:8.2f} {figure.unit}{goal}  {figure.note}")


if __name__ == "__main__":
    main()
