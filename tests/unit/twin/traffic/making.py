"""Traffic written by hand, read back as plain Python, and delivered by a network without queues."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import fields

import numpy as np
from numpy.typing import NDArray

from twin.traffic.base import Hosts, Traffic

Row = tuple[int, int, float, float]  # src, dst, payload_bytes, start_s


def waiting_traffic(
    rows: Sequence[Row], after: Sequence[Sequence[int]], gap_s: Sequence[float] | None = None
) -> Traffic:
    """Rows in the order given, each after the rows that its list in ``after`` names."""
    src, dst, payload, start = zip(*rows, strict=True) if rows else ((), (), (), ())
    return Traffic(
        src=np.array(src, dtype=np.int32),
        dst=np.array(dst, dtype=np.int32),
        payload_bytes=np.array(payload, dtype=np.float64),
        start_s=np.array(start, dtype=np.float64),
        after_offset=np.concatenate([[0], np.cumsum([len(one) for one in after])]).astype(np.int64),
        after=np.array([row for one in after for row in one], dtype=np.int64),
        gap_s=np.array(gap_s if gap_s is not None else [0.0] * len(rows)),
    )


def flows_of(traffic: Traffic) -> list[Row]:
    """Every flow as (src, dst, payload_bytes, start_s), in order."""
    columns = (traffic.src, traffic.dst, traffic.payload_bytes, traffic.start_s)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def waiting_flows(traffic: Traffic) -> list[tuple[Row, float, list[Row]]]:
    """Every flow with its gap and the flows it waits for, row numbers forgotten."""
    flows = flows_of(traffic)
    return [
        (flow, gap, sorted(flows[row] for row in waits))
        for flow, gap, waits in zip(flows, traffic.gap_s.tolist(), traffic.awaited, strict=True)
    ]


def wire_bytes(traffic: Traffic, hosts: Hosts) -> NDArray[np.float64]:
    """What each flow puts on the wire."""
    packets = np.ceil(traffic.payload_bytes / hosts.mtu_payload_bytes)
    return np.asarray(traffic.payload_bytes + packets * hosts.wire_overhead_bytes)


def deliver(traffic: Traffic, flow_s: float) -> tuple[list[float], list[float]]:
    """When each flow starts and is delivered if every flow takes ``flow_s``, whatever its size."""
    starts: list[float] = []
    ends: list[float] = []
    for earliest, gap, waits in zip(
        traffic.start_s.tolist(), traffic.gap_s.tolist(), traffic.awaited, strict=True
    ):
        ready = max((ends[row] for row in waits), default=-gap) + gap
        starts.append(max(earliest, ready))
        ends.append(starts[-1] + flow_s)
    return starts, ends


def fingerprint(traffic: Traffic) -> str:
    """The same for the same traffic, to the byte."""
    digest = hashlib.sha256()
    for field in fields(traffic):
        digest.update(getattr(traffic, field.name).tobytes())
    return digest.hexdigest()
