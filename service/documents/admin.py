"""Liveness and readiness as documents.

The audit log as documents.

Revisions of topologies and inventories as documents.

What became of datagrams, as a document.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Literal, Self

from service.documents.base import Document, timestamp
from service.metrics import UDP_DROPS
from service.udp.listener import UdpTotals
from service.udp.receiver import UdpCounts
from store.audit_rows import AuditRow
from store.revisions import Revision


class HealthDocument(Document):
    """The process answers."""

    status: str
    version: str


class ReadinessDocument(Document):
    """Whether a recommendation could be made now; ``reasons`` are sentences."""

    ready: bool
    reasons: list[str]


class WindowDocument(Document):
    """How much of the window reports fill, by their own time. It is ``warm`` once that is all of it: what is
    said before that is of less traffic than usual.
    """

    held_s: float
    length_s: float
    warm: bool


class StorageDocument(Document):
    """Where the service remembers: ``memory`` ends with it, and while it is ``failing`` no switch is set.

    ``waiting`` entries of the history are not written yet. ``says`` is a sentence where it is failing.
    """

    state: Literal["ok", "failing", "memory"]
    waiting: int
    says: str | None


class ServiceReadinessDocument(ReadinessDocument):
    """The same of the service itself, which is ready to advise also while its database fails."""

    window: WindowDocument
    storage: StorageDocument


class StandingDocument(ServiceReadinessDocument):
    """The same for people: ``measured`` says whether the window holds anything that could be asked about."""

    measured: bool
    version: str


class AuditEntryDocument(Document):
    """One change that was asked for: by whom (a token, ``oidc:`` and a person, ``local``, ``policy``, or
    ``command:`` and a user), from where, and how it ended: ``done``, ``refused`` or ``failed`` and why.
    """

    number: int
    at: str
    who: str
    address: str | None
    what: str
    subject: str
    before: Any
    after: Any
    outcome: str

    @classmethod
    def of(cls, row: AuditRow) -> Self:
        """The document of a row."""
        entry = row.entry
        return cls(
            number=row.number,
            at=timestamp(entry.at_ns),
            who=entry.who,
            address=entry.address,
            what=entry.what,
            subject=entry.subject,
            before=None if entry.before is None else json.loads(entry.before),
            after=None if entry.after is None else json.loads(entry.after),
            outcome=entry.outcome,
        )


class AuditDocument(Document):
    """The newest first; ``before`` the number of the last of these there may be more."""

    entries: list[AuditEntryDocument]


class RevisionDocument(Document):
    """One of them. ``document`` is its text, JSON of a topology and YAML of an inventory; null in lists."""

    number: int
    kind: str
    at: str
    by: str
    sha256: str
    document: str | None

    @classmethod
    def of(cls, revision: Revision, *, text: bool) -> Self:
        """The document of a revision, with its ``text`` or without."""
        return cls(
            number=revision.number,
            kind=revision.kind,
            at=timestamp(revision.at_ns),
            by=revision.by,
            sha256=revision.sha256,
            document=revision.document if text else None,
        )


class RevisionsDocument(Document):
    """The newest first."""

    revisions: list[RevisionDocument]


class UdpDocument(Document):
    """Datagrams since the service started; all 0 and no ``addresses`` where it listens to none.

    ``taken`` have been decoded, and their reports are in the window; ``waiting`` are in the queue. Dropped
    were those that found it full (``queue``), or the kernel's buffer (``kernel``; not among ``received``),
    that came from elsewhere than may send (``refused``), or were too long (``truncated``).
    """

    addresses: list[str]
    received: int
    taken: int
    waiting: int
    dropped: dict[str, int]

    @classmethod
    def of(cls, addresses: Iterable[str], tally: UdpTotals | None) -> Self:
        """The document of a listener; None: there is none."""
        tally = tally or UdpTotals(UdpCounts(), 0, 0)
        return cls(
            addresses=list(addresses),
            received=tally.counts.received,
            taken=tally.taken,
            waiting=tally.waiting,
            dropped={where: getattr(tally.counts, where) for where in UDP_DROPS},
        )
