"""The part of Junos' class of service that a watermark lives in; must not talk to a switch.

A port's scheduler map names a scheduler for each forwarding class; a scheduler's drop-profile map names the
drop profile, and ``explicit-congestion-notification`` turns dropping into marking. Source: Juniper's CoS user
guide for QFX (drop-profiles, drop-profile-map, explicit-congestion-notification, scheduler-maps).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from xml.etree.ElementTree import Element

ANY = "any"
_PRIORITIES = (ANY, "low")  # of packets that are not to be dropped first: what RoCEv2 is classified as
_PROTOCOLS = (ANY, "non-tcp")  # RoCEv2 is UDP


@dataclass(frozen=True, slots=True)
class Profile:
    """A drop profile's points (fill level %, probability %), in the order it has them.

    ``interpolated`` False: steps, not a curve.
    """

    points: tuple[tuple[int, int], ...]
    interpolated: bool = True


MapKey = tuple[str, str]
"""Loss priority and protocol of an entry of a drop-profile map."""


@dataclass(frozen=True, slots=True)
class Scheduler:
    """A scheduler's drop-profile map, and whether it marks instead of dropping."""

    maps: dict[MapKey, str]
    ecn: bool

    @property
    def marking(self) -> dict[MapKey, str]:
        """The entries that packets of RoCEv2 meet."""
        return {
            key: name for key, name in self.maps.items() if key[0] in _PRIORITIES and key[1] in _PROTOCOLS
        }


@dataclass(frozen=True, slots=True)
class ClassOfService:
    """Drop profiles and schedulers by name, and the scheduler of each (port, queue)."""

    profiles: dict[str, Profile]
    schedulers: dict[str, Scheduler]
    bound: dict[tuple[str, int], str]

    def users(self, scheduler: str) -> tuple[tuple[str, int], ...]:
        """The queues it serves."""
        return tuple(queue for queue, name in self.bound.items() if name == scheduler)

    def holders(self, profile: str) -> frozenset[str]:
        """The schedulers whose maps name that drop profile."""
        return frozenset(
            name for name, scheduler in self.schedulers.items() if profile in scheduler.maps.values()
        )


def parse(data: Element) -> ClassOfService:
    """What a reply's ``data`` says, whatever the namespaces. Raises ``ValueError`` where a number is none."""
    cos = _first(_first(data, "configuration"), "class-of-service")
    profiles = {_name(entry): _profile(entry) for entry in _each(cos, "drop-profiles")}
    schedulers = {_name(entry): _scheduler(entry) for entry in _each(cos, "schedulers")}
    return ClassOfService(profiles, schedulers, dict(_bound(cos, schedulers)))


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


def _scheduler(entry: Element) -> Scheduler:
    maps = {}
    for one in _each(entry, "drop-profile-map"):
        key = (_text(one, "loss-priority") or ANY, _text(one, "protocol") or ANY)
        maps[key] = _text(one, "drop-profile")
    return Scheduler(maps, _first(entry, "explicit-congestion-notification") is not None)


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
    """What of that name is inside and in force: a deactivated statement is as good as none."""
    for child in parent if parent is not None else ():
        if str(child.tag).rpartition("}")[2] == name and child.get("inactive") is None:
            yield child


def _first(parent: Element | None, name: str) -> Element | None:
    return next(_each(parent, name), None)


def _text(parent: Element, name: str) -> str:
    found = _first(parent, name)
    return (found.text or "").strip() if found is not None else ""


def _name(entry: Element) -> str:
    """Its ``name``, or its text where it is a statement of one word."""
    return _text(entry, "name") or _text(entry, "profile-name") or (entry.text or "").strip()


def _numbers(parent: Element, name: str) -> list[int]:
    return [int((child.text or "").strip()) for child in _each(parent, name)]
