"""``ecntwin topology``: a topology file to review, from LLDP, a declaration and what INT showed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from cli.inventory.reading import inventory_path
from cli.output import FAILED, count_text, counted_progress, print_json, say
from service.documents.neighbours import DifferenceDocument
from service.neighbours.reader import NoNeighboursError, Seen, read_neighbours
from settings.errors import InputError
from settings.inventory import load_inventory
from settings.load import load_settings, read_text
from telemetry.errors import TopologyError
from telemetry.neighbours.merge import Assumed, Merged, merge
from telemetry.topology import Topology, topology_from_json


def topology(
    config: Path | None,
    inventory: Path | None,
    *,
    declared: Path | None,
    discovered: Path | None,
    assumed: Assumed,
    timeout_s: float | None,
    as_json: bool,
) -> None:
    """Exits 0 if all switches that offer neighbours answered, 1 if some did not, or none offers any."""
    settings = load_settings(config)
    devices = load_inventory(inventory_path("topology", inventory, settings))
    if timeout_s is not None:
        devices = {name: replace(device, timeout_s=timeout_s) for name, device in devices.items()}
    known = topology_in(declared or settings.fabric.topology, "declared")
    shown = topology_in(discovered, "discovered")
    with counted_progress("reading neighbours", quiet=as_json) as progress:
        seen = read_neighbours(devices, progress=progress)
    found = {name: one.neighbours for name, one in seen.items() if one.neighbours is not None}
    merged = merge(tuple(devices), found, declared=known, discovered=shown, assumed=assumed)
    if as_json:
        print_json(_document(seen, merged, assumed))
    else:
        print_json(merged.topology.to_json())
        _tell(seen, merged, assumed)
    if not found or any(_failed(one) for one in seen.values()):
        raise typer.Exit(FAILED)


def topology_in(path: Path | None, member: str, option: str | None = None) -> Topology | None:
    """A topology file, or an answer of ``GET /v1/topology``, of which that member counts.

    Raises ``InputError``.
    """
    if path is None:
        return None
    try:
        document: Any = json.loads(read_text(path, f"{member} topology"))
    except (ValueError, RecursionError) as error:
        said = f"{path.name}: {error}"
        raise InputError(option or f"--{member}", said, "the file must be JSON", "correct it") from None
    if isinstance(document, Mapping) and {"declared", "discovered"} <= document.keys():
        document = document[member]
        if document is None:
            return None
    try:
        return topology_from_json(document, where=path.name)
    except TopologyError as error:
        raise InputError(error.where, error.received, error.rule, error.remedy) from error


def _failed(one: Seen) -> bool:
    return one.failure is not None and not isinstance(one.failure, NoNeighboursError)


def _problems(seen: Mapping[str, Seen]) -> list[str]:
    """Switches that were not read, and what was left out of the others' answers."""
    return [
        *(str(one.failure) for one in seen.values() if one.failure is not None),
        *(
            f"{name}: {problem}"
            for name, one in seen.items()
            if one.neighbours is not None
            for problem in one.neighbours.problems
        ),
    ]


def _tell(seen: Mapping[str, Seen], merged: Merged, assumed: Assumed) -> None:
    read = sum(one.neighbours is not None for one in seen.values())
    links, hosts = len(merged.topology.links), len(merged.topology.hosts)
    say(
        f"{read} of {count_text(len(seen), 'switch', 'switches')} read: "
        f"{count_text(links, 'link')}, {count_text(hosts, 'host')}, "
        f"{count_text(len(merged.differences), 'difference')}"
    )
    for sentence in (
        *_problems(seen),
        *(one.sentence for one in merged.differences),
        *_notes(merged, assumed),
    ):
        say(sentence)


def _notes(merged: Merged, assumed: Assumed) -> Sequence[str]:
    notes = []
    if merged.default_delays:
        notes.append(
            f"LLDP has no propagation delays: {count_text(merged.default_delays, 'link has', 'links have')} "
            f"{assumed.delay_us:g} µs; give another with --delay-us, or declare them"
        )
    if merged.default_rates:
        notes.append(
            f"no switch, declaration or report gives a rate: "
            f"{count_text(merged.default_rates, 'link has', 'links have')} {assumed.rate_gbps:g} Gbit/s; "
            "give another with --rate-gbps, or declare them"
        )
    return notes


def _document(seen: Mapping[str, Seen], merged: Merged, assumed: Assumed) -> dict[str, Any]:
    return {
        "topology": merged.topology.to_json(),
        "switches": [
            {
                "name": name,
                "read": one.neighbours is not None,
                "neighbours": len(one.neighbours.neighbours) if one.neighbours is not None else None,
                "detail": str(one.failure) if one.failure is not None else None,
                "problems": list(one.neighbours.problems) if one.neighbours is not None else [],
            }
            for name, one in seen.items()
        ],
        "differences": [DifferenceDocument.of(one).model_dump() for one in merged.differences],
        "notes": list(_notes(merged, assumed)),
    }
