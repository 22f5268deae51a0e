"""What SONiC's orchagent makes of WRED_PROFILE, QUEUE and SWITCH_HASH, and the hardware behind it; opens no
connection.

It follows sonic-swss ``orchagent/qosorch.cpp`` and ``orch.cpp`` (read at e6b0c5b, 2026-08): one unknown
field rejects a row, thresholds are int32, Kmin above Kmax is rejected, a known profile is set attribute by
attribute, with a threshold deferred that would cross the other, and a new one is one create call. A profile
that is removed while a queue runs it is neither bound nor set again until no queue does. What waits is tried
again. A hash function that the switch has is one attribute of it, and is never removed (``switchorch.cpp``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from twin.watermark import Watermark

Row = Mapping[str, str]

_INT32 = 2**31 - 1
_THRESHOLDS = {
    f"{colour}_{end}_threshold": (f"SAI_WRED_ATTR_{colour.upper()}_{end.upper()}_THRESHOLD", colour, end)
    for colour in ("green", "yellow", "red")
    for end in ("min", "max")
}
_PLAIN = {
    f"{colour}_drop_probability": f"SAI_WRED_ATTR_{colour.upper()}_DROP_PROBABILITY"
    for colour in ("green", "yellow", "red")
} | {
    f"wred_{colour}_enable": f"SAI_WRED_ATTR_{colour.upper()}_ENABLE" for colour in ("green", "yellow", "red")
}
_MODES = {
    f"ecn_{colours}": f"SAI_ECN_MARK_MODE_{colours.upper()}"
    for colours in ("none", "green", "yellow", "red", "green_yellow", "green_red", "yellow_red", "all")
}
_MARKING_GREEN = frozenset(
    _MODES[f"ecn_{colours}"] for colours in ("all", "green", "green_yellow", "green_red")
)
_MIN, _MAX = "SAI_WRED_ATTR_GREEN_MIN_THRESHOLD", "SAI_WRED_ATTR_GREEN_MAX_THRESHOLD"
_PMAX = "SAI_WRED_ATTR_GREEN_DROP_PROBABILITY"

NULL = "oid:0x0"
WRED = "ASIC_STATE:SAI_OBJECT_TYPE_WRED:"
QUEUE = "ASIC_STATE:SAI_OBJECT_TYPE_QUEUE:"
BOUND = "SAI_QUEUE_ATTR_WRED_PROFILE_ID"
SWITCH = "ASIC_STATE:SAI_OBJECT_TYPE_SWITCH:oid:0x21000000000000"
HASHED_BY = "SAI_SWITCH_ATTR_ECMP_DEFAULT_HASH_ALGORITHM"
ALGORITHMS = ("CRC", "XOR", "RANDOM", "CRC_32LO", "CRC_32HI", "CRC_CCITT", "CRC_XOR")


class RejectedError(ValueError):
    """A row that orchagent drops whole, and says so in its log."""


@dataclass
class Faults:
    """How it misbehaves.

    ``ignoring``: it hears nothing. ``refusing``: the hardware takes nothing. ``half``: it takes the first
    half of a profile's attributes, and binds the first half of the ports. ``rounding_bytes``: thresholds go
    up to a multiple of it in hardware. ``deferring`` False: an image before pull request 2379. ``lag_s``:
    how late it hears.
    """

    ignoring: bool = False
    refusing: bool = False
    half: bool = False
    rounding_bytes: int = 1
    deferring: bool = True
    lag_s: float = 0.0


@dataclass
class Orchagent:
    """Its own state, and the hardware's.

    ``queues`` gives the object of each queue, by (port, queue). ``write(key, fields)`` sets fields of
    ASIC_DB, or removes the key where they are None. ``history`` is every (Kmin, Kmax) of green that a queue
    has run, moment by moment, and ``log`` what it complained of.
    """

    queues: Mapping[tuple[str, int], str]
    write: Callable[[str, dict[str, str] | None], None]
    faults: Faults = field(default_factory=Faults)
    history: list[tuple[int, int]] = field(default_factory=list)
    log: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._objects: dict[str, str] = {}
        self._stored: dict[str, dict[tuple[str, str], int]] = {}
        self._wred: dict[str, dict[str, str]] = {}
        self._bound: dict[tuple[str, int], str] = {}
        self._refers: dict[str, str] = {}
        self._removing: set[str] = set()
        self._waiting: dict[tuple[str, str], Row | None] = {}
        self._made = 0

    def hardware(self, port: str, queue: int) -> Watermark | None:
        """What that queue runs; None where it does not mark green."""
        row = self._wred.get(self._bound.get((port, queue), NULL))
        if row is None or row.get("SAI_WRED_ATTR_GREEN_ENABLE") != "true":
            return None
        if row.get("SAI_WRED_ATTR_ECN_MARK_MODE") not in _MARKING_GREEN:
            return None
        return Watermark(int(row[_MIN]), int(row[_MAX]), int(row[_PMAX]) / 100)

    def heard(self, table: str, key: str, row: Row | None) -> None:
        """A changed key and what it holds now; None: it is gone."""
        self._waiting.pop((table, key), None)
        if self._step(table, key, row):
            self._waiting[table, key] = row
        while any(not self._step(*waiting, row) for waiting, row in self._retries()):
            pass  # what was done may be what others wait for

    def _retries(self) -> Iterator[tuple[tuple[str, str], Row | None]]:
        for waiting in list(self._waiting):
            row = self._waiting.pop(waiting)
            yield waiting, row
            # Not reached where the step was made: the generator is dropped then, and what waits is kept.
            self._waiting[waiting] = row

    def _step(self, table: str, key: str, row: Row | None) -> bool:
        """Whether it has to be tried again."""
        try:
            if table == "WRED_PROFILE":
                return self._set_profile(key, row) if row is not None else self._remove_profile(key)
            if table == "SWITCH_HASH":
                return self._hash(row or {})
            return self._bind(key, row or {})
        except RejectedError as error:
            self.log.append(f"{table}|{key}: {error}")
            return False

    def _hash(self, row: Row) -> bool:
        algorithm = row.get("ecmp_hash_algorithm")
        if algorithm is None:
            raise RejectedError("Failed to remove switch ECMP hash algorithm: operation is not supported")
        if algorithm not in ALGORITHMS or self.faults.refusing:
            raise RejectedError("capability is not supported")
        self.write(SWITCH, {HASHED_BY: f"SAI_HASH_ALGORITHM_{algorithm}"})
        return False

    def _set_profile(self, name: str, row: Row) -> bool:
        if name in self._removing:
            return True
        attributes = self._attributes(name, row)
        if self.faults.refusing:
            raise RejectedError("SAI_STATUS_FAILURE")
        oid = self._objects.get(name)
        if oid is None:
            self._made += 1
            oid = self._objects[name] = f"oid:0x13{self._made:014x}"
            made = {"SAI_WRED_ATTR_WEIGHT": "0", **dict(attributes)}
            for colour in ("GREEN", "YELLOW", "RED"):
                if made.get(f"SAI_WRED_ATTR_{colour}_ENABLE") == "true":
                    made.setdefault(f"SAI_WRED_ATTR_{colour}_DROP_PROBABILITY", "100")
            self._set(oid, made)
            return False
        if self.faults.half:
            attributes = attributes[: len(attributes) // 2]
        for attribute, value in attributes:
            self._set(oid, {attribute: value})
        return False

    def _attributes(self, name: str, row: Row) -> list[tuple[str, str]]:
        stored = self._stored.get(name, {})
        current, normal, deferred = dict(stored), [], []
        for said, value in row.items():
            if said in _THRESHOLDS:
                attribute, colour, end = _THRESHOLDS[said]
                number = self._number(said, value)
                other = stored.get((colour, "min" if end == "max" else "max"), 0)
                crosses = other > number if end == "max" else other < number
                (deferred if crosses and self.faults.deferring else normal).append(
                    (attribute, str(self._rounded(number)))
                )
                current[colour, end] = number
            elif said in _PLAIN:
                if said.startswith("wred_") and value not in ("true", "false"):
                    raise RejectedError(f"{said} is {value}")
                if not said.startswith("wred_"):
                    self._number(said, value)
                normal.append((_PLAIN[said], value))
            elif said == "ecn":
                if value not in _MODES:
                    raise RejectedError(f"ecn is {value}")
                normal.append(("SAI_WRED_ATTR_ECN_MARK_MODE", _MODES[value]))
            else:
                raise RejectedError(f"Unknown wred profile field:{said}")
        for colour in ("green", "yellow", "red"):
            if current.get((colour, "min"), 0) > current.get((colour, "max"), 0):
                raise RejectedError("min threshold is greater than max threshold")
        self._stored[name] = current
        return normal + deferred

    def _number(self, name: str, value: str) -> int:
        if not value.lstrip("-").isdecimal() or not -_INT32 <= int(value) <= _INT32:
            raise RejectedError(f"stoi cannot read {name} {value}")
        return int(value)

    def _rounded(self, number: int) -> int:
        return math.ceil(number / self.faults.rounding_bytes) * self.faults.rounding_bytes

    def _set(self, oid: str, fields: dict[str, str]) -> None:
        self._wred.setdefault(oid, {}).update(fields)
        self.write(WRED + oid, fields)
        if oid in self._bound.values():
            self._ran(oid)

    def _remove_profile(self, name: str) -> bool:
        oid = self._objects.get(name)
        if oid is None:
            raise RejectedError("not found")
        if name in self._refers.values():
            self._removing.add(name)
            return True
        self._removing.discard(name)
        del self._objects[name], self._wred[oid]
        self.write(WRED + oid, None)
        return False

    def _bind(self, key: str, row: Row) -> bool:
        name = row.get("wred_profile", "")
        name = name.removeprefix("[WRED_PROFILE|").removesuffix("]")
        if name and (name not in self._objects or name in self._removing):
            return True
        if not name and key not in self._refers:
            return False  # it never was bound
        self._refers.pop(key, None)
        if name:
            self._refers[key] = name
        oid = self._objects.get(name, NULL)
        if self.faults.refusing:
            raise RejectedError("SAI_STATUS_FAILURE")
        for queue in self._half(queues_of(key)):
            if queue not in self.queues:
                raise RejectedError(f"no queue {queue}")
            self._bound[queue] = oid
            self.write(QUEUE + self.queues[queue], {BOUND: oid})
            if oid != NULL:
                self._ran(oid)
        return False

    def _half(self, queues: list[tuple[str, int]]) -> list[tuple[str, int]]:
        if not self.faults.half:
            return queues
        ports = sorted({port for port, _ in self.queues})
        return [queue for queue in queues if ports.index(queue[0]) < (len(ports) + 1) // 2]

    def _ran(self, oid: str) -> None:
        row = self._wred[oid]
        self.history.append((int(row.get(_MIN, "0")), int(row.get(_MAX, "0"))))


def queues_of(key: str) -> list[tuple[str, int]]:
    """The (port, queue) pairs of a QUEUE key without its table."""
    ports, _, numbers = key.rpartition("|")
    low, _, high = numbers.partition("-")
    names = [ports] if "|" in ports else ports.split(",")
    return [(name, queue) for name in names for queue in range(int(low), int(high or low) + 1)]
