"""What waits for the window is bounded; who is refused is told how long to wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from starlette.requests import Request

from api.admission import received
from service.ingest.intake import LONGEST_WAIT_S, ByteBudget, DrainRate, Intake
from service.metrics import IngestMetrics
from settings.errors import BusyError, StalledError

pytestmark = pytest.mark.anyio


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


class Rig:
    def __init__(self, limit_bytes: int = 100) -> None:
        self.registry = CollectorRegistry()
        self.clock = Clock()
        self.budget = ByteBudget(limit_bytes, metrics=IngestMetrics(self.registry), clock_s=self.clock)
        self.intake = Intake(self.budget, max_body_bytes=1000)

    def metric(self, name: str) -> float | None:
        return self.registry.get_sample_value(name)


def post(*chunks: bytes, told: int | None = None, then: str = "http.request") -> Request:
    """A request with these chunks; ``told`` is its Content-Length. Reading beyond them never ends."""
    headers = [] if told is None else [(b"content-length", str(told).encode())]
    left = list(chunks)

    async def receive() -> dict[str, Any]:
        if left:
            return {
                "type": "http.request",
                "body": left.pop(0),
                "more_body": bool(left) or then != "http.request",
            }
        if then == "http.disconnect":
            return {"type": "http.disconnect"}
        await asyncio.Event().wait()
        raise AssertionError

    return Request({"type": "http", "method": "POST", "headers": headers}, receive)


async def test_a_body_counts_until_its_block_ends() -> None:
    rig = Rig()
    async with received(rig.intake, post(b"a" * 30, b"b" * 10, told=40)) as body:
        assert body == b"a" * 30 + b"b" * 10
        assert rig.budget.held_bytes == 40
        assert rig.metric("ecntwin_ingest_pending_bytes") == 40
    assert rig.metric("ecntwin_ingest_pending_bytes") == 0


@pytest.mark.parametrize("told", [61, None])
async def test_a_body_without_room_is_refused_and_counts_nothing(told: int | None) -> None:
    rig = Rig()
    async with received(rig.intake, post(b"a" * 40, told=40)):
        with pytest.raises(BusyError, match=r"while (40|80) are waiting") as refused:
            async with received(rig.intake, post(b"b" * 40, b"b" * 21, told=told)):
                pass
        assert refused.value.retry_after_s == 1
        assert rig.budget.held_bytes == 40
        async with received(rig.intake, post(b"b" * 60, told=60)):
            assert rig.budget.held_bytes == 100
    assert rig.metric("ecntwin_ingest_refused_total") == 1


async def test_a_body_whose_length_is_told_is_refused_unread() -> None:
    rig = Rig()
    async with received(rig.intake, post(b"a" * 100, told=100)):
        with pytest.raises(BusyError):
            async with received(rig.intake, post(told=1)):  # reading it would not end
                pass


@pytest.mark.parametrize("told", [500, None])
async def test_one_body_larger_than_the_limit_is_taken_alone(told: int | None) -> None:
    rig = Rig()
    async with received(rig.intake, post(b"a" * 250, b"a" * 250, told=told)) as body:
        assert len(body) == 500
        with pytest.raises(BusyError):
            async with received(rig.intake, post(b"b", told=1)):
                pass
    async with received(rig.intake, post(b"b", told=1)):
        pass


async def test_a_body_that_no_limit_would_let_through_takes_no_room() -> None:
    rig = Rig()
    async with received(rig.intake, post(b"a", told=1001)):  # here the app's own limit would end it
        assert rig.budget.held_bytes == 0


async def test_what_is_announced_and_does_not_come_takes_no_room() -> None:
    rig = Rig()
    began = asyncio.Event()

    async def begun() -> AsyncIterator[bytes]:
        yield b"a" * 10
        began.set()
        await asyncio.Event().wait()

    async def announced() -> None:
        async with rig.intake.body("100", begun()):
            raise AssertionError("it never ends")

    waiting = asyncio.create_task(announced())
    await began.wait()
    async with received(rig.intake, post(b"b" * 90, told=90)):
        assert rig.budget.held_bytes == 100
    waiting.cancel()
    await asyncio.wait([waiting])
    assert rig.budget.held_bytes == 0


async def test_a_failed_body_gives_its_room_back() -> None:
    rig = Rig()
    with pytest.raises(ZeroDivisionError):
        async with received(rig.intake, post(b"a" * 40, told=40)):
            raise ZeroDivisionError
    assert rig.budget.held_bytes == 0


async def test_how_long_to_wait_is_told_by_how_fast_bytes_left() -> None:
    rig = Rig()
    async with AsyncExitStack() as open_bodies:
        async with received(rig.intake, post(b"a" * 40, told=40)):
            await open_bodies.enter_async_context(received(rig.intake, post(b"b" * 60, told=60)))
            rig.clock.now_s += 4.0  # 40 bytes in four seconds
        with pytest.raises(BusyError) as refused:
            async with received(rig.intake, post(told=95)):
                pass
        assert refused.value.retry_after_s == 6  # 55 bytes too many, 10 a second
        rig.clock.now_s += 10_000.0
        with pytest.raises(BusyError) as refused:
            async with received(rig.intake, post(told=95)):
                pass
        assert refused.value.retry_after_s == LONGEST_WAIT_S


async def test_a_body_that_takes_no_room_says_nothing_of_how_fast_bytes_leave() -> None:
    rig = Rig()
    rig.clock.now_s += 3_600  # nothing to do for an hour
    async with received(rig.intake, post(b"x", told=1001)):
        pass
    async with received(rig.intake, post(b"x" * 100, told=100)):
        rig.clock.now_s += 1
    async with received(rig.intake, post(b"x" * 100, told=100)):
        with pytest.raises(BusyError, match="send it again in 1 s"):
            await received(rig.intake, post(b"x" * 50, told=50)).__aenter__()


def test_the_rate_counts_busy_time_alone_and_forgets() -> None:
    drain = DrainRate()
    assert drain.rate(0.0) is None
    drain.began(0.0)
    drain.left(100, 1.0)
    drain.began(1_000.0)
    drain.left(100, 1_001.0)
    assert drain.rate(1_001.0) == pytest.approx(100.0)
    for second in range(60):
        drain.left(5, 1_002.0 + second)
    assert drain.rate(1_061.0) == pytest.approx(5.0, rel=0.1)


async def test_a_sender_that_goes_away_is_no_failure_of_the_service() -> None:
    rig = Rig()
    with pytest.raises(StalledError, match="3 bytes and then nothing;"):
        async with received(rig.intake, post(b"abc", told=10, then="http.disconnect")):
            pass
    assert rig.budget.held_bytes == 0
