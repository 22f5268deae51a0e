"""A task of the service goes on after what it does failed once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from service.switches.fleet import Fleet
from service.tuning import validity
from tests.integration.service import PATIENCE_S, Wanted, manual, running

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(("part", "name"), [(validity.Validity, "review"), (Fleet, "refresh_devices")])
async def test_a_failure_ends_no_task(part: type, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validity, "REVIEW_EVERY_S", 0.001)
    does, again, calls = getattr(part, name), asyncio.Event(), 0

    def fails_once(owner: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise ZeroDivisionError
        again.set()
        return does(owner)

    monkeypatch.setattr(part, name, fails_once)
    async with running(Wanted(settings=manual(push={"read_every_s": 0.001}))):
        await asyncio.wait_for(again.wait(), PATIENCE_S)
