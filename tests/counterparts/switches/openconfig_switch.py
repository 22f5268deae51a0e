"""A switch configured through OpenConfig QoS: configuration checked by libyang, hardware that follows it.

The models are those in the folder that ECNTWIN_OPENCONFIG_YANG names, else the one written out for the tests.
Written apart from the adapter: it shares none of its code.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import oopt_gnpy_libyang as libyang

from tests.counterparts.switches.gnmi_switch import RefusalError, Steps

_WRITTEN_OUT = Path(__file__).resolve().parents[2] / "data" / "yang"
MODULE = "openconfig-qos"
_KEY = {
    "buffer-allocation-profile": "name",
    "interface": "interface-id",
    "queue": "name",
    "queue-management-profile": "name",
}
_NUM64 = ("min-threshold", "max-threshold", "min-threshold-percent", "max-threshold-percent")

Leaves = dict[Steps, Any]


def profile(name: str, *below: str) -> Steps:
    """Where a profile is, or what is below it."""
    return _steps("qos", "queue-management-profiles", ("queue-management-profile", name), *below)


def queue(port: str, name: str, *below: str, direction: str = "output") -> Steps:
    """Where an interface's queue is, or what is below it."""
    return _steps("qos", "interfaces", ("interface", port), direction, "queues", ("queue", name), *below)


class OpenConfigSwitch:
    """``config`` and ``running`` are leaves by path.

    Hardware takes over what is configured, thresholds through ``rounds``; not while ``ignoring``, and only
    after ``lag`` more readings. While ``waiting`` is a list, Sets are answered, and made later, in turn.
    ``answers`` is how a Get is cut: whole ("json"), or leaf by leaf ("leaves").
    ``history`` holds every (minimum, maximum) a queue has run.
    """

    def __init__(self) -> None:
        self.models = {"openconfig-interfaces": "3.8.0", MODULE: "2.2.0"}
        self.config: Leaves = {}
        self.running: Leaves = {}
        self.history: list[tuple[int, int]] = []
        self.ignoring = False
        self.refuses: str | None = None
        self.lag = 0
        self.waiting: list[Callable[[], None]] | None = None
        self.rounds: Callable[[int], int] = int
        self.answers = "json"
        self._waits = 0
        libyang.set_log_options(libyang.LogOptions.Store)
        folder = os.environ.get("ECNTWIN_OPENCONFIG_YANG", str(_WRITTEN_OUT))
        self._context = libyang.Context(folder, libyang.ContextOptions.DisableSearchCwd)
        self._context.load_module(MODULE)

    def configure(self, document: dict[str, Any]) -> None:
        """Configuration and hardware are this from now on, as after a start."""
        self.config = {}
        _lay(self.config, (), document)
        self._validate(self.config)
        self._take_over()
        self.history = []

    def edit(self, changes: dict[Steps, Any]) -> None:
        """Somebody else's change to leaves (None: taken away), made and running at once."""
        for path, value in changes.items():
            self.config.pop(path, None)
            if value is not None:
                self.config[path] = value
        self._validate(self.config)
        self._take_over()

    def runs(self, port: str, name: str) -> dict[str, Any] | None:
        """The leaves of the profile that hardware applies to a queue; None: it applies none."""
        bound = self.running.get(queue(port, name, "config", "queue-management-profile"))
        if bound is None:
            return None
        at = profile(bound, "wred", "uniform", "config")
        return {path[-1][0]: value for path, value in self.running.items() if path[:-1] == at}

    def get(self, origin: str, path: Steps, kind: str) -> list[tuple[Steps, Any]]:
        _known(origin)
        if self._waits:
            self._waits -= 1
            if not self._waits:
                self._take_over()
        shown = dict(self.config) if kind in ("ALL", "CONFIG") else {}
        if kind in ("ALL", "STATE"):
            shown |= {_as_state(where): value for where, value in self.running.items() if _has_state(where)}
        below = {where: value for where, value in shown.items() if where[: len(path)] == path}
        if not below:
            raise RefusalError(grpc.StatusCode.NOT_FOUND, f"nothing at {path}")
        if self.answers == "leaves":
            return [(where, _scalar(where, value)) for where, value in below.items()]
        if path in below:
            return [(path, below[path])]
        tree = _tree({where[len(path) :]: value for where, value in below.items()})
        return [(path, {f"{MODULE}:{name}": value for name, value in tree.items()})]

    def set(
        self,
        origin: str,
        delete: list[Steps],
        replace: list[tuple[Steps, Any]],
        update: list[tuple[Steps, Any]],
    ) -> None:
        _known(origin)
        if self.refuses is not None:
            raise RefusalError(grpc.StatusCode.FAILED_PRECONDITION, self.refuses)
        if self.waiting is not None:
            self.waiting.append(lambda: self._set(delete, replace, update))
        else:
            self._set(delete, replace, update)

    def catch_up(self) -> None:
        """Makes what waited."""
        waiting, self.waiting = self.waiting or [], None
        for make in waiting:
            make()

    def _set(
        self, delete: list[Steps], replace: list[tuple[Steps, Any]], update: list[tuple[Steps, Any]]
    ) -> None:
        wanted = dict(self.config)
        for path in [*delete, *(path for path, _ in replace)]:
            for where in [where for where in wanted if where[: len(path)] == path]:
                del wanted[where]
        for path, value in [*replace, *update]:
            _lay(wanted, path, value)
        self._validate(wanted)
        self.config = wanted
        if self.lag:
            self._waits = self.lag
        else:
            self._take_over()

    def _take_over(self) -> None:
        if self.ignoring:
            return
        self.running = {
            path: str(self.rounds(int(value))) if path[-1][0] in _NUM64 else value
            for path, value in self.config.items()
        }
        for path, value in self.running.items():
            if path[-1][0] == "queue-management-profile":
                at = profile(value, "wred", "uniform", "config")
                ends = [
                    self.running.get((*at, (f"{end}-threshold{unit}", ())))
                    for end in ("min", "max")
                    for unit in ("", "-percent")
                ]
                low, high = (ends[0] or ends[1]), (ends[2] or ends[3])
                if low is not None and high is not None:
                    self.history.append((int(low), int(high)))

    def _validate(self, leaves: Leaves) -> None:
        document = {f"{MODULE}:{name}": value for name, value in _tree(leaves).items()}
        self._context.clean_all_errors()
        try:
            self._context.parse_data(
                json.dumps(document),
                libyang.DataFormat.JSON,
                libyang.ParseOptions.Strict | libyang.ParseOptions.NoState,
                libyang.ValidationOptions.Present | libyang.ValidationOptions.NoState,
            )
        except libyang.Error as error:
            said = "; ".join(one.message for one in self._context.errors()) or str(error)
            raise RefusalError(grpc.StatusCode.INVALID_ARGUMENT, said) from None


def _steps(*parts: str | tuple[str, str]) -> Steps:
    return tuple(
        (part, ()) if isinstance(part, str) else (part[0], ((_KEY[part[0]], part[1]),)) for part in parts
    )


def _known(origin: str) -> None:
    if origin not in ("", "openconfig"):
        raise RefusalError(grpc.StatusCode.UNIMPLEMENTED, f"origin {origin!r} is not known")


def _has_state(path: Steps) -> bool:
    return ("config", ()) in path


def _as_state(path: Steps) -> Steps:
    at = path.index(("config", ()))
    return (*path[:at], ("state", ()), *path[at + 1 :])


def _scalar(path: Steps, value: Any) -> Any:
    return int(value) if path[-1][0] in _NUM64 else value


def _lay(leaves: Leaves, at: Steps, value: Any) -> None:
    """Puts a JSON value into leaves, at a path."""
    if not isinstance(value, dict):
        leaves[at] = value
        return
    for full_name, member in value.items():
        name = full_name.removeprefix(f"{MODULE}:")
        if isinstance(member, list) and name in _KEY:
            for entry in member:
                _lay(leaves, (*at, (name, ((_KEY[name], entry[_KEY[name]]),))), entry)
        else:
            _lay(leaves, (*at, (name, ())), member)


def _tree(leaves: Leaves) -> dict[str, Any]:
    """JSON of leaves by path: list entries in lists, each with its key."""
    root: dict[str, Any] = {}
    lists: dict[int, dict[str, dict[str, Any]]] = {}
    for path, value in leaves.items():
        node = root
        for name, keys in path[:-1]:
            if keys:
                entries = node.setdefault(name, [])
                by_key = lists.setdefault(id(entries), {})
                if keys[0][1] not in by_key:
                    by_key[keys[0][1]] = {keys[0][0]: keys[0][1]}
                    entries.append(by_key[keys[0][1]])
                node = by_key[keys[0][1]]
            else:
                node = node.setdefault(name, {})
        node[path[-1][0]] = value
    return root
