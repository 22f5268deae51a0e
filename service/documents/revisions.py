"""Revisions of topologies and inventories as documents."""

from __future__ import annotations

from typing import Self

from service.documents.base import Document, timestamp
from store.revisions import Revision


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
