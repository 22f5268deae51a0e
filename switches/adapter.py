"""What adapters of devices share; ``switches.base.SwitchAdapter`` is their interface."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable

from switches import read_back
from switches.base import QueueWatermark, Reading, StagedChange
from switches.changes import check_apply_allowed, check_undo_allowed
from switches.device import Device
from switches.read_back import Waiting


class DeviceAdapter:
    """One device; with ``waiting`` a change is read back until its ``settle_s`` is over. ``clock_ns`` gives
    wall-clock nanoseconds since 1970.
    """

    def __init__(self, device: Device, clock_ns: Callable[[], int], waiting: Waiting | None = None) -> None:
        self.switch = device.name
        self._device = device
        self._clock_ns = clock_ns
        self._waiting = waiting

    @abstractmethod
    def read(self) -> Reading:
        """What the switch runs."""

    def verify(self, change: StagedChange) -> Reading:
        return read_back.made(change, self.read, self._device, self._waiting)

    def _reading(self, queues: Iterable[QueueWatermark]) -> Reading:
        return Reading.of(self.switch, queues, self._clock_ns())


class QueueAdapter(DeviceAdapter):
    """A device whose queues are set one by one, in one call."""

    @abstractmethod
    def _set(self, change_id: str, queues: Iterable[QueueWatermark]) -> None:
        """Sets these queues."""

    def apply(self, change: StagedChange) -> None:
        now = self.read()
        if change.made_in(now):
            return
        check_apply_allowed(change, now, self._device.where)
        self._set(change.id, [QueueWatermark(one.port, one.queue, change.after) for one in change.before])

    def confirm(self, change: StagedChange) -> None:
        """No timer waits."""

    def rollback(self, change: StagedChange) -> None:
        now = self.read()
        if change.undone_in(now):
            return
        check_undo_allowed(change, now, self._device.where)
        self._set(f"{change.id}/undo", change.before)
        read_back.undone(change, self.read, self._device, self._waiting)
