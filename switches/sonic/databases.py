"""CONFIG_DB: bindings of egress queues to WRED profiles, and setting them in one transaction.

Keys are ``QUEUE|Ethernet0|3``, with a range ``3-4`` or ports as a list ``Ethernet0,Ethernet4``, and on a VOQ
chassis ``QUEUE|host|asic|Ethernet0|3`` (sonic-swss, orchagent/qosorch.cpp, ``QosOrch::handleQueueTable``).

ASIC_DB is what the hardware runs. COUNTERS_DB names the object of each queue (``COUNTERS_QUEUE_NAME_MAP``, on
a chassis ``COUNTERS_VOQ_NAME_MAP``), and ASIC_DB the WRED object that queue is bound to. Where a queue is in
none of them (its counters are off), only values can be compared: no map leads from a profile's name to its
object.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from switches.base import QueueWatermark, Wanted, alike
from switches.device import Device
from switches.errors import CapabilityError, InventoryError
from switches.sonic.redis import Databases, fields_of, keys_of, rows_of
from switches.sonic.wred_profile import UNITS, watermark_in
from switches.units import DeviceWatermark, from_device
from twin.watermark import Watermark

PREFIX = "QUEUE|"
FIELD = "wred_profile"
_CPU = "CPU"
_HIGHEST_QUEUE = 255  # no chip has as many for a port
_NUMBERS = re.compile(r"(?P<low>[0-9]{1,9})(?:-(?P<high>[0-9]{1,9}))?")
_MAPS = ("COUNTERS_QUEUE_NAME_MAP", "COUNTERS_VOQ_NAME_MAP")
_QUEUE = "ASIC_STATE:SAI_OBJECT_TYPE_QUEUE:"
_WRED = "ASIC_STATE:SAI_OBJECT_TYPE_WRED:"
_BOUND = "SAI_QUEUE_ATTR_WRED_PROFILE_ID"
_NULL = "oid:0x0"
_GREEN_MODES = frozenset(
    f"SAI_ECN_MARK_MODE_{colours}" for colours in ("ALL", "GREEN", "GREEN_YELLOW", "GREEN_RED")
)
_OLD_FORM = ("[WRED_PROFILE|", "]")  # images before 2022 wrote references in this form


@dataclass(frozen=True, slots=True)
class Binding:
    """A row of QUEUE of the device's: its queues, and its ``wred_profile`` as written."""

    key: str
    queues: tuple[tuple[str, int], ...]
    bound: str | None


def profile_named(bound: str | None) -> str | None:
    """The profile's name in a ``wred_profile`` field, in either form."""
    before, after = _OLD_FORM
    if bound and bound.startswith(before) and bound.endswith(after):
        return bound[len(before) : -len(after)] or None
    return bound or None


def written_as(bound: str | None, name: str) -> str:
    """The profile's name, as a reference in the form that ``bound`` has."""
    before, after = _OLD_FORM
    return f"{before}{name}{after}" if bound and bound.startswith(before) else name


def bindings_of(
    device: Device, rows: Mapping[str, Mapping[str, str]], wanted: Wanted | None = None
) -> tuple[Binding, ...]:
    """The rows, by key, of the ``wanted`` queues; by default of those of the inventory.

    With ``wanted``, which an undo has, a row without a profile is none where another has its queues: it says
    nothing of their watermark.

    Raises ``InventoryError`` where those of the inventory have none, ``CapabilityError`` where two are for
    one queue.
    """
    plain = set() if wanted is None else {key for key, row in rows.items() if FIELD not in row}
    asked = wanted or partial(_wanted, device)
    found = []
    owner: dict[tuple[str, int], str] = {}
    for key in sorted(rows, key=lambda key: (key in plain, key)):
        queues = queues_in(key)
        if not any(asked(port, queue) for port, queue in queues):
            continue
        if key in plain and not owner.keys().isdisjoint(queues):
            continue
        for queue in queues:
            if owner.setdefault(queue, key) != key:
                received = f"{owner[queue]} and {key}"
                rule = "one row of QUEUE is for a queue"
                remedy = "remove one of them from the switch's configuration"
                raise CapabilityError(f"{device.where} {queue[0]} queue {queue[1]}", received, rule, remedy)
        found.append(Binding(key, queues, rows[key].get(FIELD)))
    if not found and wanted is None:
        raise InventoryError(
            device.where,
            f"no row of QUEUE for queue {', '.join(map(str, device.queues))}"
            + (f" of {', '.join(device.ports)}" if device.ports else ""),
            "the queues to set are in the switch's QoS configuration",
            "correct queues or ports, or configure QoS on the switch",
        )
    return tuple(found)


def check_alone(device: Device, bindings: Iterable[Binding]) -> None:
    """Raises ``CapabilityError`` where a row also binds queues of other devices."""
    for binding in bindings:
        for port, queue in binding.queues:
            if not _wanted(device, port, queue):
                received = f"{binding.key}, which is for {port} queue {queue} too"
                rule = "only the queues and ports of the inventory are set"
                remedy = "split that row on the switch, or add the queue and port to the inventory"
                raise CapabilityError(device.where, received, rule, remedy)


def _wanted(device: Device, port: str, queue: int) -> bool:
    if port == _CPU:
        return False
    return device.sets(port, queue) or device.sets(port.rpartition("|")[2], queue)


def queues_in(key: str) -> tuple[tuple[str, int], ...]:
    """The (port, queue) pairs of a key; none for a key that orchagent ignores, such as one with numbers that
    no port has.
    """
    ports, separator, numbers = key.removeprefix(PREFIX).rpartition("|")
    match = _NUMBERS.fullmatch(numbers)
    if not separator or match is None:
        return ()
    low, high = int(match["low"]), int(match["high"] or match["low"])
    if high > _HIGHEST_QUEUE:  # one such row could otherwise fill the memory of the service
        return ()
    wanted = range(low, high + 1)
    # A chassis names one system port a row: host, ASIC, port.
    names = [ports] if "|" in ports else [name.strip() for name in ports.split(",")]
    return tuple((name, queue) for name in names if name for queue in wanted)


PROFILE = "WRED_PROFILE|"


class Setting(msgspec.Struct, frozen=True):
    """``bound``: the ``wred_profile`` of rows of QUEUE by key (None: no such field); ``profiles``: rows of
    WRED_PROFILE by name.
    """

    bound: dict[str, str | None]
    profiles: dict[str, dict[str, str]]


@dataclass(frozen=True, slots=True)
class Config:
    """All rows of QUEUE and WRED_PROFILE, and the device's."""

    queues: Mapping[str, Mapping[str, str]]
    profiles: Mapping[str, dict[str, str]]
    bindings: tuple[Binding, ...]

    def asked(self, device: Device) -> tuple[QueueWatermark, ...]:
        """Each queue's watermark, by port and queue.

        Raises ``CapabilityError`` where a profile's values are no marking curve.
        """
        found = []
        for binding in self.bindings:
            name = profile_named(binding.bound)
            where = f"{device.where} {binding.key} profile {name}"
            mark = watermark_in(self.profiles.get(name or "", {}), where)
            found += [QueueWatermark(port, queue, mark) for port, queue in binding.queues]
        return tuple(sorted(found, key=lambda queue: (queue.port, queue.queue)))

    def referring(self, profile: str) -> list[str]:
        """The keys of all rows of QUEUE bound to that profile, sorted."""
        return sorted(key for key, row in self.queues.items() if profile_named(row.get(FIELD)) == profile)

    def spare(self, prefix: str, *, keeping: Iterable[str] = ()) -> list[str]:
        """Own profiles of that prefix without a queue."""
        kept = {*keeping, *(profile_named(row.get(FIELD)) for row in self.queues.values())}
        return [name for name in sorted(self.profiles) if name.startswith(prefix) and name not in kept]


def read_config(client: Any, device: Device, wanted: Wanted | None = None) -> Config:
    """``wanted`` as in ``bindings_of``, and raises as that."""
    keys = [*keys_of(client, f"{PREFIX}*"), *keys_of(client, f"{PROFILE}*")]
    rows = rows_of(client, keys)
    queues = {key: row for key, row in rows.items() if key.startswith(PREFIX)}
    profiles = {key.removeprefix(PROFILE): row for key, row in rows.items() if key.startswith(PROFILE)}
    return Config(queues, profiles, bindings_of(device, queues, wanted))


def watched(setting: Setting) -> list[str]:
    """The keys that a change to or from that setting depends on."""
    return [*setting.bound, *(PROFILE + name for name in setting.profiles)]


def queue_setting(transaction: Any, config: Config, wanted: Setting) -> None:
    """Queues on ``transaction`` the commands that turn ``config`` into ``wanted``; none where nothing
    differs.

    One HSET a changed row; HDEL only where a queue had no profile. A profile never loses a field: orchagent
    would keep its attribute.
    """
    for name, row in wanted.profiles.items():
        has = config.profiles.get(name, {})
        changed = {field: value for field, value in row.items() if has.get(field) != value}
        if changed:
            transaction.hset(PROFILE + name, mapping=changed)
    for key, bound in wanted.bound.items():
        has_bound = config.queues.get(key, {}).get(FIELD)
        if bound is None and has_bound is not None:
            transaction.hdel(key, FIELD)
        elif bound is not None and bound != has_bound:
            transaction.hset(key, mapping={FIELD: bound})


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
                (mark for mark in running.values() if alike(mark, queue.watermark, rounding_bytes)), None
            )
            if held is None and queue.watermark is not None:
                unconfirmed.append(queue)
        shown = queue.watermark if alike(held, queue.watermark, rounding_bytes) else held
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
