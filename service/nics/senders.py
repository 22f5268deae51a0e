"""What the senders of the fabric run, by their NICs, and what contradicts that."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from nics.base import NicReading, Reading, usual
from nics.parameters import differing
from service.documents.base import list_text
from twin.senders.dcqcn import DcqcnParams

_NAMED = 3
ENOUGH = 0.5
"""The share of hosts that must have been read for their NICs to stand for all."""


@dataclass(frozen=True, slots=True)
class Senders:
    """``params`` is what the twin takes every sender to run, from ``source``; ``notes`` say what that leaves
    out. ``differing`` NICs run something else than most.

    ``differ`` is a sentence where NICs differ from each other, ``contradict`` where from the settings.
    """

    params: DcqcnParams
    source: Literal["settings", "nics"] = "settings"
    notes: tuple[str, ...] = ()
    differing: int = 0
    differ: str | None = None
    contradict: str | None = None


def senders_of(
    hosts: Collection[str], readings: Mapping[str, Reading], configured: DcqcnParams, *, said: bool
) -> Senders:
    """From the last reading of each host, of those that were ever read.

    What most NICs run goes before ``configured``; ``said``: the settings state that, and it is no default.
    """
    if not hosts:
        return Senders(configured)
    params, known = usual(readings.values())
    read = sum(any(nic.params is not None for nic in one.nics) for one in readings.values())
    if params is None or read < ENOUGH * len(hosts):
        which = f"only {read} of {len(hosts)} hosts" if read else "no host"
        note = f"DCQCN of the NICs is known of {which}; the twin takes senders to run what the settings say."
        return Senders(configured, notes=(note,))
    others = [
        (host, nic)
        for host, one in readings.items()
        for nic in one.nics
        if nic.params is not None and nic.params != params
    ]
    notes = []
    if read < len(hosts):
        notes.append(
            f"DCQCN of the NICs of {len(hosts) - read} of {len(hosts)} hosts is not known; the twin takes "
            "them to run what the others do."
        )
    differ = None
    if others:
        differ = _differ(others, params, known)
        notes.append(f"{differ}; the twin takes all to run what most do.")
    deaf = [(host, nic) for host, one in readings.items() for nic in one.nics if nic.reacts == ()]
    if deaf:
        off = f"{_names(deaf)} slow down on no priority: DCQCN is off there"
        differ = off if differ is None else f"{differ}. {off}"
        notes.append(f"{off}; the twin takes it to be on.")
    of_usual = (nic for one in readings.values() for nic in one.nics if nic.params == params)
    notes.extend(sorted({note for nic in of_usual for note in nic.notes}))
    contradict = None
    if said and (found := differing(params, configured)):
        contradict = (
            f"NICs run other DCQCN parameters than the settings say ({'; '.join(found)}); the twin takes the "
            "NICs'"
        )
        notes.append(f"{contradict}.")
    return Senders(params, "nics", tuple(notes), len(others), differ, contradict)


def _differ(others: list[tuple[str, NicReading]], params: DcqcnParams, known: int) -> str:
    _, first = others[0]
    assert first.params is not None
    how = "; ".join(differing(first.params, params)[:_NAMED])
    return f"{len(others)} of {known} NICs run other DCQCN parameters than most: {_names(others)} ({how})"


def _names(nics: list[tuple[str, NicReading]]) -> str:
    return list_text([f"{host}/{nic.nic}" for host, nic in nics], _NAMED)
