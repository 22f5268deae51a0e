"""``ecntwin flows``: the flows of the last window."""

from __future__ import annotations

from rich.table import Table

from api.cli_answers import FlowAnswer, FlowsAnswer
from api.cli_client import ServiceClient
from api.cli_look import NONE, WIDE, gbps_text, headed_table, of_all_text, words_of
from api.cli_output import console, print_json
from twin.units import bytes_text

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
    """The flows; ``wide`` tells ports, reports and egress queues too."""
    kind = "flow" if flow_class is None else flow_class.replace("_", " ")
    every = of_all_text(len(found.flows), found.total, kind, "mice" if kind == "mouse" else None)
    title = f"{every}, most bytes first"
    columns = ("from", "to", "class", "path", *(("ports",) if wide else ()), "bytes", "throughput")
    table = headed_table(title, *columns, *(("reports",) if wide else ()), left=4)
    for column in table.columns:
        column.no_wrap = column.header != "path"
    table.columns[3].overflow = "fold"
    for one in found.flows:
        rate = gbps_text(one.throughput_bytes_per_s * BITS / GIGA)
        told = bytes_text(one.window_bytes), rate
        cells = (f"{one.sport} → {one.dport}", *told, f"{one.reports}") if wide else told
        table.add_row(one.src_host, one.dst_host, words_of(one.flow_class), _path(one, wide=wide), *cells)
    return table


def _path(flow: FlowAnswer, *, wide: bool) -> str:
    """``leaf1 → spine1``, with the egress port and queue of each where there is room."""
    hops = flow.path if wide else [hop.partition("/")[0] for hop in flow.path]
    return " → ".join(hops) or NONE
