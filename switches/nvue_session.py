"""NVUE's revisions over HTTP: make one, fill it, have it applied, wait; must not know what is configured.

A revision that is never applied changes nothing: one that a crash leaves pending is left to the switch, and
none is ever taken up again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import httpx

from switches.device import Device
from switches.errors import ConcurrentEditError, RefusedError, UnreachableError
from switches.read_back import Waiting
from switches.transport.http import Answer, DeviceAuth, HttpSession, NotFoundError, base_url_of

_PORT = 8765
_YES = {"ays": "ays_yes"}  # "are you sure", asked where files were edited by hand
_BUSY = frozenset(
    {"apply", "applying", "checked", "checked_and_ready", "ready", "reload", "verify", "verifying"}
)
_STUCK = frozenset({"ays", "confirm", "inactive", "invalid"})
_FORBIDDEN = (
    "change the default password of user cumulus (5.6 and later ask for that first), or correct its rights"
)


class NvueSession:
    """Calls to one switch; an applied revision is waited for at most the device's ``settle_s``."""

    def __init__(
        self, device: Device, *, waiting: Waiting, transport: httpx.BaseTransport | None = None
    ) -> None:
        self._device = device
        self._waiting = waiting
        self._http = HttpSession(
            device,
            base_url_of(device, port=_PORT, path="/nvue_v1"),
            auth=DeviceAuth(device),
            transport=transport,
        )

    def show(self, path: str, revision: str, *, filled: bool = True) -> dict[str, dict[str, Any]]:
        """What a revision has there, object by object; empty where it has nothing."""
        params = {"rev": revision} if filled else {"rev": revision, "filled": "false"}
        try:
            found = self._document(self._call("GET", path, params=params))
        except NotFoundError:
            return {}
        return {name: dict(value) for name, value in found.items() if isinstance(value, Mapping)}

    def apply(self, path: str, patch: Mapping[str, Any]) -> None:
        """Patches what is there in a new revision, null for what is to go, and has it applied.

        Raises ``RefusedError`` with the switch's own words where it is invalid, ``ConcurrentEditError`` where
        it conflicts, ``UnreachableError`` where it is not over in time.
        """
        made = self._document(self._call("POST", "/revision"))
        revision = next(iter(made), "")
        if not revision:
            raise self._unreadable("no revision")
        self._call("PATCH", path, params={"rev": revision}, json=patch)
        at = f"/revision/{quote(revision, safe='')}"
        self._call("PATCH", at, json={"state": "apply", "auto-prompt": _YES})
        state = ""
        for _ in self._waiting.until(self._device.settle_s):
            shown = self._document(self._call("GET", at))
            inner = shown.get(revision)
            shown = inner if isinstance(inner, dict) else shown  # some releases wrap it in its own name
            state = str(shown.get("state"))
            if state == "applied":
                return
            if state in _STUCK or state.endswith(("fail", "error", "_no")) or "conflict" in state:
                raise self._failed(revision, state, shown)
        raise UnreachableError(
            self._device.where,
            f"revision {revision} is still {state!r} after {self._device.settle_s:g} s",
            "a revision is applied in time",
            "look at it with nv config history, or allow a longer settle_s",
        )

    def wait_until_quiet(self) -> None:
        """Waits while the switch is applying a revision: what runs would not be what it is about to run.

        It may be one of ours whose answer was lost. Raises ``UnreachableError`` where it takes too long.
        """
        busy: list[str] = []
        for _ in self._waiting.until(self._device.settle_s):
            try:
                found = self._document(self._call("GET", "/revision"))
            except RefusedError:  # a release that lists none
                return
            busy = [
                name
                for name, shown in found.items()
                if isinstance(shown, Mapping) and str(shown.get("state")) in _BUSY
            ]
            if not busy:
                return
        raise UnreachableError(
            self._device.where,
            f"revision {', '.join(busy)} is still being applied after {self._device.settle_s:g} s",
            "one revision is applied after the other",
            "wait, or look at it with nv config history",
        )

    def save(self) -> None:
        """Makes what is applied the startup configuration."""
        self._call("PATCH", "/revision/applied", json={"state": "save", "auto-prompt": _YES})

    def close(self) -> None:
        self._http.close()

    def _call(
        self, method: str, path: str, *, params: Mapping[str, str] | None = None, json: Any = None
    ) -> Answer:
        return self._http.call(method, path, params=params, json=json, forbidden=_FORBIDDEN)

    def _document(self, answer: Answer) -> dict[str, Any]:
        try:
            document = answer.json()
        except ValueError as error:
            raise self._unreadable(str(error)) from error
        if not isinstance(document, dict):
            raise self._unreadable("no object")
        return document

    def _unreadable(self, said: str) -> RefusedError:
        return RefusedError(
            self._device.where,
            f"an answer that cannot be read ({said})",
            "NVUE answers with a JSON object",
            "look whether something else listens there",
        )

    def _failed(
        self, revision: str, state: str, shown: Mapping[str, Any]
    ) -> RefusedError | ConcurrentEditError:
        issues = _issues(shown)
        text = self._http.shown("; ".join(message for _, message in issues))
        said = f"revision {revision} is {state!r}: {text or 'no reason given'}"
        if "conflict" in state or any("conflict" in code for code, _ in issues):
            return ConcurrentEditError(
                self._device.where,
                said,
                "nobody else changes the configuration meanwhile",
                "find out who did; what runs now is the start of the next recommendation",
            )
        return RefusedError(
            self._device.where,
            said,
            "the switch accepts the revision",
            "correct what it names; the revision was not applied and can be left",
        )


def _issues(shown: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Code and message of each issue of a revision."""
    transition = shown.get("transition")
    found = transition.get("issue") if isinstance(transition, Mapping) else None
    return [
        (str(issue.get("code", "")), str(issue.get("message", "")))
        for issue in (found.values() if isinstance(found, Mapping) else ())
        if isinstance(issue, Mapping)
    ]
