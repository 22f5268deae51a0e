"""All that a check knows of a fabric: readings of switches and NICs, the topology, and templates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from lossless.templates import Template
from nics.base import Reading as NicsReading
from switches.lossless.reading import LosslessPort, LosslessReading
from telemetry.roles import port_roles
from telemetry.topology import Link, Topology


class End(NamedTuple):
    """A port of a switch that was read; ``port`` None: the switch was, and this port of it was not."""

    switch: str
    name: str
    port: LosslessPort | None

    def __str__(self) -> str:
        return f"{self.switch} {self.name}"


@dataclass(frozen=True, kw_only=True)
class Fabric:
    """``switches`` and ``hosts`` are those that were read; ``classes`` has the NIC class of each host,
    ``templates`` and ``host_templates`` the template of each switch and host that has one.
    """

    switches: Mapping[str, LosslessReading]
    topology: Topology | None = None
    hosts: Mapping[str, NicsReading] = field(default_factory=dict)
    classes: Mapping[str, str] = field(default_factory=dict)
    templates: Mapping[str, Template] = field(default_factory=dict)
    host_templates: Mapping[str, Template] = field(default_factory=dict)

    @cached_property
    def ports(self) -> Mapping[tuple[str, str], LosslessPort]:
        """By switch and name."""
        return {(name, port.port): port for name, reading in self.switches.items() for port in reading.ports}

    @cached_property
    def roles(self) -> Mapping[tuple[str, str], str]:
        """The role of each port, by switch and name (``telemetry.roles``); empty without a topology."""
        every = () if self.topology is None else self.topology.ports
        named = zip(every, port_roles(every), strict=True)
        return {
            (port.node, port.port): role for port, role in named if port.port is not None and role is not None
        }

    def cables(self) -> Iterator[tuple[End, End]]:
        """Both ends of the links between switches that were read."""
        for link in () if self.topology is None else self.topology.links:
            ends = [self._end(name, port) for name, port in _ends(link)]
            if ends[0] is not None and ends[1] is not None:
                yield ends[0], ends[1]

    def ports_of_host(self, host: str, nic: str) -> list[LosslessPort]:
        """The switch ports at that NIC of a host: where links do not name it, at any; without a link, all."""
        found: list[tuple[str | None, LosslessPort]] = []
        for link in () if self.topology is None else self.topology.links:
            (a, a_port), (b, b_port) = _ends(link)
            for own, own_port, far, far_port in ((a, a_port, b, b_port), (b, b_port, a, a_port)):
                port = self.ports.get((far, far_port or ""))
                if own == host and port is not None:
                    found.append((own_port, port))
        if not found:
            return list(self.ports.values())
        own_links = [port for name, port in found if name == nic]
        return own_links or [port for _, port in found]

    def _end(self, switch: str, name: str | None) -> End | None:
        if switch not in self.switches or name is None:
            return None
        return End(switch, name, self.ports.get((switch, name)))


def _ends(link: Link) -> tuple[tuple[str, str | None], tuple[str, str | None]]:
    return (link.a, link.a_port), (link.b, link.b_port)
