"""HTTP connections that wait for nobody for ever: neither for a request that comes a byte now and then, nor
for an answer to be read; must not know what is asked.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

_AT_ONCE = struct.pack("ii", 1, 0)  # struct linger: on, for no time


class PatientProtocol(HttpToolsProtocol):
    """uvicorn's, which knows one time limit alone: between an answer and the first byte of the next request.

    A connection is ended where the head of a request, or what is left of one that was answered before it had
    come whole, takes longer than ``client_timeout_s``, and where nothing of an answer is read for so long.
    Of bodies the application knows what is too slow (``api.bodies``).
    """

    def __init__(self, *given: Any, client_timeout_s: float, **named: Any) -> None:
        super().__init__(*given, **named)
        self._client_timeout_s = client_timeout_s
        self._until_asked: asyncio.TimerHandle | None = None
        self._until_read: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn's
        super().connection_made(transport)
        self._await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self._asked()
        self._read()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        # Its first bytes end the other limit.
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None or cycle.response_complete:
            self._await_request()

    def on_headers_complete(self) -> None:
        self._asked()
        super().on_headers_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._read()
        self._until_read = self._later()

    def resume_writing(self) -> None:
        self._read()
        super().resume_writing()

    def _await_request(self) -> None:
        if self._until_asked is None:
            self._until_asked = self._later()

    def _later(self) -> asyncio.TimerHandle:
        return self.loop.call_later(self._client_timeout_s, self._end)

    def _end(self) -> None:
        """At once: what is not read cannot be flushed, and the kernel would hold it for minutes."""
        made = self.transport.get_extra_info("socket")
        if made is not None:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        self.transport.abort()

    def _asked(self) -> None:
        if self._until_asked is not None:
            self._until_asked.cancel()
            self._until_asked = None

    def _read(self) -> None:
        if self._until_read is not None:
            self._until_read.cancel()
            self._until_read = None
