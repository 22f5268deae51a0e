"""One topology of what LLDP shows, what is declared and what INT showed, and where these differ.

LLDP is right about cables: it is what runs on them. A declaration has what LLDP lacks: delays, addresses, and
links of hosts that do not speak it. INT knows addresses, and links that neither has.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from telemetry.neighbours.cables import Around, Cable, Difference, End, Kind, bare, join, nodes_of, rates_at
from telemetry.neighbours.names import Known, Names
from telemetry.topology import Host, Link, Topology, natural


@dataclass(frozen=True, slots=True)
class Assumed:
    """What links have of which nobody gave the delay or the rate."""

    delay_us: float = 1.0
    rate_gbps: float = 100.0


@dataclass(frozen=True, slots=True)
class Merged:
    """``default_delays`` and ``default_rates`` count the links whose delay or rate nobody gave."""

    topology: Topology
    differences: tuple[Difference, ...]
    default_delays: int
    default_rates: int


def merge(
    switches: Sequence[str],
    read: Known,
    *,
    declared: Topology | None = None,
    discovered: Topology | None = None,
    assumed: Assumed = Assumed(),
) -> Merged:
    """``switches`` are the inventory's, ``read`` what those that answered see. Never raises for what these
    hold: what cannot be joined is left out and told.
    """
    merging = _Merging(switches, read, declared)
    merging.lldp()
    merging.kept()
    if discovered is not None:
        merging.int_(discovered)
    return merging.merged(assumed)


@dataclass(frozen=True, slots=True)
class _Known:
    """A link of the file to be: rate and delay None where nobody gave them."""

    cable: Cable
    rate_gbps: float | None = None
    delay_us: float | None = None


class _Merging:
    def __init__(self, switches: Sequence[str], read: Known, declared: Topology | None) -> None:
        self._read = read
        self._differences: list[Difference] = []
        self._names, self._inventory = Names(), Names()
        for name in switches:
            self._names.add(name, *(read[name].names if name in read else ()))
            self._inventory.add(name)
        self._is_declared = declared is not None
        self._renamed: dict[str, str] = {}
        own = self._declared_names(declared) if declared is not None else []
        self._switches = tuple(dict.fromkeys([*own, *switches]))
        self._is_switch = frozenset(self._switches)
        self._hosts = (
            {host.name: host for host in declared.hosts if host.name in self._renamed} if declared else {}
        )
        self._declared = {known.cable: known for known in self._links(declared)} if declared else {}
        self._declared_at = self._by_port(self._declared)
        self._links_of_file: dict[Cable, _Known] = {}
        self._dropped: dict[Cable, Cable] = {}

    def lldp(self) -> None:
        """Takes the cables that LLDP shows, and compares them with the declared ones."""
        ports: defaultdict[str, list[str]] = defaultdict(list)
        for end in self._declared_at:
            ports[end.node].append(end.port)
        around = Around(
            self._switches,
            self._names,
            ports,
            tuple(self._hosts),
            self._host_by_address(),
            frozenset(bare(cable, self._is_switch) for cable in self._declared),
        )
        joined = self._joined = join(self._read, around)
        self._differences += joined.differences
        for cable in joined.cables:
            said = self._said(cable)
            known = _Known(cable, self._rate(cable))
            if said is not None:
                self._compare_rates(said, known)
                cable = self._with_declared_nic(cable, said.cable)
                known = _Known(cable, known.rate_gbps or said.rate_gbps, said.delay_us)
            elif self._is_declared:
                self._not_as_declared(cable)
            self._links_of_file[cable] = known
        for name in joined.hosts:
            self._hosts.setdefault(name, Host(name))

    def kept(self) -> None:
        """Keeps declared links that no cable contradicts, and tells which LLDP should have shown."""
        used = self._by_port(self._links_of_file)
        silent = frozenset(self._hosts) - set(self._joined.hosts)
        unseen_hosts: list[Cable] = []
        for cable, known in self._declared.items():
            ends = self._ports(cable)
            if cable in self._dropped or any(end in used for end in ends):
                continue
            self._links_of_file[cable] = known
            if any(end in self._joined.unclear for end in ends):
                continue
            if not any(end.node in self._read and self._read[end.node].neighbours for end in ends):
                continue
            if any(end.node in silent for end in cable.ends):
                unseen_hosts.append(cable)
            else:
                self._tell("unseen", [cable], f"{cable} is declared, and LLDP does not see it; it is kept")
        if unseen_hosts:
            first, more = unseen_hosts[0], len(unseen_hosts) - 1
            others = f" and {more} more such links are" if more else " is"
            self._tell(
                "quiet",
                unseen_hosts,
                f"{first}{others} declared, and no switch sees LLDP of their hosts; they are kept"
                if more
                else f"{first} is declared, and no switch sees LLDP of its host; it is kept",
            )

    def int_(self, discovered: Topology) -> None:
        """Takes addresses, rates that nobody gave, and links that nobody else shows."""
        used = self._by_port(self._links_of_file)
        # Flows name hosts by either, so no host may have the address that is another's name.
        self._host_called = {name: name for name in self._hosts} | self._host_by_address()
        addresses: defaultdict[str, dict[str, None]] = defaultdict(dict)
        of_host = {host.name: host.ip for host in discovered.hosts}
        for link in discovered.links:
            ends = [self._int_end(name, port, of_host) for name, port in link.ends]
            switch_ends = [end for end in ends if end is not None and end.node in self._is_switch]
            if not switch_ends or None in ends:
                continue
            cable = Cable.of(*(end for end in ends if end is not None))
            if cable.a.node == cable.b.node:
                continue
            host = next((name for name, _ in link.ends if name in of_host), None)
            there = next((used[end] for end in switch_ends if end in used), None)
            if there is None:
                cable = self._int_link(cable, link, host, None if host is None else of_host[host])
                used |= dict.fromkeys(self._ports(cable), cable)
                continue
            known = self._links_of_file[there]
            if known.rate_gbps is None:
                self._links_of_file[there] = replace(known, rate_gbps=link.rate_gbps)
            if len(switch_ends) == 1:
                beyond = there.beyond(switch_ends[0])
                address = None if host is None else of_host[host]
                if beyond.node in self._hosts and address is not None:
                    addresses[beyond.node][address] = None
            elif there != cable:
                self._tell("int", [cable, there], f"INT shows {cable}; the file has {there}")
        self._address(addresses)

    def merged(self, assumed: Assumed) -> Merged:
        links = sorted(self._with_own_nics(), key=lambda known: [*map(_natural, known.cable.ends)])
        lost = set(nodes_of(*self._dropped)) - set(nodes_of(*self._links_of_file))
        left_out = [name for name in self._hosts if name in lost]
        for name in left_out:
            self._tell("moved", [], f"{name} has no link any more; it is left out", (name,))
        topology = Topology(
            tuple(host for name, host in self._hosts.items() if name not in left_out),
            self._switches,
            tuple(_link(known, assumed) for known in links),
        )
        return Merged(
            topology,
            tuple(self._differences),
            sum(known.delay_us is None for known in links),
            sum(not known.rate_gbps for known in links),
        )

    def _with_own_nics(self) -> Iterable[_Known]:
        """The links, in which no NIC is named twice."""
        used: set[End] = set()
        for cable, known in self._links_of_file.items():
            ends = [
                End(end.node) if end in used and end.node not in self._is_switch else end
                for end in cable.ends
            ]
            used.update(end for end in ends if end.port)
            yield replace(known, cable=Cable.of(*ends))

    def _declared_names(self, declared: Topology) -> list[str]:
        """The declared switches under their names of the inventory; fills ``_renamed``."""
        ways: tuple[Callable[[str], Sequence[str]], ...] = (
            lambda name: (name,) if name in self._names.exact(name) else (),
            self._names.exact,
            self._inventory.find,
        )
        for fitting in ways:
            for name in declared.switches:
                fits = fitting(name)
                if name in self._renamed or len(fits) != 1 or fits[0] in self._renamed.values():
                    continue
                self._renamed[name] = fits[0]
                if name != fits[0]:
                    said = f"{name} is declared, and {fits[0]} in the inventory: taken for one"
                    self._tell("name", [], said, fits)
        for name in declared.switches:
            if name not in self._renamed:
                self._renamed[name] = name
                self._names.add(name)
                self._tell("name", [], f"{name} is declared, and no switch of the inventory", (name,))
        for host in declared.hosts:
            if fits := self._names.exact(host.name):
                said = f"{host.name} is declared as a host, and is a switch; its links are left out"
                self._tell("name", [], said, fits)
            else:
                self._renamed[host.name] = host.name
        return [self._renamed[name] for name in declared.switches]

    def _links(self, declared: Topology) -> Iterable[_Known]:
        for link in declared.links:
            if link.a in self._renamed and link.b in self._renamed:
                ends = [End(self._renamed[name], port or "") for name, port in link.ends]
                yield _Known(Cable.of(*ends), link.rate_gbps, link.delay_us)

    def _ports(self, cable: Cable) -> list[End]:
        """Its ends that hold one cable: ports of switches, and NICs with a name."""
        return [end for end in cable.ends if end.port or end.node in self._is_switch]

    def _host_by_address(self) -> dict[str, str]:
        return {one.ip: name for name, one in self._hosts.items() if one.ip is not None}

    def _by_port(self, cables: Iterable[Cable]) -> dict[End, Cable]:
        return {end: cable for cable in cables for end in self._ports(cable)}

    def _said(self, cable: Cable) -> _Known | None:
        """The declared link of the same ends; of a host's the NIC does not count."""
        wanted = bare(cable, self._is_switch)
        for end in self._ports(cable):
            declared = self._declared_at.get(end)
            if declared is not None and bare(declared, self._is_switch) == wanted:
                return self._declared[declared]
        return None

    def _with_declared_nic(self, cable: Cable, declared: Cable) -> Cable:
        """The cable with the NIC's declared name, where LLDP has none."""
        ends = [
            End(end.node, end.port or next(one.port for one in declared.ends if one.node == end.node))
            for end in cable.ends
        ]
        return Cable.of(*ends)

    def _not_as_declared(self, cable: Cable) -> None:
        others = list(
            dict.fromkeys(self._declared_at[end] for end in self._ports(cable) if end in self._declared_at)
        )
        if not others:
            self._tell("undeclared", [cable], f"LLDP sees {cable}, which is not declared; it is added")
            return
        said = f"{' and '.join(map(str, others))} {'is' if len(others) == 1 else 'are'} declared"
        self._dropped |= dict.fromkeys(others, cable)
        self._tell("moved", [cable, *others], f"{said}, LLDP sees {cable}; the latter is taken")

    def _rate(self, cable: Cable) -> float | None:
        rates = rates_at(self._read, cable)
        if len({rate for _, rate in rates}) > 1:
            each = " and ".join(f"{end} runs at {rate:g} Gbit/s" for end, rate in rates)
            self._tell("rate", [cable], f"{cable} differs: {each}; the lower is taken")
        return min((rate for _, rate in rates), default=None)

    def _compare_rates(self, said: _Known, known: _Known) -> None:
        if known.rate_gbps and said.rate_gbps and known.rate_gbps != said.rate_gbps:
            self._tell(
                "rate",
                [known.cable],
                f"{known.cable} is declared with {said.rate_gbps:g} Gbit/s and runs at {known.rate_gbps:g}; "
                "the latter is taken",
            )

    def _int_end(self, name: str, port: str | None, of_host: Mapping[str, str | None]) -> End | None:
        """None: a device that reports show without its name or port."""
        if name in of_host:
            return None if self._names.exact(name) else End(name)
        fits = self._names.find(name)
        if len(fits) != 1 or port is None or port.startswith("to "):
            return None
        read = self._read.get(fits[0])
        return None if read is not None and read.ports and port not in read.ports else End(fits[0], port)

    def _int_link(self, cable: Cable, link: Link, host: str | None, address: str | None) -> Cable:
        """Takes a link that only INT shows, its host named by its address; returns its cable."""
        if host is not None:
            called = [one for one in (address, host) if one is not None]
            name = next((self._host_called[one] for one in called if one in self._host_called), host)
            self._hosts.setdefault(name, Host(name, address))
            for one in (*called, name):
                self._host_called.setdefault(one, name)
            cable = Cable.of(*(End(name) if end.node == host else end for end in cable.ends))
        self._links_of_file[cable] = _Known(cable, link.rate_gbps)
        self._tell(
            "int", [cable], f"INT shows {cable}, which neither LLDP nor the declaration has; it is added"
        )
        return cable

    def _address(self, addresses: Mapping[str, Mapping[str, None]]) -> None:
        taken = self._host_called
        for name, found in addresses.items():
            host, (first, *more) = self._hosts[name], found
            if host.ip is None and not more and taken.get(first, name) == name:
                self._hosts[name] = replace(host, ip=first)
                taken[first] = name
            elif host.ip is not None and host.ip in found:
                continue
            elif more and host.ip is None:
                several = ", ".join(found)
                said = f"INT shows {several} behind ports of {name}; a host has one address; none is taken"
                self._tell("int", [], said, (name,))
            elif host.ip is not None:
                said = (
                    f"{name} is declared with {host.ip}, INT shows {first} at its port; the former is taken"
                )
                self._tell("int", [], said, (name,))
            else:
                said = f"INT shows {first} behind the port of {name}, and it is the address of {taken[first]}"
                self._tell("int", [], said, (name, taken[first]))

    def _tell(self, kind: Kind, cables: Sequence[Cable], sentence: str, nodes: Sequence[str] = ()) -> None:
        about = dict.fromkeys([*nodes, *nodes_of(*cables)])
        self._differences.append(Difference(kind, tuple(about), sentence))


def _natural(end: End) -> tuple[tuple[str | int, ...], tuple[str | int, ...]]:
    return natural(end.node), natural(end.port)


def _link(known: _Known, assumed: Assumed) -> Link:
    a, b = known.cable.ends
    rate_gbps = known.rate_gbps or assumed.rate_gbps
    delay_us = assumed.delay_us if known.delay_us is None else known.delay_us
    return Link(a.node, b.node, rate_gbps, delay_us, a.port or None, b.port or None)
