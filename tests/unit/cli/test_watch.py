"""Watching: connections that are lost and made again, and the header that stands below the lines."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from rich.console import Console

from cli.client import ServiceClient, ServiceEvent
from cli.watch import LONGEST_PAUSE_S, Watched, stream
from settings.errors import AwayError, RefusedError

PROBLEM = {"where": "here", "received": "this", "rule": "the rule", "remedy": "the remedy"}
AT = "2026-01-01T00:00:00.000Z"
MARK = {"kmin_bytes": 1_000, "kmax_bytes": 2_000, "pmax": 0.1}
LOST = httpx.ReadError("reset")


class Scripted:
    """A service whose connections for events go as told, and whose documents stand still."""

    def __init__(self, *connections: Any) -> None:
        self._connections = list(connections)
        self.pauses_s: list[float] = []
        self.frozen = False

    def client(self) -> ServiceClient:
        return ServiceClient("http://service", transport=httpx.MockTransport(self._answer))

    def _answer(self, request: httpx.Request) -> httpx.Response:
        if request.url.path != "/v1/events":
            return httpx.Response(200, json=self._document(request.url.path))
        connection = self._connections.pop(0) if self._connections else 403
        if isinstance(connection, Exception):
            raise connection
        if isinstance(connection, int):
            return httpx.Response(connection, json=PROBLEM)
        return httpx.Response(200, content=self._content(connection))

    def _content(self, events: list[Any]) -> Iterator[bytes]:
        yield b": listening\n\n"
        for number, event in enumerate(events, 1):
            if isinstance(event, Exception):
                raise event
            kind, data = event
            yield f"id: {number}\nevent: {kind}\ndata: {json.dumps(data)}\n\n".encode()

    def _document(self, path: str) -> Any:
        return {
            "/v1/readiness": {"ready": False, "reasons": ["x"]},
            "/v1/alarms": {"warning": 1, "critical": 0, "left_off": 0, "alarms": [], "ended": None},
            "/v1/freeze": {"frozen": self.frozen, "by": "bob", "at": AT},
            "/v1/recommendations": {"total": 0, "recommendations": []},
            "/v1/rollouts": {"total": 0, "rollouts": []},
        }[path]


def followed(service: Scripted) -> tuple[list[Any], list[str]]:
    """What came until it refuses, and what was complained of."""
    lost: list[str] = []
    came: list[Any] = []
    heard = stream(service.client(), lost.append, service.pauses_s.append)
    with pytest.raises(RefusedError, match="the remedy"):
        came.extend(heard)
    return came, lost


def test_a_connection_that_is_lost_is_made_again() -> None:
    service = Scripted([("a", {}), LOST], LOST, 503, [("b", {})])
    came, lost = followed(service)
    assert came == [True, None, ServiceEvent("a", {}, 1), True, None, ServiceEvent("b", {}, 1)]
    assert len(lost) == 4
    assert "reset" in lost[0]
    assert "the service ended it" in lost[-1]


def test_pauses_grow_to_a_limit_and_begin_anew() -> None:
    service = Scripted([], *[LOST] * 6, [])
    followed(service)
    first, *growing, last = service.pauses_s
    assert growing == sorted(growing)
    assert max(growing) == LONGEST_PAUSE_S
    assert last == first < growing[0]


def test_one_that_never_stood_is_not_waited_for() -> None:
    with pytest.raises(AwayError, match="reset"):
        list(stream(Scripted(LOST).client(), lambda text: None, lambda pause_s: None))


def watched(service: Scripted, *, terminal: bool) -> str:
    screen = Console(
        file=io.StringIO(), width=80, force_terminal=terminal, highlight=False, color_system=None
    )
    with pytest.raises(RefusedError, match="the remedy"):
        Watched(service.client(), screen, sleep=service.pauses_s.append).run()
    assert isinstance(screen.file, io.StringIO)
    return screen.file.getvalue()


def events() -> list[tuple[str, dict[str, Any]]]:
    return [
        ("alarm", {"what": "raised", "kind": "k", "level": "warning", "sentence": "word " * 40}),
        ("decision", {"id": "r1", "status": "approved", "by": "bob"}),
    ]


def test_lines_are_whole_where_nobody_looks() -> None:
    lines = watched(Scripted(events(), []), terminal=False).splitlines()
    assert lines[1].startswith("ecntwin")
    assert "http://service, not ready, 1 warning" in lines[1]
    kinds = [line.split()[1] for line in lines[2:]]
    assert kinds == ["watch", "alarm", "decision", "watch", "watch", "watch"]
    assert lines[3].count("word") == 40


def test_a_terminal_has_the_header_below_and_lines_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")  # one that can move its cursor, whatever the tests run in
    service = Scripted(events())
    service.frozen = True
    shown = watched(service, terminal=True)
    assert "Frozen by bob" in shown
    assert shown.count("http://service, not ready") > 1  # drawn again below each line
    folded = [line for line in shown.splitlines() if line.startswith(" " * 26 + "word")]
    assert folded
    assert "r1 approved by bob" in shown
