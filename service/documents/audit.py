"""The audit log as documents."""

from __future__ import annotations

import json
from typing import Any, Self

from service.documents.base import Document, timestamp
from store.audit_rows import AuditRow


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
