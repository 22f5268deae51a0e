"""Coroutine tests run on asyncio, as the service does."""

from __future__ import annotations

import pytest

from tests.counterparts.databases import database_url, postgres
from tests.integration.service import PATIENCE_S

__all__ = ["anyio_backend", "database_url", "postgres"]


@pytest.fixture(scope="session")  # so that tests of a file may share a service
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def answered_once_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """An approval is answered once its rollout has ended, however long that takes here."""
    monkeypatch.setattr("service.tuning.approvals.ANSWER_WITHIN_S", PATIENCE_S)
