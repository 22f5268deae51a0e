"""The counters of a SONiC switch through its gNMI server.

It subscribes to the rows themselves (``COUNTERS_DB/localhost/COUNTERS/oid:…``), by the objects in the name
maps: for its virtual paths (``COUNTERS/Ethernet*``) the server reads the maps only once, and follows every
queue of every port (sonic-gnmi 5ec1c20, 2026-08, ``virtual_db.go``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from service.polling.gnmi import StreamedSource
from service.polling.poller import PollSchedule
from service.polling.sonic import no_ports
from switches.device import Device, options_of
from switches.sonic.gnmi_adapter import ORIGIN, PORT, SonicGnmiOptions
from switches.transport.gnmi import GnmiDial, GnmiSession
from switches.transport.gnmi_messages import GnmiPath, PathValue
from telemetry.counters.model import MOST
from telemetry.decode.body import Polled
from telemetry.decode.sonic_counters import (
    GROUPS,
    PORT_NAMES,
    QUEUE_FIELDS,
    QUEUE_NAMES,
    VOQ_FIELDS,
    VOQ_NAMES,
    Counted,
    SonicNames,
    SonicRows,
    port_fields,
    sonic_samples,
    wanted_names,
)

_AT_ONCE = 64  # rows a Get: a chassis' are many


def sonic_gnmi_source(device: Device, schedule: PollSchedule, *, first_after_s: float) -> StreamedSource:
    """The source of that switch; raises ``InventoryError`` for one that cannot be used."""
    options = options_of(device, SonicGnmiOptions)
    dial = GnmiDial(device, options, default_port=PORT)
    session = GnmiSession(device, options, default_port=PORT)
    return StreamedSource(
        device, dial, SonicGnmiCounters(device, session, options), schedule, first_after_s=first_after_s
    )


class SonicGnmiCounters:
    """The counters of the device's ports and queues. ``clock_ns`` dates values without a timestamp."""

    def __init__(
        self,
        device: Device,
        session: GnmiSession,
        options: SonicGnmiOptions,
        *,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._device = device
        self._session = session
        self._namespace = options.namespace
        self._clock_ns = clock_ns
        self._names = SonicNames()
        self._counted = Counted()
        self._rows: dict[str, Mapping[str, Any]] = {}
        self._read_ns = 0

    def paths(self) -> Sequence[GnmiPath]:
        self._names = wanted_names(
            *(self._name_map(name) for name in (PORT_NAMES, QUEUE_NAMES, VOQ_NAMES)),
            of=self._device.queues,
            wants=self._device.wants,
        )
        if not self._names.ports and not self._names.voqs:
            raise no_ports(self._device)
        self._counted = Counted(
            {
                key: _text(row, "FLEX_COUNTER_STATUS")
                for key, row in self._table("CONFIG_DB", "FLEX_COUNTER_TABLE").items()
                if key in GROUPS
            },
            self._support("QUEUE_COUNTER_CAPABILITIES"),
            self._support("PORT_COUNTER_CAPABILITIES"),
            frozenset(self._table("CONFIG_DB", "PFC_WD")),
        )
        names = self._names
        oids = dict.fromkeys([*names.ports.values(), *names.queues.values(), *names.voqs.values()])
        return tuple(self._path("COUNTERS_DB", "COUNTERS", oid) for oid in oids)

    def add(self, value: PathValue) -> None:
        oid = value.path.elems[-1].name if value.path.elems else ""
        if oid and isinstance(value.value, Mapping):
            self._rows[oid] = value.value
            self._read_ns = max(self._read_ns, value.ts_ns)

    def collected(self) -> Polled:
        rows, self._rows = self._rows, {}
        ts_ns, self._read_ns = min(self._read_ns or self._clock_ns(), MOST), 0
        names, fields = self._names, port_fields(self._device.queues)
        found = SonicRows(
            ts_ns,
            {port: _values(rows[oid], fields) for port, oid in names.ports.items() if oid in rows},
            {name: _values(rows[oid], QUEUE_FIELDS) for name, oid in names.queues.items() if oid in rows},
            {name: _values(rows[oid], VOQ_FIELDS) for name, oid in names.voqs.items() if oid in rows},
        )
        return sonic_samples(self._device.name, self._device.queues, found, self._counted)

    def read(self) -> Polled:
        paths = self.paths()
        for begin in range(0, len(paths), _AT_ONCE):
            for value in self._session.get(paths[begin : begin + _AT_ONCE]):
                self.add(value)
        return self.collected()

    def abort(self) -> None:
        """A Get ends within the device's ``timeout_s`` by itself."""

    def close(self) -> None:
        self._session.close()

    def _support(self, table: str) -> dict[str, str | None]:
        return {key: _text(row, "isSupported") for key, row in self._table("STATE_DB", table).items()}

    def _name_map(self, name: str) -> dict[str, str]:
        found = self._table("COUNTERS_DB", name)
        return {name: oid for name, oid in found.items() if isinstance(oid, str)}

    def _table(self, database: str, name: str) -> dict[str, Any]:
        """A table's rows by key, or the only row of a table without keys; empty where it is missing."""
        found: dict[str, Any] = {}
        for one in self._session.get([self._path(database, name)]):
            if isinstance(one.value, Mapping):
                found |= one.value
        return found

    def _path(self, database: str, *elems: str) -> GnmiPath:
        return GnmiPath.of(database, self._namespace, *elems, origin=ORIGIN)


def _text(row: object, field: str) -> str | None:
    value = row.get(field) if isinstance(row, Mapping) else None
    return value if isinstance(value, str) else None


def _values(row: Mapping[str, Any], fields: Sequence[str]) -> list[object]:
    return [row.get(field) for field in fields]
