"""Joins alarms of one cause: those of one kind on one switch, and all that one incast does.

An incast fills the queue to its receiver; its switch then pauses whoever sends to it, which may pause others
in turn. What these switches and that queue show while it lasts is one alarm, with its ports in it.

Alarms that began together likely have one cause too, such as a management network, but each stays an alarm of
its own, to be acknowledged and silenced by itself.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import count
from math import inf
from typing import Literal, NamedTuple

from telemetry.alarms import ECN_OFF, LOSSLESS_LOSS, PFC_FRAMES, PFC_STORM, Alarm, Change, Level, Subject
from telemetry.state import NetworkState, QueueRef
from telemetry.topology import Topology, natural

LEAST_SENDERS = 3
"""Least number of concurrent senders to one receiver that makes an incast."""
MOST_INCASTS = 32
MOST_HOPS = 1_000
MOST_LEFT = 1_000
"""Past members kept of one alarm; unknown senders can name any number."""
_OF_ITS_QUEUE = frozenset({ECN_OFF, LOSSLESS_LOSS, PFC_STORM})

Cause = tuple[str, str | None]
ToWallNs = Callable[[float], int]
"""Converts an alarm's monotonic seconds to wall-clock nanoseconds since 1970."""


@dataclass(frozen=True, slots=True)
class IncastSite:
    """An incast and the ``switch`` and ``port`` whose queue it fills; ``senders`` at once at most.

    ``pausing``: the switches that pause others for it, each with its distance from ``switch``, which is one.
    """

    receiver: str
    senders: int
    switch: str
    port: str
    topology: Topology | None = field(default=None, repr=False, compare=False)
    pausing: Mapping[str, int] = field(default_factory=dict, compare=False)

    def spread(self, storms: Iterable[Subject]) -> IncastSite:
        """The same incast with every switch in ``pausing`` that pauses others for it, found by the ports
        paused.
        """
        pausing, found = dict[str, int](), {self.switch}
        paused = [(subject.switch, self._peer(subject)) for subject in storms]
        while found:
            pausing.update(dict.fromkeys(found, len(pausing) and max(pausing.values()) + 1))
            found = {node for node, peer in paused if peer in pausing and node is not None} - pausing.keys()
        return replace(self, pausing=pausing)

    def relates(self, subject: Subject) -> bool:
        """Whether this incast explains an alarm with that subject."""
        if subject.kind == PFC_FRAMES:
            return subject.switch in self.pausing
        here = f"{self.switch} {self.port}"
        if subject.kind in _OF_ITS_QUEUE and (subject.of == here or subject.of.startswith(f"{here} queue ")):
            return True
        peer = self._peer(subject)
        if subject.kind != PFC_STORM or peer is None or peer not in self.pausing:
            return False
        # Ports paused by an incast lie further from its receiver than the switch that pauses them.
        return self.pausing[peer] < self.pausing.get(subject.switch or "", MOST_HOPS)

    def _peer(self, subject: Subject) -> str | None:
        """The node at the far end of a subject's port."""
        if self.topology is None or subject.switch is None:
            return None
        port = subject.of.removeprefix(f"{subject.switch} ")
        index = self.topology.port_index.get((subject.switch, port))
        return None if index is None else self.topology.ports[index].peer


def incast_sites(state: NetworkState, kmax_of: Callable[[QueueRef], int | None]) -> tuple[IncastSite, ...]:
    """The incasts whose queue is over its Kmax where that is known, the deepest first."""
    senders = {one.receiver: one.degree for one in state.incast if one.degree >= LEAST_SENDERS}
    if not senders:
        return ()
    at = {
        (port.node, port.port): port.peer
        for port in state.topology.ports
        if port.port is not None and port.peer in senders
    }
    deepest: dict[str, tuple[float, IncastSite]] = {}
    for queue in state.queues:
        ref, receiver = queue.ref, at.get((queue.ref.switch, queue.ref.port))
        if receiver is None or not queue.has_depth:
            continue
        kmax_bytes, depth_bytes = kmax_of(ref), queue.depth_p99_bytes
        deeper = receiver not in deepest or depth_bytes > deepest[receiver][0]
        if deeper and (kmax_bytes is None or depth_bytes >= kmax_bytes):
            site = IncastSite(receiver, senders[receiver], ref.switch, ref.port, state.topology)
            deepest[receiver] = depth_bytes, site
    worst_first = sorted(deepest.values(), key=lambda one: (-one[0], one[1].receiver))
    return tuple(site for _, site in worst_first[:MOST_INCASTS])


@dataclass(frozen=True, slots=True)
class JoinedAlarm:
    """Alarms of one cause, ``members``, the worst first; ``lead`` stays the same one while none is worse.

    ``since_s`` when the first of them was raised; ``raised_ns`` that in nanoseconds since 1970, where an
    earlier run raised it. An ended one has all members that it ever had.
    """

    id: str
    lead: Alarm
    members: tuple[Alarm, ...]
    since_s: float
    switch: str | None
    incast: IncastSite | None = None
    raised_ns: int | None = None
    ended_s: float | None = None
    why: str | None = None

    @property
    def kind(self) -> str:
        return self.lead.subject.kind

    @property
    def level(self) -> Level:
        return self.lead.level

    @property
    def seen_s(self) -> float:
        return max(member.seen_s for member in self.members)

    @property
    def carried(self) -> bool:
        """Whether an earlier run raised it, and none of it was found again since."""
        return all(member.carried for member in self.members)

    @property
    def sentence(self) -> str:
        others = len(self.members) - 1
        more = f" (and {others} more {'is' if others == 1 else 'are'} in this alarm)" if others else ""
        if self.incast is None:
            return self.lead.sentence + more
        one = self.incast
        return f"{one.senders} senders at once to {one.receiver} (incast): {self.lead.sentence}{more}"


class JoinedChange(NamedTuple):
    """``before`` is the previous level; ``members``: others joined or left, at the same level;
    ``unsilenced``: what silenced it has ended.
    """

    what: Literal["raised", "level", "members", "cleared", "unsilenced"]
    alarm: JoinedAlarm
    before: Level


@dataclass(slots=True, eq=False)
class _Open:
    id: str
    cause: Cause
    lead: Subject
    since_s: float
    raised_ns: int | None = None
    incast: IncastSite | None = None
    members: dict[Subject, Alarm] = field(default_factory=dict)
    left: dict[Subject, Alarm] = field(default_factory=dict)
    published_level: Level = Level.NONE
    published_shape: tuple[frozenset[Subject], str | None] = (frozenset(), None)

    @property
    def shape(self) -> tuple[frozenset[Subject], str | None]:
        return frozenset(self.members), None if self.incast is None else self.incast.receiver

    def joined(self, *, ended_s: float | None = None, why: str | None = None) -> JoinedAlarm:
        every = self.members if ended_s is None else {**self.left, **self.members}
        members = sorted(every.values(), key=lambda one: (-one.level, natural(one.subject.of)))
        if self.lead not in every or every[self.lead].level < members[0].level:
            self.lead = members[0].subject
        return JoinedAlarm(
            self.id,
            every[self.lead],
            tuple(members),
            self.since_s,
            self.cause[1] if self.incast is None else self.incast.switch,
            self.incast,
            self.raised_ns,
            ended_s,
            why,
        )


class AlarmGroups:
    """The joined alarms, and the last ``keep`` that ended."""

    def __init__(self, *, keep: int) -> None:
        self._open: dict[str, _Open] = {}
        self._of: dict[Subject, _Open] = {}
        self._ended: deque[JoinedAlarm] = deque(maxlen=keep)
        self._serial = count()

    @property
    def active(self) -> tuple[JoinedAlarm, ...]:
        """The active joined alarms, worst first, then oldest first."""
        found = [one.joined() for one in self._open.values()]
        return tuple(sorted(found, key=lambda one: (-one.level, one.since_s, one.kind, one.lead.subject.of)))

    @property
    def ended(self) -> tuple[JoinedAlarm, ...]:
        """The joined alarms that ended, newest first."""
        return tuple(reversed(self._ended))

    def has(self, cause: Cause) -> bool:
        return any(one.cause == cause and one.incast is None for one in self._open.values())

    def carry(
        self,
        alarm_id: str,
        members: Sequence[Alarm],
        cause: Cause,
        *,
        incast: IncastSite | None,
        raised_ns: int,
    ) -> None:
        """Continues a joined alarm of an earlier run; ``members`` are active, in no other, the lead first."""
        since_s = min(one.since_s for one in members)
        made = _Open(alarm_id, cause, members[0].subject, since_s, raised_ns, incast)
        self._open[alarm_id] = made
        for one in members:
            made.members[one.subject], self._of[one.subject] = one, made
        made.published_level, made.published_shape = made.joined().level, made.shape

    def update(
        self,
        active: Iterable[Alarm],
        changes: Iterable[Change],
        incasts: Sequence[IncastSite],
        wall_ns: ToWallNs,
    ) -> tuple[JoinedChange, ...]:
        """Sorts the active alarms into joined alarms; ``changes`` say how the others ended."""
        now = {alarm.subject: alarm for alarm in active}
        ended = {change.alarm.subject: change.alarm for change in changes if change.what == "cleared"}
        storms = [subject for subject in now if subject.kind == PFC_STORM]
        sites = [site.spread(storms) for site in incasts]
        self._refresh_members(now, ended, sites)
        by_cause = {one.cause: one for one in self._open.values() if one.incast is None}
        of_incasts = [one for one in self._open.values() if one.incast is not None]
        for alarm in now.values():
            if alarm.subject not in self._of:
                group = self._alarm_for(alarm, sites, by_cause, of_incasts, wall_ns)
                group.members[alarm.subject], self._of[alarm.subject] = alarm, group
                group.left.pop(alarm.subject, None)
        told = [change for site in sites for change in self._merged(site)]
        told.extend(change for one in list(self._open.values()) if (change := self._change(one, ended)))
        return tuple(told)

    def _refresh_members(
        self, now: Mapping[Subject, Alarm], ended: Mapping[Subject, Alarm], sites: Sequence[IncastSite]
    ) -> None:
        """Updates the members; those no longer active leave."""
        by_receiver = {site.receiver: site for site in sites}
        for one in self._open.values():
            if one.incast is not None:
                one.incast = by_receiver.get(one.incast.receiver, one.incast)
            for subject, before in list(one.members.items()):
                if subject in now:
                    one.members[subject] = now[subject]
                else:
                    del one.members[subject], self._of[subject]
                    one.left[subject] = ended.get(subject, before)
                    if len(one.left) > MOST_LEFT:
                        del one.left[next(iter(one.left))]

    def _alarm_for(
        self,
        alarm: Alarm,
        sites: Sequence[IncastSite],
        by_cause: dict[Cause, _Open],
        of_incasts: list[_Open],
        wall_ns: ToWallNs,
    ) -> _Open:
        """The joined alarm for a new one: that of its cause, else a new joined alarm."""
        subject = alarm.subject
        cause = subject.kind, subject.switch
        related = [site for site in sites if site.relates(subject)]
        receivers = {site.receiver for site in related}
        for one in of_incasts:
            same_kind_there = any(member[0] == cause[0] and member[2] == cause[1] for member in one.members)
            if one.incast is not None and (
                one.incast.receiver in receivers
                # What another incast explains is that one's.
                or (not related and one.incast.switch == cause[1] and same_kind_there)
            ):
                return one
        if not related and cause in by_cause:
            return by_cause[cause]
        named = repr((*subject, wall_ns(alarm.since_s), next(self._serial)))
        alarm_id = blake2b(named.encode("utf-8", "backslashreplace"), digest_size=6).hexdigest()
        made = _Open(alarm_id, cause, subject, alarm.since_s, incast=related[0] if related else None)
        self._open[alarm_id] = made
        if related:
            of_incasts.append(made)
        else:
            by_cause[cause] = made
        return made

    def _merged(self, site: IncastSite) -> Iterable[JoinedChange]:
        """Merges all joined alarms that this incast alone explains into the oldest."""
        parts = [
            one
            for one in self._open.values()
            if one.members
            and (one.incast is None or one.incast.receiver == site.receiver)
            and all(site.relates(subject) for subject in one.members)
        ]
        if not parts:
            return
        first, *others = sorted(parts, key=lambda one: (not one.published_level, one.since_s, one.id))
        first.incast = site
        for one in others:
            if one.published_level:
                why = f"it is part of alarm {first.id}: one incast is behind both"
                yield self._end(one, max(member.seen_s for member in one.members.values()), why)
            del self._open[one.id]
            first.members.update(one.members)
            self._of.update(dict.fromkeys(one.members, first))

    def _change(self, one: _Open, ended: Mapping[Subject, Alarm]) -> JoinedChange | None:
        if not one.members:
            last = [ended[subject] for subject in one.left if subject in ended]
            del self._open[one.id]
            ending = max(last, key=lambda alarm: alarm.ended_s or 0.0)
            return self._end(one, ending.ended_s or 0.0, ending.why)
        alarm, before, shape = one.joined(), one.published_level, one.published_shape
        one.published_level, one.published_shape = alarm.level, one.shape
        if not before:
            return JoinedChange("raised", alarm, before)
        if alarm.level is not before:
            return JoinedChange("level", alarm, before)
        return JoinedChange("members", alarm, before) if shape != one.published_shape else None

    def _end(self, one: _Open, ended_s: float, why: str | None) -> JoinedChange:
        alarm = one.joined(ended_s=ended_s, why=why)
        self._ended.append(alarm)
        return JoinedChange("cleared", alarm, one.published_level)


AT_ONCE_S = 60.0
"""Longest time between two of them: switches are read in turn, and time out one by one."""
NAMED = 4
_LASTING = ("unreachable", "telemetry_silent", "switch_silent")
"""Kinds whose value is how long they have lasted; thresholds differ, so they are raised one after another."""
_AWAY = frozenset({*_LASTING, "counter_source"})
"""Kinds that show when a switch is gone."""


@dataclass(frozen=True, slots=True)
class Together:
    """Alarms that began at once, the worst first: of switches that went away, or of one kind on several.

    One alone where nothing else began with it.
    """

    alarms: tuple[JoinedAlarm, ...]

    @property
    def id(self) -> str:
        """The id of the alarm that was raised first."""
        return min(self.alarms, key=lambda one: (one.since_s, one.id)).id

    @property
    def level(self) -> Level:
        return self.alarms[0].level

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(one.kind for one in self.alarms))

    @property
    def switches(self) -> tuple[str, ...]:
        """The switches concerned, leaf2 before leaf10."""
        return tuple(sorted({one.switch for one in self.alarms if one.switch is not None}, key=natural))

    def open_count(self, known: Container[str]) -> int:
        """How many of these alarms have ids that are not in ``known``."""
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
    """When its cause began: for kinds whose value is a duration, earlier than the alarm by that value.

    The value of a carried one is that of its last change, and may be unknown.
    """
    lead = alarm.lead
    return lead.seen_s - lead.value if alarm.kind in _LASTING and not lead.carried else alarm.since_s
