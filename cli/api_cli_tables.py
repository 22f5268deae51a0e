"""What telemetry shows, for people: flows by class, the deepest queues; must not predict."""

from __future__ import annotations

from rich.table import Table

from cli.output import NONE, headed_table
from service.documents.telemetry import deepest_first
from telemetry.state import FlowClass, NetworkState
from twin.units import bytes_text, percent_text


def flows_table(state: NetworkState) -> Table:
    """Flows and bytes by class."""
    table = headed_table("Flows in the window", "class", "flows", "bytes", "share")
    total = sum(state.bytes_by_class.values()) or 1.0
    for flow_class in reversed(FlowClass):
        volume = state.bytes_by_class.get(flow_class, 0.0)
        table.add_row(
            flow_class.label.replace("_", " "),
            f"{state.flows_by_class.get(flow_class, 0)}",
            bytes_text(volume),
            percent_text(volume / total),
        )
    return table


def queues_table(state: NetworkState, limit: int) -> Table:
    """The deepest queues."""
    table = headed_table("Deepest queues", "queue", "mean", "99 %", "marked", "load")
    for queue in sorted(state.queues, key=deepest_first)[:limit]:
        load = None
        if queue.capacity_bytes_per_s:
            load = queue.throughput_bytes_per_s / queue.capacity_bytes_per_s
        table.add_row(
            f"{queue.ref.switch} {queue.ref.port} · {queue.ref.queue}",
            bytes_text(queue.depth_mean_bytes) if queue.has_depth else NONE,
            bytes_text(queue.depth_p99_bytes) if queue.has_depth else NONE,
            NONE if queue.marked_ratio is None else percent_text(queue.marked_ratio),
            NONE if load is None else percent_text(load),
        )
    return table
