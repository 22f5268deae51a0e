"""Clients that misbehave, by the hundred and over real sockets: the others are served, and nobody holds a
connection for ever.
"""

from __future__ import annotations

import asyncio
import json
import resource
import select
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import psutil
import pytest

from tests.counterparts.certificates import Authority
from tests.counterparts.ports import free_port
from tests.e2e.process import PATIENCE_S, Served, ingesting, lab_at, serving
from tests.e2e.test_lab import FABRIC
from tests.integration.service import report

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

TIMEOUT_S = 5.0  # which others do not take for a request, however busy the machine is
SLOW = 60
POSTERS = 1_000
REPORTS_EACH = 10
SETTINGS = {
    "ECNTWIN_TUNING__ENABLED": "false",
    "ECNTWIN_STORAGE__URL": "memory",
    "ECNTWIN_SERVER__CLIENT_TIMEOUT_S": str(TIMEOUT_S),
    "ECNTWIN_TELEMETRY__PERIOD_S": "10",  # all that is posted here stays in the window
}


@pytest.fixture(autouse=True, scope="module")
def _files() -> Iterator[None]:
    """As many sockets as there are posters, and as the service itself may have."""
    had = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (had[1], had[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, had)


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving(**SETTINGS) as started:
        yield started


def address(served: Served) -> tuple[str, int]:
    url = httpx.URL(served.url)
    assert url.port is not None
    return url.host, url.port


def head(call: str, length: int, *more: str) -> bytes:
    lines = [f"{call} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {length}", *more]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


async def dripped(served: Served, beginning: bytes, byte: bytes) -> bytes:
    """What a client is told that sends ``beginning`` and then a byte now and then, until it is cut off."""
    told = bytearray()

    async def listen() -> None:
        with suppress(ConnectionError):
            while read := await reader.read(65_536):
                told.extend(read)

    reader, writer = await asyncio.open_connection(*address(served))
    listening = asyncio.create_task(listen())
    try:
        writer.write(beginning)
        while not listening.done():
            await asyncio.wait({listening}, timeout=0.1)
            writer.write(byte)
        return bytes(told)
    finally:
        writer.transport.abort()


@pytest.mark.parametrize(
    ("beginning", "byte", "told"),
    [
        (head("POST /v1/telemetry/int", 100_000, "Content-Type: application/json") + b"[", b" ", b" 408 "),
        (head("POST /v1/telemetry/counters", 100_000) + b"[", b" ", b" 408 "),
        (head("PUT /v1/freeze", 100_000, "Content-Type: application/json") + b"{", b" ", b" 408 "),
        (head("POST /v1/recommendations/x/reject", 100_000), b" ", b" 404 "),  # it reads no body
        (b"GET /healthz HTTP/1.1\r\nX-Endless: ", b"x", b""),
        (b"", b"\r\n", b""),
    ],
    ids=["reports", "counters", "settings", "unread", "head", "nothing"],
)
def test_who_sends_a_byte_now_and_then_is_cut_off_and_others_are_served(
    served: Served, beginning: bytes, byte: bytes, told: bytes
) -> None:
    async def main() -> list[bytes]:
        async with asyncio.timeout(PATIENCE_S), httpx.AsyncClient(base_url=served.url) as others:
            slow = [asyncio.create_task(dripped(served, beginning, byte)) for _ in range(SLOW)]
            while not all(one.done() for one in slow):
                assert (await others.get("/healthz", timeout=PATIENCE_S)).status_code == 200
                taken = await others.post("/v1/telemetry/int", json=[report(0)], timeout=PATIENCE_S)
                assert taken.status_code == 202
                await asyncio.sleep(0.05)
            return await asyncio.gather(*slow)

    for answer in asyncio.run(main()):
        assert told in answer.partition(b"\r\n")[0] + b" ", answer
    assert connections_beyond(served, 5) == []


@contextmanager
def speaking_tls() -> Iterator[Served]:
    signed = Authority("a test's authority").signed("127.0.0.1")
    with TemporaryDirectory() as folder:
        certificate, key = Path(folder, "server.pem"), Path(folder, "server.key")
        certificate.write_bytes(signed.certificate)
        key.write_bytes(signed.key)
        files = {
            "ECNTWIN_SERVER__TLS_CERTIFICATE": str(certificate),
            "ECNTWIN_SERVER__TLS_KEY": str(key),
        }
        with serving(**SETTINGS | files) as started:
            yield started


@pytest.mark.parametrize(
    "started",
    [
        lambda: serving(**SETTINGS),
        lambda: ingesting("http://127.0.0.1:1", **SETTINGS),
        lambda: lab_at(free_port(), *FABRIC, "--step"),
        speaking_tls,
    ],
    ids=["serve", "ingest", "lab", "tls"],
)
def test_a_head_without_an_end_is_refused_and_not_read_on(
    started: Callable[[], AbstractContextManager[Served]],
) -> None:
    with started() as here:
        trusting = ssl.create_default_context()
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
        plain = socket.create_connection(address(here), timeout=PATIENCE_S)
        with plain, trusting.wrap_socket(plain) if "https" in here.url else plain as peer:
            peer.sendall(b"GET / HTTP/1.1\r\nX: ")
            answer, was_cut = b"", False
            try:
                while not select.select([peer], [], [], 0)[0]:  # until it is answered, or closed
                    peer.send(b"a" * 65_536)
                answer = peer.recv(12)
                was_cut = not answer  # TLS tells a reset like an end
            except (ConnectionError, ssl.SSLError):
                was_cut = True  # with bytes on their way to it, the answer may be lost to the reset
                with suppress(ConnectionError, ssl.SSLError):
                    answer = peer.recv(12)
            assert answer == b"HTTP/1.1 431" or (was_cut and not answer)
            peer.setblocking(True)
            with suppress(ConnectionError, ssl.SSLError):
                while True:
                    peer.sendall(b"a" * 65_536)  # ends: it is closed, not read on
        verify = trusting if "https" in here.url else True
        assert httpx.get(f"{here.url}/healthz", verify=verify, timeout=PATIENCE_S).status_code in (200, 404)


def connections_beyond(served: Served, allowed: int) -> list[Any]:
    """The service's open connections where they are more than that."""
    found = [
        one
        for one in psutil.Process(served.process.pid).net_connections("tcp")
        if one.status == psutil.CONN_ESTABLISHED
    ]
    return found if len(found) > allowed else []


def test_who_never_reads_an_answer_is_cut_off(served: Served) -> None:
    with socket.create_connection(address(served)) as deaf:
        # More answers than buffers of the kernel hold; none of them is ever read.
        asked = b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 2_000
        deaf.setblocking(False)
        poll = select.poll()
        poll.register(deaf, select.POLLOUT | select.POLLERR | select.POLLHUP)
        sent = 0
        while True:
            ((_, event),) = poll.poll(1_000 * PATIENCE_S) or [(0, 0)]
            assert event, "the connection goes on for ever"
            if event & (select.POLLERR | select.POLLHUP):
                break
            try:
                sent += deaf.send(asked[sent:])
            except BlockingIOError:
                continue
            except ConnectionError:
                break
            if sent == len(asked):
                poll.modify(deaf, select.POLLERR | select.POLLHUP)
    assert httpx.get(f"{served.url}/healthz", timeout=PATIENCE_S).status_code == 200


def test_listeners_that_never_read_cost_nobody_else_anything(served: Served) -> None:
    deaf: list[socket.socket] = []
    try:
        for _ in range(64):
            deaf.append(socket.create_connection(address(served)))
            deaf[-1].sendall(b"GET /v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        for one in deaf:
            assert one.recv(12) == b"HTTP/1.1 200"
        with httpx.Client(base_url=served.url, timeout=PATIENCE_S) as client:
            refused = client.get("/v1/events")
            assert (refused.status_code, refused.json()["status"]) == (503, 503)
            for _ in range(50):
                assert client.post("/v1/telemetry/int", json=[report(0)]).status_code == 202
    finally:
        for one in deaf:
            one.close()
    with httpx.Client(base_url=served.url, timeout=PATIENCE_S) as client:
        listening = 503
        while listening == 503:  # they have gone, and whoever comes next is let in
            with client.stream("GET", "/v1/events") as answer:
                listening = answer.status_code
        assert listening == 200


@dataclass
class Told:
    """How posters were answered."""

    statuses: Counter[int]
    waits_s: list[int]


async def post_all(served: Served) -> Told:
    """Everybody at once, each over a connection of its own, and again where that is asked for.

    Nobody sends the end of a body before somebody was refused: how fast the service is matters to nothing.
    """
    told = Told(Counter(), [])

    async def post(number: int) -> None:
        body = json.dumps([report(REPORTS_EACH * number + one) for one in range(REPORTS_EACH)]).encode()
        reader, writer = await asyncio.open_connection(*address(served))
        writer.write(head("POST /v1/telemetry/int", len(body)) + body[:-1])
        begun.release()
        await one_is_refused.wait()
        writer.write(body[-1:])
        while True:
            status_line, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in lines if line)
            document = json.loads(await reader.readexactly(int(headers["content-length"])))
            status = int(status_line.split()[1])
            told.statuses[status] += 1
            if status == 202:
                assert document["accepted"] == REPORTS_EACH
                break
            assert document["status"] == status
            told.waits_s.append(int(headers["retry-after"]))
            await asyncio.sleep(1.0)
            writer.write(head("POST /v1/telemetry/int", len(body)) + body)
        writer.close()

    one_is_refused, begun = asyncio.Event(), asyncio.Semaphore(0)
    async with (
        asyncio.timeout(5 * PATIENCE_S),
        httpx.AsyncClient(base_url=served.url, timeout=PATIENCE_S) as looking,
        asyncio.TaskGroup() as tasks,
    ):
        for number in range(POSTERS):
            tasks.create_task(post(number))
        for _ in range(POSTERS):
            await begun.acquire()
        while "\necntwin_ingest_refused_total 0.0" in (await looking.get("/metrics")).text:
            pass
        one_is_refused.set()
    return told


def test_a_thousand_posters_at_once_are_taken_or_told_when_to_come_back() -> None:
    patient = {"ECNTWIN_SERVER__CLIENT_TIMEOUT_S": str(PATIENCE_S)}
    with serving(**SETTINGS | patient, ECNTWIN_SERVER__MAX_PENDING_BYTES="500000") as served:
        told = asyncio.run(post_all(served))
        assert told.statuses.keys() <= {202, 429, 503}
        assert told.statuses[202] == POSTERS
        assert told.waits_s, "nobody was refused: this tries nothing"
        assert min(told.waits_s) >= 1
        # Whatever was answered 202 is there.
        state = httpx.get(f"{served.url}/v1/state", timeout=PATIENCE_S).json()
        assert state["reports"] == POSTERS * REPORTS_EACH
        assert not [line for line in served.log if " ERROR " in line]
