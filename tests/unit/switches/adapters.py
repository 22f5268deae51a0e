"""Adapters of one switch, made from what differs between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from switches.base import SwitchAdapter
from switches.device import Device

AdapterT = TypeVar("AdapterT", bound=SwitchAdapter)


class Adapters(Generic[AdapterT]):
    """Calling it makes an adapter of a device with ``usual`` and the given fields; ``close`` closes all."""

    def __init__(self, make: Callable[[Device], AdapterT], **usual: Any) -> None:
        self._make = make
        self._usual: dict[str, Any] = {"name": "leaf1", "timeout_s": 60.0, **usual}
        self._made: list[AdapterT] = []

    def __call__(self, **device: Any) -> AdapterT:
        self._made.append(self._make(Device(**{**self._usual, **device})))
        return self._made[-1]

    def close(self) -> None:
        for made in self._made:
            made.close()
