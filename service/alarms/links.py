"""Looks at links for the conditions of ``alarms.links``, and notes those that look at nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import NamedTuple

from telemetry.alarms import Finding, Subject
from telemetry.counters.window import PortRates
from telemetry.links import FIGURES, LinkCondition, LinkEnd, link_ends
from telemetry.state import NetworkState, QueueState
from telemetry.topology import Topology

_Port = tuple[str, str]


class Fabric(NamedTuple):
    """A topology, and whether it was declared."""

    topology: Topology
    declared: bool


class LinkChecks:
    """Measures the conditions' links. ``findings`` and ``notes`` are not called at the same time."""

    def __init__(self, conditions: Sequence[LinkCondition]) -> None:
        self._conditions = conditions
        self._fabric: Fabric | None = None
        self._linked: Mapping[_Port, LinkEnd] = {}
        self._ends: Mapping[_Port, LinkEnd] = {}
        self._covered: Mapping[str, Sequence[LinkEnd]] = {}
        self._measured: set[str] = set()

    def findings(
        self,
        fabric: Fabric | None,
        state: NetworkState | None,
        ports: Sequence[PortRates],
        awaited: Container[str] | None,
        forecast: Mapping[float, Mapping[_Port, float]] | None = None,
    ) -> Iterator[Finding]:
        """Each condition on each link that it covers; within bounds only of ``awaited`` switches (None: all).

        ``state`` None: INT reports say nothing now. Without ``fabric``, ports are those of ``ports``.
        ``forecast``: the utilisation of ports by how far ahead.
        """
        if not self._conditions:
            return
        queues: defaultdict[_Port, list[QueueState]] = defaultdict(list)
        for queue in () if state is None else state.queues:
            queues[queue.ref.switch, queue.ref.port].append(queue)
        counted = {(one.switch, one.port): one for one in ports}
        reporting = {switch for switch, _ in queues}
        self._look_up(fabric, queues.keys() | counted.keys())
        for condition in self._conditions:
            ahead = (forecast or {}).get(condition.ahead_s or 0.0, {})
            for end in self._covered[condition.kind]:
                port = end.switch, end.port
                reported = queues.get(port, []) if end.switch in reporting else None
                value = condition.value(end, reported, counted.get(port), ahead.get(port))
                if value is None:
                    continue
                self._measured.add(condition.kind)
                if awaited is None or end.switch in awaited or condition.rule.reached(value):
                    subject = Subject(condition.kind, end.name, end.switch)
                    yield Finding(subject, value, condition.sentence(end, value))

    def _look_up(self, fabric: Fabric | None, seen: set[_Port]) -> None:
        """Finds what each condition covers, where ports or the topology are new."""
        if fabric is not None and fabric != self._fabric:
            # A link that packets no longer cross, as it is paused, is in no discovered topology: while its
            # port is seen it keeps its name, or an alarm on it would be another one.
            kept = set() if fabric.declared else seen & self._linked.keys()
            ends = link_ends(fabric.topology, declared=fabric.declared)
            self._linked = {port: self._linked[port] for port in kept} | ends
        elif self._covered and seen <= self._ends.keys():
            return
        self._fabric = fabric or self._fabric
        # Ports that neither telemetry nor the topology has any more go: devices may invent names.
        self._ends = {**{port: LinkEnd(*port) for port in sorted(seen)}, **self._linked}
        self._covered = {
            one.kind: [end for end in self._ends.values() if one.covers(end)] for one in self._conditions
        }

    def notes(self) -> tuple[str, ...]:
        """A sentence on each condition that no link ever fitted, or whose figure was never known."""
        if not self._ends:
            return ()
        return tuple(note for one in self._conditions if (note := self._note(one)) is not None)

    def _note(self, condition: LinkCondition) -> str | None:
        if condition.kind in self._measured:
            return None
        name, covered = f"alarms.links {condition.name!r}", len(self._covered[condition.kind])
        if covered:
            source = FIGURES[condition.figure].source
            of = f" of queues {', '.join(map(str, sorted(condition.queues)))}" if condition.queues else ""
            rate = ", and the port's rate" if condition.figure.endswith("utilisation") else ""
            return (
                f"{name} watches nothing so far: {condition.figure}{of} is not known of any of its {covered} "
                f"ports; it needs {source}{rate}"
            )
        first = next(iter(self._ends.values()))
        roles = sorted({end.role for end in self._ends.values() if end.role is not None})
        given = [*condition.ports, *condition.roles]
        return (
            f"{name} watches nothing so far: none of {len(self._ends)} known ports fits "
            f"{', '.join(given)}; ports are such as {first.switch}:{first.port}, "
            f"roles are {', '.join(roles) or 'not known without a topology'}"
        )
