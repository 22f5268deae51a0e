"""A fabric before any traffic: ports, switch and sender settings, checked and as arrays."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from telemetry.topology import EgressPort
from twin.errors import ParameterError, ScenarioError, check_above_zero, check_not_negative
from twin.packet import layout
from twin.packet.layout import CONTROL_WIRE_BYTES, RESERVE_BYTES, PacketSettings, Params, Table
from twin.scenario import FabricSizes, Scenario, check_senders, pfc_shares, reverse_ports
from twin.senders.dcqcn import DcqcnParams
from twin.senders.rtt import RttSender
from twin.traffic.base import Hosts

SEEDS = 1 << 63
HEADROOM_PACKETS = 3  # one in transmission at either end when the pause is due, and one half received
LEAST_SHARE = 0.1  # a buffer smaller than its own set-asides still shares this much of itself
EVENTS_A_PACKET_TIME = 0.2  # events of a port while it sends one packet at full load


@dataclass(frozen=True, kw_only=True)
class FabricPlan(FabricSizes):
    """Hosts, switches and cables as egress ports (both directions of each), and their settings.

    ``senders``: hosts, by name, whose flows do not run ``dcqcn``; ``dcqcn_by_host``: those that run other
    values of it.

    ``ecmp_seeds``: what switches, by name, mix into a flow's hash to choose among equal paths. Switches of
    one seed choose alike, as with hardware, so that some paths of several tiers stay empty (polarisation); a
    switch that is not named mixes in a number of its own. Raises ``ScenarioError`` where a cable lacks a
    direction, or a number is out of range, and ``ParameterError`` for a seed.
    """

    ports: tuple[EgressPort, ...]
    dcqcn: DcqcnParams
    senders: Mapping[str, RttSender] = field(default_factory=dict)
    dcqcn_by_host: Mapping[str, DcqcnParams] = field(default_factory=dict)
    ecmp_seeds: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not any(port.port is None for port in self.ports):
            rule = "it has no host, and traffic starts and ends at hosts"
            raise ScenarioError("fabric", None, rule, "add hosts")
        self.check_sizes("fabric")
        for index, port in enumerate(self.ports):
            check_above_zero(f"fabric port {index} rate", port.rate_bytes_per_s, error=ScenarioError)
            check_not_negative(f"fabric port {index} delay", port.delay_s, error=ScenarioError)
        if self.buffer_bytes < self.packet_wire_bytes:
            rule = f"a switch stores a whole packet ({self.packet_wire_bytes} bytes) before it sends it on"
            raise ScenarioError("fabric buffer_bytes", f"{self.buffer_bytes:g}", rule, "give a larger buffer")
        _ = self.reverse
        check_senders("fabric", self.senders, self.hosts)
        for name, seed in self.ecmp_seeds.items():
            self.check_ecmp_seed(name, seed)

    @classmethod
    def of(cls, scenario: Scenario) -> FabricPlan:
        """The fabric a scenario runs on."""
        shared = {one.name for one in fields(cls)} - {"ecmp_seeds"}
        return cls(**{name: getattr(scenario, name) for name in shared})

    def check_ecmp_seed(self, switch: str, seed: int) -> None:
        """Raises ``ScenarioError`` for another kind of node, ``ParameterError`` for no such seed."""
        if switch not in self.switches:
            rule = "only switches have an ECMP seed"
            raise ScenarioError("fabric ecmp_seeds", repr(switch), rule, "name one of those")
        check_seed(f"ECMP seed of {switch!r}", seed)

    @cached_property
    def hosts(self) -> tuple[str, ...]:
        """Host names in order of their first NIC."""
        return tuple(dict.fromkeys(port.node for port in self.ports if port.port is None))

    @cached_property
    def switches(self) -> tuple[str, ...]:
        """Switch names in order of their first port."""
        return tuple(dict.fromkeys(port.node for port in self.ports if port.port is not None))

    @cached_property
    def policies(self) -> tuple[RttSender, ...]:
        """What its ``senders`` run, each once."""
        return tuple(dict.fromkeys(self.senders.values()))

    def dcqcn_of(self, host: str) -> DcqcnParams:
        return self.dcqcn_by_host.get(host, self.dcqcn)

    @cached_property
    def nics(self) -> tuple[tuple[int, ...], ...]:
        """Per host by number: its NICs, as ports."""
        found: dict[str, list[int]] = {name: [] for name in self.hosts}
        for index, port in enumerate(self.ports):
            if port.port is None:
                found[port.node].append(index)
        return tuple(map(tuple, found.values()))

    @cached_property
    def traffic_hosts(self) -> Hosts:
        """All hosts, at the rate of the slowest NIC, so that load means the same for each."""
        return Hosts(
            count=len(self.hosts),
            nic_bytes_per_s=min(port.rate_bytes_per_s for port in self.ports if port.port is None),
            mtu_payload_bytes=self.mtu_payload_bytes,
            wire_overhead_bytes=self.wire_overhead_bytes,
        )

    @cached_property
    def reverse(self) -> tuple[int, ...]:
        """Per port: the other direction of its cable."""
        reverse = reverse_ports(self.ports)
        if -1 in reverse:
            alone = self.ports[reverse.index(-1)]
            where = f"fabric, cables from {alone.node!r} to {alone.peer!r}"
            rule = "every cable carries both directions"
            remedy = "give both egress ports of each cable"
            raise ScenarioError(where, "more one way than the other", rule, remedy)
        return tuple(reverse)

    @cached_property
    def switch_ports(self) -> tuple[int, ...]:
        """Egress ports of switches: the queues a watermark applies to."""
        return tuple(index for index, port in enumerate(self.ports) if port.port is not None)

    def port_table(self) -> Table:
        index = {name: number for number, name in enumerate(self.switches)}
        table = np.zeros(len(self.ports), dtype=layout.PORT)
        table["s_per_byte"] = 1.0 / np.array([port.rate_bytes_per_s for port in self.ports])
        table["delay"] = [port.delay_s for port in self.ports]
        table["switch"] = [-1 if port.port is None else index[port.node] for port in self.ports]
        table["reverse"] = self.reverse
        for column in ("head", "tail", "served", "background"):
            table[column] = -1
        table["headroom"] = self._headroom()
        table["share"] = pfc_shares(self.ports)
        table["kmin"] = table["kmax"] = math.inf
        for name, value in sender_columns(self.dcqcn).items():
            table[name] = value
        for host, nics in zip(self.hosts, self.nics, strict=True):
            if host in self.dcqcn_by_host:
                for name, value in sender_columns(self.dcqcn_by_host[host]).items():
                    table[name][list(nics)] = value
        rows = {sender: row for row, sender in enumerate(self.policies)}
        table["policy"] = [
            rows[self.senders[port.node]] if port.port is None and port.node in self.senders else -1
            for port in self.ports
        ]
        return table

    def switch_table(self) -> Table:
        """The switches; ``shared`` is the buffer less headroom and reserve of every ingress."""
        index = {name: number for number, name in enumerate(self.switches)}
        table = np.zeros(len(self.switches), dtype=layout.SWITCH)
        table["shared"] = self.buffer_bytes
        for port, headroom in zip(self.ports, self._headroom().tolist(), strict=True):
            if port.peer in index:
                table["shared"][index[port.peer]] -= headroom + RESERVE_BYTES
        table["shared"] = np.maximum(table["shared"], LEAST_SHARE * self.buffer_bytes)
        return table

    def _headroom(self) -> NDArray[np.float64]:
        # Bytes that still arrive after a pause is decided: the cable's round trip, and packets being sent.
        rate = np.array([port.rate_bytes_per_s for port in self.ports])
        delay = np.array([port.delay_s for port in self.ports])
        return 2.0 * rate * delay + HEADROOM_PACKETS * self.packet_wire_bytes

    def calendar(self) -> tuple[int, float, float]:
        """Number of buckets, buckets a second, and seconds that they reach ahead."""
        packet = float(self.packet_wire_bytes)
        slowest = min(port.rate_bytes_per_s for port in self.ports)
        longest = max(packet, self.ack_wire_bytes, CONTROL_WIRE_BYTES)
        reach = max(port.delay_s for port in self.ports) + longest / slowest
        happening = sum(port.rate_bytes_per_s / packet * EVENTS_A_PACKET_TIME for port in self.ports)
        buckets = 1 << max(8, math.ceil(math.log2(reach * happening + 4)))
        buckets = min(buckets, 1 << 20)
        return buckets, (buckets - 2) / reach, reach

    def params(
        self, settings: PacketSettings, *, seed: int, sampling_rate: float, bin_s: float = math.inf
    ) -> Params:
        """The kernel's constants; ``bin_s`` is of a background."""
        _, buckets_per_s, reach = self.calendar()
        return Params(
            seed=seed,
            buckets_per_s=buckets_per_s,
            horizon_s=reach,
            packet_bytes=self.packet_wire_bytes,
            overhead_bytes=self.wire_overhead_bytes,
            ack_bytes=self.ack_wire_bytes,
            buffer_bytes=float(self.buffer_bytes),
            pfc=self.pfc,
            retransmit_s=settings.retransmit_s(pfc=self.pfc),
            sample_s=settings.queue_sample_s,
            sampling_rate=sampling_rate,
            bins_per_s=1.0 / bin_s,
        )


def check_seed(where: str, seed: Any) -> None:
    """Raises ``ParameterError`` unless ``seed`` is one."""
    if isinstance(seed, bool) or not isinstance(seed, numbers.Integral) or not 0 <= int(seed) < SEEDS:
        rule = "a seed is a whole number from 0 to 2^63 − 1"
        raise ParameterError(where, repr(seed), rule, "give such as 1")


def sender_columns(dcqcn: DcqcnParams) -> dict[str, float]:
    """What a NIC's flows run, by the columns of its record."""
    counter = dcqcn.byte_counter_bytes
    return {
        "byte_counter": math.inf if counter is None else counter,
        "ai_rate": dcqcn.ai_rate_bytes_per_s,
        "hai_rate": dcqcn.hai_rate_bytes_per_s,
        "gain": dcqcn.gain,
        "cnp_interval": dcqcn.cnp_interval_s,
        "alpha_timer": dcqcn.alpha_timer_s,
        "increase_timer": dcqcn.increase_timer_s,
        "min_rate": dcqcn.min_rate_bytes_per_s,
        "initial_alpha": dcqcn.initial_alpha,
        "fast_recovery_steps": dcqcn.fast_recovery_steps,
        "clamp_target": dcqcn.clamp_target_rate,
    }
