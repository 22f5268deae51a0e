"""``ecntwin flows``: the flows of the last window."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from cli.answers import FlowsAnswer
from cli.api_cli_output import console, print_json
from cli.client import ServiceClient
from cli.output import NONE, WIDE, gbps_text, headed_table, of_all_text, words_of
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
