"""What the senders of the fabric run, by their NICs, and what contradicts that."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from nics.base import NicReading, Reading, usual
from nics.parameters import differing
from service.documents.base import list_text
from twin.senders.dcqcn import DcqcnParams

_NAMED = 3
NO_CLASSES: Mapping[str, str] = MappingProxyType({})
ENOUGH = 0.5
"""The share of hosts that must have been read for their NICs to stand for all."""


@dataclass(frozen=True, slots=True)
class Senders:
    """``params`` is what the twin takes every sender to run, from ``source``, but for those of ``by_class``;
    ``notes`` say what that leaves out. ``differing`` NICs run something else than most of their class.

    ``differ`` is a sentence where NICs differ from each other, ``contradict`` where from the settings.
    """

    params: DcqcnParams
    source: Literal["settings", "nics"] = "settings"
    notes: tuple[str, ...] = ()
    differing: int = 0
    differ: str | None = None
    contradict: str | None = None
    by_class: Mapping[str, DcqcnParams] = field(default_factory=dict)

    def of_class(self, name: str) -> DcqcnParams:
        return self.by_class.get(name, self.params)

    def unlike(
        self, params: DcqcnParams, by_class: Mapping[str, DcqcnParams], classes: Collection[str]
    ) -> tuple[str, str] | None:
        """Whose NICs run something else than these, such as `` of storage`` (empty: all), and how; None: no
        NIC does. ``classes`` are those that hosts are of.
        """
        every = {name: differing(by_class.get(name, params), self.of_class(name)) for name in classes}
        for name, found in sorted(every.items()):
            if found:
                alike = all(one == found for one in every.values())
                return "" if alike else f" of {name}", "; ".join(found)
        return None


def senders_of(
    hosts: Collection[str],
    readings: Mapping[str, Reading],
    configured: DcqcnParams,
    *,
    said: bool,
    classes: Mapping[str, str] = NO_CLASSES,
) -> Senders:
    """From the last reading of each host, of those that were ever read; ``classes`` of hosts by name, none
    where all are alike.

    What most NICs run goes before ``configured``; ``said``: the settings state that, and it is no default.
    """
    if not hosts:
        return Senders(configured)
    params, known = usual(readings.values())
    read = _known(readings.values())
    if params is None or read < ENOUGH * len(hosts):
        which = f"only {read} of {len(hosts)} hosts" if read else "no host"
        note = f"DCQCN of the NICs is known of {which}; the twin takes senders to run what the settings say."
        return Senders(configured, notes=(note,))
    notes = []
    by_class, unknown = _by_class(hosts, readings, params, classes)
    runs = {host: by_class.get(classes.get(host, ""), params) for host in readings}
    others = [
        (host, nic)
        for host, one in readings.items()
        for nic in one.nics
        if nic.params is not None and nic.params != runs[host]
    ]
    if unknown:
        notes.append(
            f"DCQCN of the NICs of class {list_text(unknown, _NAMED)} is known of too few; the twin takes "
            "them to run what most others do."
        )
    if read < len(hosts):
        notes.append(
            f"DCQCN of the NICs of {len(hosts) - read} of {len(hosts)} hosts is not known; the twin takes "
            "them to run what the others do."
        )
    differ = None
    if others:
        most = "most of their class" if classes else "most"
        differ = _differ(others, runs, known, most)
        notes.append(f"{differ}; the twin takes all to run what {most} do.")
    deaf = [(host, nic) for host, one in readings.items() for nic in one.nics if nic.reacts == ()]
    if deaf:
        off = f"{_names(deaf)} slow down on no priority: DCQCN is off there"
        differ = off if differ is None else f"{differ}. {off}"
        notes.append(f"{off}; the twin takes it to be on.")
    of_usual = (nic for host, one in readings.items() for nic in one.nics if nic.params == runs[host])
    notes.extend(sorted({note for nic in of_usual for note in nic.notes}))
    contradict = None
    every = {"NICs": params} | {f"NICs of {name}": own for name, own in by_class.items()}
    unlike = [(which, found) for which, own in every.items() if (found := differing(own, configured))]
    if said and unlike:
        which, found = unlike[0]
        contradict = (
            f"{which} run other DCQCN parameters than the settings say ({'; '.join(found)}); the twin takes "
            "the NICs'"
        )
        notes.append(f"{contradict}.")
    return Senders(params, "nics", tuple(notes), len(others), differ, contradict, by_class)


def _known(readings: Iterable[Reading]) -> int:
    """How many hosts say what a NIC of theirs runs."""
    return sum(any(nic.params is not None for nic in one.nics) for one in readings)


def _by_class(
    hosts: Collection[str], readings: Mapping[str, Reading], params: DcqcnParams, classes: Mapping[str, str]
) -> tuple[dict[str, DcqcnParams], list[str]]:
    """Classes whose NICs mostly run something else than ``params``, and those of which too few were read."""
    of_class: defaultdict[str, list[str]] = defaultdict(list)
    for host in hosts:
        if host in classes:
            of_class[classes[host]].append(host)
    by_class: dict[str, DcqcnParams] = {}
    unknown = []
    for name, named in sorted(of_class.items()):
        read = [readings[host] for host in named if host in readings]
        own, _ = usual(read)
        if own is None or _known(read) < ENOUGH * len(named):
            unknown.append(name)
        elif own != params:
            by_class[name] = own
    return by_class, unknown


def _differ(
    others: list[tuple[str, NicReading]], runs: Mapping[str, DcqcnParams], known: int, most: str
) -> str:
    host, first = others[0]
    assert first.params is not None
    how = "; ".join(differing(first.params, runs[host])[:_NAMED])
    return f"{len(others)} of {known} NICs run other DCQCN parameters than {most}: {_names(others)} ({how})"


def _names(nics: list[tuple[str, NicReading]]) -> str:
    return list_text([f"{host}/{nic.nic}" for host, nic in nics], _NAMED)
