"""``ecntwin switches``: asks every switch of an inventory what it runs, straight through its adapter."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import typer
from rich.console import Console

from cli.api_cli_output import console, print_json, shown_progress
from cli.check import answered_text, platforms_table, problem_lines, reason_lines, switches_table
from cli.errors import BAD_INPUT, FAILED
from service.adapter_check import Answer, Made, make_adapters, read_all
from service.documents.inventory import InventoryReadDocument, ReadSwitchDocument
from settings.errors import InputError
from settings.inventory import load_inventory
from settings.load import load_settings
from settings.model import IncumbentSettings, Settings
from switches.device import Device
from switches.registry import AdapterRegistry
from twin.search.round import Progress
from twin.watermark import Watermark


def switches(config: Path | None, inventory: Path | None, *, timeout_s: float | None, as_json: bool) -> None:
    """Exits 0 where all answered, 1 where some did not, 2 where an adapter cannot use its switch."""
    settings = load_settings(config)
    path = _path(inventory, settings)
    devices = {
        name: _device(device, settings.incumbent, timeout_s) for name, device in load_inventory(path).items()
    }
    made = make_adapters(devices, AdapterRegistry.with_installed(), clock_ns=time.time_ns)
    if made.problems:
        Console(stderr=True, highlight=False, soft_wrap=True).print(
            *problem_lines(str(problem) for problem in made.problems), sep="\n"
        )
        raise typer.Exit(BAD_INPUT)
    try:
        answers = _asked(made, quiet=as_json)
    finally:
        made.close()
    document = _document(path, devices, made, answers, settings.incumbent)
    if as_json:
        print_json(document)
    else:
        _show(document)
    if document.answered < len(document.switches):
        raise typer.Exit(FAILED)


def _path(inventory: Path | None, settings: Settings) -> Path:
    path = inventory or settings.push.inventory
    if path is None:
        raise InputError(
            "ecntwin switches",
            "no inventory",
            "an inventory says where the switches are",
            "give --inventory FILE, or push.inventory in the settings",
        )
    return path


def _device(device: Device, incumbent: IncumbentSettings, timeout_s: float | None) -> Device:
    running = incumbent.switches.get(device.name, incumbent.default).watermark()
    return replace(device, running=running, timeout_s=timeout_s or device.timeout_s)


def _asked(made: Made, *, quiet: bool) -> Mapping[str, Answer]:
    with shown_progress(quiet=quiet) as told:
        if told is None:
            return read_all(made.adapters)
        return read_all(
            made.adapters, told=lambda done, total: told(Progress("reading switches", done, total))
        )


def _document(
    path: Path,
    devices: Mapping[str, Device],
    made: Made,
    answers: Mapping[str, Answer],
    incumbent: IncumbentSettings,
) -> InventoryReadDocument:
    documents = [
        ReadSwitchDocument.of(
            device, made.adapters[name].capabilities(), answers[name], _expected(name, incumbent)
        )
        for name, device in devices.items()
    ]
    answered = sum(document.reachable for document in documents)
    return InventoryReadDocument(path=str(path), answered=answered, switches=documents)


def _expected(switch: str, incumbent: IncumbentSettings) -> Watermark | None:
    """What an operator said that it runs; a default that nobody wrote says nothing of a switch."""
    if switch in incumbent.switches:
        return incumbent.switches[switch].watermark()
    return incumbent.default.watermark() if "default" in incumbent.model_fields_set else None


def _show(document: InventoryReadDocument) -> None:
    screen = console(wide=True)
    screen.print(answered_text(document), soft_wrap=True)
    screen.print(switches_table(document), platforms_table(document))
    for line in reason_lines(document):
        screen.print(line, soft_wrap=True)
