from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.unit.service.rollouts.world import World, world


@pytest.fixture
async def here() -> AsyncIterator[World]:
    made = world()
    yield made
    await made.stop()
