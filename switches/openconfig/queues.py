"""The inventory's queues in OpenConfig's QoS model: what they run, and the plan of a change as its record.

The queues of a change get a profile of their own, named after its values. No profile is ever edited: those of
other queues stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import msgspec

from switches.base import QueueWatermark, Wanted, alike
from switches.device import Device
from switches.errors import CapabilityError, InventoryError, unreadable
from switches.openconfig import model
from switches.openconfig.model import Profile, Qos, marking
from switches.units import DeviceWatermark, WatermarkUnits, percent_units
from twin.watermark import Watermark


class PlannedQueue(msgspec.Struct, frozen=True, kw_only=True):
    """An output queue by port and name: the profile it was bound to (None: to none), and its new one."""

    port: str
    name: str
    bound: str | None
    binds: str


class PlannedProfile(msgspec.Struct, frozen=True, kw_only=True):
    """The new leaves of a profile, and the old; ``was`` None: there was no such profile."""

    becomes: dict[str, Any]
    was: dict[str, Any] | None


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``profiles`` are made, ``queues`` bound to them; ``ran`` are the profiles bound before."""

    queues: list[PlannedQueue] = msgspec.field(default_factory=list)
    profiles: dict[str, PlannedProfile] = msgspec.field(default_factory=dict)
    ran: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Plan:
        """The plan in a staged change's ``undo``."""
        return msgspec.convert(record, cls)

    def recorded(self) -> dict[str, Any]:
        record: dict[str, Any] = msgspec.to_builtins(self)
        return record

    def made_in(self, qos: Qos) -> bool:
        return all(self._made(queue, qos) for queue in self.queues)

    def shows_in(self, qos: Qos) -> bool:
        """Whether this plan is configured and nothing has been configured since, whatever hardware shows."""
        return bool(self.queues) and self.made_in(qos)

    def undone_in(self, qos: Qos) -> bool:
        return all(self._undone(queue, qos) for queue in self.queues)

    def left_in(self, qos: Qos) -> Plan:
        """What is left to take back: queues that are gone are not configured anew, nor are profiles of theirs
        alone.
        """
        queues = [queue for queue in self.queues if _is_there(queue, qos)]
        binds, bound = {queue.binds for queue in queues}, {queue.bound for queue in queues}
        return Plan(
            queues=queues,
            profiles={name: one for name, one in self.profiles.items() if name in binds},
            ran={name: leaves for name, leaves in self.ran.items() if name in bound},
        )

    def foreign_change_in(self, qos: Qos) -> str | None:
        """What others have configured since, neither planned nor as before, as a text; None for nothing."""
        for queue in self.queues:
            if not (self._made(queue, qos) or self._undone(queue, qos)):
                binding = qos.queues.get((queue.port, queue.name))
                bound = "nothing" if binding is None else binding.config or "no profile"
                return f"{queue.port} queue {queue.name} bound to {bound}, which is not as it was"
        for name, leaves in self.ran.items():
            now = qos.profiles.get(name)
            if now is not None and name not in self.profiles and marking(now.config) != marking(leaves):
                return f"profile {name} changed"
        return None

    def _made(self, queue: PlannedQueue, qos: Qos) -> bool:
        planned = self.profiles[queue.binds]
        return self._bound(queue, queue.binds, qos) and (
            marking(_profile(qos, queue.binds).config) == marking(planned.becomes)
        )

    def _undone(self, queue: PlannedQueue, qos: Qos) -> bool:
        if not self._bound(queue, queue.bound, qos):
            return False
        return queue.bound is None or (
            marking(_profile(qos, queue.bound).config) == marking(self.ran[queue.bound])
        )

    def _bound(self, queue: PlannedQueue, profile: str | None, qos: Qos) -> bool:
        binding = qos.queues.get((queue.port, queue.name))
        return binding is not None and binding.config == profile


def _is_there(queue: PlannedQueue, qos: Qos) -> bool:
    binding = qos.queues.get((queue.port, queue.name))
    return binding is not None and binding.configured


def _profile(qos: Qos, name: str) -> Profile:
    return qos.profiles.get(name, Profile())


_HIGHEST_UINT64 = 2**64 - 1
_LARGEST_CELL_BYTES = 256


@dataclass(frozen=True, slots=True)
class OpenConfigQueues:
    """``names`` are queue numbers by the switch's names. ``from_state``: readings are of state leaves, else
    of config. ``profile`` is the prefix of own profiles' names. Hardware keeps thresholds in cells: state
    within ``rounding_bytes`` of config counts as equal.
    """

    device: Device
    names: Mapping[str, int]
    in_percent: bool
    units: WatermarkUnits
    from_state: bool
    profile: str
    rounding_bytes: int

    @classmethod
    def of(
        cls, device: Device, queue_names: Mapping[int | str, str], *, from_state: bool, profile: str
    ) -> OpenConfigQueues:
        """The queues of the inventory. Raises ``InventoryError``."""
        in_percent, units = _units(device)
        cell_bytes = device.units.cell_bytes or _LARGEST_CELL_BYTES
        return cls(
            device, queue_numbers(device, queue_names), in_percent, units, from_state, profile, cell_bytes
        )

    @property
    def read_back(self) -> str:
        """The source of a reading, in a phrase."""
        return "state leaves" if self.from_state else "config leaves: what was asked, not what runs"

    @contextmanager
    def shaped(self) -> Iterator[None]:
        """For what is read of the switch: raises ``RefusedError`` for a ``ValueError``."""
        try:
            yield
        except ValueError as error:
            raise unreadable(self.device.where, error, "it is shaped as openconfig-qos says") from error

    def running(self, qos: Qos, wanted: Wanted | None = None) -> Iterator[QueueWatermark]:
        """What the ``wanted`` queues run; by default those of the inventory.

        Raises ``CapabilityError`` for no watermark, ``ValueError`` for no number.
        """
        wanted = wanted or self.device.sets
        for port, name in sorted(qos.queues):
            bound = qos.queues[port, name]
            if name not in self.names or not bound.configured or not wanted(port, self.names[name]):
                continue
            queue = self.names[name]
            where = f"{self.device.where} {port} queue {queue}"
            used = bound.state if self.from_state else bound.config
            if used is None:
                if self.from_state and bound.config is not None:
                    received = f"profile {bound.config} in its config, and none in its state"
                    remedy = "let read_back be config if this switch shows no state there"
                    raise CapabilityError(where, received, "what runs is read from the state leaves", remedy)
                yield QueueWatermark(port, queue, None)
                continue
            profile = qos.profiles.get(used, model.Profile())
            running = self._meant(profile.state if self.from_state else profile.config, where)
            if self.from_state and used == bound.config:
                with suppress(CapabilityError):  # a leaf that is not configured may run at a default
                    asked = self._meant(profile.config, where)
                    running = asked if alike(running, asked, self.rounding_bytes) else running
            yield QueueWatermark(port, queue, running)

    def unsettled(self, qos: Qos) -> str | None:
        """A queue whose state differs from its config, as a text; None: there is none.

        An undo restores config: a change that starts from other state could not be undone to it.
        """
        if not self.from_state:
            return None
        for port, name in sorted(qos.queues):
            bound = qos.queues[port, name]
            if name not in self.names or not bound.configured or not self.device.wants(port):
                continue
            said = f"{port} queue {self.names[name]}"
            if bound.config != bound.state:
                return f"{said} bound to {bound.config or 'nothing'}, and running {bound.state or 'nothing'}"
            profile = qos.profiles.get(bound.config or "", model.Profile())
            with suppress(CapabilityError):  # a leaf that is not configured may run at a default
                asked, running = (self._meant(leaves, said) for leaves in (profile.config, profile.state))
                if not alike(running, asked, self.rounding_bytes):
                    return f"{said} configured for {asked or 'no marking'}, and running {running or 'none'}"
        return None

    def plan(self, qos: Qos, queues: Sequence[QueueWatermark], wanted: DeviceWatermark) -> Plan:
        """Queues whose profiles differ only in the marking share a new profile."""
        names = {queue: name for name, queue in self.names.items()}
        groups: dict[str, list[tuple[str, str]]] = {}
        sources: dict[str, model.Leaves] = {}
        ran: dict[str, dict[str, Any]] = {}
        for queue in queues:
            key = (queue.port, names[queue.queue])
            bound = qos.queues[key].config
            leaves = qos.profiles.get(bound or "", model.Profile()).config
            if bound is not None:
                ran[bound] = dict(leaves)
            becomes = model.leaves_for(
                leaves, wanted.kmin, wanted.kmax, wanted.pmax, in_percent=self.in_percent
            )
            alike = msgspec.json.encode(becomes, order="deterministic").decode()
            groups.setdefault(alike, []).append(key)
            sources.setdefault(alike, becomes)
        planned, profiles = [], {}
        for alike, keys in groups.items():
            becomes = dict(sources[alike])
            users = (f"{port}/{name}" for port, name in keys)
            own = model.own_name(self.profile, users, becomes)
            there = qos.profiles.get(own)
            profiles[own] = PlannedProfile(becomes=becomes, was=None if there is None else dict(there.config))
            planned += [
                PlannedQueue(port=port, name=name, bound=qos.queues[port, name].config, binds=own)
                for port, name in keys
            ]
        return Plan(queues=planned, profiles=profiles, ran=ran)

    def _meant(self, leaves: model.Leaves, where: str) -> Watermark | None:
        return model.watermark_of(model.marking(leaves), self.units, in_percent=self.in_percent, where=where)

    def is_own(self, profile: str) -> bool:
        """Whether a profile was made by a change."""
        return profile.startswith(f"{self.profile}-")

    def none_found(self) -> InventoryError:
        return InventoryError(
            self.device.where,
            f"no configured output queue {', '.join(self.names)}"
            + (f" of {', '.join(self.device.ports)}" if self.device.ports else ""),
            "the queues to set are configured under /qos/interfaces",
            "correct queues, queue_names or ports, or configure QoS on the switch",
        )


def queue_numbers(device: Device, queue_names: Mapping[int | str, str]) -> dict[str, int]:
    """The device's queues by the switch's names for them. Raises ``InventoryError``."""
    given = {str(number): name for number, name in queue_names.items()}
    strange = sorted(set(given) - {str(queue) for queue in device.queues})
    if strange:
        rule = f"it names queues of the inventory: {', '.join(map(str, device.queues))}"
        raise InventoryError(f"{device.where} queue_names", strange[0], rule, "correct or drop it")
    names = {given.get(str(queue), str(queue)): queue for queue in device.queues}
    if len(names) != len(set(device.queues)):
        rule = "queues have different names"
        raise InventoryError(f"{device.where} queue_names", None, rule, "correct one")
    return names


def _units(device: Device) -> tuple[bool, WatermarkUnits]:
    match device.units.thresholds:
        case None | "bytes":
            return False, WatermarkUnits(highest=_HIGHEST_UINT64)
        case "percent":
            return True, percent_units(f"{device.where} units", device.units.buffer_bytes)
        case _:
            raise device.wrong_unit("bytes or percent")
