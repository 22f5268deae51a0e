"""A switch that counts as OpenConfig's models have it, behind the gNMI server of the tests.

Written from openconfig-qos-interfaces.yang and openconfig-interfaces.yang, apart from what reads it.
"""

from __future__ import annotations

from typing import Any

import grpc

from tests.counterparts.switches.gnmi_switch import RefusalError, Steps

_QUEUE = ("ecn-marked-pkts", "dropped-pkts", "dropped-octets", "transmit-pkts", "transmit-octets")
_PORT = ("in-octets", "out-octets", "out-pkts", "out-discards", "out-errors")


class OpenConfigCounting:
    """``ports`` with ``queues`` each, all counts 0. ``answers`` is how they are cut: leaf by leaf ("leaves"),
    a container of leaves at a time ("containers"), or a whole tree in JSON with module names ("json").
    """

    def __init__(
        self, ports: tuple[str, ...] = ("Ethernet1", "Ethernet2"), queues: tuple[str, ...] = ("3",)
    ) -> None:
        self.models = {"openconfig-qos": "2.2.0", "openconfig-interfaces": "3.8.0"}
        self.answers = "leaves"
        self.leaves: dict[Steps, Any] = {}
        for port in ports:
            for leaf in _PORT:
                self.leaves[*_port(port), (leaf, ())] = 0
            for queue in queues:
                for leaf in _QUEUE:
                    self.leaves[*_queue(port, queue), (leaf, ())] = 0

    def grow_port(self, port: str, **more: int) -> None:
        """Adds to counters of an interface: ``out_discards=3``."""
        for leaf, count in more.items():
            self.leaves[*_port(port), (leaf.replace("_", "-"), ())] += count

    def grow(self, port: str, queue: str, **more: int) -> None:
        """Adds to counters of a queue: ``transmit_pkts=3``."""
        for leaf, count in more.items():
            self.leaves[*_queue(port, queue), (leaf.replace("_", "-"), ())] += count

    def put(self, port: str, queue: str, leaf: str, value: Any) -> None:
        """Sets a leaf of a queue to whatever; None takes it away."""
        self.leaves.pop((*_queue(port, queue), (leaf, ())), None)
        if value is not None:
            self.leaves[*_queue(port, queue), (leaf, ())] = value

    def get(self, origin: str, path: Steps, kind: str) -> list[tuple[Steps, Any]]:
        below = {where: value for where, value in self.leaves.items() if _matches(where, path)}
        if kind not in ("ALL", "STATE") or not below:
            raise RefusalError(grpc.StatusCode.NOT_FOUND, f"nothing at {path}")
        if self.answers == "leaves":
            return list(below.items())
        if self.answers == "containers":
            found: dict[Steps, dict[str, Any]] = {}
            for where, value in below.items():
                found.setdefault(where[:-1], {})[where[-1][0]] = _text(value)
            return list(found.items())
        return _trees(below, len(path))

    def set(self, origin: str, delete: Any, replace: Any, update: Any) -> None:
        raise RefusalError(grpc.StatusCode.PERMISSION_DENIED, "it is only read")


def _port(port: str) -> Steps:
    return ("interfaces", ()), ("interface", (("name", port),)), ("state", ()), ("counters", ())


def _queue(port: str, queue: str) -> Steps:
    return (
        ("qos", ()),
        ("interfaces", ()),
        ("interface", (("interface-id", port),)),
        ("output", ()),
        ("queues", ()),
        ("queue", (("name", queue),)),
        ("state", ()),
    )


def _matches(where: Steps, path: Steps) -> bool:
    """Whether a leaf is at or below a path; ``*`` is any key."""
    if len(where) < len(path):
        return False
    for (name, keys), (wanted, given) in zip(where, path, strict=False):
        if name != wanted:
            return False
        if any(value not in ("*", dict(keys).get(key)) for key, value in given):
            return False
    return True


def _text(value: Any) -> Any:
    """64-bit numbers are texts in JSON (RFC 7951)."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _trees(leaves: dict[Steps, Any], depth: int) -> list[tuple[Steps, Any]]:
    """One JSON tree for each thing the path leads to."""
    roots: dict[Steps, dict[str, Any]] = {}
    for where, value in leaves.items():
        node = roots.setdefault(where[:depth], {})
        for number, (name, keys) in enumerate(where[depth:-1]):
            full = f"openconfig-x:{name}" if number == 0 else name
            if keys:
                entries = node.setdefault(full, [])
                entry = next((one for one in entries if one[keys[0][0]] == keys[0][1]), None)
                if entry is None:
                    entry = {keys[0][0]: keys[0][1]}
                    entries.append(entry)
                node = entry
            else:
                node = node.setdefault(full, {})
        node[where[-1][0]] = _text(value)
    return list(roots.items())
