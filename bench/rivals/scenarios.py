"""Traffic and fabrics that tuners are compared on, by name: ``websearch-60``, ``incast-32+vendor+4MB``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

import numpy as np

from lab.demo.plan import Phase
from lab.setup import LeafSpine
from telemetry.topology import GBPS, Link, Topology
from twin.errors import ParameterError, check_known
from twin.packet import layout
from twin.packet.plan import FabricPlan
from twin.senders.dcqcn import preset
from twin.traffic.base import Traffic
from twin.traffic.notation import read_traffic
from twin.watermark import Watermark

# 32 hosts, as much uplink as host bandwidth: what PET and ACC have, smaller.
_FABRIC = LeafSpine(leaves=4, spines=2, hosts=8, rate_gbps=25.0, uplink_gbps=100.0)
_FOUR = LeafSpine(leaves=2, spines=1, hosts=2, rate_gbps=25.0, uplink_gbps=100.0)
_EIGHT = LeafSpine(leaves=2, spines=2, hosts=4, rate_gbps=25.0, uplink_gbps=50.0)
_SMALL = LeafSpine(leaves=2, spines=2, hosts=8, rate_gbps=25.0, uplink_gbps=100.0)
_PARTS_OF_TRAFFIC = 20  # the first of so many is made to estimate how many flows there will be


@dataclass(frozen=True, slots=True)
class Cut:
    """A share of the cables between switches, at least one, is cut at ``at_s`` and mended at ``until_s``."""

    at_s: float
    until_s: float
    share: float = 0.1


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A fabric and its traffic in phases, each judged by itself; times in simulated seconds.

    Everything random follows from the seed and nothing else. ``mixed_gbps`` are the rates of a leaf's hosts
    in turn, where they differ.
    """

    name: str
    phases: tuple[Phase, ...]
    duration_s: float
    fabric: LeafSpine = _FABRIC
    mixed_gbps: tuple[float, ...] = ()
    dcqcn: str = "paper"
    buffer_bytes: int = 32_000_000
    cut: Cut | None = None

    @cached_property
    def topology(self) -> Topology:
        made = self.fabric.topology()
        if not self.mixed_gbps:
            return made
        rates = {
            host.name: self.mixed_gbps[number % len(self.mixed_gbps)]
            for number, host in enumerate(made.hosts)
        }
        return replace(made, links=tuple(_at_rate(link, rates) for link in made.links))

    @cached_property
    def plan(self) -> FabricPlan:
        return FabricPlan(
            ports=self.topology.ports,
            dcqcn=preset(self.dcqcn),
            buffer_bytes=float(self.buffer_bytes),
            pfc=True,
        )

    @property
    def spans_s(self) -> tuple[tuple[float, float], ...]:
        """Begin and end of each phase."""
        begins = [phase.begin_s for phase in self.phases]
        return tuple(zip(begins, [*begins[1:], self.duration_s], strict=True))

    @property
    def incumbent(self) -> tuple[Watermark, ...]:
        """What every queue ran before: HPCC's rule, 100 and 400 KB at 25 Gbit/s in proportion to the rate."""
        rates = [self.plan.ports[port].rate_bytes_per_s for port in self.plan.switch_ports]
        return tuple(
            Watermark(round(4_000 * rate / GBPS), round(16_000 * rate / GBPS), 0.2) for rate in rates
        )

    def traffic(self, seed: int, *, until_s: float | None = None) -> Traffic:
        """Flows that start before ``until_s`` (None: all), or wait for such; loads are of the slowest NIC."""
        until_s = self.duration_s if until_s is None else until_s
        line = ",".join(
            f"{item}@{begin_s:.9g}s..{end_s:.9g}s"
            for phase, (begin_s, end_s) in zip(self.phases, self.spans_s, strict=True)
            for item in phase.traffic.split(",")
        )
        pattern = read_traffic(line, where=f"scenario {self.name}")
        return pattern.traffic(self.plan.traffic_hosts, duration_s=until_s, seed=seed)

    def cables_cut(self, seed: int) -> tuple[int, ...]:
        """One port of each cable between switches that is cut."""
        if self.cut is None:
            return ()
        switches = self.topology.switch_names
        cables = [
            port
            for port in self.plan.switch_ports
            if self.plan.ports[port].peer in switches and port < self.plan.reverse[port]
        ]
        count = max(1, round(self.cut.share * len(cables)))
        chosen = np.random.default_rng([seed, len(cables)]).choice(cables, count, replace=False)
        return tuple(sorted(chosen.tolist()))


def _at_rate(link: Link, rates: Mapping[str, float]) -> Link:
    ends = [end for end in (link.a, link.b) if end in rates]
    return replace(link, rate_gbps=rates[ends[0]]) if ends else link


def _steady(name: str, traffic: str, duration_s: float = 0.2, **options: object) -> Scenario:
    return Scenario(name=name, phases=(Phase(name, 0.0, traffic),), duration_s=duration_s, **options)  # type: ignore[arg-type]


def _incast(fan_in: int, period: str) -> Scenario:
    """Bursts of ``fan_in`` transfers of 64 KB to one host over web search; beyond 16 as bursts at once."""
    bursts = max(1, fan_in // 16)
    burst = f"incast:{fan_in // bursts}:each_bytes=64KB:period={period}:receiver=0"
    return _steady(f"incast-{fan_in}", ",".join(["websearch:0.3", *[burst] * bursts]))


def _pet(name: str, stretch: float) -> Scenario:
    """PET's switches between web search and data mining, at a hundredth of its clock × ``stretch``."""
    mine, search = "data-mining:0.6", "websearch:0.6"
    begins = [
        (at * stretch, line) for at, line in ((0.0, search), (0.021, mine), (0.061, search), (0.071, mine))
    ]
    phases = tuple(Phase(line.partition(":")[0], at_s, line) for at_s, line in begins)
    return Scenario(name=name, phases=phases, duration_s=0.101 * stretch)


_A2A = "all-to-all:2MB:compute=300us:compute_jitter=0.3,hadoop:0.1"
_BURSTS = "elephants-and-mice:0.2:elephants=12:per_receiver=3:elephant_bytes=5MB,incast:14:each_bytes=64KB"
_SEARCH = "websearch:0.5"

_ALL = (
    *(_steady(f"websearch-{load}", f"websearch:{load / 100}") for load in (20, 40, 60, 80)),
    _steady("data-mining-50", "data-mining:0.5"),
    _steady("hadoop-40", "hadoop:0.4"),
    *(_incast(fan_in, period) for fan_in, period in ((8, "2ms"), (16, "2ms"), (32, "4ms"), (64, "4ms"))),
    _steady("all-to-all", _A2A),
    _steady("ring-all-reduce", "ring-all-reduce:64MB:compute=300us:compute_jitter=0.3,hadoop:0.1"),
    Scenario(
        name="switches",
        phases=(
            Phase("web search", 0.0, _SEARCH),
            Phase("bursts", 0.1, _BURSTS),
            Phase("all-to-all", 0.2, _A2A),
        ),
        duration_s=0.3,
    ),
    _pet("pet-switches", 1.0),
    _pet("pet-switches-10x", 10.0),
    Scenario(
        name="link-cuts",
        phases=tuple(
            Phase(name, at_s, "websearch:0.5")
            for name, at_s in (("whole", 0.0), ("cut", 0.011), ("mended", 0.041))
        ),
        duration_s=0.071,
        cut=Cut(0.011, 0.041),
    ),
    _steady("hadoop-4-hosts", "hadoop:0.5", fabric=_FOUR),
    _steady("all-to-all-8-hosts", _A2A.replace("2MB", "1MB"), fabric=_EIGHT),
    _steady(
        "mixed-rates",
        f"websearch:0.8,{_BURSTS}",
        0.06,
        fabric=LeafSpine(leaves=2, spines=2, hosts=16, rate_gbps=25.0, uplink_gbps=400.0),
        mixed_gbps=(25.0, 100.0),
    ),
    _steady(
        "websearch-60-400G",
        "websearch:0.6",
        0.06,
        fabric=LeafSpine(leaves=4, spines=2, hosts=8, rate_gbps=100.0, uplink_gbps=400.0),
    ),
    _steady(
        "websearch-60-288-hosts",
        "websearch:0.6",
        0.05,
        fabric=LeafSpine(leaves=12, spines=6, hosts=24, rate_gbps=25.0, uplink_gbps=100.0),
    ),
)
SCENARIOS: Mapping[str, Scenario] = MappingProxyType({one.name: one for one in _ALL})
VARIANTS: Mapping[str, Callable[[Scenario], Scenario]] = MappingProxyType(
    {
        "vendor": lambda one: replace(one, dcqcn="vendor"),
        "4MB": lambda one: replace(one, buffer_bytes=4_000_000),
        "small": lambda one: replace(one, fabric=_SMALL),
    }
)
# Long, large, or for tuners that set senders too.
_APART = ("pet-switches-10x", "websearch-60-288-hosts", "hadoop-4-hosts", "all-to-all-8-hosts")
QUICK = ("websearch-60+small", "incast-8+small", "pet-switches+small")
FULL = (
    *(name for name in SCENARIOS if name not in _APART),
    *(
        f"{name}+{variant}"
        for name in ("websearch-60", "incast-32", "switches")
        for variant in ("vendor", "4MB")
    ),
)


def scenario_named(name: str) -> Scenario:
    """A scenario, perhaps with variants behind ``+``; raises ``ParameterError`` for an unknown one."""
    base, *variants = name.split("+")
    check_known("scenario", base, SCENARIOS)
    found = SCENARIOS[base]
    for variant in variants:
        if variant not in VARIANTS:
            rule = f"known: {', '.join(VARIANTS)}"
            raise ParameterError(f"scenario {base}", f"variant {variant!r}", rule, "choose one of them")
        found = VARIANTS[variant](found)
    return replace(found, name=name)


def memory_bytes(scenario: Scenario, seed: int) -> float:
    """Estimates what a run of it holds at most: its flows, and packets that fill every buffer."""
    part_s = scenario.duration_s / _PARTS_OF_TRAFFIC
    flows = len(scenario.traffic(seed, until_s=part_s)) * _PARTS_OF_TRAFFIC
    # Its row, doubled as the table grows; its columns and what the judge keeps.
    a_flow = 3 * layout.FLOW.itemsize
    packets = len(scenario.plan.switches) * scenario.buffer_bytes / scenario.plan.packet_wire_bytes
    return flows * a_flow + packets * 2 * layout.PACKET.itemsize


def check_memory(scenarios: Iterable[Scenario], seed: int, *, at_once: int, free_bytes: float) -> None:
    """Raises ``ParameterError`` where ``at_once`` runs of a scenario need more than ``free_bytes``."""
    for one in scenarios:
        needed = memory_bytes(one, seed) * at_once
        if needed > free_bytes:
            received = f"about {needed / 1e9:.3g} GB for {at_once} at once"
            rule = f"{free_bytes / 1e9:.3g} GB are free"
            remedy = "leave it out, shorten it, or run fewer at once"
            raise ParameterError(f"scenario {one.name}", received, rule, remedy)


def free_memory_bytes() -> float:
    """Memory the machine can give; inf where it does not tell."""
    meminfo = Path("/proc/meminfo")
    if not meminfo.exists():
        return float("inf")
    lines = dict(line.split(":", 1) for line in meminfo.read_text("utf-8").splitlines())
    return float(lines["MemAvailable"].split()[0]) * 1024.0
