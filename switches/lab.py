"""The adapter to a switch of a running lab, over its HTTP control interface.

The lab is another process: it may be slow, away, or a new one that runs other values by now.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from urllib.parse import quote

import httpx
import msgspec

from switches.adapter import QueueAdapter, staged
from switches.base import Capabilities, QueueWatermark, Reading, StagedChange, Wanted
from switches.device import Device
from switches.errors import InventoryError, unreadable
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


class LabAdapter(QueueAdapter):
    """One switch of a lab, whose control interface is at the device's ``address``. ``clock_ns`` gives
    wall-clock nanoseconds since 1970.
    """

    def __init__(
        self, device: Device, *, clock_ns: Callable[[], int], transport: httpx.BaseTransport | None = None
    ) -> None:
        if not device.address.startswith("http://"):
            rule = "a lab is found by its URL"
            raise InventoryError(device.where, None, rule, "give push.lab_url, or the address")
        super().__init__(device, clock_ns)
        self._path = f"/switches/{quote(device.name, safe='')}"
        # No connection is kept between calls: the next lab on that port is another process.
        self._session = HttpSession(device, device.address, keep_alive=False, transport=transport)

    def capabilities(self) -> Capabilities:
        return Capabilities(kind="lab", writes=True, read_back="the simulated fabric", one_for_all="")

    def read(self) -> Reading:
        return self._look(lambda port, queue: self._device.wants(port))

    def _look(self, wanted: Wanted) -> Reading:
        answer = self._session.call("GET", self._path)
        try:
            found = answer.json(_Switch)
            queues = [
                QueueWatermark(one.port, one.queue, Watermark(one.kmin_bytes, one.kmax_bytes, one.pmax))
                for one in found.queues
                if wanted(one.port, one.queue)
            ]
        except (ValueError, WatermarkError) as error:  # msgspec's own are ValueErrors
            raise unreadable(
                self._device.where, error, "a lab answers with the watermark of each queue"
            ) from error
        return self._reading(queues)

    def stage(self, watermark: Watermark, change_id: str) -> StagedChange:
        return staged(change_id, self.read(), watermark)

    def close(self) -> None:
        self._session.close()

    def _set(self, change_id: str, queues: Iterable[QueueWatermark]) -> None:
        ports: defaultdict[Watermark, list[str]] = defaultdict(list)
        for queue in queues:
            if queue.watermark is not None:  # every queue of a lab marks packets
                ports[queue.watermark].append(queue.port)
        for mark, names in ports.items():
            body = {"kmin_bytes": mark.kmin_bytes, "kmax_bytes": mark.kmax_bytes, "pmax": mark.pmax}
            self._session.call("PUT", f"{self._path}/watermark", json=body | {"ports": names})
