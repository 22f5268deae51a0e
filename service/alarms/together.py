"""Tells which current alarms began together and so likely have one cause, such as a management network.

Each stays an alarm of its own, to be acknowledged and silenced by itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Sequence
from dataclasses import dataclass
from math import inf

from service.alarms.groups import JoinedAlarm, natural
from telemetry.alarms import Level

AT_ONCE_S = 60.0
"""Longest time between two beginnings: switches are read in turn, and time out one by one."""
NAMED = 4
_LASTING = ("unreachable", "telemetry_silent", "switch_silent")
"""Their value is for how long it has lasted; thresholds differ, so that they are raised one after another."""
_AWAY = frozenset({*_LASTING, "counter_source"})
"""What one sees of a switch that is gone."""


@dataclass(frozen=True, slots=True)
class Together:
    """Alarms that began at once, the worst first: of switches that went away, or of one kind on several.

    One alone where nothing else began with it.
    """

    alarms: tuple[JoinedAlarm, ...]

    @property
    def id(self) -> str:
        """That of the alarm which was raised first."""
        return min(self.alarms, key=lambda one: (one.since_s, one.id)).id

    @property
    def level(self) -> Level:
        return self.alarms[0].level

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(one.kind for one in self.alarms))

    @property
    def switches(self) -> tuple[str, ...]:
        """Those it concerns, leaf2 before leaf10."""
        return tuple(sorted({one.switch for one in self.alarms if one.switch is not None}, key=natural))

    def open_count(self, known: Container[str]) -> int:
        """How many of them have ids that are not ``known``."""
        return sum(one.id not in known for one in self.alarms)

    @property
    def sentence(self) -> str:
        names, more = list(self.switches[:NAMED]), len(self.switches) - NAMED
        last = f"{more} more" if more > 0 else names.pop()
        named = f"{', '.join(names)} and {last}" if names else last
        kinds = ", ".join(kind.replace("_", " ") for kind in self.kinds)
        return f"{named}, at once: {kinds}; look first for one cause of all"


def together(active: Sequence[JoinedAlarm]) -> tuple[Together, ...]:
    """Every one of these alarms in one group, or alone; in the order of each group's first."""
    place = {one.id: number for number, one in enumerate(active)}
    alike = defaultdict[str, list[JoinedAlarm]](list)
    for one in active:
        away = one.kind in _AWAY
        alone = one.incast is not None or (one.switch is None and not away)
        alike[one.id if alone else "away" if away else one.kind].append(one)
    found: list[list[JoinedAlarm]] = []
    for alarms in alike.values():
        before_s = -inf
        for one in sorted(alarms, key=_began_s):
            if _began_s(one) - before_s > AT_ONCE_S:
                found.append([])
            found[-1].append(one)
            before_s = _began_s(one)
    ordered = [tuple(sorted(group, key=lambda one: place[one.id])) for group in found]
    return tuple(map(Together, sorted(ordered, key=lambda group: place[group[0].id])))


def _began_s(alarm: JoinedAlarm) -> float:
    """When what it tells of began, before it had lasted long enough to be told."""
    lead = alarm.lead
    return lead.seen_s - lead.value if alarm.kind in _LASTING else alarm.since_s
