"""A rollout that is followed: each thing told once, a service that goes away and one that stays away."""

from __future__ import annotations

import io
import json
import threading
from collections import Counter
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import httpx
import pytest
from rich.console import Console

from cli.answers import RolloutAnswer
from cli.client import ServiceClient
from cli.main import app
from cli.output import run_to_exit_code
from cli.rollouts import AWAY_S, follow, progress_text
from settings.errors import AwayError, RefusedError

MARK = {"kmin_bytes": 1_000, "kmax_bytes": 2_000, "pmax": 0.1}
AT = "2026-01-01T00:00:00.000Z"


def switch(name: str, progress: str, *, writes: bool = True) -> dict[str, Any]:
    return {
        "switch": name,
        "stage": 0,
        "writes": writes,
        "progress": progress,
        "target": MARK,
        "before": None,
        "after": None,
        "read_back": None,
        "notes": [],
        "detail": "",
    }


def summary(switches: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {
        "switches": len(switches),
        "written": sum(one["writes"] for one in switches),
        "progress": Counter(one["progress"] for one in switches),
        "written_progress": Counter(one["progress"] for one in switches if one["writes"]),
        "left_alone": [one["switch"] for one in switches if one["progress"] == "left_alone"],
        "given_up": [one["switch"] for one in switches if one["progress"] == "given_up"],
    }


def rollout(
    phase: str, *, events: int = 0, switches: Sequence[dict[str, Any]] = (), **more: Any
) -> dict[str, Any]:
    switches = switches or [switch("leaf1", "set"), switch("leaf2", "waiting")]
    return {
        "id": "r 1",
        "recommendation": "r",
        "phase": phase,
        "ended": phase in ("done", "rolled_back"),
        "why": None,
        "approved_by": "bob",
        "stalled": None,
        "proposed_at": AT,
        "since": AT,
        "stage": 0,
        "stages": [["leaf1"], ["leaf2"]],
        "summary": summary(switches),
        "switches": switches,
        "events": [
            {"at": AT, "what": "Applied", "switch": f"leaf{number}", "detail": ""} for number in range(events)
        ],
    } | more


class Followed:
    """A service that answers these, one after the other (None: not at all), the last for ever."""

    def __init__(self, *answers: dict[str, Any] | None) -> None:
        self._answers = list(answers)
        self.now_s = 0.0
        self.paths: list[str] = []

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.paths.append(request.url.raw_path.decode())
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if answer is None:
            raise httpx.ConnectError("refused")
        if "remedy" in answer:
            return httpx.Response(404, json=answer)
        return httpx.Response(200, json=answer)

    def _sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def follow(self, shown: int = 0) -> tuple[dict[str, Any], list[str]]:
        screen = Console(file=io.StringIO(), width=100)
        service = ServiceClient("http://x", transport=httpx.MockTransport(self._answer))
        answer = follow(
            service, "r 1", lines=screen, shown=shown, clock_s=lambda: self.now_s, sleep=self._sleep
        )
        assert isinstance(screen.file, io.StringIO)
        return json.loads(answer.content), screen.file.getvalue().splitlines()


def test_each_thing_is_told_once() -> None:
    followed = Followed(rollout("canary", events=1), rollout("soak", events=3), rollout("done", events=4))
    ended, lines = followed.follow()
    assert ended["phase"] == "done"
    assert [line.split()[-2] for line in lines] == ["leaf0", "leaf1", "leaf2", "leaf3"]
    assert set(followed.paths) == {"/v1/rollouts/r%201"}


def test_what_was_told_before_is_not_told_again() -> None:
    _, lines = Followed(rollout("rolled_back", events=5)).follow(shown=4)
    assert len(lines) == 1


def test_a_service_that_goes_away_for_a_while_is_waited_for() -> None:
    ended, lines = Followed(rollout("canary", events=1), None, None, rollout("done", events=2)).follow()
    assert ended["phase"] == "done"
    assert len(lines) == 2


def test_one_that_stays_away_is_told_with_where_to_look() -> None:
    followed = Followed(rollout("canary"), None)
    with pytest.raises(
        AwayError, match="rollout r 1 continues in the service; run ecntwin rollouts r 1 once"
    ):
        followed.follow()
    assert AWAY_S < followed.now_s < AWAY_S + 10


def test_who_stops_watching_stops_no_rollout(capsys: pytest.CaptureFixture[str]) -> None:
    followed = Followed(rollout("canary"))

    def interrupted(seconds: float) -> None:
        raise KeyboardInterrupt

    followed._sleep = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        followed.follow()
    assert "the rollout goes on; ecntwin rollouts r 1 shows" in capsys.readouterr().err


def test_one_that_knows_it_no_more_ends_it() -> None:
    forgotten = {"where": "w", "received": "r", "rule": "u", "remedy": "m"}
    with pytest.raises(RefusedError):
        Followed(rollout("canary"), forgotten).follow()


def sentence(phase: str, switches: Sequence[dict[str, Any]] = (), **more: Any) -> str:
    document = rollout(phase, switches=switches, **more)
    content = json.dumps(document).encode()
    transport = httpx.MockTransport(lambda request: httpx.Response(200, content=content))
    return progress_text(ServiceClient("http://x", transport=transport).get("/").read(RolloutAnswer))


def test_where_it_stands_is_a_sentence() -> None:
    assert "none is touched" in sentence("approved")
    assert sentence("canary") == "setting leaf1 first"
    assert sentence("soak") == "leaf1 set and watched; 1 of 2 switches set"
    assert sentence("fleet", stage=1) == "setting leaf2; 1 of 2 switches set"
    assert sentence("fleet", stalled="the disk is full") == "it stands still: the disk is full"
    assert sentence("rolling_back", why="silence") == "taking it back: silence"
    assert sentence("a_new_one") == "a new one"


def test_how_it_ended_is_a_sentence() -> None:
    assert sentence("done", [switch("a", "set")]) == "1 switch read back to run it"
    assert sentence("done", [switch("a", "set", writes=False)]) == "a dry run: would have set 1 switch"
    some = sentence("done", [switch("a", "set"), switch("b", "set", writes=False)])
    assert some == "1 switch read back to run it; a dry run on 1 switch, which nothing was written to"
    undone = sentence("rolled_back", [switch("a", "restored", writes=False)])
    assert undone == "a dry run: nothing had been written, nothing to undo"
    assert sentence("rolled_back", [switch("a", "waiting")]) == "no switch had been touched"
    both = sentence("rolled_back", [switch("a", "restored"), switch("b", "left_alone")])
    assert both.startswith("1 switch returned to what ran before; left alone")
    assert both.endswith(": b")
    lost = sentence("rolled_back", [switch("a", "restored"), switch("b", "given_up")])
    assert lost == "1 switch returned to what ran before; given up, and may still run the change: b"


def test_switches_of_a_dry_run_count_among_none_of_those_that_are_set() -> None:
    dry = [switch("b", "set", writes=False), switch("c", "set", writes=False)]
    assert sentence("fleet", [switch("a", "applying"), *dry]).endswith("0 of 1 switch set")
    undone = [one | {"progress": "restored"} for one in dry]
    only = "a dry run on 2 switches, which nothing was written to"
    both = sentence("rolled_back", [switch("a", "restored"), *undone])
    assert both == f"1 switch returned to what ran before; {only}"
    assert sentence("rolled_back", [switch("a", "staged"), *undone]) == f"no switch had been touched; {only}"


def test_giving_up_asks_or_is_told_to_and_shows_what_is_left(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, object]] = []

    class Server(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append((self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
            left = switch("leaf1", "given_up") | {"detail": "bob has given it up"}
            body = json.dumps(rollout("rolled_back", switches=[left])).encode()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing goes to standard error."""

    monkeypatch.delenv("ECNTWIN_TOKEN", raising=False)
    with HTTPServer(("127.0.0.1", 0), Server) as server:
        answering = threading.Thread(target=server.serve_forever)
        answering.start()
        try:
            url = f"http://127.0.0.1:{server.server_port}"
            call = ["give-up", "r 1", "leaf1", "--reason", "it is replaced", "--url", url]
            assert run_to_exit_code(app, call) == 2
            assert "add --yes where this is meant" in capsys.readouterr().err
            assert run_to_exit_code(app, [*call, "--yes"]) == 0
        finally:
            server.shutdown()
            answering.join()
    assert asked == [("/v1/rollouts/r%201/give-up", {"member": "leaf1", "reason": "it is replaced"})]
    out = capsys.readouterr().out
    assert "given up, and may still run the change: leaf1" in out
    assert "leaf1: bob has given it up" in out


def with_hosts(phase: str, progress: dict[str, int], **more: Any) -> str:
    """A rollout of one switch, which is set, and of three hosts."""
    switches = [switch("a", "set" if phase == "done" else "restored")]
    hosts = {"hosts": 3, "hosts_written": 3, "hosts_progress": progress} | more
    return sentence(phase, switches, summary=summary(switches) | hosts)


def test_hosts_are_counted_beside_switches() -> None:
    assert with_hosts("done", {"set": 3}) == "1 switch and 3 hosts read back to run it"
    out = with_hosts("done", {"set": 2, "left_out": 1}, left_out=["gpu7"])
    assert out == "1 switch and 2 hosts read back to run it; left out, as they did not answer: gpu7"
    assert with_hosts("rolled_back", {"restored": 3}) == "1 switch and 3 hosts returned to what ran before"
    assert with_hosts("fleet", {"set": 1}).endswith("1 of 3 hosts, 0 of 1 switch set")
