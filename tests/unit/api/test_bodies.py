"""The body limit counts what comes, and leaves other traffic alone; patience with senders ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.exceptions import HTTPException
from starlette.types import Message, Receive, Scope, Send

from api.bodies import BodyLimit, Patience
from settings.errors import StalledError, TooLargeError


async def reading(scope: Scope, receive: Receive, send: Send) -> None:
    while (await receive()).get("more_body"):
        pass


def sent(chunks: list[bytes], headers: list[tuple[bytes, bytes]] | None = None, kind: str = "http") -> None:
    messages = iter(
        {"type": "http.request", "body": chunk, "more_body": number < len(chunks) - 1}
        for number, chunk in enumerate(chunks)
    )

    async def receive() -> Message:
        return next(messages)

    async def send(message: Message) -> None:
        raise AssertionError("nothing is answered here")

    scope: dict[str, Any] = {"type": kind, "headers": headers or []}
    asyncio.run(BodyLimit(reading, limit_bytes=10)(scope, receive, send))


@pytest.mark.parametrize("chunks", [[b""], [b"x" * 10], [b"x" * 5, b"x" * 5]])
def test_a_body_within_the_limit_passes(chunks: list[bytes]) -> None:
    sent(chunks)


@pytest.mark.parametrize("chunks", [[b"x" * 11], [b"x" * 6, b"x" * 5]])
def test_a_body_over_the_limit_is_stopped(chunks: list[bytes]) -> None:
    with pytest.raises(HTTPException) as caught:
        sent(chunks)
    assert caught.value.status_code == 413
    assert isinstance(caught.value.__cause__, TooLargeError)


def test_a_declared_length_over_the_limit_is_stopped_before_it_comes() -> None:
    with pytest.raises(HTTPException):
        sent([b""], headers=[(b"content-length", b"11")])


def test_a_length_that_is_no_number_is_counted_instead() -> None:
    sent([b"x"], headers=[(b"content-length", b"-11")])


def test_what_is_no_request_passes() -> None:
    sent([b"x" * 99], kind="lifespan")


async def silence() -> Message:
    await asyncio.Event().wait()
    raise AssertionError


async def a_byte() -> Message:
    await asyncio.sleep(0.001)
    return {"type": "http.request", "body": b"a", "more_body": True}


@pytest.mark.parametrize("receive", [silence, a_byte])
def test_a_sender_of_next_to_nothing_is_not_waited_for(receive: Receive) -> None:
    async def main() -> None:
        patience = Patience(receive, stalled_s=0.05)
        while True:
            await patience.next()

    with pytest.raises(HTTPException) as caught:
        asyncio.run(asyncio.wait_for(main(), 60))
    assert caught.value.status_code == 408
    assert isinstance(caught.value.__cause__, StalledError)


def test_the_client_of_a_long_answer_is_listened_to_for_as_long_as_it_takes() -> None:
    async def main() -> Message:
        gone = asyncio.Event()
        messages = iter([{"type": "http.request", "body": b"all", "more_body": False}])

        async def receive() -> Message:
            for message in messages:
                return message
            await gone.wait()
            return {"type": "http.disconnect"}

        patience = Patience(receive, stalled_s=0.01)
        assert (await patience.next())["body"] == b"all"
        asyncio.get_running_loop().call_later(0.1, gone.set)  # ten times as long
        return await patience.next()

    assert asyncio.run(asyncio.wait_for(main(), 60))["type"] == "http.disconnect"
