"""Several batches of reports as one; imports only numpy, ``telemetry.flow_keys`` and
``telemetry.report``."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from telemetry.flow_keys import FlowKeys
from telemetry.report import HopSite, ReportBatch

Key = TypeVar("Key", bound=Hashable)


def joined(batches: Sequence[ReportBatch]) -> ReportBatch:
    """The reports of all batches, one batch after the other; their ``index`` stays as it is."""
    if not batches:
        return ReportBatch.empty()
    if len(batches) == 1:
        return batches[0]
    flow, flow_keys = _flows(batches)
    sites: dict[HopSite, int] = {}
    site = np.concatenate([_numbers(batch.sites, sites)[batch.hop_site] for batch in batches])
    hop_offset = np.zeros(sum(map(len, batches)) + 1, np.int64)
    np.cumsum(np.concatenate([batch.hop_count for batch in batches]), out=hop_offset[1:])
    return ReportBatch(
        index=np.concatenate([batch.index for batch in batches]),
        ts_ns=np.concatenate([batch.ts_ns for batch in batches]),
        flow=flow,
        packet_bytes=np.concatenate([batch.packet_bytes for batch in batches]),
        sampling_rate=np.concatenate([batch.sampling_rate for batch in batches]),
        hop_offset=hop_offset,
        hop_site=site,
        queue_bytes=np.concatenate([batch.queue_bytes for batch in batches]),
        ingress_ns=np.concatenate([batch.ingress_ns for batch in batches]),
        egress_ns=np.concatenate([batch.egress_ns for batch in batches]),
        marked=np.concatenate([batch.marked for batch in batches]),
        flow_keys=flow_keys,
        sites=tuple(sites),
    )


def _numbers(keys: Iterable[Key], known: dict[Key, int]) -> NDArray[np.int32]:
    """The number of each key; new ones get one."""
    return np.array([known.setdefault(key, len(known)) for key in keys], np.int32)


def _flows(batches: Sequence[ReportBatch]) -> tuple[NDArray[np.int32], FlowKeys]:
    """The flow of each report in one table, in which each is once, in order of appearance."""
    hosts: dict[str, int] = {}
    parts = [batch.flow_keys for batch in batches]
    number = [_numbers(part.hosts, hosts) for part in parts]
    every = FlowKeys(
        src=np.concatenate([new[part.src] for new, part in zip(number, parts, strict=True)]),
        dst=np.concatenate([new[part.dst] for new, part in zip(number, parts, strict=True)]),
        hosts=tuple(hosts),
        sport=np.concatenate([part.sport for part in parts]),
        dport=np.concatenate([part.dport for part in parts]),
        protocol=np.concatenate([part.protocol for part in parts]),
    )
    _, pair = np.unique(every.src.astype(np.int64) * len(hosts) + every.dst, return_inverse=True)
    ports = (every.sport.astype(np.int64) << 24) + (every.dport.astype(np.int64) << 8) + every.protocol
    _, port = np.unique(ports, return_inverse=True)
    _, first, same = np.unique(pair * (len(ports) + 1) + port, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty(len(first), np.int32)
    place[order] = np.arange(len(first), dtype=np.int32)
    begins = np.cumsum([0, *map(len, parts)])
    flow = [place[same[begin + batch.flow]] for begin, batch in zip(begins, batches, strict=False)]
    return np.concatenate(flow), every.take(first[order])
