"""What LLDP shows of a small fabric, written out: leaf1 and leaf2 on spine1, a host at each leaf."""

from __future__ import annotations

from typing import Any

from telemetry.neighbours.merge import Assumed, Merged, merge
from telemetry.neighbours.model import Neighbour, Port, SwitchNeighbours
from telemetry.topology import Topology, topology_from_json

SWITCHES = ("leaf1", "leaf2", "spine1")


def sees(*rows: Neighbour, gbps: float = 100.0, **own: Any) -> SwitchNeighbours:
    """A switch with ports Ethernet0 and Ethernet4, and those at which it sees something."""
    known = {port: Port(gbps) for port in ("Ethernet0", "Ethernet4", *(row.port for row in rows))}
    return SwitchNeighbours(rows, known, **own)


def to(port: str, system: str | None, port_id: str | None, **more: Any) -> Neighbour:
    return Neighbour(port, system, port_id=port_id, **more)


def fabric(**other: SwitchNeighbours) -> dict[str, SwitchNeighbours]:
    """Every switch's rows; those named are as given."""
    return {
        "leaf1": sees(to("Ethernet0", "h1", "ens1f0"), to("Ethernet4", "spine1", "Ethernet0")),
        "leaf2": sees(to("Ethernet0", "h2", "ens1f0"), to("Ethernet4", "spine1", "Ethernet4")),
        "spine1": sees(to("Ethernet0", "leaf1", "Ethernet4"), to("Ethernet4", "leaf2", "Ethernet4")),
    } | other


def declared(*links: dict[str, Any], hosts: tuple[str, ...] = ("h1", "h2")) -> Topology:
    return topology_from_json(
        {
            "hosts": [{"name": name, "ip": f"10.0.0.{number}"} for number, name in enumerate(hosts, 1)],
            "switches": [{"name": name} for name in SWITCHES],
            "links": list(links) or [link(*ends) for ends in AS_IT_IS],
        }
    )


AS_IT_IS = (
    ("h1", "leaf1:Ethernet0"),
    ("h2", "leaf2:Ethernet0"),
    ("leaf1:Ethernet4", "spine1:Ethernet0"),
    ("leaf2:Ethernet4", "spine1:Ethernet4"),
)


def link(one: str, other: str, *, gbps: float = 100, delay_us: float = 2.5) -> dict[str, Any]:
    (a, _, a_port), (b, _, b_port) = one.partition(":"), other.partition(":")
    ports = {"a_port": a_port, "b_port": b_port}
    return {
        "a": a,
        "b": b,
        "rate_gbps": gbps,
        "delay_us": delay_us,
        **{key: port for key, port in ports.items() if port},
    }


def cables(merged: Merged) -> list[str]:
    """The links of the file, in order."""
    return [
        " <-> ".join(
            f"{node}:{port}" if port else node for node, port in ((one.a, one.a_port), (one.b, one.b_port))
        )
        for one in merged.topology.links
    ]


def told(merged: Merged, kind: str | None = None) -> list[str]:
    return [one.sentence for one in merged.differences if kind in (None, one.kind)]


def merged(
    read: dict[str, SwitchNeighbours] | None = None,
    *,
    switches: tuple[str, ...] = SWITCHES,
    delay_us: float = 1.0,
    rate_gbps: float = 100.0,
    **given: Any,
) -> Merged:
    found = fabric() if read is None else read
    return merge(switches, found, assumed=Assumed(delay_us, rate_gbps), **given)
