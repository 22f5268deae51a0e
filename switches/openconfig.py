"""The adapter to a switch that speaks OpenConfig QoS over gNMI; must not know how gNMI is carried.

The queues of a change get a profile of their own, named after what it holds, and are bound to it by the same
SetRequest. No profile is ever edited: what other queues share stays as it is, and Kmin never passes Kmax.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from switches import openconfig_qos as model
from switches import read_back
from switches.base import Capabilities, QueueWatermark, Reading, StagedChange
from switches.concurrent_edit import check_nobody_else, left_alone
from switches.device import Device, options_of
from switches.diff import watermark_diff
from switches.errors import CapabilityError, ConcurrentEditError, InventoryError, RefusedError
from switches.gnmi_path import GnmiPath
from switches.gnmi_session import GnmiOptions, GnmiSession
from switches.gnmi_tree import tree_of
from switches.openconfig_plan import Plan, PlannedProfile, PlannedQueue
from switches.openconfig_qos import Qos
from switches.read_back import Waiting
from switches.units import WatermarkUnits, bytes_units, percent_units, to_device
from twin.watermark import Watermark

PORT = 9339  # IANA's for gNMI
_HIGHEST_UINT64 = 2**64 - 1


class _Options(GnmiOptions, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``queue_names``: what the switch calls a queue, by number. ``read_back``: the leaves a reading is of.
    ``profile``: how the names of its own profiles begin. ``origin``: of every path.
    """

    queue_names: dict[int | str, str] = msgspec.field(default_factory=dict)
    read_back: Literal["state", "config"] = "state"
    profile: str = "ecntwin"
    origin: str = "openconfig"


@dataclass(frozen=True, slots=True)
class _Look:
    """What one Get said: all of it, and what the device's queues run."""

    qos: Qos
    reading: Reading


class OpenConfigAdapter:
    """One switch at the device's ``address``. ``clock_ns`` gives wall-clock nanoseconds since 1970."""

    def __init__(
        self, device: Device, *, clock_ns: Callable[[], int], waiting: Waiting | None = None
    ) -> None:
        self.switch = device.name
        self._device = device
        self._clock_ns = clock_ns
        self._waiting = waiting or Waiting()
        self._options = options_of(device, _Options)
        self._names = _queue_names(device, self._options)
        self._in_percent, self._units = _units(device)
        self._session = GnmiSession(device, self._options, default_port=PORT)

    def capabilities(self) -> Capabilities:
        what_runs = self._options.read_back == "state"
        return Capabilities(
            kind="openconfig",
            writes=True,
            units=self._units,
            undo="one Set binds the queues to what they were bound to",
            read_back="state leaves" if what_runs else "config leaves: what was asked, not what runs",
        )

    def read(self) -> Reading:
        return self._look().reading

    def stage(self, watermark: Watermark, change_id: str) -> StagedChange:
        now = self._look()
        rounded = to_device(watermark, self._units)
        after = rounded.watermark
        if any(queue.watermark != after for queue in now.reading.queues):
            plan = self._plan(now, rounded.device.kmin, rounded.device.kmax, rounded.device.pmax)
        else:
            plan = Plan()
        return StagedChange(
            id=change_id,
            switch=self.switch,
            asked=watermark,
            after=after,
            before=now.reading.queues,
            diff=watermark_diff(self.switch, now.reading.queues, after, rounded.notes),
            notes=rounded.notes,
            undo=plan.recorded(),
        )

    def apply(self, change: StagedChange) -> None:
        plan, now = Plan.of(change.undo), self._look()
        if change.made_in(now.reading) and plan.made_in(now.qos):
            return
        check_nobody_else(change, now.reading, self._device.where)
        self._check_configured(plan, now.qos)
        origin = self._options.origin
        self._session.set(
            replace=[
                (model.profile_path(name, origin=origin), model.profile_entry(name, planned.becomes))
                for name, planned in plan.profiles.items()
            ],
            update=[
                (model.binding_path(queue.port, queue.name, origin), queue.binds) for queue in plan.queues
            ],
        )

    def verify(self, change: StagedChange) -> Reading:
        return read_back.made(change, self._read_while_it_settles, self._device, self._waiting)

    def confirm(self, change: StagedChange) -> None:
        """Removes its own profiles of earlier changes that no queue uses any more: nothing else waits."""
        plan = Plan.of(change.undo)
        bound_before = {queue.bound for queue in plan.queues if queue.bound is not None}
        self._remove_unused(name for name in sorted(bound_before) if self._is_own(name))

    def rollback(self, change: StagedChange) -> None:
        plan, now = Plan.of(change.undo), self._look()
        if not (change.undone_in(now.reading) and plan.undone_in(now.qos)):
            left_alone(change, now.reading, self._device.where)
            self._check_configured(plan, now.qos)
            self._put_back(plan, now.qos)
            read_back.undone(change, self._read_while_it_settles, self._device, self._waiting)
        self._remove_unused(name for name, planned in plan.profiles.items() if planned.was is None)

    def close(self) -> None:
        self._session.close()

    def _look(self) -> _Look:
        origin = self._options.origin
        paths = [GnmiPath.of(*model.INTERFACES, origin=origin), GnmiPath.of(*model.PROFILES, origin=origin)]
        values = self._session.get(paths)
        try:
            qos = model.parse(tree_of(values, model.LIST_KEYS))
            reading = Reading.of(self.switch, self._queues(qos), self._clock_ns())
        except ValueError as error:
            raise RefusedError(
                self._device.where,
                f"an answer that cannot be read ({error})",
                "it is shaped as openconfig-qos says",
                "look at the switch, and its version",
            ) from error
        if not reading.queues:
            self._nothing_found()
        return _Look(qos, reading)

    def _read_while_it_settles(self) -> Reading:
        """A reading; one of no queues where the switch shows a profile bound, and not yet what is in it."""
        try:
            return self.read()
        except CapabilityError:
            return Reading.of(self.switch, (), self._clock_ns())

    def _queues(self, qos: Qos) -> Iterable[QueueWatermark]:
        from_state = self._options.read_back == "state"
        for port, name in sorted(qos.queues):
            bound = qos.queues[port, name]
            if name not in self._names or not bound.configured or not self._device.wants(port):
                continue
            queue = self._names[name]
            where = f"{self._device.where} {port} queue {queue}"
            used = bound.state if from_state else bound.config
            if used is None:
                if from_state and bound.config is not None:
                    raise CapabilityError(
                        where,
                        f"profile {bound.config} in its config, and none in its state",
                        "what runs is read from the state leaves",
                        "let read_back be config if this switch shows no state there",
                    )
                yield QueueWatermark(port, queue, None)
                continue
            profile = qos.profiles.get(used, model.Profile())
            found = model.marking(profile.state if from_state else profile.config)
            yield QueueWatermark(
                port,
                queue,
                model.watermark_of(found, self._units, in_percent=self._in_percent, where=where),
            )

    def _plan(self, now: _Look, kmin: int, kmax: int, pmax: int) -> Plan:
        """Queues whose profiles are alike but for the marking share a new one."""
        numbers = {queue: name for name, queue in self._names.items()}
        groups: dict[str, list[tuple[str, str]]] = {}
        sources: dict[str, model.Leaves] = {}
        ran: dict[str, dict[str, Any]] = {}
        for queue in now.reading.queues:
            key = (queue.port, numbers[queue.queue])
            bound = now.qos.queues[key].config
            leaves = now.qos.profiles.get(bound or "", model.Profile()).config
            if bound is not None:
                ran[bound] = dict(leaves)
            becomes = model.leaves_for(leaves, kmin, kmax, pmax, in_percent=self._in_percent)
            alike = msgspec.json.encode(becomes, order="deterministic").decode()
            groups.setdefault(alike, []).append(key)
            sources.setdefault(alike, becomes)
        queues, profiles = [], {}
        for alike, keys in groups.items():
            becomes = dict(sources[alike])
            users = (f"{port}/{name}" for port, name in keys)
            own = model.own_name(self._options.profile, users, becomes)
            there = now.qos.profiles.get(own)
            profiles[own] = PlannedProfile(becomes=becomes, was=None if there is None else dict(there.config))
            queues += [
                PlannedQueue(port=port, name=name, bound=now.qos.queues[port, name].config, binds=own)
                for port, name in keys
            ]
        return Plan(queues=queues, profiles=profiles, ran=ran)

    def _put_back(self, plan: Plan, qos: Qos) -> None:
        origin = self._options.origin
        gone = {name: leaves for name, leaves in plan.ran.items() if name not in qos.profiles}
        kept = {name: planned.was for name, planned in plan.profiles.items() if planned.was is not None}
        self._session.set(
            delete=[
                model.binding_path(queue.port, queue.name, origin)
                for queue in plan.queues
                if queue.bound is None
            ],
            replace=[
                (model.profile_path(name, origin=origin), model.profile_entry(name, leaves))
                for name, leaves in (gone | kept).items()
            ],
            update=[
                (model.binding_path(queue.port, queue.name, origin), queue.bound)
                for queue in plan.queues
                if queue.bound is not None
            ],
        )

    def _remove_unused(self, names: Iterable[str]) -> None:
        candidates = list(names)
        if not candidates:
            return
        qos = self._look().qos
        unused = [name for name in candidates if name in qos.profiles and not qos.users(name)]
        unused = [name for name in unused if name not in qos.other_users]
        if unused:
            # What is left over marks nothing, and the switch may have a reason to keep it.
            with suppress(RefusedError):
                self._session.set(
                    delete=[model.profile_path(name, origin=self._options.origin) for name in unused]
                )

    def _check_configured(self, plan: Plan, qos: Qos) -> None:
        stranger = plan.stranger_in(qos)
        if stranger is not None:
            raise ConcurrentEditError(
                self._device.where,
                stranger,
                "since it was staged, only this change may configure these queues and profiles",
                "find out who did; what runs now is the start of the next recommendation",
            )

    def _is_own(self, name: str) -> bool:
        return name.startswith(f"{self._options.profile}-")

    def _nothing_found(self) -> None:
        models = self._session.capabilities().models
        if models and "openconfig-qos" not in models:
            raise CapabilityError(
                self._device.where,
                f"{len(models)} models, and not openconfig-qos among them",
                "the watermark is set through openconfig-qos",
                "name another platform for this switch, or another version of its software",
            )
        raise InventoryError(
            self._device.where,
            f"no configured output queue {', '.join(self._names)}"
            + (f" of {', '.join(self._device.ports)}" if self._device.ports else ""),
            "the queues to set are configured under /qos/interfaces",
            "correct queues, queue_names or ports, or configure QoS on the switch",
        )


def _queue_names(device: Device, options: _Options) -> dict[str, int]:
    given = {str(number): name for number, name in options.queue_names.items()}
    strange = sorted(set(given) - {str(queue) for queue in device.queues})
    if strange:
        raise InventoryError(
            f"{device.where} queue_names",
            strange[0],
            f"it names queues of the inventory: {', '.join(map(str, device.queues))}",
            "correct or drop it",
        )
    names = {given.get(str(queue), str(queue)): queue for queue in device.queues}
    if len(names) != len(set(device.queues)):
        raise InventoryError(
            f"{device.where} queue_names", "one name twice", "queues have different names", "correct one"
        )
    return names


def _units(device: Device) -> tuple[bool, WatermarkUnits]:
    match device.units.thresholds:
        case None | "bytes":
            return False, bytes_units(highest=_HIGHEST_UINT64)
        case "percent":
            return True, percent_units(f"{device.where} units", device.units.buffer_bytes)
        case other:
            raise InventoryError(
                f"{device.where} units.thresholds",
                other,
                "OpenConfig has thresholds in bytes and in percent",
                "give one of the two",
            )
