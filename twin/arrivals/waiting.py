"""Whether messages wait for others: collectives, and transfers of which each follows the one before.

A replay starts every message when it was seen to start. Where messages wait for others, a slower watermark
would delay these starts too; replayed for long, such traffic piles up as it never would.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from telemetry.state import FlowArrivals
from twin.arrivals.bursts import batches, first_samples
from twin.arrivals.chains import FOLLOWS_S, LARGE_BYTES, LEAST_SAMPLES, chains_of, ends_s
from twin.arrivals.model import usual_spacing

MOST_WAITING = 0.5  # of large messages' bytes: above, a long replay would pile up what would have waited
_FEW_LARGE = 20


def waiting_share(arrivals: FlowArrivals, nic_bytes_per_s: Mapping[str, float]) -> float | None:
    """The share of large messages' bytes that wait for others and are not replayed so: 0.0 to 1.0, None where
    that is not known.

    A message waits that begins as another of its sender to its receiver ends, or in a batch that its sender
    begins at one moment; those of chains are replayed so. ``nic_bytes_per_s``: line rates by host. By
    chance it is up to 0.3.
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
    for batch, _ in batches(large, first_s, np.zeros(len(large), np.bool_)):
        waits[batch] = True
    chains = chains_of(large, nic_bytes_per_s)
    waits &= np.array([one not in chains for one in pairs])
    return float(large.sent_bytes[waits].sum() / large.sent_bytes.sum())
