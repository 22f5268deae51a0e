"""Revisions of the declared topology and the inventory."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any, Literal

from sqlalchemy import Connection

from settings.errors import NotFoundError
from store import revisions
from store.database import Database
from store.revisions import Revision

FROM_SETTINGS = "settings"
Kind = Literal["topology", "inventory"]


class Revisions:
    """``wall_ns`` is nanoseconds since 1970. Raises ``UnavailableError`` wherever the database is away."""

    def __init__(self, database: Database, *, wall_ns: Callable[[], int]) -> None:
        self._database = database
        self._wall_ns = wall_ns

    async def declared(self, kind: Kind, document: dict[str, Any], by: str) -> None:
        """Saves a document, where it differs from the newest of its kind."""
        await self.loaded(kind, _text(document), by)

    async def loaded(self, kind: Kind, text: str, by: str) -> None:
        """Saves a text, where it differs from the newest of its kind."""

        def add(connection: Connection) -> None:
            newest = revisions.newest(connection, kind)
            if newest is None or newest.sha256 != _sha256(text):
                self._add(connection, kind=kind, text=text, by=by)

        await self._database.write(add)

    async def restored(self, kind: Kind, document: dict[str, Any] | None, by: str) -> dict[str, Any] | None:
        """What is valid at a start with ``document`` in the settings.

        That one, where the settings have changed since the last start; else the newest of its kind.
        """

        def take(connection: Connection) -> dict[str, Any] | None:
            if document is not None:
                of_settings = revisions.newest(connection, kind, by)
                if of_settings is None or of_settings.sha256 != _sha256(_text(document)):
                    self._add(connection, kind=kind, text=_text(document), by=by)
                    return document
            newest = revisions.newest(connection, kind)
            return document if newest is None else json.loads(newest.document)

        return await self._database.write(take)

    async def listed(self, kind: Kind | None, limit: int) -> list[Revision]:
        """The newest first."""
        return await self._database.read(lambda connection: revisions.listed(connection, kind, limit))

    async def one(self, number: int) -> Revision:
        """Raises ``NotFoundError``."""
        found = await self._database.read(lambda connection: revisions.one(connection, number))
        if found is None:
            raise NotFoundError(f"revision {number}", None, "not found", "list them at /v1/revisions")
        return found

    def _add(self, connection: Connection, *, kind: Kind, text: str, by: str) -> None:
        revisions.add(
            connection, kind=kind, at_ns=self._wall_ns(), by=by, sha256=_sha256(text), document=text
        )


def _text(document: dict[str, Any]) -> str:
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
