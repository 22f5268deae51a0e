"""What large messages wait for: in a chain the transfer before, in a collective the step before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from telemetry.state import FlowArrivals
from twin.arrivals.bursts import batches, ended_together, first_samples, usual_spacing
from twin.arrivals.chains import FOLLOWS_S, LARGE_BYTES, LEAST_SAMPLES, Pair, chained, chains_of, ends_s
from twin.arrivals.collectives import Barrier, Collectives, barriers, collectives_of
from twin.scenario import Waits

MOST_WAITING = 0.5  # of large messages' bytes: above, a long replay would pile up what would have waited
_FEW_LARGE = 20


@dataclass(frozen=True, slots=True)
class Links:
    """Senders and receivers whose large messages follow one another, and the collectives."""

    chains: frozenset[Pair] = frozenset()
    collectives: Collectives = field(default_factory=Collectives)


@dataclass(frozen=True, slots=True, eq=False)
class Linked:
    """``arrivals`` with messages added that chains and collectives would send next, which start as the window
    ends; and what its rows wait for.
    """

    arrivals: FlowArrivals
    waits: Waits


NO_LINKS = Links()


def links_of(arrivals: FlowArrivals, nic_bytes_per_s: Mapping[str, float]) -> Links:
    """``nic_bytes_per_s``: line rates by host."""
    collectives = collectives_of(arrivals, nic_bytes_per_s)
    chains = chains_of(arrivals, nic_bytes_per_s)
    return Links(frozenset(pair for pair in chains if pair not in collectives), collectives)


def linked(
    arrivals: FlowArrivals,
    links: Links,
    nic_bytes_per_s: Mapping[str, float],
    since_s: float,
    until_s: float,
) -> Linked | None:
    """The messages waiting as ``links`` says, and more of those that began between the two times: a watermark
    under which they are faster does not run out of them. None where none waits.
    """
    found: list[Barrier] = []
    chain = chained(arrivals, links.chains, nic_bytes_per_s, since_s, until_s)
    if chain is not None:
        arrivals = chain.arrivals
        members = np.union1d(np.flatnonzero(chain.after >= 0), chain.after[chain.after >= 0])
        found = [
            Barrier([row], [after] if after >= 0 else (), float(chain.gap_s[row]))
            for row, after in zip(members.tolist(), chain.after[members].tolist(), strict=True)
        ]
    arrivals, of_steps = barriers(arrivals, links.collectives, since_s, until_s)
    found += of_steps
    waiting = [one for one in found if one.awaited]
    if not waiting:
        return None
    barrier, gap_s = np.full(len(arrivals), -1), np.zeros(len(arrivals))
    for one in found:
        gap_s[one.starts] = one.gap_s
    for number, one in enumerate(waiting):
        barrier[one.starts] = number
    awaited = [one.awaited for one in waiting]
    offset = np.cumsum([0, *map(len, awaited)])
    waits = Waits(barrier=barrier, gap_s=gap_s, offset=offset, row=np.concatenate(awaited).astype(np.int64))
    return Linked(arrivals, waits)


def waiting_share(arrivals: FlowArrivals, links: Links, nic_bytes_per_s: Mapping[str, float]) -> float | None:
    """The share of large messages' bytes that wait for others and are not replayed so: 0.0 to 1.0, None where
    that is not known. Replayed for long, such traffic piles up as it never would.

    A message waits that begins as another of its sender to its receiver ends, or in a batch that its sender
    begins, or ends, at one moment; those of the arrivals' ``links`` are replayed so. By chance it is up to
    0.3. ``nic_bytes_per_s``: line rates by host.
    """
    large = arrivals.take(np.flatnonzero(arrivals.sent_bytes >= LARGE_BYTES))
    if len(large) < _FEW_LARGE or usual_spacing(arrivals) * LEAST_SAMPLES > LARGE_BYTES:
        return None
    pairs = list(zip(large.src_host, large.dst_host, strict=True))
    number = {pair: at for at, pair in enumerate(dict.fromkeys(pairs))}
    pair = np.array([number[one] for one in pairs])
    end_s = ends_s(large)
    apart = float(large.last_s.max()) + 1.0  # pairs out of each other's reach
    ended = np.sort((pair * apart + end_s)[np.isfinite(end_s)])
    began = pair * apart + large.start_s
    earliest, latest = (np.searchsorted(ended, began + at) for at in (-FOLLOWS_S, FOLLOWS_S))
    own = end_s < large.start_s + FOLLOWS_S
    waits = latest - earliest - own > 0
    _, first_s = first_samples(large, nic_bytes_per_s)
    ran = large.start_s <= 0.0  # first samples of slow ones all follow soon after the window's start
    for batch in [
        *(rows for rows, _ in batches(large, first_s, ran)),
        *ended_together(large, ran & np.isfinite(end_s)),
    ]:
        waits[batch] = True
    waits &= np.array([one not in links.chains and one not in links.collectives for one in pairs])
    return float(large.sent_bytes[waits].sum() / large.sent_bytes.sum())
