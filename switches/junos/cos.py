"""Junos' class of service as its configuration has it, and as an edit of it writes it.

Source: Juniper's CoS user guide for QFX (drop-profiles, drop-profile-map, explicit-congestion-notification,
scheduler-maps; interfaces: a scheduler map is applied to a port directly with direct port scheduling only).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from xml.etree.ElementTree import Element
from xml.sax.saxutils import escape

from switches.transport.netconf import BASE

ANY = "any"
SCHEDULERS = "schedulers"
MAPS = "scheduler-maps"
_PRIORITIES = (ANY, "low")  # of packets that are not to be dropped first: what RoCEv2 is classified as
_PROTOCOLS = (ANY, "non-tcp")  # RoCEv2 is UDP


@dataclass(frozen=True, slots=True)
class Profile:
    """A drop profile's points (fill level %, probability %), in its order.

    ``interpolated`` False: steps, not a curve.
    """

    points: tuple[tuple[int, int], ...]
    interpolated: bool = True


Entry = tuple[str, str, str | None]
"""Loss priority, protocol and drop profile of an entry; None: there is none."""
MapKey = tuple[str, str]
"""Loss priority and protocol of an entry of a drop-profile map."""


@dataclass(frozen=True, slots=True)
class Scheduler:
    """A scheduler's drop-profile map, and whether it marks instead of dropping."""

    maps: dict[MapKey, str]
    ecn: bool

    @property
    def marking(self) -> dict[MapKey, str]:
        """The entries of its drop-profile map that apply to RoCEv2 packets."""
        return {
            key: name for key, name in self.maps.items() if key[0] in _PRIORITIES and key[1] in _PROTOCOLS
        }


@dataclass(frozen=True, slots=True)
class ClassOfService:
    """Drop profiles and schedulers by name, and the scheduler of each (port, queue).

    ``mapped`` is the scheduler map that a port names itself; ``queues`` the queue of each forwarding class;
    ``entries`` the elements of schedulers and scheduler maps by name.
    """

    profiles: dict[str, Profile]
    schedulers: dict[str, Scheduler]
    bound: dict[tuple[str, int], str]
    mapped: dict[str, str] = field(default_factory=dict)
    queues: dict[str, int] = field(default_factory=dict)
    entries: dict[str, dict[str, Element]] = field(default_factory=lambda: {SCHEDULERS: {}, MAPS: {}})

    def users(self, scheduler: str) -> tuple[tuple[str, int], ...]:
        return tuple(queue for queue, name in self.bound.items() if name == scheduler)

    @property
    def names(self) -> set[str]:
        """The names of its schedulers and scheduler maps."""
        return {name for entries in self.entries.values() for name in entries}

    def ports(self, name: str) -> set[str]:
        """The ports with a scheduler or a scheduler map of that name."""
        return {port for port, _ in self.users(name)} | {
            port for port, named in self.mapped.items() if named == name
        }

    def holders(self, profile: str) -> frozenset[str]:
        """The schedulers whose maps name that drop profile."""
        return frozenset(
            name for name, scheduler in self.schedulers.items() if profile in scheduler.maps.values()
        )


def parse(data: Element) -> ClassOfService:
    """The class of service in a reply's ``data``, of any namespace. Raises ``ValueError`` for an invalid
    number.
    """
    cos = _first(_first(data, "configuration"), "class-of-service")
    profiles = {_name(entry): _profile(entry) for entry in _each(cos, "drop-profiles")}
    schedulers = {_name(entry): _scheduler_of(entry) for entry in _each(cos, "schedulers")}
    mapped = {
        _name(port): _text(port, "scheduler-map") for port in _each(_first(cos, "interfaces"), "interface")
    }
    return ClassOfService(
        profiles,
        schedulers,
        dict(_bound(cos, schedulers)),
        {port: name for port, name in mapped.items() if name},
        dict(_queues(cos)),
        {kind: {_name(entry): entry for entry in _each(cos, kind)} for kind in (SCHEDULERS, MAPS)},
    )


def _profile(entry: Element) -> Profile:
    curve = _first(entry, "interpolate")
    if curve is not None:
        levels, chances = _numbers(curve, "fill-level"), _numbers(curve, "drop-probability")
        if len(levels) != len(chances):
            raise ValueError(f"drop profile {_name(entry)} with {len(levels)} levels for {len(chances)}")
        return Profile(tuple(zip(levels, chances, strict=True)))
    steps = [
        (int(_name(step)), *_numbers(step, "drop-probability")[:1]) for step in _each(entry, "fill-level")
    ]
    return Profile(tuple((step[0], step[1] if len(step) > 1 else 100) for step in steps), interpolated=False)


def _scheduler_of(entry: Element) -> Scheduler:
    maps = {_key(one): _text(one, "drop-profile") for one in _each(entry, "drop-profile-map")}
    return Scheduler(maps, _first(entry, "explicit-congestion-notification") is not None)


def _key(entry: Element) -> MapKey:
    return _text(entry, "loss-priority") or ANY, _text(entry, "protocol") or ANY


def _bound(cos: Element | None, schedulers: Iterable[str]) -> Iterator[tuple[tuple[str, int], str]]:
    queues = dict(_queues(cos))
    maps = {
        _name(entry): {_name(one): _text(one, "scheduler") for one in _each(entry, "forwarding-class")}
        for entry in _each(cos, "scheduler-maps")
    }
    traffic = {
        _name(entry): _text(entry, "scheduler-map") for entry in _each(cos, "traffic-control-profiles")
    }
    for interface in _each(_first(cos, "interfaces"), "interface"):
        named = [_text(interface, "scheduler-map")]
        for group in _each(interface, "forwarding-class-set"):
            profile = _first(group, "output-traffic-control-profile")
            named.append(traffic.get(_name(profile) if profile is not None else "", ""))
        for scheduler_map in filter(None, named):
            for forwarding_class, scheduler in maps.get(scheduler_map, {}).items():
                if forwarding_class in queues and scheduler in set(schedulers):
                    yield (_name(interface), queues[forwarding_class]), scheduler


def _queues(cos: Element | None) -> Iterator[tuple[str, int]]:
    """The queue of each forwarding class, in the two ways of writing it."""
    classes = _first(cos, "forwarding-classes")
    for entry in _each(classes, "class"):
        yield _name(entry), int(_text(entry, "queue-num"))
    for entry in _each(classes, "queue"):
        yield _text(entry, "class-name"), int(_name(entry))


def _each(parent: Element | None, name: str) -> Iterator[Element]:
    """The active elements of that name."""
    return (child for child in _active(parent) if _tag(child) == name)


def _active(parent: Element | None) -> Iterator[Element]:
    return (child for child in (parent if parent is not None else ()) if child.get("inactive") is None)


def _tag(element: Element) -> str:
    return str(element.tag).rpartition("}")[2]


def _first(parent: Element | None, name: str) -> Element | None:
    return next(_each(parent, name), None)


def _text(parent: Element, name: str) -> str:
    found = _first(parent, name)
    return (found.text or "").strip() if found is not None else ""


def _name(entry: Element) -> str:
    """The element's ``name``, or its text where it is a one-word statement."""
    return _text(entry, "name") or _text(entry, "profile-name") or (entry.text or "").strip()


def _numbers(parent: Element, name: str) -> list[int]:
    return [int((child.text or "").strip()) for child in _each(parent, name)]


def edit_xml(**entries: Iterable[str]) -> str:
    """An edit of these entries by kind, with ``_`` for ``-``; each is what follows its element's name."""
    found = (
        f"<{kind}{one}</{kind}>"
        for name, ones in entries.items()
        for kind in [name.replace("_", "-")]
        for one in ones
    )
    return (
        f'<configuration xmlns="{BASE}"><class-of-service>{"".join(found)}</class-of-service></configuration>'
    )


def bound_xml(port: str, scheduler_map: str) -> str:
    named = f"<name>{escape(port)}</name><scheduler-map>{escape(scheduler_map)}</scheduler-map>"
    return f"><interface>{named}</interface>"


def scheduler_copy_xml(scheduler: Element, name: str, entries: Iterable[Entry]) -> str:
    """A copy that marks, with these entries of its drop-profile map beside those for other packets."""
    entries = list(entries)
    keys = {(priority, protocol) for priority, protocol, _ in entries}
    kept = [
        _plain(one)
        for one in _active(scheduler)
        if _tag(one) not in ("name", "explicit-congestion-notification")
        and not (_tag(one) == "drop-profile-map" and _key(one) in keys)
    ]
    written = [*kept, *(entry_xml(*entry) for entry in entries)]
    return scheduler_xml(name, written, "<explicit-congestion-notification/>")


def map_copy_xml(scheduler_map: Element, name: str, classes: Mapping[str, str]) -> str:
    """A copy with other schedulers for some forwarding classes."""
    inside = [
        _class_xml(one, classes[_name(one)]) if _name(one) in classes else _plain(one)
        for one in _active(scheduler_map)
        if _tag(one) != "name"
    ]
    return f"><name>{escape(name)}</name>{''.join(inside)}"


def _class_xml(entry: Element, scheduler: str) -> str:
    named = f"<name>{escape(_name(entry))}</name><scheduler>{escape(scheduler)}</scheduler>"
    return f"<forwarding-class>{named}</forwarding-class>"


def _plain(element: Element) -> str:
    """An element and what is active in it, without namespaces and attributes."""
    tag, text = _tag(element), escape((element.text or "").strip())
    return f"<{tag}>{text}{''.join(map(_plain, _active(element)))}</{tag}>"


def written_xml(name: str, points: list[tuple[int, int]]) -> str:
    levels = "".join(f"<fill-level>{level}</fill-level>" for level, _ in points)
    chances = "".join(f"<drop-probability>{chance}</drop-probability>" for _, chance in points)
    return f"><name>{escape(name)}</name><interpolate>{levels}{chances}</interpolate>"


def deleted_xml(name: str) -> str:
    return f' operation="delete"><name>{escape(name)}</name>'


def scheduler_xml(name: str, entries: list[str], ecn: str) -> str:
    return f"><name>{escape(name)}</name>{''.join(entries)}{ecn}"


def entry_xml(priority: str, protocol: str, profile: str | None) -> str:
    keys = f"<loss-priority>{priority}</loss-priority><protocol>{protocol}</protocol>"
    if profile is None:
        return f'<drop-profile-map operation="delete">{keys}</drop-profile-map>'
    return f"<drop-profile-map>{keys}<drop-profile>{escape(profile)}</drop-profile></drop-profile-map>"
