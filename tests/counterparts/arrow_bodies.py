"""INT reports, as JSON has them, written as Arrow IPC streams by somebody who chose other types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

NAME = pa.string()
TYPES: dict[str, pa.DataType] = {
    "ts_ns": pa.int64(),
    "src": NAME,
    "dst": NAME,
    "sport": pa.int32(),
    "dport": pa.int64(),
    "protocol": pa.int16(),
    "packet_bytes": pa.int64(),
    "sampling_rate": pa.float64(),
}
HOP_TYPES: dict[str, pa.DataType] = {
    "switch": NAME,
    "ingress_port": NAME,
    "egress_port": NAME,
    "queue": pa.int64(),
    "queue_bytes": pa.float64(),
    "ingress_ts_ns": pa.int64(),
    "egress_ts_ns": pa.int64(),
    "ecn_marked": pa.bool_(),
}


def flat(report: Mapping[str, Any]) -> dict[str, Any]:
    """A report with its flow's parts beside the others."""
    return {key: value for key, value in report.items() if key != "flow"} | dict(report["flow"])


def table(
    reports: Sequence[Mapping[str, Any]],
    *,
    columns: Mapping[str, pa.DataType] | None = None,
    hop: Mapping[str, pa.DataType] | None = None,
    large: bool = False,
) -> pa.Table:
    """The reports with these types in place of the usual ones; ``large`` lists have 64-bit offsets."""
    inside = pa.struct(list((HOP_TYPES | dict(hop or {})).items()))
    hops = pa.large_list(inside) if large else pa.list_(inside)
    schema = pa.schema([*(TYPES | dict(columns or {})).items(), ("hops", hops)])
    return pa.Table.from_pylist([flat(report) for report in reports], schema)


def stream(given: pa.Table, *, rows_a_batch: int | None = None, compression: str | None = None) -> bytes:
    """The table as a stream."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, given.schema, options=options) as writer:
        writer.write_table(given, rows_a_batch)
    written: bytes = sink.getvalue().to_pybytes()
    return written
