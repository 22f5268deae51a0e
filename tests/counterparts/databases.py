"""Fixtures: the same tests on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.counterparts.postgres_server import PostgresServer


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A server of the whole session's: who stops it starts it again."""
    server = PostgresServer()
    yield server
    server.close()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A new, empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/ecntwin.db"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.url()
