"""A TCP relay in front of a counterpart, to disturb what passes; for any protocol over one connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.counterparts.background import Background


class Relay:
    """Listens on ``port`` of 127.0.0.1 and passes on to ``target``, a port there.

    ``changes(data)`` says of what a client sends whether it changes anything: while replies are lost, the
    connection ends in place of its answer.
    """

    def __init__(self, background: Background, target: int, changes: Callable[[bytes], bool]) -> None:
        self._background = background
        self._target = target
        self._changes = changes
        self._is_silent = False
        self._is_losing = False
        self._server = background.run(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port = int(self._server.sockets[0].getsockname()[1])

    @contextmanager
    def silent(self) -> Iterator[None]:
        """While inside, connections are taken, and nothing is passed on."""
        self._is_silent = True
        try:
            yield
        finally:
            self._is_silent = False

    @contextmanager
    def losing_replies(self) -> Iterator[None]:
        """While inside, changes are made and the connection ends in place of the answer."""
        self._is_losing = True
        try:
            yield
        finally:
            self._is_losing = False

    def close(self) -> None:
        """Takes no more connections."""
        self._background.loop.call_soon_threadsafe(self._server.close)

    async def _serve(self, client: asyncio.StreamReader, answer: asyncio.StreamWriter) -> None:
        ask: asyncio.StreamWriter | None = None
        try:
            server, ask = await asyncio.open_connection("127.0.0.1", self._target)
            lost = asyncio.Event()
            passing = {
                asyncio.create_task(self._asked(client, ask, lost)),
                asyncio.create_task(self._answered(server, answer, lost)),
            }
            _, pending = await asyncio.wait(passing, return_when=asyncio.FIRST_COMPLETED)
            for task in pending:
                task.cancel()
            await asyncio.gather(*passing, return_exceptions=True)
        except OSError:
            pass
        finally:
            answer.close()
            if ask is not None:
                ask.close()

    async def _asked(
        self, client: asyncio.StreamReader, ask: asyncio.StreamWriter, lost: asyncio.Event
    ) -> None:
        while data := await client.read(1 << 16):
            if self._is_silent:
                continue
            if self._is_losing and self._changes(data):
                lost.set()
            ask.write(data)
            await ask.drain()

    async def _answered(
        self, server: asyncio.StreamReader, answer: asyncio.StreamWriter, lost: asyncio.Event
    ) -> None:
        while data := await server.read(1 << 16):
            if lost.is_set():
                return
            answer.write(data)
            await answer.drain()
