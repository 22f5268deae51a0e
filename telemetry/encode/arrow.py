"""Writes reports as an Arrow IPC stream (schema: ``docs/telemetry/int-report.md``)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from telemetry.report import MARK_UNKNOWN, MISSING_NS, ReportBatch

MEDIA_TYPE = "application/vnd.apache.arrow.stream"

_NAME = pa.dictionary(pa.int32(), pa.string())
_HOP = pa.struct(
    [
        ("switch", _NAME),
        ("ingress_port", _NAME),
        ("egress_port", _NAME),
        ("queue", pa.int32()),
        ("queue_bytes", pa.float64()),
        ("ingress_ts_ns", pa.int64()),
        ("egress_ts_ns", pa.int64()),
        ("ecn_marked", pa.bool_()),
    ]
)
SCHEMA = pa.schema(
    [
        ("ts_ns", pa.int64()),
        ("src", _NAME),
        ("dst", _NAME),
        ("sport", pa.uint16()),
        ("dport", pa.uint16()),
        ("protocol", pa.uint8()),
        ("packet_bytes", pa.int32()),
        ("sampling_rate", pa.float64()),
        ("hops", pa.list_(_HOP)),
    ]
)
"""The schema written; readers also accept other widths, order and additional columns."""


def encode(batch: ReportBatch) -> bytes:
    """The reports as a stream of one record batch, without ``index``."""
    flow, used = _used(batch.flow, len(batch.flow_keys))
    keys = batch.flow_keys.take(used)
    site, used = _used(batch.hop_site, len(batch.sites))
    switch, ingress_port, egress_port, queue = (
        [batch.sites[number][part] for number in used.tolist()] for part in range(4)
    )
    hop = pa.StructArray.from_arrays(
        [
            pa.array(switch, _NAME).take(site),
            pa.array(ingress_port, _NAME).take(site),
            pa.array(egress_port, _NAME).take(site),
            pa.array(queue, pa.int32()).take(site),
            pa.array(batch.queue_bytes, pa.float64(), mask=np.isnan(batch.queue_bytes)),
            pa.array(batch.ingress_ns, pa.int64(), mask=batch.ingress_ns == MISSING_NS),
            pa.array(batch.egress_ns, pa.int64(), mask=batch.egress_ns == MISSING_NS),
            pa.array(batch.marked == 1, pa.bool_(), mask=batch.marked == MARK_UNKNOWN),
        ],
        fields=list(_HOP),
    )
    columns = [
        pa.array(batch.ts_ns),
        _hosts(keys.hosts, keys.src[flow]),
        _hosts(keys.hosts, keys.dst[flow]),
        pa.array(keys.sport[flow]),
        pa.array(keys.dport[flow]),
        pa.array(keys.protocol[flow]),
        pa.array(batch.packet_bytes).cast(pa.int32()),
        pa.array(batch.sampling_rate),
        pa.ListArray.from_arrays(pa.array(batch.hop_offset).cast(pa.int32()), hop, type=pa.list_(_HOP)),
    ]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=SCHEMA))
    written: bytes = sink.getvalue().to_pybytes()
    return written


def _used(numbers: NDArray[np.int32], size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Numbers compacted to those that occur, and the old number of each new one."""
    occurs = np.zeros(size, np.bool_)
    occurs[numbers] = True
    return (np.cumsum(occurs) - 1)[numbers], np.flatnonzero(occurs)


def _hosts(hosts: Sequence[str], numbers: NDArray[np.int32]) -> pa.Array:
    """The host of each number, dictionary-encoded."""
    indices, used = _used(numbers, len(hosts))
    dictionary = pa.array([hosts[number] for number in used.tolist()], pa.string())
    return pa.DictionaryArray.from_arrays(pa.array(indices.astype(np.int32)), dictionary)
