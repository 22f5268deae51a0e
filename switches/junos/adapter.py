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
from dataclasses import replace
from itertools import count
from typing import Any
from xml.sax.saxutils import escape

import msgspec

from switches.adapter import PREFIX, own_name, own_prefix
from switches.base import Capabilities, QueueWatermark, Wanted
from switches.candidate_config import CandidateAdapter, Found
from switches.device import Device, options_of
from switches.errors import BusyError, CapabilityError, InventoryError, unreadable
from switches.junos.cos import (
    ANY,
    MAPS,
    SCHEDULERS,
    ClassOfService,
    Entry,
    Profile,
    Scheduler,
    bound_xml,
    deleted_xml,
    edit_xml,
    entry_xml,
    map_copy_xml,
    parse,
    scheduler_copy_xml,
    scheduler_xml,
    written_xml,
)
from switches.transport.netconf import BASE, NetconfOptions, NetconfSession
from switches.units import DeviceWatermark, Rounded, WatermarkUnits, from_device, percent_units
from twin.watermark import Watermark

_FILTER = "<configuration><class-of-service/></configuration>"


class JunosAdapter(CandidateAdapter[ClassOfService]):
    def __init__(self, device: Device, *, clock_ns: Callable[[], int]) -> None:
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
                one_for_all="",
            ),
            clock_ns=clock_ns,
        )


class _Bound(msgspec.Struct, frozen=True, kw_only=True):
    """A scheduler before a change: its entries by loss priority and protocol (None: there was none)."""

    entries: list[Entry]
    ecn: bool


class _Move(msgspec.Struct, frozen=True):
    """A port of a role, the scheduler map that it has, and the one that it gets."""

    port: str
    was: str
    becomes: str


class _Map(msgspec.Struct, frozen=True):
    """A copy of the scheduler map ``of``, with other schedulers for some of its forwarding ``classes``."""

    of: str
    classes: dict[str, str]


class _Apart(msgspec.Struct, frozen=True, omit_defaults=True):
    """What ports of a role get of their own, by its name: copies of ``schedulers``, and of ``maps``."""

    schedulers: dict[str, str] = {}
    maps: dict[str, _Map] = {}
    moves: list[_Move] = []


class _Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """``profile`` is the drop profile to use, with its ``points``, and whether it was ``there`` before;
    ``stale`` are own ones that the change leaves unused. ``schedulers`` include those that are made, as
    they are copied.
    """

    profile: str
    points: list[tuple[int, int]]
    there: bool
    schedulers: dict[str, _Bound]
    stale: dict[str, list[tuple[int, int]]] = {}
    apart: _Apart = _Apart()

    def entries(self, scheduler: str) -> list[Entry]:
        return [
            (priority, protocol, self.profile) for priority, protocol, _ in self.schedulers[scheduler].entries
        ]


class DropProfiles:
    """A watermark as a drop profile of two points. ``units`` are percent of the queue's buffer."""

    record_kind = _Record
    lags = False

    def __init__(self, device: Device, units: WatermarkUnits) -> None:
        self._device = device
        self._units = units

    def look(self, session: NetconfSession) -> ClassOfService:
        data = session.get_config(_FILTER)
        try:
            return parse(data)
        except ValueError as error:
            rule = "class of service is as Junos writes it"
            raise unreadable(self._device.where, error, rule, what="a configuration") from error

    def running(self, config: ClassOfService, wanted: Wanted | None = None) -> tuple[QueueWatermark, ...]:
        return tuple(self._queues(config, self._wanted(config, wanted)))

    def unsettled(self, config: ClassOfService) -> str | None:
        """Only the configuration is read; hardware is not visible."""
        return None

    def plan(self, now: Found[ClassOfService], rounded: Rounded) -> Mapping[str, Any]:
        cos, apart = self._apart(now.config)
        schedulers = self._schedulers(cos)
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
            if name.startswith(PREFIX) and name in cos.profiles and cos.holders(name) <= set(schedulers)
        }
        return _values_of(
            _Record(
                profile=profile,
                points=points,
                there=profile in cos.profiles,
                schedulers=bound,
                stale=stale,
                apart=apart,
            )
        )

    def made(self, record: Mapping[str, Any], config: ClassOfService) -> bool:
        planned = msgspec.convert(record, _Record)
        return (
            config.profiles.get(planned.profile) == Profile(tuple(planned.points))
            and all(_entries_of(config, name) == (planned.entries(name), True) for name in planned.schedulers)
            and all(config.mapped.get(move.port) == move.becomes for move in planned.apart.moves)
        )

    def left(self, record: Mapping[str, Any], config: ClassOfService, wanted: Wanted) -> Mapping[str, Any]:
        planned = msgspec.convert(record, _Record)
        used = {config.bound[one] for one in self._wanted(config, wanted)}
        if not used:
            return {}
        apart, there = planned.apart, {port for port, _ in config.bound} | config.mapped.keys()
        schedulers = {
            name: before
            for name, before in planned.schedulers.items()
            if name in used
            or name in apart.schedulers
            or (name in config.schedulers and not _is_foreign(planned, config, name))
        }
        moves = [one for one in apart.moves if one.port in there]
        apart = msgspec.structs.replace(apart, moves=moves)
        return _values_of(msgspec.structs.replace(planned, schedulers=schedulers, apart=apart))

    def undone(self, record: Mapping[str, Any], config: ClassOfService) -> bool:
        planned = msgspec.convert(record, _Record)
        return all(
            _entries_of(config, name) == (before.entries, before.ecn)
            for name, before in planned.schedulers.items()
            if name not in planned.apart.schedulers
        ) and all(config.mapped.get(move.port) == move.was for move in planned.apart.moves)

    def foreign_change(self, record: Mapping[str, Any], config: ClassOfService) -> str | None:
        planned = msgspec.convert(record, _Record)
        moved = _moved_elsewhere(planned, config)
        if moved is None:
            config, _ = self._apart(config)
            moved = _set_otherwise(planned, config)
        if moved is None and set(self._schedulers(config)) != set(planned.schedulers):
            return "other schedulers for the queues"
        return moved

    def foreign_since(self, record: Mapping[str, Any], config: ClassOfService, wanted: Wanted) -> str | None:
        planned = msgspec.convert(record, _Record)
        known = {*planned.schedulers, *planned.apart.schedulers.values()}
        for port, queue in self._wanted(config, wanted):
            if config.bound[port, queue] not in known:
                return f"{port} queue {queue} with scheduler {config.bound[port, queue]}"
        return _moved_elsewhere(planned, config) or _set_otherwise(planned, config)

    def forward(self, record: Mapping[str, Any], config: ClassOfService) -> str:
        planned = msgspec.convert(record, _Record)
        unused = [
            name
            for name in planned.stale
            if name in config.profiles and config.holders(name) <= set(planned.schedulers)
        ]
        new = [written_xml(planned.profile, planned.points)] if planned.profile not in config.profiles else []
        apart = planned.apart
        return edit_xml(
            drop_profiles=[*new, *map(deleted_xml, unused)],
            schedulers=[
                scheduler_copy_xml(
                    config.entries[SCHEDULERS][apart.schedulers[name]], name, planned.entries(name)
                )
                if name in apart.schedulers
                else scheduler_xml(
                    name,
                    [entry_xml(*entry) for entry in planned.entries(name)],
                    "" if before.ecn else "<explicit-congestion-notification/>",
                )
                for name, before in planned.schedulers.items()
            ],
            scheduler_maps=[
                map_copy_xml(config.entries[MAPS][one.of], name, one.classes)
                for name, one in apart.maps.items()
            ],
            interfaces=[bound_xml(move.port, move.becomes) for move in planned.apart.moves],
        )

    def backward(self, record: Mapping[str, Any], config: ClassOfService) -> str:
        planned = msgspec.convert(record, _Record)
        profiles = [
            written_xml(name, points) for name, points in planned.stale.items() if name not in config.profiles
        ]
        ours = planned.profile in config.profiles and not planned.there
        if ours and config.holders(planned.profile) <= set(planned.schedulers):
            profiles.append(deleted_xml(planned.profile))
        apart = planned.apart
        moved = {move.port for move in apart.moves}

        def unused(kind: str, names: Iterable[str]) -> list[str]:
            there = config.entries[kind]
            return [name for name in names if name in there and config.ports(name) <= moved]

        # A copy that others have given to their ports stays, and runs what it was copied from.
        gone = unused(SCHEDULERS, apart.schedulers)
        return edit_xml(
            drop_profiles=profiles,
            schedulers=[
                *(
                    scheduler_xml(
                        name,
                        [entry_xml(*entry) for entry in before.entries],
                        "" if before.ecn else '<explicit-congestion-notification operation="delete"/>',
                    )
                    for name, before in planned.schedulers.items()
                    if name in config.schedulers and name not in gone
                ),
                *map(deleted_xml, gone),
            ],
            scheduler_maps=map(deleted_xml, unused(MAPS, apart.maps)),
            interfaces=[bound_xml(move.port, move.was) for move in planned.apart.moves],
        )

    def _apart(self, cos: ClassOfService) -> tuple[ClassOfService, _Apart]:
        """The configuration once the role's ports have schedulers of their own, and what that takes.

        Raises ``CapabilityError`` where a port names no scheduler map itself.
        """
        role, ports = self._device.role, set(self._device.ports)
        if role is None:
            return cos, _Apart()

        def own(name: str) -> str:
            return own_name(
                role, name, lambda free: free not in cos.names or set() < cos.ports(free) <= ports
            )

        found, schedulers = _Apart({}, {}, []), dict(cos.schedulers)
        bound, mapped = dict(cos.bound), dict(cos.mapped)
        for port, queue in self._wanted(cos):
            was = cos.bound[port, queue]
            if was.startswith(own_prefix(role)) and cos.ports(was) <= ports:
                continue
            if port not in cos.mapped:
                received = f"{port}, whose scheduler map is that of a traffic control profile"
                rule = "ports of a role get a scheduler map of their own, which the port itself names"
                remedy = "name it under interfaces, or approve the one watermark for all ports"
                raise CapabilityError(self._device.where, received, rule, remedy)
            map_was, new = cos.mapped[port], own(was)
            bound[port, queue], mapped[port] = new, own(map_was)
            schedulers[new] = cos.schedulers.get(new, cos.schedulers[was])
            if new not in cos.schedulers:
                found.schedulers[new] = was
            if mapped[port] not in cos.entries[MAPS]:
                classes = found.maps.setdefault(mapped[port], _Map(map_was, {})).classes
                classes |= {name: new for name, number in cos.queues.items() if number == queue}
            if _Move(port, map_was, mapped[port]) not in found.moves:
                found.moves.append(_Move(port, map_was, mapped[port]))
        return replace(cos, schedulers=schedulers, bound=bound, mapped=mapped), found

    def _queues(self, cos: ClassOfService, wanted: Iterable[tuple[str, int]]) -> Iterator[QueueWatermark]:
        for port, queue in wanted:
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

    def _wanted(self, cos: ClassOfService, wanted: Wanted | None = None) -> list[tuple[str, int]]:
        device = self._device
        found = [one for one in sorted(cos.bound) if (wanted or device.sets)(*one)]
        if not found and wanted is None:
            received = f"no port that schedules queue {', '.join(map(str, device.queues))}"
            rule = "class-of-service interfaces name a scheduler map for the queues to set, outside of groups"
            remedy = "correct queues or ports, or configure class of service on the switch"
            raise InventoryError(device.where, received, rule, remedy)
        return found

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
            raise BusyError(self._device.where, received, rule, remedy)

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
    name = first = f"{PREFIX}{kmin}-{kmax}-{pmax}"
    for number in count(2):
        if cos.profiles.get(name, Profile(tuple(points))) == Profile(tuple(points)):
            break
        name = f"{first}-{number}"
    return name


def _entries_of(cos: ClassOfService, name: str) -> tuple[list[Entry], bool]:
    """The entries to set, those that apply to RoCEv2 or a new one beside the others; and whether it marks."""
    scheduler = cos.schedulers.get(name, Scheduler({}, ecn=False))
    keys = sorted(scheduler.marking) or [("low" if scheduler.maps else ANY, ANY)]
    return [(*key, scheduler.maps.get(key)) for key in keys], scheduler.ecn


def _values_of(record: _Record) -> dict[str, Any]:
    values: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(record))
    return values


def _moved_elsewhere(planned: _Record, config: ClassOfService) -> str | None:
    """A port whose scheduler map is neither the old one nor the new, as a text; None for none."""
    for move in planned.apart.moves:
        if config.mapped.get(move.port) not in (move.was, move.becomes):
            return f"{move.port} with scheduler map {config.mapped.get(move.port)}"
    return None


def _is_foreign(planned: _Record, config: ClassOfService, name: str) -> bool:
    """Whether a scheduler has values that are neither old nor new."""
    before = planned.schedulers[name]
    return _entries_of(config, name) not in ((before.entries, before.ecn), (planned.entries(name), True))


def _set_otherwise(planned: _Record, config: ClassOfService) -> str | None:
    """A scheduler or the new drop profile with values that are neither old nor new, as a text; None for none.

    One that is not there is none: it is not made yet, or others have removed it.
    """
    for name in planned.schedulers:
        if name in config.schedulers and _is_foreign(planned, config, name):
            return f"scheduler {name} with another drop-profile map"
    own = config.profiles.get(planned.profile)
    if own is not None and own != Profile(tuple(planned.points)):
        return f"drop profile {planned.profile} with other points"
    return None


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
