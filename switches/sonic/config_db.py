"""CONFIG_DB: bindings of egress queues to WRED profiles, and setting them in one transaction.

Keys are ``QUEUE|Ethernet0|3``, with a range ``3-4`` or ports as a list ``Ethernet0,Ethernet4``, and on a VOQ
chassis ``QUEUE|host|asic|Ethernet0|3`` (sonic-swss, orchagent/qosorch.cpp, ``QosOrch::handleQueueTable``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from switches.base import QueueWatermark
from switches.device import Device
from switches.errors import CapabilityError, InventoryError
from switches.sonic.redis import keys_of, rows_of
from switches.sonic.wred_profile import OWN, watermark_in

PREFIX = "QUEUE|"
FIELD = "wred_profile"
_CPU = "CPU"
_OLD_FORM = ("[WRED_PROFILE|", "]")  # images before 2022 wrote references so


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
    """The name in the form of ``bound``."""
    before, after = _OLD_FORM
    return f"{before}{name}{after}" if bound and bound.startswith(before) else name


def bindings_of(device: Device, rows: Mapping[str, Mapping[str, str]]) -> tuple[Binding, ...]:
    """The rows, by key, of that device's queues.

    Raises ``InventoryError`` where there are none, ``CapabilityError`` where two are for one queue.
    """
    found = []
    owner: dict[tuple[str, int], str] = {}
    for key in sorted(rows):
        queues = _queues(key)
        if not any(_wanted(device, port, queue) for port, queue in queues):
            continue
        for queue in queues:
            if owner.setdefault(queue, key) != key:
                raise CapabilityError(
                    f"{device.where} {queue[0]} queue {queue[1]}",
                    f"{owner[queue]} and {key}",
                    "one row of QUEUE is for a queue",
                    "remove one of them from the switch's configuration",
                )
        found.append(Binding(key, queues, rows[key].get(FIELD)))
    if not found:
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
                raise CapabilityError(
                    device.where,
                    f"{binding.key}, which is for {port} queue {queue} too",
                    "only the queues and ports of the inventory are set",
                    "split that row on the switch, or add the queue and port to the inventory",
                )


def referring(rows: Mapping[str, Mapping[str, str]], profile: str) -> list[str]:
    """The keys of all rows bound to that profile, sorted."""
    return sorted(key for key, row in rows.items() if profile_named(row.get(FIELD)) == profile)


def _wanted(device: Device, port: str, queue: int) -> bool:
    if queue not in device.queues or port == _CPU:
        return False
    return device.wants(port) or device.wants(port.rpartition("|")[2])


def _queues(key: str) -> tuple[tuple[str, int], ...]:
    """The (port, queue) pairs of a key; none for one that orchagent ignores too."""
    ports, separator, numbers = key.removeprefix(PREFIX).rpartition("|")
    low, dash, high = numbers.partition("-")
    if not separator or not low.isdecimal() or (dash and not high.isdecimal()):
        return ()
    wanted = range(int(low), int(high if dash else low) + 1)
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
        return referring(self.queues, profile)

    def spare(self, prefix: str, *, keeping: Iterable[str] = ()) -> list[str]:
        """Own profiles of that prefix without a queue."""
        kept = {*keeping, *(profile_named(row.get(FIELD)) for row in self.queues.values())}
        return [
            name
            for name in sorted(self.profiles)
            if name.startswith(prefix) and name.startswith(OWN) and name not in kept
        ]


def read_config(client: Any, device: Device) -> Config:
    """Raises ``InventoryError`` and ``CapabilityError`` as ``bindings_of``."""
    keys = [*keys_of(client, f"{PREFIX}*"), *keys_of(client, f"{PROFILE}*")]
    rows = rows_of(client, keys)
    queues = {key: row for key, row in rows.items() if key.startswith(PREFIX)}
    profiles = {key.removeprefix(PROFILE): row for key, row in rows.items() if key.startswith(PROFILE)}
    return Config(queues, profiles, bindings_of(device, queues))


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
