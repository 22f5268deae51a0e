"""The client of commands: what a service refuses, one that is away or is none, and events as they come."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import httpx
import msgspec
import pytest

from cli.client import ServiceClient, ServiceEvent
from cli.output import exit_code
from settings.errors import AwayError, InputError, RefusedError
from settings.validation import TOKEN_VARIABLE

URL = "http://127.0.0.1:8080"
PARTS = {"where": "here", "received": "this", "rule": "the rule", "remedy": "the remedy"}
PROBLEM = {"type": "about:blank", "title": "Conflict", "status": 409, "detail": "all of it", **PARTS}


def client(handler: Callable[[httpx.Request], httpx.Response], **options: Any) -> ServiceClient:
    return ServiceClient(URL, transport=httpx.MockTransport(handler), **options)


def answering(status: int, content: bytes | str = b"{}", **headers: str) -> ServiceClient:
    return client(lambda request: httpx.Response(status, content=content, headers=headers))


def test_an_answer_is_what_came() -> None:
    asked: list[httpx.Request] = []

    def handler(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(200, json={"a": [1, None]})

    with client(handler, token="secret") as service:
        assert service.get("/v1/flows", {"class": "mouse", "limit": 3, "all": True}).document() == {
            "a": [1, None]
        }
        service.put("/v1/freeze", {"frozen": True})
        service.post("/v1/tune")
    get, put, post = asked
    assert str(get.url) == f"{URL}/v1/flows?class=mouse&limit=3&all=true"
    assert {one.headers["authorization"] for one in asked} == {"Bearer secret"}
    assert (put.method, json.loads(put.content)) == ("PUT", {"frozen": True})
    assert (post.method, post.content) == ("POST", b"")


@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [
        (400, RefusedError, 2),
        (404, RefusedError, 2),
        (409, RefusedError, 2),
        (408, AwayError, 1),
        (429, AwayError, 1),
        (500, AwayError, 1),
        (503, AwayError, 1),
    ],
)
def test_a_problem_is_the_services_own_sentence(status: int, kind: type[Exception], code: int) -> None:
    with pytest.raises(kind) as caught:
        answering(status, json.dumps(PROBLEM)).post("/v1/tune")
    assert str(caught.value) == "here: received this; the rule; the remedy"
    assert exit_code(caught.value) == code


def test_more_mistakes_notes_and_where_the_token_goes_are_said() -> None:
    with pytest.raises(RefusedError, match=r"the remedy \(2 more mistakes after this one\); note one$"):
        answering(422, json.dumps(PROBLEM | {"error_count": 3, "notes": ["note one"]})).get("/x")
    with pytest.raises(RefusedError, match=rf"the remedy \(commands take it from {TOKEN_VARIABLE}\)$"):
        answering(401, json.dumps(PROBLEM)).get("/x")


@pytest.mark.parametrize(
    ("status", "content"),
    [
        (404, "<html>Not\nfound</html>"),
        (307, ""),
        (404, b"\xff\xfe"),
        (403, '{"detail": "a proxy says no"}'),
        (404, "[]"),
    ],
)
def test_what_is_no_service_is_told(status: int, content: str | bytes) -> None:
    with pytest.raises(RefusedError) as caught:
        answering(status, content, location="http://elsewhere").get("/v1/flows")
    assert f"{status} to GET /v1/flows" in caught.value.received
    assert caught.value.remedy == "correct --url"
    assert "\n" not in caught.value.received


@pytest.mark.parametrize("content", ["<html>", "", b"\xff", '{"id": 3}', "{}"])
def test_an_answer_that_does_not_read_is_told(content: str | bytes) -> None:
    class Named(msgspec.Struct):
        id: str

    answer = answering(200, content).get("/v1/x")
    with pytest.raises(RefusedError, match="an answer to GET /v1/x that cannot be parsed") as caught:
        answer.read(Named)
    assert exit_code(caught.value) == 2


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("leaf\x1b[2J1", "leaf\ufffd[2J1"),
        ("a\x9bb\x7fc", "a\ufffdb\ufffdc"),
        ("\x1b\x1b", "\ufffd\ufffd"),
        (r"a\u001b", r"a\u001b"),
        ("\\\x1b", "\\\ufffd"),
        ("Grüße → 1", "Grüße → 1"),
    ],
)
@pytest.mark.parametrize("ascii_only", [True, False])
def test_what_would_steer_a_terminal_is_not_shown(name: str, shown: str, ascii_only: bool) -> None:
    content = json.dumps({"name": name}, ensure_ascii=ascii_only).encode()
    answer = answering(200, content).get("/v1/x")
    assert answer.read(dict[str, str]) == {"name": shown}
    assert answer.document() == {"name": name}


def test_an_expected_status_is_an_answer() -> None:
    assert answering(503, '{"ready": false}').get("/readyz", also=503).document() == {"ready": False}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (httpx.ConnectError("Connection refused"), "Connection refused"),
        (httpx.ReadTimeout("timed out"), "timed out"),
        (httpx.RemoteProtocolError(""), "RemoteProtocolError"),
    ],
)
def test_a_service_that_is_away_is_a_sentence_and_exit_1(error: httpx.HTTPError, says: str) -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        raise error

    with pytest.raises(AwayError) as caught:
        client(handler).get("/v1/flows")
    assert f"no answer to GET /v1/flows ({says})" in str(caught.value)
    assert "the command needs a running service" in str(caught.value)
    assert exit_code(caught.value) == 1


def test_tls_where_there_is_none_is_told_as_that() -> None:
    def plain(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("[SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c:1006)")

    with pytest.raises(AwayError, match="an answer without TLS") as caught:
        ServiceClient("https://switches:8443", transport=httpx.MockTransport(plain)).get("/v1/flows")
    assert caught.value.remedy == "give --url http://switches:8443"


def test_what_may_have_been_done_is_to_be_looked_at() -> None:
    def lost(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadTimeout("timed out")

    def never(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    with pytest.raises(AwayError, match="check whether it took effect"):
        client(lost).post("/v1/recommendations/a/approve")
    with pytest.raises(AwayError, match=r"start one with ecntwin serve, .*, or correct --url"):
        client(never).post("/v1/recommendations/a/approve")


def test_a_service_that_drips_is_not_waited_for_without_end() -> None:
    now_s = 0.0

    def dripping() -> Iterator[bytes]:
        nonlocal now_s
        while True:
            now_s += 1.0
            yield b" "

    service = client(
        lambda request: httpx.Response(200, content=dripping()), patience_s=20.0, clock_s=lambda: now_s
    )
    with pytest.raises(AwayError, match="not all of it within 20 s"):
        service.get("/v1/flows")
    assert now_s < 25


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:8080", "ftp://x", "http://u:p@x", "http://x/?a", "http://x y"]
)
def test_a_url_that_is_none_is_bad_input(url: str) -> None:
    with pytest.raises(InputError, match=r"--url \(or ECNTWIN_URL\)") as caught:
        ServiceClient.at(url)
    assert exit_code(caught.value) == 2


def test_a_token_that_no_header_carries_is_bad_input_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, "sécret")
    with pytest.raises(InputError) as caught:
        ServiceClient.at(URL)
    assert "cret" not in str(caught.value)


def streaming(chunks: Iterable[str], error: httpx.HTTPError | None = None) -> ServiceClient:
    def content() -> Iterator[bytes]:
        for chunk in chunks:
            yield chunk.encode()
        if error is not None:
            raise error

    return client(lambda request: httpx.Response(200, content=content()))


def test_events_come_as_they_are_cut_by_the_network() -> None:
    chunks = [
        ": liste",
        'ning\n\nid: 7\nevent: round\ndata: {"stage":',
        ' "started"}\n',
        "\n: still here\n\n",
        'event: x\ndata: {"a":\ndata: 1}\nretry: 5\n\n',
        'data: {"never": "ended"}\n',
    ]
    assert list(streaming(chunks).events()) == [
        None,
        ServiceEvent("round", {"stage": "started"}, 7),
        None,
        ServiceEvent("x", {"a": 1}, None),
    ]


def test_a_stream_that_breaks_is_told_after_what_came() -> None:
    events = streaming(["data: {}\n\n"], httpx.ReadError("reset")).events()
    assert next(events) == ServiceEvent("message", {}, None)
    with pytest.raises(AwayError, match="reset"):
        next(events)


def test_a_stream_that_is_refused_or_is_none_is_told() -> None:
    with pytest.raises(AwayError, match="the remedy"):
        list(answering(503, json.dumps(PROBLEM)).events())
    with pytest.raises(RefusedError, match="the remedy"):
        list(answering(403, json.dumps(PROBLEM)).events())
    with pytest.raises(RefusedError, match="that cannot be parsed"):
        list(streaming(["data: nonsense\n\n"]).events())
