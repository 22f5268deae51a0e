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
