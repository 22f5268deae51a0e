"""Steps of collectives: what a host begins once it sent and received all of its step before.

In an all-to-all a host begins many messages at one moment, in a ring one; each waits for several others.
Replayed when they were seen to start, they pile up under a slower watermark and pause under a faster one, and
bulk seems to lose or gain several times what it does; so the messages of a step wait for those of the step
before, and the steps go on beyond the window.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from telemetry.state import FlowArrivals
from twin.arrivals.bursts import LEAST_BATCH, alike, batches, first_samples

LARGE_BYTES = 300_000.0
LEAST_SAMPLES = 3.0  # of a large message; with fewer nobody knows when it began and ended
FOLLOWS_S = 150e-6  # between the end of a message and the start of the next, as sampling shows them, ...
SPACINGS, OVERLAP = 4.0, 0.25  # ... or as many times between two samples; the part of a message it may be
_OVER = 0.9  # of a step's messages, as the host begins the next
_MOST_WAITED_FOR = 64  # by a message, of those that ended last
_LEAST_TURNS = 8  # of a pair in a ring
_BEYOND_CHANCE, _SIGMAS = 0.5, 3.0  # of what chance leaves, so many turns follow; and surely more than by it
_ALIKE_SIGMAS = 3.0  # of samples: what began at the same moment and differs by more did so by chance, ...
_ALIKE_SHARE = 0.75  # ... where so many do not; of one size nearly all
_SAME_PAIR_SIGMAS = 4.0  # in a ring hardly anything else is of the pair

Rows = NDArray[np.int64]
Pair = tuple[str, str]


@dataclass(frozen=True, slots=True, eq=False)
class Stepped:
    """``arrivals`` with the steps added that would come next, which start as the window ends.

    ``after`` [i, k] are rows that a message waits for, −1 where there are fewer; ``gap_s`` the usual time
    between the last of them and its start.
    """

    arrivals: FlowArrivals
    after: NDArray[np.int64]
    gap_s: float


def begun_together(arrivals: FlowArrivals) -> list[Rows]:
    """The messages of each step, of arrivals with sampling undone: it gave those of a step one start."""
    by_start: defaultdict[tuple[str, float], list[int]] = defaultdict(list)
    for row in np.flatnonzero(arrivals.n_samples > 0).tolist():
        by_start[arrivals.src_host[row], float(arrivals.start_s[row])].append(row)
    return [np.array(rows) for rows in by_start.values() if len(rows) >= LEAST_BATCH]


def ends_s(arrivals: FlowArrivals) -> NDArray[np.float64]:
    """When each message ended, as its samples suggest; inf while it is being sent."""
    between_s = (arrivals.last_s - arrivals.start_s) / np.maximum(arrivals.n_samples, 1)
    return np.where(np.isfinite(arrivals.wire_bytes), arrivals.last_s + between_s, np.inf)


def by_pair(arrivals: FlowArrivals) -> dict[Pair, list[int]]:
    """The large messages of each sender and receiver in order of their start."""
    found: defaultdict[Pair, list[int]] = defaultdict(list)
    large = np.flatnonzero((arrivals.sent_bytes >= LARGE_BYTES) & (arrivals.n_samples >= LEAST_SAMPLES))
    for row in large[np.argsort(arrivals.start_s[large], kind="stable")].tolist():
        found[arrivals.src_host[row], arrivals.dst_host[row]].append(row)
    return found


def in_turn(arrivals: FlowArrivals) -> list[Rows]:
    """The messages of rings, each a step: of pairs of which most begin as one of them, or one that their
    sender receives, ends. So many do by chance as there are ends; a ring's do more often.
    """
    end_s = ends_s(arrivals)
    pairs = by_pair(arrivals)
    received: defaultdict[str, list[int]] = defaultdict(list)
    for (_, dst), of_pair in pairs.items():
        received[dst] += of_pair
    span_s = max(float(np.ptp(arrivals.last_s)), 1e-9) if len(arrivals) else 0.0
    found: dict[Pair, Rows] = {}
    for pair, of_pair in pairs.items():
        rows = np.array(of_pair)
        samples = arrivals.n_samples[rows]
        usual = float(np.median(samples))
        rows = rows[np.abs(samples - usual) <= _SAME_PAIR_SIGMAS * np.sqrt(usual)]
        rows = rows[(arrivals.start_s[rows] > 0.0) & np.isfinite(end_s[rows])]
        n_turns = len(rows) - 1
        if n_turns < _LEAST_TURNS:
            continue
        begins_s, own_s = arrivals.start_s[rows[1:]], end_s[rows[:-1]]
        lasting_s = own_s - arrivals.start_s[rows[:-1]]
        within_s = max(FOLLOWS_S, SPACINGS * float(np.median(lasting_s)) / usual)
        came_s = np.sort(end_s[received[pair[0]]])
        near = np.searchsorted(came_s, begins_s + within_s) > np.searchsorted(came_s, begins_s - within_s)
        follows = (near | (np.abs(own_s - begins_s) <= within_s)) & (own_s - begins_s <= OVERLAP * lasting_s)
        chance = -np.expm1(-2.0 * within_s * (len(came_s) + n_turns) / span_s)
        least = max(_BEYOND_CHANCE * (1.0 - chance), _SIGMAS * np.sqrt(chance * (1.0 - chance) / n_turns))
        if float(follows.mean()) - chance >= least:
            found[pair] = rows
    while closed := {pair for pair in found if pair[0] not in {dst for _, dst in found}}:
        found = {pair: rows for pair, rows in found.items() if pair not in closed}
    return [np.array([row]) for rows in found.values() for row in rows.tolist()]


def stepping(arrivals: FlowArrivals, nic_bytes_per_s: Mapping[str, float]) -> NDArray[np.bool_]:
    """Which messages of a window are of steps that wait for each other; ``nic_bytes_per_s`` by host."""
    steps, start_s = [], arrivals.start_s.copy()
    _, first_s = first_samples(arrivals, nic_bytes_per_s)
    for rows, began_s in batches(arrivals, first_s, arrivals.start_s <= 0.0):
        steps.append(rows)
        start_s[rows] = began_s
    steps = _with_rings(arrivals, steps)
    member = np.zeros(len(arrivals), np.bool_)
    if _following(replace(arrivals, start_s=start_s), steps):
        member[np.concatenate(steps)] = True
    return member


def stepped(arrivals: FlowArrivals, since_s: float, until_s: float) -> Stepped | None:
    """The messages of each step waiting for the step before; None where no steps are seen to do so.

    Steps that began between the two times come once more: a watermark under which they are faster does not
    run out of them. ``arrivals``: with sampling undone.
    """
    steps = _with_rings(arrivals, begun_together(arrivals))
    following = _following(arrivals, steps)
    if not following:
        return None
    arrivals = _of_one_size(arrivals, np.concatenate(steps))
    gap_s = max(float(np.median([gap_s for _, _, gap_s in following])), 0.0)
    waiting = [(step, rows) for step, rows, _ in following]
    shown_steps = [step for step in steps if arrivals.start_s[step[0]] > since_s]
    shown = np.concatenate([np.empty(0, np.int64), *shown_steps])
    copy = np.full(len(arrivals), -1)
    copy[shown] = len(arrivals) + np.arange(len(shown))
    waiting += [
        (copy[step], copy[rows][copy[rows] >= 0])
        for step, rows in waiting
        if arrivals.start_s[step[0]] > since_s and np.any(copy[rows] >= 0)
    ]
    received = _received(arrivals, steps)
    for host, own in _own(arrivals, shown_steps):
        late = received[host][arrivals.last_s[received[host]] > arrivals.start_s[own[-1][0]]]
        waiting.append((copy[own[0]], np.concatenate((own[-1], late))))
    added = arrivals.take(shown)
    added = replace(
        added,
        start_s=np.full(len(shown), until_s),
        last_s=np.full(len(shown), until_s),
        sent_bytes=np.zeros(len(shown)),
        n_samples=np.zeros(len(shown), np.int64),
        end_seen=np.zeros(len(shown), np.bool_),
    )
    every = arrivals.and_then(added)
    last_s = np.concatenate((arrivals.last_s, np.full(len(shown), until_s)))
    most = min(max(len(rows) for _, rows in waiting), _MOST_WAITED_FOR)
    after = np.full((len(every), most), -1)
    for step, rows in waiting:
        latest = rows[np.argsort(last_s[rows], kind="stable")][-most:]
        after[step, : len(latest)] = latest
    return Stepped(every, after, gap_s)


def _with_rings(arrivals: FlowArrivals, steps: list[Rows]) -> list[Rows]:
    """``steps`` without what began with them by chance, and those of rings among the other messages."""
    if steps:
        like = np.zeros(len(arrivals), np.bool_)
        rows = np.concatenate(steps)
        like[rows[_alike(arrivals, rows)]] = True
        steps = [step[like[step]] for step in steps if np.any(like[step])]
    others = np.ones(len(arrivals), np.bool_)
    for rows in steps:
        others[rows] = False
    rest = np.flatnonzero(others)
    return [*steps, *(rest[rows] for rows in in_turn(arrivals.take(rest)))]


def _following(arrivals: FlowArrivals, steps: Iterable[Rows]) -> list[tuple[Rows, Rows, float]]:
    """Each step that waits, what of the host's step before it waits for, and the time from its last sample.

    None where hosts usually begin before the step before is over, as bursts by chance do, or pause for longer
    than a step lasts: nothing shows then what begins the next.
    """
    steps = list(steps)
    received = _received(arrivals, steps)
    found, lasts_s = [], []
    n_turns = 0
    for host, own in _own(arrivals, steps):
        for before, step in pairwise(own):
            n_turns += 1
            began_s, begins_s = arrivals.start_s[before[0]], arrivals.start_s[step[0]]
            lasting_s = arrivals.last_s[before] - began_s
            spacing_s = float(np.mean(lasting_s / np.maximum(arrivals.n_samples[before], 1)))
            latest_s = begins_s + max(FOLLOWS_S, spacing_s)
            over = before[arrivals.last_s[before] <= latest_s]
            if len(over) < _OVER * len(before):
                continue
            came = received[host]
            came = came[(arrivals.last_s[came] > began_s) & (arrivals.last_s[came] <= latest_s)]
            rows = np.concatenate((over, came))
            over_s = arrivals.last_s[rows].max() + spacing_s / len(rows)
            found.append((step, rows, float(begins_s - over_s)))
            lasts_s.append(float(lasting_s.max()))
    if len(found) < 0.5 * n_turns or not found:
        return []
    return found if np.median([gap_s for _, _, gap_s in found]) <= np.median(lasts_s) else []


def _alike(arrivals: FlowArrivals, rows: Rows) -> NDArray[np.bool_]:
    """Which of these rows sampling alone may tell from the usual one; all, where most differ by more.

    Of one that is still being sent only a part was seen.
    """
    samples = arrivals.n_samples[rows]
    usual = float(np.median(samples))
    ended = np.isfinite(arrivals.wire_bytes[rows]) & (arrivals.last_s[rows] < arrivals.last_s.max())
    like = np.abs(samples - usual) <= _ALIKE_SIGMAS * np.sqrt(usual)
    if np.count_nonzero(like & ended) < _ALIKE_SHARE * np.count_nonzero(ended):
        return np.ones(len(rows), np.bool_)
    return np.asarray(like | (~ended & (samples < usual)))


def _of_one_size(arrivals: FlowArrivals, rows: Rows) -> FlowArrivals:
    """Messages of steps as large as they are in the mean, if sampling alone tells them apart.

    A step lasts as long as its slowest message: sizes that differ by sampling would make all steps longer.
    """
    ended = rows[np.isfinite(arrivals.wire_bytes[rows]) & (arrivals.last_s[rows] < arrivals.last_s.max())]
    if not alike(arrivals.n_samples[ended]):
        return arrivals
    wire, sent = arrivals.wire_bytes.copy(), arrivals.sent_bytes.copy()
    wire[rows] = wire[ended].mean()
    sent[ended] = wire[ended]
    return replace(arrivals, wire_bytes=wire, sent_bytes=sent)


def _own(arrivals: FlowArrivals, steps: Iterable[Rows]) -> Iterable[tuple[str, list[Rows]]]:
    """The steps of each host in order of their start."""
    own: defaultdict[str, list[Rows]] = defaultdict(list)
    for step in sorted(steps, key=lambda rows: float(arrivals.start_s[rows[0]])):
        own[arrivals.src_host[step[0]]].append(step)
    return own.items()


def _received(arrivals: FlowArrivals, steps: Iterable[Rows]) -> Mapping[str, Rows]:
    """Rows of steps by the host that receives them."""
    found: defaultdict[str, list[int]] = defaultdict(list)
    for row in (row for step in steps for row in step.tolist()):
        found[arrivals.dst_host[row]].append(row)
    return defaultdict(lambda: np.empty(0, np.int64), {host: np.array(rows) for host, rows in found.items()})
