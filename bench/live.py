"""What rounds on live traffic recommend and predict, against packets that run it for long.

``python -m bench.live [TRAFFIC ...]`` prints a table; ``collectives``, and ``drawn`` at random, stand for all
of these. With ``gains`` before these, it prints instead how far the gains of a few watermarks on the rebuilt
moments, as the replay predicts them, are from those by packets. A packet fabric runs the vendor default,
those drawn what was drawn, with ``low`` a low watermark; its INT reports (1 packet in 64) pass through the
window, and a round of the service's defaults judges its last moments. Then packets run the same traffic under
the watermark recommended, and under twelve that are known. Unlike the reference problems this traffic goes
on: what a watermark costs elephants shows only as they pile up. Each takes minutes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType

import numpy as np
from rich.console import Console

from bench.__main__ import one_of, parser_of
from bench.accuracy import markdown
from bench.figure import Figure
from bench.phases import STATICS
from lab.demo.closed_loop import POLICY, measured
from lab.demo.plan import VENDOR_DEFAULT
from lab.figures import Stretch
from lab.reports import EPOCH_NS, ReportWriter
from lab.setup import AHEAD_S, LabOptions, LabParts, LeafSpine, lab_parts
from learn.states import FAMILIES, any_watermark
from service.tuning.fabric import Fabric as FabricFacts
from service.tuning.moments import Extent, Moments
from service.tuning.round import Ask, RoundResult, rebuilt, run_round
from settings.twin import TuningSettings
from telemetry.decode.json import decode
from telemetry.settings import NS_PER_S, WindowSettings
from telemetry.state import NetworkState
from telemetry.topology import GBPS
from telemetry.window.window import Window
from twin.arrivals.links import links_of, waiting_share
from twin.packet.fabric import Fabric
from twin.packet.results import Results
from twin.prediction import Prediction
from twin.replay.model import ReplayEngine
from twin.scenario import Scenario
from twin.search.gain import MODEL_ERROR, POLICIES, gain_over
from twin.search.problem import SearchSettings
from twin.senders.dcqcn import preset
from twin.traffic.base import Hosts
from twin.watermark import Watermark
from twin.workers.pool import Workers, make_workers

SAMPLING = 1 / 64
WARM_S, TRUTH_S, REPORTS_S = 0.02, 0.45, 0.42
PERIOD_NS, N_PERIODS = 1_000_000, 100
SEEDS = (1, 2, 3)  # of the traffic, where MODEL_ERROR is measured
LOW = Watermark(4_000, 8_000, 0.3)
FIRST_DRAWN, N_DRAWN = 9_100_000, 14
COMPARED = (
    Watermark(5_000, 200_000, 0.1),
    Watermark(5_000, 800_000, 0.05),
    Watermark(20_000, 40_000, 1.0),
    Watermark(100_000, 400_000, 0.2),
    Watermark(1_600_000, 4_000_000, 0.1),
)


@dataclass(frozen=True, slots=True)
class Live:
    """A fabric, its traffic as ``ecntwin lab`` takes it, the preset of its NICs, the seed of it all, and what
    its switches run.
    """

    fabric: LeafSpine
    traffic: str
    dcqcn: str = "paper"
    seed: int = 1
    runs: Watermark = VENDOR_DEFAULT

    def parts(self, duration_s: float) -> LabParts:
        options = LabOptions(
            leaf_spine=self.fabric,
            traffic=self.traffic,
            duration_s=duration_s,
            seed=self.seed,
            dcqcn=self.dcqcn,
        )
        return lab_parts(options)


_WIDE = LeafSpine(leaves=4, spines=2, hosts=4, uplink_gbps=200.0)
TRAFFIC = MappingProxyType(
    {
        "web search 0.3": Live(LeafSpine(), "websearch:0.3"),
        "web search 0.5, vendor clocks": Live(LeafSpine(uplink_gbps=400.0), "websearch:0.5", "vendor"),
        "data mining 0.5": Live(LeafSpine(uplink_gbps=400.0), "data-mining:0.5"),
        "Hadoop 0.3 and incast": Live(_WIDE, "hadoop:0.3,incast:10:each_bytes=64KB:period=500us"),
        "web search 0.6 and incast, 25G": Live(
            LeafSpine(rate_gbps=25.0, uplink_gbps=100.0),
            "websearch:0.6,incast:12:each_bytes=64KB:period=1ms",
        ),
        "transfers one after the other": Live(
            _WIDE, "elephants-and-mice:0.2:elephants=12:per_receiver=3:elephant_bytes=5MB"
        ),
        "incast over such transfers": Live(
            _WIDE,
            "elephants-and-mice:0.2:elephants=12:per_receiver=3:elephant_bytes=5MB,incast:14:each_bytes=64KB",
        ),
        "large transfers, vendor clocks": Live(
            _WIDE,
            "elephants-and-mice:0.1:elephants=8:per_receiver=2:elephant_bytes=20MB",
            "vendor",
        ),
    }
)

_SMALL = LeafSpine(rate_gbps=25.0, uplink_gbps=100.0)
_FAST = LeafSpine(uplink_gbps=400.0)
_SMALL_WIDE = LeafSpine(leaves=4, spines=2, hosts=4, rate_gbps=25.0, uplink_gbps=50.0)
COLLECTIVES = MappingProxyType(
    {
        "all-to-all over Hadoop": Live(_SMALL, "all-to-all:2MB,hadoop:0.2"),
        "all-to-all over web search, vendor clocks": Live(
            _SMALL_WIDE,
            "all-to-all:500KB:compute=1ms:compute_jitter=0.2,websearch:0.2",
            "vendor",
            seed=2,
        ),
        "ring over Hadoop": Live(_SMALL, "ring-all-reduce:32MB,hadoop:0.2", seed=3),
        "all-to-all of eight over web search": Live(
            _SMALL_WIDE,
            "all-to-all:1MB:group_size=8:placement=spread:compute=2ms:compute_jitter=0.2,websearch:0.2",
            seed=4,
        ),
        "ring over web search, vendor clocks": Live(
            _SMALL, "ring-all-reduce:16MB:compute=1ms:compute_jitter=0.2,websearch:0.2", "vendor", seed=5
        ),
        "all-to-all over Hadoop 0.3": Live(
            _SMALL_WIDE, "all-to-all:1MB:compute=1ms:compute_jitter=0.3,hadoop:0.3", seed=8
        ),
        "all-to-all over web search": Live(
            _SMALL_WIDE, "all-to-all:2MB:compute=2ms:compute_jitter=0.2,websearch:0.3", seed=11
        ),
        "ring over web search": Live(
            _SMALL, "ring-all-reduce:8MB:compute=500us:compute_jitter=0.3,websearch:0.3", seed=9
        ),
        "all-to-all of 94 KB, groups of 8": Live(
            _SMALL, "all-to-all:94KB:group_size=8:compute=500us,hadoop:0.2", seed=21
        ),
        "large ring, vendor clocks": Live(
            _SMALL_WIDE, "ring-all-reduce:64MB,websearch:0.1", "vendor", seed=22
        ),
        "all-to-all in rounds": Live(
            _SMALL, "all-to-all:1MB:schedule=rounds:compute=1ms,hadoop:0.2", seed=23
        ),
        "all-to-all alone": Live(_SMALL, "all-to-all:400KB:compute=300us:compute_jitter=0.1", seed=24),
        "all-to-all, groups of 5": Live(
            _SMALL_WIDE,
            "all-to-all:700KB:group_size=5:compute=400us:compute_jitter=0.5,websearch:0.3",
            seed=41,
        ),
        "rings of 8, 100G": Live(
            LeafSpine(),
            "ring-all-reduce:48MB:group_size=8:placement=spread:compute=1ms:compute_jitter=0.2,websearch:0.2",
            seed=42,
        ),
        "all-to-all, 100G, vendor clocks": Live(
            LeafSpine(uplink_gbps=400.0), "all-to-all:3MB:compute=1ms,hadoop:0.1", "vendor", seed=43
        ),
        "all-to-all and incast": Live(
            _SMALL,
            "all-to-all:1MB:group_size=8:compute=1ms,incast:6:each_bytes=64KB:period=1ms",
            seed=44,
        ),
        "ring and incast": Live(
            _SMALL_WIDE,
            "ring-all-reduce:16MB:group_size=16:compute=300us:compute_jitter=0.3,"
            "incast:8:each_bytes=64KB:period=2ms",
            seed=45,
        ),
        "all-to-all in rounds, vendor clocks": Live(
            _SMALL,
            "all-to-all:2MB:schedule=rounds:compute=1ms:compute_jitter=0.2,websearch:0.2",
            "vendor",
            seed=46,
        ),
        "ring, 100G": Live(
            _FAST, "ring-all-reduce:24MB:compute=400us:compute_jitter=0.2,websearch:0.2", seed=62
        ),
        "rings of 4 over Hadoop": Live(
            _SMALL_WIDE,
            "ring-all-reduce:12MB:group_size=4:placement=spread:compute=500us:compute_jitter=0.2,hadoop:0.3",
            seed=63,
        ),
        "rings of 4, 100G, vendor clocks": Live(
            _FAST,
            "ring-all-reduce:16MB:group_size=4:placement=spread:compute=200us:compute_jitter=0.2,hadoop:0.2",
            "vendor",
            seed=81,
        ),
        "ring of 48 MB over web search": Live(
            _SMALL_WIDE, "ring-all-reduce:48MB:compute=1ms:compute_jitter=0.2,websearch:0.2", seed=82
        ),
        "all-to-all, groups of 8, 100G": Live(
            _FAST, "all-to-all:1MB:group_size=8:compute=300us:compute_jitter=0.2,hadoop:0.3", seed=83
        ),
        "all-to-all in rounds, 100G": Live(
            _FAST, "all-to-all:4MB:schedule=rounds:compute=300us,websearch:0.1", seed=84
        ),
        "ring of 100 MB, 100G, vendor clocks": Live(
            _FAST, "ring-all-reduce:100MB:compute=1ms:compute_jitter=0.1,hadoop:0.05", "vendor", seed=85
        ),
        "rings of 8 and incast, 100G": Live(
            _FAST,
            "ring-all-reduce:10MB:group_size=8:compute=200us,incast:8:each_bytes=64KB:period=1ms",
            seed=86,
        ),
    }
)


def drawn(seed: int) -> Live:
    """16 hosts at 25 Gbit/s; traffic, clocks and what runs at random, the families in turn."""
    rng = np.random.default_rng([seed, 77])
    family = list(FAMILIES.values())[seed % len(FAMILIES)]
    fabric = (_SMALL, _SMALL_WIDE)[int(rng.integers(2))]
    traffic = family(rng, Hosts(count=16, nic_bytes_per_s=25 * GBPS))
    dcqcn = "vendor" if rng.random() < 0.4 else "paper"
    runs = VENDOR_DEFAULT if rng.random() < 0.4 else any_watermark(rng)
    return Live(fabric, traffic, dcqcn, seed=seed % 1000 + 1, runs=runs)


DRAWN = MappingProxyType({f"drawn {number}": drawn(FIRST_DRAWN + number) for number in range(N_DRAWN)})
EVERY = MappingProxyType({**TRAFFIC, **COLLECTIVES, **DRAWN})


_MANY: Mapping[str, Mapping[str, Live]] = MappingProxyType({"collectives": COLLECTIVES, "drawn": DRAWN})


@dataclass(frozen=True, slots=True)
class Judged:
    """A round's answer, and the gain over what runs of what it recommends, as packets show it."""

    answer: RoundResult
    gain: float

    @property
    def predicted(self) -> float:
        """0 where the round stands still."""
        found = self.answer.recommendation
        return found.improvement.score_gain if found.changes else 0.0

    @property
    def error(self) -> float:
        """The standard error of what is predicted."""
        found = self.answer.recommendation
        return found.improvement.score_error or 0.0 if found.changes else 0.0


def running(
    live: Live, watermark: Watermark, until_s: float, sampling: float
) -> Iterator[tuple[Fabric, Results]]:
    """A packet fabric under this traffic, and what each portion of it brought."""
    parts = live.parts(until_s)
    fabric = Fabric(parts.plan, watermark=watermark, seed=live.seed, sampling_rate=sampling)
    while fabric.now_s < until_s - 1e-9:
        if parts.feed.next_s <= fabric.now_s + 1e-9:
            fabric.offer(parts.feed.take())
        yield fabric, fabric.advance(min(fabric.now_s + AHEAD_S, until_s))


@cache
def by_packets(live: Live, watermark: Watermark) -> Prediction:
    """What packets get after a start-up; flows that still run count at their age."""
    stretch: Stretch | None = None
    for fabric, results in running(live, watermark, TRUTH_S, 0.0):
        if stretch is not None:
            stretch.add(results.completions)
        elif fabric.now_s >= WARM_S - 1e-9:
            stretch = Stretch(fabric.measured())
    assert stretch is not None, "longer than its start-up"
    return measured(stretch.figures(fabric.measured(), fabric.under_way()))


def states(live: Live) -> Iterator[NetworkState]:
    """What telemetry shows at the end of each window, one after the other."""
    parts = live.parts(REPORTS_S)
    writer = ReportWriter(parts.plan, parts.addresses, sampling_rate=SAMPLING)
    settings = WindowSettings(period_ns=PERIOD_NS, n_periods=N_PERIODS, origin_ns=EPOCH_NS)
    window = Window(settings, live.fabric.topology())
    end_ns = EPOCH_NS + round(WARM_S * NS_PER_S) + settings.length_ns
    for _, results in running(live, live.runs, REPORTS_S, SAMPLING):
        for body in writer.bodies(results.samples):
            batch = decode(body.content).batch
            if int(batch.ts_ns.max()) >= end_ns:
                yield window.state()
                end_ns += settings.length_ns
            window.add(batch)


def _moments_before(live: Live, seen: Sequence[NetworkState]) -> Moments:
    """What rounds of the service's defaults on all but the last state would have kept."""
    defaults = TuningSettings()
    kept = Moments(
        defaults.moments,
        moment_s=defaults.moment_s,
        long_s=defaults.long_moment_s,
        over_s=defaults.moments_over_s,
    )
    for at_s, state in enumerate(seen[:-1]):
        kept.saw(state, at_s)
        scenario, extent = _moment(live, state, kept)
        kept.keep(scenario, extent, state, at_s)
    kept.saw(seen[-1], len(seen) - 1)
    return kept


def _moment(live: Live, state: NetworkState, kept: Moments) -> tuple[Scenario, Extent]:
    nic_bytes_per_s = state.topology.nic_bytes_per_s
    links = links_of(state.arrivals, nic_bytes_per_s)
    extent = kept.extent(state, waiting_share(state.arrivals, links, nic_bytes_per_s))
    found = rebuilt(state, _fabric(live), live.runs, replay_s=extent.length_s, live=True, links=links)
    return found.scenario, extent


def _fabric(live: Live) -> FabricFacts:
    return FabricFacts(dcqcn=preset(live.dcqcn))


def round_on(live: Live, seen: Sequence[NetworkState], workers: Workers) -> RoundResult:
    """A round of the service's defaults on the last state, as if one had run on each before."""
    ask = Ask(fabric=_fabric(live), search=SearchSettings(), base=None, seed=live.seed, version="")
    kept = _moments_before(live, seen)
    return run_round(seen[-1], ask, lambda _: live.runs, workers=workers, moments=kept)


def gains_off(live: Live) -> tuple[float, float]:
    """How far the gains of ``COMPARED`` over what runs are from those by packets, as the replay predicts them
    on the moments that leaders of a round run on: root mean square; and what the best of them by prediction,
    or standing still, loses by packets.
    """
    true = np.array([_gain(live, one) for one in COMPARED])
    seen = list(states(live))
    kept = _moments_before(live, seen)
    judged = kept.to_judge(*_moment(live, seen[-1], kept), seen[-1])
    found = []
    for moment in judged.long or judged.moments:
        for seed in (1, 2, 3):
            first, *others = ReplayEngine().predict(moment, [live.runs, *COMPARED], seed=seed)
            found.append([_over(first, one) for one in others])
    predicted = np.mean(found, axis=0)
    picked = float(true[predicted.argmax()]) if predicted.max() > 0.0 else 0.0
    return float(np.sqrt(np.mean((predicted - true) ** 2))), max(float(true.max()), 0.0) - picked


def judged(live: Live, workers: Workers) -> Judged:
    """A round on this traffic, held against packets."""
    answer = round_on(live, list(states(live)), workers)
    chosen = answer.recommendation
    return Judged(answer, _gain(live, chosen.watermark) if chosen.changes else 0.0)


def _gain(live: Live, watermark: Watermark) -> float:
    """Over what runs, as packets show it."""
    return _over(by_packets(live, live.runs), by_packets(live, watermark))


def _over(now: Prediction, new: Prediction) -> float:
    return gain_over(now, new, POLICIES[POLICY], 0.0).value


def measure() -> Iterable[Figure]:
    workers = make_workers(2)
    every = {
        (name, seed): judged(replace(live, seed=seed), workers)
        for seed in SEEDS
        for name, live in TRAFFIC.items()
    }
    for (name, seed), one in every.items():
        yield Figure(
            f"live rounds, {name}, seed {seed}: gain predicted beyond what packets show",
            one.predicted - one.gain,
            "gain",
            note=f"predicted {one.predicted:+.3f} ± {one.error:.3f}, packets {one.gain:+.3f}",
        )
    found = every.values()
    off = sum((one.predicted - one.gain) ** 2 for one in found)
    noise = sum(one.error**2 - (MODEL_ERROR * one.predicted) ** 2 for one in found)
    yield Figure(
        "live rounds: by what part gains are off beyond noise (twin.search.gain.MODEL_ERROR)",
        math.sqrt(max(off - noise, 0.0) / sum(one.predicted**2 for one in found)),
        "of the gain",
    )


def print_gains(traffic: Mapping[str, Live]) -> None:
    table = markdown("traffic", "off", "loses")
    for name, live in traffic.items():
        table.add_row(name, *(f"{one:.3f}" for one in gains_off(live)))
    Console(width=170).print(table)


def print_rounds(traffic: Mapping[str, Live]) -> None:
    table = markdown("traffic", "recommended", "predicted", "by packets", "best static", "its gain")
    workers = make_workers(2)
    console = Console(width=170)
    for name, live in traffic.items():
        one = judged(live, workers)
        answer = one.answer.recommendation
        best = max(STATICS, key=lambda watermark: _gain(live, watermark))
        table.add_row(
            name,
            str(answer.watermark) if answer.changes else "stand still",
            f"{one.predicted:+.3f} ± {one.error:.3f}" if answer.changes else "",
            f"{one.gain:+.3f}",
            str(best),
            f"{_gain(live, best):+.3f}",
        )
    console.print(table)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = parser_of("bench.live", __doc__)
    known = one_of(["gains", "low", *_MANY, *EVERY])
    what = (
        "collectives, drawn: all of these; default: TRAFFIC; gains: print these alone; low: where that runs"
    )
    parser.add_argument("names", nargs="*", type=known, metavar="TRAFFIC", help=what)
    given = parser.parse_args(arguments).names
    named = [name for name in given if name not in ("gains", "low")]
    chosen = {name: EVERY[name] for one in named for name in _MANY.get(one, [one])} or dict(TRAFFIC)
    if "low" in given:
        chosen = {name: replace(live, runs=LOW) for name, live in chosen.items()}
    show = print_gains if "gains" in given else print_rounds
    show(chosen)


if __name__ == "__main__":
    main()
