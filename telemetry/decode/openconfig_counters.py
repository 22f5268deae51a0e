"""OpenConfig counters to counter samples.

Sources: openconfig-qos-interfaces.yang (grouping qos-interface-queue-state) and openconfig-interfaces.yang
(interface counters), openconfig/public 94f5896, 2026-07. The public models have no PFC counters, only those
of link-level pauses (in-mac-pause-frames).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from telemetry.counters.model import MOST, Counters, CounterSample, SeriesKey
from telemetry.decode.body import Polled, count_of
from telemetry.decode.openconfig_leaves import Step, leaves

QUEUES = ("qos", "interfaces", "interface", "output", "queues", "queue", "state")
"""Path of a queue's counters; an interface's key is ``interface-id``, a queue's ``name``."""
PORTS = ("interfaces", "interface", "state", "counters")
"""Path of an interface's counters; its key is ``name``."""

_OF_QUEUE = {
    "ecn-marked-pkts": "ecn_marked_packets",
    "dropped-pkts": "dropped_packets",
    "dropped-octets": "dropped_bytes",
    "transmit-pkts": "tx_packets",
    "transmit-octets": "tx_bytes",
}
_OF_PORT = {"out-discards": "dropped_packets", "out-pkts": "tx_packets", "out-octets": "tx_bytes"}
_LONGEST_NAME = 256
_REMEMBERED_CALLS = 16  # of ``samples``: a switch whose names never end would fill the memory


@dataclass(slots=True)
class _Reading:
    """Last reading of a port or queue: the switch's time, the time of its sample, and its counters so far.

    ``call`` is the number of the call of ``samples`` that it came before.
    """

    at_ns: int
    sample_ns: int
    call: int
    fields: set[str] = field(default_factory=set)


class OpenConfigCounters:
    """Collects values as a switch sends them (a tree, a container or single leaves) until ``samples``.

    ``queues`` maps the switch's queue names to numbers; ``wants`` selects ports. Never raises: a value that
    is not a counter is left out.
    """

    def __init__(self, switch: str, queues: Mapping[str, int], wants: Callable[[str], bool]) -> None:
        self._switch = switch
        self._queues = queues
        self._wants = wants
        self._found: dict[SeriesKey, dict[str, int]] = {}
        self._problems: list[str] = []
        self._last: dict[SeriesKey, _Reading] = {}
        self._marks = False
        self._call = 0

    def add(self, path: Sequence[Step], value: object, ts_ns: int) -> None:
        """Adds a value at a path, read at ``ts_ns``; other parts of the models are ignored."""
        for leaf in leaves(path, value, (QUEUES, PORTS)):
            fields = _OF_QUEUE if leaf.place == QUEUES else _OF_PORT
            if leaf.name in fields:
                self._leaf(leaf.name, fields[leaf.name], leaf.keys, leaf.value, ts_ns)

    def samples(self) -> Polled:
        """The values since the last call, one sample per port and queue."""
        made = [
            CounterSample(key, self._last[key].sample_ns, Counters(**found))
            for key, found in self._found.items()
        ]
        problems, self._problems, self._found = self._problems, [], {}
        self._call += 1
        oldest = self._call - _REMEMBERED_CALLS
        self._last = {key: last for key, last in self._last.items() if last.call >= oldest}
        notes = ["it gives no count of PFC frames: OpenConfig's models have none"]
        if not self._marks:
            notes.append("it gives no count of marked packets (ecn-marked-pkts)")
        return Polled(tuple(made), tuple(problems), tuple(notes) if made else ())

    def _leaf(self, name: str, counter: str, keys: Mapping[str, str], value: object, ts_ns: int) -> None:
        port, queue = keys.get("interface", ""), None
        if name in _OF_QUEUE:
            queue = self._queues.get(keys.get("queue", ""))
            if queue is None:
                return
        if not 0 < len(port) <= _LONGEST_NAME or not self._wants(port):
            return
        key = SeriesKey(self._switch, port, queue)
        try:
            count = count_of(value)
        except ValueError as error:
            where = port if queue is None else f"{port} queue {keys['queue']}"
            self._problems.append(f"{where} {name}: received {error}; it was left out")
            return
        self._marks |= counter == "ecn_marked_packets"
        last = self._last.get(key)
        if last is not None:
            last.call = self._call
        if key in self._found and last is not None:
            last.at_ns = max(ts_ns, last.at_ns)
            last.sample_ns = max(ts_ns, last.sample_ns)
        elif last is not None and ts_ns == last.at_ns and last.sample_ns < MOST:
            if counter in last.fields:
                return  # a repetition
            # The rest of a reading that ``samples`` split: the window needs a later time for it.
            last.sample_ns += 1
        else:
            last = self._last[key] = _Reading(ts_ns, ts_ns, self._call)
        last.fields.add(counter)
        self._found.setdefault(key, {})[counter] = count
