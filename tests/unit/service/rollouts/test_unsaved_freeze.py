"""A freeze that the database could not take: it holds, and is written down once it can be."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from service.rollouts import manager
from settings.errors import UnavailableError
from store.journal import FREEZE
from tests.unit.service.rollouts.world import PATIENCE_S, World, until, world

pytestmark = pytest.mark.anyio


async def frozen_unsaved(here: World) -> None:
    here.journal.broken = True
    with pytest.raises(UnavailableError, match="the freeze holds, but is not saved"):
        await here.rollouts.set_freeze(True, "eve")
    assert (here.rollouts.freeze.frozen, here.rollouts.freeze.saved) == (True, False)


@pytest.mark.parametrize("ends", ["later", "before it is tried again"])
async def test_it_outlasts_a_restart_once_the_database_is_back(
    tmp_path: Path, ends: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manager, "PAUSE_S", 0.001 if ends == "later" else PATIENCE_S)
    here = world(url=f"sqlite:///{tmp_path}/journal.db")
    await frozen_unsaved(here)
    if ends == "later":
        await until(lambda: here.journal.refusals > 2)  # it tries again, in vain
        assert not here.rollouts.freeze.saved
    here.journal.broken = False
    if ends == "later":
        await until(lambda: here.rollouts.freeze.saved)
    frozen = here.rollouts.freeze
    await here.stop()
    again = world(url=f"sqlite:///{tmp_path}/journal.db")
    await again.rollouts.resume()
    assert (again.rollouts.freeze, again.rollouts.freeze.saved) == (frozen, True)
    assert (frozen.frozen, frozen.by) == (True, "eve")
    await again.stop()


async def test_that_a_service_ends_without_it_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    here = world()
    await frozen_unsaved(here)
    await here.stop()
    assert "the freeze by eve ends here: the database could not be written" in caplog.text


async def test_it_is_not_written_down_behind_a_thaw(here: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manager, "PAUSE_S", 0.001)
    await frozen_unsaved(here)
    here.journal.broken, append, gate = False, here.journal.append, asyncio.Event()
    asked: list[bytes] = []

    async def slow(subject: str, at_s: float, document: bytes) -> None:
        asked.append(document)
        await gate.wait()
        await append(subject, at_s, document)

    monkeypatch.setattr(here.journal, "append", slow)
    thaw = asyncio.create_task(here.rollouts.set_freeze(False, "ada"))
    await until(lambda: asked)
    await asyncio.sleep(0.05)  # in which it would be tried again
    gate.set()
    assert not (await thaw).frozen
    await until(lambda: all(task.get_name() != "save-freeze" for task in asyncio.all_tasks()))
    entries = [entry.document for entry in here.journal.read() if entry.subject == FREEZE]
    assert entries[-1] == '{"frozen": false, "by": "ada"}'
    assert not here.rollouts.freeze.frozen
