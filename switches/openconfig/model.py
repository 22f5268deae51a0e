"""OpenConfig's QoS model as far as watermarks need it: parsing answers, and paths and leaves to write.

Source: openconfig-qos 2.2.0 (2026-04-30), its submodules mem-mgmt and interfaces. The model has no rule that
the minimum is at most the maximum; ``switches.units`` keeps it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from switches.errors import CapabilityError
from switches.transport.gnmi_messages import GnmiPath, Tree
from switches.units import DeviceWatermark, WatermarkUnits, from_device
from twin.watermark import Watermark

LIST_KEYS = {"interface": "interface-id", "queue": "name", "queue-management-profile": "name"}
INTERFACES = ("qos", "interfaces")
PROFILES = ("qos", "queue-management-profiles")

_BINDING = "queue-management-profile"
_BYTES = ("min-threshold", "max-threshold")
_PERCENT = ("min-threshold-percent", "max-threshold-percent")
_PMAX = "max-drop-probability-percent"
_ECN = "enable-ecn"
_MARKING = frozenset({*_BYTES, *_PERCENT, _PMAX, _ECN})

Leaves = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Marking:
    """The marking of a profile in numbers; None: a leaf it lacks."""

    ecn: bool
    kmin: int | None
    kmax: int | None
    in_percent: bool
    pmax: int | None


@dataclass(frozen=True, slots=True)
class Profile:
    """The ``wred/uniform`` leaves of one profile: config and state."""

    config: Leaves = field(default_factory=dict)
    state: Leaves = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Binding:
    """A queue's profile in config and in state; None: it names none."""

    config: str | None
    state: str | None
    configured: bool


@dataclass(frozen=True, slots=True)
class Qos:
    """Profiles by name; output queues by (port, queue name); other users of profiles, as texts."""

    profiles: Mapping[str, Profile]
    queues: Mapping[tuple[str, str], Binding]
    other_users: Mapping[str, frozenset[str]]

    def users(self, profile: str) -> frozenset[tuple[str, str]]:
        """The output queues with that profile in config or state."""
        return frozenset(
            queue for queue, bound in self.queues.items() if profile in (bound.config, bound.state)
        )


def parse(tree: Tree) -> Qos:
    """Raises ``ValueError`` where the answer is not shaped as the model."""
    qos = _inside(tree, "qos")
    profiles = {
        name: Profile(_inside(entry, "wred", "uniform", "config"), _inside(entry, "wred", "uniform", "state"))
        for name, entry in _inside(qos, "queue-management-profiles", _BINDING).items()
    }
    queues: dict[tuple[str, str], Binding] = {}
    others: dict[str, set[str]] = {}
    for port, interface in _inside(qos, "interfaces", "interface").items():
        for name, entry in _inside(interface, "output", "queues", "queue").items():
            config, state = _inside(entry, "config"), _inside(entry, "state")
            queues[port, name] = Binding(_text(config, _BINDING), _text(state, _BINDING), bool(config))
        for name, entry in _inside(interface, "input", "queues", "queue").items():
            profile = _text(_inside(entry, "config"), _BINDING)
            if profile is not None:
                others.setdefault(profile, set()).add(f"{port} input {name}")
    return Qos(profiles, queues, {name: frozenset(users) for name, users in others.items()})


def marking(leaves: Leaves) -> Marking:
    """Raises ``ValueError`` for a leaf that is no number."""
    in_percent = any(name in leaves for name in _PERCENT) and not any(name in leaves for name in _BYTES)
    low, high = _PERCENT if in_percent else _BYTES
    return Marking(
        ecn=leaves.get(_ECN) in (True, "true"),
        kmin=_number(leaves, low),
        kmax=_number(leaves, high),
        in_percent=in_percent,
        pmax=_number(leaves, _PMAX),
    )


def watermark_of(found: Marking, units: WatermarkUnits, *, in_percent: bool, where: str) -> Watermark | None:
    """In bytes; None where ECN is off, or the probability 0. Raises ``CapabilityError``."""
    if not found.ecn or found.pmax == 0:
        return None
    if found.kmin is None or found.kmax is None or found.pmax is None:
        rule = "a watermark is all three"
        remedy = "give it all three by hand once, or let read_back be config if the switch shows no state"
        raise CapabilityError(where, "a profile without both thresholds and a probability", rule, remedy)
    if found.in_percent != in_percent:
        unit = "percent" if found.in_percent else "bytes"
        rule = f"the inventory says they are in {'percent' if in_percent else 'bytes'}"
        remedy = f"set units.thresholds to {unit}{', and units.buffer_bytes' if found.in_percent else ''}"
        raise CapabilityError(where, f"thresholds in {unit}", rule, remedy)
    return from_device(DeviceWatermark(found.kmin, found.kmax, found.pmax), units, where)


def other_leaves(leaves: Leaves) -> dict[str, Any]:
    """Leaves besides the marking, which a new profile copies: weight, drop, vendor extensions."""
    return {name: value for name, value in leaves.items() if name not in _MARKING}


def leaves_for(source: Leaves, kmin: int, kmax: int, pmax: int, *, in_percent: bool) -> dict[str, Any]:
    """The leaves of ``source`` with another marking.

    Thresholds are 64-bit: texts in JSON (RFC 7951). Percents were 8-bit, and numbers, in some releases of the
    model: they are written as ``source`` writes them.
    """
    written: dict[str, Any] = other_leaves(source)
    for name, value in zip(_PERCENT if in_percent else _BYTES, (kmin, kmax), strict=True):
        written[name] = value if isinstance(source.get(name), int) and in_percent else str(value)
    return written | {_PMAX: pmax, _ECN: True}


def binding_path(port: str, queue: str, origin: str) -> GnmiPath:
    """The leaf that names the profile of an output queue."""
    return GnmiPath.of(
        *INTERFACES,
        ("interface", {"interface-id": port}),
        "output",
        "queues",
        ("queue", {"name": queue}),
        "config",
        _BINDING,
        origin=origin,
    )


def profile_path(name: str, *, origin: str) -> GnmiPath:
    return GnmiPath.of(*PROFILES, (_BINDING, {"name": name}), origin=origin)


def profile_entry(name: str, leaves: Leaves) -> dict[str, Any]:
    return {"name": name, "config": {"name": name}, "wred": {"uniform": {"config": dict(leaves)}}}


def own_name(base: str, ports: Iterable[str], leaves: Leaves) -> str:
    """The name of the profile with these leaves for these ports.

    It follows from the values: a profile is never edited, so its name tells its content.
    """
    said = json.dumps([sorted(ports), leaves], sort_keys=True)
    return f"{base}-{hashlib.sha256(said.encode()).hexdigest()[:8]}"


def _inside(node: Any, *names: str) -> Tree:
    for name in names:
        if not isinstance(node, dict):
            raise ValueError(f"{name} is not inside a container")
        node = node.get(name, {})
    if not isinstance(node, dict):
        raise ValueError(f"{names[-1]} is no container")
    return node


def _text(leaves: Leaves, name: str) -> str | None:
    value = leaves.get(name)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{name} is no text")
    return value or None


def _number(leaves: Leaves, name: str) -> int | None:
    value = leaves.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(f"{name} is no whole number")
    return int(value)
