"""Messages of a window with sampling undone: sizes by their distribution, those without a sample added.

A message's size is drawn from the sizes likely for its number of samples (``twin.arrivals.sizes``); one with
sixteen or more has their median, with a hundred the size that its samples stand for: taken so with fewer,
some that are a little below 1 MB would pass for elephants, whose speed is half of a gain. A message that
nobody saw resembles one that somebody saw of about its size: receiver, sender and path are that one's. When
it starts is not known. Synchronised starts (incast) show as messages together at one receiver, so a share
``together`` of the unseen start with the one they resemble, from another of the receiver's senders, and the
others at a time of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from telemetry.state import FlowArrivals
from twin.arrivals.bursts import (
    alike,
    batches,
    companions,
    ended_together,
    evened,
    first_samples,
    members,
    numbered,
    usual_spacing,
)
from twin.arrivals.endings import bytes_per_ending, cut, early, ends
from twin.arrivals.from_telemetry import RUNNING_FROM_S
from twin.arrivals.sizes import MANY_SAMPLES, SHARPEST, SizeFit, fit_sizes, one_size

MOST_UNSEEN, _MOST_UNSEEN_EACH, _FEW_UNSEEN = 15_000, 4, 10_000  # at all, for one seen, in any case
_APART = 0.05  # of the time modelled: how far from the message that gives its time an unseen one may start
_TOGETHER_S = 3e-6
_MOST_COMPARED = 50_000
_FEW_SMALL = 5  # messages of few samples: fewer do not tell that there are others, of which nobody saw any
_GOLDEN = (5**0.5 - 1) / 2
_LEAST_ROOM = 0.1
_FIRST_BEND, _LAST_BEND = 4.0, 1e-3
_LEAST_BURST_PACKETS = 16  # smaller ones make no queue, together or not
_BURST_S, _LARGER_BURSTS = 40e-6, 8.0  # sent sooner than a CNP comes: nothing slows such a burst down


@dataclass(frozen=True, slots=True)
class Shape:
    """What counts of samples do not tell: above how many spacings between samples few messages are
    (``bend``), and the share of unseen messages that start ``together`` with one seen, of those that take no
    longer than ``burst_s`` at line rate.
    """

    bend: float = np.inf
    together: float = 0.0
    burst_s: float = _BURST_S

    @classmethod
    def of(cls, burstiness: float) -> Shape:
        """From −1, many small messages apart, over 0, apart, and 1, in bursts, to 2, larger ones too."""
        bend = _FIRST_BEND * _LAST_BEND**-burstiness if burstiness < 0.0 else np.inf
        larger = _LARGER_BURSTS ** max(burstiness - 1.0, 0.0)
        return cls(bend, min(max(burstiness, 0.0), 1.0), larger * _BURST_S)


@dataclass(frozen=True, slots=True, eq=False)
class OneSizeBursts:
    """Which messages of a window ([i], bool) are in bursts of one size, and how many there are of it."""

    member: NDArray[np.bool_]
    size: SizeFit


@dataclass(frozen=True, slots=True)
class Modelled:
    """The messages; of all finite bytes the share that ``unseen`` messages carry, and a message's bytes below
    which more than half have no sample.
    """

    arrivals: FlowArrivals
    unseen: int = 0
    unseen_share: float = 0.0
    hidden_below_bytes: float = 0.0


def modelled(
    arrivals: FlowArrivals,
    shape: Shape,
    bursts: OneSizeBursts | None,
    *,
    nic_bytes_per_s: Mapping[str, float],
    since_s: float,
    until_s: float,
    packet_bytes: float,
) -> Modelled:
    """The messages that are sent between two times of the window, seen or not.

    Sizes are fitted to all of the window's. ``bursts``: what ``one_size_bursts`` finds in it;
    ``nic_bytes_per_s``: line rates by host; ``packet_bytes``: a full packet on the wire. The same arrivals
    give the same messages, in any process.
    """
    spacing = usual_spacing(arrivals)
    rng = np.random.default_rng(0)
    before = arrivals.start_s <= max(since_s, RUNNING_FROM_S)
    apart = arrivals
    if bursts is not None:
        apart = arrivals.take(np.flatnonzero(~bursts.member | (before & (arrivals.last_s >= since_s))))
    found = _modelled_apart(apart, shape, spacing, nic_bytes_per_s, since_s, until_s, packet_bytes, rng)
    if bursts is None:
        return found
    of_bursts = arrivals.take(np.flatnonzero(bursts.member & ~before))
    of_bursts, unseen = _modelled_bursts(of_bursts, bursts.size, nic_bytes_per_s, since_s, until_s, rng)
    every = found.arrivals.and_then(of_bursts)
    finite = every.wire_bytes[np.isfinite(every.wire_bytes) & (every.start_s > since_s)]
    hidden = every.wire_bytes[(every.n_samples == 0) & (every.start_s > since_s)]
    return Modelled(
        every,
        found.unseen + unseen,
        float(hidden.sum() / max(finite.sum(), 1.0)),
        spacing * float(np.log(2.0)),
    )


def _modelled_apart(
    arrivals: FlowArrivals,
    shape: Shape,
    spacing: float,
    nic_bytes_per_s: Mapping[str, float],
    since_s: float,
    until_s: float,
    packet_bytes: float,
    rng: np.random.Generator,
) -> Modelled:
    """The messages that are not in bursts of one size; arguments as of ``modelled``."""
    finite = np.isfinite(arrivals.wire_bytes)
    per_ending = bytes_per_ending(arrivals, until_s)
    lasting = ~finite & early(arrivals, until_s)
    arrivals = replace(
        arrivals, start_s=np.where(lasting, np.minimum(arrivals.start_s, since_s), arrivals.start_s)
    )
    if not finite.any() or spacing <= 2 * packet_bytes:
        return Modelled(arrivals)  # nothing to learn sizes from, or nothing to undo
    parts, few = cut(arrivals, until_s), arrivals.n_samples < MANY_SAMPLES
    whole = finite & ~parts if (finite & ~parts).any() else finite  # a part of a message tells no size
    small_ones = np.count_nonzero(whole & few) >= _FEW_SMALL
    if not small_ones:  # what seems to be one at the window's end has begun shortly before
        first_ones = parts & few & ~arrivals.ran_before
        arrivals = replace(arrivals, wire_bytes=np.where(first_ones, np.inf, arrivals.wire_bytes))
    fit = fit_sizes(
        arrivals.n_samples[whole],
        spacing,
        packet_bytes,
        shape.bend * spacing,
        end_seen=arrivals.end_seen[whole],
    )
    window_bytes = float(arrivals.sent_bytes[whole].sum())
    kept = np.flatnonzero(~finite | (np.maximum(arrivals.last_s, arrivals.start_s) >= since_s))
    seen, parts = arrivals.take(kept), parts[kept]
    finite = np.isfinite(seen.wire_bytes)
    # In order of receivers, so that each gets an even part of every size.
    receiver = numbered(seen.dst_host)
    rows = np.argsort(receiver, kind="stable")
    rows = rows[(finite & ~seen.ran_before)[rows]]
    wire = _sizes_of_seen(seen, fit, rows, packet_bytes, rng)
    wire = np.where(finite, wire, ends(seen, fit, per_ending, until_s, rng))
    nic, first_s = first_samples(seen, nic_bytes_per_s)
    later = np.where(finite, seen.sent_bytes - wire, 0.0) / (seen.n_samples + 1) / nic
    running = seen.start_s <= max(since_s, RUNNING_FROM_S)
    start = np.where(running, seen.start_s, np.maximum(seen.start_s + later, since_s + 2 * RUNNING_FROM_S))
    for batch, began_s in batches(seen, first_s, seen.start_s <= RUNNING_FROM_S):
        begun = batch[~running[batch]]
        start[begun] = max(began_s, since_s + 2 * RUNNING_FROM_S)
        if alike(seen.n_samples[batch]):
            ended = batch[(finite & ~parts)[batch]]
            wire[batch] = wire[ended if len(ended) else batch].mean()
    for batch in ended_together(seen, finite & (seen.start_s <= RUNNING_FROM_S)):
        if alike(seen.n_samples[batch]):
            wire[batch] = wire[batch].mean()
    seen = replace(seen, wire_bytes=wire, start_s=start, sent_bytes=np.where(finite, wire, seen.sent_bytes))

    templates = rows[~running[rows]]
    sampled = seen.n_samples[templates].astype(np.float64) * spacing
    most = min(MOST_UNSEEN, max(_MOST_UNSEEN_EACH * len(templates), _FEW_UNSEEN))
    share = float(sampled.sum()) / window_bytes if small_ones else 0.0
    size, which = _unseen_sizes(fit, share, most, rng)
    likely, group = _likely(seen, templates, fit)
    weight = _room(receiver[templates], sampled, wire[templates], likely, group, fit)
    like = templates[_alike(likely, group, weight, which, rng)]
    bursty = (size >= _LEAST_BURST_PACKETS * packet_bytes) & (size < shape.burst_s * nic[like])
    joined = bursty & (rng.random(len(size)) < shape.together)
    weight = weight * evened(receiver[templates], first_s[templates])
    of_burst = templates[_alike(likely, group, weight, which, rng)]
    spread = _APART * (until_s - since_s)
    alone = start[rng.permuted(like)] + rng.uniform(-spread, spread, len(size))
    alone = until_s - np.abs(until_s - since_s - np.abs(alone - since_s))  # reflected at both ends
    like = np.where(joined, of_burst, like)
    begins = np.where(joined, start[like] + rng.uniform(0.0, _TOGETHER_S, len(size)), alone)
    sender = np.where(joined, _other_senders(receiver, like, rng), like)
    unseen = _unseen(seen, sender, size, begins, nic, until_s)
    share = float(size.sum() / max(wire[templates].sum() + size.sum(), 1.0))
    return Modelled(seen.and_then(unseen), len(size), share, spacing * float(np.log(2.0)))


def _modelled_bursts(
    seen: FlowArrivals,
    fit: SizeFit,
    nic_bytes_per_s: Mapping[str, float],
    since_s: float,
    until_s: float,
    rng: np.random.Generator,
) -> tuple[FlowArrivals, int]:
    """Messages of bursts, all of one size: those seen, and to each burst as many as its samples stand for."""
    size, messages = float(fit.size_bytes[0]), float(fit.messages[0])
    unseen_of_seen = float(fit.unseen[0]) / (messages - float(fit.unseen[0]))
    nic, first_s = first_samples(seen, nic_bytes_per_s)
    begins = np.maximum(first_s - size / (seen.n_samples + 1) / nic, since_s + 2 * RUNNING_FROM_S)
    seen = replace(
        seen, wire_bytes=np.full(len(seen), size), start_s=begins, sent_bytes=np.full(len(seen), size)
    )
    receiver = numbered(seen.dst_host)
    count = round(unseen_of_seen * len(seen))
    if not count:
        return seen, 0
    like = _evenly(evened(receiver, first_s), count, rng)
    sender = _other_senders(receiver, like, rng)
    start_s = begins[like] + rng.uniform(0.0, _TOGETHER_S, count)
    return seen.and_then(_unseen(seen, sender, np.full(count, size), start_s, nic, until_s)), count


def one_size_bursts(
    arrivals: FlowArrivals, nic_bytes_per_s: Mapping[str, float], packet_bytes: float
) -> OneSizeBursts | None:
    """The bursts of one size in a window: None where bursts are not told from chance, or their sizes differ.

    ``nic_bytes_per_s``: line rates by host; ``packet_bytes``: a full packet on the wire.
    """
    spacing = usual_spacing(arrivals)
    rows = np.flatnonzero(np.isfinite(arrivals.wire_bytes) & ~arrivals.ran_before)
    if not len(rows) or spacing <= 2 * packet_bytes:
        return None
    rows = rows[arrivals.n_samples[rows] < MANY_SAMPLES][-_MOST_COMPARED:]
    of = arrivals.take(rows)
    rows = rows[members(numbered(of.dst_host), first_samples(of, nic_bytes_per_s)[1])]
    found = one_size(arrivals.n_samples[rows], spacing, packet_bytes)
    if found is None:
        return None
    size, of_it = found
    member = np.zeros(len(arrivals), np.bool_)
    member[rows[of_it]] = True
    return OneSizeBursts(member, size)


def _unseen(
    seen: FlowArrivals,
    sender: NDArray[np.int64],
    size_bytes: NDArray[np.float64],
    start_s: NDArray[np.float64],
    nic_bytes_per_s: NDArray[np.float64],
    until_s: float,
) -> FlowArrivals:
    """Messages without a sample that go the way of those in the rows ``sender``, at line rate."""
    return replace(
        seen.take(sender),
        wire_bytes=size_bytes,
        start_s=start_s,
        last_s=np.minimum(start_s + size_bytes / nic_bytes_per_s[sender], until_s),
        sent_bytes=size_bytes,
        n_samples=np.zeros(len(size_bytes), np.int64),
        end_seen=np.zeros(len(size_bytes), np.bool_),
        ran_before=np.zeros(len(size_bytes), np.bool_),
    )


def usual_burstiness(
    arrivals: FlowArrivals, bursts: OneSizeBursts | None, nic_bytes_per_s: Mapping[str, float]
) -> float:
    """The share of unseen messages that start with one seen, as the latest starts of those seen suggest.

    Messages in bursts of one size apart: each of those bursts gets its own.
    """
    few = np.isfinite(arrivals.wire_bytes) & (arrivals.n_samples < MANY_SAMPLES) & ~arrivals.ran_before
    if bursts is not None:
        few &= ~bursts.member
    seen = arrivals.take(np.flatnonzero(few)[-_MOST_COMPARED:])
    return min(companions(numbered(seen.dst_host), first_samples(seen, nic_bytes_per_s)[1]), 1.0)


def _sizes_of_seen(
    arrivals: FlowArrivals,
    fit: SizeFit,
    rows: NDArray[np.int64],
    packet_bytes: float,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """Bytes of each message: of ``rows`` with few samples a quantile of what is likely, a different one each,
    with more its median.

    Quantiles follow each other by the golden section, so that those of neighbours lie evenly too.
    """
    wire = arrivals.wire_bytes.copy()
    few = rows[arrivals.n_samples[rows] < SHARPEST]
    likely, group = _likely(arrivals, few, fit)
    for number, given in enumerate(likely):
        mine = few[group == number]
        quantile = np.mod(rng.random() + _GOLDEN * np.arange(len(mine), dtype=np.float64), 1.0)
        if (arrivals.n_samples[mine] >= MANY_SAMPLES).all():
            quantile[:] = 0.5
        wire[mine] = np.maximum(fit.quantile(given, quantile), arrivals.n_samples[mine] * packet_bytes)
    return wire


def _likely(
    arrivals: FlowArrivals, rows: NDArray[np.int64], fit: SizeFit
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """How likely each size of the grid is for messages that left the same samples [groups, k], and the group
    of each of ``rows``.
    """
    kinds, group = np.unique(2 * arrivals.n_samples[rows] + arrivals.end_seen[rows], return_inverse=True)
    return fit.share_given(kinds // 2, kinds % 2 > 0), group


def _unseen_sizes(
    fit: SizeFit, share: float, most: int, rng: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Bytes of each unseen message and its place on the grid; ``share`` of the window's are wanted.

    Where there would be more than ``most``, the smallest are joined to larger ones with as many bytes.
    """
    expected = fit.unseen * share
    size = fit.size_bytes
    for least in range(len(size)):
        joined = expected[: least + 1] @ size[: least + 1] / size[least]
        if joined + expected[least + 1 :].sum() <= most:
            expected = np.concatenate((np.zeros(least), [joined], expected[least + 1 :]))
            break
    reached = np.floor(np.concatenate(([0.0], np.cumsum(expected))) + rng.random()).astype(np.int64)
    which = np.repeat(np.arange(len(size)), np.diff(reached))
    return fit.within(which, rng.random(len(which))), which


def _room(
    receiver: NDArray[np.int64],
    sampled_bytes: NDArray[np.float64],
    wire_bytes: NDArray[np.float64],
    likely: NDArray[np.float64],
    group: NDArray[np.int64],
    fit: SizeFit,
) -> NDArray[np.float64]:
    """For each message how many times its share of unseen bytes its receiver should get.

    A receiver should get the bytes that samples say, less those of messages seen. Few samples say little: the
    spread of receivers that sampling alone explains is taken out (James and Stein).
    """
    if not len(receiver):
        return np.ones(0)
    _, receiver = np.unique(receiver, return_inverse=True)
    sampled = np.bincount(receiver, sampled_bytes)
    mean = float(sampled.mean())
    by_chance = fit.spacing_bytes * mean
    real = max(float(sampled.var()) - by_chance, 0.0)
    wanted = mean + (sampled - mean) * real / (real + by_chance)
    free = np.maximum(wanted - np.bincount(receiver, wire_bytes), 0.0)
    unseen = likely @ (fit.unseen * fit.size_bytes / np.maximum(fit.messages, 1e-300))
    usual = np.bincount(receiver, unseen[group])
    room = (free / max(float(free.sum()), 1.0)) / (usual / usual.sum())
    return np.asarray(np.clip(room, _LEAST_ROOM, 1.0 / _LEAST_ROOM)[receiver])


def _alike(
    likely: NDArray[np.float64],
    group: NDArray[np.int64],
    weight: NDArray[np.float64],
    which: NDArray[np.int64],
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """For each unseen message the place of a seen one, the likelier the likelier that one is of its size."""
    found = np.empty(len(which), np.int64)
    for size in np.unique(which).tolist():
        mine = np.flatnonzero(which == size)
        found[mine] = _evenly(weight * likely[group, size], len(mine), rng)
    return found


def _evenly(weight: NDArray[np.float64], count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """``count`` rows in proportion to their ``weight``, by systematic sampling."""
    reached = np.cumsum(weight)
    at = (rng.random() + np.arange(count)) / count * reached[-1]
    return np.asarray(np.minimum(np.searchsorted(reached, at, side="right"), len(weight) - 1))


def _other_senders(
    receiver: NDArray[np.int64], like: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.int64]:
    """For each row a random row to the same receiver, whose sender and path to take."""
    by_receiver = np.argsort(receiver, kind="stable")
    many = np.bincount(receiver, minlength=1)
    first = np.cumsum(many) - many
    of = receiver[like]
    return np.asarray(by_receiver[first[of] + (rng.random(len(like)) * many[of]).astype(np.int64)])
