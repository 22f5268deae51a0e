"""``ecntwin token``: creates, lists and revokes tokens in the database, also while the service runs."""

from __future__ import annotations

import getpass
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from rich.text import Text

from cli.output import NONE, console, headed_table, print_json, print_line
from service.auth.tokens import Operator, checked_scopes, create, lifetime_ns, new_text, revoke
from service.documents.base import timestamp
from settings.errors import InputError
from settings.load import load_settings, with_storage
from settings.model import Settings
from store import token_rows
from store.database import Database
from store.token_rows import TokenRow


def create_token(
    config: Path | None, name: str, scopes: list[str], expires: str | None, *, as_json: bool
) -> None:
    """Prints the new token; only its hash is stored."""
    settings, chosen, by = _settings(config), checked_scopes(scopes), _maker()
    expires_ns = None if expires is None else by.now_ns + lifetime_ns(expires)
    taken, text = [one.name for one in settings.security.tokens], new_text()
    made = partial(create, name=name, text=text, scopes=chosen, expires_ns=expires_ns, taken=taken, by=by)
    with opened(settings) as database:
        row = database.write_now(made)
    if as_json:
        print_json(_document(row, by.now_ns) | {"token": text})
    else:
        print_line(text)


def list_tokens(config: Path | None, *, as_json: bool) -> None:
    settings, by = _settings(config), _maker()
    with opened(settings) as database:
        rows = database.read_now(token_rows.listed)
    documents = [_document(row, by.now_ns) for row in rows]
    if as_json:
        print_json({"tokens": documents})
        return
    table = headed_table("Tokens", "name", "scopes", "made", "by", "expires", "last used", "stands")
    for one in documents:
        cells = (one[key] or NONE for key in ("created", "created_by", "expires", "used"))
        table.add_row(Text(one["name"]), " ".join(one["scopes"]), *cells, one["stands"])
    console(wide=True).print(table)


def revoke_token(config: Path | None, name: str, *, as_json: bool) -> None:
    settings, by = _settings(config), _maker()
    with opened(settings) as database:
        row = database.write_now(partial(revoke, name=name, by=by))
    if as_json:
        print_json(_document(row, by.now_ns))
    else:
        print_line(f"{name} is revoked; a service that runs refuses it within a few seconds")


def stored_settings(config: Path | None, what: str, remedy: str) -> Settings:
    """Raises ``InputError`` without a database that outlives the service."""
    settings = with_storage(load_settings(config))
    if settings.storage.database is None:
        raise InputError(
            "settings storage.url",
            "memory",
            f"{what} in a database that the service has too",
            f"name one, such as sqlite:///ecntwin.db{remedy}",
        )
    return settings


def _settings(config: Path | None) -> Settings:
    return stored_settings(config, "tokens are kept", ", or configure security.tokens")


def _maker() -> Operator:
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # no name for this user id, as in a container
        user = "?"
    return Operator(f"command:{user}", time.time_ns())


@contextmanager
def opened(settings: Settings) -> Iterator[Database]:
    with closing(Database(settings.storage.database, alone=False)) as database:
        database.open()
        yield database


def _document(row: TokenRow, now_ns: int) -> dict[str, Any]:
    expired = row.expires_ns is not None and row.expires_ns <= now_ns
    return {
        "name": row.name,
        "scopes": row.scopes.split(),
        "created": timestamp(row.created_ns),
        "created_by": row.created_by,
        "expires": None if row.expires_ns is None else timestamp(row.expires_ns),
        "revoked": None if row.revoked_ns is None else timestamp(row.revoked_ns),
        "used": None if row.used_ns is None else timestamp(row.used_ns),
        "stands": "revoked" if row.revoked_ns is not None else "expired" if expired else "good",
    }
