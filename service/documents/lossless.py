"""Findings on the lossless configuration of the fabric, as documents."""

from __future__ import annotations

from typing import Self

from lossless.report import RULES, Fault, Severity
from service.documents.base import Document, Time, timestamp
from service.polling.lossless import Checked
from settings.errors import NotFoundError


class LosslessFindingDocument(Document):
    """A broken rule, at all ports of a switch or NICs of a host where it is broken alike."""

    rule: str
    """Its name: docs/operate/lossless.md lists them."""
    severity: Severity
    """How bad it is."""
    node: str
    """The switch or host."""
    where: str
    """The same with its ports or NICs."""
    found: str
    """What is so there."""
    demands: str
    """What the rule demands."""
    remedy: str
    """What to do."""

    @classmethod
    def of(cls, fault: Fault) -> Self:
        return cls.from_attributes(fault, demands=RULES[fault.rule])


class UnreadNodeDocument(Document):
    """A switch or host that was not read."""

    node: str
    """Name in the inventory."""
    detail: str
    """Why, in a sentence."""


class LosslessDocument(Document):
    """What keeps the fabric lossless, checked hop by hop."""

    read_at: Time | None
    """When switches were last read; null where they never were, and nothing is known."""
    switches: int
    """How many were read."""
    findings: list[LosslessFindingDocument]
    """Rules that are broken, in the order of docs/operate/lossless.md."""
    unchecked: list[str]
    """What is not known, and which rules could not be checked for that, in sentences."""
    unread: list[UnreadNodeDocument]
    """Switches and hosts that were not read."""
    next: str | None
    """What to pass as `after` for more of these three lists; null where there are none."""

    @classmethod
    def never(cls, why: str) -> Self:
        return cls(read_at=None, switches=0, findings=[], unchecked=[why], unread=[], next=None)

    @classmethod
    def of(cls, checked: Checked, *, limit: int | None = None, after: str | None = None) -> Self:
        """The first ``limit`` entries of the three lists, one list after the other, or of those after the
        cursor ``after``. Raises ``NotFoundError`` for a cursor of an earlier reading.
        """
        entries = [*checked.report.faults, *checked.report.unchecked, *checked.unread.items()]
        begin = 0
        if after is not None:
            read_ns, begin = map(int, after.split("_"))
            if read_ns != checked.read_ns:
                raise NotFoundError(
                    f"cursor {after!r}",
                    None,
                    "switches were read again since",
                    "list them from the beginning",
                )
        end = len(entries) if limit is None else begin + limit
        listed = entries[begin:end]
        return cls(
            read_at=timestamp(checked.read_ns),
            switches=checked.switches,
            findings=[LosslessFindingDocument.of(one) for one in listed if isinstance(one, Fault)],
            unchecked=[one for one in listed if isinstance(one, str)],
            unread=[
                UnreadNodeDocument(node=one[0], detail=one[1]) for one in listed if isinstance(one, tuple)
            ],
            next=f"{checked.read_ns}_{end}" if end < len(entries) else None,
        )
