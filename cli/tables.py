"""What telemetry shows, for people: flows by class, the deepest queues; must not predict.

``ecntwin freeze`` and ``thaw``: whether switches may be set.

``ecntwin flows``: the flows of the last window.
"""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from cli.answers import FlowsAnswer, FreezeAnswer
from cli.client import ServiceClient
from cli.output import (
    NONE,
    WIDE,
    clock_text,
    console,
    gbps_text,
    headed_table,
    of_all_text,
    print_json,
    words_of,
)
from service.documents.telemetry import deepest_first
from telemetry.state import FlowClass, NetworkState
from twin.units import bytes_text, percent_text


def state_flows_table(state: NetworkState) -> Table:
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


def put(url: str, *, frozen: bool, as_json: bool) -> None:
    """Freezes or thaws."""
    with ServiceClient.at(url) as service:
        answer = service.put("/v1/freeze", {"frozen": frozen})
    if as_json:
        print_json(answer.document())
        return
    found = answer.read(FreezeAnswer)
    after = "No switch is set until ecntwin thaw." if found.frozen else "Switches may be set."
    console(wide=True).print(Text.assemble(freeze_text(found), f". {after}"))


def freeze_text(found: FreezeAnswer) -> Text:
    """``Frozen by alice since 14:03:11``, or why that is not known."""
    if found.unknown is not None:
        return Text(f"Frozen or not is unknown: {found.unknown}", "bold yellow")
    if not found.frozen:
        return Text("Not frozen")
    since = "" if found.at is None else f" since {clock_text(found.at)}"
    return Text(f"Frozen by {found.by or 'somebody'}{since}", "bold yellow")


BITS = 8
GIGA = 1e9


def flows(url: str, flow_class: str | None, limit: int, *, as_json: bool) -> None:
    """Prints them, most bytes first."""
    query: dict[str, str | int] = {"limit": limit}
    if flow_class is not None:
        query["class"] = flow_class
    with ServiceClient.at(url) as service:
        answer = service.get("/v1/flows", query)
    if as_json:
        print_json(answer.document())
        return
    screen = console(wide=True)
    screen.print(flows_table(answer.read(FlowsAnswer), flow_class, wide=screen.width >= WIDE))


def flows_table(found: FlowsAnswer, flow_class: str | None = None, *, wide: bool) -> Table:
    """The flows; ``wide`` tells reports, ports and the path too."""
    kind = "flow" if flow_class is None else flow_class.replace("_", " ")
    every = of_all_text(len(found.flows), found.total, kind, "mice" if kind == "mouse" else None)
    title = f"{every}, most bytes first"
    more = ("reports", "ports", "path") if wide else ()
    table = headed_table(title, "from", "to", "class", "bytes", "throughput", *more, left=3)
    for column in table.columns:
        column.no_wrap = column.header in ("class", "bytes", "throughput", "ports")
        column.overflow = "fold"
    if wide:
        table.columns[-1].justify = "left"
    for one in found.flows:
        rate = gbps_text(one.throughput_bytes_per_s * BITS / GIGA)
        path = " → ".join(one.path) or NONE
        table.add_row(
            Text(one.src_host),
            Text(one.dst_host),
            words_of(one.flow_class),
            bytes_text(one.window_bytes),
            rate,
            *((f"{one.reports}", f"{one.sport} → {one.dport}", Text(path)) if wide else ()),
        )
    return table
