"""Liveness and readiness as documents."""

from __future__ import annotations

from api.schemas.base import Document


class HealthDocument(Document):
    """The process answers."""

    status: str
    version: str


class ReadinessDocument(Document):
    """Whether a recommendation could be made now; ``reasons`` are sentences."""

    ready: bool
    reasons: list[str]


class StandingDocument(ReadinessDocument):
    """The same for people: ``measured`` says whether the window holds anything that could be asked about."""

    measured: bool
    version: str
