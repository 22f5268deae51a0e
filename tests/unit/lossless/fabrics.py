"""A small sound fabric: two leaves with a host each, and a spine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lossless.fabric import Fabric
from lossless.report import Fault
from lossless.rules import check
from nics.base import NicReading, Reading
from switches.lossless import LosslessPort, LosslessPriority, LosslessReading
from telemetry.topology import Topology, leaf_spine
from tests.unit.nics.sysfs import DEFAULTS
from twin.watermark import Watermark

MARK = Watermark(100_000, 400_000, 0.1)
TOPOLOGY: Topology = leaf_spine(2, 1, 1)
PORTS = {
    "leaf1": ("Ethernet0", "Ethernet1"),
    "leaf2": ("Ethernet0", "Ethernet1"),
    "spine1": ("Ethernet0", "Ethernet1"),
}

PRIORITY = LosslessPriority(priority=3, queue=3, xoff_bytes=1_000_000, headroom_bytes=50_000)
PORT = LosslessPort(
    port="",
    priorities=(PRIORITY,),
    watermarks={3: MARK, 6: None},
    strict={3: False, 6: True},
    queue_of_dscp={26: 3, 48: 6},
    rate_gbps=100,
    mtu_bytes=9100,
    cable_m=5,
)
NIC = NicReading(nic="ens1", rdma="mlx5_0", driver="mlx5_core", values=DEFAULTS, reacts=(3,), notifies=(3,))


def reading_of(switch: str, ports: Mapping[str, LosslessPort]) -> LosslessReading:
    return LosslessReading(switch, 0, tuple(replace(port, port=name) for name, port in ports.items()))


def fabric(
    changed: Mapping[tuple[str, str], LosslessPort] | None = None,
    nics: Mapping[str, NicReading] | None = None,
    **others: Any,
) -> Fabric:
    """The sound one, with these ports and NICs (by host) instead."""
    switches = {
        name: reading_of(name, {port: (changed or {}).get((name, port), PORT) for port in ports})
        for name, ports in PORTS.items()
    }
    hosts = {name: Reading(name, 0, ((nics or {}).get(name, NIC),)) for name in ("h0", "h1")}
    return Fabric(**{"switches": switches, "topology": TOPOLOGY, "hosts": hosts} | others)


def with_priority(**fields: Any) -> LosslessPort:
    return replace(PORT, priorities=(replace(PRIORITY, **fields),))


def faults(of: Fabric) -> list[tuple[str, str, str]]:
    """Rule, severity and place of each."""
    return [(one.rule, one.severity, one.where) for one in check(of).faults]


def the_fault(of: Fabric) -> Fault:
    (found,) = check(of).faults
    return found
