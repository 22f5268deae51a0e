"""Bearer tokens of the settings and of the database, which ``ecntwin token`` creates and revokes.

Only their SHA-256 is stored. Slow hashes are for passwords that people choose; created tokens have 256 random
bits, so a fast one is right.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from sqlalchemy import Connection, inspect

from settings.errors import InputError, UnavailableError
from settings.security import RESERVED, SCOPES, Caller, Scope, TokenSettings, scopes_of
from store import audit_rows, token_rows
from store.audit_rows import AuditEntry
from store.connection import place_of
from store.database import Database, Recorder
from store.tables import tokens
from store.token_rows import TokenRow
from telemetry.settings import NS_PER_HOUR

WHERE = "Authorization header"  # of what a call's token is refused for


def holds_tokens(url: str | None) -> bool:
    """Whether the database at ``url`` (None: in memory) ever held a token; True where it cannot be read, so
    that calls without a token are refused. Changes nothing there: a service of an earlier version may run.
    Raises ``SettingsError``.
    """
    place = place_of(url)
    if not place.durable or (place.path is not None and not place.path.exists()):
        return False

    def any_token(connection: Connection) -> bool:
        return inspect(connection).has_table(tokens.name) and bool(token_rows.listed(connection))

    database = Database(url, alone=False, migrate=False)
    try:
        database.open()
        return database.read_now(any_token)
    except UnavailableError:
        return True
    finally:
        database.close()


@dataclass(frozen=True, slots=True)
class DatabaseTokens:
    """The valid tokens by hash, and when they expire (seconds since 1970) by name. ``ever``: any was created,
    revoked ones included; ``unread``: the database could not be read yet.
    """

    live: Mapping[str, Caller] = field(default_factory=dict)
    expires_s: Mapping[str, float] = field(default_factory=dict)
    ever: bool = False
    unread: bool = False


class KnownTokens:
    """Finds the caller of a token. ``TokenSync`` replaces ``stored`` as a whole."""

    def __init__(self, configured: Iterable[TokenSettings]) -> None:
        self._configured = {one.sha256: Caller(one.name, one.scopes) for one in configured}
        self.stored = DatabaseTokens()
        self.used: dict[str, float] = {}
        """By name, when tokens of the database were last used since ``note_used`` was called."""

    @property
    def any(self) -> bool:
        """Whether any token exists or existed: from then on every call needs one."""
        return bool(self._configured) or self.stored.ever or self.stored.unread

    def find(self, digest: str, now_s: float) -> Caller | None:
        """The caller of the token with that hash at ``now_s`` (seconds since 1970); tokens of the settings go
        first.
        """
        if (configured := self._configured.get(digest)) is not None:
            return configured
        found = self.stored.live.get(digest)
        if found is None or now_s >= self.stored.expires_s.get(found.name, float("inf")):
            return None
        self.used[found.name] = now_s
        return found


def digest_of(text: str) -> str:
    """The SHA-256 of a token, hex. A caller cannot choose it, so timing the lookup reveals no other token."""
    return hashlib.sha256(text.encode()).hexdigest()


READ_EVERY_S = 2.0
USED_EVERY_READS = 30

_log = logging.getLogger("ecntwin.access")


@dataclass
class TokenSync:
    """Keeps ``known`` in step with the database; while it is away, the tokens last read stay valid.
    ``wall_ns`` is nanoseconds since 1970.
    """

    known: KnownTokens
    database: Database
    recorder: Recorder
    wall_ns: Callable[[], int]

    def __post_init__(self) -> None:
        if self.database.durable:
            self.known.stored = DatabaseTokens(unread=True)  # until they are read, every call needs one

    async def read(self) -> None:
        """Reads the tokens; raises ``UnavailableError``."""
        before, rows = self.known.stored, await self.database.read(token_rows.listed)
        now_ns = self.wall_ns()
        live = [row for row in rows if row.revoked_ns is None and (row.expires_ns or now_ns + 1) > now_ns]
        self.known.stored = DatabaseTokens(
            live={row.sha256: Caller(row.name, scopes_of(row.scopes)) for row in live},
            expires_s={row.name: row.expires_ns / 1e9 for row in live if row.expires_ns is not None},
            ever=bool(rows),
        )
        if rows and not before.ever and not before.unread:
            _log.warning("a token was created: from now on this service requires one")

    async def run_forever(self) -> None:
        """Reads the tokens every few seconds, and records every minute or so which were used."""
        reads = 0
        while True:
            await asyncio.sleep(READ_EVERY_S)
            reads += 1
            try:
                await self.read()
            except UnavailableError:
                continue  # the database logs the failure
            if reads % USED_EVERY_READS == 0:
                self.note_used()

    def note_used(self) -> None:
        """Queues the times of use since the last call."""
        used, self.known.used = self.known.used, {}
        if used:
            at_ns = {name: round(at_s * 1e9) for name, at_s in used.items()}
            self.recorder.put(lambda connection: token_rows.used(connection, at_ns))


PREFIX = "ecntwin_"
RANDOM_BYTES = 32
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

_MOMENT = re.compile(r"([1-9]\d{0,4})([hdwy])")
_HOURS = {"h": 1, "d": 24, "w": 7 * 24, "y": 365 * 24}
_MOST_HOURS = 100 * _HOURS["y"]  # still fits into nanoseconds since 1970


@dataclass(frozen=True, slots=True)
class Operator:
    """The user of a command, and when it runs (nanoseconds since 1970)."""

    who: str
    now_ns: int


def new_text() -> str:
    """A new token: 256 random bits after a prefix that secret scanners can find."""
    return PREFIX + secrets.token_urlsafe(RANDOM_BYTES)


def lifetime_ns(text: str) -> int:
    """A lifetime such as 90d, in hours, days, weeks or years, at most 100y. Raises ``InputError``."""
    found = _MOMENT.fullmatch(text.strip())
    hours = None if found is None else int(found[1]) * _HOURS[found[2]]
    if hours is None or hours > _MOST_HOURS:
        raise InputError(
            "--expires",
            repr(text),
            "it is a number and h, d, w or y, 100y at most",
            "give such as 90d, or leave it out for a token that does not expire",
        )
    return hours * NS_PER_HOUR


def checked_scopes(given: Iterable[str]) -> frozenset[Scope]:
    """The scopes of ``--scope`` options, each one or several with commas. Raises ``InputError``."""
    named = [one.strip() for text in given for one in text.split(",") if one.strip()]
    unknown = [one for one in named if one not in SCOPES]
    if unknown or not named:
        raise InputError(
            "--scope",
            repr(unknown[0]) if unknown else "nothing",
            f"scopes are {', '.join(SCOPES)}",
            "give --scope for each",
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
    by: Operator,
) -> TokenRow:
    """Stores a new token; ``taken`` are the names in the settings. Raises ``InputError``."""
    if not NAME.fullmatch(name) or name in RESERVED:
        raise InputError(
            "token name",
            repr(name),
            "it has up to 64 letters, digits, dots, dashes and underscores, and names its user",
            "give another",
        )
    if name in set(taken) or token_rows.named(connection, name) is not None:
        raise InputError(
            "token name",
            repr(name),
            "a name is used once, so that the audit log identifies its user",
            "give another, such as one with a number",
        )
    words = " ".join(scope for scope in SCOPES if scope in scopes)
    row = TokenRow(name, digest_of(text), words, by.now_ns, by.who, expires_ns, None, None)
    token_rows.add(connection, row)
    after = f'{{"scopes":"{words}","expires_ns":{"null" if expires_ns is None else expires_ns}}}'
    audit_rows.add(
        connection, AuditEntry(by.now_ns, by.who, None, "token create", name, after=after, outcome="done")
    )
    return row


def revoke(connection: Connection, name: str, *, by: Operator) -> TokenRow:
    """Revokes a token. Raises ``InputError`` where it is unknown or revoked already."""
    found = token_rows.named(connection, name)
    if found is None or found.revoked_ns is not None:
        raise InputError(
            "token name",
            repr(name),
            "it is one of the database's, not revoked yet" if found is None else "it is revoked already",
            "ecntwin token list shows them; tokens of the settings are removed there",
        )
    token_rows.revoke(connection, name, by.now_ns)
    before = f'{{"scopes":"{found.scopes}"}}'
    audit_rows.add(
        connection, AuditEntry(by.now_ns, by.who, None, "token revoke", name, before=before, outcome="done")
    )
    return found._replace(revoked_ns=by.now_ns)
