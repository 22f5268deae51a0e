"""A Nexus switch's NX-API: commands that take effect one by one, and checkpoints.

Requests are held to the exact form of NX-API's JSON, and commands to those that the adapter needs.
"""

from __future__ import annotations

import re
from copy import deepcopy
from typing import Any

from tests.counterparts.switches.http_switch import Asked, HttpSwitch, Reply
from twin.watermark import Watermark

POLICY = "QOS_EGRESS_PORT"
CLASSES = {3: "c-out-8q-q3", 4: "c-out-8q-q4"}
BINDING = "service-policy type queuing output "
_MAP = "policy-map type queuing "
_OWN = f"{_MAP}ecntwin-"
_WRED = re.compile(
    r"random-detect minimum-threshold (\d+) (?:bytes|kbytes) maximum-threshold (\d+) (?:bytes|kbytes)"
    r" drop-probability (\d+) weight (\d+)(?: ecn)?"
)
_HEAD = """\

!Command: show running-config ipqos
!Running configuration last done at: Sat Nov 21 09:00:00 2026
!Time: Sat Nov 21 09:00:01 2026

version 10.2(5) Bios:version 05.47
"""
Tree = dict[str, Any]


class NxosSwitch(HttpSwitch):
    """Queues 3 and 4 of one policy on every port, and another policy beside it."""

    def __init__(self, first: Watermark, **server: Any) -> None:
        super().__init__(**server)
        self.reset(first)

    def reset(self, first: Watermark) -> None:
        other = line_of(Watermark(1_000, 2_000, 0.01))
        self.running: Tree = {
            "class-map type qos match-all RDMA": {"match cos 3": {}},
            f"policy-map type queuing {POLICY}": {
                **{
                    f"class type queuing {label}": {"bandwidth remaining percent 30": {}, line_of(first): {}}
                    for label in CLASSES.values()
                },
                "class type queuing c-out-8q-q-default": {"bandwidth remaining percent 40": {}, other: {}},
                "class type queuing c-out-8q-q7": {"priority level 1": {}},
            },
            "policy-map type queuing UPLINK": {"class type queuing c-out-8q-q3": {other: {}}},
            "system qos": {f"service-policy type queuing output {POLICY}": {}},
        }
        self.shows: dict[str, Any] = {}  # what commands answer in JSON
        self.checkpoints: dict[str, str] = {}
        self.history: list[tuple[int, int]] = []
        self.saved = 0
        self.ignoring = False
        self.halving = False
        self.refuses: str | None = None  # commands that start so
        self.waiting: list[str] | None = None  # configuration that is made later, in turn
        self.gone: set[str] = set()  # interfaces, as with their line card
        self.asked.clear()
        self.unexpected.clear()

    def line(self, queue: int, policy: str = POLICY) -> str | None:
        lines = self.running[f"policy-map type queuing {policy}"][f"class type queuing {CLASSES[queue]}"]
        return next((line for line in lines if line.startswith("random-detect")), None)

    def set_by_hand(self, queue: int, line: str | None, policy: str = POLICY) -> None:
        lines = self.running[f"policy-map type queuing {policy}"][f"class type queuing {CLASSES[queue]}"]
        lines.pop(self.line(queue, policy), None)
        if line is not None:
            lines[line] = {}

    def answer(self, asked: Asked) -> Reply:
        if (asked.method, asked.path, asked.query) != ("POST", "/ins", {}):
            return self.surprised(asked, "not NX-API", 404)
        try:
            kind, commands = asked.body["ins_api"]["type"], asked.body["ins_api"]["input"]
        except (KeyError, TypeError):
            return self.surprised(asked, "not ins_api")
        form = {"version": "1.0", "chunk": "0", "sid": "1", "output_format": "json"}
        if asked.body != {"ins_api": {**form, "type": kind, "input": commands}}:
            return self.surprised(asked, "not the form of a request")
        outputs: list[dict[str, Any]] = []
        run = {"cli_show_ascii": self._act, "cli_show": self._show, "cli_conf": self._configure}[kind]
        self._path: list[str] = []
        self._set = 0
        before = deepcopy((self.running, self.history))
        if self.waiting is not None and kind == "cli_conf":
            self.waiting.append(commands)
            run = self._put_off
        for command in commands.split(" ;"):
            try:
                outputs.append({"input": command, "msg": "Success", "code": "200", "body": run(command)})
            except ValueError as error:
                if str(error) == "unexpected":
                    self.unexpected.append(command)
                why = {"clierror": f"% {error}\n", "msg": "CLI execution error", "code": "400"}
                outputs.append({"input": command, **why})
                break
        if self.ignoring and kind == "cli_conf":
            self.running, self.history = before
        body = {"type": kind, "version": "1.0", "sid": "eoc"}
        shown = outputs if len(outputs) > 1 else outputs[0]
        reply = {"ins_api": {**body, "outputs": {"output": shown}}}
        return Reply(body=reply, changes=not commands.startswith("show "))

    def _put_off(self, command: str) -> dict[str, Any]:
        return {}

    def catch_up(self) -> None:
        """Makes what waited."""
        waiting, self.waiting = self.waiting or [], None
        for commands in waiting:
            self._path, self._set = [], 0
            for command in commands.split(" ;"):
                self._configure(command)

    def _show(self, command: str) -> Any:
        if command not in self.shows:
            raise ValueError("unexpected")
        if self.shows[command] is None:
            raise ValueError("No neighbour information")
        return self.shows[command]

    def _act(self, command: str) -> str:
        if self.refuses is not None and command.startswith(self.refuses):
            raise ValueError("Permission denied for the role")
        match command.split():
            case ["show", "running-config", "ipqos"]:
                return _HEAD + _text(self.running)
            case ["show", "running-config", "interface", name]:
                if name in self.gone:
                    raise ValueError("Invalid interface")
                return f"{_HEAD}\ninterface {name}\n  mtu 9216\n"
            case ["show", "checkpoint", "summary"]:
                return "User Checkpoint Summary\n" + "".join(
                    f"{number}) {name}:\nCreated by ecntwin\nSize is 15,345 bytes\nDescription: None\n\n"
                    for number, name in enumerate(self.checkpoints, start=1)
                )
            case ["checkpoint", name] if name not in self.checkpoints:
                self.checkpoints[name] = _text(self.running)
                return "...Done"
            case ["no", "checkpoint", name] if name in self.checkpoints:
                del self.checkpoints[name]
                return "Done"
            case ["copy", "running-config", "startup-config"]:
                self.saved += 1
                return "[########################################] 100%\nCopy complete."
        raise ValueError("unexpected")

    def effective(self, port: str) -> str:
        """The policy of a port: its own, else the system's."""
        places = (self.running.get(f"interface {port}", {}), self.running.get("system qos", {}))
        found = [line.removeprefix(BINDING) for lines in places for line in lines if line.startswith(BINDING)]
        return found[0]

    def _configure(self, command: str) -> dict[str, Any]:
        if self.refuses is not None and command.startswith(self.refuses):
            raise ValueError("Invalid command")
        if command.removeprefix("interface ") in self.gone:
            raise ValueError("Invalid interface")
        within = self._path[0] if self._path else ""
        if command == _MAP + POLICY or command.startswith((_OWN, "interface Ethernet")):
            self.running.setdefault(command, {})
            self._path = [command]
        elif command.startswith(f"no {_OWN}") and command.removeprefix("no ") in self.running:
            self._remove(command.removeprefix(f"no {_MAP}"))
        elif within.startswith("interface ") and BINDING in command:
            self._bind(command, self.running[within])
        elif within.startswith(_OWN) and any(command in policy for policy in self._others(within)):
            self.running[within].setdefault(command, {})
            self._path = [within, command]
        elif within and command in {f"class type queuing {label}" for label in CLASSES.values()}:
            self._path = [within, command]
        elif len(self._path) == 2 and (_WRED.fullmatch(command) or command.startswith("no random-detect")):
            self._wred(command)
        elif len(self._path) == 2 and any(
            command in policy.get(self._path[1], {}) for policy in self._others(within)
        ):
            self.running[within][self._path[1]][command] = {}
        else:
            raise ValueError("unexpected")
        return {}

    def _others(self, ours: str) -> list[Tree]:
        """The policies of which that one of ours may be a copy; none where it is not ours."""
        if not ours.startswith(_OWN):
            return []
        return [lines for name, lines in self.running.items() if name.startswith(_MAP) and name != ours]

    def _remove(self, policy: str) -> None:
        if any(BINDING + policy in lines for lines in self.running.values()):
            raise ValueError(f"Policy-map {policy} is being referenced")
        del self.running[_MAP + policy]

    def _bind(self, command: str, lines: Tree) -> None:
        """An interface has one queuing policy: another takes its place only once it is gone."""
        if command.startswith("no ") and command.removeprefix("no ") in lines:
            del lines[command.removeprefix("no ")]
        elif command.startswith(BINDING) and _MAP + command.removeprefix(BINDING) in self.running:
            if any(line.startswith(BINDING) for line in lines):
                raise ValueError("a policy of this type is attached already")
            lines[command] = {}
        else:
            raise ValueError("unexpected")

    def _wred(self, command: str) -> None:
        self._set += 1
        if self.halving and self._set > 1:
            raise ValueError("Unable to perform the action due to incompatibility")
        lines: Tree = self.running[self._path[0]][self._path[1]]
        if command.startswith("no "):
            del lines[command.removeprefix("no ")]
            return
        for line in [line for line in lines if line.startswith("random-detect")]:
            del lines[line]
        lines[command] = {}
        match = _WRED.fullmatch(command)
        assert match is not None
        self.history.append((int(match[1]), int(match[2])))


def line_of(mark: Watermark, *, weight: int = 0) -> str:
    return (
        f"random-detect minimum-threshold {mark.kmin_bytes} bytes maximum-threshold {mark.kmax_bytes} bytes"
        f" drop-probability {round(mark.pmax * 100)} weight {weight} ecn"
    )


def mark_of(line: str | None) -> Watermark | None:
    """What a line in bytes means, read apart from the adapter's own reading."""
    if line is None:
        return None
    words = line.split()
    return Watermark(int(words[2]), int(words[5]), int(words[8]) / 100)


def _text(tree: Tree, depth: int = 0) -> str:
    return "".join(f"{'  ' * depth}{line}\n{_text(below, depth + 1)}" for line, below in tree.items())
