"""Alarms raised and cleared from measured values, with levels and hysteresis; imports nothing of ours.

A pure machine: the caller measures and brings the time. A value at or over a level's threshold for as long as
the rule holds raises that level; a value under the level's lower, clearing threshold for as long as the rule
waits leaves it. Between the two nothing changes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from math import inf
from typing import Literal, NamedTuple

MOST_WATCHED = 2_048
FORGOTTEN = "it is not measured any more"
OUTDONE = "there are too many alarms, and worse ones"


class Level(IntEnum):
    """How bad it is. ``NONE`` is no alarm."""

    NONE = 0
    WARNING = 1
    CRITICAL = 2

    @property
    def label(self) -> str:
        """The name used in JSON and metrics: ``warning``, ``critical``."""
        return self.name.lower()


LEVELS = (Level.WARNING, Level.CRITICAL)


class Subject(NamedTuple):
    """What an alarm is about: what ``kind`` of trouble, ``of`` what, in words, and on which ``switch``."""

    kind: str
    of: str
    switch: str | None = None


class Finding(NamedTuple):
    """What was measured now. Larger is worse; ``sentence`` says what it means, if it is too large. ``worst``
    is the level that it can be at most, however large.
    """

    subject: Subject
    value: float
    sentence: str
    worst: Level = Level.CRITICAL


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """When a kind of alarm is raised and cleared.

    ``warning``, ``critical``: the value from which on it is one (None: it never is). ``clear_ratio``: that
    share of a threshold is the one below which its level is left. ``hold_s`` and ``clear_s``: how long the
    value must be over, or under, in a row.
    """

    warning: float | None
    critical: float | None
    hold_s: float
    clear_s: float
    clear_ratio: float = 0.5

    def __post_init__(self) -> None:
        wrong = not 0 < self.clear_ratio <= 1 or self.hold_s < 0 or self.clear_s < 0
        given = [threshold for threshold in (self.warning, self.critical) if threshold is not None]
        if wrong or any(threshold <= 0 for threshold in given) or given != sorted(given):
            raise ValueError(
                f"rule {self}: thresholds are above 0, warning is at most critical, clear_ratio lies in "
                "(0, 1] and times are 0 or more; correct it"
            )

    def threshold(self, level: Level) -> float:
        """From where on a value is of that level; infinite where none is."""
        given = {Level.WARNING: self.warning, Level.CRITICAL: self.critical}.get(level)
        return inf if given is None else given

    def reached(self, value: float, worst: Level = Level.CRITICAL) -> Level:
        """The worst level, ``worst`` at most, whose threshold that value is at or over."""
        over = (level for level in LEVELS if level <= worst and value >= self.threshold(level))
        return max(over, default=Level.NONE)


@dataclass(frozen=True, slots=True)
class Alarm:
    """An alarm as it is, or was when it ended. Times are the caller's seconds.

    ``since_s`` when it was raised, ``seen_s`` when its value was last at or over its level's threshold,
    ``ended_s`` when it was cleared and ``why`` if that was not for a value that fell.
    """

    subject: Subject
    level: Level
    value: float
    threshold: float
    since_s: float
    seen_s: float
    sentence: str
    ended_s: float | None = None
    why: str | None = None


class Change(NamedTuple):
    """Something to tell: ``before`` is the level it had."""

    what: Literal["raised", "level", "cleared"]
    alarm: Alarm
    before: Level


@dataclass(slots=True)
class _Watched:
    finding: Finding
    measured_s: float
    over_s: dict[Level, float] = field(default_factory=dict)
    under_s: dict[Level, float] = field(default_factory=dict)
    level: Level = Level.NONE
    since_s: float = 0.0
    seen_s: float = 0.0


def _rank(watched: _Watched) -> tuple[Level, bool]:
    return watched.level, watched.finding.subject.switch is not None


class AlarmBoard:
    """The alarms of now, and the last ``keep`` that ended.

    A subject that is no longer measured stays as it is for ``forget_s``. At most ``most`` subjects are
    watched. Where there is no room, what is over a critical threshold takes the place of the mildest that
    is no alarm, then of the mildest warning, and, on a switch, of a critical one on none: senders that nobody
    knows may have any number of those. Of what comes at once the worst is taken first, and the rest is
    counted in ``left_off``.
    """

    def __init__(
        self, rules: Mapping[str, Rule], *, forget_s: float, keep: int = 100, most: int = MOST_WATCHED
    ) -> None:
        self._rules = dict(rules)
        self._forget_s = forget_s
        self._most = most
        self._watched: dict[Subject, _Watched] = {}
        self._ended: deque[Alarm] = deque(maxlen=keep)
        self.left_off = 0

    def __len__(self) -> int:
        """Subjects watched, alarms or not."""
        return len(self._watched)

    @property
    def switches(self) -> frozenset[str]:
        """Switches of which a subject is watched: only of these does it matter that something is well."""
        return frozenset(subject.switch for subject in self._watched if subject.switch is not None)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Every kind there is a rule for."""
        return tuple(self._rules)

    @property
    def active(self) -> tuple[Alarm, ...]:
        """The alarms, the worst level first, and of those the one raised first."""
        found = [self._alarm(one) for one in self._watched.values() if one.level]
        return tuple(sorted(found, key=lambda alarm: (-alarm.level, alarm.since_s, alarm.subject[:2])))

    @property
    def ended(self) -> tuple[Alarm, ...]:
        """Those that ended, the last one first."""
        return tuple(reversed(self._ended))

    def update(self, now_s: float, findings: Iterable[Finding]) -> tuple[Change, ...]:
        """Takes what was measured at ``now_s`` (which never goes back): each subject at most once.

        A subject that is not among the findings was not measured. A value that is no number is no
        measurement either.
        """
        changes: list[Change] = []
        new: list[tuple[Level, bool, float, Finding]] = []
        for finding in findings:
            rule = self._rules.get(finding.subject.kind)
            if rule is None or finding.value != finding.value:
                continue
            watched = self._watched.get(finding.subject)
            if watched is not None:
                self._judge(watched, finding, now_s, changes)
            elif reached := rule.reached(finding.value, finding.worst):
                known = finding.subject.switch is not None
                new.append((reached, known, finding.value / rule.threshold(reached), finding))
        new.sort(key=lambda one: one[:3], reverse=True)
        self.left_off = 0
        self._take(new, now_s, changes)
        for watched in list(self._watched.values()):
            if now_s - watched.measured_s > self._forget_s:
                self._end(watched, now_s, FORGOTTEN, changes)
        return tuple(changes)

    def _take(
        self, new: list[tuple[Level, bool, float, Finding]], now_s: float, changes: list[Change]
    ) -> None:
        """Watches these, the worst first, for as long as there is room or something milder."""
        milder: list[_Watched] | None = None
        for place, (reached, known, _, finding) in enumerate(new):
            if len(self._watched) >= self._most:
                if milder is None:
                    milder = sorted(self._watched.values(), key=_rank, reverse=True)
                if reached < Level.CRITICAL or not milder or _rank(milder[-1]) >= (reached, known):
                    self.left_off = len(new) - place
                    return
                self._end(milder.pop(), now_s, OUTDONE, changes)
            watched = self._watched[finding.subject] = _Watched(finding, now_s)
            self._judge(watched, finding, now_s, changes)

    def _judge(self, watched: _Watched, finding: Finding, now_s: float, changes: list[Change]) -> None:
        rule, value = self._rules[finding.subject.kind], finding.value
        watched.finding, watched.measured_s = finding, now_s
        before = wanted = watched.level
        for level in LEVELS:
            threshold = rule.threshold(level) if level <= finding.worst else inf
            if value >= threshold:
                watched.under_s.pop(level, None)
                if now_s - watched.over_s.setdefault(level, now_s) >= rule.hold_s:
                    wanted = max(wanted, level)
                continue
            watched.over_s.pop(level, None)
            if value >= threshold * rule.clear_ratio:
                watched.under_s.pop(level, None)
            else:
                watched.under_s.setdefault(level, now_s)
        while wanted and now_s - watched.under_s.get(wanted, inf) >= rule.clear_s:
            wanted = Level(wanted - 1)
        if rule.threshold(wanted) == inf:
            wanted = Level.NONE  # from critical down, where nothing is a warning
        if value >= rule.threshold(wanted):
            watched.seen_s = now_s
        if not wanted and (before or not watched.over_s):
            self._end(watched, now_s, None, changes)
        elif wanted is not before:
            watched.level = wanted
            if not before:
                watched.since_s = now_s
            changes.append(Change("level" if before else "raised", self._alarm(watched), before))

    def _end(self, watched: _Watched, now_s: float, why: str | None, changes: list[Change]) -> None:
        del self._watched[watched.finding.subject]
        if watched.level:
            alarm = self._alarm(watched, ended_s=now_s, why=why)
            self._ended.append(alarm)
            changes.append(Change("cleared", alarm, watched.level))

    def _alarm(self, watched: _Watched, *, ended_s: float | None = None, why: str | None = None) -> Alarm:
        rule = self._rules[watched.finding.subject.kind]
        return Alarm(
            subject=watched.finding.subject,
            level=watched.level,
            value=watched.finding.value,
            threshold=rule.threshold(watched.level),
            since_s=watched.since_s,
            seen_s=watched.seen_s,
            sentence=watched.finding.sentence,
            ended_s=ended_s,
            why=why,
        )
