"""A task of the service goes on after what it does failed once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from service.tuning import validity
from tests.integration.service import PATIENCE_S, Wanted, manual, running

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(("part", "name"), [("validity", "review"), ("fleet", "refresh_devices")])
async def test_a_failure_ends_no_task(part: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validity, "REVIEW_EVERY_S", 0.001)
    async with running(Wanted(settings=manual(push={"read_every_s": 0.001}))) as here:
        owner, again, calls = getattr(here.service, part), asyncio.Event(), 0
        does = getattr(owner, name)

        def fails_once() -> Any:
            nonlocal calls
            calls += 1
            if calls == 1:
                raise ZeroDivisionError
            again.set()
            return does()

        monkeypatch.setattr(owner, name, fails_once)
        await asyncio.wait_for(again.wait(), PATIENCE_S)
