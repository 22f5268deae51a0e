"""Tokens made, listed and revoked in the database, each with its entry in the audit log; asks nobody."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import Connection

from service.auth.known_tokens import digest_of
from settings.callers import LOCAL_NAME, SCOPES, Scope
from settings.errors import InputError
from store import audit_rows, token_rows
from store.audit_rows import AuditEntry
from store.token_rows import TokenRow

PREFIX = "ecntwin_"
RANDOM_BYTES = 32
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
RESERVED = (LOCAL_NAME, "policy")

_MOMENT = re.compile(r"([1-9]\d{0,4})([hdwy])")
_HOURS = {"h": 1, "d": 24, "w": 7 * 24, "y": 365 * 24}
_MOST_HOURS = 100 * _HOURS["y"]  # what every database can hold as nanoseconds since 1970


@dataclass(frozen=True, slots=True)
class Maker:
    """Whoever runs a command, and when (nanoseconds since 1970)."""

    who: str
    now_ns: int


def new_text() -> str:
    """The text of a new token: 256 random bits, and a prefix that those find who look for leaked secrets."""
    return PREFIX + secrets.token_urlsafe(RANDOM_BYTES)


def lifetime_ns(text: str) -> int:
    """Such as 90d: hours, days, weeks or years, of together 100 years at most. Raises ``InputError``."""
    found = _MOMENT.fullmatch(text.strip())
    hours = None if found is None else int(found[1]) * _HOURS[found[2]]
    if hours is None or hours > _MOST_HOURS:
        raise InputError(
            "--expires",
            repr(text),
            "it is a number and h, d, w or y, 100y at most",
            "give such as 90d, or leave it out for a token that does not expire",
        )
    return hours * 3_600 * 10**9


def checked_scopes(given: Iterable[str]) -> frozenset[Scope]:
    """Scopes as options name them, several in one where commas are between. Raises ``InputError``."""
    named = [one.strip() for text in given for one in text.split(",") if one.strip()]
    unknown = [one for one in named if one not in SCOPES]
    if unknown or not named:
        raise InputError(
            "--scope",
            repr(unknown[0]) if unknown else "nothing",
            f"scopes are {', '.join(SCOPES)}",
            "give --scope for each that the token shall hold",
        )
    return frozenset(scope for scope in SCOPES if scope in named)


def create(
    connection: Connection,
    name: str,
    text: str,
    scopes: frozenset[Scope],
    *,
    expires_ns: int | None,
    taken: Iterable[str],
    by: Maker,
) -> TokenRow:
    """Writes a new token down; ``taken`` are names of others. Raises ``InputError``."""
    if not NAME.fullmatch(name) or name in RESERVED:
        raise InputError(
            "token name",
            repr(name),
            "it has up to 64 letters, digits, dots, dashes and underscores, and says whose it is",
            "give another",
        )
    if name in set(taken) or token_rows.named(connection, name) is not None:
        raise InputError(
            "token name",
            repr(name),
            "a name is used once, so that the audit log says who that was",
            "give another, such as one with a number",
        )
    words = " ".join(scope for scope in SCOPES if scope in scopes)
    row = TokenRow(name, digest_of(text), words, by.now_ns, by.who, expires_ns, None, None)
    token_rows.add(connection, row)
    after = f'{{"scopes":"{words}","expires_ns":{"null" if expires_ns is None else expires_ns}}}'
    audit_rows.add(
        connection,
        AuditEntry(by.now_ns, by.who, None, "token create", name, after=after, outcome="done"),
    )
    return row


def revoke(connection: Connection, name: str, *, by: Maker) -> TokenRow:
    """Ends a token. Raises ``InputError`` where there is none of that name, or it has ended."""
    found = token_rows.named(connection, name)
    if found is None or found.revoked_ns is not None:
        raise InputError(
            "token name",
            repr(name),
            "it is one of the database's, not revoked yet" if found is None else "it is revoked once",
            "ecntwin token list shows them; those of the settings end in the settings",
        )
    token_rows.revoke(connection, name, by.now_ns)
    before = f'{{"scopes":"{found.scopes}"}}'
    audit_rows.add(
        connection,
        AuditEntry(by.now_ns, by.who, None, "token revoke", name, before=before, outcome="done"),
    )
    return found._replace(revoked_ns=by.now_ns)
