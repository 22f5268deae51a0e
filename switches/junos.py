"""The adapter to a Junos switch over NETCONF: drop profiles in percent of a queue's buffer.

A port's scheduler map names a scheduler for each forwarding class; a scheduler's drop-profile map names the
drop profile, and ``explicit-congestion-notification`` turns dropping into marking. The schedulers of the
queues get a drop profile of their own, named after its values: profiles that other schedulers share stay as
they are. The switch takes a commit back unless it is confirmed (``commit confirmed``).

Source: Juniper's CoS user guide for QFX (drop-profiles, drop-profile-map, explicit-congestion-notification,
scheduler-maps).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any
from xml.etree.ElementTree import Element
from xml.sax.saxutils import escape

import msgspec

from switches.adapter import Waiting
from switches.base import Capabilities, QueueWatermark
from switches.candidate_config import CandidateAdapter, Found
from switches.device import Device, options_of
from switches.errors import CapabilityError, ConcurrentEditError, InventoryError, unreadable
from switches.transport.netconf import BASE, NetconfOptions, NetconfSession
from switches.units import DeviceWatermark, Rounded, WatermarkUnits, from_device, percent_units
from twin.watermark import Watermark

ANY = "any"
_PRIORITIES = (ANY, "low")  # of packets that are not to be dropped first: what RoCEv2 is classified as
_PROTOCOLS = (ANY, "non-tcp")  # RoCEv2 is UDP


@dataclass(frozen=True, slots=True)
class Profile:
    """A drop profile's points (fill level %, probability %), in its order.

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
        """The entries of its drop-profile map that apply to RoCEv2 packets."""
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
        return tuple(queue for queue, name in self.bound.items() if name == scheduler)

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


def _scheduler_of(entry: Element) -> Scheduler:
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
    """The active elements of that name."""
    for child in parent if parent is not None else ():
        if str(child.tag).rpartition("}")[2] == name and child.get("inactive") is None:
            yield child


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


_FILTER = "<configuration><class-of-service/></configuration>"
_OWN = "ecntwin-"


class JunosAdapter(CandidateAdapter[ClassOfService]):
    def __init__(
        self, device: Device, *, clock_ns: Callable[[], int], waiting: Waiting | None = None
    ) -> None:
        options = options_of(device, NetconfOptions)
        units = _units(device)
        super().__init__(
            device,
            DropProfiles(device, units),
            CommitConfirmed(device, options.confirm_timeout_s),
            lambda: NetconfSession(device, options, dialect="junos"),
            capabilities=Capabilities(
                kind="junos",
                writes=True,
                per="profile",
                units=units,
                dead_man=True,
                undo="one commit names the old drop profiles again; commit confirmed does it by itself",
                read_back="the committed configuration",
            ),
            clock_ns=clock_ns,
            waiting=waiting,
        )


_Entry = tuple[str, str, str | None]


class _Bound(msgspec.Struct, frozen=True, kw_only=True):
    """A scheduler before a change: its entries by loss priority and protocol (None: there was none)."""

    entries: list[_Entry]
    ecn: bool


class _Record(msgspec.Struct, frozen=True, kw_only=True):
    """``profile`` is the drop profile to use, with its ``points``, and whether it was ``there`` before;
    ``stale`` are own ones that the change leaves unused.
    """

    profile: str
    points: list[tuple[int, int]]
    there: bool
    schedulers: dict[str, _Bound]
    stale: dict[str, list[tuple[int, int]]] = {}

    def entries(self, scheduler: str) -> list[_Entry]:
        return [
            (priority, protocol, self.profile) for priority, protocol, _ in self.schedulers[scheduler].entries
        ]


class DropProfiles:
    """A watermark as a drop profile of two points. ``units`` are percent of the queue's buffer."""

    record_kind = _Record

    def __init__(self, device: Device, units: WatermarkUnits) -> None:
        self._device = device
        self._units = units

    def look(self, session: NetconfSession) -> Found[ClassOfService]:
        data = session.get_config(_FILTER)
        try:
            cos = parse(data)
        except ValueError as error:
            rule = "class of service is as Junos writes it"
            raise unreadable(self._device.where, error, rule, what="a configuration") from error
        return Found(cos, tuple(self._queues(cos)))

    def unsettled(self, config: ClassOfService) -> str | None:
        """Only the configuration is read; hardware is not visible."""
        return None

    def plan(self, now: Found[ClassOfService], rounded: Rounded) -> Mapping[str, Any]:
        cos, schedulers = now.config, self._schedulers(now.config)
        points = [(rounded.device.kmin, 0), (rounded.device.kmax, rounded.device.pmax)]
        profile = _own_name(points, cos)
        bound = {
            name: _Bound(entries=_entries_of(cos, name)[0], ecn=scheduler.ecn)
            for name, scheduler in schedulers.items()
        }
        left = {name for scheduler in schedulers.values() for name in scheduler.marking.values()} - {profile}
        stale = {
            name: list(cos.profiles[name].points)
            for name in sorted(left)
            if name.startswith(_OWN) and name in cos.profiles and cos.holders(name) <= set(schedulers)
        }
        record = _Record(
            profile=profile, points=points, there=profile in cos.profiles, schedulers=bound, stale=stale
        )
        values: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(record))
        return values

    def made(self, record: Mapping[str, Any], config: ClassOfService) -> bool:
        planned = msgspec.convert(record, _Record)
        return config.profiles.get(planned.profile) == Profile(tuple(planned.points)) and all(
            _entries_of(config, name) == (planned.entries(name), True) for name in planned.schedulers
        )

    def undone(self, record: Mapping[str, Any], config: ClassOfService) -> bool:
        planned = msgspec.convert(record, _Record)
        return all(
            _entries_of(config, name) == (before.entries, before.ecn)
            for name, before in planned.schedulers.items()
        )

    def foreign_change(self, record: Mapping[str, Any], config: ClassOfService) -> str | None:
        planned = msgspec.convert(record, _Record)
        for name, before in planned.schedulers.items():
            now = _entries_of(config, name)
            if now not in ((before.entries, before.ecn), (planned.entries(name), True)):
                return f"scheduler {name} with another drop-profile map"
        own = config.profiles.get(planned.profile)
        if own is not None and own != Profile(tuple(planned.points)):
            return f"drop profile {planned.profile} with other points"
        if set(self._schedulers(config)) != set(planned.schedulers):
            return "other schedulers for the queues"
        return None

    def forward(self, record: Mapping[str, Any], config: ClassOfService) -> str:
        planned = msgspec.convert(record, _Record)
        unused = [
            name
            for name in planned.stale
            if name in config.profiles and config.holders(name) <= set(planned.schedulers)
        ]
        new = [_written(planned.profile, planned.points)] if planned.profile not in config.profiles else []
        return _cos(
            [*new, *map(_deleted, unused)],
            [
                _scheduler(
                    name,
                    [_entry(*entry) for entry in planned.entries(name)],
                    "" if before.ecn else "<explicit-congestion-notification/>",
                )
                for name, before in planned.schedulers.items()
            ],
        )

    def backward(self, record: Mapping[str, Any], config: ClassOfService) -> str:
        planned = msgspec.convert(record, _Record)
        profiles = [
            _written(name, points) for name, points in planned.stale.items() if name not in config.profiles
        ]
        ours = planned.profile in config.profiles and not planned.there
        if ours and config.holders(planned.profile) <= set(planned.schedulers):
            profiles.append(_deleted(planned.profile))
        return _cos(
            profiles,
            [
                _scheduler(
                    name,
                    [_entry(*entry) for entry in before.entries],
                    "" if before.ecn else '<explicit-congestion-notification operation="delete"/>',
                )
                for name, before in planned.schedulers.items()
            ],
        )

    def _queues(self, cos: ClassOfService) -> Iterator[QueueWatermark]:
        for port, queue in self._wanted(cos):
            scheduler = cos.schedulers[cos.bound[port, queue]]
            yield QueueWatermark(port, queue, self._watermark(cos, scheduler, f"{port} queue {queue}"))

    def _watermark(self, cos: ClassOfService, scheduler: Scheduler, queue: str) -> Watermark | None:
        names = sorted(set(scheduler.marking.values()))
        if not scheduler.ecn or not names:
            return None
        where = f"{self._device.where} {queue}"
        if len(names) > 1:
            rule = "a queue has one watermark"
            remedy = "name one drop profile for the loss priorities any and low by hand once"
            raise CapabilityError(where, f"drop profiles {' and '.join(names)} for one queue", rule, remedy)
        profile = cos.profiles.get(names[0])
        points = profile.points if profile is not None and profile.interpolated else ()
        if len(points) != 2 or points[0][1] != 0:
            rule = "a watermark is two interpolated points, the first with probability 0"
            remedy = "give its scheduler such a drop profile by hand once; it is changed from here after that"
            raise CapabilityError(where, f"drop profile {names[0]} with {_described(profile)}", rule, remedy)
        (kmin, _), (kmax, pmax) = points
        if pmax == 0:
            return None
        return from_device(DeviceWatermark(kmin, kmax, pmax), self._units, where)

    def _wanted(self, cos: ClassOfService) -> list[tuple[str, int]]:
        device = self._device
        wanted = [one for one in sorted(cos.bound) if one[1] in device.queues and device.wants(one[0])]
        if not wanted:
            received = f"no port that schedules queue {', '.join(map(str, device.queues))}"
            rule = "class-of-service interfaces name a scheduler map for the queues to set, outside of groups"
            remedy = "correct queues or ports, or configure class of service on the switch"
            raise InventoryError(device.where, received, rule, remedy)
        return wanted

    def _schedulers(self, cos: ClassOfService) -> dict[str, Scheduler]:
        wanted = self._wanted(cos)
        schedulers = {cos.bound[queue]: cos.schedulers[cos.bound[queue]] for queue in wanted}
        for name in schedulers:
            others = sorted(set(cos.users(name)) - set(wanted))
            if others:
                raise CapabilityError(
                    self._device.where,
                    f"scheduler {name}, which serves {others[0][0]} queue {others[0][1]} too",
                    "a watermark belongs to a scheduler, and only queues of the inventory are set",
                    "name all its queues and ports in the inventory, or give these a scheduler of their own",
                )
        return schedulers


class CommitConfirmed:
    """Junos' own confirmed commit: one for the whole switch, confirmed by the next commit of anybody.

    Its owner is in the commit's log. Source: Juniper's Junos XML protocol guide (commit-configuration,
    get-commit-information).
    """

    def __init__(self, device: Device, confirm_timeout_s: int) -> None:
        self._device = device
        self._minutes = math.ceil(confirm_timeout_s / 60)

    def check(self, session: NetconfSession, change_id: str) -> None:
        log = _pending(session)
        if log not in (None, _log(change_id)):
            received = f"a commit that waits to be confirmed ({log or 'without a comment'})"
            rule = "the next commit of any user confirms it"
            remedy = "let the one who made it confirm or undo it"
            raise ConcurrentEditError(self._device.where, received, rule, remedy)

    def commit(self, session: NetconfSession, change_id: str) -> bool:
        session.call(
            _commit(f"<confirmed/><confirm-timeout>{self._minutes}</confirm-timeout>", _log(change_id))
        )
        return False

    def confirm(self, session: NetconfSession, change_id: str) -> None:
        if _pending(session) != _log(change_id):
            return
        with session.locked():
            if _pending(session) == _log(change_id):
                session.call(_commit("", f"{_log(change_id)} confirmed"))

    def cancel(self, session: NetconfSession, change_id: str) -> None:
        """There is no call for it: the commit that restores the old state ends it."""

    def keep(self, session: NetconfSession, change_id: str) -> None:
        session.call(_commit("", f"{_log(change_id)} undone"))


def _pending(session: NetconfSession) -> str | None:
    """The log of the commit that waits to be confirmed; None without one."""
    reply = session.call(f'<get-commit-information xmlns="{BASE}"/>')
    newest = reply.find(".//{*}commit-history")
    if newest is None or newest.find("{*}commit-confirmed") is None:
        return None
    return (newest.findtext("{*}log") or "").strip()


def _commit(inside: str, log: str) -> str:
    return f'<commit-configuration xmlns="{BASE}">{inside}<log>{escape(log)}</log></commit-configuration>'


def _log(change_id: str) -> str:
    return f"ecntwin {change_id}"


def _own_name(points: list[tuple[int, int]], cos: ClassOfService) -> str:
    """Follows from the profile's values: one of that name with other values is not ours."""
    (kmin, _), (kmax, pmax) = points
    name = first = f"{_OWN}{kmin}-{kmax}-{pmax}"
    for number in count(2):
        if cos.profiles.get(name, Profile(tuple(points))) == Profile(tuple(points)):
            break
        name = f"{first}-{number}"
    return name


def _entries_of(cos: ClassOfService, name: str) -> tuple[list[_Entry], bool]:
    """The entries to set, those that apply to RoCEv2 or a new one beside the others; and whether it marks."""
    scheduler = cos.schedulers.get(name, Scheduler({}, ecn=False))
    keys = sorted(scheduler.marking) or [("low" if scheduler.maps else ANY, ANY)]
    return [(*key, scheduler.maps.get(key)) for key in keys], scheduler.ecn


def _described(profile: Profile | None) -> str:
    if profile is None:
        return "no points"
    kind = "interpolated points" if profile.interpolated else "steps"
    points = ", ".join(f"{level}%: {chance}%" for level, chance in profile.points)
    return f"{len(profile.points)} {kind} {points}"


def _units(device: Device) -> WatermarkUnits:
    if device.units.thresholds not in (None, "percent"):
        raise device.wrong_unit("percent of buffer_bytes")
    return percent_units(f"{device.where} units", device.units.buffer_bytes)


def _cos(profiles: list[str], schedulers: list[str]) -> str:
    return (
        f'<configuration xmlns="{BASE}"><class-of-service>'
        f"{''.join(f'<drop-profiles{one}</drop-profiles>' for one in profiles)}"
        f"{''.join(f'<schedulers>{one}</schedulers>' for one in schedulers)}"
        "</class-of-service></configuration>"
    )


def _written(name: str, points: list[tuple[int, int]]) -> str:
    levels = "".join(f"<fill-level>{level}</fill-level>" for level, _ in points)
    chances = "".join(f"<drop-probability>{chance}</drop-probability>" for _, chance in points)
    return f"><name>{escape(name)}</name><interpolate>{levels}{chances}</interpolate>"


def _deleted(name: str) -> str:
    return f' operation="delete"><name>{escape(name)}</name>'


def _scheduler(name: str, entries: list[str], ecn: str) -> str:
    return f"<name>{escape(name)}</name>{''.join(entries)}{ecn}"


def _entry(priority: str, protocol: str, profile: str | None) -> str:
    keys = f"<loss-priority>{priority}</loss-priority><protocol>{protocol}</protocol>"
    if profile is None:
        return f'<drop-profile-map operation="delete">{keys}</drop-profile-map>'
    return f"<drop-profile-map>{keys}<drop-profile>{escape(profile)}</drop-profile></drop-profile-map>"
