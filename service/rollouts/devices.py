"""What the members of a rollout are: each kind of device is staged, set, read back and undone in its own way.

The runner knows members by name, and asks here. Another kind of member is another class of this interface.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Protocol, TypeVar

from nics.base import Reading as NicsReading
from nics.base import StagedChange as NicsChange
from nics.parameters import values_text
from rollout.plan import RoleTarget, RolloutPlan, Target
from rollout.state import Change, Confirm, MemberAction, MemberProgress, Progress, Verify
from service.nics.polling import NicPolling
from service.switches.fleet import Fleet, StillWanted
from switches.base import Reading, StagedChange, SwitchAdapter, alike
from switches.by_role import ByRoleAdapter, part_id
from switches.errors import ConcurrentEditError, InventoryError, ReadBackError, SwitchError
from switches.hashing.values import StagedHash
from twin.search.push_gate import within_step
from twin.watermark import Watermark

STEP_SLACK = 1e-6  # allows for rounding at exactly the limit

MemberReading = Reading | NicsReading

T = TypeVar("T")


class Room:
    """Room for ``at_once`` steps. Read-backs and confirmations of what was set do not queue behind further
    sets: until it is confirmed, a device's own timer may take a change back.
    """

    def __init__(self, at_once: int) -> None:
        self._setting, self._ending = asyncio.Semaphore(at_once), asyncio.Semaphore(at_once)

    def of(self, action: MemberAction) -> asyncio.Semaphore:
        return self._ending if isinstance(action, Verify | Confirm) else self._setting


class Devices(Protocol):
    """The members of one kind. Steps have exclusive use of a member's adapter, and raise what it raises and
    ``OvertakenError`` where they are not ``still`` wanted once it is free. ``room`` is for as many steps as
    may run at a time; ``noun`` names a member in sentences, ``allowed_by`` the settings that let it be
    written.
    """

    noun: str
    allowed_by: str
    room: Room

    def writes(self, name: str) -> bool:
        """Whether the settings allow the device to be written now."""

    async def stage(self, name: str, target: Target, plan: RolloutPlan, still: StillWanted) -> Change: ...

    async def apply(self, change: Change, plan: RolloutPlan, still: StillWanted) -> None: ...

    async def verify(self, change: Change, plan: RolloutPlan, still: StillWanted) -> Watermark | None:
        """Reads back; the watermark that a switch runs, None for others."""

    async def confirm(self, change: Change, plan: RolloutPlan, still: StillWanted) -> None: ...

    async def undo(self, change: Change, plan: RolloutPlan, still: StillWanted) -> None: ...


class SwitchDevices:
    """Switches of the fleet. One that is not written has an adapter that only records."""

    noun = "switch"
    allowed_by = "push.enabled"

    def __init__(self, fleet: Fleet, at_once: int) -> None:
        self._fleet = fleet
        self.room = Room(at_once)

    def writes(self, name: str) -> bool:
        return self._fleet.writes(name)

    async def stage(self, name: str, target: Target, plan: RolloutPlan, still: StillWanted) -> Change:
        assert isinstance(target, Watermark)
        if name in plan.by_role:
            own = self._own(name, plan)
            marks = {role: one.watermark for role, one in plan.by_role[name].items()}
            change = await self._step(name, plan, lambda _: own.stage_by_role(marks, target, plan.id), still)
        else:
            change = await self._step(name, plan, lambda adapter: adapter.stage(target, plan.id), still)
        if name in plan.written:
            _check_not_changed_elsewhere(change, self._fleet.set_to(name))
            _check_roles_not_changed_elsewhere(change, self._fleet.set_watermarks.by_role(name))
            for part in change.parts or (change,):
                _check_step(part, plan.limits.max_step)
        return change

    async def apply(self, change: Change, plan: RolloutPlan, still: StillWanted) -> None:
        assert isinstance(change, StagedChange)
        await self._tell(change, plan, lambda adapter: adapter.apply(change), still)

    async def verify(self, change: Change, plan: RolloutPlan, still: StillWanted) -> Watermark | None:
        assert isinstance(change, StagedChange)
        reading = await self._tell(change, plan, lambda adapter: adapter.verify(change), still)
        if reading is None:
            return change.after
        if self._fleet.writes(change.switch):
            self._fleet.note(reading)
        return reading.usual or change.after

    async def confirm(self, change: Change, plan: RolloutPlan, still: StillWanted) -> None:
        assert isinstance(change, StagedChange)
        await self._tell(change, plan, lambda adapter: _confirm(adapter, change), still)

    async def undo(self, change: Change, plan: RolloutPlan, still: StillWanted) -> None:
        assert isinstance(change, StagedChange)
        if change.switch in plan.written:
            self._fleet.set_watermarks.put(change.switch, None)  # half of a change is no drift
        if change.parts and change.switch in plan.written:
            own = self._own_of(change, plan)
            await self._fleet.step(change.switch, lambda _: own.rollback(change), still=still)
        else:
            await self._tell(change, plan, lambda adapter: adapter.rollback(change), still)
        await self._fleet.refresh([change.switch], from_now=True)

    async def _tell(
        self, change: StagedChange, plan: RolloutPlan, step: Callable[[SwitchAdapter], T], still: StillWanted
    ) -> T | None:
        """Runs a step that may write; None, and nothing is done, in a dry run where it would by now."""
        if change.switch not in plan.written and self._fleet.writes(change.switch):
            return None
        return await self._step(change.switch, plan, step, still)

    def _own_of(self, change: StagedChange, plan: RolloutPlan) -> ByRoleAdapter:
        """For an undo: the adapter by the roles that were set, also those of which the inventory has no port
        any more.
        """
        with suppress(InventoryError):  # it has no port of any role
            if (own := self._own(change.switch, plan)).is_of(change):
                return own  # it may hold the session of a commit that waits
        made, roles = {part.id for part in change.parts}, plan.by_role[change.switch]
        ports = {role: one.ports for role, one in roles.items() if part_id(change.id, role) in made}
        return self._fleet.of_roles(change.switch, ports, undo=True)

    def _own(self, name: str, plan: RolloutPlan) -> ByRoleAdapter:
        ports = {role: target.ports for role, target in plan.by_role[name].items()}
        return self._fleet.of_roles(name, ports)

    async def _step(
        self, name: str, plan: RolloutPlan, step: Callable[[SwitchAdapter], T], still: StillWanted
    ) -> T:
        """Runs a step on a switch, by its ports' roles where the plan sets them so; a dry run is recorded
        where its document shows it.
        """
        if name not in plan.by_role or name not in plan.written:
            return await self._fleet.step(name, step, still=still)
        own = self._own(name, plan)
        return await self._fleet.step(name, lambda _: step(own), still=still)


class HostDevices:
    """The NICs of hosts. Those of a host that is not written are read and staged, and nothing is set."""

    noun = "host"
    allowed_by = "push.enabled and push.nics"

    def __init__(self, nics: NicPolling, at_once: int) -> None:
        self._nics = nics
        self.room = Room(at_once)

    def writes(self, name: str) -> bool:
        return self._nics.writes(name)

    async def stage(self, name: str, target: Target, plan: RolloutPlan, still: StillWanted) -> Change:
        assert not isinstance(target, Watermark | str)
        return await self._nics.step(name, lambda adapter: adapter.stage(target, plan.id), still=still)

    async def apply(self, change: Change, plan: RolloutPlan, still: StillWanted) -> None:
        assert isinstance(change, NicsChange)
        if change.host in plan.written:
            await self._nics.step(change.host, lambda adapter: adapter.apply(change), still=still)

    async def verify(self, change: Change, plan: RolloutPlan, still: StillWanted) -> Watermark | None:
        assert isinstance(change, NicsChange)
        if change.host in plan.written:
            reading = await self._nics.step(change.host, lambda adapter: adapter.verify(change), still=still)
            self._nics.note(reading)
        return None

    async def confirm(self, change: Change, plan: RolloutPlan, still: StillWanted) -> None:
        """NICs have no timer that takes a change back."""

    async def undo(self, change: Change, plan: RolloutPlan, still: StillWanted) -> None:
        assert isinstance(change, NicsChange)
        if change.host in plan.written:
            await self._nics.step(change.host, lambda adapter: adapter.rollback(change), still=still)
            await self._nics.read(change.host)


class HashDevices:
    """What switches hash by. That of a switch that is not written is read and staged, and nothing is set."""

    noun = "switch"
    allowed_by = "push.enabled"

    def __init__(self, fleet: Fleet, at_once: int) -> None:
        self._fleet = fleet
        self.room = Room(at_once)

    def writes(self, name: str) -> bool:
        return self._fleet.writes(name)

    async def stage(self, name: str, target: Target, plan: RolloutPlan, still: StillWanted) -> Change:
        assert isinstance(target, str)
        return await self._fleet.hash_step(name, lambda adapter: adapter.stage(target, plan.id), still=still)

    async def apply(self, change: Change, plan: RolloutPlan, still: StillWanted) -> None:
        assert isinstance(change, StagedHash)
        if change.switch in plan.written:
            await self._fleet.hash_step(change.switch, lambda adapter: adapter.apply(change), still=still)

    async def verify(self, change: Change, plan: RolloutPlan, still: StillWanted) -> Watermark | None:
        assert isinstance(change, StagedHash)
        if change.switch in plan.written:
            await self._fleet.hash_step(change.switch, lambda adapter: adapter.verify(change), still=still)
        return None

    async def confirm(self, change: Change, plan: RolloutPlan, still: StillWanted) -> None:
        """No platform has a timer that takes it back."""

    async def undo(self, change: Change, plan: RolloutPlan, still: StillWanted) -> None:
        assert isinstance(change, StagedHash)
        if change.switch in plan.written:
            await self._fleet.hash_step(change.switch, lambda adapter: adapter.rollback(change), still=still)


def differing(change: Change, reading: MemberReading) -> ReadBackError | None:
    """The error of a member that was set and now runs something else; None where it runs its change."""
    if isinstance(change, StagedHash):
        return None  # readings are of watermarks and NICs
    if isinstance(change, NicsChange):
        if not isinstance(reading, NicsReading) or change.made_in(reading):
            return None
        where, runs = f"host {change.host!r}", change.difference(reading)
        wanted = values_text(change.after)
    else:
        if not isinstance(reading, Reading) or change.made_in(reading):
            return None
        where, runs = f"switch {change.switch!r}", str(reading.usual or "queues that differ, or do not mark")
        wanted = str(change.after)
    return ReadBackError(
        where,
        runs,
        f"what a rollout has set ({wanted}) runs until the rollout has ended",
        f"check whether something else sets this {where.split()[0]}, or whether it has restarted",
    )


def left_on(one: MemberProgress) -> str:
    """What a member may run whose undo is given up, in a phrase."""
    match one.change:
        case None:
            raise ValueError("a member that was touched has a change")
        case StagedChange(parts=(_, *_) as parts):
            made = ", ".join(dict.fromkeys(str(part.after) for part in parts)) + " by port role"
        case NicsChange(after=values):
            made = values_text(values)
        case change:
            made = str(change.after)
    known = {
        Progress.APPLYING: f"it may run {made}, as a call to set that was not answered",
        Progress.APPLIED: f"it took {made}, which was not read back",
    }.get(one.progress, f"it was last read to run {made}")
    return f"{known}; whether it still does, or runs what it did before, is not known. Its undo: {one.detail}"


def _confirm(adapter: SwitchAdapter, change: StagedChange) -> None:
    adapter.confirm(change)
    if adapter.capabilities().dead_man:
        # If the device's own timer has run out, it has reverted the change.
        adapter.verify(change)


def _check_not_changed_elsewhere(change: StagedChange, wanted: Watermark | None) -> None:
    """Checks that the switch still runs what the approval was based on: staging reads it anew."""
    if wanted is not None and not alike(change.ran, wanted):
        raise ConcurrentEditError(
            f"switch {change.switch!r}",
            str(change.ran or "queues that differ"),
            f"it must run what was last set from here ({wanted}); it was set elsewhere",
            f"look at /v1/switches/{change.switch}, and POST its /adopt if that is as it should be",
        )


def _check_roles_not_changed_elsewhere(change: StagedChange, roles: Mapping[str, RoleTarget]) -> None:
    """As the check of a switch, where it was last set by role; a queue without a port's name is not told."""
    wanted = {port: target.watermark for target in roles.values() for port in target.ports}
    for queue in change.before:
        if not alike(queue.watermark, wanted.get(queue.port, queue.watermark)):
            _check_not_changed_elsewhere(replace(change, before=(queue,), parts=()), wanted[queue.port])


def _check_step(change: StagedChange, max_step: float | None) -> None:
    """No queue may change by more than one step, whatever the plan assumed it runs."""
    if max_step is None:
        return
    for queue in change.before:
        if queue.watermark is None:
            continue
        if within_step(queue.watermark, change.asked, max_step * (1 + STEP_SLACK)) != change.asked:
            raise SwitchError(
                f"switch {change.switch!r} {queue.port} queue {queue.queue}",
                f"a change from {queue.watermark} to {change.asked}",
                f"one change moves no value by more than the factor {max_step:g} (tuning.max_step)",
                "wait for the next round, which knows what it runs; where its queues differ, set them alike",
            )
