"""Collectives: steps of which each starts once all that its host sent and received in the one before was
delivered.

In an all-to-all a host sends to its whole group at once; in a ring it passes on what it received. A replay
that started each message when it was seen to start would pile them up under a slower watermark, and leave
gaps under a faster one; so a step waits for the one before it, and steps go on beyond what the window showed
of them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from telemetry.state import FlowArrivals
from twin.arrivals.bursts import first_samples
from twin.arrivals.chains import Pair, by_pair, ends_s, not_begun, slack_s, spacings_s

_LEAST_RECEIVERS = 4  # of what a host sends together: two or three large messages may begin so by chance
_LEAST_STEPS, _LEAST_TURNS = 3, 8  # of a host that sends to many together, or to one after the other
_LEAST_RELAYS = 3
_PAUSE = 6.0  # spacings between samples: within so many the first sample of a message is seen
_RECURRING = 0.5  # of a host's steps, for a receiver to be of its group
_LATE = 0.1  # of messages: so many may seem to end after what waits for them began
# Of relays' messages, among which are others that wait for nothing: begun once the one before has ended;
# begun as that or one received ended, of all and of each host's; more of these than begun as their own ended.
# Of messages that wait for nothing a sixth follow by chance.
_IN_TURN, _FOLLOWING, _FOLLOWING_EACH, _BY_OTHERS = 0.7, 0.45, 0.35, 0.1
_ALIKE, _OF_ONE_SIZE = 2.0, 0.7  # times: about one size; of messages: as others mix with them


@dataclass(frozen=True, slots=True)
class Collectives:
    """Per host the ``receivers`` of what it sends together; and the ``relays``: hosts that send one message
    after the other, as they receive one.
    """

    receivers: Mapping[str, frozenset[str]] = field(default_factory=dict)
    relays: frozenset[str] = frozenset()

    def __contains__(self, pair: Pair) -> bool:
        return pair[1] in self.receivers.get(pair[0], ()) or self.relays.issuperset(pair)


@dataclass(frozen=True, slots=True)
class Barrier:
    """The rows that start ``gap_s`` after the last of the rows ``awaited`` was delivered. Where there are
    none, as they were seen to, and so long after what they turn out to wait for.
    """

    starts: Sequence[int]
    awaited: Sequence[int]
    gap_s: float


@dataclass(frozen=True, slots=True, eq=False)
class _Line:
    """The steps of a host, one after the other: when each began, its rows, and the rows that its host
    ``received`` in the step before.
    """

    begins_s: list[float]
    steps: list[list[int]]
    received: list[list[int]]
    usual_bytes: float | None
    """The size of its messages, where they are of about one."""

    def awaited(self, step: int) -> list[int]:
        """All that a step after the first waits for."""
        return [*self.steps[step - 1], *self.received[step]]


class _Large:
    """The large messages of a window: those that each host sent, in order of start, when each began and
    ended, and how far from that it may have been.
    """

    def __init__(self, arrivals: FlowArrivals) -> None:
        self.dst = arrivals.dst_host
        self.sent_bytes, self.start_s, self.last_s = arrivals.sent_bytes, arrivals.start_s, arrivals.last_s
        self.sending = arrivals.sent_bytes < arrivals.wire_bytes
        self.end_s, self.slack_s, self.spacing_s = ends_s(arrivals), slack_s(arrivals), spacings_s(arrivals)
        sent: defaultdict[str, list[int]] = defaultdict(list)
        for (src, _), rows in by_pair(arrivals).items():
            sent[src] += rows
        self.sent = {host: sorted(rows, key=self.start_s.__getitem__) for host, rows in sent.items()}

    def ended(self, rows: Collection[int], by_s: float) -> NDArray[np.bool_]:
        """Which of the rows may have ended by then."""
        found = np.array(rows)
        return np.asarray(self.end_s[found] <= by_s + self.slack_s[found])

    def together(self, rows: Collection[int], at_s: NDArray[np.float64]) -> list[list[int]]:
        """The rows in order of the times ``at_s``, in groups of which each row is near enough to the one
        before it to have begun with it. One to a receiver that has had its message of the group begins the
        next.
        """
        found: list[list[int]] = []
        had_s: dict[str, float] = {}
        for row in sorted(rows, key=at_s.__getitem__):
            near = found and at_s[row] - at_s[found[-1][-1]] <= _PAUSE * self.spacing_s[row]
            if not near or had_s.get(self.dst[row], np.inf) < at_s[row]:
                found.append([])
                had_s = {}
            found[-1].append(row)
            had_s[self.dst[row]] = max(had_s.get(self.dst[row], 0.0), float(self.last_s[row]))
        return found

    def of_one_size(self, rows: Sequence[int]) -> tuple[list[int], float | None]:
        """The rows of about the usual size, and that. One still being sent may be of it."""
        known = [row for row in rows if not self.sending[row]]
        if not known:
            return [*rows], None
        usual = float(np.median(self.sent_bytes[known]))
        sent = self.sent_bytes[rows]
        alike = (sent <= _ALIKE * usual) & (self.sending[rows] | (sent >= usual / _ALIKE))
        return [row for row, one in zip(rows, alike.tolist(), strict=True) if one], usual

    def by_receiver(self, rows: Collection[int]) -> dict[str, list[int]]:
        found: defaultdict[str, list[int]] = defaultdict(list)
        for row in rows:
            found[self.dst[row]].append(row)
        return found


def collectives_of(arrivals: FlowArrivals, nic_bytes_per_s: Mapping[str, float]) -> Collectives:
    """The collectives of a window: what recurs in it and begins as what it would wait for has ended.

    ``nic_bytes_per_s``: line rates by host.
    """
    large = _Large(arrivals)
    _, first_s = first_samples(arrivals, nic_bytes_per_s)
    receivers = {}
    for host, rows in large.sent.items():
        begun = [row for row in rows if large.start_s[row] > 0.0]
        steps = [large.by_receiver(step) for step in large.together(begun, first_s)]
        steps = [step for step in steps if len(step) >= _LEAST_RECEIVERS]
        times = Counter(receiver for step in steps for receiver in step)
        recurring = frozenset(one for one, n in times.items() if n >= _RECURRING * len(steps))
        if len(steps) >= _LEAST_STEPS and len(recurring) >= _LEAST_RECEIVERS:
            receivers[host] = recurring
    if not _in_order(large, _all_to_all(large, receivers, 0.0)):
        receivers = {}
    return Collectives(receivers, _relays(large).difference(receivers))


def barriers(
    arrivals: FlowArrivals, collectives: Collectives, since_s: float, until_s: float
) -> tuple[FlowArrivals, list[Barrier]]:
    """The arrivals, then those of the steps that collectives would begin next; and what waits for what.

    Each host is given as many more steps as it began between the two times.
    """
    large = _Large(arrivals)
    lines = _all_to_all(large, collectives.receivers, since_s)
    lines += _one_by_one(large, collectives.relays).values()
    found: list[Barrier] = []
    for line in lines:
        for step, begins_s in enumerate(line.begins_s[1:], 1):
            rows = np.array(line.awaited(step))
            rows = rows[large.ended(rows, begins_s)]
            if len(rows):
                gap_s = max(begins_s - float(large.end_s[rows].max()), 0.0)
                found.append(Barrier(line.steps[step], rows.tolist(), gap_s))
    usual_s = float(np.median([one.gap_s for one in found])) if found else 0.0
    found += [Barrier(line.steps[0], (), usual_s) for line in lines]
    again: list[int] = []
    copied: list[range] = []
    for line in lines:
        first = min(int(np.searchsorted(line.begins_s, since_s)), len(line.steps) - 1)
        copied.append(range(first, len(line.steps)))
        again += [row for step in copied[-1] for row in line.steps[step]]
    arrivals = _of_usual_size(arrivals, lines, large.sending)
    copy_of = {row: len(arrivals) + place for place, row in enumerate(again)}
    for line, steps in zip(lines, copied, strict=True):
        before = line.steps[-1]
        for step in steps:
            received = [copy_of[row] for row in line.received[step] if row in copy_of]
            copies = [copy_of[row] for row in line.steps[step]]
            found.append(Barrier(copies, [*before, *received], usual_s))
            before = copies
    return arrivals.and_then(not_begun(arrivals.take(np.array(again, np.int64)), until_s)), found


def _of_usual_size(
    arrivals: FlowArrivals, lines: Collection[_Line], sending: NDArray[np.bool_]
) -> FlowArrivals:
    """The arrivals; messages of collectives that are still being sent become as large as their others."""
    wire = arrivals.wire_bytes.copy()
    for line in lines:
        rows = [row for step in line.steps for row in step if sending[row]]
        if rows and line.usual_bytes is not None:
            wire[rows] = np.maximum(line.usual_bytes, arrivals.sent_bytes[rows])
    return replace(arrivals, wire_bytes=wire)


def _all_to_all(large: _Large, receivers: Mapping[str, frozenset[str]], since_s: float) -> list[_Line]:
    """The steps of hosts that send to ``receivers`` together; of one that began before ``since_s`` part may
    be gone.

    Received in a step is what others sent in that of theirs which began nearest to it.
    """
    steps_of: dict[str, list[list[int]]] = {}
    usual_of: dict[str, float | None] = {}
    for host, group in receivers.items():
        rows = [row for row in large.sent.get(host, ()) if large.dst[row] in group]
        alike, usual = large.of_one_size(rows)
        if len(alike) >= _OF_ONE_SIZE * len(rows):
            rows, usual_of[host] = alike, usual
        steps = [
            step
            for step in large.together(rows, large.start_s)
            if large.start_s[step[0]] <= since_s or len(large.by_receiver(step)) >= _RECURRING * len(group)
        ]
        if steps:
            steps_of[host] = steps
    begins_s = {host: large.start_s[[step[0] for step in steps]] for host, steps in steps_of.items()}
    into: defaultdict[str, list[str]] = defaultdict(list)
    for host in steps_of:
        for receiver in receivers[host]:
            into[receiver].append(host)
    sent_to = {host: [large.by_receiver(step) for step in steps] for host, steps in steps_of.items()}
    lines = []
    for host, steps in steps_of.items():
        within_s = 0.5 * np.diff(begins_s[host])
        received: list[list[int]] = [[] for _ in steps]
        for other in into[host]:
            apart_s = np.abs(begins_s[host][:-1, None] - begins_s[other])
            nearest = apart_s.argmin(axis=1)
            for step in np.flatnonzero(apart_s.min(axis=1) <= within_s).tolist():
                received[step + 1] += sent_to[other][nearest[step]].get(host, ())
        lines.append(_Line(begins_s[host].tolist(), steps, received, usual_of.get(host)))
    return lines


def _in_order(large: _Large, lines: Collection[_Line]) -> bool:
    """Whether steps begin once what they would wait for has ended, and by no clock of their own.

    By such a clock the time from one step's begin to the next would vary less than the time from the end of
    what was sent to the next step's begin.
    """
    late: list[float] = []
    of_gaps, of_periods = [], []
    for line in lines:
        gaps_s, periods_s = [], []
        for step, begins_s in enumerate(line.begins_s[1:], 1):
            rows = np.array(line.awaited(step))
            ended = large.ended(rows, begins_s)
            late.append(1.0 - float(ended.mean()))
            if ended.any():
                gaps_s.append(begins_s - float(large.end_s[rows][ended].max()))
                periods_s.append(begins_s - line.begins_s[step - 1])
        of_gaps.append(float(np.var(gaps_s or [0.0])))
        of_periods.append(float(np.var(periods_s or [0.0])))
    if not late:
        return False
    noise = float(np.median(large.slack_s)) ** 2
    return bool(np.mean(late) <= _LATE and np.mean(of_gaps) <= np.mean(of_periods) + noise)


def _relays(large: _Large) -> frozenset[str]:
    """Hosts whose messages begin as the one before or one from another of them ends."""
    many = [host for host, rows in large.sent.items() if len(rows) >= _LEAST_TURNS]
    turns = {host: _turns(large, line) for host, line in _one_by_one(large, many).items()}
    some = [host for host, of_host in turns.items() if np.mean(of_host[2]) >= _FOLLOWING_EACH]
    turns = {host: _turns(large, line) for host, line in _one_by_one(large, some).items()}
    if len(turns) < _LEAST_RELAYS:
        return frozenset()
    apart, alone, following = np.concatenate([*turns.values()], axis=1).mean(axis=1)
    found = apart >= _IN_TURN and following >= max(_FOLLOWING, alone + _BY_OTHERS)
    return frozenset(turns) if found else frozenset()


def _turns(large: _Large, line: _Line) -> NDArray[np.bool_]:
    """Of each message after the first [3, steps − 1]: whether it begins once the one before has ended, as
    that ends, and as the later of that and of what was received before ends.
    """
    rows = np.array([step[0] for step in line.steps])
    own_s, within_s = large.end_s[rows[:-1]], large.slack_s[rows[:-1]]
    latest_s = np.array([large.end_s[one[0]] if one else -np.inf for one in line.received[1:]])
    after_s = large.start_s[rows[1:]] - np.array([own_s, own_s, np.maximum(own_s, latest_s)])
    return np.asarray(np.stack([after_s[0] >= -within_s, *(np.abs(after_s[1:]) <= within_s)]))


def _one_by_one(large: _Large, relays: Collection[str]) -> dict[str, _Line]:
    """The messages that ``relays`` send one after the other, all of about one size; received before each is
    the latest from another.
    """
    among = frozenset(relays)
    sent: dict[str, list[int]] = {}
    usual_of: dict[str, float | None] = {}
    into: defaultdict[str, list[int]] = defaultdict(list)
    for host in sorted(among):
        rows = [row for row in large.sent.get(host, ()) if large.dst[row] in among]
        rows, usual_of[host] = large.of_one_size(rows)
        for row in rows:
            into[large.dst[row]].append(row)
        if len(rows) > 1:
            sent[host] = rows
    lines = {}
    for host, rows in sent.items():
        others = np.array(sorted(into[host], key=large.end_s.__getitem__), np.int64)
        by_s = large.start_s[rows] + large.slack_s[rows]
        latest = np.searchsorted(large.end_s[others], by_s, side="right") - 1
        received = [[int(others[at])] if at >= 0 else [] for at in latest.tolist()]
        steps = [[row] for row in rows]
        lines[host] = _Line(large.start_s[rows].tolist(), steps, received, usual_of[host])
    return lines
