"""JSON of what LLDP shows, beside the declared and the discovered topology."""

from __future__ import annotations

from typing import Any, Self

from service.documents.base import Document, SwitchName, Time, timestamp
from service.neighbours.cabling import Cabled
from telemetry.neighbours.cables import Difference, Kind


class DifferenceDocument(Document):
    """A difference between cables, declaration, INT and both ends of a cable, in a sentence."""

    kind: Kind
    """What differs: docs/telemetry/topology.md lists the kinds."""
    nodes: list[str]
    """The switches and hosts that it is about."""
    sentence: str
    """What differs, and what `topology` has."""

    @classmethod
    def of(cls, one: Difference) -> Self:
        return cls(kind=one.kind, nodes=list(one.nodes), sentence=one.sentence)


class UnreadDocument(Document):
    """A switch whose neighbours were not read."""

    switch: SwitchName
    """Name in the inventory."""
    detail: str
    """Why, in a sentence."""


class NeighboursDocument(Document):
    """What switches see of each other by LLDP, completed from the declared topology."""

    read_at: Time
    """When switches were last read."""
    topology: dict[str, Any]
    """Hosts, switches and links, in the form that is declared."""
    differences: list[DifferenceDocument]
    """Where cables and declaration, or both ends of a cable, differ."""
    unread: list[UnreadDocument]
    """Switches that were not read."""
    problems: list[str]
    """What was left out of the answers of switches."""

    @classmethod
    def of(cls, cabled: Cabled) -> Self:
        return cls(
            read_at=timestamp(cabled.read_ns),
            topology=cabled.merged.topology.to_json(),
            differences=[DifferenceDocument.of(one) for one in cabled.merged.differences],
            unread=[
                UnreadDocument(switch=name, detail=str(one.failure))
                for name, one in cabled.seen.items()
                if one.failure is not None
            ],
            problems=[
                f"{name}: {problem}"
                for name, one in cabled.seen.items()
                if one.neighbours is not None
                for problem in one.neighbours.problems
            ],
        )
