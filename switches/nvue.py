"""The adapter to Cumulus Linux, over NVUE's REST API.

A congestion-control profile holds one watermark for each traffic class, which is the egress queue. A change
is a revision: made, filled, applied, and waited for. One that is never applied changes nothing: a crash
leaves it to the switch. docs/switches/nvue.md tells apart what NVUE documents and what follows from its
command tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import quote

import httpx
import msgspec

from switches.adapter import (
    DeviceAdapter,
    Waiting,
    check_apply_allowed,
    check_undo_allowed,
    recorded,
    set_by_others,
    staged,
)
from switches.base import Capabilities, QueueWatermark, Reading, StagedChange
from switches.device import Device, options_of
from switches.errors import (
    BusyError,
    CapabilityError,
    InventoryError,
    RefusedError,
    UnreachableError,
    unreadable,
)
from switches.transport.http import (
    Answer,
    DeviceAuth,
    HttpSession,
    NotFoundError,
    base_url_of,
    needs_password,
)
from switches.units import DeviceWatermark, WatermarkUnits, cell_units, from_device, to_device
from twin.watermark import Watermark

_PORT = 8765
_YES = {"ays": "ays_yes"}  # answers "are you sure", asked where files were edited by hand
_BUSY = frozenset(
    {"apply", "applying", "checked", "checked_and_ready", "ready", "reload", "verify", "verifying"}
)
_STUCK = frozenset({"ays", "confirm", "inactive", "invalid"})
_FORBIDDEN = (
    "change the default password of user cumulus (5.6 and later ask for that first), or correct its rights"
)


class NvueSession:
    """Calls to one switch; waits at most the device's ``settle_s`` for an applied revision."""

    def __init__(
        self, device: Device, *, waiting: Waiting, transport: httpx.BaseTransport | None = None
    ) -> None:
        self._device = device
        self._waiting = waiting
        self._http = HttpSession(
            device,
            base_url_of(device, port=_PORT, path="/nvue_v1"),
            auth=DeviceAuth(device),
            forbidden=_FORBIDDEN,
            transport=transport,
        )

    def show(self, path: str, revision: str, *, filled: bool = True) -> dict[str, dict[str, Any]]:
        """A revision's objects at that path; empty without any."""
        params = {"rev": revision} if filled else {"rev": revision, "filled": "false"}
        try:
            found = self._document(self._http.call("GET", path, params=params))
        except NotFoundError:
            return {}
        return {name: dict(value) for name, value in found.items() if isinstance(value, Mapping)}

    def apply(self, path: str, patch: Mapping[str, Any]) -> None:
        """Patches the path in a new revision, null removes, and applies it.

        Raises ``RefusedError`` with the switch's words where it is invalid, ``BusyError`` where it conflicts,
        ``UnreachableError`` where it takes too long.
        """
        made = self._document(self._http.call("POST", "/revision"))
        revision = next(iter(made), "")
        if not revision:
            raise self._unreadable("no revision")
        self._http.call("PATCH", path, params={"rev": revision}, json=patch)
        at = f"/revision/{quote(revision, safe='')}"
        self._http.call("PATCH", at, json={"state": "apply", "auto-prompt": _YES})
        state = ""
        for _ in self._waiting.until(self._device.settle_s):
            shown = self._document(self._http.call("GET", at))
            inner = shown.get(revision)
            shown = inner if isinstance(inner, dict) else shown  # some releases wrap it under its name
            state = str(shown.get("state"))
            if state == "applied":
                return
            if state in _STUCK or state.endswith(("fail", "error", "_no")) or "conflict" in state:
                raise self._failed(revision, state, shown)
        received = f"revision {revision} is still {state!r} after {self._device.settle_s:g} s"
        remedy = "check it with nv config history, or allow a longer settle_s"
        raise UnreachableError(self._device.where, received, "a revision is applied in time", remedy)

    def wait_until_quiet(self) -> None:
        """Waits until no revision is being applied: one may be ours, whose answer was lost.

        Raises ``UnreachableError`` where it takes too long.
        """
        busy: list[str] = []
        for _ in self._waiting.until(self._device.settle_s):
            try:
                found = self._document(self._http.call("GET", "/revision"))
            except RefusedError:  # a release that lists no such revision
                return
            busy = [
                name
                for name, shown in found.items()
                if isinstance(shown, Mapping) and str(shown.get("state")) in _BUSY
            ]
            if not busy:
                return
        received = f"revision {', '.join(busy)} is still being applied after {self._device.settle_s:g} s"
        rule = "one revision is applied after the other"
        raise UnreachableError(self._device.where, received, rule, "wait, or check it with nv config history")

    def save(self) -> None:
        """Saves the applied revision as startup configuration."""
        self._http.call("PATCH", "/revision/applied", json={"state": "save", "auto-prompt": _YES})

    def close(self) -> None:
        self._http.close()

    def _document(self, answer: Answer) -> dict[str, Any]:
        try:
            document = answer.json()
        except ValueError as error:
            raise self._unreadable(str(error)) from error
        if not isinstance(document, dict):
            raise self._unreadable("no object")
        return document

    def _unreadable(self, said: str) -> RefusedError:
        return unreadable(self._device.where, said, "NVUE answers with a JSON object")

    def _failed(self, revision: str, state: str, shown: Mapping[str, Any]) -> RefusedError | BusyError:
        issues = _issues(shown)
        text = self._http.shown("; ".join(message for _, message in issues))
        said = f"revision {revision} is {state!r}: {text or 'no reason given'}"
        if "conflict" in state or any("conflict" in code for code, _ in issues):
            rule = "only one client changes the configuration at a time"
            remedy = "find out who did; what runs now is the start of the next recommendation"
            return BusyError(self._device.where, said, rule, remedy)
        rule = "the switch accepts the revision"
        return RefusedError(self._device.where, said, rule, "correct what it names; it was not applied")


def _issues(shown: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Code and message of each issue of a revision."""
    transition = shown.get("transition")
    found = transition.get("issue") if isinstance(transition, Mapping) else None
    return [
        (str(issue.get("code", "")), str(issue.get("message", "")))
        for issue in (found.values() if isinstance(found, Mapping) else ())
        if isinstance(issue, Mapping)
    ]


_EVERY_PORT = "default-global"
_LEAVES = ("min-threshold", "max-threshold", "probability", "ecn")
_BYTES = WatermarkUnits()
_OFF_TO_ON = {"disable": "enable", "disabled": "enabled", "off": "on"}  # the wording differs between releases


class _Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``profile`` holds the watermark; ``save``: confirming also writes the startup configuration."""

    profile: str = _EVERY_PORT
    save: bool = False


class _Class(msgspec.Struct, frozen=True, rename="kebab"):
    ecn: str | None = None
    min_threshold: int | None = None
    max_threshold: int | None = None
    probability: int | None = None


class _Record(msgspec.Struct, frozen=True):
    """``classes``: the old configuration of each traffic class; null: none."""

    classes: dict[str, dict[str, Any] | None]


class NvueAdapter(DeviceAdapter):
    def __init__(
        self,
        device: Device,
        *,
        clock_ns: Callable[[], int],
        transport: httpx.BaseTransport | None = None,
        waiting: Waiting | None = None,
    ) -> None:
        options = options_of(device, _Options)
        needs_password(device)
        if device.ports and device.role is None and options.profile == _EVERY_PORT:
            rule = f"profile {_EVERY_PORT} is that of every port"
            remedy = "drop ports, or name in options.profile the one that these ports use"
            raise InventoryError(f"{device.where} ports", ", ".join(device.ports), rule, remedy)
        waiting = waiting or Waiting()
        super().__init__(device, clock_ns, waiting)
        self._profile = options.profile
        self._save = options.save
        self._units = _units(device)
        self._path = f"/qos/congestion-control/{quote(options.profile, safe='')}/traffic-class"
        self._session = NvueSession(device, waiting=waiting, transport=transport)

    def capabilities(self) -> Capabilities:
        return Capabilities(
            kind="nvue",
            writes=True,
            per="profile",
            units=self._units,
            undo="the old values in a new revision",
            read_back="the operational state, else the applied configuration",
            one_for_all="all ports bound to a congestion-control profile run its watermark",
        )

    def read(self) -> Reading:
        found = self._look(self._device.queues)
        if not found.queues:
            rule = "a congestion-control profile is there before its watermark is set"
            remedy = "correct the name, or create it and bind the ports to it"
            raise CapabilityError(f"{self._device.where} options.profile", self._profile, rule, remedy)
        return found

    def _seen(self, change: StagedChange) -> Reading:
        return self._look(queue.queue for queue in change.before if queue.port == self._profile)

    def _look(self, queues: Iterable[int]) -> Reading:
        """What these traffic classes of the profile run; nothing where there is no such profile."""
        found = self._classes("operational") or self._classes("applied")
        if found is None:
            if self._profile != _EVERY_PORT:
                return self._reading(())
            found = {}
        return self._reading(self._running(queue, found.get(str(queue))) for queue in queues)

    def stage(self, watermark: Watermark, change_id: str) -> StagedChange:
        running = self.read()
        configured = self._classes("applied", filled=False) or {}
        rounded = to_device(watermark, self._units)
        undo = {"classes": {str(queue): configured.get(str(queue)) for queue in self._device.queues}}
        return staged(change_id, running, watermark, rounded, undo)

    def apply(self, change: StagedChange) -> None:
        self._session.wait_until_quiet()
        now = self.read()
        if change.made_in(now):
            return
        check_apply_allowed(change, now, self._device.where)
        asked = to_device(change.after, _BYTES).device
        words = self._classes("applied") or {}
        classes = {
            str(queue.queue): {
                "min-threshold": asked.kmin,
                "max-threshold": asked.kmax,
                "probability": asked.pmax,
                "ecn": _on(words.get(str(queue.queue))),
            }
            for queue in change.before
        }
        self._session.apply(self._path, classes)

    def confirm(self, change: StagedChange) -> None:
        if self._save:
            self._session.save()

    def rollback(self, change: StagedChange) -> None:
        self._session.wait_until_quiet()
        ours = change.changes and self._configured(change)
        if ours or not self._is_undone(change):
            classes = {
                name: None if values is None else {leaf: values.get(leaf) for leaf in _LEAVES}
                for name, values in self._before(change).items()
            }
            self._session.apply(self._path, classes)
            self._check_undone(change, self._seen)
        if self._save:  # also where an earlier try was cut off before it did
            self._session.save()

    def close(self) -> None:
        self._session.close()

    def _is_undone(self, change: StagedChange) -> bool:
        """Raises ``ConcurrentEditError`` where somebody else has set the traffic classes."""
        with set_by_others():
            now = self._seen(change)
        if change.undone_in(now):
            return True
        check_undo_allowed(change, now, self._device.where)
        return False

    def _configured(self, change: StagedChange) -> bool:
        """Whether this change is still configured, whatever hardware shows."""
        configured = self._classes("applied", filled=False) or {}
        asked = to_device(change.after, _BYTES).device
        wanted = {"min-threshold": asked.kmin, "max-threshold": asked.kmax, "probability": asked.pmax}
        before = self._before(change)
        made = [
            all((configured.get(name) or {}).get(leaf) == value for leaf, value in wanted.items())
            for name in before
        ]
        left = [configured.get(name) == values for name, values in before.items()]
        return any(made) and all(one or other for one, other in zip(made, left, strict=True))

    def _before(self, change: StagedChange) -> dict[str, dict[str, Any] | None]:
        return recorded(change, _Record, self._device.where).classes

    def _classes(self, revision: str, *, filled: bool = True) -> dict[str, dict[str, Any]] | None:
        """The profile's traffic classes in a revision; None without any."""
        return self._session.show(self._path, revision, filled=filled) or None

    def _running(self, queue: int, shown: Mapping[str, Any] | None) -> QueueWatermark:
        where = f"{self._device.where} profile {self._profile} traffic class {queue}"
        try:
            found = msgspec.convert(shown or {}, _Class)
        except msgspec.ValidationError as error:
            rule = "thresholds are whole bytes"
            raise CapabilityError(where, str(error), rule, "check the switch's version") from error
        if found.ecn is None or found.ecn in _OFF_TO_ON or found.probability == 0:
            return QueueWatermark(self._profile, queue, None)
        if found.min_threshold is None or found.max_threshold is None or found.probability is None:
            rule = "a traffic class that marks has both thresholds and a probability"
            remedy = "set them by hand once; they are changed from here after that"
            raise CapabilityError(where, f"ECN {found.ecn}, and not all of its values", rule, remedy)
        device = DeviceWatermark(found.min_threshold, found.max_threshold, found.probability)
        return QueueWatermark(self._profile, queue, from_device(device, _BYTES, where))


def _units(device: Device) -> WatermarkUnits:
    """Bytes, and whole cells of them where the inventory says that hardware needs it."""
    match device.units.thresholds or "bytes":
        case "bytes":
            return _BYTES
        case "cells":
            return cell_units(device.where, device.units.cell_bytes, lowest=0)
        case _:
            raise device.wrong_unit("bytes or cells")


def _on(shown: Mapping[str, Any] | None) -> str:
    """The value with which this release turns ECN on."""
    word = (shown or {}).get("ecn")
    return _OFF_TO_ON.get(word, word) if isinstance(word, str) else "enable"
