"""Discovers a topology from the hops of reports, where none is declared.

A million flows show the same links over and over, so ``journeys`` keeps only the first journey that shows
each address, port, host attachment or link, in the order in which ``discover`` reads them. The topology found
is the same as from all.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from telemetry.columns import offsets, ranks
from telemetry.report import FlowKeys, HopSite
from telemetry.topology import GBPS, Host, Link, Topology
from telemetry.window.samples import Samples
from telemetry.window.tables import Path, Paths

STANDARD_RATES_GBPS = (1, 10, 25, 40, 50, 100, 200, 400, 800, 1600)

LEAST_ALIKE = 3  # measured links of one rate tell that of others like them

Port = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Journey:
    """Packets from one address to another along one path."""

    src: str
    dst: str
    path: Path


@dataclass(slots=True)
class _Sightings:
    """What hops show: links between known ports, half-known links, and the addresses behind ports."""

    switches: dict[str, None] = field(default_factory=dict)
    addresses: dict[str, None] = field(default_factory=dict)
    cables: dict[tuple[Port, Port], None] = field(default_factory=dict)
    half_cables: dict[tuple[Port, str], None] = field(default_factory=dict)
    behind: dict[tuple[Port, str], None] = field(default_factory=dict)
    behind_switch: dict[tuple[str, str], None] = field(default_factory=dict)
    ports: set[Port] = field(default_factory=set)


def discover(
    journeys: Iterable[Journey],
    *,
    rates_bytes_per_s: Mapping[Port, float],
    bounds_bytes_per_s: Mapping[Port, tuple[float, float]] = MappingProxyType({}),
    default_rate_gbps: float,
    default_delay_us: float,
) -> Topology:
    """The smallest fabric that explains the observed paths; ``Topology.path`` can route on it.

    The source is behind the first hop's ingress port, the destination behind the last hop's egress port, and
    consecutive hops share a link. Hosts are named by their addresses. Where several ends meet at one port, a
    device that sends no reports must be between them: it becomes a switch (``behind SWITCH PORT``). Where a
    device does not name a port, the link gets an invented port name (``to NODE``).

    ``rates_bytes_per_s`` are measured rates of ports; a link takes the larger of its ends', rounded to a
    standard rate. One without takes the rate of most measured links of its kind, to hosts or between
    switches: of its own switches, or else of all, ``LEAST_ALIKE`` at least; else the default. So does one
    for which that rate lies within ``bounds_bytes_per_s``, the least and the most of its ports (without them
    a rate is sure). The order of ``journeys`` does not matter. Never raises ``TopologyError``.
    """
    seen = _sighted(sorted(set(journeys), key=lambda j: (j.src, j.dst, tuple(map(sortable, j.path)))))
    names = _host_names(seen)
    taken = {*seen.switches, *names.values()}
    links: list[tuple[str, str | None, str, str | None]] = []
    switches = dict(seen.switches)
    _join_half_cables(seen)
    unnamed: defaultdict[str, set[str]] = defaultdict(set)  # where an address is behind no port yet
    for switch, address in seen.behind_switch:
        unnamed[address].add(switch)
    for number, (ports, addresses) in enumerate(_segments(seen)):
        ends: list[tuple[str, str | None]] = [*ports, *((names[address], None) for address in addresses)]
        # One group may hold most ports and most addresses: no pair of the two is made.
        near = {switch for switch, _ in ports}
        for address in unnamed.keys() & addresses:
            unnamed[address] -= near & unnamed[address]
        if len(ends) == 1:
            continue  # a port with nothing seen behind it
        if len(ends) == 2 and ends[0][0] != ends[1][0]:
            links.append((*ends[0], *ends[1]))
            continue
        hub = _free_name(f"behind {ports[0][0]} {ports[0][1]}", taken, number)
        switches[hub] = None
        taken.add(hub)
        links.extend((*end, hub, f"to {place}") for place, end in enumerate(ends))
    for switch, address in seen.behind_switch:
        if switch in unnamed[address]:
            links.append((names[address], None, *_invented_port(seen, switch, f"to {names[address]}")))
    rates = _link_rates_gbps(
        links, set(names.values()), rates_bytes_per_s, bounds_bytes_per_s, default_rate_gbps
    )
    return Topology(
        tuple(Host(names[address], address) for address in seen.addresses),
        tuple(switches),
        tuple(
            Link(a, b, rate_gbps, default_delay_us, a_port, b_port)
            for (a, a_port, b, b_port), rate_gbps in zip(links, rates, strict=True)
        ),
    )


def _link_rates_gbps(
    links: Sequence[tuple[str, str | None, str, str | None]],
    hosts: Set[str],
    rates_bytes_per_s: Mapping[Port, float],
    bounds_bytes_per_s: Mapping[Port, tuple[float, float]],
    default_gbps: float,
) -> list[float]:
    """The rate of each link; ``discover`` says how one is chosen that no packet shows, or not surely."""
    of_port = {
        port: [_standard_gbps(one) for one in (rate, *bounds_bytes_per_s.get(port, (rate, rate)))]
        for port, rate in rates_bytes_per_s.items()
    }
    # Of each link its rate, the least and the most; nothing where no end is measured.
    measured = [
        [max(ends) for ends in zip(*(of_port[end] for end in both if end in of_port), strict=True)]
        for both in (((a, a_port or ""), (b, b_port or "")) for a, a_port, b, b_port in links)
    ]
    kinds = [(a in hosts or b in hosts, frozenset({a, b} - hosts)) for a, _, b, _ in links]
    # By whether a link leads to a host, and a switch, "" for all of them.
    usual: defaultdict[tuple[bool, str], Counter[float]] = defaultdict(Counter)
    for (to_host, switches), shown in zip(kinds, measured, strict=True):
        if shown:
            for switch in ("", *switches):
                usual[to_host, switch][shown[0]] += 1

    @cache
    def likely(to_host: bool, switches: frozenset[str]) -> float | None:
        near = sum((usual[to_host, switch] for switch in switches), Counter[float]())
        for found in (near, usual[to_host, ""]):
            rate, count = max(found.items(), key=lambda one: (one[1], one[0]), default=(0.0, 0))
            if count >= LEAST_ALIKE and 2 * count > found.total():
                return rate
        return None

    def chosen(shown: Sequence[float], alike: float | None) -> float:
        rate, least, most = shown or (default_gbps, 0.0, math.inf)
        return rate if alike is None or not least <= alike <= most else alike

    return [chosen(shown, likely(*kind)) for kind, shown in zip(kinds, measured, strict=True)]


def sortable(site: HopSite) -> tuple[str, str, str]:
    """Sort key of a site."""
    return site.switch or "", site.ingress_port or "", site.egress_port or ""


def _sighted(journeys: list[Journey]) -> _Sightings:
    seen = _Sightings()
    for journey in journeys:
        known = [site for site in journey.path if site.switch is not None]
        for site in known:
            seen.switches[str(site.switch)] = None
            seen.ports.update((str(site.switch), p) for p in (site.ingress_port, site.egress_port) if p)
        if journey.src != journey.dst:  # else the report shows no packet, and has no addresses
            for address in (journey.src, journey.dst):
                seen.addresses[address] = None
        for site, after in pairwise(known):
            here, there = str(site.switch), str(after.switch)
            if here == there:
                continue
            if site.egress_port is not None and after.ingress_port is not None:
                one, other = sorted([(here, site.egress_port), (there, after.ingress_port)])
                seen.cables[one, other] = None
            elif site.egress_port is not None:
                seen.half_cables[(here, site.egress_port), there] = None
            elif after.ingress_port is not None:
                seen.half_cables[(there, after.ingress_port), here] = None
        if known and journey.src != journey.dst:
            _behind(seen, str(known[0].switch), known[0].ingress_port, journey.src)
            _behind(seen, str(known[-1].switch), known[-1].egress_port, journey.dst)
    return seen


def _behind(seen: _Sightings, switch: str, port: str | None, address: str) -> None:
    if port is None:
        seen.behind_switch[switch, address] = None
    else:
        seen.behind[(switch, port), address] = None


def _host_names(seen: _Sightings) -> dict[str, str]:
    """A name per address: itself, unless a switch has that name."""
    taken = {*seen.addresses, *seen.switches}
    return {
        address: _free_name(f"host {address}", taken, 0) if address in seen.switches else address
        for address in seen.addresses
    }


def _invented_port(seen: _Sightings, switch: str, wish: str) -> Port:
    port = (switch, wish)
    while port in seen.ports:
        port = (switch, port[1] + "'")
    seen.ports.add(port)
    return port


def _free_name(wish: str, taken: Set[str], number: int) -> str:
    name = wish
    while name in taken:
        number += 1
        name = f"{wish} ({number})"
    return name


def _join_half_cables(seen: _Sightings) -> None:
    """Joins links known at one end: two halves between the same two switches are taken for one link."""
    known = {port for cable in seen.cables for port in cable}
    loose: defaultdict[tuple[str, str], list[Port]] = defaultdict(list)
    for port, there in seen.half_cables:
        if port not in known:
            loose[port[0], there].append(port)
    for (here, there), ports in loose.items():
        back = loose.get((there, here), [])
        for place, port in enumerate(ports):
            other = back[place] if place < len(back) else _invented_port(seen, there, f"to {here} {port[1]}")
            one, two = sorted([port, other])
            seen.cables[one, two] = None


def _segments(seen: _Sightings) -> list[tuple[list[Port], list[str]]]:
    """Groups of switch ports that share a link (or an unseen device), and the addresses behind each group."""
    parent: dict[Port, Port] = {}

    def root(port: Port) -> Port:
        parent.setdefault(port, port)
        while parent[port] != port:
            parent[port] = parent[parent[port]]
            port = parent[port]
        return port

    for one, other in seen.cables:
        parent[root(one)] = root(other)
    ports: defaultdict[Port, list[Port]] = defaultdict(list)
    addresses: defaultdict[Port, dict[str, None]] = defaultdict(dict)
    for port, _ in seen.behind:
        root(port)
    for port in sorted(parent):
        ports[root(port)].append(port)
    for port, address in seen.behind:
        addresses[root(port)][address] = None
    # A report that lost its last hops seems to put its receiver on a link between switches; a port of its own
    # elsewhere is the true place.
    direct = {address for top in ports if len(ports[top]) == 1 for address in addresses[top]}
    return [
        (members, [address for address in addresses[top] if len(members) == 1 or address not in direct])
        for top, members in ports.items()
    ]


def _standard_gbps(rate_bytes_per_s: float) -> float:
    rate = rate_bytes_per_s / GBPS
    return min(STANDARD_RATES_GBPS, key=lambda standard: abs(standard / rate - rate / standard))


_NEVER = np.iinfo(np.int64).max


def journeys(
    samples: Samples, flow_keys: FlowKeys, paths: Paths, row_path: NDArray[np.int64]
) -> list[Journey]:
    """Journeys of samples whose paths are ``paths[row_path]``: enough to discover the same topology."""
    own = np.flatnonzero(samples.flow >= 0)
    if len(own) == 0:
        return []
    flow = samples.flow[own]
    n_hosts = len(flow_keys.hosts)
    ends, end = np.unique(
        flow_keys.src[flow].astype(np.int64) * n_hosts + flow_keys.dst[flow], return_inverse=True
    )
    pair, path = np.divmod(np.unique(end * len(paths) + row_path[own]), len(paths))
    src, dst = np.divmod(ends[pair], n_hosts)
    host_rank = _ranks(flow_keys.hosts)
    order = np.lexsort((_path_ranks(paths)[path], host_rank[dst], host_rank[src]))
    src, dst, path = src[order], dst[order], path[order]
    chosen = _first_to_show(src, dst, path, paths)
    hosts = flow_keys.hosts
    return [
        Journey(hosts[s], hosts[d], paths[p])
        for s, d, p in zip(src[chosen].tolist(), dst[chosen].tolist(), path[chosen].tolist(), strict=True)
    ]


def _ranks(names: Sequence[object]) -> NDArray[np.int64]:
    """The rank of each in sorted order."""
    return ranks(np.array(sorted(range(len(names)), key=names.__getitem__), np.int64))  # type: ignore[arg-type]


def _path_ranks(paths: Paths) -> NDArray[np.int64]:
    """The rank of each path in the order of its sites' names."""
    used, site = np.unique(paths.number, return_inverse=True)
    rank = _ranks([sortable(paths.things[number]) for number in used.tolist()])[site]
    columns = []
    for hop in range(int(paths.counts.max())):
        column = np.full(len(paths), -1, np.int64)  # a shorter path sorts before a longer one
        has = np.flatnonzero(paths.counts > hop)
        column[has] = rank[paths.offset[has] + hop]
        columns.append(column)
    return ranks(np.lexsort(columns[::-1]))


def _first_to_show(
    src: NDArray[np.int64], dst: NDArray[np.int64], path: NDArray[np.int64], paths: Paths
) -> NDArray[np.int64]:
    """The indices of sorted journeys that show something for the first time."""
    hops = _KnownHops(paths)
    first = np.full(len(paths), _NEVER)
    np.minimum.at(first, path, np.arange(len(path)))
    hop_first = first[hops.path]
    follows = hops.path[1:] == hops.path[:-1]
    cable = hops.out_port[:-1] * hops.n_ports + hops.in_port[1:]
    has_addresses = src != dst
    addressed = np.flatnonzero(has_addresses)
    attached = np.flatnonzero(has_addresses & (hops.count[path] > 0))
    begin, end = hops.offset[path[attached]], hops.offset[path[attached] + 1] - 1
    shown = [
        _firsts(src[addressed], addressed),
        _firsts(dst[addressed], addressed),
        _firsts(src[attached] * hops.n_ports + hops.in_port[begin], attached),
        _firsts(dst[attached] * hops.n_ports + hops.out_port[end], attached),
        _firsts(hops.in_port, hop_first),
        _firsts(hops.out_port, hop_first),
        _firsts(cable[follows], hop_first[1:][follows]),
    ]
    found: NDArray[np.int64] = np.unique(np.concatenate(shown))
    return found[np.flatnonzero(found != _NEVER)]


def _firsts(shown: NDArray[np.int64], when: NDArray[np.int64]) -> NDArray[np.int64]:
    """The smallest ``when`` of each distinct value in ``shown``."""
    order = np.argsort(when, kind="stable")
    _, first = np.unique(shown[order], return_index=True)
    return when[order[first]]


class _KnownHops:
    """Hops with a known switch: their path, and numbers of their (switch, port), where port may be None."""

    def __init__(self, paths: Paths) -> None:
        used, site = np.unique(paths.number, return_inverse=True)
        sites = [paths.things[number] for number in used.tolist()]
        ports: dict[tuple[str | None, str | None], int] = {}
        ingress, egress = (
            np.array([ports.setdefault((one.switch, port), len(ports)) for one, port in side], np.int64)
            for side in (
                [(one, one.ingress_port) for one in sites],
                [(one, one.egress_port) for one in sites],
            )
        )
        known = np.array([one.switch is not None for one in sites], np.bool_)[site]
        self.n_ports = len(ports)
        self.path = np.repeat(np.arange(len(paths)), paths.counts)[known]
        self.in_port, self.out_port = ingress[site][known], egress[site][known]
        self.offset = offsets(known)[paths.offset]
        self.count = np.diff(self.offset)
