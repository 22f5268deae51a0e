"""Polls the counters of a SONiC switch over its redis.

One exchange a poll: the switch's clock, its names, what it counts, and the rows under the names of the last
poll. Where the names have changed since (ports broken out, swss restarted), the rows are read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any

from service.polling.poller import NoCountersError, PolledSource, PollSchedule
from switches.device import Device, options_of
from switches.errors import RefusedError
from switches.sonic.redis import Command, RedisExchange, SonicOptions, check_address
from telemetry.counters.model import MOST
from telemetry.decode.body import Polled
from telemetry.decode.sonic_counters import (
    GROUPS,
    PORT_CAPABILITIES,
    PORT_NAMES,
    QUEUE_CAPABILITIES,
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
from telemetry.settings import NS_PER_S

_ROW = "COUNTERS:"
_TRIES = 5  # the first poll reads the names of ports, then of their queues, then the rows


def sonic_source(device: Device, schedule: PollSchedule, *, first_after_s: float) -> PolledSource:
    """The source of that switch; raises ``InventoryError`` for one that cannot be used."""
    return PolledSource(device, SonicReader(device), schedule, first_after_s=first_after_s)


class SonicReader:
    """The counters of the device's ports and queues. Raises ``InventoryError`` for an unusable device."""

    def __init__(self, device: Device) -> None:
        check_address(device)
        self._device = device
        self._options = options_of(device, SonicOptions)
        self._exchange = RedisExchange(device)
        self._names = SonicNames()
        self._commands = self._asking(self._names)

    def read(self) -> Polled:
        """The counters, dated by the switch's clock. Raises ``NoCountersError`` where it names none of the
        ports, and what ``RedisExchange.ask`` raises.
        """
        for _ in range(_TRIES):
            answers = _Answers(self._device, self._commands, self._exchange.ask(self._commands))
            found = wanted_names(
                answers.mapping(PORT_NAMES),
                answers.queue_names(self._names.ports, self._device.queues),
                answers.mapping(VOQ_NAMES),
                of=self._device.queues,
                wants=self._device.wants,
            )
            if found == self._names:
                break
            self._names, self._commands = found, self._asking(found)
        else:
            raise NoCountersError(
                self._device.where,
                f"{PORT_NAMES} or {QUEUE_NAMES} changed {_TRIES} times",
                "ports and queues keep their objects during a poll",
                "wait until swss has started",
            )
        if not self._names.ports and not self._names.voqs:
            raise no_ports(self._device)
        return sonic_samples(
            self._device.name, self._device.queues, answers.rows(self._names), answers.counted(self._names)
        )

    def abort(self) -> None:
        self._exchange.abort()

    def close(self) -> None:
        self._exchange.close()

    def _asking(self, names: SonicNames) -> Sequence[Command]:
        options, fields = self._options, port_fields(self._device.queues)
        commands: list[Command] = [
            ("SELECT", options.config_db),
            *(("HGET", f"FLEX_COUNTER_TABLE|{group}", "FLEX_COUNTER_STATUS") for group in GROUPS),
            *(("EXISTS", f"PFC_WD|{port}") for port in names.ports),
            ("SELECT", options.state_db),
            *(("HGET", f"QUEUE_COUNTER_CAPABILITIES|{key}", "isSupported") for key in QUEUE_CAPABILITIES),
            *(("HGET", f"PORT_COUNTER_CAPABILITIES|{key}", "isSupported") for key in PORT_CAPABILITIES),
            ("SELECT", options.counters_db),
            *(("HGETALL", name) for name in (PORT_NAMES, VOQ_NAMES)),
            ("HMGET", QUEUE_NAMES, *_queue_names(names.ports, self._device.queues)),
            ("TIME",),
            *(("HMGET", _ROW + oid, *fields) for oid in names.ports.values()),
            *(("HMGET", _ROW + oid, *QUEUE_FIELDS) for oid in names.queues.values()),
            *(("HMGET", _ROW + oid, *VOQ_FIELDS) for oid in names.voqs.values()),
        ]
        return tuple(commands)


def no_ports(device: Device) -> NoCountersError:
    """The error for a switch that names none of the ports in the inventory."""
    return NoCountersError(
        device.where,
        f"no port in {PORT_NAMES}" + (f" that matches {', '.join(device.ports)}" if device.ports else ""),
        "COUNTERS_DB names the ports whose counters it has",
        "correct ports in the inventory, or check whether swss runs on the switch",
    )


def _queue_names(ports: Iterable[str], queues: Iterable[int]) -> list[str]:
    """Fields to read, never none: redis refuses a command without fields."""
    return [f"{port}:{queue}" for port, queue in product(ports, queues)] or [""]


class _Answers:
    def __init__(self, device: Device, commands: Sequence[Command], answers: Sequence[Any]) -> None:
        self._where = device.where
        self._by_command: dict[Command, Any] = {}
        self._rows: dict[int | str, Any] = {}
        for command, answer in zip(commands, answers, strict=True):
            if command[0] == "HMGET":
                self._rows[command[1]] = answer
            else:
                self._by_command[command] = answer

    def mapping(self, name: str) -> Mapping[str, str]:
        given = self._by_command["HGETALL", name]
        if not isinstance(given, list):
            raise self._unreadable(f"{name}: {given}")
        return dict(zip(given[::2], given[1::2], strict=True))

    def queue_names(self, ports: Iterable[str], queues: Iterable[int]) -> Mapping[str, str]:
        given = self._rows[QUEUE_NAMES]
        if not isinstance(given, list):
            raise self._unreadable(f"{QUEUE_NAMES}: {given}")
        found = zip(_queue_names(ports, queues), given, strict=True)
        return {name: oid for name, oid in found if isinstance(oid, str)}

    def counted(self, names: SonicNames) -> Counted:
        return Counted(
            {key: self._text(f"FLEX_COUNTER_TABLE|{key}", "FLEX_COUNTER_STATUS") for key in GROUPS},
            {
                key: self._text(f"QUEUE_COUNTER_CAPABILITIES|{key}", "isSupported")
                for key in QUEUE_CAPABILITIES
            },
            {key: self._text(f"PORT_COUNTER_CAPABILITIES|{key}", "isSupported") for key in PORT_CAPABILITIES},
            {port for port in names.ports if self._by_command["EXISTS", f"PFC_WD|{port}"] == 1},
        )

    def rows(self, names: SonicNames) -> SonicRows:
        return SonicRows(
            self._time_ns(),
            {port: self._row(oid) for port, oid in names.ports.items()},
            {queue: self._row(oid) for queue, oid in names.queues.items()},
            {queue: self._row(oid) for queue, oid in names.voqs.items()},
        )

    def _row(self, oid: str) -> Sequence[object]:
        answer = self._rows[_ROW + oid]
        return answer if isinstance(answer, list) else ()

    def _text(self, key: str, field: str) -> str | None:
        answer = self._by_command["HGET", key, field]
        return answer if isinstance(answer, str) else None

    def _time_ns(self) -> int:
        answer = self._by_command["TIME",]
        try:
            seconds, microseconds = (int(part) for part in answer)
        except (TypeError, ValueError) as error:
            raise self._unreadable(f"{answer!r} for the time") from error
        time_ns = seconds * NS_PER_S + microseconds * 1_000
        if not 0 <= time_ns <= MOST:
            raise self._unreadable(f"{seconds} s for the time")
        return time_ns

    def _unreadable(self, received: str) -> RefusedError:
        return RefusedError(
            self._where,
            received,
            "COUNTERS_DB holds hashes, and redis knows the time",
            "check whether something else listens there, and counters_db of its options",
        )
