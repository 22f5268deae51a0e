"""The adapter to a switch of a running lab, over its HTTP control interface.

The lab is another process: it may be slow, away, or a new one that runs other values by now.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import quote

import httpx
import msgspec

from switches.base import Capabilities, QueueWatermark, Reading, StagedChange
from switches.changes import check_nobody_else, left_alone, watermark_diff
from switches.device import Device
from switches.errors import InventoryError, ReadBackError, unreadable
from switches.transport.http import HttpSession
from twin.errors import WatermarkError
from twin.watermark import Watermark


class _Queue(msgspec.Struct, frozen=True):
    port: str
    queue: int
    kmin_bytes: int
    kmax_bytes: int
    pmax: float


class _Switch(msgspec.Struct, frozen=True):
    queues: list[_Queue]


class LabAdapter:
    """One switch of a lab, whose control interface is at the device's ``address``. ``clock_ns`` gives
    wall-clock nanoseconds since 1970.
    """

    def __init__(
        self, device: Device, *, clock_ns: Callable[[], int], transport: httpx.BaseTransport | None = None
    ) -> None:
        if not device.address.startswith("http://"):
            raise InventoryError(
                device.where, None, "a lab is found by its URL", "give push.lab_url, or the address"
            )
        self.switch = device.name
        self._device = device
        self._clock_ns = clock_ns
        self._path = f"/switches/{quote(device.name, safe='')}"
        # No connection outlives its call: the next lab on that port is another process.
        self._session = HttpSession(device, device.address, keep_alive=False, transport=transport)

    def capabilities(self) -> Capabilities:
        return Capabilities(kind="lab", writes=True, read_back="the simulated fabric")

    def read(self) -> Reading:
        answer = self._session.call("GET", self._path)
        try:
            found = answer.json(_Switch)
            queues = [
                QueueWatermark(one.port, one.queue, Watermark(one.kmin_bytes, one.kmax_bytes, one.pmax))
                for one in found.queues
                if self._device.wants(one.port)
            ]
        except (ValueError, WatermarkError) as error:  # msgspec's own are ValueErrors
            raise unreadable(
                self._device.where, error, "a lab answers with the watermark of each queue"
            ) from error
        return Reading.of(self.switch, queues, self._clock_ns())

    def stage(self, watermark: Watermark, change_id: str) -> StagedChange:
        running = self.read()
        return StagedChange(
            id=change_id,
            switch=self.switch,
            asked=watermark,
            after=watermark,
            before=running.queues,
            diff=watermark_diff(self.switch, running.queues, watermark),
        )

    def apply(self, change: StagedChange) -> None:
        now = self.read()
        if change.made_in(now):
            return
        check_nobody_else(change, now, self._device.where)
        self._set(change.after, change.before)

    def verify(self, change: StagedChange) -> Reading:
        found = self.read()
        if not change.made_in(found):
            raise ReadBackError(
                self._device.where,
                str(found.watermark) if found.watermark else "queues that differ",
                f"after applying, every queue must run {change.after}",
                "look whether somebody else sets this lab too",
            )
        return found

    def confirm(self, change: StagedChange) -> None:
        """A lab has no timer."""

    def rollback(self, change: StagedChange) -> None:
        now = self.read()
        if change.undone_in(now):
            return
        left_alone(change, now, self._device.where)
        by_mark: defaultdict[Watermark, list[QueueWatermark]] = defaultdict(list)
        for queue in change.before:
            if queue.watermark is not None:  # every queue of a lab marks
                by_mark[queue.watermark].append(queue)
        for watermark, queues in by_mark.items():
            self._set(watermark, queues)
        if not change.undone_in(self.read()):
            raise ReadBackError(
                self._device.where,
                None,
                "after rolling back, every queue must run what it did before",
                "look whether somebody else sets this lab too",
            )

    def close(self) -> None:
        self._session.close()

    def _set(self, watermark: Watermark, queues: Iterable[QueueWatermark]) -> None:
        body: dict[str, Any] = {
            "kmin_bytes": watermark.kmin_bytes,
            "kmax_bytes": watermark.kmax_bytes,
            "pmax": watermark.pmax,
            "ports": [queue.port for queue in queues],
        }
        self._session.call("PUT", f"{self._path}/watermark", json=body)
