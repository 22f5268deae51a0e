"""``ecntwin check-fabric``: PFC, ECN, buffers and NICs of the whole fabric, checked hop by hop."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import typer
from rich.table import Table
from rich.text import Text

from cli.inventory.reading import inventory_path, problem_lines, refuse
from cli.inventory.topology import topology_in
from cli.output import FAILED, console, count_text, counted_progress, headed_table, print_json
from service.documents.lossless import LosslessDocument, LosslessFindingDocument
from service.nics.hosts import check_hosts, make_nics
from service.polling.lossless import checked, read_lossless
from service.switches.adapter_check import check_inventory, read_all
from settings.inventory import Inventory
from settings.load import load_settings
from switches.registry import AdapterRegistry


def check_fabric(
    config: Path | None,
    inventory: Path | None,
    topology: Path | None,
    *,
    timeout_s: float | None,
    as_json: bool,
) -> None:
    """Exits 0 if no rule is broken, 1 if one is, or a device did not answer, or no switch was read, 2 if an
    entry of the inventory cannot be used.
    """
    settings = load_settings(config)
    said = Inventory.read(inventory_path("check-fabric", inventory, settings))
    declared = topology_in(topology or settings.fabric.topology, "declared", "--topology")
    registry, devices, hosts = AdapterRegistry.with_installed(), said.devices(), said.hosts()
    refuse(
        [
            *check_inventory(devices, registry, clock_ns=time.time_ns),
            *check_hosts(hosts, clock_ns=time.time_ns),
        ]
    )
    if timeout_s is not None:
        devices = {name: replace(one, timeout_s=timeout_s) for name, one in devices.items()}
        hosts = {name: replace(one, timeout_s=timeout_s) for name, one in hosts.items()}
    with counted_progress("reading switches", quiet=as_json, lines=False) as progress:
        switches = read_lossless(devices, registry, clock_ns=time.time_ns, progress=progress)
        with closing(make_nics(hosts, clock_ns=time.time_ns)) as nics:
            of_hosts = read_all(nics.adapters)
    document = LosslessDocument.of(checked(said, switches, of_hosts, declared, time.time_ns()))
    if as_json:
        print_json(document)
    else:
        _show(document, len(devices))
    if document.findings or document.unread or not document.switches:
        raise typer.Exit(FAILED)


def _show(document: LosslessDocument, total: int) -> None:
    screen = console(wide=True)
    found = count_text(len(document.findings), "finding")
    read = f"{document.switches} of {count_text(total, 'switch', 'switches')} read"
    screen.print(Text(f"{read}: {found}", "bold"), soft_wrap=True)
    if document.findings:
        screen.print(_table(document.findings))
    for line in problem_lines(one.detail for one in document.unread):
        screen.print(line, soft_wrap=True)
    for sentence in document.unchecked:
        screen.print(Text.assemble(("? ", "yellow"), sentence), soft_wrap=True)


def _table(findings: list[LosslessFindingDocument]) -> Table:
    """A row for each finding; the rule stands in the first of its rows."""
    table = headed_table(None, "rule", "", "where", "found", "remedy", left=5)
    before = ""
    for one in findings:
        colour = "red" if one.severity == "error" else "yellow"
        rule = Text("" if one.rule == before else one.rule, "bold")
        table.add_row(rule, Text(one.severity, colour), one.where, one.found, one.remedy)
        before = one.rule
    return table
