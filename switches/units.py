"""Conversion of watermarks to and from the units of platforms.

A value that a platform cannot hold is rounded toward safety: thresholds down and the marking probability up,
so that senders are notified earlier, never later.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from switches.errors import CapabilityError, InventoryError
from twin.watermark import Watermark

HIGHEST_INT32 = 2**31 - 1
_TINY = 1e-9  # 0.07 × 100 is 7.000000000000001


@dataclass(frozen=True, slots=True, kw_only=True)
class WatermarkUnits:
    """Thresholds are whole numbers of ``unit_bytes`` from ``lowest`` to ``highest``; Pmax is a whole number
    of 1 ÷ ``pmax_steps``. ``name`` is the unit in messages.
    """

    name: str = "bytes"
    unit_bytes: Fraction = Fraction(1)
    lowest: int = 0
    highest: int = HIGHEST_INT32
    pmax_steps: int = 100


@dataclass(frozen=True, slots=True)
class DeviceWatermark:
    """Thresholds in the unit of a platform, Pmax in its steps."""

    kmin: int
    kmax: int
    pmax: int


@dataclass(frozen=True, slots=True)
class Rounded:
    """A watermark as the device can hold it: in its units, in bytes, and the differences in sentences."""

    device: DeviceWatermark
    watermark: Watermark
    notes: tuple[str, ...]


def to_device(watermark: Watermark, units: WatermarkUnits) -> Rounded:
    """The nearest safe values of the platform.

    Thresholds go down to a whole unit and to the highest; below the lowest they can only go up. Kmin stays
    below Kmax by at least a unit. Raises ``CapabilityError`` where no such pair exists.
    """
    kmin = _whole(watermark.kmin_bytes, units)
    kmax = _whole(watermark.kmax_bytes, units)
    kmax = max(kmax, units.lowest + 1)
    kmin = min(kmin, kmax - 1)
    if not units.lowest <= kmin < kmax <= units.highest:
        rule = f"the switch holds thresholds of {units.lowest} to {units.highest} {units.name}"
        raise CapabilityError("watermark", str(watermark), rule, "choose a watermark between them")
    pmax = min(max(math.ceil(watermark.pmax * units.pmax_steps - _TINY), 1), units.pmax_steps)
    device = DeviceWatermark(kmin, kmax, pmax)
    held = from_device(device, units)
    return Rounded(device, held, _notes(watermark, held, units))


def from_device(
    device: DeviceWatermark, units: WatermarkUnits, where: str = "watermark on the switch"
) -> Watermark:
    """A device's values in bytes; ``to_device`` of it gives the same device values.

    Kmin = Kmax, a step, becomes Kmin one byte below. Raises ``CapabilityError`` for values that are no
    marking curve (Kmin above Kmax, Pmax 0 or above 1).
    """
    kmin = math.ceil(device.kmin * units.unit_bytes)  # a multiple of the unit may lie between two bytes
    kmax = math.ceil(device.kmax * units.unit_bytes)
    if device.kmin > device.kmax or not 0 < device.pmax <= units.pmax_steps or kmax < 1:
        raise CapabilityError(
            where,
            f"thresholds {device.kmin} and {device.kmax} {units.name}, Pmax {device.pmax}/{units.pmax_steps}",
            "Kmin is at most Kmax, and Pmax above 0 and at most 1",
            "set one by hand once; it is changed from here after that",
        )
    return Watermark(min(kmin, kmax - 1), kmax, device.pmax / units.pmax_steps)


def cell_units(
    where: str, cell_bytes: int | None, *, name: str = "cells", lowest: int = 1, pmax_steps: int = 100
) -> WatermarkUnits:
    """Thresholds in cells or segments of the size in the inventory; raises ``InventoryError``."""
    if cell_bytes is None or cell_bytes < 1:
        received = "none" if cell_bytes is None else str(cell_bytes)
        rule = f"thresholds in {name} need the size of one"
        raise InventoryError(f"{where} cell_bytes", received, rule, "give cell_bytes, such as 208")
    return WatermarkUnits(name=name, unit_bytes=Fraction(cell_bytes), lowest=lowest, pmax_steps=pmax_steps)


def percent_units(where: str, buffer_bytes: int | None) -> WatermarkUnits:
    """Thresholds in percent of the queue's buffer in the inventory; raises ``InventoryError``."""
    if buffer_bytes is None or buffer_bytes < 1:
        received = "none" if buffer_bytes is None else str(buffer_bytes)
        rule = "thresholds in percent need the size of the queue's buffer"
        remedy = "give buffer_bytes, as the switch shows it"
        raise InventoryError(f"{where} buffer_bytes", received, rule, remedy)
    return WatermarkUnits(name="percent", unit_bytes=Fraction(buffer_bytes, 100), lowest=0, highest=100)


def named_unit_bytes(where: str, name: str, *, cell_bytes: int | None, kilo_bytes: int) -> int:
    """The size of a unit named in a command line.

    ``kilo_bytes`` is 1000 or 1024; a cell's or segment's size is the inventory's. Raises ``InventoryError``
    where that is missing, ``CapabilityError`` for packets and times, which have no fixed size.
    """
    match name:
        case "bytes":
            return 1
        case "kbytes":
            return kilo_bytes
        case "mbytes":
            return kilo_bytes**2
        case "cells" | "segments":
            return int(cell_units(where, cell_bytes, name=name).unit_bytes)
        case _:
            rule = "a threshold is a number of bytes, kbytes, mbytes, or of segments whose size is known"
            remedy = "set it in bytes by hand once; it is changed from here after that"
            raise CapabilityError(where, f"thresholds in {name}", rule, remedy)


def _whole(value_bytes: int, units: WatermarkUnits) -> int:
    return min(max(math.floor(value_bytes / units.unit_bytes), units.lowest), units.highest)


def _notes(asked: Watermark, held: Watermark, units: WatermarkUnits) -> tuple[str, ...]:
    said = []
    for name, before, after in (
        ("Kmin", asked.kmin_bytes, held.kmin_bytes),
        ("Kmax", asked.kmax_bytes, held.kmax_bytes),
    ):
        if before != after:
            said.append(f"{name} {before} B is held as {after} B: the switch keeps {_kept(units)}.")
    if abs(asked.pmax - held.pmax) > _TINY:
        said.append(f"Pmax {asked.pmax:g} is held as {held.pmax:g}: steps of {1 / units.pmax_steps:g}.")
    return tuple(said)


def _kept(units: WatermarkUnits) -> str:
    whole = "whole bytes" if units.unit_bytes == 1 else f"whole {units.name} of {float(units.unit_bytes):g} B"
    return f"{whole}, {units.lowest} to {units.highest}"
