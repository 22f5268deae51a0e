"""Coroutine tests run on asyncio, as the service does."""

from __future__ import annotations

import pytest

from tests.counterparts.databases import database_url, postgres

__all__ = ["anyio_backend", "database_url", "postgres"]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
