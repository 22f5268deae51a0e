"""64-bit fingerprints of flows, paths and whole reports, the same in every process; imports only numpy."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

_U64 = np.uint64


def fingerprint_of(parts: Iterable[object]) -> int:
    """Fingerprint of a key (a flow's five-tuple, a hop's site) from its text."""
    text = "\x1f".join([str(part) for part in parts])
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest(), "little")


def mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """splitmix64's finaliser: every input bit reaches every output bit."""
    x = values + _U64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> _U64(30))) * _U64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> _U64(27))) * _U64(0x94D049BB133111EB)
    return x ^ (x >> _U64(31))


def report_fingerprints(
    flow: NDArray[np.uint64],
    ts_ns: NDArray[np.int64],
    packet_bytes: NDArray[np.int64],
    sampling_rate: NDArray[np.float64],
    hop_offset: NDArray[np.int64],
    site: NDArray[np.uint64],
    queue_bytes: NDArray[np.float64],
    ingress_ns: NDArray[np.int64],
    egress_ns: NDArray[np.int64],
    marked: NDArray[np.int8],
) -> NDArray[np.uint64]:
    """Fingerprint of each report, all its values taken in; two copies of one report agree.

    ``flow`` and ``site`` are fingerprints per report and per hop; the rest as in ``ReportBatch`` (every
    report has a hop).
    """
    hop = mixed(queue_bytes.view(_U64) ^ mixed(ingress_ns.view(_U64)) ^ site)
    hop = mixed(hop + (egress_ns.view(_U64) ^ (marked.astype(np.int64).view(_U64) << _U64(62))))
    # A hop's place in the path counts, so that the sum below is not blind to order.
    place = np.arange(len(hop)) - np.repeat(hop_offset[:-1], np.diff(hop_offset))
    hop = mixed(hop + place.astype(_U64))
    packet = mixed(packet_bytes.view(_U64) ^ sampling_rate.view(_U64))
    return mixed(mixed(flow ^ mixed(ts_ns.view(_U64) ^ packet)) + np.add.reduceat(hop, hop_offset[:-1]))
