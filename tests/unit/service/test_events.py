"""Events reach every listener; a slow one loses its oldest and nobody waits for it."""

from __future__ import annotations

import pytest

from service.events import QUEUE_LENGTH, REPLAYED, Broadcaster

pytestmark = pytest.mark.anyio


async def test_every_listener_hears_every_event_from_when_it_listens() -> None:
    events = Broadcaster()
    events.publish("round", {"stage": "before"})
    with events.listen() as one, events.listen() as other:
        events.publish("round", {"stage": "now"})
        for queue in (one, other):
            event = queue.get_nowait()
            assert event is not None
            assert (event.number, event.kind, event.data) == (2, "round", {"stage": "now"})
            assert queue.empty()
    assert events.listeners == 0


async def test_a_slow_listener_loses_the_oldest() -> None:
    events = Broadcaster()
    with events.listen() as queue:
        for _ in range(QUEUE_LENGTH + 5):
            events.publish("reports", {})
        first = queue.get_nowait()
        assert first is not None
        assert first.number == 6
        assert queue.qsize() == QUEUE_LENGTH - 1


def test_a_listener_that_comes_back_hears_what_it_missed() -> None:
    events = Broadcaster(begun_s=5)
    assert events.since(5 << 20) == []
    told = [events.publish("round", {"n": n}) for n in range(REPLAYED + 2)]
    assert told[0].number == (5 << 20) + 1
    assert events.since(told[-3].number) == told[-2:]
    assert events.since(told[1].number) == told[2:]
    assert events.since(told[-1].number) == []


def test_a_listener_of_an_earlier_process_or_of_too_long_ago_is_told_to_begin_again() -> None:
    earlier, events = Broadcaster(begun_s=5), Broadcaster(begun_s=6)
    old = earlier.publish("round", {})
    for unknown in (old.number, -1, (6 << 20) + 1):
        (event,) = events.since(unknown)
        assert (event.kind, event.number) == ("reset", 6 << 20)
    first, *_ = [events.publish("round", {}) for _ in range(REPLAYED + 2)]
    assert [event.kind for event in events.since(first.number)] == ["reset"]


async def test_listeners_are_limited_and_closing_ends_them() -> None:
    events = Broadcaster(most_listeners=1)
    assert not events.full
    with events.listen() as queue:
        assert events.full
        events.close()
        assert await queue.get() is None
    assert events.full
