"""Whose system name and port a neighbour's frame names.

One device has a name in the inventory, one that it announces, and maybe one that is declared: with and
without its domain (leaf1, leaf1.dc.example), in either case. What fits several devices is told, not guessed.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import combinations

from telemetry.neighbours.model import Neighbour, Port, SwitchNeighbours, is_mac

Known = Mapping[str, SwitchNeighbours]


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """Why it cannot be told which device or port is meant, as the end of a sentence."""

    why: str


@dataclass(slots=True)
class Names:
    """Devices by all of their names."""

    _exact: defaultdict[str, dict[str, None]] = field(default_factory=lambda: defaultdict(dict))
    _short: defaultdict[str, dict[str, None]] = field(default_factory=lambda: defaultdict(dict))
    _of: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def add(self, device: str, *names: str) -> None:
        for name in (device, *names):
            self._exact[name.casefold()][device] = None
            self._short[_first_label(name)][device] = None
            self._of[device].add(name.casefold())

    def exact(self, name: str) -> tuple[str, ...]:
        """The devices of that name, in either case."""
        return tuple(self._exact.get(name.casefold(), ()))

    def find(self, name: str) -> tuple[str, ...]:
        """The devices of exactly that name; if there are none, those that differ by a domain only.

        One that announces leaf1.a.example is not leaf1.b.example, be it leaf1 in the inventory.
        """
        folded = name.casefold()
        return self.exact(name) or tuple(
            device
            for device in self._short.get(_first_label(name), ())
            if all(_by_domain(folded, one) for one in self._of[device])
        )


class Heard:
    """The device that each system name stands for, of all the names that frames brought.

    Two full names never stand for one short one: leaf1.a.example and leaf1.b.example are two devices, and one
    of them at most is leaf1.
    """

    def __init__(self, names: Names, heard: Iterable[str]) -> None:
        self._found: dict[str, tuple[str, ...]] = {}
        alike: defaultdict[str, set[str]] = defaultdict(set)
        for name in heard:
            found = self._found[name] = names.find(name)
            if len(found) == 1 and not names.exact(name):
                alike[found[0]].add(name.casefold())
        self._apart = {
            device: sorted(several)
            for device, several in alike.items()
            if any(not _by_domain(one, other) for one, other in combinations(sorted(several), 2))
        }

    def device(self, name: str) -> tuple[str, ...] | Ambiguous:
        found = self._found[name]
        if len(found) == 1 and name.casefold() in self._apart.get(found[0], ()):
            several = " and ".join(self._apart[found[0]])
            return Ambiguous(f"{several} are two devices, of which one at most is {found[0]}")
        return found


def switch_of(neighbour: Neighbour, heard: Heard, read: Known) -> str | Ambiguous | None:
    """The switch that sent it; None: another device. Of several of that name the chassis id decides."""
    fits = tuple(read) if neighbour.system is None else heard.device(neighbour.system)
    if isinstance(fits, Ambiguous):
        return fits
    if neighbour.system is not None and len(fits) < 2:
        return fits[0] if fits else None
    said = neighbour.chassis
    same = [name for name in fits if said is not None and name in read and read[name].chassis == said]
    if len(same) == 1:
        return same[0]
    return None if neighbour.system is None else Ambiguous(f"that is a name of {' and of '.join(fits)}")


class Ports:
    """A switch's ports by all of their names.

    Of a switch that was not ``read`` they are those declared, and a name that is not among them is taken as
    it is.
    """

    def __init__(self, ports: Mapping[str, Port], *, read: bool) -> None:
        self._open = not (read and ports)
        self._exact: defaultdict[str, dict[str, None]] = defaultdict(dict)
        self._plain: defaultdict[str, dict[str, None]] = defaultdict(dict)
        for name, port in ports.items():
            for one in (name, *port.aliases):
                self._exact[one][name] = None
            self._plain[_plain_port(name)][name] = None
        self._names = frozenset(ports)

    def named_by(self, neighbour: Neighbour) -> str | Ambiguous | None:
        """The port that sent it, by its name there; None where it names none that is there."""
        said, described = neighbour.port_id or "", neighbour.port_description
        fits = list(self._exact.get(said, ()))
        if len(fits) > 1:  # SONiC's name of one port may be the alias of another
            fits = [name for name in fits if name == described] or fits
        if not fits and described in self._names:
            return described
        fits = fits or list(self._plain.get(_plain_port(said), ()))
        if fits:
            return fits[0] if len(fits) == 1 else Ambiguous(f"that is {' and '.join(fits)} there")
        return (said or described) if self._open else None


def nic_of(neighbour: Neighbour) -> str | None:
    """The NIC of a host: hosts mostly announce its address as port id, and its name as description."""
    said, described = neighbour.port_id, neighbour.port_description
    if said is not None and not is_mac(said):
        return said
    return described or said


def _first_label(name: str) -> str:
    return name.casefold().partition(".")[0]


def _by_domain(one: str, other: str) -> bool:
    return one.startswith(f"{other}.") or other.startswith(f"{one}.")


def _plain_port(port: str) -> str:
    """Et1/1, Eth1/1 and Ethernet1/1 are one port."""
    return re.sub(r"^(?:ethernet|eth|et)(?=\d)", "ethernet", port.casefold())
