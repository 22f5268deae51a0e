"""Joins what LLDP shows at both ends to cables; where ends contradict each other it is told, not guessed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from telemetry.neighbours.model import Neighbour, Port, SwitchNeighbours
from telemetry.neighbours.names import Ambiguous, Heard, Known, Names, Ports, nic_of, switch_of

Kind = Literal[
    "ambiguous", "contradiction", "one_sided", "moved", "undeclared", "unseen", "quiet", "rate", "int", "name"
]


@dataclass(frozen=True, slots=True)
class Difference:
    """``sentence`` tells it in full; ``nodes`` are the switches and hosts it is about.

    ``quiet`` is of hosts that do not speak LLDP.
    """

    kind: Kind
    nodes: tuple[str, ...]
    sentence: str


@dataclass(frozen=True, slots=True, order=True)
class End:
    """``port`` is a host's NIC, as far as it is known; "" where it is not."""

    node: str
    port: str = ""

    def __str__(self) -> str:
        return f"{self.node}:{self.port}" if self.port else self.node


@dataclass(frozen=True, slots=True, order=True)
class Cable:
    """Its ends in order."""

    a: End
    b: End

    @classmethod
    def of(cls, one: End, other: End) -> Cable:
        return cls(*sorted((one, other)))

    @property
    def ends(self) -> tuple[End, End]:
        return self.a, self.b

    def beyond(self, end: End) -> End:
        return self.b if end == self.a else self.a

    def __str__(self) -> str:
        return f"{self.a} <-> {self.b}"


@dataclass(frozen=True, slots=True)
class Joined:
    """``hosts``: the other devices by name. ``unclear``: ports with a neighbour that was left out."""

    cables: tuple[Cable, ...]
    hosts: tuple[str, ...]
    unclear: frozenset[End]
    differences: tuple[Difference, ...]


@dataclass(frozen=True, slots=True)
class Around:
    """What is known before: all switches, the declared ports of each, declared hosts, whose ``addresses``
    are, ``bare`` cables.
    """

    switches: Sequence[str]
    names: Names
    ports: Mapping[str, Sequence[str]]
    hosts: Sequence[str]
    addresses: Mapping[str, str]
    cables: frozenset[Cable]


def join(read: Known, around: Around) -> Joined:
    """The cables between switches, and from switches to hosts. Never raises."""
    joining = _Joining(read, around)
    return joining.settled(joining.claims())


class _Joining:
    def __init__(self, read: Known, around: Around) -> None:
        self._read = read
        self._around = around
        self._switches = frozenset(around.switches)
        self._unclear: set[End] = set()
        self._differences: list[Difference] = []
        heard = {
            one.system: None for found in read.values() for one in found.neighbours if one.system is not None
        }
        self._heard = Heard(around.names, heard)
        hosts = Names()
        for name in around.hosts:
            hosts.add(name)
        self._hosts = Heard(hosts, heard)
        self._known_ports: dict[str, Ports] = {}
        self._host_forms: dict[str, str] = {}

    def claims(self) -> dict[End, dict[End, None]]:
        """By port of a switch, what is at its other end."""
        rows: defaultdict[End, list[Neighbour]] = defaultdict(list)
        for switch, found in self._read.items():
            for one in found.neighbours:
                rows[End(switch, one.port)].append(one)
        found_ends: dict[End, dict[End, None]] = {}
        of_host: defaultdict[str, list[tuple[End, Neighbour, End]]] = defaultdict(list)
        for here, ones in rows.items():
            # A NIC's own agent beside the host's names no system.
            named = [one for one in ones if one.system is not None] or ones
            for one in named:
                there = self._end(here, one)
                if there is None:
                    self._unclear.add(here)
                elif there.node in self._switches:
                    found_ends.setdefault(here, {})[there] = None
                else:
                    of_host[there.node].append((here, one, there))
        for host, seen in of_host.items():
            if self._is_one(host, seen):
                for here, _, there in self._with_own_nics(host, seen):
                    found_ends.setdefault(here, {})[there] = None
        return found_ends

    def settled(self, claims: Mapping[End, Mapping[End, None]]) -> Joined:
        said_by: defaultdict[Cable, set[End]] = defaultdict(set)
        for here, theres in claims.items():
            for there in theres:
                said_by[Cable.of(here, there)].add(here)
        left = dict.fromkeys(sorted(said_by))
        for cable in [one for one in left if one.a.node == one.b.node]:
            del left[cable]
            self._unclear.update(cable.ends)
            self._tell("contradiction", (cable.a.node,), f"{cable} joins a switch to itself; it is left out")
        taken: dict[Cable, None] = {}
        rules: tuple[Callable[[Cable], bool], ...] = (
            lambda cable: len(said_by[cable]) == 2,
            lambda cable: bare(cable, self._switches) in self._around.cables,
            lambda cable: True,
        )
        for rule in rules:
            chosen = [cable for cable in left if rule(cable)]
            uses = Counter(end for cable in chosen for end in self._ports(cable))
            sure = [cable for cable in chosen if all(uses[end] == 1 for end in self._ports(cable))]
            at = {end: cable for cable in sure for end in self._ports(cable)}
            for cable in sure:
                taken[cable] = None
                del left[cable]
            for cable in list(left):
                rival = next((at[end] for end in self._ports(cable) if end in at), None)
                if rival is not None:
                    del left[cable]
                    self._unclear.update(self._ports(cable))
                    self._contradicted(cable, said_by[cable], rival)
        self._left(left)
        for cable in taken:
            self._one_sided(cable, said_by[cable])
        for switch, found in self._read.items():
            if not found.neighbours:
                self._tell("unseen", (switch,), f"{switch} sees no neighbour at any port; is LLDP on there?")
        hosts = dict.fromkeys(end.node for cable in taken for end in cable.ends)
        return Joined(
            tuple(sorted(taken)),
            tuple(name for name in hosts if name not in self._switches),
            frozenset(self._unclear) - {end for cable in taken for end in cable.ends},
            tuple(self._differences),
        )

    def _ports(self, cable: Cable) -> Iterator[End]:
        return (end for end in cable.ends if end.node in self._switches)

    def _end(self, here: End, one: Neighbour) -> End | None:
        """What is at the other end of ``here``; None: it was told that this is unclear."""
        switch = switch_of(one, self._heard, self._read)
        if isinstance(switch, Ambiguous):
            self._not_clear(here, f"{one.system}", switch)
            return None
        if switch is None:
            return self._host_end(here, one)
        port = self._ports_of(switch).named_by(one)
        said = one.port_id or one.port_description
        if isinstance(port, Ambiguous):
            self._not_clear(here, f"{switch} port {said}", port)
            return None
        if port is None:
            lacks = f"names port {said}, which {switch} does not have" if said else "names no port of it"
            self._tell(
                "contradiction", (here.node, switch), f"{here}: a frame of {switch} {lacks}; it is left out"
            )
            return None
        return End(switch, port)

    def _ports_of(self, switch: str) -> Ports:
        if switch not in self._known_ports:
            was_read = switch in self._read
            declared = dict.fromkeys(self._around.ports.get(switch, ()), Port())
            ports = self._read[switch].ports if was_read else declared
            self._known_ports[switch] = Ports(ports, read=was_read)
        return self._known_ports[switch]

    def _host_end(self, here: End, one: Neighbour) -> End | None:
        if one.system is None:
            chassis = one.chassis or ""
            return End(self._around.addresses.get(chassis, chassis), nic_of(one) or "")
        declared = self._hosts.device(one.system)
        if not isinstance(declared, Ambiguous) and len(declared) > 1:
            declared = Ambiguous(f"that is a name of {' and of '.join(declared)}")
        if isinstance(declared, Ambiguous):
            self._not_clear(here, one.system, declared)
            return None
        if declared:
            name = declared[0]
        elif one.system in self._around.addresses:
            name = self._around.addresses[one.system]
        else:
            name = self._host_forms.setdefault(one.system.casefold(), one.system)
        return End(name, nic_of(one) or "")

    def _is_one(self, host: str, seen: Sequence[tuple[End, Neighbour, End]]) -> bool:
        """Whether all of these are one device: one of several chassis may be several of one name."""
        chassis = {one.chassis for _, one, _ in seen if one.chassis is not None}
        if len(chassis) < 2 or host in self._around.hosts:
            return True
        ends = [here for here, _, _ in seen]
        self._unclear.update(ends)
        self._tell(
            "ambiguous",
            tuple(dict.fromkeys(end.node for end in ends)),
            f"{host} at {_listed(ends)} has {len(chassis)} chassis ids: two devices of one name, or one "
            "whose NICs speak for themselves; these ports are left out; give each a name of its own, or "
            "declare their links",
        )
        return False

    def _with_own_nics(
        self, host: str, seen: Sequence[tuple[End, Neighbour, End]]
    ) -> Iterator[tuple[End, Neighbour, End]]:
        """The same, without NICs that several ports see: a NIC has one cable."""
        at: defaultdict[End, dict[End, None]] = defaultdict(dict)
        for here, _, there in seen:
            at[there][here] = None
        for there, heres in at.items():
            if there.port and len(heres) > 1:
                self._tell(
                    "contradiction",
                    (host,),
                    f"{there} is at {_listed(heres)}; a NIC has one cable; they are taken without its name",
                )
        for here, one, there in seen:
            yield here, one, there if len(at[there]) == 1 else replace(there, port="")

    def _not_clear(self, here: End, said: str, why: Ambiguous) -> None:
        self._tell(
            "ambiguous", (here.node,), f"{here} leads to {said}: {why.why}; it is left out; correct the name"
        )

    def _contradicted(self, cable: Cable, by: Iterable[End], rival: Cable) -> None:
        self._tell(
            "contradiction",
            nodes_of(cable, rival),
            f"{_listed(sorted(by))} says {cable}, but {rival} is there; the latter is taken",
        )

    def _left(self, left: Iterable[Cable]) -> None:
        """Tells of cables that share ports, none of which is known to be the one."""
        at: defaultdict[End, list[Cable]] = defaultdict(list)
        for cable in left:
            for end in self._ports(cable):
                at[end].append(cable)
                self._unclear.add(end)
        for end, cables in at.items():
            if len(cables) > 1:
                others = [str(cable.beyond(end)) for cable in cables]
                self._tell(
                    "contradiction",
                    nodes_of(*cables),
                    f"{end} leads to {' and to '.join(others)}; a port holds one cable; none is taken",
                )

    def _one_sided(self, cable: Cable, by: set[End]) -> None:
        for end in self._ports(cable):
            other = cable.beyond(end)
            sees_others = end.node in self._read and self._read[end.node].neighbours
            if end not in by and sees_others and other.node in self._switches:
                self._tell(
                    "one_sided",
                    nodes_of(cable),
                    f"{other} sees {end}, which does not see it; {cable} is taken; is LLDP on at both ends?",
                )

    def _tell(self, kind: Kind, nodes: tuple[str, ...], sentence: str) -> None:
        self._differences.append(Difference(kind, nodes, sentence))


def bare(cable: Cable, switches: Container[str]) -> Cable:
    """The cable without the names of NICs, which a declaration need not have."""
    return Cable.of(*(end if end.node in switches else End(end.node) for end in cable.ends))


def rates_at(read: Mapping[str, SwitchNeighbours], cable: Cable) -> tuple[tuple[End, float], ...]:
    """The rates that switches give for its ends, in Gbit/s."""
    found = [(end, read[end.node].ports.get(end.port)) for end in cable.ends if end.node in read]
    return tuple(
        (end, port.rate_gbps) for end, port in found if port is not None and port.rate_gbps is not None
    )


def nodes_of(*cables: Cable) -> tuple[str, ...]:
    return tuple(dict.fromkeys(end.node for cable in cables for end in cable.ends))


def _listed(ends: Iterable[End]) -> str:
    named = [str(end) for end in ends]
    if len(named) > 4:
        named = [*named[:3], f"{len(named) - 3} more"]
    return " and ".join(named) if len(named) < 3 else f"{', '.join(named[:-1])} and {named[-1]}"
