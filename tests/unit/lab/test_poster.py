"""Posting: in order, again while the service is away, never twice at once, and not at all where refused."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
import pytest

from lab.reports import COUNTERS_PATH, Body, Poster, PostError

PATIENCE_S = 60.0
TAKEN = httpx.Response(
    202,
    json={
        "accepted": 2,
        "rejected": 1,
        "errors": [{"index": 0, "detail": "no switch tor9"}],
        "error_count": 1,
    },
)


class Service:
    """Answers with what ``answers`` says, by turns, then takes everything."""

    def __init__(self, *answers: httpx.Response | Exception) -> None:
        self.answers = list(answers)
        self.taken: list[bytes] = []
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, Exception):
            raise answer
        if answer is not None and not answer.is_success:
            return answer
        self.taken.append(request.content)
        return answer or httpx.Response(202, content=TAKEN.content)


@contextmanager
def posting(service: Callable[[httpx.Request], httpx.Response], **options: str | bool) -> Iterator[Poster]:
    poster = Poster(
        "http://127.0.0.1:8080/",
        transport=httpx.MockTransport(service),
        first_pause_s=0.0,
        **options,  # type: ignore[arg-type]
    )
    poster.start()
    try:
        yield poster
    finally:
        poster.stop()


def wait(poster: Poster, holds: Callable[[], bool]) -> None:
    """Until it holds, looked at after each body and at the end of posting."""
    changed = threading.Event()
    poster.on_room(changed.set)
    while not holds():
        assert changed.wait(PATIENCE_S)
        changed.clear()


def test_bodies_are_posted_in_order_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    service = Service()
    with posting(service) as poster:
        for number in range(3):
            poster.offer(Body(b"%d\n" % number, 3))
        wait(poster, lambda: poster.idle)
    assert service.taken == [b"0\n", b"1\n", b"2\n"]
    assert (poster.counts.posted, poster.counts.accepted, poster.counts.rejected) == (9, 6, 3)
    assert caplog.messages == ["the service rejects 1 of 3 reports: no switch tor9"], "once"
    request = service.requests[0]
    assert (request.method, str(request.url)) == ("POST", "http://127.0.0.1:8080/v1/telemetry/int")
    assert request.headers["content-type"] == "application/x-ndjson"
    assert "authorization" not in request.headers


def test_a_token_and_compression_are_said_so() -> None:
    service = Service()
    with posting(service, token="open sesame", compressed=True) as poster:
        poster.offer(Body(b"{}\n", 1))
        wait(poster, lambda: poster.idle)
    assert gzip.decompress(service.taken[0]) == b"{}\n"
    assert service.requests[0].headers["content-encoding"] == "gzip"
    assert service.requests[0].headers["authorization"] == "Bearer open sesame"


@pytest.mark.parametrize(
    "trouble",
    [
        httpx.ConnectError("Connection refused"),
        httpx.ReadTimeout("slow"),
        httpx.RemoteProtocolError("peer closed connection"),
        httpx.Response(503),
        httpx.Response(500),
        httpx.Response(429),
        httpx.Response(408),
    ],
)
def test_a_service_that_is_away_is_tried_again_and_nothing_is_lost(
    trouble: httpx.Response | Exception,
) -> None:
    service = Service(trouble, trouble, trouble)
    with posting(service) as poster:
        poster.offer(Body(b"a\n", 1))
        poster.offer(Body(b"b\n", 1))
        wait(poster, lambda: poster.idle)
    assert service.taken == [b"a\n", b"b\n"]
    assert (poster.counts.retries, poster.counts.waits_for) == (3, None)


@pytest.mark.parametrize(
    ("answer", "remedy"),
    [
        (
            httpx.Response(401, json={"title": "Unauthorized", "detail": "a bearer token is asked for"}),
            "/v1/telemetry/int: a bearer token is asked for; ",
        ),
        (httpx.Response(403), "or the token in ECNTWIN_TOKEN"),
        (httpx.Response(404, text="nobody"), "correct --post-to"),
        (httpx.Response(413), "raise server.max_body_bytes of the service"),
        (httpx.Response(200, text="a page of something else"), "correct --post-to"),
        (httpx.Response(302, headers={"Location": "/login"}), "correct --post-to"),
    ],
)
def test_a_service_that_refuses_for_good_ends_it_in_a_sentence(answer: httpx.Response, remedy: str) -> None:
    with posting(Service(answer)) as poster:
        poster.offer(Body(b"a\n", 1))
        wait(poster, lambda: poster.failure is not None)
    assert isinstance(poster.failure, PostError)
    assert str(answer.status_code) in str(poster.failure)
    assert remedy in str(poster.failure)


def counters(content: bytes) -> Body:
    return Body(content, 1, COUNTERS_PATH)


def test_counters_go_where_counters_are_taken_and_count_apart() -> None:
    service = Service()
    with posting(service) as poster:
        poster.offer(counters(b"a\n"))
        poster.offer(Body(b"b\n", 3))
        wait(poster, lambda: poster.idle)
    assert [request.url.path for request in service.requests] == [
        "/v1/telemetry/counters",
        "/v1/telemetry/int",
    ]
    counts = poster.counts
    assert (counts.posted, counts.accepted, counts.rejected) == (3, 2, 1)
    assert (counts.samples_accepted, counts.samples_rejected) == (2, 1)


def test_rejected_reports_are_told_once_whatever_becomes_of_counters(
    caplog: pytest.LogCaptureFixture,
) -> None:
    whole = httpx.Response(202, json={"accepted": 3, "rejected": 0, "errors": []})
    with posting(Service(TAKEN, whole, TAKEN, whole)) as poster:
        for _ in range(2):
            poster.offer(Body(b"report\n", 3))
            poster.offer(counters(b"a\n"))
        wait(poster, lambda: poster.idle)
    assert caplog.messages == ["the service rejects 1 of 3 reports: no switch tor9"]


def test_a_service_that_knows_no_counters_is_asked_once_and_again_when_it_comes_back() -> None:
    service = Service(httpx.Response(404), TAKEN, TAKEN, httpx.Response(503))
    with posting(service) as poster:
        for content in (b"old 1\n", b"old 2\n"):
            poster.offer(counters(content))
            poster.offer(Body(b"report\n", 3))
        wait(poster, lambda: poster.idle)
        assert len(service.requests) == 3
        poster.offer(Body(b"report\n", 3))  # while it is away
        poster.offer(counters(b"new\n"))
        wait(poster, lambda: poster.idle)
    assert service.taken == [b"report\n", b"report\n", b"report\n", b"new\n"]
    assert poster.failure is None


def test_counters_wait_for_a_service_that_is_away() -> None:
    service = Service(httpx.ConnectError("refused"), httpx.Response(503))
    with posting(service) as poster:
        poster.offer(counters(b"a\n"))
        wait(poster, lambda: poster.idle)
    assert service.taken == [b"a\n"]
    assert poster.counts.retries == 2


@pytest.mark.parametrize(
    "answer", [httpx.Response(401), httpx.Response(403), httpx.Response(200, text="page")]
)
def test_counters_refused_for_good_end_it(answer: httpx.Response) -> None:
    with posting(Service(answer)) as poster:
        poster.offer(counters(b"a\n"))
        wait(poster, lambda: poster.failure is not None)
    assert "to POST /v1/telemetry/counters" in str(poster.failure)


def test_there_is_room_for_a_few_bodies() -> None:
    let_go = threading.Event()

    def slow(request: httpx.Request) -> httpx.Response:
        assert let_go.wait(PATIENCE_S)
        return httpx.Response(202, content=TAKEN.content)

    with posting(slow) as poster:
        offered = 0
        while poster.has_room:
            poster.offer(Body(b"a\n", 1))
            offered += 1
        assert offered == 4
        let_go.set()
        wait(poster, lambda: poster.has_room)


def test_it_stops_while_the_service_is_away() -> None:
    asked = threading.Event()

    def away(request: httpx.Request) -> httpx.Response:
        asked.set()
        raise httpx.ConnectError("refused")

    with posting(away) as poster:
        poster.offer(Body(b"a\n", 1))
        assert asked.wait(PATIENCE_S)
    poster._thread.join(PATIENCE_S)  # stopping does not wait that long
    assert not poster._thread.is_alive()
    assert poster.counts.waits_for is not None
    assert "does not answer (refused)" in poster.counts.waits_for
    assert not poster.idle


def test_one_never_started_can_be_stopped() -> None:
    Poster("http://127.0.0.1:8080").stop()


@pytest.mark.parametrize(
    ("asked", "waited_s"), [("7", 7.0), ("86400", 60.0), ("Wed, 21 Oct 2026 07:28:00 GMT", 0.0), ("", 0.0)]
)
def test_a_service_that_asks_for_time_gets_it(
    asked: str, waited_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    service = Service(httpx.Response(429, headers={"Retry-After": asked}))
    with posting(service) as poster:
        monkeypatch.setattr(poster._stopping, "wait", waits.append)
        poster.offer(Body(b"1\n", 1))
        wait(poster, lambda: poster.idle)
        monkeypatch.undo()
    assert waits == [waited_s]
    assert service.taken == [b"1\n"]
    assert poster.counts.retries == 1
