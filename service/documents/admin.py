"""Health, readiness, the audit log, revisions and UDP counts as documents."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Literal, Self

from service.documents.base import Document, Time, timestamp
from service.metrics import UDP_DROPS
from service.udp.listener import UdpCounts, UdpTotals
from store.audit_rows import AuditRow
from store.revisions import Revision


class HealthDocument(Document):
    """The process answers."""

    status: str
    """Always `ok`: a process that cannot answer says nothing."""
    version: str
    """Version of ecntwin that runs."""


class ReadinessDocument(Document):
    """Whether it is ready, and for what; ``reasons`` are sentences on why not."""

    ready: bool
    """Whether it is ready; the call says for what."""
    reasons: list[str]
    """Sentences on why it is not ready; empty where it is."""


class WindowDocument(Document):
    """How much of the telemetry window is filled, by the reports' time."""

    held_s: float
    """Seconds of report time that the window holds; 0 while it is empty."""
    length_s: float
    """Seconds of report time that fill it."""
    warm: bool
    """Whether all of it is filled; before that, less traffic than usual is seen."""


class StorageDocument(Document):
    """Whether what is decided can be written down."""

    state: Literal["ok", "failing", "memory"]
    """`ok`; `failing`: no switch is set meanwhile; `memory`: nothing outlives the process."""
    waiting: int
    """Entries of the history that are not written yet."""
    says: str | None
    """What a failure means, in a sentence; null where nothing fails."""


class ServiceReadinessDocument(ReadinessDocument):
    """Ready: it takes telemetry and answers, also while the network is silent or the database fails."""

    window: WindowDocument
    """How far the telemetry window has filled."""
    storage: StorageDocument
    """The database."""


class StandingDocument(ServiceReadinessDocument):
    """Ready: a recommendation can be made now."""

    measured: bool
    """Whether the window holds reports, so that there is a state to show."""
    stale: bool
    """Whether the newest report is too old for a round, or none has come."""
    advice: str | None
    """Id of the recommendation in force; null before the first round."""
    version: str
    """Version of ecntwin that runs."""
    scopes: list[str]
    """Scopes of the caller."""


class AuditEntryDocument(Document):
    """One requested change, by whom, and how it ended."""

    number: int
    """Counts up from 1; pass the last one as `before` for older entries."""
    at: Time
    """When it was asked for."""
    who: str
    """A token's name, `oidc:` and a person, `local`, `policy`, or `command:` and a user."""
    address: str | None
    """Address the call came from; null for changes of the service itself."""
    what: str
    """The kind of change, such as `approve`, `rollback`, `freeze` or `topology`."""
    subject: str
    """What it was about: a recommendation, a rollout, a switch."""
    before: Any
    """What was before, as JSON; null where that says nothing."""
    after: Any
    """What is now, as JSON; null where nothing changed."""
    outcome: str
    """`done`, or `refused` or `failed` with the reason; `under way` until then. `the caller disconnected
    before the answer` or `ended with the service` where the end is not known; `begun:` and why for a rollback
    by a guard.
    """

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
    """The newest first."""
    next: int | None
    """Number to pass as `before` for older ones; null where there are none."""


class RevisionDocument(Document):
    """One version of the topology or the inventory."""

    number: int
    """Counts up from 1 over both kinds."""
    kind: str
    """`topology` or `inventory`."""
    at: Time
    """When it was declared or loaded."""
    by: str
    """Who declared it, or `settings` for one that was loaded at a start."""
    sha256: str
    """SHA-256 of `document`, in hexadecimal."""
    document: str | None
    """The text: JSON of a topology, YAML of an inventory; null in lists."""

    @classmethod
    def of(cls, revision: Revision, *, text: bool) -> Self:
        """``text``: with the document itself."""
        return cls.from_attributes(
            revision, at=timestamp(revision.at_ns), document=revision.document if text else None
        )


class RevisionsDocument(Document):
    """The newest first."""

    revisions: list[RevisionDocument]
    """Without their documents."""
    next: int | None
    """Number to pass as `before` for older ones; null where there are none."""


class UdpDocument(Document):
    """Datagrams since the service started; without listeners all 0."""

    addresses: list[str]
    """Addresses and ports that datagrams are taken at; empty without listeners."""
    received: int
    """Datagrams that were read from the sockets."""
    taken: int
    """Datagrams that were decoded, and their reports taken into the window."""
    waiting: int
    """Datagrams in the queue."""
    dropped: dict[str, int]
    """Datagrams lost, by where: `queue` (full), `kernel` (its buffer full; not among `received`), `refused`
    (a sender that is not allowed), `truncated` (too long).
    """

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
