"""Liveness and readiness as documents."""

from __future__ import annotations

from typing import Literal

from service.documents.base import Document


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
