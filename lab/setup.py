"""Builds a lab's fabric and traffic from the command's options."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from service.tuning.fabric import Fabric as FabricFacts
from service.tuning.fabric import read_dcqcn, read_fabric
from settings.errors import InputError
from telemetry.topology import Topology, leaf_spine
from twin.packet.plan import FabricPlan
from twin.scenario_file import load_scenario
from twin.senders.classes import unlike_most
from twin.senders.dcqcn import PRESETS
from twin.traffic.base import Traffic
from twin.traffic.notation import read_traffic
from twin.units import SECONDS, quantity

AHEAD_S = 0.005
MOST_DIGITS = 19  # of a seed below 2^63


class Feed:
    """``traffic`` in portions of ``ahead_s``: a fabric's work grows with the flows it holds.

    Traffic with dependent flows is one portion: a successor must be there when its predecessor ends.
    """

    def __init__(self, traffic: Traffic, *, ahead_s: float = AHEAD_S) -> None:
        self._traffic = traffic
        self._ahead_s = ahead_s
        self._whole = len(traffic.after) > 0
        self._portion = 0
        self.offered = 0

    @property
    def next_s(self) -> float:
        """When the next portion is due; inf after the last."""
        return self._portion * self._ahead_s if self.offered < len(self._traffic) else float("inf")

    def take(self) -> Traffic:
        """The next portion; may be empty."""
        begin = self._portion * self._ahead_s
        self._portion += 1
        if self._whole:
            self.offered = len(self._traffic)
            return self._traffic
        portion = self._traffic.between(begin, self._portion * self._ahead_s)
        self.offered += len(portion)
        return portion


# It fills two thirds of the default fabric's uplinks; websearch:0.5 would overload them.
DEFAULT_TRAFFIC = "websearch:0.3"
DEFAULT_DURATION_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafSpine:
    leaves: int = 2
    spines: int = 2
    hosts: int = 8
    rate_gbps: float = 100.0
    uplink_gbps: float | None = None
    delay_us: float = 1.0

    def topology(self) -> Topology:
        """Raises ``TopologyError``."""
        return leaf_spine(
            self.leaves,
            self.spines,
            self.hosts,
            rate_gbps=self.rate_gbps,
            uplink_gbps=self.uplink_gbps,
            delay_us=self.delay_us,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LabOptions:
    """None: as in the scenario, else the default."""

    leaf_spine: LeafSpine = LeafSpine()
    topology: Path | None = None
    scenario: Path | None = None
    traffic: str | None = None
    duration_s: float | None = None
    seed: int = 1
    dcqcn: str | None = None
    buffer_bytes: float | None = None
    pfc: bool | None = None
    ecmp_seeds: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LabParts:
    plan: FabricPlan
    addresses: dict[str, str | None]
    feed: Feed
    duration_s: float


def duration_of(text: str) -> float:
    """Seconds from a text such as ``200ms``; raises ``InputError`` unless above 0."""
    seconds = quantity("--duration", text, SECONDS)
    if not (math.isfinite(seconds) and seconds > 0):
        raise InputError("--duration", repr(text), "it is above 0 and ends", "give such as 200ms")
    return seconds


def ecmp_seeds_of(texts: Sequence[str]) -> dict[str, int]:
    """Seeds from texts such as ``leaf1=7``; raises ``InputError``."""
    seeds: dict[str, int] = {}
    for text in texts:
        switch, _, seed = text.rpartition("=")
        if not switch or not seed.isdecimal() or len(seed) > MOST_DIGITS or switch in seeds:
            rule = "it is SWITCH=SEED, a whole number below 2^63, once for each switch"
            raise InputError("--ecmp-seed", repr(text), rule, "give such as leaf1=7")
        seeds[switch] = int(seed)
    return seeds


def lab_plan(options: LabOptions) -> tuple[Topology, FabricPlan]:
    """The fabric of a lab, without its traffic; raises as ``lab_parts`` does."""
    if options.topology is not None and options.scenario is not None:
        raise InputError(
            "--topology and --scenario", None, "a scenario brings its own topology", "give one of them"
        )
    topology, facts = _fabric(options)
    return topology, FabricPlan(
        ports=topology.ports,
        dcqcn=facts.dcqcn,
        senders=facts.senders_of(topology),
        dcqcn_by_host=unlike_most(facts.nic_class, facts.dcqcn_by_class, facts.dcqcn),
        mtu_payload_bytes=facts.mtu_payload_bytes or FabricPlan.mtu_payload_bytes,
        wire_overhead_bytes=facts.wire_overhead_bytes,
        ack_wire_bytes=facts.ack_wire_bytes,
        buffer_bytes=facts.buffer_bytes,
        pfc=facts.pfc,
        ecmp_seeds=options.ecmp_seeds,
    )


def lab_parts(options: LabOptions) -> LabParts:
    """Raises an ``ApiError``, ``TelemetryError`` or ``TwinError`` for options that do not fit together."""
    topology, plan = lab_plan(options)
    addresses = {host.name: host.ip for host in topology.hosts}
    if options.scenario is not None and options.traffic is None:
        traffic, duration_s = _of_scenario(options.scenario, plan)
        duration_s = duration_s if options.duration_s is None else options.duration_s
    else:
        duration_s = DEFAULT_DURATION_S if options.duration_s is None else options.duration_s
        phases = read_traffic(options.traffic or DEFAULT_TRAFFIC, where="--traffic")
        traffic = phases.traffic(plan.traffic_hosts, duration_s=duration_s, seed=options.seed)
    return LabParts(plan, addresses, Feed(traffic), duration_s)


def _fabric(options: LabOptions) -> tuple[Topology, FabricFacts]:
    dcqcn = None if options.dcqcn is None else read_dcqcn(options.dcqcn)
    file = options.scenario or options.topology
    if file is not None:
        topology, facts = read_fabric(file, dcqcn)
    else:
        topology = options.leaf_spine.topology()
        facts = FabricFacts(dcqcn=dcqcn or PRESETS["paper"])
    if options.buffer_bytes is not None:
        facts = replace(facts, buffer_bytes=options.buffer_bytes)
    if options.pfc is not None:
        facts = replace(facts, pfc=options.pfc)
    return topology, facts


def _of_scenario(path: Path, plan: FabricPlan) -> tuple[Traffic, float]:
    scenario = load_scenario(path)
    number = {name: index for index, name in enumerate(plan.hosts)}
    flows = scenario.flows
    traffic = Traffic.independent(
        np.array([number[name] for name in flows.src], dtype=np.int32),
        np.array([number[name] for name in flows.dst], dtype=np.int32),
        flows.payload_bytes,
        flows.start_s,
    )
    return traffic, scenario.duration_s
