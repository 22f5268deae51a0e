"""``ecntwin switches``: what each switch of the inventory runs."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import typer
from rich.table import Table
from rich.text import Text

from cli.inventory.reading import NAMED, asked, inventory_path, problem_lines, refuse
from cli.output import FAILED, NONE, console, headed_table, print_json, watermark_cells, watermark_text
from service.documents.base import list_text
from service.documents.switches import InventoryReadDocument, ReadSwitchDocument
from service.switches.adapter_check import make_adapters
from settings.inventory import load_inventory
from settings.load import load_settings
from settings.twin import IncumbentSettings
from switches.device import Device
from switches.hashing.registry import hash_adapter
from switches.hashing.values import HashReading
from switches.registry import AdapterRegistry
from twin.watermark import Watermark


def switches(config: Path | None, inventory: Path | None, *, timeout_s: float | None, as_json: bool) -> None:
    """Exits 0 if all answered, 1 if some did not, 2 if an adapter rejects its inventory entry."""
    settings = load_settings(config)
    path = inventory_path("switches", inventory, settings)
    devices = {
        name: _device(device, settings.incumbent, timeout_s) for name, device in load_inventory(path).items()
    }
    with closing(make_adapters(devices, AdapterRegistry.with_installed(), clock_ns=time.time_ns)) as made:
        refuse(made.problems)
        answers = asked(made.adapters, "reading switches", quiet=as_json)
    hashes = _hashes(
        [device for name, device in devices.items() if answers[name].reading is not None], quiet=as_json
    )
    documents = [
        ReadSwitchDocument.of(
            device,
            made.adapters[name].capabilities(),
            answers[name],
            _expected(name, settings.incumbent),
            hashes.get(name),
        )
        for name, device in devices.items()
    ]
    answered = sum(one.reachable for one in documents)
    document = InventoryReadDocument(path=str(path), answered=answered, switches=documents)
    if as_json:
        print_json(document)
    else:
        _show_reading(document)
    if document.answered < len(document.switches):
        raise typer.Exit(FAILED)


def _hashes(devices: Iterable[Device], *, quiet: bool) -> Mapping[str, HashReading]:
    """What switches hash by, of those whose platform has an adapter for that and that answer."""
    made = {device.name: hash_adapter(device) for device in devices}
    adapters = {name: adapter for name, adapter in made.items() if adapter is not None}
    try:
        answers = asked(adapters, "reading hashes", quiet=quiet)
    finally:
        for adapter in adapters.values():
            adapter.close()
    return {name: answer.reading for name, answer in answers.items() if answer.reading is not None}


def _device(device: Device, incumbent: IncumbentSettings, timeout_s: float | None) -> Device:
    running = incumbent.switches.get(device.name, incumbent.default).watermark()
    return replace(device, running=running, timeout_s=timeout_s or device.timeout_s)


def _expected(switch: str, incumbent: IncumbentSettings) -> Watermark | None:
    """The configured incumbent; the built-in default is no statement about a switch."""
    if switch in incumbent.switches:
        return incumbent.switches[switch].watermark()
    return incumbent.default.watermark() if "default" in incumbent.model_fields_set else None


def _show_reading(document: InventoryReadDocument) -> None:
    screen = console(wide=True)
    screen.print(answered_text(document), soft_wrap=True)
    screen.print(switches_table(document), platforms_table(document))
    if (hashes := hashes_table(document)).row_count:
        screen.print(hashes)
    for line in reason_lines(document):
        screen.print(line, soft_wrap=True)


def answered_text(document: InventoryReadDocument) -> Text:
    """``inventory.yaml: 11 of 12 switches answered``."""
    total = len(document.switches)
    return Text(
        f"{document.path}: {document.answered} of {total} switch{'' if total == 1 else 'es'} answered", "bold"
    )


def switches_table(document: InventoryReadDocument) -> Table:
    table = headed_table(
        None,
        *("switch", "platform", "reachable", "Kmin", "Kmax", "Pmax", "queues", "drift", "last read"),
        left=3,
    )
    for column in table.columns:
        column.no_wrap = column.header != "queues"
        column.min_width = len(str(column.header))  # so that the table fits a narrow terminal
    for one in document.switches:
        table.add_row(
            Text(one.name, "bold"),
            one.platform,
            Text("yes", "green") if one.reachable else Text("no", "red"),
            *_running(one),
            _queues(one),
            _drift(one),
            datetime.fromisoformat(one.read_at).astimezone().strftime("%H:%M:%S") if one.read_at else NONE,
        )
    return table


def platforms_table(document: InventoryReadDocument) -> Table:
    """Units, commit and undo behaviour of each platform."""
    table = headed_table(
        None, *("platform", "thresholds in", "a change not confirmed", "undo", "read back"), left=5
    )
    kinds = {
        (one.platform, one.units, one.writes, one.dead_man, one.undo, one.read_back)
        for one in document.switches
    }
    for platform, units, writes, dead_man, undo, read_back in sorted(kinds):
        unconfirmed = "undoes itself" if dead_man else "stays" if writes else "is never made"
        table.add_row(platform, units, unconfirmed, undo, read_back)
    return table


def hashes_table(document: InventoryReadDocument) -> Table:
    """What switches hash flows by; switches that hash alike share a row."""
    table = headed_table("ECMP hash", "switch", "setting", "value", "others", "fields", left=5)
    alike: dict[str, list[str]] = {}
    shown = {one.name: one.hash for one in document.switches if one.hash is not None}
    for name, hashed in shown.items():
        alike.setdefault(repr(hashed), []).append(name)
    for names in alike.values():
        hashed = shown[names[0]]
        seeds = NONE if hashed.fixed else "0 to 4294967295"
        others = [one for one in hashed.choices if one != hashed.value] or [seeds]
        fields = NONE if hashed.fields is None else ", ".join(hashed.fields)
        named = Text(list_text(names, NAMED), "bold")
        table.add_row(named, hashed.setting, hashed.value or "its own", ", ".join(others), fields)
    return table


def reason_lines(document: InventoryReadDocument) -> Iterator[Text]:
    """Why switches did not answer, and how drifted ones differ."""
    yield from problem_lines(one.detail for one in document.switches if one.detail is not None)
    for one in document.switches:
        if one.drifted and one.expected is not None:
            runs = "does not mark" if one.running is None else f"runs {watermark_text(one.running)}"
            said = watermark_text(one.expected)
            yield Text.assemble(
                ("≠ ", "yellow"), (f"switch {one.name!r}", "bold"), f" {runs}; the settings say {said}"
            )


def _running(one: ReadSwitchDocument) -> tuple[str | Text, str, str]:
    if one.running is None and one.queues:
        return Text("ECN off", "yellow"), NONE, NONE
    return watermark_cells(one.running)


def _queues(one: ReadSwitchDocument) -> str | Text:
    if not one.queues:
        return NONE if one.running is not None or not one.reachable else Text("none match", "yellow")
    differ = sum(queue.watermark != one.running for queue in one.queues)
    if not differ:
        return f"{len(one.queues)}"
    return Text(f"{len(one.queues)}, {differ} differ{'s' if differ == 1 else ''}", "yellow")


def _drift(one: ReadSwitchDocument) -> str | Text:
    if one.drifted is None:
        return NONE
    return Text("yes", "yellow") if one.drifted else "no"
