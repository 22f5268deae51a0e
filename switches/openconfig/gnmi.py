"""The adapter to a switch with OpenConfig QoS over gNMI.

The queues of a change get a profile of their own, named after its values, and are bound to it by the same
SetRequest. No profile is ever edited: those of other queues stay as they are, and Kmin never passes Kmax.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import Literal

import msgspec

from switches.adapter import (
    ConfigAdapter,
    Waiting,
    check_apply_allowed,
    check_undo_allowed,
    recorded,
    set_by_others,
    staged,
)
from switches.base import Capabilities, Reading, StagedChange, Wanted
from switches.device import Device, options_of
from switches.errors import CapabilityError, RefusedError
from switches.openconfig import model
from switches.openconfig.model import Qos
from switches.openconfig.queues import OpenConfigQueues, Plan
from switches.transport.gnmi import GnmiOptions, GnmiSession
from switches.transport.gnmi_messages import GnmiPath, tree_of
from switches.units import to_device
from twin.watermark import Watermark

PORT = 9339  # port assigned by IANA to gNMI


class OpenConfigOptions(GnmiOptions, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``queue_names``: the switch's names of queues, by number. ``read_back``: the leaves of a reading.
    ``profile``: the prefix of own profiles' names. ``origin``: of every path.
    """

    queue_names: dict[int | str, str] = msgspec.field(default_factory=dict)
    read_back: Literal["state", "config"] = "state"
    profile: str = "ecntwin"
    origin: str = "openconfig"


@dataclass(frozen=True, slots=True)
class _Look:
    """The response to one Get, and what the queues run."""

    qos: Qos
    reading: Reading


class OpenConfigAdapter(ConfigAdapter):
    def __init__(
        self, device: Device, *, clock_ns: Callable[[], int], waiting: Waiting | None = None
    ) -> None:
        super().__init__(device, clock_ns, waiting)
        self._options = options_of(device, OpenConfigOptions)
        self._queues = OpenConfigQueues.of(
            device,
            self._options.queue_names,
            from_state=self._options.read_back == "state",
            profile=self._options.profile,
        )
        self._session = GnmiSession(device, self._options, default_port=PORT)

    def capabilities(self) -> Capabilities:
        return Capabilities(
            kind="openconfig",
            writes=True,
            units=self._queues.units,
            undo="one Set binds the queues to what they were bound to",
            read_back=self._queues.read_back,
            one_for_all="",
        )

    def read(self) -> Reading:
        return self._look().reading

    def stage(self, watermark: Watermark, change_id: str) -> StagedChange:
        now = self._settled(self._look, lambda now: self._queues.unsettled(now.qos))
        rounded = to_device(watermark, self._queues.units)
        if any(queue.watermark != rounded.watermark for queue in now.reading.queues):
            plan = self._queues.plan(now.qos, now.reading.queues, rounded.device)
        else:
            plan = Plan()
        return staged(change_id, now.reading, watermark, rounded, plan.recorded())

    def apply(self, change: StagedChange) -> None:
        plan, now = self._plan(change), self._look()
        if change.made_in(now.reading) and plan.made_in(now.qos):
            return
        if not plan.shows_in(now.qos):
            check_apply_allowed(change, now.reading, self._device.where)
            self._check_foreign(plan, now.qos)
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

    def confirm(self, change: StagedChange) -> None:
        """Removes own profiles of earlier changes that no queue uses any more."""
        plan = self._plan(change)
        bound_before = {queue.bound for queue in plan.queues if queue.bound is not None}
        self._remove_unused(name for name in sorted(bound_before) if self._queues.is_own(name))

    def rollback(self, change: StagedChange) -> None:
        plan, qos = self._plan(change), self._configured()
        left = plan.left_in(qos)
        # A Set that was not answered may still be on its way: the old bindings go after it.
        if not self._is_undone(change, left, qos) or left.queues:
            self._put_back(left, qos)
            self._check_undone(change, self._seen)
        self._remove_unused(name for name, planned in plan.profiles.items() if planned.was is None)

    def close(self) -> None:
        self._session.close()

    def _is_undone(self, change: StagedChange, left: Plan, qos: Qos) -> bool:
        """Raises ``ConcurrentEditError`` where somebody else has set the queues since."""
        # Hardware may not show yet what a change has configured: only without one is it others' doing.
        with self._queues.shaped(), nullcontext() if left.queues else set_by_others():
            if left.undone_in(qos) and change.undone_in(self._seen(change, qos)):
                return True
            # First what is configured, which tells of others also where a queue runs no watermark.
            self._check_foreign(left, qos)
            if not left.shows_in(qos):
                check_undo_allowed(change, self._seen(change, qos), self._device.where)
        return False

    def _plan(self, change: StagedChange) -> Plan:
        return recorded(change, Plan, self._device.where)

    def _look(self) -> _Look:
        qos = self._configured()
        return _Look(qos, self._running(qos))

    def _seen(self, change: StagedChange, qos: Qos | None = None) -> Reading:
        return self._running(qos or self._configured(), change.its_queues())

    def _configured(self) -> Qos:
        origin = self._options.origin
        paths = [GnmiPath.of(*model.INTERFACES, origin=origin), GnmiPath.of(*model.PROFILES, origin=origin)]
        values = self._session.get(paths)
        with self._queues.shaped():
            return model.parse(tree_of(values, model.LIST_KEYS))

    def _running(self, qos: Qos, wanted: Wanted | None = None) -> Reading:
        with self._queues.shaped():
            reading = self._reading(self._queues.running(qos, wanted))
        if not reading.queues and wanted is None:
            self._nothing_found()
        return reading

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
        qos = self._configured()
        unused = [name for name in candidates if name in qos.profiles and not qos.users(name)]
        unused = [name for name in unused if name not in qos.other_users]
        if unused:
            # Leftover profiles mark nothing, and the switch may have a reason to keep them.
            with suppress(RefusedError):
                self._session.set(
                    delete=[model.profile_path(name, origin=self._options.origin) for name in unused]
                )

    def _check_foreign(self, plan: Plan, qos: Qos) -> None:
        self._check_configured(plan.foreign_change_in(qos), "queues and profiles")

    def _nothing_found(self) -> None:
        models = self._session.models()
        if models and "openconfig-qos" not in models:
            received = f"{len(models)} models, and not openconfig-qos among them"
            rule = "the watermark is set through openconfig-qos"
            remedy = "name another platform for this switch, or another version of its software"
            raise CapabilityError(self._device.where, received, rule, remedy)
        raise self._queues.none_found()
