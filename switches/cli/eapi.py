"""Arista's eAPI: commands, their outputs, and configuration sessions; must not know what is configured."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import httpx

from switches.device import Device
from switches.errors import AccessError, RefusedError
from switches.transport.http import DeviceAuth, HttpSession, base_url_of

_DENIED = re.compile(r"not authori[sz]ed|authori[sz]ation denied|permission denied|privilege", re.IGNORECASE)
_TIMER = "pendingCommitTimer"


@dataclass(frozen=True, slots=True)
class Sessions:
    """The switch's configuration sessions by name, and the one whose commit waits for its confirmation."""

    states: Mapping[str, str]
    waiting: str | None


class EapiSession:
    """Calls to one switch, each a list of commands that ends at the first one refused."""

    def __init__(self, device: Device, *, transport: httpx.BaseTransport | None = None) -> None:
        self._device = device
        self._http = HttpSession(device, base_url_of(device), auth=DeviceAuth(device), transport=transport)

    def run(self, commands: Sequence[str], form: Literal["json", "text"] = "json") -> list[dict[str, Any]]:
        """Each command's output. Raises ``RefusedError`` with the switch's words, ``AccessError``."""
        answer = self._http.call(
            "POST",
            "/command-api",
            json={
                "jsonrpc": "2.0",
                "method": "runCmds",
                "params": {"version": 1, "cmds": ["enable", *commands], "format": form},
                "id": "ecntwin",
            },
        )
        try:
            document = answer.json()
        except ValueError as error:
            raise self._unreadable(str(error)) from error
        if isinstance(document, dict) and isinstance(document.get("error"), dict):
            raise self._refused(document["error"])
        found = document.get("result") if isinstance(document, dict) else None
        if not isinstance(found, list) or len(found) != len(commands) + 1:
            raise self._unreadable("not a result for each command")
        return [one if isinstance(one, dict) else {} for one in found[1:]]

    def text(self, commands: Sequence[str]) -> str:
        """The outputs as a person would read them, one after the other."""
        return "\n".join(str(one.get("output", "")) for one in self.run(commands, "text"))

    def sessions(self) -> Sessions:
        """What is pending.

        Up to EOS 4.31 a commit that waits is its session's state; from 4.32 on the session counts as
        committed, and a key of its own names it.
        """
        found = self.run(["show configuration sessions detail"])[0]
        rows = found.get("sessions")
        if not isinstance(rows, dict):
            raise self._unreadable("no configuration sessions")
        states = {name: str(row.get("state")) for name, row in rows.items() if isinstance(row, dict)}
        waiting = found.get("commitTimerSessionName") or next(
            (name for name, state in states.items() if state == _TIMER), None
        )
        return Sessions(states, str(waiting) if waiting else None)

    def close(self) -> None:
        self._http.close()

    def _refused(self, error: Mapping[str, Any]) -> AccessError | RefusedError:
        data = error.get("data")
        found = (
            [one.get("errors") for one in data if isinstance(one, Mapping)] if isinstance(data, list) else []
        )
        reasons = [str(reason) for one in found if isinstance(one, list) for reason in one]
        said = self._http.shown("; ".join([str(error.get("message")), *reasons]))
        if _DENIED.search(said):
            return AccessError(
                self._device.where,
                said,
                "the account may configure, without an enable password",
                "correct the account's privilege or role",
            )
        return RefusedError(
            self._device.where, said, "the switch takes the commands", "look at the switch, and its version"
        )

    def _unreadable(self, said: str) -> RefusedError:
        return RefusedError(
            self._device.where,
            f"an answer that cannot be read ({said})",
            "eAPI answers with the output of each command",
            "look whether something else listens there",
        )
