"""Commands against a real service over a lab: look, approve, follow, roll back, freeze, watch, complete."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

import httpx
import pytest
from rich.cells import cell_len

from cli.main import app
from cli.output import run_to_exit_code
from tests.counterparts.ports import free_port
from tests.e2e.process import PATIENCE_S, REPOSITORY, Served, lab_at, serving
from tests.e2e.test_lab import DEFAULT, FABRIC
from tests.e2e.test_lab import SETTINGS as LAB_SETTINGS

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

SETTINGS = LAB_SETTINGS | {"ECNTWIN_ROLLOUT__PATIENCE_S": str(PATIENCE_S)}
WIDTHS = (80, 200)


@pytest.fixture(autouse=True)
def _environment(no_settings: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setenv("TERM", "dumb")


@dataclass
class Terminal:
    """Runs commands in this process as a script does: nobody is there to answer."""

    url: str
    capsys: pytest.CaptureFixture[str]
    monkeypatch: pytest.MonkeyPatch

    def __call__(self, *arguments: str, columns: int = 200) -> tuple[int, str, str]:
        self.monkeypatch.setenv("COLUMNS", str(columns))
        self.monkeypatch.setenv("ECNTWIN_URL", self.url)
        code = run_to_exit_code(app, arguments)
        out, err = self.capsys.readouterr()
        assert "Traceback" not in out + err
        return code, out, err

    def json(self, *arguments: str, code: int = 0) -> Any:
        ended, out, err = self(*arguments, "--json")
        assert (ended, err) == (code, "") if code == 0 else ended == code, err
        return json.loads(out)

    def refused(self, *arguments: str) -> str:
        code, out, err = self(*arguments)
        assert (code, out, err.count("\n")) == (2, "", 1), out + err
        return err

    def shown(self, *arguments: str) -> str:
        """What is shown in 200 columns, once it was seen to fit into 80 too."""
        texts = []
        for columns in WIDTHS:
            code, out, err = self(*arguments, columns=columns)
            assert (code, err) == (0, "")
            assert max(map(cell_len, out.splitlines())) <= columns
            assert "…" not in out
            texts.append(out)
        return texts[-1]


@dataclass
class Loop:
    """A lab that has told a service of its traffic."""

    served: Served
    service: httpx.Client
    lab: httpx.Client

    def tuned(self) -> dict[str, Any]:
        answer = self.service.post("/v1/tune")
        assert answer.status_code == 200, answer.text
        document: dict[str, Any] = answer.json()
        assert document["changes"], document["why"]
        return document

    def tuned_for_other_traffic(self, known: str) -> dict[str, Any]:
        """Traffic goes on until a round recommends a change, and another one than ``known``."""
        while True:
            until_s = self.lab.get("/status").json()["now_s"] + 0.006
            assert self.lab.post("/advance", json={"until_s": until_s}).status_code == 200
            document: dict[str, Any] = self.service.post("/v1/tune").json()
            if document["changes"] and document["id"] != known:
                return document

    def runs(self, switch: str = "leaf1") -> object:
        return self.lab.get(f"/switches/{switch}").json()["watermark"]


@contextmanager
def told_by_lab(served: Served, port: int) -> Iterator[Loop]:
    """A lab on that port has told the service of its traffic, for long enough that a gain is sure."""
    with (
        lab_at(port, *FABRIC, "--step", "--post-to", served.url) as process,
        httpx.Client(base_url=served.url, timeout=PATIENCE_S) as service,
        httpx.Client(base_url=process.url, timeout=PATIENCE_S) as lab,
    ):
        assert lab.post("/advance", json={"until_s": 0.02}).status_code == 200
        yield Loop(served, service, lab)


@pytest.fixture(scope="module")
def loop() -> Iterator[Loop]:
    port = free_port()
    with (
        serving(**SETTINGS, ECNTWIN_PUSH__LAB_URL=f"http://127.0.0.1:{port}") as served,
        told_by_lab(served, port) as here,
    ):
        yield here


@pytest.fixture
def terminal(loop: Loop, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Terminal:
    return Terminal(loop.served.url, capsys, monkeypatch)


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_what_the_network_does_is_shown(loop: Loop, terminal: Terminal) -> None:
    status = terminal.shown("status")
    assert loop.served.url in status
    assert "ready" in status
    assert "all run Kmin 400 KB, Kmax 1.6 MB, Pmax 20 %" in status
    document = terminal.json("status")
    assert document["ready"] is True
    assert document["state"]["reports"] > 0
    assert {one["name"] for one in document["switches"]} == {"leaf1", "leaf2", "spine1"}
    assert document["freeze"]["frozen"] is False

    flows = terminal.json("flows", "--limit", "3")
    assert flows == loop.service.get("/v1/flows", params={"limit": 3}).json()
    first = flows["flows"][0]
    table = terminal.shown("flows", "--limit", "3")
    assert f"3 of {flows['total']} flows, most bytes first" in table
    (line,) = [line for line in table.splitlines() if f"{first['sport']} → {first['dport']}" in line]
    assert first["src_host"] in line
    assert " → ".join(first["path"]) in line
    mice = terminal.json("flows", "--class", "mouse")["flows"]
    assert {one["flow_class"] for one in mice} == {"mouse"}
    here = terminal.json("flows", "--host", first["src_host"], "--switch", "spine1")["flows"]
    assert here
    assert all(first["src_host"] in (one["src_host"], one["dst_host"]) for one in here)
    assert all(any(hop.startswith("spine1") for hop in one["path"]) for one in here)
    assert "is not one of" in terminal.refused("flows", "--class", "mice")

    assert "alarms" in terminal.json("alarms", "--all")
    assert terminal("alarms", "--all")[0] == 0
    silence = terminal.json("alarms", "silence", "--for", "90m", "--switch", "leaf1", "--note", "rack")
    assert silence["note"] == "rack"
    assert terminal.json("alarms", "silences")["silences"] == [silence]
    assert f"{silence['id']}  every kind on leaf1, silenced until" in terminal.shown("alarms", "silences")
    assert terminal.json("alarms", "unsilence", silence["id"]) == silence
    assert "No silences" in terminal.shown("alarms", "silences")
    assert "list them at /v1/alarms" in terminal.refused("alarms", "ack", "nothing")


def test_a_recommendation_is_shown_approved_followed_and_rolled_back(loop: Loop, terminal: Terminal) -> None:
    found = loop.tuned()
    name = found["id"]
    listed = terminal.json("recommendations", "--limit", "1")
    assert [one["id"] for one in listed["recommendations"]] == [name]
    table = terminal.shown("recommendations")
    assert name in table
    assert "pending" in table
    one = terminal.shown("recommendations", name)
    assert " ".join(found["why"].split()) in " ".join(one.split())
    assert "Predicted by the twin" in one
    assert "Best of" in one
    assert terminal.json("recommendations", "current") == found

    assert "--yes" in terminal.refused("approve", name)
    assert loop.runs() == DEFAULT

    code, out, err = terminal("approve", name, "--yes", columns=80)
    assert (code, err) == (0, ""), out
    assert " s ago." in out
    assert "400 KB → " in out
    rows = [line.split()[0] for line in out.splitlines() if " → " in line]
    told = [line for line in out.splitlines() if line.endswith(" confirmed")]
    decided = loop.service.get(f"/v1/recommendations/{name}").json()
    assert rows == found["switches"] == sorted(line.split()[1] for line in told)
    assert out.splitlines()[-1] == f"done: {len(rows)} switches read back to run it."
    assert loop.runs() == decided["staged"]
    assert "it is approved; only a pending recommendation can be approved" in terminal.refused(
        "approve", name, "--yes"
    )
    assert "it is approved; only a pending recommendation can be approved" in terminal.refused("reject", name)

    assert name in terminal.shown("rollouts")
    details = terminal.shown("rollouts", decided["rollout"])
    assert "canary" in details
    assert "leaf1 verified" in details
    assert terminal.json("rollouts", decided["rollout"])["phase"] == "done"

    assert decided["rollout"] in terminal.shown("rollouts", "newest")
    code, out, err = terminal("rollback", "newest")
    assert (code, err) == (0, "")
    assert "proposed" not in out  # that was before
    assert out.splitlines()[-1] == f"rolled back: {len(rows)} switches returned to what ran before."
    assert loop.runs() == DEFAULT
    assert "rolled back" in terminal.shown("status")


def test_one_document_says_what_became_of_an_approval(loop: Loop, terminal: Terminal) -> None:
    found = loop.tuned()
    document = terminal.json("approve", "current", "--yes")
    assert (document["recommendation"]["id"], document["recommendation"]["status"]) == (
        found["id"],
        "approved",
    )
    assert document["rollout"]["phase"] == "done"
    back = terminal.json("rollback", document["rollout"]["id"])
    assert (back["ended"], back["phase"]) == (True, "rolled_back")

    found = loop.tuned()
    document = terminal.json("approve", found["id"], "--yes", "--no-wait")
    assert document["rollout"] is None
    begun = document["recommendation"]["rollout"]
    eventually(lambda: bool(loop.service.get(f"/v1/rollouts/{begun}").json()["ended"]))
    code, out, _ = terminal("rollback", begun, "--no-wait")
    assert code == 0
    assert f"ecntwin rollouts {begun}" in out
    eventually(lambda: bool(loop.service.get(f"/v1/rollouts/{begun}").json()["ended"]))


def test_freezing_stops_an_approval(loop: Loop, terminal: Terminal) -> None:
    found = loop.tuned()
    state = terminal.json("freeze")
    assert (state["frozen"], state["by"]) == (True, "local")
    assert "Frozen by local" in terminal.shown("status")
    err = terminal.refused("approve", found["id"], "--yes")
    assert "it is blocked: Switches are frozen by local; thaw them first (ecntwin thaw)" in err
    assert loop.runs() == DEFAULT
    code, out, _ = terminal("thaw")
    assert (code, out) == (0, "Not frozen. Switches may be set.\n")
    assert terminal.json("thaw")["frozen"] is False


def test_what_is_no_longer_good_is_refused_though_nobody_is_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()
    settings = SETTINGS | {
        "ECNTWIN_SEARCH__SCORE": "normalised",  # always a change: of so short a window no gain is sure
        "ECNTWIN_PUSH__LAB_URL": f"http://127.0.0.1:{port}",
        "ECNTWIN_STORAGE__URL": f"sqlite:///{tmp_path}/kept.db",
    }
    with serving(**settings) as served:
        terminal = Terminal(served.url, capsys, monkeypatch)

        def refused(found: str) -> str:
            code, _, err = terminal("approve", found, "--yes")  # some switches are read before it is refused
            assert code == 2, err
            return err

        with told_by_lab(served, port) as here:
            rollout = terminal.json("approve", here.tuned()["id"], "--yes")["rollout"]["id"]
            found = here.tuned_for_other_traffic(rollout)["id"]
            terminal.json("rollback", rollout)
            assert "it is expired: " in refused(found)

            older = here.tuned()["id"]
            found = here.tuned_for_other_traffic(older)["id"]
            assert "it is superseded" in refused(older)

            terminal.json("freeze")
            assert "it is blocked: Switches are frozen by local" in refused(found)
            terminal.json("thaw")

            assert here.lab.put("/switches/leaf1/watermark", json=DEFAULT | {"pmax": 0.3}).status_code == 200
            assert "leaf1 now runs Kmin 400 KB, Kmax 1.6 MB, Pmax 30 %" in refused(found)
            assert "it is expired: " in refused("current")
            assert here.lab.put("/switches/leaf1/watermark", json=DEFAULT).status_code == 200
            found = here.tuned()["id"]
        assert "cannot be read" in refused(found)
        assert [one["phase"] for one in terminal.json("rollouts")["rollouts"]] == ["rolled_back"]
    with serving(**settings, ECNTWIN_TUNING__STALE_AFTER_S="0.001") as again:
        said = Terminal(again.url, capsys, monkeypatch).refused("approve", found, "--yes")
        assert "it is expired: No INT report came for " in said


def test_a_rollout_that_is_taken_back_is_exit_1() -> None:
    port = free_port()
    # It soaks until the lab is told to go on, which nobody does.
    forever = str(10 * PATIENCE_S)
    soaking = {"ECNTWIN_ROLLOUT__SOAK_S": forever, "ECNTWIN_ROLLOUT__SILENCE_S": forever}
    with (
        serving(**(SETTINGS | soaking), ECNTWIN_PUSH__LAB_URL=f"http://127.0.0.1:{port}") as served,
        told_by_lab(served, port) as here,
    ):
        name = here.tuned()["id"]
        with Command(served.url, "approve", name, "--yes") as following:
            eventually(lambda: following.said("leaf1 confirmed"))
            with Command(served.url, "rollback", name, "--json") as asked:
                assert asked.ended() == 0, asked.err
            assert json.loads("".join(asked.out))["phase"] == "rolled_back"
            assert following.ended() == 1
        assert following.out[-1].startswith("rolled back: 1 switch returned")
        assert following.err == [f"ecntwin: rollout {name} was taken back: local asked for it\n"]
        assert here.runs() == DEFAULT


def test_what_nobody_knows_is_refused_with_the_services_sentence(loop: Loop, terminal: Terminal) -> None:
    for arguments in (
        ("recommendations", "no such?one"),
        ("approve", "none", "--yes"),
        ("reject", "none"),
        ("rollouts", "none"),
        ("rollback", "none"),
    ):
        assert terminal.refused(*arguments, "--json").startswith("ecntwin: r")
    found = loop.tuned()
    code, out, err = terminal("reject", found["id"])
    assert (code, out, err) == (0, f"{found['id']} rejected; nothing is set.\n", "")


def test_a_service_that_is_away_is_a_sentence(terminal: Terminal) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    for command in (
        ("status",),
        ("flows",),
        ("recommendations",),
        ("recommendations", "a"),
        ("approve", "a", "--yes"),
        ("reject", "a"),
        ("rollouts",),
        ("rollback", "a"),
        ("alarms",),
        ("alarms", "ack", "a"),
        ("alarms", "silence", "--for", "1h", "--switch", "leaf1"),
        ("freeze",),
        ("thaw",),
        ("watch",),
        ("watch", "--json"),
    ):
        code, out, err = terminal(*command, "--url", url)
        assert (code, out, err.count("\n")) == (1, "", 1), command
        assert url in err


def test_tokens_are_taken_from_the_environment(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = [
        {"name": "reader", "sha256": sha256(b"reading").hexdigest(), "scopes": ["read"]},
        {"name": "collector", "sha256": sha256(b"posting").hexdigest(), "scopes": ["telemetry"]},
    ]
    with serving(ECNTWIN_SECURITY__TOKENS=json.dumps(tokens)) as served:
        terminal = Terminal(served.url, capsys, monkeypatch)
        assert "ECNTWIN_TOKEN" in terminal.refused("status")
        assert "ECNTWIN_TOKEN" in terminal.refused("watch")
        monkeypatch.setenv("ECNTWIN_TOKEN", "wrong")
        assert "ECNTWIN_TOKEN" in terminal.refused("flows")
        monkeypatch.setenv("ECNTWIN_TOKEN", "posting")
        assert "scope read" in terminal.refused("alarms")
        monkeypatch.setenv("ECNTWIN_TOKEN", "reading")
        assert "scope operate" in terminal.refused("freeze")
        # A service that has nothing yet.
        assert "nothing to show yet; ecntwin demo --serve" in terminal.shown("status")
        assert "no rollout has begun yet" in terminal.refused("rollback", "newest")
        assert terminal.shown("recommendations") == "No round has run yet.\n"
        assert terminal.shown("rollouts") == "No rollout has begun yet.\n"
        assert terminal.shown("alarms") == "No alarms\n"
        empty = terminal.json("status")
        assert (empty["ready"], empty["state"], empty["recommendation"]) == (False, None, None)
        assert "window" in terminal.refused("flows")


def command_environment(url: str, **more: str) -> Mapping[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ECNTWIN_")}
    return kept | {"ECNTWIN_URL": url} | more


class Command:
    """A command as a process of its own, and the lines of what it said so far."""

    def __init__(self, url: str, *arguments: str) -> None:
        self.process = subprocess.Popen(
            # A shell's background job, such as these tests may be, hands its children an ignored SIGINT.
            ["env", "--default-signal=INT", sys.executable, "-m", "cli", *arguments],
            cwd=REPOSITORY,
            env=command_environment(url),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.out: list[str] = []
        self.err: list[str] = []
        self._readers = [
            threading.Thread(target=self._read, args=pair, daemon=True)
            for pair in ((self.process.stdout, self.out), (self.process.stderr, self.err))
        ]
        for reader in self._readers:
            reader.start()

    @staticmethod
    def _read(stream: Any, lines: list[str]) -> None:
        lines.extend(iter(stream.readline, ""))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.ended()

    def said(self, text: str) -> bool:
        """Whether it has; fails where it ended without."""
        found = any(text in line for line in self.out)
        assert found or self.process.poll() is None, self.err
        return found

    def interrupt(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.ended()

    def ended(self) -> int:
        code = self.process.wait(PATIENCE_S)
        for reader in self._readers:
            reader.join(PATIENCE_S)
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()
        return code


def tune_until(service: httpx.Client, seen: Callable[[], bool]) -> None:
    """Has rounds begin until one is seen: a listener may not listen yet."""

    def tried() -> bool:
        assert service.post("/v1/tune").status_code == 200
        return seen()

    eventually(tried)


def test_events_are_watched_until_ctrl_c(loop: Loop) -> None:
    url = loop.served.url
    with Command(url, "watch") as people, Command(url, "watch", "--json") as machines:
        tune_until(
            loop.service,
            lambda: people.said("recommendation  ") and machines.said('"event":"recommendation"'),
        )
        assert (people.interrupt(), machines.interrupt()) == (0, 0)
    assert people.err == machines.err == []
    assert any(loop.served.url in line for line in people.out)
    events = [json.loads(line) for line in machines.out]
    assert {"round", "recommendation"} <= {event["event"] for event in events}
    assert all(event.keys() == {"event", "data", "id"} for event in events)
    numbers = [event["id"] for event in events]
    assert numbers == sorted(set(numbers))


def told_of_reports_until(url: str, seen: Callable[[], bool]) -> None:
    """Has events happen until one is seen: a listener may not listen yet."""
    with httpx.Client(base_url=url, timeout=PATIENCE_S) as service:

        def tried() -> bool:
            assert service.post("/v1/telemetry/int", json=[{}]).json()["rejected"] == 1
            return seen()

        eventually(tried)


def test_watching_goes_on_when_the_service_comes_back() -> None:
    port = str(free_port())
    # Nobody looks for alarms: what is posted is no report, which lasts long on a slow machine.
    settings = {"ECNTWIN_TUNING__ENABLED": "false", "ECNTWIN_ALARMS__EVERY_S": "86400"}
    with ExitStack() as started:
        with serving("--port", port, **settings) as served:
            url = served.url
            machines = started.enter_context(Command(url, "watch", "--json"))
            people = started.enter_context(Command(url, "watch"))

            def listened() -> int:
                return sum("listening" in line for line in people.out)

            told_of_reports_until(
                url, lambda: people.said("listening") and machines.said('"event":"reports"')
            )
        eventually(lambda: bool(machines.err) and people.said("connection lost"))
        heard, stood = len(machines.out), listened()
        with serving("--port", port, **settings):
            told_of_reports_until(url, lambda: listened() > stood and len(machines.out) > heard)
            assert (machines.interrupt(), people.interrupt()) == (0, 0)
    assert {json.loads(line)["event"] for line in machines.out} == {"reports"}
    assert all(line.startswith("ecntwin: connection lost") for line in machines.err)


class Person:
    """A command on a terminal of its own, typed to."""

    def __init__(self, url: str, *arguments: str) -> None:
        self._ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "cli", *arguments],
            cwd=REPOSITORY,
            env=command_environment(url, TERM="xterm", COLUMNS="80"),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        self.seen = ""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                read = os.read(self._ours, 4_096)
            except OSError:  # the other end was closed
                return
            self.seen += read.decode(errors="replace")

    def types(self, text: str, *, at: str) -> int:
        """Types once it is asked; the exit code."""
        try:
            eventually(lambda: at in self.seen or self.process.poll() is not None)
            os.write(self._ours, text.encode())
            return self.process.wait(PATIENCE_S)
        finally:
            self.process.kill()
            self.process.wait()
            self._reader.join(PATIENCE_S)
            os.close(self._ours)


@pytest.mark.skipif(sys.platform == "win32", reason="terminals of this kind are POSIX's")
def test_a_person_is_asked(loop: Loop) -> None:
    found = loop.tuned()
    asked = f"Approve {found['id']}? [y/N]:"
    person = Person(loop.served.url, "approve", found["id"])
    assert person.types("n\n", at=asked) == 1, person.seen
    assert "Nothing was done." in person.seen
    assert loop.runs() == DEFAULT
    person = Person(loop.served.url, "approve", found["id"])
    assert person.types("y\n", at=asked) == 0, person.seen
    assert "read back to run it" in person.seen
    person = Person(loop.served.url, "rollback", found["id"])
    assert person.types("y\n", at=f"Roll {found['id']} back? [y/N]:") == 0, person.seen
    assert loop.runs() == DEFAULT


def test_the_shell_completes_commands_and_ids(loop: Loop) -> None:
    found = loop.tuned()

    def completed(url: str, line: str) -> list[str]:
        done = subprocess.run(
            [sys.executable, "-m", "cli"],
            cwd=REPOSITORY,
            env=command_environment(
                url,
                _ECNTWIN_COMPLETE="complete_bash",
                COMP_WORDS=line,
                COMP_CWORD=str(len(line.split(" ")) - 1),
            ),
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stderr == ""
        return done.stdout.split()

    assert completed(loop.served.url, "ecntwin rol") == ["rollouts", "rollback"]
    # A service that is busy may answer too late for a line that is being typed: then none is offered.
    eventually(lambda: completed(loop.served.url, "ecntwin approve ") == [found["id"]])
    eventually(lambda: found["id"] in completed(loop.served.url, "ecntwin recommendations 2"))
    assert completed(f"http://127.0.0.1:{free_port()}", "ecntwin approve ") == []
