"""Whether messages wait for others: collectives, and transfers of which each follows the one before.

A replay starts every message when it was seen to start. Where messages wait for others, a slower watermark
would delay these starts too; replayed for long, such traffic piles up as it never would.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from telemetry.state import FlowArrivals
from twin.arrivals.model import batches, first_samples, usual_spacing

LARGE_BYTES = 300_000.0
MOST_WAITING = 0.5  # of large messages' bytes: above, a long replay would pile up what would have waited
_LEAST_SAMPLES = 3.0  # of a large message; with fewer nobody knows when it began and ended
_FEW_LARGE = 20
_FOLLOWS_S = 150e-6


def waiting_share(arrivals: FlowArrivals, nic_bytes_per_s: Mapping[str, float]) -> float | None:
    """The share of large messages' bytes that wait for others: 0.0 to 1.0, None where that is not known.

    A message waits that begins as another of its sender to its receiver ends, or in a batch that its sender
    begins at one moment. ``nic_bytes_per_s``: line rates by host. By chance it is up to 0.3.
    """
    large = arrivals.take(np.flatnonzero(arrivals.sent_bytes >= LARGE_BYTES))
    if len(large) < _FEW_LARGE or usual_spacing(arrivals) * _LEAST_SAMPLES > LARGE_BYTES:
        return None
    pairs = list(zip(large.src_host, large.dst_host, strict=True))
    number = {pair: at for at, pair in enumerate(dict.fromkeys(pairs))}
    pair = np.array([number[one] for one in pairs])
    between_s = (large.last_s - large.start_s) / np.maximum(large.n_samples, 1)
    end_s = np.where(np.isfinite(large.wire_bytes), large.last_s + between_s, np.inf)
    apart = float(large.last_s.max()) + 1.0  # pairs out of each other's reach
    ended = np.sort((pair * apart + end_s)[np.isfinite(end_s)])
    began = pair * apart + large.start_s
    earliest, latest = (np.searchsorted(ended, began + at) for at in (-_FOLLOWS_S, _FOLLOWS_S))
    own = end_s < large.start_s + _FOLLOWS_S
    waits = latest - earliest - own > 0
    _, first_s = first_samples(large, nic_bytes_per_s)
    for batch, _ in batches(large, first_s, np.zeros(len(large), np.bool_)):
        waits[batch] = True
    return float(large.sent_bytes[waits].sum() / large.sent_bytes.sum())
