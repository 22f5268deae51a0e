"""Collectives found in what sampling shows of them, their steps linked, and continued beyond the window."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from telemetry.state import FlowArrivals
from tests.unit.twin.arrivals.sampled import NIC, PACKET
from twin.arrivals.chains import ends_s
from twin.arrivals.collectives import Barrier, Collectives, barriers, collectives_of
from twin.arrivals.links import links_of, waiting_share

HOSTS = tuple(f"h{number}" for number in range(8))
NICS = dict.fromkeys(HOSTS, NIC)
SIZE = 2e6
UNTIL_S = 0.05

Message = tuple[str, str, float, float]
"""Sender, receiver, begin and end in seconds."""


def seen(
    messages: Sequence[Message], seed: int = 1, size_of: Callable[[int], float] = lambda place: SIZE
) -> FlowArrivals:
    """Messages in order of start as reports of one packet in 64 show them up to ``UNTIL_S``.

    ``size_of`` tells a message's by its place in that order.
    """
    rng = np.random.default_rng(seed)
    rows = []
    for place, (src, dst, begin_s, end_s) in enumerate(sorted(messages, key=lambda one: one[2])):
        at_s = np.sort(rng.uniform(begin_s, end_s, rng.poisson(size_of(place) / (64 * PACKET))))
        at_s = at_s[at_s < UNTIL_S]
        if len(at_s):
            shown = len(at_s) * 64 * PACKET
            start_s = max(at_s[0] - shown / (len(at_s) + 1) / NIC, 1e-8)
            size = shown if end_s < UNTIL_S else np.inf
            rows.append((src, dst, size, start_s, at_s[-1], shown, len(at_s)))
    src, dst, size, start_s, last_s, shown, n = zip(*rows, strict=True)
    return FlowArrivals(
        src,
        dst,
        path=np.zeros(len(rows), np.int32),
        wire_bytes=np.array(size),
        start_s=np.array(start_s),
        last_s=np.array(last_s),
        way_s=np.zeros(len(rows)),
        sent_bytes=np.array(shown),
        n_samples=np.array(n),
        end_seen=np.zeros(len(rows), np.bool_),
        ran_before=np.zeros(len(rows), np.bool_),
    )


def all_to_all(
    begins_s: Callable[[int, float], float], steps: int = 14, hosts: Sequence[str] = HOSTS, seed: int = 1
) -> list[Message]:
    """Steps in which each host sends to all others, a message taking 1 to 3 ms: another time in each step.

    ``begins_s``: when a host begins a step, of its number and when the one before was over for that host.
    """
    rng = np.random.default_rng(seed)
    over_s = dict.fromkeys(hosts, 1e-3)
    found = []
    for step in range(steps):
        took_s = rng.uniform(1e-3, 3e-3)
        begin_s = {host: begins_s(step, over_s[host]) for host in hosts}
        for src in hosts:
            for dst in hosts:
                if src != dst:
                    end_s = begin_s[src] + took_s * rng.uniform(0.8, 1.0)
                    found.append((src, dst, begin_s[src], end_s))
                    over_s[src], over_s[dst] = max(over_s[src], end_s), max(over_s[dst], end_s)
    return found


def when_over(step: int, over_s: float) -> float:
    return over_s + 0.2e-3


def ring(
    hosts: Sequence[str] = HOSTS, steps: int = 40, seed: int = 1, usual_s: float = 1e-3, pause_s: float = 0.0
) -> list[Message]:
    """Each host sends to the next once its last message has ended, and the last of the host before it.

    A message takes half to one and a half of ``usual_s``; all hosts pause before each tenth step.
    """
    rng = np.random.default_rng(seed)
    over_s = dict.fromkeys(hosts, 1e-3)
    found = []
    for step in range(steps):
        begin_s = {
            host: at_s + (pause_s if step and step % 10 == 0 else 0.0) for host, at_s in over_s.items()
        }
        sent = [
            (src, hosts[(at + 1) % len(hosts)], begin_s[src], begin_s[src] + usual_s * rng.uniform(0.5, 1.5))
            for at, src in enumerate(hosts)
        ]
        for src, dst, _, end_s in sent:
            over_s[src], over_s[dst] = max(over_s[src], end_s), max(over_s[dst], end_s)
        found += sent
    return found


def by_chance(count: int = 600, seed: int = 1, usual_s: float = 1e-3) -> list[Message]:
    """Messages that wait for none, of a fifth to twice ``usual_s``."""
    rng = np.random.default_rng(seed)
    found = []
    for begin_s in np.sort(rng.uniform(1e-3, UNTIL_S, count)).tolist():
        src, dst = rng.choice(8, 2, replace=False)
        found.append((HOSTS[src], HOSTS[dst], begin_s, begin_s + usual_s * rng.uniform(0.2, 2.0)))
    return found


def waiting_for(found: FlowArrivals, all_barriers: Sequence[Barrier]) -> dict[int, Barrier]:
    return {row: one for one in all_barriers if one.awaited for row in one.starts}


def test_an_all_to_all_is_found_among_other_messages() -> None:
    found = collectives_of(seen([*all_to_all(when_over), *by_chance(100)]), NICS)
    assert found.receivers == {host: frozenset(HOSTS) - {host} for host in HOSTS}
    assert not found.relays
    assert ("h0", "h1") in found
    assert ("h0", "h0") not in found


def test_of_two_groups_each_is_found() -> None:
    messages = all_to_all(when_over, hosts=HOSTS[:5]) + ring(HOSTS[5:])
    found = collectives_of(seen(messages), NICS)
    assert found.receivers.keys() == set(HOSTS[:5])
    assert found.relays == set(HOSTS[5:])
    assert ("h0", "h5") not in found


def test_a_ring_is_found_among_other_messages() -> None:
    found = collectives_of(seen([*ring(), *by_chance(60)]), NICS)
    assert found.relays == set(HOSTS)
    assert not found.receivers


def test_a_ring_is_found_where_other_large_messages_outnumber_it() -> None:
    messages = [*ring(steps=30), *by_chance(500)]
    found = collectives_of(seen(messages), NICS)
    assert found.relays == set(HOSTS)
    assert not found.receivers


@pytest.mark.parametrize("seed", range(4))
def test_messages_that_wait_for_none_are_no_collective(seed: int) -> None:
    for count in (60, 200, 600):
        assert collectives_of(seen(by_chance(count, seed)), NICS) == Collectives()
    for count in (1_000, 2_500):  # as short as at 100 Gbit/s
        assert collectives_of(seen(by_chance(count, seed, 0.1e-3)), NICS) == Collectives()


def test_steps_by_a_clock_of_their_own_are_no_collective() -> None:
    """Every 3.2 ms, however long the step before took: a slower watermark would not delay them."""
    by_clock = all_to_all(lambda step, _: 1e-3 + 3.2e-3 * step)
    assert collectives_of(seen(by_clock), NICS) == Collectives()


def test_transfers_of_pairs_one_after_the_other_stay_chains() -> None:
    messages = []
    for pair in range(4):
        begin_s = 1e-3
        for number in range(30):
            end_s = begin_s + 0.8e-3 + 0.1e-3 * ((number + pair) % 5)
            messages.append((HOSTS[pair], HOSTS[(pair + 1) % 4], begin_s, end_s))
            begin_s = end_s
    found = links_of(seen(messages), NICS)
    assert found.collectives == Collectives()
    assert found.chains == {(HOSTS[pair], HOSTS[(pair + 1) % 4]) for pair in range(4)}


def test_two_steps_are_too_few() -> None:
    assert collectives_of(seen(all_to_all(when_over, steps=2)), NICS) == Collectives()


def linked(
    messages: Sequence[Message], since_s: float = 0.0
) -> tuple[FlowArrivals, FlowArrivals, list[Barrier]]:
    shown = seen(messages)
    return (shown, *barriers(shown, collectives_of(shown, NICS), since_s, UNTIL_S))


def test_a_step_of_an_all_to_all_waits_for_all_that_its_host_sent_and_received() -> None:
    shown, longer, found = linked(all_to_all(when_over))
    waiting = waiting_for(longer, found)
    complete = 0
    for row, barrier in waiting.items():
        if row >= len(shown):
            continue
        host = shown.src_host[row]
        ends = [(shown.src_host[one], shown.dst_host[one]) for one in barrier.awaited]
        assert all(host in pair for pair in ends)
        assert len(set(ends)) == len(ends) <= 14
        complete += len(ends) >= 13
        assert barrier.gap_s < 1.2e-3
    assert complete > 0.9 * len([row for row in waiting if row < len(shown)])


def test_a_message_of_a_ring_waits_for_its_own_and_for_the_one_received() -> None:
    shown, longer, found = linked(ring())
    for row, barrier in waiting_for(longer, found).items():
        if row < len(shown):
            host = shown.src_host[row]
            sent = [one for one in barrier.awaited if shown.src_host[one] == host]
            received = [one for one in barrier.awaited if shown.dst_host[one] == host]
            assert len(sent) == 1
            assert len(received) <= 1
            assert ends_s(shown)[barrier.awaited].max() == pytest.approx(shown.start_s[row], abs=0.5e-3)


def awaited_rightly(messages: Sequence[Message], among: Sequence[Message] = ()) -> float:
    """The share of a ring's messages, from each host's second on, that wait for just the right two."""
    shown, longer, found = linked([*messages, *among])
    row_of = {}
    for row, (src, dst, start_s) in enumerate(
        zip(shown.src_host, shown.dst_host, shown.start_s, strict=True)
    ):
        own = [one for one in messages if one[:2] == (src, dst)]
        nearest = min(own, key=lambda one: abs(one[2] - start_s), default=None)
        if nearest is not None and abs(nearest[2] - start_s) < 0.3 * (nearest[3] - nearest[2]):
            row_of[nearest] = row
    right = []
    waiting = waiting_for(longer, found)
    for place, one in enumerate(messages):
        if place >= len(HOSTS) and one in row_of:
            before = messages[place // len(HOSTS) * len(HOSTS) - len(HOSTS) :][: len(HOSTS)]
            wanted = {row_of.get(other) for other in before if one[0] in other[:2]}
            barrier = waiting.get(row_of[one])
            right.append(barrier is not None and set(barrier.awaited) == wanted)
    return float(np.mean(right))


def test_what_a_message_of_a_ring_passes_on_is_told_however_short_messages_are() -> None:
    """At 100 Gbit/s one lasts no longer than the gap that is allowed for between two."""
    for usual_s in (1e-3, 0.15e-3):
        assert awaited_rightly(ring(steps=30, usual_s=usual_s)) > 0.85


def test_what_a_host_sends_to_others_than_the_next_is_no_part_of_its_ring() -> None:
    among = [one for one in by_chance(80) if HOSTS.index(one[1]) != (HOSTS.index(one[0]) + 1) % len(HOSTS)]
    _, longer, found = linked([*ring(), *among])
    for row, barrier in waiting_for(longer, found).items():
        for one in (row, *barrier.awaited):
            place = HOSTS.index(longer.src_host[one])
            assert longer.dst_host[one] == HOSTS[(place + 1) % len(HOSTS)]
    assert awaited_rightly(ring(), among) > 0.75


def test_a_ring_pauses_where_it_was_seen_to_and_nowhere_else() -> None:
    """Now and as it goes on; what sampling makes of gaps that are none is no pause."""
    shown, longer, found = linked(ring(steps=60, usual_s=0.5e-3, pause_s=1e-3), since_s=0.0)
    for rows in (range(len(shown)), range(len(shown), len(longer))):
        gap_s = np.array([one.gap_s for row, one in waiting_for(longer, found).items() if row in rows])
        assert np.mean(gap_s > 0.7e-3) == pytest.approx(0.1, abs=0.03)
        assert np.median(gap_s) < 0.02e-3


def test_sizes_of_a_step_differ_as_far_as_sampling_does_not_explain() -> None:
    def spread(size_of: Callable[[int], float]) -> tuple[float, float]:
        messages = ring()
        shown = seen(messages, size_of=size_of)
        longer, _ = barriers(shown, collectives_of(shown, NICS), 0.0, UNTIL_S)
        of = [one.wire_bytes[np.isfinite(one.wire_bytes)] for one in (shown, longer)]
        return float(of[0].std() / of[0].mean()), float(of[1].std() / of[1].mean())

    before, after = spread(lambda place: SIZE)
    assert before > 0.15
    assert after < 0.07
    before, after = spread(lambda place: SIZE * (0.7 if place % 3 else 1.3))
    assert before > 0.3
    assert after == pytest.approx(np.std([0.7, 0.7, 1.3]) / 0.9, abs=0.06)


@pytest.mark.parametrize("messages", [all_to_all(when_over), ring()], ids=["all-to-all", "ring"])
def test_steps_go_on_after_the_window_for_as_long_as_they_were_seen(messages: list[Message]) -> None:
    shown, longer, found = linked(messages, since_s=0.03)
    added = longer.take(np.arange(len(shown), len(longer)))
    late = shown.take(np.flatnonzero(shown.start_s > 0.031))
    assert len(added) >= len(late)
    assert set(added.start_s.tolist()) == {UNTIL_S}
    assert not added.sent_bytes.any()
    waiting = waiting_for(longer, found)
    assert waiting.keys() >= set(range(len(shown), len(longer)))
    for row in range(len(shown), len(longer)):
        assert any(longer.src_host[one] == longer.src_host[row] for one in waiting[row].awaited)


def test_no_message_waits_for_itself() -> None:
    """Each starts after all that it waits for, and what these wait for."""
    for messages in (all_to_all(when_over), ring()):
        _, longer, found = linked([*messages, *by_chance(60)])
        left = waiting_for(longer, found)
        begun = set(range(len(longer))) - left.keys()
        while ready := {row for row, one in left.items() if begun.issuperset(one.awaited)}:
            begun |= ready
            left = {row: one for row, one in left.items() if row not in ready}
        assert not left


def test_what_waits_as_it_is_replayed_is_no_reason_for_short_moments() -> None:
    for messages in (all_to_all(when_over), ring()):
        shown = seen(messages)
        assert waiting_share(shown, links_of(shown, NICS), NICS) == 0.0


def test_nothing_is_found_in_a_window_without_large_messages() -> None:
    small = replace(seen(by_chance(100)), sent_bytes=np.full(len(seen(by_chance(100))), 1e5))
    assert collectives_of(small, NICS) == Collectives()
    none: NDArray[np.int64] = np.empty(0, np.int64)
    assert links_of(small.take(none), NICS).collectives == Collectives()
