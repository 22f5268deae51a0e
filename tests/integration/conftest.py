"""What tests of the service in this process share."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.counterparts.databases import database_url, postgres
from tests.integration.service import PATIENCE_S, Running, running

__all__ = ["database_url", "postgres"]


@pytest.fixture
async def here() -> AsyncIterator[Running]:
    async with running() as started:
        yield started


@pytest.fixture
def answered_once_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """An approval is answered once its rollout has ended, however long that takes here."""
    monkeypatch.setattr("service.tuning.approvals.ANSWER_WITHIN_S", PATIENCE_S)
