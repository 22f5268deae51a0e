"""An Arista switch's eAPI: configuration sessions with a commit timer over one running configuration.

Requests are held to the exact form of eAPI's JSON-RPC, and commands to those that the adapter needs.
"""

from __future__ import annotations

import re
from copy import deepcopy
from typing import Any

from tests.counterparts.switches.http_switch import Asked, HttpSwitch, Reply
from twin.watermark import Watermark

QUEUES = (3, 4)
PROFILE = "ROCE"
PORTS = ("Ethernet1/1", "Ethernet2/1")
TIMER = "commit timer 00:05:00"
_WRED = re.compile(
    r"random-detect ecn minimum-threshold (\d+) (?:bytes|segments|kbytes) maximum-threshold (\d+)"
    r" (?:bytes|segments|kbytes) max-mark-probability (\d+) weight (\d+)"
)
Tree = dict[str, Any]


class EosSwitch(HttpSwitch):
    """``modern``: sessions are shown as from EOS 4.32 on."""

    def __init__(self, first: Watermark, *, modern: bool = True, **server: Any) -> None:
        super().__init__(**server)
        self.modern = modern
        self.reset(first)

    def reset(self, first: Watermark) -> None:
        queues: Tree = {
            f"uc-tx-queue {queue}": {line_of(first): {}, "random-detect ecn count": {}} for queue in QUEUES
        }
        self.running: Tree = {
            "hostname leaf1": {},
            f"qos profile {PROFILE}": {
                "qos trust dscp": {},
                "priority-flow-control on": {},
                "priority-flow-control priority 3 no-drop": {},
                "uc-tx-queue 0": {line_of(Watermark(1_000, 2_000, 0.01)): {}},
                **queues,
            },
            "qos profile EDGE": {"uc-tx-queue 3": {line_of(Watermark(5_000, 6_000, 0.5)): {}}},
            "interface Ethernet1/1": {"mtu 9214": {}, f"service-profile {PROFILE}": {}},
            "interface Ethernet2/1": {"mtu 9214": {}, f"service-profile {PROFILE}": {}},
            "interface Ethernet49/1": {"service-profile EDGE": {}},
        }
        self.shows: dict[str, dict[str, Any]] = {}  # what further commands answer in JSON
        self.sessions: dict[str, str] = {}
        self.candidates: dict[str, Tree] = {}
        self.waiting: str | None = None
        self.checkpoint: Tree = {}
        self.history: list[tuple[int, int]] = []
        self.saved = 0
        self.ignoring = False
        self.refuses: str | None = None  # commands that start so
        self.asked.clear()
        self.unexpected.clear()

    def line(self, queue: int, place: str = f"qos profile {PROFILE}") -> str | None:
        below = self.running.get(place, {}).get(f"uc-tx-queue {queue}", {})
        return next((line for line in below if line.startswith("random-detect ecn minimum")), None)

    def set_by_hand(self, queue: int, line: str | None, place: str = f"qos profile {PROFILE}") -> None:
        below = self.running[place][f"uc-tx-queue {queue}"]
        below.pop(self.line(queue, place), None)
        if line is not None:
            below[line] = {}

    def expire(self) -> None:
        """The commit timer's time is over: the whole configuration returns to what it was at the commit."""
        if self.waiting is not None:
            self._abort(self.waiting)

    def answer(self, asked: Asked) -> Reply:
        body = asked.body
        if (asked.method, asked.path, asked.query) != ("POST", "/command-api", {}):
            return self.surprised(asked, "not eAPI", 404)
        try:
            cmds, form = body["params"]["cmds"], body["params"]["format"]
        except (KeyError, TypeError):
            return self.surprised(asked, "not runCmds")
        params = {"version": 1, "cmds": cmds, "format": form}
        whole = {"jsonrpc": "2.0", "method": "runCmds", "params": params, "id": "ecntwin"}
        if body != whole or cmds[0] != "enable" or form not in ("json", "text"):
            return self.surprised(asked, "not the form of a request")
        self._session: str | None = None
        self._path: list[str] = []
        results: list[dict[str, Any]] = [{}]
        for number, command in enumerate(cmds[1:], start=2):
            try:
                results.append(self._run(command, form))
            except ValueError as error:
                if str(error) == "unexpected":
                    self.unexpected.append(command)
                return Reply(body=_failed(body, number, len(cmds), command, results, str(error)))
        changes = any(command.startswith(("configure", "copy")) for command in cmds)
        return Reply(body={"jsonrpc": "2.0", "result": results, "id": body["id"]}, changes=changes)

    def _run(self, command: str, form: str) -> dict[str, Any]:
        if self.refuses is not None and command.startswith(self.refuses):
            raise ValueError("Invalid input (at token 1)")
        if self._session is not None:
            return self._configure(command)
        if command == "show configuration sessions detail" and form == "json":
            return self._shown_sessions()
        if command.startswith("show running-config section ") and form == "text":
            return {"output": self._section(command.removeprefix("show running-config section "))}
        if command in self.shows and form == "json":
            return self.shows[command]
        if command == "copy running-config startup-config":
            self.saved += 1
            return {"messages": ["Copy completed successfully."]}
        match command.split():
            case ["configure", "session", name]:
                if self.sessions.get(name, "pending") != "pending":
                    raise ValueError(f"Cannot enter session {name} (already completed)")
                if name not in self.sessions:
                    self.sessions[name] = "pending"
                    self.candidates[name] = deepcopy(self.running)
                self._session = name
                return {}
            case ["configure", "session", name, "abort"] if name in self.sessions:
                self._abort(name)
                return {}
            case ["configure", "session", name, "commit"] if name == self.waiting:
                self.waiting = None
                self.sessions[name] = "completed"
                return {}
        raise ValueError("unexpected")

    def _configure(self, command: str) -> dict[str, Any]:
        assert self._session is not None
        if command in ("commit", TIMER):
            if self._path:
                raise ValueError("unexpected")
            self._commit(self._session, timed=command != "commit")
            return {}
        if command == "exit" and self._path:
            self._path.pop()
            return {}
        here: Tree = self.candidates[self._session]
        whole = here
        for part in self._path:
            here = here[part]
        if self._binds(command, whole):
            _bind(here, command)
        elif self._copies(command):
            self._path += [command] if here.setdefault(command, {}) or _opens(command) else []
        elif command.startswith("no ") and command.removeprefix("no ") in here:
            name = command.removeprefix("no qos profile ")
            if any(f"service-profile {name}" in below for below in whole.values()):
                raise ValueError(f"profile {name} is in use")
            del here[command.removeprefix("no ")]
        elif command in here and not command.startswith("random-detect"):
            self._path.append(command)
        elif self._path[-1:] and self._path[-1] in _settable() and _WRED.fullmatch(command):
            for line in [line for line in here if line.startswith("random-detect ecn minimum")]:
                del here[line]
            here[command] = {}
        else:
            raise ValueError("unexpected")
        return {}

    def _binds(self, command: str, whole: Tree) -> bool:
        place, name = "".join(self._path), command.removeprefix("service-profile ")
        return place.startswith("interface ") and name != command and f"qos profile {name}" in whole

    def _copies(self, command: str) -> bool:
        """Whether it begins a profile of ours, or is a line of one that stands in another profile so."""
        if not self._path:
            return command.startswith("qos profile ecntwin-")
        if self._path[-1] in _settable() and _WRED.fullmatch(command):
            return False  # it replaces the one that is there
        others = [below for line, below in self.running.items() if line.startswith("qos profile ")]
        for part in self._path[1:]:
            others = [below[part] for below in others if part in below]
        ours = self._path[0].startswith("qos profile ecntwin-")
        return ours and any(command in below for below in others)

    def _commit(self, name: str, *, timed: bool) -> None:
        if self.waiting is not None:
            raise ValueError(f"Commit timer of session {self.waiting} is running")
        self.checkpoint = deepcopy(self.running)
        if not self.ignoring:
            self.running = self.candidates.pop(name)
        self._note()
        self._session = None
        if timed:
            self.waiting = name
            self.sessions[name] = "committed" if self.modern else "pendingCommitTimer"
        else:
            self.sessions[name] = "completed"

    def _abort(self, name: str) -> None:
        if self.waiting == name:
            self.running = deepcopy(self.checkpoint)
            self.waiting = None
            self._note()
        elif self.sessions[name] != "pending":
            raise ValueError(f"Session {name} is over")
        self.sessions[name] = "aborted"

    def effective(self, port: str) -> str:
        """The profile of a port."""
        (name,) = [line for line in self.running[f"interface {port}"] if line.startswith("service-profile ")]
        return f"qos profile {name.removeprefix('service-profile ')}"

    def _note(self) -> None:
        places = {
            f"qos profile {PROFILE}",
            *(self.effective(port) for port in PORTS if f"interface {port}" in self.running),
        }
        found = [_WRED.fullmatch(self.line(queue, place) or "") for place in places for queue in QUEUES]
        self.history += [(int(match[1]), int(match[2])) for match in found if match]

    def _shown_sessions(self) -> dict[str, Any]:
        rows = {name: {"state": state, "instances": {}} for name, state in self.sessions.items()}
        shown: dict[str, Any] = {"sessions": rows, "maxSavedSessions": 1, "maxOpenSessions": 5}
        if self.modern and self.waiting is not None:
            shown |= {"commitTimerSessionName": self.waiting, "commitTimerExpireTime": 1739832620.18}
        return shown

    def _section(self, pattern: str) -> str:
        """The sections with that anywhere in them, whole."""
        found = {line: below for line, below in self.running.items() if pattern in f"{line}\n{_text(below)}"}
        return _text(found)


def line_of(mark: Watermark, *, weight: int = 0) -> str:
    return (
        f"random-detect ecn minimum-threshold {mark.kmin_bytes} bytes"
        f" maximum-threshold {mark.kmax_bytes} bytes"
        f" max-mark-probability {round(mark.pmax * 100)} weight {weight}"
    )


def mark_of(line: str | None) -> Watermark | None:
    """What a line in bytes means, read apart from the adapter's own reading."""
    if line is None:
        return None
    words = line.split()
    return Watermark(int(words[3]), int(words[6]), int(words[9]) / 100)


def _opens(command: str) -> bool:
    return command.startswith(("qos profile ", "uc-tx-queue "))


def _bind(interface: Tree, command: str) -> None:
    for line in [line for line in interface if line.startswith("service-profile ")]:
        del interface[line]
    interface[command] = {}


def _settable() -> set[str]:
    return {f"uc-tx-queue {queue}" for queue in QUEUES}


def _text(tree: Tree, depth: int = 0) -> str:
    return "".join(f"{'   ' * depth}{line}\n{_text(below, depth + 1)}" for line, below in tree.items())


def _failed(
    body: Any, number: int, count: int, command: str, results: list[dict[str, Any]], why: str
) -> dict[str, Any]:
    message = f"CLI command {number} of {count} '{command}' failed: invalid command"
    error = {"code": 1002, "message": message, "data": [*results, {"errors": [why]}]}
    return {"jsonrpc": "2.0", "id": body["id"], "error": error}
