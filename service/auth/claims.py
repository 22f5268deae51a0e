"""What a token's claims say here: who that is, and which scopes; must not know how they were verified."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from settings.callers import Caller, Scope
from settings.security import OidcSettings

LONGEST_NAME = 100


def caller_of(claims: Mapping[str, Any], settings: OidcSettings) -> Caller:
    """The caller that verified claims tell of; without any scope where none of its values is mapped."""
    scopes: set[Scope] = set()
    for value in words(claim(claims, settings.scope_claim)):
        scopes |= settings.scopes.get(value, frozenset())
    return Caller(f"oidc:{name_of(claims, settings.name_claim)}", frozenset(scopes), "oidc")


def claim(claims: Mapping[str, Any], name: str) -> object:
    """A claim by its own name, or by dots into objects; None where there is none."""
    if name in claims:
        return claims[name]
    found: object = claims
    for part in name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def words(value: object) -> list[str]:
    """A claim of several values: a list of texts, or one text with spaces between."""
    if isinstance(value, str):
        return value.split()
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def name_of(claims: Mapping[str, Any], name: str) -> str:
    """Who that is, as a log may show it; the subject where that claim tells nobody."""
    for one in (name, "sub"):
        value = claim(claims, one)
        if isinstance(value, str) and value.strip():
            shown = "".join(sign if sign.isprintable() else "?" for sign in value.strip())
            return shown[:LONGEST_NAME]
    return "?"
