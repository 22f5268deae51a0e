"""LLDP's tables of a SONiC switch, over its redis or its gNMI server."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any

import redis

from switches.device import Device, options_of
from switches.sonic.gnmi_adapter import ORIGIN, PORT, SonicGnmiOptions
from switches.sonic.redis import (
    SonicOptions,
    arguments,
    check_address,
    client_of,
    keys_of,
    rows_of,
    switch_errors,
)
from switches.transport.gnmi import GnmiSession
from switches.transport.gnmi_messages import GnmiPath
from telemetry.neighbours.model import SwitchNeighbours
from telemetry.neighbours.sonic import CHASSIS, ENTRIES, PORTS, sonic_neighbours


def over_redis(device: Device) -> SwitchNeighbours:
    check_address(device)
    options, common = options_of(device, SonicOptions), arguments(device)
    with (
        switch_errors(device),
        closing(client_of(common, options.appl_db)) as application,
        closing(client_of(common, options.config_db)) as config,
    ):
        return sonic_neighbours(
            _table(application, f"{ENTRIES}:"),
            rows_of(application, [CHASSIS]).get(CHASSIS, {}),
            _table(config, f"{PORTS}|"),
        )


def over_gnmi(device: Device) -> SwitchNeighbours:
    options = options_of(device, SonicGnmiOptions)
    with closing(GnmiSession(device, options, default_port=PORT)) as session:

        def table(database: str, name: str) -> dict[str, Any]:
            path = GnmiPath.of(database, options.namespace, name, origin=ORIGIN)
            found: dict[str, Any] = {}
            for one in session.get([path]):
                if isinstance(one.value, Mapping):
                    found |= one.value
            return found

        return sonic_neighbours(
            table("APPL_DB", ENTRIES), table("APPL_DB", CHASSIS), table("CONFIG_DB", PORTS)
        )


def _table(client: Any, prefix: str) -> dict[str, object]:
    """Rows by the rest of their keys; what is no hash is a text instead."""
    keys = keys_of(client, f"{prefix}*")
    asked = client.pipeline(transaction=False)
    for key in keys:
        asked.hgetall(key)
    found = asked.execute(raise_on_error=False) if keys else []
    rows: dict[str, object] = {}
    for key, row in zip(keys, found, strict=True):
        if isinstance(row, redis.RedisError) and not str(row).startswith("WRONGTYPE"):
            raise row
        rows[key.removeprefix(prefix)] = row if isinstance(row, Mapping) else "no hash"
    return rows
