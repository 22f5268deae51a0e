"""Work for a client who stays, and for one who goes."""

from __future__ import annotations

import asyncio

import pytest
from starlette.requests import Request
from starlette.types import Message

from api.deps import unless_gone


def request(*, leaves: asyncio.Event) -> Request:
    async def receive() -> Message:
        await leaves.wait()
        return {"type": "http.disconnect"}

    return Request({"type": "http", "method": "POST", "headers": []}, receive)


def test_one_who_stays_gets_what_was_made() -> None:
    async def main() -> int | None:
        async def work() -> int:
            await asyncio.sleep(0)
            return 7

        return await unless_gone(request(leaves=asyncio.Event()), work())

    assert asyncio.run(main()) == 7


def test_what_the_work_raises_is_raised() -> None:
    async def main() -> None:
        async def work() -> None:
            raise LookupError("nothing there")

        await unless_gone(request(leaves=asyncio.Event()), work())

    with pytest.raises(LookupError, match="nothing there"):
        asyncio.run(main())


def test_who_goes_ends_the_work_and_waits_for_its_end() -> None:
    async def main() -> tuple[object, list[str], int]:
        leaves, told = asyncio.Event(), list[str]()

        async def work() -> int:
            leaves.set()
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                told.append("cleaned up")
            return 7

        found = await unless_gone(request(leaves=leaves), work())
        return found, told, len(asyncio.all_tasks())

    assert asyncio.run(main()) == (None, ["cleaned up"], 1)
