"""ASIC_DB: what a switch's hardware runs.

COUNTERS_DB names the object of each queue (``COUNTERS_QUEUE_NAME_MAP``, on a chassis
``COUNTERS_VOQ_NAME_MAP``), and ASIC_DB the WRED object that queue is bound to. Where a queue is in none of
them (its counters are off), only values can be compared: no map leads from a profile's name to its object.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from switches.base import QueueWatermark
from switches.errors import CapabilityError
from switches.sonic.redis import Databases, fields_of, keys_of, rows_of
from switches.sonic.wred_profile import UNITS
from switches.units import DeviceWatermark, from_device
from twin.watermark import Watermark

_MAPS = ("COUNTERS_QUEUE_NAME_MAP", "COUNTERS_VOQ_NAME_MAP")
_QUEUE = "ASIC_STATE:SAI_OBJECT_TYPE_QUEUE:"
_WRED = "ASIC_STATE:SAI_OBJECT_TYPE_WRED:"
_BOUND = "SAI_QUEUE_ATTR_WRED_PROFILE_ID"
_NULL = "oid:0x0"
_GREEN_MODES = frozenset(
    f"SAI_ECN_MARK_MODE_{colours}" for colours in ("ALL", "GREEN", "GREEN_YELLOW", "GREEN_RED")
)


@dataclass(frozen=True, slots=True)
class Hardware:
    """``queues``: the watermark of each queue, in the order asked; the configured one where hardware is
    within the rounding. ``unconfirmed``: queues whose values can only be compared, and no object has them;
    what they run is unknown.
    """

    queues: tuple[QueueWatermark, ...]
    unconfirmed: tuple[QueueWatermark, ...]


def read_hardware(databases: Databases, asked: Sequence[QueueWatermark], rounding_bytes: int) -> Hardware:
    objects = _objects(databases.counters, [f"{queue.port}:{queue.queue}" for queue in asked])
    known = [number for number, oid in enumerate(objects) if oid is not None]
    bound = fields_of(databases.asic, [f"{_QUEUE}{objects[number]}" for number in known], _BOUND)
    wred_of = dict(zip(known, bound, strict=True))
    if len(known) < len(asked):
        keys = keys_of(databases.asic, f"{_WRED}*")
    else:
        keys = [_WRED + oid for oid in sorted({oid for oid in bound if oid and oid != _NULL})]
    rows = {key.removeprefix(_WRED): row for key, row in rows_of(databases.asic, keys).items()}
    return matched(asked, wred_of, rows, rounding_bytes)


def matched(
    asked: Sequence[QueueWatermark],
    wred_of: Mapping[int, str | None],
    rows: Mapping[str, Mapping[str, str]],
    rounding_bytes: int,
) -> Hardware:
    """Compares the configuration with ASIC_DB.

    ``wred_of`` is the WRED object of a queue, by its number in ``asked``; of other queues only values can be
    compared. ``rows`` are the WRED objects.
    """
    running = {oid: _watermark(row) for oid, row in rows.items()}
    queues, unconfirmed = [], []
    for number, queue in enumerate(asked):
        if number in wred_of:
            held = running.get(wred_of[number] or _NULL)
        else:
            held = next(
                (mark for mark in running.values() if _alike(mark, queue.watermark, rounding_bytes)), None
            )
            if held is None and queue.watermark is not None:
                unconfirmed.append(queue)
        shown = queue.watermark if _alike(held, queue.watermark, rounding_bytes) else held
        queues.append(QueueWatermark(queue.port, queue.queue, shown))
    return Hardware(tuple(queues), tuple(unconfirmed))


def _objects(counters: Any, names: Sequence[str]) -> list[str | None]:
    """The object of each queue, by its name in COUNTERS_DB."""
    found: list[str | None] = counters.hmget(_MAPS[0], list(names))
    voqs: list[str | None] = counters.hmget(_MAPS[1], list(names)) if None in found else found
    return [voq if "|" in name else oid for name, oid, voq in zip(names, found, voqs, strict=True)]


def _watermark(row: Mapping[str, str]) -> Watermark | None:
    """The marking of green packets by one WRED object; None without."""
    if row.get("SAI_WRED_ATTR_GREEN_ENABLE") != "true":
        return None
    if row.get("SAI_WRED_ATTR_ECN_MARK_MODE") not in _GREEN_MODES:
        return None

    def value(of: str, wred: str, default: str) -> int:
        return int(row.get(f"SAI_WRED_ATTR_ECN_GREEN_{of}", row.get(f"SAI_WRED_ATTR_GREEN_{wred}", default)))

    try:
        return from_device(
            DeviceWatermark(
                value("MIN_THRESHOLD", "MIN_THRESHOLD", "0"),
                value("MAX_THRESHOLD", "MAX_THRESHOLD", "0"),
                value("MARK_PROBABILITY", "DROP_PROBABILITY", "100"),
            ),
            UNITS,
        )
    except (ValueError, CapabilityError):
        return None  # Pmax 0, or thresholds of 0: it marks nothing that was asked for


def _alike(held: Watermark | None, asked: Watermark | None, rounding_bytes: int) -> bool:
    if held is None or asked is None:
        return held is asked
    return (
        abs(held.kmin_bytes - asked.kmin_bytes) <= rounding_bytes
        and abs(held.kmax_bytes - asked.kmax_bytes) <= rounding_bytes
        and abs(held.pmax - asked.pmax) < 1e-9
    )
