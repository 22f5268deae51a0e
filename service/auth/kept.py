"""Whether a database holds tokens, asked before a service listens; never makes one."""

from __future__ import annotations

from settings.errors import UnavailableError
from store import token_rows
from store.connection import place_of
from store.database import Database


def holds_tokens(url: str | None) -> bool:
    """Whether any was ever made in the database at ``url`` (None: in memory). True where it is away: a
    service that cannot ask lets nobody in without a token. Raises ``SettingsError``.
    """
    place = place_of(url)
    if not place.durable or (place.path is not None and not place.path.exists()):
        return False
    database = Database(url, alone=False)
    try:
        database.open()
        return bool(database.read_now(token_rows.listed))
    except UnavailableError:
        return True
    finally:
        database.close()
