"""What the two SONiC adapters share; they differ in how they reach CONFIG_DB and ASIC_DB.

CONFIG_DB is what is asked for, ASIC_DB what runs. A change is one transaction that sets WRED_PROFILE and
``wred_profile`` of QUEUE only, whole or not at all.

By default a change makes a profile of its own and binds the queues to it. orchagent sets the attributes of a
profile one after the other, so a profile edited in place shows hardware a mix for a moment (in an order that
keeps Kmin below Kmax only since sonic-swss pull request 2379), and it is shared by every queue bound to it. A
new profile is one create call, and binding a queue is one attribute: no queue ever runs a mix, on any image.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import ClassVar, NamedTuple, TypeAlias

import msgspec

from switches.adapter import DeviceAdapter, Waiting, shortened, staged
from switches.base import Capabilities, Reading, StagedChange, Wanted
from switches.device import Device
from switches.errors import CapabilityError, ConcurrentEditError, ReadBackError
from switches.lossless import LosslessReading
from switches.sonic.databases import (
    FIELD,
    PROFILE,
    Config,
    Hardware,
    Setting,
    check_alone,
    profile_named,
    written_as,
)
from switches.sonic.lossless import Tables, sonic_ports
from switches.sonic.wred_profile import UNITS, check_known, own_name, own_prefix, watermark_in, with_watermark
from switches.units import Rounded, to_device
from twin.watermark import Watermark


class Plan(msgspec.Struct, frozen=True):
    """The rows of a change before and after; a staged change's ``undo``."""

    before: Setting
    after: Setting

    @property
    def made(self) -> list[str]:
        return [name for name in self.after.profiles if name not in self.before.profiles]

    def left_in(self, config: Config, where: str) -> Plan:
        """What is left to take back: rows of QUEUE that went with their port are not written anew, nor are
        profiles of theirs alone. One that was edited in place, and by nobody since, is left whoever has it.

        ``config`` is read for the queues of the change. Raises ``ConcurrentEditError`` where one of them has
        another row by now.
        """
        for binding in config.bindings:
            if binding.key not in self.before.bound:
                raise _foreign(where, f"{binding.key}, which was not there")

        edited = {
            name
            for name in self.before.profiles.keys() & self.after.profiles.keys() & config.profiles.keys()
            if _explained(config.profiles[name], (self.before.profiles[name], self.after.profiles[name]))
        }

        def left(setting: Setting) -> Setting:
            bound = {key: name for key, name in setting.bound.items() if key in config.queues}
            names = edited | {profile_named(name) for name in bound.values()}
            return Setting(bound, {name: row for name, row in setting.profiles.items() if name in names})

        return Plan(left(self.before), left(self.after))


def planned(device: Device, config: Config, rounded: Rounded, *, own_profile: bool) -> Plan:
    """Raises ``CapabilityError`` where queues outside the inventory would change too."""
    names = {profile_named(binding.bound) or "" for binding in config.bindings}
    before = Setting(
        {binding.key: binding.bound for binding in config.bindings},
        {name: dict(config.profiles[name]) for name in sorted(names) if name in config.profiles},
    )
    for name, row in before.profiles.items():
        check_known(name, row, device.where)
    if own_profile:
        return Plan(before, _rebound(device, config, before, rounded))
    return Plan(before, _edited(device, config, before, rounded))


def _rebound(device: Device, config: Config, before: Setting, rounded: Rounded) -> Setting:
    check_alone(device, config.bindings)
    prefix = own_prefix(device.queues, device.ports)
    written = next((bound for bound in before.bound.values() if bound), None)
    bound, profiles = dict(before.bound), {}
    for key, was in before.bound.items():
        row = before.profiles.get(profile_named(was) or "", {})
        if watermark_in(row, f"{device.where} {key}") == rounded.watermark:
            continue
        made = with_watermark(row, rounded.device)
        attempt = 0
        while config.profiles.get(name := own_name(prefix, made, attempt), made) != made:
            attempt += 1  # somebody has edited that profile by hand
        profiles[name] = made
        bound[key] = written_as(was or written, name)
    return Setting(bound, profiles)


def _edited(device: Device, config: Config, before: Setting, rounded: Rounded) -> Setting:
    for key, was in before.bound.items():
        if profile_named(was) not in before.profiles:
            rule = "with own_profile: false the profile that a queue is bound to is edited"
            remedy = "bind one on the switch, or drop own_profile"
            raise CapabilityError(device.where, f"{key}, which is bound to no profile", rule, remedy)
    mine = {queue for binding in config.bindings for queue in binding.queues}
    check_alone(device, config.bindings)
    for name in before.profiles:
        others = [key for key in config.referring(name) if key not in before.bound]
        if others:
            received = f"WRED_PROFILE|{name}, to which {shortened(others)} are bound too"
            rule = f"an edited profile changes for every queue bound to it, and {len(mine)} are to be set"
            remedy = "drop own_profile: false, or add those queues and ports to the inventory"
            raise CapabilityError(device.where, received, rule, remedy)
    edited = {name: with_watermark(row, rounded.device) for name, row in before.profiles.items()}
    for name, row in edited.items():
        added = sorted(set(row) - set(before.profiles[name]))
        if added:
            raise CapabilityError(
                device.where,
                f"WRED_PROFILE|{name} without {added[0]}",
                "an edit in place adds no field: hardware would keep its value when the field is gone again",
                f"drop own_profile: false, or write {added[0]} into the profile on the switch",
            )
    return Setting(dict(before.bound), edited)


def check_rows(plan: Plan, config: Config, where: str) -> None:
    """Raises ``ConcurrentEditError`` where a row is neither as before nor as after."""
    for key in plan.before.bound:
        now = config.queues.get(key, {}).get(FIELD)
        if now not in (plan.before.bound[key], plan.after.bound[key]):
            raise _foreign(where, f"{key} bound to {now or 'no profile'}")
    for name in {**plan.before.profiles, **plan.after.profiles}:
        row = config.profiles.get(name)
        if row is None:
            continue  # made in the same transaction as the binding
        known = [setting.profiles[name] for setting in (plan.before, plan.after) if name in setting.profiles]
        if not _explained(row, known):
            raise _foreign(where, f"{PROFILE}{name} with other values")


def _explained(row: Mapping[str, str], known: Iterable[Mapping[str, str]]) -> bool:
    return all(any(of.get(field) == value for of in known) for field, value in row.items())


def _foreign(where: str, found: str) -> ConcurrentEditError:
    rule = "since the change was staged, only it may set these rows"
    remedy = "find out who set them; stage again, or put the old values back by hand"
    return ConcurrentEditError(where, found, rule, remedy)


Look: TypeAlias = "Callable[[Wanted | None], tuple[Config, Hardware]]"
"""A look at the wanted queues, as ``bindings_of`` has it."""


class Found(NamedTuple):
    """CONFIG_DB, what it asks for, and what runs."""

    config: Config
    asked: Reading
    running: Reading


class SonicBase(DeviceAdapter):
    """One SONiC switch; ``own_profile``: its queues get a profile of their own, named after its values."""

    kind: ClassVar[str]
    unseen_remedy: ClassVar[str]
    differs_remedy: ClassVar[str]

    def __init__(
        self,
        device: Device,
        *,
        clock_ns: Callable[[], int],
        own_profile: bool,
        waiting: Waiting | None = None,
    ) -> None:
        super().__init__(device, clock_ns, waiting)
        self._own_profile = own_profile

    @abstractmethod
    def _connected(self) -> AbstractContextManager[Look]:
        """An open connection for the time of a call: CONFIG_DB and the hardware, of the wanted queues."""

    def capabilities(self) -> Capabilities:
        own = self._own_profile
        return Capabilities(
            kind=self.kind,
            writes=True,
            per="queue" if own else "profile",
            units=UNITS,
            atomic=own,
            undo="the queues are bound to their old profile" if own else "the profile is edited back",
            read_back="ASIC_DB",
            one_for_all=""
            if own
            else "with own_profile: false every port bound to a profile runs what it holds",
        )

    def read(self) -> Reading:
        with self._connected() as look:
            return self._found(look, lambda asked, running: True, self._device.timeout_s).running

    def _lossless(self, config: Tables, buffers: Tables) -> LosslessReading:
        ports = sonic_ports(config, buffers, self._device.wants)
        return LosslessReading(self.switch, self._clock_ns(), ports)

    def stage(self, watermark: Watermark, change_id: str) -> StagedChange:
        rounded = to_device(watermark, UNITS)
        with self._connected() as look:
            now = self._found(
                look, lambda asked, running: asked.queues == running.queues, self._device.timeout_s
            )
        if now.asked.queues != now.running.queues:
            raise self._differs(now, "hardware runs what CONFIG_DB asks for before it is changed")
        plan = self._plan(now.config, rounded)
        return staged(change_id, now.running, watermark, rounded, msgspec.to_builtins(plan))

    def verify(self, change: StagedChange) -> Reading:
        with self._connected() as look:
            now = self._found(
                look,
                lambda asked, running: change.made_in(running) or not change.made_in(asked),
                self._device.settle_s,
            )
        if not change.made_in(now.running):
            raise self._differs(now, f"after applying, every queue must run {change.after}")
        return now.running

    def _plan(self, config: Config, rounded: Rounded) -> Plan:
        return planned(self._device, config, rounded, own_profile=self._own_profile)

    def _undone(self, look: Look, change: StagedChange) -> Config:
        """CONFIG_DB once hardware runs what it did before; raises ``ReadBackError``."""
        now = self._found(
            look,
            lambda asked, running: change.undone_in(running) or not change.undone_in(asked),
            self._device.settle_s,
            change.its_queues(),
        )
        if not change.undone_in(now.running):
            raise self._differs(now, "after rolling back, every queue must run what it did before")
        return now.config

    def _asked(self, config: Config) -> Reading:
        return self._reading(config.asked(self._device))

    def _spare(self, config: Config, hardware: Hardware, asked: Reading, plan: Plan) -> list[str]:
        """Own profiles that can go: no queue uses them, in CONFIG_DB nor in hardware."""
        if hardware.queues != asked.queues or hardware.unconfirmed:
            # orchagent keeps a profile that is deleted while a queue uses it, and then refuses to create it
            # again.
            return []
        kept = [*plan.before.profiles, *plan.after.profiles]
        return config.spare(own_prefix(self._device.queues, self._device.ports), keeping=kept)

    def _found(
        self,
        look: Look,
        enough: Callable[[Reading, Reading], bool],
        patience_s: float,
        wanted: Wanted | None = None,
    ) -> Found:
        """Reads until ``enough`` of what is asked and what runs, at the latest after ``patience_s``.

        Raises ``ReadBackError`` where what runs is unknown by then.
        """
        for _ in self._waiting.until(patience_s):
            config, hardware = look(wanted)
            asked, running = self._asked(config), self._reading(hardware.queues)
            if not hardware.unconfirmed and enough(asked, running):
                break
        if hardware.unconfirmed:
            queue = hardware.unconfirmed[0]
            where = f"{self._device.where} {queue.port} queue {queue.queue}"
            received = f"{queue.watermark} in CONFIG_DB, and no such values in ASIC_DB"
            raise ReadBackError(where, received, "what a queue runs is read from ASIC_DB", self.unseen_remedy)
        return Found(config, asked, running)

    def _differs(self, now: Found, rule: str) -> ReadBackError:
        wanted = {(queue.port, queue.queue): queue.watermark for queue in now.asked.queues}
        other = [queue for queue in now.running.queues if queue.watermark != wanted[queue.port, queue.queue]]
        if not other:
            received = f"{now.running.watermark or 'queues that differ'}, as CONFIG_DB asks"
            return ReadBackError(self._device.where, received, rule, "find out who else sets this switch")
        first = other[0]
        return ReadBackError(
            self._device.where,
            f"{first.watermark or 'no marking'} on {first.port} queue {first.queue}"
            + (f" and {len(other) - 1} more" if len(other) > 1 else "")
            + f" where CONFIG_DB asks for {wanted[first.port, first.queue] or 'no marking'}",
            rule,
            self.differs_remedy,
        )
