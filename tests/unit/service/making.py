"""Adapters made by a function, in place of an inventory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import cast

from service.switches.adapters import Adapters
from switches.base import SwitchAdapter
from twin.watermark import Watermark


def making(make: Callable[[str, Watermark], SwitchAdapter], names: Iterable[str] = ()) -> Adapters:
    return cast("Adapters", SimpleNamespace(make=make, names=tuple(names)))
