"""uvicorn with limits on the time and size of requests, and with certificates renewed while it runs.

All clients share one event loop, so input is parsed in small pieces and other clients get a turn in between.
"""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import struct
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

import httptools
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from api.answers import ALWAYS
from api.certificates import ServerTls
from api.problems import MEDIA_TYPE, problem
from settings.errors import (
    HeadTooLargeError,
    LineTooLongError,
    MalformedRequestError,
    RequestError,
    SettingsError,
)
from settings.model import ServerSettings

KEEP_ALIVE_S = 75
"""Keep-alive of idle connections, longer than that of clients and proxies (httpx 5 s, nginx 60 s).

Otherwise they would now and then send a request on a connection that is just being closed.
"""
LONGEST_TARGET = 8_192
"""Bytes of a path with its query; RFC 9112 requires at least 8000 for a request line."""

# Of heads and chunked bodies, parsed at once: the parser calls Python for every few bytes.
_PIECE_BYTES = 4_096
_LARGE_READ_BYTES = 65_536  # after one uvloop would keep reading from the same client
_RENEW_TICKS = 600  # uvicorn ticks ten times a second
_END_OF_HEAD = b"\r\n\r\n"
_REFUSED_S = 1.0
_BACKLOG = 2048
_AT_ONCE = struct.pack("ii", 1, 0)  # struct linger: on, 0 s


class PatientProtocol(HttpToolsProtocol):
    """uvicorn's protocol with limits; uvicorn itself has only a keep-alive timeout.

    Time: ``client_timeout_s`` for a request head, for the rest of a request answered early, and for a
    client that reads nothing of its answer. Slow bodies are the application's matter (``api.admission``).

    Size: a head over ``max_head_bytes`` or ``max_header_fields`` is answered 431, a target over
    ``LONGEST_TARGET`` 414, a chunked body whose framing exceeds its data by ``max_head_bytes`` 400; then the
    connection is closed. Pipelined requests are parsed one by one, each after the answer to the one before.
    """

    def __init__(
        self, *given: Any, client_timeout_s: float, max_head_bytes: int, max_header_fields: int, **named: Any
    ) -> None:
        super().__init__(*given, **named)
        self._client_timeout_s = client_timeout_s
        self._max_head_bytes = max_head_bytes
        self._max_header_fields = max_header_fields
        self._head_timer: asyncio.TimerHandle | None = None
        self._read_timer: asyncio.TimerHandle | None = None
        self._close_timer: asyncio.TimerHandle | None = None
        self._next_parse: asyncio.Handle | None = None
        self._received = b""
        self._parsed = 0  # bytes of _received
        self._in_head = True
        self._fields = 0
        self._extra_bytes = 0  # of the head; of a chunked body, beyond its data
        self._body_left = 0  # by Content-Length

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn's
        super().connection_made(transport)
        self.flow = _Flow(transport, self._continue)
        self._start_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_head_timer()
        self._stop_read_timer()
        for handle in (self._next_parse, self._close_timer):
            if handle is not None:
                handle.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._forget_parsed()
        self._received += data
        if self._next_parse is None:
            self._parse()
        if len(data) >= _LARGE_READ_BYTES and self._next_parse is None and not self.transport.is_closing():
            self.transport.pause_reading()
            self._next_parse = self.loop.call_soon(self._parse)

    def _parse(self) -> None:
        """Parses one piece; the rest in later turns of the event loop."""
        self._next_parse = None
        if self._may_parse() and self._parsed < len(self._received):
            self._unset_keepalive_if_required()
            error = self._feed(self._next_piece())
            if error is not None:
                self._refuse(error)
                return
            # uvicorn's keep-alive timer ends with the first bytes of a request; this one covers its head.
            cycle: RequestResponseCycle | None = self.cycle
            if cycle is None or cycle.response_complete:
                self._start_head_timer()
        if self._parsed < len(self._received) and not self.transport.is_closing():
            self.transport.pause_reading()
        self._continue()

    def _continue(self) -> None:
        if self._next_parse is not None or self.transport.is_closing() or self.flow.read_paused:
            return
        if self._parsed == len(self._received):
            self._forget_parsed()
            self.transport.resume_reading()
        elif self._may_parse():
            self._next_parse = self.loop.call_soon(self._parse)

    def _may_parse(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        unanswered = cycle is not None and not (cycle.response_complete or cycle.more_body)
        return not (unanswered or self.flow.read_paused or self.transport.is_closing())

    def _forget_parsed(self) -> None:
        """Drops parsed bytes except the last three, in which the end of a head may have begun."""
        kept = min(self._parsed, len(_END_OF_HEAD) - 1)
        self._received, self._parsed = self._received[self._parsed - kept :], kept

    def _next_piece(self) -> bytes:
        """The rest of a body of known length, else at most the end of one head."""
        begin, size = self._parsed, self._body_left
        if not size:
            end = self._received.find(_END_OF_HEAD, max(begin - 3, 0), begin + _PIECE_BYTES)
            size = _PIECE_BYTES if end < 0 else end + len(_END_OF_HEAD) - begin
        piece = self._received[begin : begin + size]
        self._parsed += len(piece)
        return piece

    def _feed(self, piece: bytes) -> RequestError | None:
        """Parses a piece; returns the error in it."""
        if not self._body_left:
            self._extra_bytes += len(piece)
            if self._extra_bytes > self._max_head_bytes:
                return self._too_much()
        try:
            self.parser.feed_data(piece)
        except httptools.HttpParserUpgrade:
            pass  # no other protocol is offered; the client continues with HTTP/1.1
        except httptools.HttpParserError as error:
            cause = error.__context__
            return cause if isinstance(cause, RequestError) else _malformed(None if cause else error)
        return None

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._fields = True, 0

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > LONGEST_TARGET:
            raise LineTooLongError(
                "request line",
                f"a target of more than {LONGEST_TARGET} bytes",
                f"a path with its query has at most {LONGEST_TARGET}",
                "ask for less at once",
            )

    def on_header(self, name: bytes, value: bytes) -> None:
        self._fields += 1
        if self._fields > self._max_header_fields:
            raise HeadTooLargeError(
                "request head",
                f"more than {self._max_header_fields} header fields",
                f"there are at most {self._max_header_fields} (server.max_header_fields)",
                "send fewer",
            )
        if self._in_head:  # trailers are ignored: the application has seen the headers
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._stop_head_timer()
        self._in_head, self._extra_bytes = False, 0
        named = dict(self.headers)
        chunked = b"transfer-encoding" in named
        if not chunked:
            self._body_left = int(named.get(b"content-length", b"0"))
        if self.parser.should_upgrade() and (chunked or self._body_left):
            # The parser would take the body for the next request.
            raise MalformedRequestError(
                "request head", "Upgrade with a body", "only HTTP/1.1 is served here", "leave Upgrade out"
            )
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if self._body_left:
            self._body_left -= len(body)
        else:
            self._extra_bytes = max(self._extra_bytes - 2 * len(body), 0)
        super().on_body(body)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._in_head, self._extra_bytes, self._body_left = True, 0, 0

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._continue()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._expect_reading(self.transport.get_write_buffer_size())

    def _expect_reading(self, waiting_bytes: int) -> None:
        """Ends the connection if none of these bytes is read in time."""

        def over() -> None:
            left = self.transport.get_write_buffer_size()
            self._expect_reading(left) if left < waiting_bytes else self._end()

        self._stop_read_timer()
        self._read_timer = self.loop.call_later(self._client_timeout_s, over)

    def resume_writing(self) -> None:
        self._stop_read_timer()
        super().resume_writing()

    def _too_much(self) -> RequestError:
        limit = f"{self._max_head_bytes} bytes"
        if self._in_head:
            return HeadTooLargeError(
                "request head",
                f"more than {limit}",
                f"request line and header fields together have at most {limit} (server.max_head_bytes)",
                "send less",
            )
        return MalformedRequestError(
            "request body",
            f"chunk sizes, extensions and trailers of {limit} more than the data in it",
            "a chunked body is mostly data",
            "send larger chunks",
        )

    def _refuse(self, error: RequestError) -> None:
        """Answers with the problem and closes without reading further."""
        cycle: RequestResponseCycle | None = self.cycle
        if (
            cycle is not None
            and not cycle.response_complete
            and (cycle.response_started or not cycle.more_body)
        ):
            self._end()  # the client would take this for the answer to the previous request
            return
        content = json.dumps(problem(error)).encode()
        headers = {
            **ALWAYS,
            "Cache-Control": "no-store",
            "Content-Type": MEDIA_TYPE,
            "Content-Length": str(len(content)),
            "Connection": "close",
        }
        lines = "".join(f"{name.lower()}: {value}\r\n" for name, value in headers.items())
        self.transport.write(STATUS_LINE[error.status] + lines.encode() + b"\r\n" + content)
        self.transport.close()
        # Over TLS, close() waits for a peer that keeps sending.
        self._close_timer = self.loop.call_later(_REFUSED_S, self._end)

    def _start_head_timer(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(self._client_timeout_s, self._end)

    def _end(self) -> None:
        """Resets the connection: unread output would otherwise stay in the kernel's buffer for minutes."""
        made = self.transport.get_extra_info("socket")
        if made is not None:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        self.transport.abort()

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _stop_read_timer(self) -> None:
        if self._read_timer is not None:
            self._read_timer.cancel()
            self._read_timer = None


class _Flow(FlowControl):
    """Resumes reading only after the received bytes are parsed."""

    def __init__(self, transport: asyncio.Transport, resume: Callable[[], None]) -> None:
        super().__init__(transport)
        self._resume = resume

    def resume_reading(self) -> None:
        if self.read_paused:
            self.read_paused = False
            self._resume()


def _malformed(error: httptools.HttpParserError | None) -> MalformedRequestError:
    """``error`` is the parser's; None for an internal error, whose text is hidden."""
    why = f" ({str(error)[:80].rstrip('.')})" if error is not None else ""
    return MalformedRequestError(
        "request", f"what is no HTTP/1.1{why}", "a request is as RFC 9112 says", "correct the client"
    )


class ListeningServer(uvicorn.Server):
    """uvicorn under ``ServerSettings``; loads replaced certificates while it runs."""

    def __init__(self, app: ASGIApp, server: ServerSettings, tls: ServerTls | None) -> None:
        super().__init__(uvicorn.Config(app, **options(server, tls)))
        self._tls = tls

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Excludes what start-up allocated from garbage collection, which would take 0.2 s each time."""
        await super().startup(sockets)
        gc.collect()
        gc.freeze()

    async def on_tick(self, counter: int) -> bool:
        if self._tls is not None and counter % _RENEW_TICKS == 0:
            self._tls.renew()
            self._tls.warn(time.time())
        return await super().on_tick(counter)


def listening(host: str, port: int, *, share_port: bool | None = None) -> socket.socket:
    """A listening socket, with ``share_port`` (None: nothing offers it) under SO_REUSEPORT; raises
    ``SettingsError``.
    """
    with ExitStack() as opened:
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            listener = opened.enter_context(socket.socket(family, kind, protocol))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if share_port:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            listener.bind(address)
            listener.listen(_BACKLOG)
        except OSError as error:
            said = (error.strerror or str(error)).lower()
            shared = share_port is not None
            raise SettingsError(
                "address to listen on",
                f"{host} port {port} ({said})",
                f"the address is this machine's and the port free{', or shared by all its users' * shared}",
                "choose another" + ", or give each process --share-port" * shared,
            ) from error
        opened.pop_all()
    return listener


def options(server: ServerSettings, tls: ServerTls | None) -> dict[str, Any]:
    """The uvicorn configuration of ``ServerSettings``."""
    return {
        "http": partial(
            PatientProtocol,
            client_timeout_s=server.client_timeout_s,
            max_head_bytes=server.max_head_bytes,
            max_header_fields=server.max_header_fields,
        ),
        "ws": "none",
        "host": server.host,
        "port": server.port,
        "access_log": server.access_log,
        "log_config": None,
        "server_header": False,
        "timeout_keep_alive": KEEP_ALIVE_S,
        "timeout_graceful_shutdown": server.shutdown_grace_s,
        # uvicorn's default would trust every process on this machine.
        "proxy_headers": bool(server.trusted_proxies),
        "forwarded_allow_ips": list(server.trusted_proxies),
    } | ({} if tls is None else {"ssl_context_factory": lambda *_: tls.context})
