"""The pace at which a switch is asked, and what becomes of one that is slow."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from service.polling.poller import PolledSource, PollSchedule
from service.polling.sonic import SonicReader
from switches.device import Device
from switches.errors import UnreachableError
from telemetry.decode.body import Polled
from tests.counterparts.dripping import dripping

pytestmark = pytest.mark.anyio

PATIENCE_S = 60.0
DEVICE = Device(name="leaf1", platform="sonic", address="127.0.0.1", timeout_s=PATIENCE_S)
HASTY = replace(DEVICE, timeout_s=0.2)


class Told:
    """A reader that answers when it may."""

    def __init__(self) -> None:
        self.may = threading.Event()
        self.may.set()
        self.aborted = threading.Event()
        self.begun = threading.Semaphore(0)
        self.lock = threading.Lock()
        self.reads = 0
        self.at_once = 0
        self.most_at_once = 0
        self.closed = False

    def read(self) -> Polled:
        with self.lock:
            self.reads += 1
            self.at_once += 1
            self.most_at_once = max(self.at_once, self.most_at_once)
        self.begun.release()
        self.may.wait(PATIENCE_S)
        with self.lock:
            self.at_once -= 1
        if self.aborted.is_set():
            raise UnreachableError(DEVICE.where, "its end", "it goes on", "wait")
        return Polled(())

    def abort(self) -> None:
        self.aborted.set()
        self.may.set()

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool


@pytest.fixture
async def turns(threads: ThreadPoolExecutor) -> PollSchedule:
    return PollSchedule(0.05, threads, asyncio.Semaphore(2))


async def happened(event: threading.Semaphore) -> None:
    assert await asyncio.to_thread(event.acquire, timeout=PATIENCE_S)


async def answers(polling: PolledSource, reader: Told) -> None:
    """It gives counters again, as soon as the thread of the last look has ended."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            reader.aborted.clear()
            try:
                await polling.next_counters()
            except UnreachableError:
                continue
            return


async def test_looks_keep_their_pace(turns: PollSchedule) -> None:
    reader = Told()
    polling = PolledSource(DEVICE, reader, turns, first_after_s=0.01)
    loop = asyncio.get_running_loop()
    began_s, times = loop.time(), []
    for _ in range(4):
        await polling.next_counters()
        times.append(loop.time() - began_s)
    # Never early; how late depends on the machine.
    for number, at_s in enumerate(times):
        assert at_s >= 0.01 + 0.05 * number - 0.005
    await polling.close()
    assert reader.closed


async def test_no_more_are_asked_at_once_than_may_be(turns: PollSchedule) -> None:
    reader = Told()
    reader.may.clear()
    each = [PolledSource(DEVICE, reader, turns) for _ in range(6)]
    looks = [asyncio.create_task(polling.next_counters()) for polling in each]
    for _ in range(2):
        await happened(reader.begun)
    reader.may.set()
    await asyncio.gather(*looks)
    assert (reader.reads, reader.most_at_once) == (6, 2)


async def test_a_switch_that_takes_too_long_is_given_up(turns: PollSchedule) -> None:
    reader = Told()
    reader.may.clear()
    polling = PolledSource(HASTY, reader, turns)
    with pytest.raises(UnreachableError):
        await polling.next_counters()
    assert reader.aborted.is_set()
    await answers(polling, reader)
    await polling.close()


async def test_one_that_cannot_be_ended_holds_no_more_than_its_thread(turns: PollSchedule) -> None:
    reader = Told()
    reader.may.clear()
    reader.abort = lambda: None  # type: ignore[method-assign]
    polling = PolledSource(HASTY, reader, turns)
    for _ in range(3):
        with pytest.raises(UnreachableError, match=r"no counters within 0\.2 s"):
            await polling.next_counters()
    await happened(reader.begun)
    assert reader.reads == 1
    reader.may.set()
    await answers(polling, reader)
    await polling.close()


async def test_a_redis_that_drips_is_given_up_as_a_whole(turns: PollSchedule) -> None:
    with dripping(b"+O", every_s=0.02, byte=b"K") as port:
        device = Device(name="leaf1", platform="sonic", address="127.0.0.1", port=port, timeout_s=0.3)
        polling = PolledSource(device, SonicReader(device), turns)
        for _ in range(2):
            # Its client may also see that something came before it asked.
            with pytest.raises(UnreachableError, match=r"within 0\.3 s|Connection not ready"):
                await polling.next_counters()
        await polling.close()


async def test_it_ends_in_the_middle_of_a_look(turns: PollSchedule) -> None:
    reader = Told()
    reader.may.clear()
    polling = PolledSource(DEVICE, reader, turns)
    look = asyncio.create_task(polling.next_counters())
    await happened(reader.begun)
    look.cancel()
    await asyncio.wait({look})
    await polling.close()
    assert reader.aborted.is_set()
    assert reader.closed
