"""Health, readiness, the audit log, revisions and UDP counts as documents."""

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
    """Whether it is ready, and for what; ``reasons`` are sentences on why not."""

    ready: bool
    reasons: list[str]


class WindowDocument(Document):
    """How much of the window is filled, by the reports' time; ``warm``: all of it. Before that, less traffic
    than usual is seen.
    """

    held_s: float
    length_s: float
    warm: bool


class StorageDocument(Document):
    """Storage: ``memory`` ends with the service; while it is ``failing`` no switch is set.

    ``waiting`` entries of the history are not written yet. ``says`` explains a failure.
    """

    state: Literal["ok", "failing", "memory"]
    waiting: int
    says: str | None


class ServiceReadinessDocument(ReadinessDocument):
    """Ready: the service takes telemetry and answers, also while the network is silent or its database
    fails. ``window`` and ``storage`` are shown beside that.
    """

    window: WindowDocument
    storage: StorageDocument


class StandingDocument(ServiceReadinessDocument):
    """Ready: a recommendation can be made now. ``measured``: reports have been accepted. ``advice`` is the id
    of the recommendation in force; null before the first round.
    """

    measured: bool
    advice: str | None
    version: str


class AuditEntryDocument(Document):
    """One requested change: by whom (a token, ``oidc:`` and a person, ``local``, ``policy``, or ``command:``
    and a user), from where, and its outcome: ``done``, ``refused`` or ``failed`` with the reason.
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
        entry = row.entry
        return cls.from_attributes(
            entry,
            number=row.number,
            at=timestamp(entry.at_ns),
            before=None if entry.before is None else json.loads(entry.before),
            after=None if entry.after is None else json.loads(entry.after),
        )


class AuditDocument(Document):
    """The newest first; ask for entries ``before`` the last number for more."""

    entries: list[AuditEntryDocument]


class RevisionDocument(Document):
    """A revision; ``document`` is JSON for a topology, YAML for an inventory, and null in lists."""

    number: int
    kind: str
    at: str
    by: str
    sha256: str
    document: str | None

    @classmethod
    def of(cls, revision: Revision, *, text: bool) -> Self:
        """``text``: with the document itself."""
        return cls.from_attributes(
            revision, at=timestamp(revision.at_ns), document=revision.document if text else None
        )


class RevisionsDocument(Document):
    """The newest first."""

    revisions: list[RevisionDocument]


class UdpDocument(Document):
    """Datagrams since the service started; without listeners all 0 and no ``addresses``.

    ``taken`` are decoded and in the window; ``waiting`` are queued. ``dropped`` counts those that found the
    queue (``queue``) or the kernel's buffer full (``kernel``; not among ``received``), that came from a
    sender that is not allowed (``refused``), or were too long (``truncated``).
    """

    addresses: list[str]
    received: int
    taken: int
    waiting: int
    dropped: dict[str, int]

    @classmethod
    def of(cls, addresses: Iterable[str], tally: UdpTotals | None) -> Self:
        """``tally`` None: there is no listener."""
        tally = tally or UdpTotals(UdpCounts(), 0, 0)
        return cls(
            addresses=list(addresses),
            received=tally.counts.received,
            taken=tally.taken,
            waiting=tally.waiting,
            dropped={where: getattr(tally.counts, where) for where in UDP_DROPS},
        )
