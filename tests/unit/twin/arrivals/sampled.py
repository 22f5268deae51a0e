"""Made-up messages as sampling shows them: each packet seen with one probability."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from telemetry.state import FlowArrivals

PACKET = 1_048.0
NIC = 12.5e9  # bytes/s
HOSTS = tuple(f"h{number}" for number in range(8))


def sampled(
    wire_bytes: NDArray[np.float64],
    start_s: NDArray[np.float64],
    one_in: int,
    *,
    receiver: NDArray[np.int64] | None = None,
    seed: int = 1,
) -> FlowArrivals:
    """What reports of one packet in ``one_in`` show of messages sent at line rate, in order of start."""
    rng = np.random.default_rng(seed)
    n = rng.poisson(wire_bytes / (one_in * PACKET))
    to = rng.integers(len(HOSTS) // 2, size=len(n)) if receiver is None else receiver
    rows = np.flatnonzero(n)
    rows = rows[np.argsort(start_s[rows], kind="stable")]
    first = [start_s[row] + rng.uniform(0, wire_bytes[row], n[row]).min() / NIC for row in rows.tolist()]
    shown = n[rows] * one_in * PACKET
    start = np.maximum(np.array(first) - shown / (n[rows] + 1) / NIC, 1e-8)
    return arrivals(start, shown, n[rows], to[rows].tolist())


def arrivals(
    start_s: NDArray[np.float64], shown: NDArray[np.float64], n: NDArray[np.int64], to: Sequence[int]
) -> FlowArrivals:
    """Messages from the upper hosts in turn to those numbered."""
    half = len(HOSTS) // 2
    return FlowArrivals(
        src_host=tuple(HOSTS[half + row % half] for row in range(len(n))),
        dst_host=tuple(HOSTS[number] for number in to),
        path=np.zeros(len(n), np.int32),
        wire_bytes=shown,
        start_s=start_s,
        last_s=start_s + shown / NIC,
        way_s=np.zeros(len(n)),
        sent_bytes=np.where(np.isfinite(shown), shown, n * 64 * PACKET),
        n_samples=n.astype(np.int64),
        end_seen=np.zeros(len(n), np.bool_),
        ran_before=start_s == 0.0,
    )
