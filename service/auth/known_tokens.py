"""Bearer tokens by their hash: those of the settings, and those of the database as they were last read.

Tokens are kept as SHA-256. A slow hash is for what people can think of; nobody guesses what is random for
256 bits, so that a fast one is right for tokens that ``ecntwin token`` made.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from settings.callers import Caller
from settings.security import TokenSettings


@dataclass(frozen=True, slots=True)
class Stored:
    """What the database says of tokens: ``ever`` whether any was ever made, revoked ones too; ``unread``
    where it could not be asked yet.

    ``live`` is by hash; ``expires_s`` (seconds since 1970) by the name of those that expire.
    """

    live: Mapping[str, Caller] = field(default_factory=dict)
    expires_s: Mapping[str, float] = field(default_factory=dict)
    ever: bool = False
    unread: bool = False


class KnownTokens:
    """Finds who a token is. ``stored`` is replaced whole by whoever reads the database."""

    def __init__(self, configured: Iterable[TokenSettings]) -> None:
        self._configured = {one.sha256: Caller(one.name, one.scopes) for one in configured}
        self.stored = Stored()
        self.used: dict[str, float] = {}
        """When tokens of the database were last used, since somebody last took this away."""

    @property
    def any(self) -> bool:
        """Whether there is any token, or was one: then none goes without."""
        return bool(self._configured) or self.stored.ever or self.stored.unread

    def find(self, digest: str, now_s: float) -> Caller | None:
        """Whose hash that is, at that time (seconds since 1970); a token of the settings goes first."""
        found = self._configured.get(digest)
        if found is not None:
            return found
        found = self.stored.live.get(digest)
        if found is not None and now_s >= self.stored.expires_s.get(found.name, float("inf")):
            return None
        if found is not None:
            self.used[found.name] = now_s
        return found


def digest_of(text: str) -> str:
    """The hash that a token is known by. Looking it up tells nothing about those that are known: it is no
    secret, and cannot be chosen.
    """
    return hashlib.sha256(text.encode()).hexdigest()
