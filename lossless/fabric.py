"""All that a check knows of a fabric: readings of switches and NICs, the topology, and templates."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from nics.base import Reading as NicsReading
from nics.parameters import Values
from switches.lossless import LosslessPort, LosslessReading
from telemetry.roles import port_roles
from telemetry.topology import Topology
from twin.watermark import Watermark


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """What an operator wrote down of switches and NICs; what is None or missing is not said.

    ``pfc`` are all priorities on which PFC is on, and the rest is of each of these: the ``watermark`` of its
    queue, of ports of some roles that ``by_role``; the fixed threshold ``xoff_bytes`` or the ``alpha`` of a
    dynamic one; ``headroom_bytes``. ``dcqcn`` are parameters of a NIC under the driver's names.
    """

    name: str
    pfc: frozenset[int] | None = None
    watermark: Watermark | None = None
    by_role: Mapping[str, Watermark] = field(default_factory=dict)
    xoff_bytes: int | None = None
    alpha: float | None = None
    headroom_bytes: int | None = None
    dcqcn: Values = field(default_factory=dict)


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
            ends = [self._end(name, port) for name, port in link.ends]
            if ends[0] is not None and ends[1] is not None:
                yield ends[0], ends[1]

    def lossless_at(self, host: str, nic: str) -> frozenset[int] | None:
        """The priorities with PFC at the switch ports of that NIC: where links do not name it, of any of its
        host's, and without a link of all switches. None where its switch was not read.
        """
        at_host = self._at_host.get(host)
        if at_host is None:
            return self._lossless
        ports = at_host.get(nic, [port for ports in at_host.values() for port in ports])
        return _pfc_of(ports) if ports else None

    @cached_property
    def _lossless(self) -> frozenset[int]:
        return _pfc_of(self.ports.values())

    @cached_property
    def _at_host(self) -> Mapping[str, Mapping[str, list[LosslessPort]]]:
        """The ports that are cabled to each node, by its own port or NIC (empty: the link names none); none
        of a switch that was not read.
        """
        found: defaultdict[str, defaultdict[str, list[LosslessPort]]] = defaultdict(lambda: defaultdict(list))
        for link in () if self.topology is None else self.topology.links:
            for (node, own), far in (link.ends, link.ends[::-1]):
                port = self.ports.get((far[0], far[1] or ""))
                if port is not None:
                    found[node][own or ""].append(port)
                elif far[0] not in self.switches:
                    found[node].setdefault(own or "", [])
        return found

    def _end(self, switch: str, name: str | None) -> End | None:
        if switch not in self.switches or name is None:
            return None
        return End(switch, name, self.ports.get((switch, name)))


def _pfc_of(ports: Iterable[LosslessPort]) -> frozenset[int]:
    return frozenset[int]().union(*(port.pfc for port in ports))
