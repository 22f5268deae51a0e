"""Network states drawn at random: fabrics, families of traffic, senders and the watermark that runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from telemetry.columns import fingerprint_of
from telemetry.topology import Topology, leaf_spine
from twin.packet.plan import FabricPlan
from twin.scenario import Flows, Scenario, Waits
from twin.senders.dcqcn import PAPER, VENDOR, DcqcnParams
from twin.traffic.base import Hosts, Traffic
from twin.traffic.notation import read_traffic
from twin.watermark import Watermark

DURATION_S = 0.02
MOST_FLOWS = 4_000  # more are replayed for less time
_SHORTEST_S = 0.003
_PATHS = 8  # equal-cost choices that a pair of hosts uses
_WARM_UP = 0.1
_DRAWS_APART = 10_000_000  # more than there are seeds

_Choice = TypeVar("_Choice")


@dataclass(frozen=True, slots=True)
class State:
    """What a round would see: a scenario, and what runs."""

    family: str
    traffic: str
    topology: Topology
    scenario: Scenario
    incumbent: Watermark


def state(seed: int, draw: int = 0) -> State:
    """The state of that seed; families take turns. Each ``draw`` is another moment of its traffic."""
    rng = np.random.default_rng([seed, 20])
    family = list(FAMILIES)[seed % len(FAMILIES)]
    leaves, spines, each = _one_of(rng, [(2, 2, 4), (2, 2, 8), (4, 2, 4), (1, 0, 8), (1, 0, 16)])
    rate_gbps = _one_of(rng, [25.0, 100.0])
    uplink_gbps = rate_gbps * each / max(spines, 1) / _one_of(rng, [1.0, 1.0, 2.0])
    delay_us = float(rng.choice([0.5, 1.0, 2.0]))
    topology = leaf_spine(
        leaves, spines, each, rate_gbps=rate_gbps, uplink_gbps=uplink_gbps, delay_us=delay_us
    )
    plan = FabricPlan(
        ports=topology.ports,
        dcqcn=_senders(rng),
        buffer_bytes=_one_of(rng, [4e6, 8e6, 16e6, 32e6]),
        pfc=bool(rng.random() < 0.8),
    )
    hosts = Hosts(count=leaves * each, nic_bytes_per_s=rate_gbps * 1.25e8)
    line = FAMILIES[family](rng, hosts)
    traffic = read_traffic(line)
    duration_s = DURATION_S
    moment = seed + draw * _DRAWS_APART
    made = traffic.traffic(hosts, duration_s=duration_s, seed=moment)
    if len(made) > MOST_FLOWS:
        duration_s = max(_SHORTEST_S, duration_s * MOST_FLOWS / len(made))
        made = traffic.traffic(hosts, duration_s=duration_s, seed=moment)
    scenario = scenario_of(made, topology, plan, duration_s)
    return State(family, line, topology, scenario, any_watermark(rng))


def any_watermark(rng: np.random.Generator) -> Watermark:
    """Kmin of 3 KB to 1.5 MB, Kmax up to 30 times that, Pmax from 1 % to 1, even in logarithms."""
    kmin = math.exp(rng.uniform(math.log(3e3), math.log(1.5e6)))
    kmax = min(kmin * math.exp(rng.uniform(math.log(1.1), math.log(30.0))), 12e6)
    return Watermark(round(kmin), round(kmax), math.exp(rng.uniform(math.log(0.01), 0.0)))


def scenario_of(traffic: Traffic, topology: Topology, plan: FabricPlan, duration_s: float) -> Scenario:
    """The traffic between hosts ``h0`` …"""
    hosts = plan.hosts
    row, start_s = _in_time(traffic, topology, duration_s)
    waits = Waits.of(traffic.awaited, traffic.gap_s)
    src = tuple(hosts[one] for one in traffic.src[row])
    dst = tuple(hosts[one] for one in traffic.dst[row])
    known: dict[tuple[str, str, int], tuple[int, ...]] = {}
    paths = []
    for number, (a, b) in enumerate(zip(src, dst, strict=True)):
        key = (a, b, number % _PATHS)
        if key not in known:
            known[key] = topology.path(a, b, fingerprint_of(key))
        paths.append(known[key])
    flows = Flows(
        src=src,
        dst=dst,
        payload_bytes=traffic.payload_bytes[row],
        start_s=start_s,
        start_rate_bytes_per_s=np.array([topology.ports[path[0]].rate_bytes_per_s for path in paths]),
        path_offset=np.cumsum([0, *map(len, paths)]).astype(np.int32),
        path_ports=np.array([port for path in paths for port in path], dtype=np.int32),
        waits=None if waits is None else waits.only(row),
    )
    return Scenario(
        name="drawn",
        ports=topology.ports,
        flows=flows,
        monitored=tuple(index for index, port in enumerate(topology.ports) if port.port is not None),
        dcqcn=plan.dcqcn,
        buffer_bytes=plan.buffer_bytes,
        pfc=plan.pfc,
        duration_s=duration_s,
        window_s=(_WARM_UP * duration_s, duration_s),
        goes_on=True,
    )


def _in_time(
    traffic: Traffic, topology: Topology, duration_s: float
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The rows that begin in time on an idle fabric, in order of start, and when."""
    rate = min(topology.nic_bytes_per_s.values())
    start_s, end_s = traffic.start_s.copy(), np.empty(len(traffic))
    for one, awaited in enumerate(traffic.awaited):
        if awaited:
            start_s[one] = max(start_s[one], end_s[awaited].max() + traffic.gap_s[one])
        end_s[one] = start_s[one] + traffic.payload_bytes[one] * 1.05 / rate
    order = np.argsort(start_s, kind="stable")
    row = order[start_s[order] < duration_s]
    return row, start_s[row]


def _senders(rng: np.random.Generator) -> DcqcnParams:
    """A preset, or one with its times, counters and increases up to twice as large or small."""
    preset = _one_of(rng, [PAPER, VENDOR])
    if rng.random() < 0.7:
        return preset
    names = ["cnp_interval_s", "alpha_timer_s", "increase_timer_s", "ai_rate_bytes_per_s"]
    changed = {name: getattr(preset, name) * 2 ** rng.uniform(-1, 1) for name in names}
    return replace(preset, **changed)


def _share(rng: np.random.Generator, low: float, high: float) -> str:
    return f"{rng.uniform(low, high):.3f}"


def _incast(rng: np.random.Generator, hosts: Hosts) -> str:
    """Bursts of 8 to 64 senders that fill a tenth to half of a receiver's time, over other traffic."""
    senders = int(rng.choice([8, 16, 32, 64]))
    fan_in = min(senders, hosts.count - 1)
    each = float(rng.choice([16e3, 64e3, 256e3]))
    bursts = math.ceil(senders / fan_in)
    period_s = min(bursts * hosts.alone_s(fan_in * each) / rng.uniform(0.1, 0.5), 0.5 * DURATION_S)
    where = _one_of(rng, ["", ":receiver=0"])
    burst = f"incast:{fan_in}:each_bytes={each:.0f}:period={period_s * 1e6:.1f}us{where}"
    return ",".join([f"{_one_of(rng, ['websearch', 'hadoop'])}:{_share(rng, 0.1, 0.4)}", *[burst] * bursts])


def _all_to_all(rng: np.random.Generator, hosts: Hosts) -> str:
    size = math.exp(rng.uniform(math.log(3e4), math.log(2e6)))
    compute_us, schedule = rng.uniform(50, 500), _one_of(rng, ["together", "rounds"])
    return (
        f"all-to-all:{size:.0f}:compute={compute_us:.0f}us:compute_jitter=0.3:schedule={schedule},"
        f"hadoop:{_share(rng, 0.05, 0.2)}"
    )


def _ring(rng: np.random.Generator, hosts: Hosts) -> str:
    size = math.exp(rng.uniform(math.log(2e6), math.log(6.4e7)))
    return (
        f"ring-all-reduce:{size:.0f}:compute={rng.uniform(50, 500):.0f}us:compute_jitter=0.3,"
        f"hadoop:{_share(rng, 0.05, 0.3)}"
    )


def _mix(rng: np.random.Generator, hosts: Hosts) -> str:
    count = int(rng.integers(2, hosts.count))
    each = math.exp(rng.uniform(math.log(2e6), math.log(2e7)))
    line = (
        f"elephants-and-mice:{_share(rng, 0.05, 0.4)}:elephants={count}:per_receiver={rng.integers(1, 5)}"
        f":elephant_bytes={each:.0f}"
    )
    if rng.random() < 0.5:
        period_us = rng.uniform(500, 2000)
        line += f",incast:{rng.integers(4, hosts.count)}:each_bytes=64KB:period={period_us:.0f}us"
    return line


def _published(name: str) -> Callable[[np.random.Generator, Hosts], str]:
    return lambda rng, _: f"{name}:{_share(rng, 0.2, 0.8)}"


FAMILIES: dict[str, Callable[[np.random.Generator, Hosts], str]] = {
    "web search": _published("websearch"),
    "data mining": _published("data-mining"),
    "Hadoop": _published("hadoop"),
    "incast": _incast,
    "all-to-all": _all_to_all,
    "ring all-reduce": _ring,
    "elephants and mice": _mix,
}


def _one_of(rng: np.random.Generator, choices: Sequence[_Choice]) -> _Choice:
    return choices[int(rng.integers(len(choices)))]
