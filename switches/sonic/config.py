"""CONFIG_DB: what a switch is asked to run, and setting it in one transaction; must not look at hardware."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from switches.base import QueueWatermark
from switches.device import Device
from switches.sonic import config_db
from switches.sonic.config_db import Binding, bindings_of, profile_named
from switches.sonic.redis import keys_of, rows_of
from switches.sonic.wred_profile import OWN, watermark_in

PROFILE = "WRED_PROFILE|"


class Setting(msgspec.Struct, frozen=True):
    """Part of CONFIG_DB: ``bound``, the ``wred_profile`` of rows of QUEUE by key (None: the field is not
    there), and ``profiles``, rows of WRED_PROFILE by name.
    """

    bound: dict[str, str | None]
    profiles: dict[str, dict[str, str]]


@dataclass(frozen=True, slots=True)
class Config:
    """What CONFIG_DB holds: every row of QUEUE and WRED_PROFILE, and the rows that are the device's."""

    queues: Mapping[str, Mapping[str, str]]
    profiles: Mapping[str, dict[str, str]]
    bindings: tuple[Binding, ...]

    def asked(self, device: Device) -> tuple[QueueWatermark, ...]:
        """What each queue of the device is asked to run, by port and queue.

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
        """The keys of all rows bound to that profile."""
        return config_db.referring(self.queues, profile)

    def spare(self, prefix: str, *, keeping: Iterable[str] = ()) -> list[str]:
        """Our own profiles of that prefix that no queue is bound to."""
        kept = {*keeping, *(profile_named(row.get(config_db.FIELD)) for row in self.queues.values())}
        return [
            name
            for name in sorted(self.profiles)
            if name.startswith(prefix) and name.startswith(OWN) and name not in kept
        ]


def read_config(client: Any, device: Device) -> Config:
    """What CONFIG_DB holds now. Raises ``InventoryError`` and ``CapabilityError`` as ``bindings_of`` does."""
    keys = [*keys_of(client, f"{config_db.PREFIX}*"), *keys_of(client, f"{PROFILE}*")]
    rows = rows_of(client, keys)
    queues = {key: row for key, row in rows.items() if key.startswith(config_db.PREFIX)}
    profiles = {key.removeprefix(PROFILE): row for key, row in rows.items() if key.startswith(PROFILE)}
    return Config(queues, profiles, bindings_of(device, queues))


def watched(setting: Setting) -> list[str]:
    """The keys that a change to or from that setting depends on."""
    return [*setting.bound, *(PROFILE + name for name in setting.profiles)]


def queue_setting(transaction: Any, config: Config, wanted: Setting) -> None:
    """Puts on ``transaction`` what turns ``config`` into ``wanted``, and nothing where it is so already.

    One HSET a row that changes; HDEL only where a queue had no profile. No field of a profile is ever taken
    away: orchagent would leave its attribute as it was.
    """
    for name, row in wanted.profiles.items():
        has = config.profiles.get(name, {})
        changed = {field: value for field, value in row.items() if has.get(field) != value}
        if changed:
            transaction.hset(PROFILE + name, mapping=changed)
    for key, bound in wanted.bound.items():
        has_bound = config.queues.get(key, {}).get(config_db.FIELD)
        if bound is None and has_bound is not None:
            transaction.hdel(key, config_db.FIELD)
        elif bound is not None and bound != has_bound:
            transaction.hset(key, mapping={config_db.FIELD: bound})
