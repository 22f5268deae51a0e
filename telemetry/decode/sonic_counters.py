"""SONiC's COUNTERS_DB rows to counter samples.

A row stays in COUNTERS_DB, and stands still, when its counter is no longer read. So a counter is used only
where its group is enabled and the chip is not known to lack it.

Sources: sonic-swss ``orchagent/portsorch.cpp`` and ``flexcounterorch.cpp`` (e6b0c5b, 2026-08) for the groups
and STATE_DB's capabilities; SAI ``inc/saiport.h`` for pause durations.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from telemetry.counters.model import MOST, Counters, CounterSample, SeriesKey
from telemetry.decode.body import Polled, count_of

PORT_NAMES, QUEUE_NAMES, VOQ_NAMES = (
    "COUNTERS_PORT_NAME_MAP",
    "COUNTERS_QUEUE_NAME_MAP",
    "COUNTERS_VOQ_NAME_MAP",
)
GROUPS = ("PORT", "QUEUE", "PFCWD", "WRED_ECN_QUEUE", "WRED_ECN_PORT")
"""Keys of CONFIG_DB's FLEX_COUNTER_TABLE whose ``FLEX_COUNTER_STATUS`` is read."""
QUEUE_CAPABILITIES = {
    "WRED_ECN_QUEUE_ECN_MARKED_PKT_COUNTER": "SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS",
    "WRED_ECN_QUEUE_WRED_DROPPED_PKT_COUNTER": "SAI_QUEUE_STAT_WRED_DROPPED_PACKETS",
}
"""Keys of STATE_DB's QUEUE_COUNTER_CAPABILITIES, and the counter of each."""
PORT_CAPABILITIES = {
    "WRED_ECN_PORT_WRED_TOTAL_DROP_COUNTER": "SAI_PORT_STAT_WRED_DROPPED_PACKETS",
}
"""Keys of STATE_DB's PORT_COUNTER_CAPABILITIES, and the counter of each."""

QUEUE_FIELDS = (
    "SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS",
    "SAI_QUEUE_STAT_DROPPED_PACKETS",
    "SAI_QUEUE_STAT_DROPPED_BYTES",
    "SAI_QUEUE_STAT_WRED_DROPPED_PACKETS",
    "SAI_QUEUE_STAT_PACKETS",
    "SAI_QUEUE_STAT_BYTES",
)
VOQ_FIELDS = QUEUE_FIELDS[1:4]
"""A chassis counts drops at virtual output queues on the ingress side, everything else at the egress."""
_PORT_FIELDS = (
    "SAI_PORT_STAT_IF_OUT_DISCARDS",
    "SAI_PORT_STAT_WRED_DROPPED_PACKETS",
    "SAI_PORT_STAT_ECN_MARKED_PACKETS",
    "SAI_PORT_STAT_IF_OUT_UCAST_PKTS",
    "SAI_PORT_STAT_IF_OUT_NON_UCAST_PKTS",
    "SAI_PORT_STAT_IF_OUT_OCTETS",
)
_PRIORITIES = range(8)
_OF_PRIORITY = (
    "SAI_PORT_STAT_PFC_{}_TX_PKTS",
    "SAI_PORT_STAT_PFC_{}_RX_PKTS",
    "SAI_PORT_STAT_PFC_{}_RX_PAUSE_DURATION_US",
    "EST_PORT_STAT_PFC_{}_RX_PAUSE_DURATION_US",
)
_FIELDS_OF_PRIORITY = {number: tuple(form.format(number) for form in _OF_PRIORITY) for number in _PRIORITIES}
_PAUSES = frozenset(name for names in _FIELDS_OF_PRIORITY.values() for name in names[2:])
_NOTHING = Counters()
_US = 1_000
_LONGEST_NUMBER = 4
_LONGEST_NAME = 256
_OFF = "disable"
_LEFT_OUT = "it was left out"

_FIELDS_OF_GROUP = {
    "PORT": frozenset(_PORT_FIELDS)
    - {"SAI_PORT_STAT_WRED_DROPPED_PACKETS", "SAI_PORT_STAT_ECN_MARKED_PACKETS"}
    | {form.format(number) for form in _OF_PRIORITY[:2] for number in _PRIORITIES},
    "QUEUE": frozenset(name for name in QUEUE_FIELDS if "WRED" not in name),
    "PFCWD": _PAUSES,
    "WRED_ECN_QUEUE": frozenset(name for name in QUEUE_FIELDS if "WRED" in name),
    "WRED_ECN_PORT": frozenset({"SAI_PORT_STAT_WRED_DROPPED_PACKETS", "SAI_PORT_STAT_ECN_MARKED_PACKETS"}),
}
# The main counter of a group, its plain name, and the command that enables it.
_WANTED = (
    ("PORT", "SAI_PORT_STAT_PFC_{}_TX_PKTS", "PFC frames", "counterpoll port enable"),
    ("QUEUE", "SAI_QUEUE_STAT_DROPPED_PACKETS", "drops of queues", "counterpoll queue enable"),
    (
        "WRED_ECN_QUEUE",
        "SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS",
        "marked packets",
        "counterpoll wredqueue enable",
    ),
)

QueueName = tuple[str, int]


def port_fields(queues: Iterable[int]) -> tuple[str, ...]:
    """The fields of a port's row for these queues (which are PFC priorities too)."""
    return _PORT_FIELDS + tuple(chain.from_iterable(_FIELDS_OF_PRIORITY.get(queue, ()) for queue in queues))


@dataclass(frozen=True, slots=True)
class SonicNames:
    """Object ids (the keys under ``COUNTERS:``) of a switch's ports and queues, by name."""

    ports: Mapping[str, str] = field(default_factory=dict)
    queues: Mapping[QueueName, str] = field(default_factory=dict)
    voqs: Mapping[QueueName, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Counted:
    """Which counters the switch maintains.

    ``groups`` has ``FLEX_COUNTER_STATUS`` by key of GROUPS, ``queue_support`` and ``port_support``
    ``isSupported`` by key of the capability tables; None or absent: unknown. ``watched`` are the ports of its
    PFC watchdog, which alone reads pause durations.
    """

    groups: Mapping[str, str | None] = field(default_factory=dict)
    queue_support: Mapping[str, str | None] = field(default_factory=dict)
    port_support: Mapping[str, str | None] = field(default_factory=dict)
    watched: Collection[str] = ()

    def invalid(self) -> frozenset[str]:
        """The fields whose values are stale or meaningless on every port and queue."""
        fields: set[str] = set()
        for group, names in _FIELDS_OF_GROUP.items():
            if self.groups.get(group) == _OFF:
                fields.update(names)
        fields.update(_unsupported(self.queue_support, QUEUE_CAPABILITIES))
        fields.update(_unsupported(self.port_support, PORT_CAPABILITIES))
        return frozenset(fields)


@dataclass(frozen=True, slots=True)
class SonicRows:
    """Values at ``ts_ns`` by the switch's clock, in the order of ``port_fields``, ``QUEUE_FIELDS`` and
    ``VOQ_FIELDS``; None: not in the row.
    """

    ts_ns: int
    ports: Mapping[str, Sequence[object]]
    queues: Mapping[QueueName, Sequence[object]]
    voqs: Mapping[QueueName, Sequence[object]] = field(default_factory=dict)


def wanted_names(
    ports: Mapping[str, str],
    queues: Mapping[str, str],
    voqs: Mapping[str, str],
    *,
    of: Collection[int],
    wants: Callable[[str], bool],
) -> SonicNames:
    """Selects ports and queues from the three name maps of COUNTERS_DB, in order of name.

    ``wants`` is asked for the port's name, for queues of a chassis (``host|asic|Ethernet0``) for its last
    part too. Invalid or overlong names are skipped.
    """

    def chosen(names: Mapping[str, str]) -> dict[QueueName, str]:
        found = ((queue_name(name), oid) for name, oid in names.items())
        kept = {name: oid for name, oid in found if name is not None and name[1] in of}
        return {
            name: kept[name]
            for name in sorted(kept)
            if wants(name[0]) or ("|" in name[0] and wants(name[0].rpartition("|")[2]))
        }

    named = {port: ports[port] for port in sorted(ports) if 0 < len(port) <= _LONGEST_NAME and wants(port)}
    return SonicNames(named, chosen(queues), chosen(voqs))


def queue_name(text: str) -> QueueName | None:
    """``Ethernet0:3`` as port and number; None for an invalid name."""
    port, colon, number = text.rpartition(":")
    if not (colon and 0 < len(port) <= _LONGEST_NAME and len(number) <= _LONGEST_NUMBER):
        return None
    if not (number.isascii() and number.isdecimal()):
        return None
    return port, int(number)


def sonic_samples(switch: str, queues: Sequence[int], rows: SonicRows, counted: Counted) -> Polled:
    """Samples of these rows: one per port, and one per queue with its priority's pauses from the port's row.

    Never raises: a value that is not a counter is left out and reported in ``problems``.
    """
    problems: list[str] = []
    invalid, given = counted.invalid(), set[str]()
    of_ports: dict[str, dict[str, int]] = {}
    samples: list[CounterSample] = []
    fields = port_fields(queues)
    for port, row in rows.ports.items():
        unread = invalid if port in counted.watched else invalid | _PAUSES
        values = _values(fields, row, unread, port, problems)
        of_ports[port] = values
        given.update(values)
        _add(samples, SeriesKey(switch, port, None), rows.ts_ns, _of_port(values))
    paused = [(port, queue) for port in rows.ports for queue in queues if queue in _PRIORITIES]
    for name in dict.fromkeys(chain(rows.queues, paused)):
        port, queue = name
        values = _values(QUEUE_FIELDS, rows.queues.get(name, ()), invalid, f"{port} queue {queue}", problems)
        given.update(values)
        counters = _of_queue(values, of_ports.get(port, {}), queue)
        _add(samples, SeriesKey(switch, port, queue), rows.ts_ns, counters)
    for (port, queue), row in rows.voqs.items():
        values = _values(VOQ_FIELDS, row, invalid, f"{port} queue {queue}", problems)
        given.update(values)
        _add(samples, SeriesKey(switch, port, queue), rows.ts_ns, _of_queue(values, {}, queue))
    return Polled(tuple(samples), tuple(problems), _notes(given, counted))


def _notes(given: Collection[str], counted: Counted) -> tuple[str, ...]:
    lacking = _unsupported(counted.queue_support, QUEUE_CAPABILITIES)
    notes = []
    for group, form, said, command in _WANTED:
        if any(form.format(number) in given for number in _PRIORITIES):
            continue
        if form in lacking:
            notes.append(f"it does not count {said}: QUEUE_COUNTER_CAPABILITIES says its chip cannot")
        elif counted.groups.get(group) == _OFF:
            notes.append(f"it does not count {said}: {group} is off in FLEX_COUNTER_TABLE; '{command}' there")
        else:
            notes.append(f"it gives no count of {said}; '{command}' there, where the chip can")
    return tuple(notes)


def _unsupported(support: Mapping[str, str | None], fields: Mapping[str, str]) -> set[str]:
    return {name for key, name in fields.items() if (support.get(key) or "").lower() == "false"}


def _values(
    fields: Sequence[str], row: Sequence[object], invalid: Collection[str], where: str, problems: list[str]
) -> dict[str, int]:
    found = {}
    for name, value in zip(fields, row, strict=False):
        if value is None or name in invalid:
            continue
        try:
            count = count_of(value)
            found[name] = count_of(count * _US) if name in _PAUSES else count
        except ValueError as error:
            problems.append(f"{where} {name}: received {error}; {_LEFT_OUT}")
    return found


def _of_port(values: Mapping[str, int]) -> Counters:
    unicast = values.get("SAI_PORT_STAT_IF_OUT_UCAST_PKTS")
    others = values.get("SAI_PORT_STAT_IF_OUT_NON_UCAST_PKTS")
    return Counters(
        ecn_marked_packets=values.get("SAI_PORT_STAT_ECN_MARKED_PACKETS"),
        dropped_packets=values.get("SAI_PORT_STAT_IF_OUT_DISCARDS"),
        wred_dropped_packets=values.get("SAI_PORT_STAT_WRED_DROPPED_PACKETS"),
        tx_packets=None if unicast is None or others is None else min(unicast + others, MOST),
        tx_bytes=values.get("SAI_PORT_STAT_IF_OUT_OCTETS"),
    )


def _of_queue(values: Mapping[str, int], port: Mapping[str, int], queue: int) -> Counters:
    of_priority = _FIELDS_OF_PRIORITY.get(queue, ()) if port else ()
    sent, received, paused, estimated = map(port.get, of_priority) if of_priority else _NOTHING[:4]
    return Counters(
        pfc_tx_frames=sent,
        pfc_rx_frames=received,
        pfc_pause_ns=estimated if paused is None else paused,
        ecn_marked_packets=values.get("SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS"),
        dropped_packets=values.get("SAI_QUEUE_STAT_DROPPED_PACKETS"),
        dropped_bytes=values.get("SAI_QUEUE_STAT_DROPPED_BYTES"),
        wred_dropped_packets=values.get("SAI_QUEUE_STAT_WRED_DROPPED_PACKETS"),
        tx_packets=values.get("SAI_QUEUE_STAT_PACKETS"),
        tx_bytes=values.get("SAI_QUEUE_STAT_BYTES"),
    )


def _add(samples: list[CounterSample], key: SeriesKey, ts_ns: int, counters: Counters) -> None:
    if counters != _NOTHING:
        samples.append(CounterSample(key, ts_ns, counters))
