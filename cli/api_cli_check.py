"""``ecntwin check-config``: checks the settings and the inventory, and shows every setting."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import typer
import yaml
from rich.text import Text

from api.certificates import ServerTls
from api.deps import check_host
from cli.api_cli_output import console, print_json, print_line
from cli.check import platforms_text, problem_lines, reporting_lines
from cli.errors import BAD_INPUT
from service.adapter_check import check_inventory
from service.auth.kept import holds_tokens
from service.documents.inventory import InventoryCheckDocument
from service.domain import load_topology, reporting_of
from service.tuning.workers import check_backend
from settings.addresses import without_password
from settings.errors import SettingsError
from settings.inventory import load_inventory
from settings.inventory_int import untuned_in
from settings.load import load_settings
from settings.model import Settings
from settings.state_folder import with_storage
from store.connection import place_of
from switches.registry import AdapterRegistry


def check_config(config: Path | None, *, as_json: bool) -> None:
    """Everything ``serve`` would check before it listens; no switch is asked. No secret is shown.

    Exits 2 where the inventory has problems, after it has told each of them.
    """
    settings = load_settings(config)
    _check_host(settings)
    now_s = time.time()
    if (tls := ServerTls.of(settings.server)) is not None:
        tls.check_now(now_s)
    load_topology(settings.fabric.topology)
    check_backend(settings.search)
    place_of(settings.storage.database).engine.dispose()
    registry = AdapterRegistry.with_installed()
    registry.factory(settings.push.adapter)
    inventory = _inventory(settings, registry)
    document = _shown(settings)
    if as_json:
        shown = document | ({} if inventory is None else {"inventory": inventory.model_dump()})
        print_json(shown if tls is None else shown | {"certificate": tls.facts.document()})
    else:
        valid = inventory is None or not inventory.problems
        name = config or "no settings file: defaults and environment"
        print_line(f"# {name}; {'valid' if valid else 'the inventory has problems, see the end'}")
        print_line(yaml.safe_dump(document, sort_keys=False, allow_unicode=True).rstrip())
        if tls is not None:
            print_line(f"# {tls.facts.sentence(now_s)}")
        if inventory is not None:
            _show(inventory)
    if inventory is not None and inventory.problems:
        raise typer.Exit(BAD_INPUT)


def _check_host(settings: Settings) -> None:
    """Looks into the database only where it matters what is in it."""
    try:
        check_host(settings.server.host, settings.security)
    except SettingsError:
        check_host(
            settings.server.host,
            settings.security,
            stored=holds_tokens(with_storage(settings).storage.database),
        )


def _inventory(settings: Settings, registry: AdapterRegistry) -> InventoryCheckDocument | None:
    path = settings.push.inventory
    if path is None:
        return None
    devices = load_inventory(path)
    problems = [str(one) for one in check_inventory(devices, registry, clock_ns=time.time_ns)]
    strangers = [name for name in settings.rollout.canary if name not in devices]
    if strangers and settings.push.enabled:
        problems.append(
            f"settings rollout.canary: received {', '.join(strangers)}; "
            "a canary is a switch of the inventory; correct the name"
        )
    reporting = reporting_of(settings)
    return InventoryCheckDocument.of(
        path, devices, problems, reporting=len(reporting.switches), untuned=untuned_in(reporting)
    )


def _shown(settings: Settings) -> dict[str, Any]:
    """Every setting; tokens' hashes shortened, and no password."""
    document: dict[str, Any] = settings.model_dump(mode="json", by_alias=True)
    for token in document["security"]["tokens"]:
        token["sha256"] = f"{token['sha256'][:8]}…"
        token["scopes"] = sorted(token["scopes"])
    if settings.storage.url is not None:
        document["storage"]["url"] = without_password(settings.storage.url)
    return document


def _show(inventory: InventoryCheckDocument) -> None:
    screen = console()
    screen.print()
    found = len(inventory.problems)
    said = f"{found} problem{'s' if found > 1 else ''}" if found else "all can be used (none was asked)"
    screen.print(Text.assemble((platforms_text(inventory), "bold"), f"; {said}"), soft_wrap=True)
    for line in problem_lines(inventory.problems):
        screen.print(line, soft_wrap=True)
    for line in reporting_lines(inventory):
        screen.print(line, soft_wrap=True)
