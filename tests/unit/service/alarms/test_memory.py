"""What alarms ask of the database: whether it takes what is written, and what it did not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from service.alarms.checks import DatabaseHealth
from service.metrics import StorageMetrics


class World:
    """A database and a journal as a test wants them."""

    def __init__(self) -> None:
        self.database = SimpleNamespace(failing=None)
        self.journal = SimpleNamespace(known=True)
        self.recorder = SimpleNamespace(waiting=0)
        self.history = SimpleNamespace(lost=0)
        self.registry = CollectorRegistry()
        self.memory = DatabaseHealth(
            cast(Any, self.database),
            cast(Any, self.journal),
            cast(Any, self.recorder),
            cast(Any, self.history),
            metrics=StorageMetrics(self.registry),
        )

    def found(self) -> dict[str, tuple[float, str]]:
        return {one.subject.kind: (one.value, one.sentence) for one in self.memory.findings()}

    def metric(self, name: str) -> float | None:
        return self.registry.get_sample_value(name)


@pytest.fixture
def world() -> World:
    return World()


def test_all_is_well(world: World) -> None:
    assert {kind: value for kind, (value, _) in world.found().items()} == {"storage": 0, "history_lost": 0}
    assert world.memory.failing is None
    assert world.metric("ecntwin_storage_failing") == 0


def test_a_database_that_takes_nothing_keeps_switches_from_being_set(world: World) -> None:
    world.database.failing = "database or disk is full"
    value, sentence = world.found()["storage"]
    assert value == 1
    assert sentence.startswith("No switch is set: the database cannot be written (database or disk is full)")
    assert world.metric("ecntwin_storage_failing") == 1


def test_so_does_a_journal_that_could_not_be_read(world: World) -> None:
    world.journal.known = False
    value, sentence = world.found()["storage"]
    assert value == 1
    assert "what was begun is not known" in sentence
    assert world.metric("ecntwin_storage_failing") == 1


def test_what_is_lost_is_found_while_it_grows(world: World) -> None:
    world.history.lost = 7
    value, sentence = world.found()["history_lost"]
    assert (value, sentence[:9]) == (1, "7 entries")
    assert world.found()["history_lost"][0] == 0
    world.history.lost = 9
    assert world.found()["history_lost"][1].startswith("2 entries")
    assert world.metric("ecntwin_storage_dropped_total") == 9


def test_what_waits_is_told_as_it_is(world: World) -> None:
    for waiting in (3, 0):
        world.recorder.waiting = waiting
        assert world.metric("ecntwin_storage_waiting") == waiting
