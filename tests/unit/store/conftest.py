"""Databases for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from store.database import Database
from tests.counterparts.databases import database_url, postgres

__all__ = ["database", "database_url", "postgres"]


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """One that is open, of each kind."""
    with closing(Database(database_url)) as opened:
        opened.open()
        yield opened
