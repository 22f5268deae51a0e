"""Datagrams sent to a real socket of loopback, with a service that is asked what came of them."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from lab.p4_reports import BURST_DATAGRAMS, ROOM_DATAGRAMS, IntSender, Portion, Taker
from lab.reports import PostError
from settings.errors import InputError

PATIENCE_S = 60.0


class Service(httpx.BaseTransport):
    """Takes what its socket has, a few datagrams each time it is asked; ``away`` for so many calls."""

    def __init__(self) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.socket.setblocking(False)
        self.got: list[bytes] = []
        self.away = self.lost = 0
        self.refusing: httpx.Response | None = None
        self.tokens: set[str | None] = set()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.tokens.add(request.headers.get("authorization"))
        if self.away:
            self.away -= 1
            raise httpx.ConnectError("Connection refused", request=request)
        if self.refusing is not None:
            return self.refusing
        for _ in range(7):
            try:
                self.got.append(self.socket.recv(2_000))
            except BlockingIOError:
                break
        said: dict[str, Any] = {"addresses": ["127.0.0.1:1"], "received": len(self.got), "waiting": 0}
        said |= {"taken": len(self.got) - self.lost, "dropped": {"queue": self.lost, "kernel": 0}}
        return httpx.Response(200, json=said)


@pytest.fixture
def service() -> Iterator[Service]:
    made = Service()
    yield made
    made.socket.close()


class Sending:
    """A started sender that says when a portion is done."""

    def __init__(self, service: Service, *, asked: bool = True, token: str | None = None) -> None:
        host, port = service.socket.getsockname()
        taker = Taker("http://127.0.0.1", token=token, transport=service) if asked else None
        # No time passes: a service that is slow to say what it took has lost nothing.
        self.sender = IntSender(host, port, taker=taker, clock_s=lambda: 0.0)
        self._done = threading.Semaphore(0)
        self.sender.on_room(self._done.release)
        self.sender.start()

    def send(self, *datagrams: bytes) -> None:
        self.sender.offer(Portion(datagrams, 2 * len(datagrams)))

    def wait(self) -> None:
        assert self._done.acquire(timeout=PATIENCE_S)

    def __enter__(self) -> Sending:
        return self

    def __exit__(self, *_: object) -> None:
        self.sender.stop()


def test_a_portion_is_done_once_the_service_has_taken_it(service: Service) -> None:
    sent = [bytes([number]) for number in range(2 * BURST_DATAGRAMS + 1)]
    with Sending(service, token="secret") as sending:
        sending.send(*sent)
        sending.wait()
        assert service.got == sent
        assert sending.sender.idle
        counts = sending.sender.counts
        assert (counts.datagrams, counts.reports, counts.lost) == (len(sent), 2 * len(sent), 0)
    assert service.tokens == {"Bearer secret"}


def test_without_a_service_to_ask_it_is_done_once_it_is_sent(service: Service) -> None:
    with Sending(service, asked=False) as sending:
        sending.send(b"a", b"b")
        sending.wait()
        assert [service.socket.recv(10) for _ in range(2)] == [b"a", b"b"]
        assert sending.sender.counts.lost is None


def test_what_the_service_dropped_is_lost(service: Service) -> None:
    with Sending(service) as sending:
        sending.send(b"a")
        sending.wait()
        service.lost = 1
        service.got.append(b"a stranger's, which it dropped")
        sending.send(b"b")
        sending.wait()
        assert sending.sender.counts.lost == 0  # what others sent was dropped before
        service.got, service.lost = [], 0  # it started anew
        sending.send(b"c")
        sending.wait()
        assert sending.sender.counts.lost == 0


def test_a_service_that_is_away_is_waited_for_before_anything_is_sent(service: Service) -> None:
    service.away = 3
    with Sending(service) as sending:
        sending.send(b"a")
        sending.wait()
        assert service.got == [b"a"]
        assert sending.sender.counts.waits_for is None


@pytest.mark.parametrize(
    "refusing",
    [
        httpx.Response(401, text="no"),
        httpx.Response(200, text="{}"),
        httpx.Response(200, json={"addresses": [], "received": 0, "taken": 0, "dropped": {}}),
    ],
)
def test_a_service_that_takes_no_datagrams_ends_it(service: Service, refusing: httpx.Response) -> None:
    service.refusing = refusing
    with Sending(service) as sending:
        sending.send(b"a")
        sending.wait()
        assert isinstance(sending.sender.failure, PostError)
        assert "telemetry.udp.ports" in str(sending.sender.failure)
        assert service.got == []


def test_where_nobody_listens_it_waits_and_can_be_stopped(service: Service) -> None:
    host, port = service.socket.getsockname()
    service.socket.close()
    waiting = threading.Event()
    sender = IntSender(host, port)
    whole = sender._waits

    def told(reason: str) -> None:
        whole(reason)
        waiting.set()

    sender._waits = told  # type: ignore[method-assign]
    sender.start()
    sender.offer(Portion([b"a", b"b", b"c"], 3))
    assert waiting.wait(PATIENCE_S)
    assert f"no receiver at {host}:{port}" in str(sender.counts.waits_for)
    assert not sender.idle
    sender.stop()
    sender._thread.join(PATIENCE_S)  # stopping does not wait that long
    assert not sender._thread.is_alive()


def test_there_is_room_for_so_many_datagrams(service: Service) -> None:
    sender = IntSender(*service.socket.getsockname())
    assert sender.has_room
    sender.offer(Portion([b""] * ROOM_DATAGRAMS, 1))
    assert not sender.has_room
    sender.stop()


def test_a_name_nobody_has_is_said_in_a_sentence() -> None:
    with pytest.raises(InputError, match="--int-udp"):
        IntSender("no-such-host.invalid", 1)
