"""The fabric: hosts, switches, links and equal-cost paths, read from JSON or built as leaf-spine.

Every directed link end is an *egress port*; a path is the sequence of egress ports a packet queues in, the
sending host's NIC first.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from ipaddress import IPv4Address
from itertools import takewhile
from socket import AF_INET6, inet_ntop, inet_pton
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from telemetry.errors import TopologyError
from telemetry.roles import kind_of, tiers_of

if TYPE_CHECKING:
    from scipy.sparse import csr_array

GBPS = 125_000_000.0  # bytes per second in one Gbit/s

_KEYS: Mapping[str, tuple[str, ...]] = {
    "hosts": ("name", "ip"),
    "switches": ("name",),
    "links": ("a", "a_port", "b", "b_port", "rate_gbps", "delay_us"),
}
_LEAST_GBPS, _MOST_GBPS = 0.01, 6_400  # the slowest Ethernet, and four times the fastest


@dataclass(frozen=True, slots=True)
class Host:
    """An end node; ``ip`` is its address in INT reports."""

    name: str
    ip: str | None = None


@dataclass(frozen=True, slots=True)
class Link:
    """A full-duplex cable between nodes ``a`` and ``b``; only switch ends need a port name. A host's names
    its NIC.
    """

    a: str
    b: str
    rate_gbps: float
    delay_us: float
    a_port: str | None = None
    b_port: str | None = None

    @property
    def ends(self) -> tuple[tuple[str, str | None], tuple[str, str | None]]:
        """Node and port of each."""
        return (self.a, self.a_port), (self.b, self.b_port)


@dataclass(frozen=True, slots=True)
class EgressPort:
    """One direction of a link: where packets from ``node`` to ``peer`` queue. ``port`` is None on a NIC."""

    node: str
    port: str | None
    peer: str
    rate_bytes_per_s: float
    delay_s: float


@dataclass(frozen=True)
class Topology:
    """A checked fabric. Raises ``TopologyError`` for dangling ends, repeated names or ports, bad numbers."""

    hosts: tuple[Host, ...]
    switches: tuple[str, ...]
    links: tuple[Link, ...]
    _next_hops: dict[str, NDArray[np.float64]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        _check_names(self)
        _check_links(self)

    @cached_property
    def ports(self) -> tuple[EgressPort, ...]:
        """Every egress port, both directions of each link in order (a→b, then b→a)."""
        ends: list[EgressPort] = []
        for link in self.links:
            rate, delay = link.rate_gbps * GBPS, link.delay_us * 1e-6
            for node, port, peer in ((link.a, link.a_port, link.b), (link.b, link.b_port, link.a)):
                named = port if node in self.switch_names else None
                ends.append(EgressPort(node, named, peer, rate, delay))
        return tuple(ends)

    @cached_property
    def ports_of(self) -> Mapping[str, tuple[int, ...]]:
        """Indices into ``ports`` of each node's egress ports."""
        found: defaultdict[str, list[int]] = defaultdict(list)
        for index, port in enumerate(self.ports):
            found[port.node].append(index)
        return {node: tuple(indices) for node, indices in found.items()}

    @cached_property
    def port_index(self) -> Mapping[tuple[str, str], int]:
        """Index into ``ports`` by (switch, port name)."""
        return {
            (port.node, port.port): index for index, port in enumerate(self.ports) if port.port is not None
        }

    @cached_property
    def nic_bytes_per_s(self) -> Mapping[str, float]:
        """Line rate of each host; of several NICs the last one's."""
        return {port.node: port.rate_bytes_per_s for port in self.ports if port.port is None}

    @cached_property
    def port_names(self) -> Mapping[str, set[str]]:
        """The names of each switch's ports."""
        names: dict[str, set[str]] = {name: set() for name in self.switches}
        for switch, port in self.port_index:
            names[switch].add(port)
        return names

    @cached_property
    def switch_names(self) -> frozenset[str]:
        return frozenset(self.switches)

    @cached_property
    def tiers(self) -> Mapping[str, int]:
        """Links from each switch to its nearest host; without a way to a host it is left out."""
        return tiers_of(self.ports)

    @cached_property
    def roles(self) -> Mapping[str, str]:
        """Each switch's role by its distance from the nearest host: ``leaf``, ``spine``, then ``core``; one
        without a way to a host is ``other``.
        """
        return {name: kind_of(self.tiers.get(name)) for name in self.switches}

    @cached_property
    def pods(self) -> Mapping[str, str]:
        """The pod of each switch: of those that stay connected where the highest tier is taken away. That
        tier, and a fabric in which each would be alone, goes by its roles.

        A pod has the name that its switches' names begin with, up to a separator; else they are numbered.
        """
        highest = max(self.tiers.values(), default=0)
        below = {name for name, tier in self.tiers.items() if tier < highest}
        found: list[list[str]] = []
        for name in (one for one in self.switches if one in below):
            if name not in below:
                continue  # in a pod already
            below.remove(name)
            pod = [name]
            for one in pod:  # grows meanwhile
                beside = sorted(self._neighbours[one] & below)
                below.difference_update(beside)
                pod += beside
            found.append(pod)
        named = dict(self.roles)
        if all(len(pod) == 1 for pod in found):
            return named
        names = list(map(_shared_name, found))
        if "" in names or len(set(names) - set(named.values())) < len(names):
            names = [f"pod {number}" for number in range(1, len(found) + 1)]
        for name, pod in zip(names, found, strict=True):
            named |= dict.fromkeys(pod, name)
        return named

    @cached_property
    def _neighbours(self) -> Mapping[str, set[str]]:
        beside: defaultdict[str, set[str]] = defaultdict(set)
        for port in self.ports:
            beside[port.node].add(port.peer)
        return beside

    @cached_property
    def host_by_address(self) -> Mapping[str, str]:
        """Host name by IP address and by its own name."""
        named = {host.name: host.name for host in self.hosts}
        return named | {host.ip: host.name for host in self.hosts if host.ip is not None}

    @cached_property
    def _node_index(self) -> Mapping[str, int]:
        return {name: index for index, name in enumerate([*(h.name for h in self.hosts), *self.switches])}

    @cached_property
    def _graph(self) -> csr_array:
        # Imported here: a quarter of a worker process's start, and a worker looks for no path.
        from scipy.sparse import csr_array

        size = len(self._node_index)
        rows = [self._node_index[port.node] for port in self.ports]
        columns = [self._node_index[port.peer] for port in self.ports]
        return csr_array((np.ones(len(rows)), (rows, columns)), shape=(size, size))

    def _hops_to(self, node: str) -> NDArray[np.float64]:
        if node not in self._next_hops:
            from scipy.sparse.csgraph import shortest_path  # imported here: see _graph

            self._next_hops[node] = shortest_path(
                self._graph.T, method="D", unweighted=True, indices=self._node_index[node]
            )
        return self._next_hops[node]

    def next_hops(self, node: str, host: str) -> tuple[int, ...]:
        """Egress ports of ``node`` (indices into ``ports``) on a shortest path to that host; () without one.

        Hosts never forward. ``host`` is a host's name.
        """
        hops, index = self._hops_to(host), self._node_index
        left = hops[index[node]]
        if not math.isfinite(left):
            return ()
        peers = ((port, self.ports[port].peer) for port in self.ports_of.get(node, ()))
        return tuple(
            port
            for port, peer in peers
            if hops[index[peer]] == left - 1 and (peer == host or peer in self.switch_names)
        )

    def path(self, src: str, dst: str, flow_hash: int) -> tuple[int, ...]:
        """Egress ports (indices into ``ports``) from host ``src`` to host ``dst``; ECMP by ``flow_hash``.

        Hosts never forward. Raises ``TopologyError`` where a name is unknown or no path exists.
        """
        hosts = self.host_by_address
        for name in (src, dst):
            if name not in hosts:
                rule = "both ends of a flow are declared hosts"
                raise TopologyError("topology", f"flow end {name!r}", rule, "declare it")
        source, target = hosts[src], hosts[dst]
        if source == target:
            rule = "a flow crosses the fabric"
            raise TopologyError("topology", f"a flow from {source!r} to itself", rule, "drop it")
        node, path = source, []
        while node != target:
            choices = self.next_hops(node, target)
            if not choices:
                if math.isfinite(self._hops_to(target)[self._node_index[node]]):
                    received = f"no path from {source!r} to {target!r} that avoids other hosts"
                    rule, remedy = "hosts do not forward", "connect their switches"
                else:
                    received = f"no path from {source!r} to {target!r}"
                    rule, remedy = "hosts that talk must be connected", "add the missing link"
                raise TopologyError("topology", received, rule, remedy)
            # Mix the node in, so that one hash does not take the same turn at every tier (ECMP polarisation).
            pick = _mix(flow_hash, self._node_index[node]) % len(choices)
            path.append(choices[pick])
            node = self.ports[choices[pick]].peer
        return tuple(path)

    def to_json(self) -> dict[str, Any]:
        """The declared format: ``hosts``, ``switches``, ``links``."""
        keys = _KEYS["links"]
        return {
            "hosts": [{"name": host.name} | ({"ip": host.ip} if host.ip else {}) for host in self.hosts],
            "switches": [{"name": name} for name in self.switches],
            "links": [
                {key: value for key in keys if (value := getattr(link, key)) is not None}
                for link in self.links
            ],
        }


def _shared_name(names: Sequence[str]) -> str:
    """What all of these begin with, up to a separator: ``pod1`` of pod1-leaf1 and pod1-spine2; else ''."""
    begins = zip(*(re.findall(r"[^-_.:/]*[-_.:/]", name) for name in names), strict=False)
    return "".join(parts[0] for parts in takewhile(lambda parts: len(set(parts)) == 1, begins))[:-1]


_NUMBERS = re.compile(r"([0-9]{1,18})")


def natural(name: str) -> tuple[str | int, ...]:
    """Orders Ethernet2 before Ethernet10: texts and whole numbers take turns."""
    return tuple(int(part) if part.isdecimal() else part for part in _NUMBERS.split(name))


def topology_from_json(document: object, *, where: str = "topology") -> Topology:
    """Reads the declared format; raises ``TopologyError`` naming the wrong entry."""
    top = _mapping(document, where, tuple(_KEYS))
    hosts = tuple(
        Host(str(_text(entry, "name", at)), _address(_text(entry, "ip", at, optional=True)))
        for at, entry in _entries(top, "hosts", where)
    )
    switches = tuple(str(_text(entry, "name", at)) for at, entry in _entries(top, "switches", where))
    links = tuple(
        Link(
            str(_text(entry, "a", at)),
            str(_text(entry, "b", at)),
            _rate_gbps(entry, at),
            _number(entry, "delay_us", at),
            _text(entry, "a_port", at, optional=True),
            _text(entry, "b_port", at, optional=True),
        )
        for at, entry in _entries(top, "links", where)
    )
    if not links:
        rule = "a fabric has links: every report of another port is rejected"
        raise TopologyError(f"{where} links", "an empty array", rule, "declare the links")
    return Topology(hosts, switches, links)


def _address(text: str | None) -> str | None:
    return None if text is None else plain_address(text)


def plain_address(text: str) -> str:
    """An IPv6 address in one of its many spellings, that of binary reports, or the IPv4 address that it
    stands for, as in a GID; anything else as it is.
    """
    try:
        plain = inet_ntop(AF_INET6, inet_pton(AF_INET6, text)) if ":" in text else text
    except (OSError, ValueError):
        return text
    return plain.removeprefix("::ffff:") if "." in plain else plain


def _mix(value: int, salt: int) -> int:
    # splitmix64's finaliser: every input bit affects the low bits that the modulo keeps.
    x = (value + (salt + 1) * 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
    return x ^ (x >> 31)


def _check_names(topology: Topology) -> None:
    seen: dict[str, str] = {}
    named = [("host", host.name) for host in topology.hosts] + [
        ("switch", name) for name in topology.switches
    ]
    for kind, name in named:
        if name in seen:
            received = f"{kind} {name!r} twice (first as {seen[name]})"
            raise TopologyError("topology", received, "node names are unique", "rename one")
        seen[name] = kind
    addresses = {host.name: host.name for host in topology.hosts}  # flows name hosts by either
    for host in topology.hosts:
        if host.ip in (None, host.name):
            continue
        if host.ip in addresses:
            received = f"address {host.ip} on {host.name!r} and {addresses[host.ip]!r}"
            raise TopologyError("topology", received, "an address belongs to one host", "correct one of them")
        addresses[host.ip] = host.name


def _check_links(topology: Topology) -> None:
    switches = set(topology.switches)
    nodes = switches | {host.name for host in topology.hosts}
    used: dict[tuple[str, str], int] = {}
    for number, link in enumerate(topology.links):
        at = f"topology links[{number}]"
        for end, port in link.ends:
            if end not in nodes:
                rule = "both ends of a link are declared hosts or switches"
                raise TopologyError(at, f"end {end!r}", rule, "declare this node")
            if end in switches and port is None:
                rule = "a switch end names its port"
                raise TopologyError(at, f"no port on switch {end!r}", rule, "add a_port or b_port")
            if port is not None:
                if (end, port) in used:
                    received = f"port {port!r} of {end!r}, already in links[{used[end, port]}]"
                    raise TopologyError(at, received, "a port holds one cable", "correct one of the two")
                used[end, port] = number
        if link.a == link.b:
            raise TopologyError(at, f"both ends on {link.a!r}", "a link joins two nodes", "correct one end")
        if not (math.isfinite(link.rate_gbps) and link.rate_gbps > 0):
            raise TopologyError(at, f"rate_gbps {link.rate_gbps}", "a rate is above 0", "give it in Gbit/s")
        if not (math.isfinite(link.delay_us) and link.delay_us >= 0):
            raise TopologyError(at, f"delay_us {link.delay_us}", "a delay is 0 or more", "give it in µs")


def _mapping(value: object, where: str, known: Sequence[str]) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        received = type(value).__name__
        raise TopologyError(where, received, "it must be a JSON object", "see the topology format")
    for key in value:
        if key not in known:
            near = get_close_matches(str(key), known, n=1)
            remedy = f"did you mean {near[0]}?" if near else "remove it"
            raise TopologyError(where, f"key {key!r}", f"keys are {', '.join(known)}", remedy)
    return value


def _value(entry: Mapping[str, Any], key: str, at: str) -> Any:
    if key not in entry:
        raise TopologyError(f"{at} {key}", None, "this key is missing", "add it")
    return entry[key]


def _shown(value: object) -> str:
    return "null" if value is None else repr(value)


def _entries(top: Mapping[str, Any], key: str, where: str) -> list[tuple[str, Mapping[str, Any]]]:
    values = _value(top, key, where)
    if not isinstance(values, Sequence) or isinstance(values, str | bytes):
        received = "null" if values is None else type(values).__name__
        raise TopologyError(f"{where} {key}", received, "it must be an array of objects", "give the array")
    return [
        (f"{where} {key}[{number}]", _mapping(v, f"{where} {key}[{number}]", _KEYS[key]))
        for number, v in enumerate(values)
    ]


def _text(entry: Mapping[str, Any], key: str, at: str, *, optional: bool = False) -> str | None:
    if optional and entry.get(key) is None:
        return None
    value = _value(entry, key, at)
    if not isinstance(value, str) or not value:
        raise TopologyError(f"{at} {key}", _shown(value), "it must be a non-empty string", "give the name")
    if not value.isprintable():  # also lone surrogates, which JSON allows and UTF-8 cannot encode
        rule = "it has printable characters only"
        raise TopologyError(f"{at} {key}", ascii(value), rule, "change the name")
    return value


def _number(entry: Mapping[str, Any], key: str, at: str) -> float:
    value = _value(entry, key, at)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TopologyError(f"{at} {key}", _shown(value), "it must be a number", "give the number")
    try:
        return float(value)
    except OverflowError:  # JSON allows integers of any length
        return math.inf


def _rate_gbps(entry: Mapping[str, Any], at: str) -> float:
    rate = _number(entry, "rate_gbps", at)
    if not _LEAST_GBPS <= rate <= _MOST_GBPS:
        rule = f"rates of links are {_LEAST_GBPS:g} to {_MOST_GBPS:,} Gbit/s".replace(",", " ")
        raise TopologyError(at, f"rate_gbps {rate:g}", rule, "give it in Gbit/s, not in Mbit/s or bit/s")
    return rate


_MOST_HOSTS = 2**24 - 2  # 10.0.0.1 to 10.255.255.254


def leaf_spine(
    n_leaves: int,
    n_spines: int,
    hosts_per_leaf: int,
    *,
    rate_gbps: float = 100,
    uplink_gbps: float | None = None,
    delay_us: float = 1.0,
) -> Topology:
    """Hosts ``h0`` … on switches ``leaf1`` …, each leaf on every ``spine1`` …; addresses from 10.0.0.1.

    A leaf's ports ``Ethernet0`` … lead to its hosts, the next ones to the spines in order; a spine's
    ``EthernetN`` leads to ``leaf{N + 1}``. Host links run at ``rate_gbps``, uplinks at ``uplink_gbps`` (None:
    the same), all with ``delay_us``. A single leaf may have 0 spines. Raises ``TopologyError`` for counts and
    numbers out of range.
    """
    _check_count("n_leaves", n_leaves, least=1)
    _check_count("n_spines", n_spines, least=0 if n_leaves == 1 else 1)
    _check_count("hosts_per_leaf", hosts_per_leaf, least=1)
    if not 2 <= n_leaves * hosts_per_leaf <= _MOST_HOSTS:
        received = f"{n_leaves} × {hosts_per_leaf}"
        rule = f"a fabric has 2 to {_MOST_HOSTS} hosts (10.0.0.0/8)"
        raise TopologyError("leaf-spine hosts", received, rule, "change n_leaves or hosts_per_leaf")
    uplink = rate_gbps if uplink_gbps is None else uplink_gbps
    _check_number("rate_gbps", rate_gbps, positive=True)
    _check_number("uplink_gbps", uplink, positive=True)
    _check_number("delay_us", delay_us, positive=False)
    first = IPv4Address("10.0.0.1")
    hosts = tuple(Host(f"h{n}", str(first + n)) for n in range(n_leaves * hosts_per_leaf))
    leaves = tuple(f"leaf{n + 1}" for n in range(n_leaves))
    spines = tuple(f"spine{n + 1}" for n in range(n_spines))
    down = [
        Link(host.name, leaves[n // hosts_per_leaf], float(rate_gbps), float(delay_us), b_port=port)
        for n, host in enumerate(hosts)
        for port in [f"Ethernet{n % hosts_per_leaf}"]
    ]
    up = [
        Link(
            leaf,
            spine,
            float(uplink),
            float(delay_us),
            a_port=f"Ethernet{hosts_per_leaf + to_spine}",
            b_port=f"Ethernet{to_leaf}",
        )
        for to_leaf, leaf in enumerate(leaves)
        for to_spine, spine in enumerate(spines)
    ]
    return Topology(hosts, leaves + spines, (*down, *up))


def _check_count(name: str, value: int, *, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TopologyError(f"leaf-spine {name}", repr(value), "it is a whole number", "round it")
    if value < least:
        rule = f"it must be at least {least}"
        raise TopologyError(f"leaf-spine {name}", str(value), rule, f"give {least} or more")


def _check_number(name: str, value: float, *, positive: bool) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TopologyError(f"leaf-spine {name}", repr(value), "it must be a number", "give a number")
    if not math.isfinite(value) or value < 0 or (positive and value == 0):
        rule = "a rate is finite and above 0" if positive else "a delay is finite and 0 or more"
        raise TopologyError(f"leaf-spine {name}", str(value), rule, "correct it")
