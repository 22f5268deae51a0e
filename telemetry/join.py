"""Several batches of reports as one, and one as several."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from telemetry.flow_keys import FlowKeys
from telemetry.report import HopSite, ReportBatch

PART_HOPS = 8_192
"""A window takes a part of so many hops in a few milliseconds, and in 50 ms where each is another's."""

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


def parted(batch: ReportBatch, hops: int = PART_HOPS) -> Iterator[ReportBatch]:
    """The reports of a batch in parts of about so many hops, each with no flows and sites but its own."""
    if batch.hop_offset[-1] <= hops:
        yield batch
        return
    cuts = np.searchsorted(batch.hop_offset, np.arange(hops, batch.hop_offset[-1], hops))
    for begin, end in pairwise([0, *np.unique(cuts).tolist(), len(batch)]):
        part = batch.take(np.arange(begin, end))
        flows, flow = np.unique(part.flow, return_inverse=True)
        sites, site = np.unique(part.hop_site, return_inverse=True)
        yield replace(
            part,
            flow=flow.astype(np.int32),
            flow_keys=FlowKeys.of(batch.flow_keys.take(flows)),
            hop_site=site.astype(np.int32),
            sites=tuple(batch.sites[number] for number in sites.tolist()),
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
