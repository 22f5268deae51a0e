"""What a connection reads of a request head and of a chunked body, and what it says to more."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.server import ServerState

from api.server import PatientProtocol, options
from settings.model import ServerSettings

pytestmark = pytest.mark.anyio

PATIENCE_S = 120.0
HEAD_BYTES = 16_384
FIELDS = 20
SETTINGS = ServerSettings(max_head_bytes=HEAD_BYTES, max_header_fields=FIELDS, client_timeout_s=PATIENCE_S)
ENDLESS = 4 * HEAD_BYTES


class Echo:
    """Answers with the size of the body, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Scope] = []
        self.unanswered = 0
        self.most_unanswered = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.asked.append(scope)
        self.unanswered += 1
        self.most_unanswered = max(self.most_unanswered, self.unanswered)
        size, more = 0, True
        while more:
            message = await receive()
            assert message["type"] == "http.request"
            size += len(message["body"])
            more = message["more_body"]
        content = str(size).encode()
        headers = [(b"content-length", str(len(content)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": content})
        self.unanswered -= 1


class Peer:
    """The other end of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def send(self, *parts: bytes) -> None:
        for part in parts:
            self.writer.write(part)
            await self.writer.drain()

    async def answer(self) -> tuple[int, bytes]:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode().lower()
        lines = head.split("\r\n")
        length = next(int(line.split(":")[1]) for line in lines if line.startswith("content-length"))
        return int(lines[0].split()[1]), await self.reader.readexactly(length)

    async def problem(self) -> dict[str, Any]:
        status, content = await self.answer()
        document: dict[str, Any] = json.loads(content)
        assert document["status"] == status
        return document

    async def sends_until_closed(self, bytes_: bytes) -> int:
        """Sends them again and again; how many bytes were taken until the connection ended."""
        taken = 0
        try:
            while True:
                await self.send(bytes_)
                taken += len(bytes_)
        except ConnectionError:
            return taken

    async def is_closed(self) -> bool:
        try:
            return await self.reader.read() == b""
        except ConnectionError:
            return True


@asynccontextmanager
async def connected(app: Echo) -> AsyncIterator[Peer]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(app, **options(SETTINGS, None), lifespan="off"))
        serving = asyncio.create_task(server.serve([listening]))
        async with asyncio.timeout(PATIENCE_S):
            reader, writer = await asyncio.open_connection(*listening.getsockname())
            try:
                yield Peer(reader, writer)
            finally:
                writer.transport.abort()
                server.should_exit = True
                await serving


def get(*fields: str, target: str = "/") -> bytes:
    return "\r\n".join([f"GET {target} HTTP/1.1", "Host: x", *fields, "", ""]).encode()


CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("beginning", "endless", "status"),
    [
        (b"GET / HTTP/1.1\r\nX: ", b"a" * ENDLESS, 431),
        (b"GET / HTTP/1.1\r\n", b"a" * ENDLESS, 431),
        (b"GET / HTTP/1.1\r\n", b"a: b\r\n" * ENDLESS, 431),
        (b"GET /", b"a" * ENDLESS, 414),
        (b"GET /?", b"a=1&" * ENDLESS, 414),
        (b"", b"\r\n" * ENDLESS, 431),
        (CHUNKED + b"1;x=", b"a" * ENDLESS, 400),
        (CHUNKED, b"0" * ENDLESS, 400),
        (CHUNKED, b"1\r\na\r\n" * ENDLESS, 400),
        (CHUNKED + b"0\r\nx: ", b"a" * ENDLESS, 400),
        (CHUNKED + b"0\r\n", b"a: b\r\n" * ENDLESS, 431),
        # The length belongs to nothing: what follows would be a head.
        (b"CONNECT x:1 HTTP/1.1\r\nContent-Length: 10000000000\r\n\r\n", b"\r\n" * ENDLESS, 400),
    ],
    ids=[
        "value", "name", "fields", "target", "query", "blank lines", "extension", "size", "tiny chunks",
        "trailer", "trailers", "connect",
    ],
)  # fmt: skip
async def test_what_has_no_end_is_refused_and_not_read_on(
    beginning: bytes, endless: bytes, status: int
) -> None:
    async with connected(Echo()) as peer:
        await peer.send(beginning)
        sending = asyncio.create_task(peer.sends_until_closed(endless))
        problem = await peer.problem()
        assert problem["status"] == status
        assert problem["detail"].startswith("request")
        await sending
        assert await peer.is_closed()


async def test_a_head_at_the_limits_is_taken_and_one_beyond_is_not() -> None:
    app = Echo()
    for more, status in ((0, 200), (1, 431)):
        room = HEAD_BYTES - len(get("X: "))
        async with connected(app) as peer:
            await peer.send(get("X: " + "a" * (room + more)))
            assert (await peer.answer())[0] == status
        async with connected(app) as peer:
            await peer.send(get(*["a: b"] * (FIELDS - 1 + more)))
            assert (await peer.answer())[0] == status
    assert len(app.asked) == 2


async def test_a_long_target_is_taken_up_to_the_limit() -> None:
    async with connected(Echo()) as peer:
        await peer.send(get(target="/" + "a" * 8_191))
        assert (await peer.answer())[0] == 200
        await peer.send(get(target="/" + "a" * 8_192))
        problem = await peer.problem()
        assert (problem["status"], problem["type"]) == (414, "urn:ecntwin:problem:line-too-long")
        assert await peer.is_closed()


async def test_the_head_of_the_next_request_is_limited_too() -> None:
    async with connected(Echo()) as peer:
        await peer.send(get() + get() + b"GET / HTTP/1.1\r\nX: " + b"a" * ENDLESS)
        assert [(await peer.answer())[0] for _ in range(3)] == [200, 200, 431]
        assert await peer.is_closed()


@pytest.mark.parametrize("step", [1, 3, 1_000, 1 << 20])
async def test_requests_in_a_row_are_answered_however_they_are_cut(step: int) -> None:
    body = b"\r\n\r\nGET / HTTP/1.1\r\n\r\n" * 50
    told = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    chunks = CHUNKED + b"%x;note=1\r\n%b\r\n" % (len(body), body) * 3 + b"0\r\nTrailer: 1\r\n\r\n"
    expected = [0, len(body), 3 * len(body), 0]
    stream = (get() + told + chunks + get()) * 3
    app = Echo()
    async with connected(app) as peer:
        await peer.send(*(stream[at : at + step] for at in range(0, len(stream), step)))
        assert [int((await peer.answer())[1]) for _ in range(12)] == expected * 3
    assert all(b"trailer" not in dict(scope["headers"]) for scope in app.asked)


@pytest.mark.parametrize("chunk", [1 << 20, 1_000, 5])
async def test_large_bodies_are_no_part_of_the_head(chunk: int) -> None:
    pieces = 64 * HEAD_BYTES // chunk
    async with connected(Echo()) as peer:
        await peer.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (chunk * pieces))
        await peer.send(b"a" * chunk * pieces)
        assert await peer.answer() == (200, str(chunk * pieces).encode())
        await peer.send(CHUNKED, (b"%x\r\n" % chunk + b"a" * chunk + b"\r\n") * pieces, b"0\r\n\r\n")
        assert await peer.answer() == (200, str(chunk * pieces).encode())


async def test_of_a_flood_of_requests_one_at_a_time_is_worked_on() -> None:
    app = Echo()
    async with connected(app) as peer:
        sending = asyncio.create_task(peer.send(get() * 5_000))
        for _ in range(5_000):
            assert (await peer.answer())[0] == 200
        await sending
    assert app.most_unanswered == 1


async def test_who_waits_to_be_asked_for_the_body_is_asked() -> None:
    async with connected(Echo()) as peer:
        await peer.send(b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n")
        assert await peer.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        await peer.send(b"a")
        assert await peer.answer() == (200, b"1")


async def test_another_protocol_is_not_spoken_and_this_one_goes_on() -> None:
    async with connected(Echo()) as peer:
        await peer.send(get("Connection: upgrade", "Upgrade: websocket") + get())
        assert [await peer.answer() for _ in range(2)] == [(200, b"0")] * 2


async def test_what_is_no_request_is_told_so_as_a_problem() -> None:
    async with connected(Echo()) as peer:
        await peer.send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
        problem = await peer.problem()
        assert (problem["status"], problem["type"]) == (400, "urn:ecntwin:problem:malformed-request")
        assert await peer.is_closed()


@pytest.mark.parametrize(
    "body",
    [b"Content-Length: 27\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n1b\r\n"],
    ids=["told", "chunked"],
)
async def test_a_body_is_no_request_where_another_protocol_is_asked_for(body: bytes) -> None:
    app = Echo()
    async with connected(app) as peer:
        head = b"POST /a HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n"
        await peer.send(head + body + b"GET /evil HTTP/1.1\r\nX: y\r\n\r\n")
        problem = await peer.problem()
        assert (problem["status"], problem["received"]) == (400, "Upgrade with a body")
        assert await peer.is_closed()
    assert app.asked == []


async def test_a_head_may_end_in_another_segment_than_it_began() -> None:
    app = Echo()
    async with connected(app) as peer:
        line = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5000\r\nX: "
        head = line + b"x" * (HEAD_BYTES - 2_048 - len(line)) + b"\r\n\r\n"
        for cut in (1, 2, 3):
            await peer.send(head[:-cut])
            # What came before this was answered has been read.
            reader, writer = await asyncio.open_connection(*peer.writer.get_extra_info("peername"))
            other = Peer(reader, writer)
            await other.send(get())
            assert await other.answer() == (200, b"0")
            other.writer.transport.abort()
            await peer.send(head[-cut:] + bytes(5_000))
            assert await peer.answer() == (200, b"5000")


async def test_what_the_parser_stumbles_over_is_not_quoted() -> None:
    async with connected(Echo()) as peer:
        await peer.send(b"GET http://x HTTP/1.1\r\nHost: a\r\n\r\n")
        problem = await peer.problem()
        assert (problem["status"], problem["received"]) == (400, "what is no HTTP/1.1")


class Slow(asyncio.Transport):
    """Of what was written to it so much waits each time it is asked; then no less."""

    def __init__(self, waiting: list[int]) -> None:
        super().__init__()
        self.waiting = waiting
        self.aborted = asyncio.Event()

    def get_write_buffer_size(self) -> int:
        return self.waiting.pop(0) if len(self.waiting) > 1 else self.waiting[0]

    def abort(self) -> None:
        self.aborted.set()


async def test_who_reads_on_is_waited_for_however_slowly() -> None:
    config = uvicorn.Config(Echo(), lifespan="off")
    config.load()
    protocol = PatientProtocol(
        config=config,
        server_state=ServerState(),
        app_state={},
        client_timeout_s=0.0,
        max_head_bytes=HEAD_BYTES,
        max_header_fields=FIELDS,
    )
    slow = Slow([30, 20, 10, 5])
    protocol.transport = slow
    protocol.flow = FlowControl(slow)
    protocol.pause_writing()
    async with asyncio.timeout(PATIENCE_S):
        await slow.aborted.wait()
    assert slow.waiting == [5]
