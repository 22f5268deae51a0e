"""Who calls: a name, scopes, and from where; must not know how that was found out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Self

Scope = Literal["telemetry", "read", "operate", "admin"]

LOCAL_NAME = "local"
SCOPES: tuple[Scope, ...] = ("telemetry", "read", "operate", "admin")


@dataclass(frozen=True, slots=True)
class Caller:
    """``name`` is the token's, ``oidc:`` and a claim, or ``local`` where no token is asked for.

    ``kind`` tells those apart where metrics must not name whom they cannot count; ``address`` is where
    from.
    """

    name: str
    scopes: frozenset[Scope]
    kind: Literal["token", "oidc", "local"] = "token"
    address: str = ""

    def calling_from(self, address: str) -> Self:
        """The same, from there."""
        return replace(self, address=address)

    @property
    def label(self) -> str:
        """What metrics call it: a configured name, and never a person's."""
        return self.name if self.kind == "token" else self.kind


LOCAL = Caller(LOCAL_NAME, frozenset(SCOPES), "local")


def scopes_of(text: str) -> frozenset[Scope]:
    """The scopes among words; a later version may have written others."""
    words = text.split()
    return frozenset(scope for scope in SCOPES if scope in words)
