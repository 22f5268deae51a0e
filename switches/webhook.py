"""The adapter to a server of the operator's that implements docs/switches/webhook.md: two HTTP calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Annotated, Any
from urllib.parse import quote

import httpx
import msgspec

from switches.adapter import QueueAdapter, Waiting, staged
from switches.base import Capabilities, QueueWatermark, Reading, StagedChange, Wanted
from switches.device import Device, options_of
from switches.errors import CapabilityError, RefusedError, unreadable
from switches.transport.http import DeviceAuth, HttpSession, base_url_of
from switches.units import WatermarkUnits, cell_units, percent_units, to_device
from twin.errors import WatermarkError
from twin.watermark import Watermark


class _Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``pmax_steps``: Pmax is held in whole steps of 1 ÷ this."""

    pmax_steps: Annotated[int, msgspec.Meta(ge=1)] = 100


class _Queue(msgspec.Struct, frozen=True):
    port: str
    queue: int
    ecn: bool = True
    kmin_bytes: int | None = None
    kmax_bytes: int | None = None
    pmax: float | None = None


class _Switch(msgspec.Struct, frozen=True):
    queues: list[_Queue]


class WebhookAdapter(QueueAdapter):
    """One switch behind such a server, at the device's ``address``."""

    later = True

    def __init__(
        self,
        device: Device,
        *,
        clock_ns: Callable[[], int],
        transport: httpx.BaseTransport | None = None,
        waiting: Waiting | None = None,
    ) -> None:
        options = options_of(device, _Options)
        super().__init__(device, clock_ns, waiting or Waiting())
        self._units = _units(device, options.pmax_steps)
        self._path = f"/switches/{quote(device.name, safe='')}"
        self._session = HttpSession(
            device, base_url_of(device), auth=DeviceAuth(device), keep_alive=False, transport=transport
        )

    def capabilities(self) -> Capabilities:
        return Capabilities(
            kind="webhook",
            writes=True,
            units=self._units,
            atomic=False,
            read_back="what the server says the switch runs",
            one_for_all="",
        )

    def read(self) -> Reading:
        return self._look(self._device.sets)

    def _look(self, wanted: Wanted) -> Reading:
        answer = self._session.call("GET", self._path)
        try:
            found = answer.json(_Switch).queues
        except ValueError as error:  # msgspec's own are ValueErrors
            raise self._unreadable(str(error)) from error
        found = [one for one in found if wanted(one.port, one.queue)]
        if len({(one.port, one.queue) for one in found}) < len(found):
            raise self._unreadable("a queue is there twice")
        return self._reading([self._running(one) for one in found])

    def stage(self, watermark: Watermark, change_id: str) -> StagedChange:
        running = self.read()
        rounded = to_device(watermark, self._units)
        return staged(change_id, running, watermark, rounded)

    def close(self) -> None:
        self._session.close()

    def _running(self, one: _Queue) -> QueueWatermark:
        if not one.ecn or one.pmax == 0:
            return QueueWatermark(one.port, one.queue, None)
        if one.kmin_bytes is None or one.kmax_bytes is None or one.pmax is None:
            raise self._unreadable(f"{one.port} queue {one.queue} marks, and lacks a value")
        try:
            return QueueWatermark(one.port, one.queue, Watermark(one.kmin_bytes, one.kmax_bytes, one.pmax))
        except WatermarkError as error:
            where = f"{self._device.where} {one.port} queue {one.queue}"
            rule = "what runs is a marking curve, or ecn is false"
            remedy = "set one by hand once; it is changed from here after that"
            raise CapabilityError(where, str(error), rule, remedy) from error

    def _set(self, change_id: str, queues: Iterable[QueueWatermark]) -> None:
        body = {"change_id": change_id, "queues": [_asked(queue) for queue in queues]}
        self._session.call("PUT", f"{self._path}/watermark", json=body)

    def _unreadable(self, said: str) -> RefusedError:
        rule = "a server answers with the watermark of each queue, as docs/switches/webhook.md says"
        return unreadable(self._device.where, said, rule)


def _asked(queue: QueueWatermark) -> dict[str, Any]:
    if queue.watermark is None:
        return {"port": queue.port, "queue": queue.queue, "ecn": False}
    return {
        "port": queue.port,
        "queue": queue.queue,
        "ecn": True,
        "kmin_bytes": queue.watermark.kmin_bytes,
        "kmax_bytes": queue.watermark.kmax_bytes,
        "pmax": queue.watermark.pmax,
    }


def _units(device: Device, pmax_steps: int) -> WatermarkUnits:
    """The unit of the inventory; bytes by default."""
    match device.units.thresholds or "bytes":
        case "bytes":
            return WatermarkUnits(pmax_steps=pmax_steps)
        case "cells":
            return cell_units(device.where, device.units.cell_bytes, lowest=0, pmax_steps=pmax_steps)
        case "percent":
            return replace(percent_units(device.where, device.units.buffer_bytes), pmax_steps=pmax_steps)
        case _:
            raise device.wrong_unit("bytes, cells or percent")
