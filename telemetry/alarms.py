"""Alarms raised and cleared from measured values, with levels and hysteresis; the caller supplies the time.

A value at or over a level's threshold for ``hold_s`` raises that level; a value under the level's lower,
clearing threshold for ``clear_s`` clears it. Between the two nothing changes.

The functions ``…_findings`` measure queue states, port rates and sequence counts. Each yields every subject
it could measure, good or bad; what it leaves out is unknown. As ports and queues may be many, figures of 0 on
switches not in ``awaited`` (None: all are) are left out too.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from math import inf
from typing import Literal, NamedTuple

from telemetry.counters.window import PortRates
from telemetry.decode.p4.sequence import Sender, SequenceCounts
from telemetry.state import QueueRef, QueueState
from telemetry.topology import GBPS

PFC_STORM = "pfc_storm"
PFC_FRAMES = "pfc_frames"
LOSSLESS_LOSS = "lossless_loss"
ECN_OFF = "ecn_off"
DECLARED_RATE = "declared_rate"
SEQUENCE_GAPS = "sequence_gaps"

LEAST_SAMPLES = 200
"""Samples of a queue below which missing marks prove nothing."""

RATE_SLACK = 1.05
"""A port carries more than declared from here on: rates are rounded, and clocks are a little off."""

RATE_ERRORS = 4.0
"""Standard errors of what a port carries, by the packets sampled there, that must not explain it."""

MOST_WATCHED = 2_048
FORGOTTEN = "it is not measured any more"
GONE = "the service ended while it was there, and when it ran again it was not: it ended by then"
UNSEEN = "the service ended while it was there, and it has not been measured since"
OUTDONE = "there are too many alarms, and worse ones"


class Level(IntEnum):
    """Severity. ``NONE`` is no alarm."""

    NONE = 0
    WARNING = 1
    CRITICAL = 2

    @property
    def label(self) -> str:
        """The name used in JSON and metrics."""
        return self.name.lower()


LEVELS = (Level.WARNING, Level.CRITICAL)


class Subject(NamedTuple):
    """What an alarm is about: the ``kind`` of trouble, the object (``of``), and its ``switch``."""

    kind: str
    of: str
    switch: str | None = None


class Finding(NamedTuple):
    """A measured value; larger is worse unless its rule says ``below``. ``sentence`` explains a bad one,
    ``worst`` caps its level.
    """

    subject: Subject
    value: float
    sentence: str
    worst: Level = Level.CRITICAL


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """When a kind of alarm is raised and cleared.

    ``warning``, ``critical``: thresholds (None: never). ``clear_ratio``: the share of a threshold below which
    its level is cleared. ``hold_s`` and ``clear_s``: how long the value must be over, or under, without a
    break. ``below``: small values are the bad ones, and a level is cleared above threshold ÷ ``clear_ratio``.
    """

    warning: float | None
    critical: float | None
    hold_s: float
    clear_s: float
    clear_ratio: float = 0.5
    below: bool = False

    def __post_init__(self) -> None:
        wrong = not 0 < self.clear_ratio <= 1 or self.hold_s < 0 or self.clear_s < 0
        given = [threshold for threshold in (self.warning, self.critical) if threshold is not None]
        if wrong or any(threshold <= 0 for threshold in given) or given != sorted(given):
            raise ValueError(
                f"rule {self}: thresholds are above 0, warning is at most critical, clear_ratio lies in "
                "(0, 1] and times are 0 or more; correct it"
            )

    def threshold(self, level: Level) -> float:
        """The threshold of a level; infinite where it has none."""
        given = {Level.WARNING: self.warning, Level.CRITICAL: self.critical}.get(level)
        return inf if given is None else given

    def severity(self, value: float) -> float:
        """The value, or its reciprocal where small ones are bad: larger is worse. Always finite."""
        return 1 / max(value, 1e-300) if self.below else value

    def limit(self, level: Level) -> float:
        """The severity from which on a level is reached; infinite where it has none."""
        threshold = self.threshold(level)
        return threshold if threshold == inf else self.severity(threshold)

    def reached(self, value: float, worst: Level = Level.CRITICAL) -> Level:
        """The worst level, ``worst`` at most, whose threshold the value reaches."""
        severity = self.severity(value)
        over = (level for level in LEVELS if level <= worst and severity >= self.limit(level))
        return max(over, default=Level.NONE)


@dataclass(frozen=True, slots=True)
class Alarm:
    """An active alarm, or one that ended. Times are the caller's seconds.

    ``since_s`` when it was raised, ``seen_s`` when its value last reached its level's threshold, ``ended_s``
    when it was cleared, ``why`` if not because the value fell. ``carried``: it was there when an earlier run
    ended, and has not been found again in this one.
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
    carried: bool = False


class Change(NamedTuple):
    """A change to report: ``before`` is the previous level."""

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
    carried: bool = False


def _rank(watched: _Watched) -> tuple[Level, bool]:
    return watched.level, watched.finding.subject.switch is not None


class AlarmBoard:
    """The active alarms.

    A subject that is no longer measured is kept for ``forget_s``. At most ``most`` subjects are watched. When
    full, a critical finding replaces the mildest subject without an alarm, then the mildest warning; one on a
    switch also replaces a critical one on no switch, because unknown senders can cause any number of those.
    Of simultaneous findings the worst come first; those left out are counted in ``left_off``.
    """

    def __init__(self, rules: Mapping[str, Rule], *, forget_s: float, most: int = MOST_WATCHED) -> None:
        self._rules = dict(rules)
        self._forget_s = forget_s
        self._most = most
        self._watched: dict[Subject, _Watched] = {}
        self.left_off = 0

    def __len__(self) -> int:
        """Subjects watched, with or without an alarm."""
        return len(self._watched)

    @property
    def switches(self) -> frozenset[str]:
        """Switches with a watched subject: only theirs can be cleared by a value of 0."""
        return frozenset(subject.switch for subject in self._watched if subject.switch is not None)

    @property
    def active(self) -> tuple[Alarm, ...]:
        """The alarms, worst level first, then oldest first."""
        found = [self._alarm(one) for one in self._watched.values() if one.level]
        return tuple(sorted(found, key=lambda alarm: (-alarm.level, alarm.since_s, alarm.subject[:2])))

    def carry(self, now_s: float, alarm: Alarm) -> Alarm | None:
        """Goes on with an alarm of an earlier run, last known to be there at ``alarm.seen_s``.

        It ends then, where its first measurements here say that it is over, or none come for ``forget_s``.
        None, and nothing is done, where it is active already, its kind has no rule, or there is no room.
        """
        known = self._watched.get(alarm.subject)
        full = known is None and len(self._watched) >= self._most
        if full or (known is not None and known.level) or alarm.subject.kind not in self._rules:
            return None
        finding = Finding(alarm.subject, alarm.value, alarm.sentence)
        watched = self._watched[alarm.subject] = _Watched(
            finding, now_s, level=alarm.level, since_s=alarm.since_s, seen_s=alarm.seen_s, carried=True
        )
        return self._alarm(watched)

    def update(self, now_s: float, findings: Iterable[Finding]) -> tuple[Change, ...]:
        """Applies the findings of ``now_s`` (monotonic), each subject at most once; NaN is unmeasured."""
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
                excess = rule.severity(finding.value) / rule.limit(reached)
                new.append((reached, known, excess, finding))
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
        """Watches these, worst first, while there is room or something milder to replace."""
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
        rule = self._rules[finding.subject.kind]
        severity = rule.severity(finding.value)
        watched.finding, watched.measured_s = finding, now_s
        before = wanted = watched.level
        for level in LEVELS:
            limit = rule.limit(level) if level <= finding.worst else inf
            if severity >= limit:
                watched.under_s.pop(level, None)
                if now_s - watched.over_s.setdefault(level, now_s) >= rule.hold_s:
                    wanted = max(wanted, level)
                continue
            watched.over_s.pop(level, None)
            if severity >= limit * rule.clear_ratio:
                watched.under_s.pop(level, None)
            else:
                watched.under_s.setdefault(level, now_s)
        # Over the clearing threshold of any level it has: it is there again.
        if any(
            level <= before and level not in watched.under_s for level in LEVELS if rule.limit(level) < inf
        ):
            watched.carried = False
        while wanted and now_s - watched.under_s.get(wanted, inf) >= rule.clear_s:
            wanted = Level(wanted - 1)
        if rule.limit(wanted) == inf:
            wanted = Level.NONE  # down from critical, where there is no warning threshold
        if severity >= rule.limit(wanted):
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
            ended_s = now_s
            if watched.carried:
                ended_s = max(watched.since_s, watched.seen_s)
                why = GONE if why is None else UNSEEN
            changes.append(Change("cleared", self._alarm(watched, ended_s=ended_s, why=why), watched.level))

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
            carried=watched.carried,
        )


def pause_findings(ports: Iterable[PortRates], awaited: Container[str] | None = None) -> Iterator[Finding]:
    """Share of time that ports were paused, and PFC frames they sent per second."""
    for port in ports:
        rates = port.rates
        well = not rates.pause_share and not rates.pfc_tx_frames_per_s
        if well and awaited is not None and port.switch not in awaited:
            continue
        of = f"{port.switch} {port.port}"
        if rates.pause_share is not None:
            yield Finding(
                Subject(PFC_STORM, of, port.switch),
                rates.pause_share,
                f"PFC kept {of} from sending for {rates.pause_share:.1%} of the last {port.covered_s:.3g} s: "
                "its peer cannot take what it sends",
            )
        if rates.pfc_tx_frames_per_s is not None:
            yield Finding(
                Subject(PFC_FRAMES, of, port.switch),
                rates.pfc_tx_frames_per_s,
                f"{of} sent {figure_text(rates.pfc_tx_frames_per_s)} PFC frames a second: its buffer was "
                "full, and it paused its peer",
            )


def loss_findings(
    ports: Iterable[PortRates], lossless: Collection[int], awaited: Container[str] | None = None
) -> Iterator[Finding]:
    """Drops per second of the queues in ``lossless`` (empty: all), or of ports without queue counters."""
    for port in ports:
        if awaited is not None and not port.rates.drops_per_s and port.switch not in awaited:
            continue
        drops_of = {number: rates.drops_per_s for number, rates in port.queues.items()}
        if all(drops is None for drops in drops_of.values()):
            if port.rates.drops_per_s is not None:
                of = f"{port.switch} {port.port}"
                found = _loss(
                    of, port, port.rates.drops_per_s, "though it may not be the lossless queue's loss"
                )
                # Lossy queues drop many packets; those must not page anybody or hold a policy back.
                yield found._replace(worst=Level.WARNING)
            continue
        for number, drops in drops_of.items():
            if drops is not None and (not lossless or number in lossless):
                of = f"{port.switch} {port.port} queue {number}"
                yield _loss(of, port, drops, "though PFC should let it lose nothing")


def _loss(of: str, port: PortRates, drops_per_s: float, though: str) -> Finding:
    return Finding(
        Subject(LOSSLESS_LOSS, of, port.switch),
        drops_per_s,
        f"{of} dropped {figure_text(drops_per_s)} packets a second over the last {port.covered_s:.3g} s, "
        f"{though}",
    )


def ecn_findings(
    queues: Iterable[QueueState],
    ports: Iterable[PortRates],
    kmax_of: Callable[[QueueRef], int | None],
    awaited: Container[str] | None = None,
) -> Iterator[Finding]:
    """Depth (99th percentile) ÷ Kmax of queues that mark nothing; 0 for queues that mark.

    Every packet that meets a queue over Kmax is marked. Marks are those of INT reports, else of the queue's
    or the port's counters. Queues without either, with few samples, or without a known Kmax (bytes, by
    ``kmax_of``) are left out.
    """
    counted: Mapping[tuple[str, str], PortRates] = {(port.switch, port.port): port for port in ports}
    for queue in queues:
        ref, kmax_bytes = queue.ref, kmax_of(queue.ref)
        marked_per_s = queue.marked_packets_per_s
        if marked_per_s is None and (port := counted.get((ref.switch, ref.port))) is not None:
            rates = port.queues.get(ref.queue)
            if rates is not None:
                marked_per_s = rates.ecn_marked_per_s
            elif all(other.ecn_marked_per_s is None for other in port.queues.values()):
                marked_per_s = port.rates.ecn_marked_per_s  # otherwise it is the sum of other queues
        if marked_per_s is None or kmax_bytes is None or queue.n_samples < LEAST_SAMPLES:
            continue
        marks = marked_per_s > 0
        if not marks and not queue.has_depth:
            continue
        over = 0.0 if marks else queue.depth_p99_bytes / kmax_bytes
        if not over and awaited is not None and ref.switch not in awaited:
            continue
        of = f"{ref.switch} {ref.port} queue {ref.queue}"
        subject = Subject(ECN_OFF, of, ref.switch)
        if marks:
            yield Finding(subject, over, f"{of} marks: {figure_text(marked_per_s)} packets a second")
            continue
        yield Finding(
            subject,
            over,
            f"{of} held {figure_text(queue.depth_p99_bytes)} bytes (99th percentile), {over:.3g} times its "
            f"Kmax of {figure_text(kmax_bytes)}, and not one packet was marked: ECN seems to be off on it",
        )


def rate_findings(queues: Iterable[QueueState], awaited: Container[str] | None = None) -> Iterator[Finding]:
    """1 for a port that carries more than its declared rate, beyond what sampling leaves open; else 0."""
    by_port: defaultdict[tuple[str, str], list[QueueState]] = defaultdict(list)
    for queue in queues:
        if queue.capacity_bytes_per_s is not None:
            by_port[queue.ref.switch, queue.ref.port].append(queue)
    for (switch, port), own in by_port.items():
        carried = sum(queue.throughput_bytes_per_s for queue in own)
        declared = max(queue.capacity_bytes_per_s or 0.0 for queue in own)
        noise = RATE_ERRORS / math.sqrt(max(sum(queue.n_samples for queue in own), 1))
        over = carried * (1.0 - noise) > RATE_SLACK * declared
        if not over and awaited is not None and switch not in awaited:
            continue
        of = f"{switch} {port}"
        found, given = (figure_text(rate / GBPS) for rate in (carried, declared))
        says = f"{of} carried {found} Gbit/s by INT, and the topology declares {given}"
        yield Finding(
            Subject(DECLARED_RATE, of, switch),
            float(over),
            f"{says}: the declared rate is too low, or the sampling rate of the reports is not what the sink "
            "really takes"
            if over
            else says,
        )


def gap_findings(
    before: Mapping[Sender, SequenceCounts],
    now: Mapping[Sender, SequenceCounts],
    name_of: Callable[[Sender], tuple[str, str | None]],
) -> Iterator[Finding]:
    """Share of datagrams lost between two counts, of each sender that sent any.

    ``name_of`` gives a sender's name and its switch, if known. Senders of one name (several addresses, two
    versions) are added up.
    """
    grown: dict[tuple[str, str | None], tuple[int, int]] = {}
    for sender, counts in now.items():
        earlier = before.get(sender, SequenceCounts())
        received, lost = counts.received - earlier.received, max(counts.lost - earlier.lost, 0)
        if received > 0:
            named = name_of(sender)
            others = grown.get(named, (0, 0))
            grown[named] = (others[0] + received, others[1] + lost)
    for (of, switch), (received, lost) in grown.items():
        share = lost / (lost + received)
        yield Finding(
            Subject(SEQUENCE_GAPS, of, switch),
            share,
            f"{lost} of the last {lost + received} datagrams of {of} were lost ({share:.2%}): their reports "
            "are missing from the window",
        )


def figure_text(value: float) -> str:
    """Three significant digits, or all digits before the point."""
    return f"{value:.3g}" if value < 999.5 else f"{value:,.0f}".replace(",", " ")
