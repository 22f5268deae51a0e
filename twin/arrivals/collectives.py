"""Collectives: steps of which each starts once all that its host sent and received in the one before was
delivered.

In an all-to-all a host sends to its whole group at once; in a ring it passes on what it received. A replay
that started each message when it was seen to start would pile them up under a slower watermark, and leave
gaps under a faster one; so a step waits for the one before it, and steps go on beyond what the window showed
of them.
"""

from __future__ import annotations

import math
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
_RECURRING = 0.5  # of a host's steps, for a receiver to be of its group; of its messages to that, in steps
_LATE = 0.1  # of messages: so many may seem to end after what waits for them began
# Of relays' messages, among which are others that wait for nothing: begun once the one before has ended;
# begun as that or one received ended, of all and of each host's; more of these than begun as their own ended.
# Of messages that wait for nothing a sixth follow by chance.
_IN_TURN, _FOLLOWING, _FOLLOWING_EACH, _BY_OTHERS = 0.7, 0.45, 0.35, 0.1
_ALIKE, _OF_ONE_SIZE = 2.0, 0.7  # times: about one size; of messages: as others mix with them
_FAR_MORE = 2.0  # times as many messages to one receiver as to any other: those to the others are no part
_AROUND, _EARLY = 4, 0.25  # steps before and after; how early among them what a step waits for has ended
_FAR_OUT = 3.0  # interquartile ranges beyond the upper quartile, as in a box plot


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
    alike: bool
    """Whether its messages are of about one size."""

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

    def of_one_size(self, rows: Sequence[int]) -> list[int]:
        """The rows of about the usual size. One still being sent may be of it."""
        known = [row for row in rows if not self.sending[row]]
        usual = float(np.median(self.sent_bytes[known])) if known else np.inf
        sent = self.sent_bytes[rows]
        alike = (sent <= _ALIKE * usual) & (self.sending[rows] | (sent >= usual / _ALIKE))
        return [row for row, one in zip(rows, alike.tolist(), strict=True) if one]

    def to_one(self, rows: Sequence[int]) -> list[int]:
        """Those to the receiver of far more of them than any other; all where there is none."""
        (first, most), *others = Counter(self.dst[row] for row in rows).most_common(2) or [("", 0)]
        far_more = all(most >= _FAR_MORE * count for _, count in others)
        return [row for row in rows if not far_more or self.dst[row] == first]

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
        of_group = sum(large.dst[row] in recurring for row in begun)
        in_steps = sum(len(step.get(one, ())) for step in steps for one in recurring)
        if (
            len(steps) >= _LEAST_STEPS
            and len(recurring) >= _LEAST_RECEIVERS
            and in_steps >= _RECURRING * of_group
        ):
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
    lines += _one_by_one(large, collectives.relays)
    seen = [_barriers_seen(large, line) for line in lines]
    every = [one for of_line in seen for one in of_line.values()]
    usual_s = float(np.median([one.gap_s for one in every])) if every else 0.0
    found = [*(Barrier(line.steps[0], (), usual_s) for line in lines), *every]
    again: list[int] = []
    copied: list[range] = []
    for line in lines:
        first = min(int(np.searchsorted(line.begins_s, since_s)), len(line.steps) - 1)
        copied.append(range(first, len(line.steps)))
        again += [row for step in copied[-1] for row in line.steps[step]]
    arrivals = _of_own_size(arrivals, lines, large)
    copy_of = {row: len(arrivals) + place for place, row in enumerate(again)}
    for line, of_line, steps in zip(lines, seen, copied, strict=True):
        before = line.steps[-1]
        for step in steps:
            one = of_line.get(step, Barrier((), (), usual_s))
            received = copy_of.keys() & one.awaited & set(line.received[step])
            copies = [copy_of[row] for row in line.steps[step]]
            awaited = [*before, *(copy_of[row] for row in sorted(received))]
            found.append(Barrier(copies, awaited, one.gap_s))
            before = copies
    return arrivals.and_then(not_begun(arrivals.take(np.array(again, np.int64)), until_s)), found


def _barriers_seen(large: _Large, line: _Line) -> dict[int, Barrier]:
    """By step what it waits for, of that what may have ended when it began, and for how long after that it
    paused.

    Of messages one by one, where the usual time is no longer than sampling leaves open, only those far out
    are pauses, and the others as long as is usual.
    """
    ended = _ended_before(large, line)
    last = np.array([max(rows, key=large.end_s.__getitem__) for rows in ended.values()], np.int64)
    pause_s = np.maximum(np.array(line.begins_s)[[*ended]] - large.end_s[last], 0.0)
    if len(last) and max(map(len, line.steps)) == 1:
        lower_s, usual_s, upper_s = np.quantile(pause_s, [0.25, 0.5, 0.75]).tolist()
        if usual_s <= np.median(large.slack_s[last]):
            pause_s[pause_s <= upper_s + _FAR_OUT * (upper_s - lower_s)] = usual_s
    seen = zip(ended.items(), pause_s.tolist(), strict=True)
    return {step: Barrier(line.steps[step], rows, gap_s) for (step, rows), gap_s in seen}


def _ended_before(large: _Large, line: _Line) -> dict[int, list[int]]:
    """For each step what it waits for, of that what may have ended when it began; none where nothing has."""
    found = {}
    for step, begins_s in enumerate(line.begins_s[1:], 1):
        rows = np.array(line.awaited(step))
        if len(rows := rows[large.ended(rows, begins_s)]):
            found[step] = rows.tolist()
    return found


def _of_own_size(arrivals: FlowArrivals, lines: Collection[_Line], large: _Large) -> FlowArrivals:
    """The arrivals; messages of a line that are of about one size differ as far as sampling does not explain,
    and those still being sent become as large as the others.
    """
    wire = arrivals.wire_bytes.copy()
    for line in lines:
        rows = np.array([row for step in line.steps for row in step])
        ended, sending = rows[~large.sending[rows]], rows[large.sending[rows]]
        if line.alike and len(ended):
            mean, variance = wire[ended].mean(), max(wire[ended].var(), 1.0)
            by_sampling = mean**2 / arrivals.n_samples[ended].mean()
            wire[ended] = mean + math.sqrt(max(1.0 - by_sampling / variance, 0.0)) * (wire[ended] - mean)
            wire[sending] = np.maximum(mean, arrivals.sent_bytes[sending])
    return replace(arrivals, wire_bytes=wire)


def _all_to_all(large: _Large, receivers: Mapping[str, frozenset[str]], since_s: float) -> list[_Line]:
    """The steps of hosts that send to ``receivers`` together; of one that began before ``since_s`` part may
    be gone.

    Received in a step is what others sent in that of theirs which began nearest to it.
    """
    steps_of: dict[str, list[list[int]]] = {}
    alike: set[str] = set()
    for host, group in receivers.items():
        rows = [row for row in large.sent.get(host, ()) if large.dst[row] in group]
        usual = large.of_one_size(rows)
        if len(usual) >= _OF_ONE_SIZE * len(rows):
            rows = usual
            alike.add(host)
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
        lines.append(_Line(begins_s[host].tolist(), steps, received, alike=host in alike))
    return lines


def _in_order(large: _Large, lines: Collection[_Line]) -> bool:
    """Whether steps begin once what they would wait for has ended, and by no clock of their own.

    By such a clock the time from one step's begin to the next would vary less than the time from the end of
    what was sent to the next step's begin.
    """
    late: list[float] = []
    of_gaps, of_periods = [], []
    for line in lines:
        ended = _ended_before(large, line)
        steps = range(1, len(line.steps))
        late += [1.0 - len(ended.get(step, ())) / len(line.awaited(step)) for step in steps]
        gaps_s = [line.begins_s[step] - float(large.end_s[rows].max()) for step, rows in ended.items()]
        periods_s = [line.begins_s[step] - line.begins_s[step - 1] for step in ended]
        of_gaps.append(float(np.var(gaps_s or [0.0])))
        of_periods.append(float(np.var(periods_s or [0.0])))
    if not late:
        return False
    noise = float(np.median(large.slack_s)) ** 2
    return bool(np.mean(late) <= _LATE and np.mean(of_gaps) <= np.mean(of_periods) + noise)


def _relays(large: _Large) -> frozenset[str]:
    """Hosts whose messages begin as the one before or one from another of them ends."""
    many = [host for host, rows in large.sent.items() if len(rows) >= _LEAST_TURNS]
    found = {host: _turns(large, one) for host, one in _passing_on(large, many).items()}
    some = [host for host, turns in found.items() if np.mean(turns[2]) >= _FOLLOWING_EACH]
    found = {host: _turns(large, one) for host, one in _passing_on(large, some).items()}
    if len(found) < _LEAST_RELAYS:
        return frozenset()
    apart, alone, following = np.concatenate([*found.values()], axis=1).mean(axis=1)
    are = apart >= _IN_TURN and following >= max(_FOLLOWING, alone + _BY_OTHERS)
    return frozenset(found) if are else frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class _Relay:
    """The rows that a host ``sent`` one after the other; those it ``received``, in order of their ends; and
    for each sent, after how many of these it may have begun.
    """

    sent: list[int]
    received: NDArray[np.int64]
    after: NDArray[np.int64]


def _passing_on(large: _Large, hosts: Collection[str]) -> dict[str, _Relay]:
    """What ``hosts`` send to one another, all of about one size, of those that send more than once."""
    among = frozenset(hosts)
    sent: dict[str, list[int]] = {}
    into: defaultdict[str, list[int]] = defaultdict(list)
    for host in sorted(among):
        rows = [row for row in large.sent.get(host, ()) if large.dst[row] in among]
        sent[host] = large.of_one_size(large.to_one(rows))
        for row in sent[host]:
            into[large.dst[row]].append(row)
    found = {}
    for host, rows in sent.items():
        if len(rows) > 1:
            received = np.array(sorted(into[host], key=large.end_s.__getitem__), np.int64)
            by_s = large.start_s[rows] + large.slack_s[rows]
            after = np.searchsorted(large.end_s[received], by_s, side="right")
            found[host] = _Relay(rows, received, after)
    return found


def _turns(large: _Large, relay: _Relay) -> NDArray[np.bool_]:
    """Of each message after the first [3, messages − 1]: whether it begins once the one before has ended, as
    that ends, and as the later of that and of what was received last ends.
    """
    rows = np.array(relay.sent)
    own_s, within_s = large.end_s[rows[:-1]], large.slack_s[rows[:-1]]
    received_s = np.array([-np.inf, *large.end_s[relay.received]])[relay.after[1:]]
    after_s = large.start_s[rows[1:]] - np.array([own_s, own_s, np.maximum(own_s, received_s)])
    return np.asarray(np.stack([after_s[0] >= -within_s, *(np.abs(after_s[1:]) <= within_s)]))


def _one_by_one(large: _Large, relays: Collection[str]) -> list[_Line]:
    """The messages that ``relays`` send one after the other; received before each is the one that it passes
    on, in a ring, or that arrived in the round before.
    """
    lines = []
    for relay in _passing_on(large, relays).values():
        in_ring = len({large.dst[row] for row in relay.sent}) == 1
        last = (_in_step(relay.after) if in_ring else relay.after) - 1
        received = [relay.received[at : at + 1].tolist() if at >= 0 else [] for at in last.tolist()]
        begins_s = large.start_s[relay.sent].tolist()
        lines.append(_Line(begins_s, [[row] for row in relay.sent], received, alike=True))
    return lines


def _in_step(after: NDArray[np.int64]) -> NDArray[np.int64]:
    """Of how many received messages each one sent passes on the last: ``after`` so many it may have begun.

    The host before may be some steps ahead. From step to step it is one more, so the least of the steps
    around tell; messages of other traffic among them shift it, and would where others send to this host too.
    """
    steps = np.arange(len(after))
    ahead = np.pad(after - steps, _AROUND, mode="edge")
    around = np.lib.stride_tricks.sliding_window_view(ahead, 2 * _AROUND + 1)
    return np.asarray(steps + np.floor(np.quantile(around, _EARLY, axis=1)).astype(int))
