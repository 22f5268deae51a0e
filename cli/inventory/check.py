"""``ecntwin check-config``: every check of settings and inventory that asks no device."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from rich.text import Text

from api.certificates import ServerTls
from api.deps import check_host
from cli.inventory.reading import refuse
from cli.output import console, count_text, print_json, print_line
from service.auth.tokens import holds_tokens
from service.documents.switches import InventoryCheckDocument
from service.domain import load_topology, reporting_of
from service.nics.hosts import check_hosts
from service.switches.adapter_check import check_inventory
from service.tuning.workers import check_backend
from settings.errors import SettingsError
from settings.inventory import Inventory, untuned_in
from settings.load import load_settings, with_storage
from settings.model import Settings
from settings.validation import without_password
from store.connection import place_of
from switches.registry import AdapterRegistry
from twin.advice.artefact import read as read_advice
from twin.errors import ParameterError


def platforms_text(document: InventoryCheckDocument) -> str:
    """``inventory.yaml: 12 switches (2 lab, 10 sonic)``, and hosts where there are some."""
    switches = _counted_text(document.platforms, "switch", "switches")
    hosts = f", {_counted_text(document.hosts, 'host', 'hosts')}" if document.hosts else ""
    return f"{document.path}: {switches}{hosts}"


def _counted_text(platforms: Mapping[str, int], one: str, several: str) -> str:
    each = ", ".join(f"{count} {platform}" for platform, count in platforms.items())
    return count_text(sum(platforms.values()), one, several) + (f" ({each})" if each else "")


def reporting_lines(document: InventoryCheckDocument) -> Iterator[Text]:
    """How many switches send binary INT reports, and which of them cannot be tuned."""
    if not document.reporting:
        return
    several = document.reporting > 1
    yield Text(f"{document.reporting} {'switches report' if several else 'switch reports'} INT by node id")
    for name in document.untuned:
        yield Text.assemble(
            ("≠ ", "yellow"),
            (f"switch {name!r}", "bold"),
            " has no occupancy under int: it is shown, not tuned",
        )


def check_config(config: Path | None, *, as_json: bool) -> None:
    """Runs every check of ``serve``, and of the advice's file; contacts no switch, and shows no secret.

    Exits 2 after listing the problems of the inventory on standard error, if any.
    """
    settings = load_settings(config)
    _check_host(settings)
    now_s = time.time()
    if (tls := ServerTls.of(settings.server)) is not None:
        tls.check_now(now_s)
    load_topology(settings.fabric.topology)
    file = settings.tuning.advice_file
    no_advice = None if file is None else _no_advice_yet(file)
    check_backend(settings.search)
    place_of(settings.storage.database).engine.dispose()
    registry = AdapterRegistry.with_installed()
    registry.check_usual(settings.push.adapter)
    inventory = _inventory(settings, registry)
    document = _shown(settings)
    if as_json:
        shown = document | ({} if inventory is None else {"inventory": inventory.model_dump()})
        shown |= {} if no_advice is None else {"advice": {"problem": no_advice}}
        print_json(shown if tls is None else shown | {"certificate": tls.facts.document()})
    else:
        valid = inventory is None or not inventory.problems
        name = config or "no settings file: defaults and environment"
        print_line(f"# {name}; {'valid' if valid else 'the inventory has problems'}")
        print_line(yaml.safe_dump(document, sort_keys=False, allow_unicode=True).rstrip())
        if tls is not None:
            print_line(f"# {tls.facts.sentence(now_s)}")
        if no_advice is not None:
            print_line(f"# {no_advice}")
        if inventory is not None:
            _show_check(inventory)
    if inventory is not None:
        refuse(inventory.problems)


def _no_advice_yet(file: Path) -> str | None:
    """What the service says of a file that ``advice train`` is yet to write. Raises ``ParameterError`` for
    one that is no advice, which the service would go on without as well.
    """
    try:
        read_advice(file)
    except ParameterError as error:
        if file.exists():
            raise
        return f"{error}."
    return None


def _check_host(settings: Settings) -> None:
    # Opens the database only if tokens in it decide.
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
    inventory = Inventory.read(path)
    devices = inventory.devices()
    canary = settings.rollout.canary if settings.push.enabled else ()
    problems = [str(one) for one in check_inventory(devices, registry, clock_ns=time.time_ns, canary=canary)]
    reporting = reporting_of(settings, inventory)
    hosts = inventory.hosts()
    inventory.senders()
    problems.extend(map(str, check_hosts(hosts, clock_ns=time.time_ns)))
    return InventoryCheckDocument.of(
        path, devices, problems, reporting=len(reporting.switches), untuned=untuned_in(reporting), hosts=hosts
    )


def _shown(settings: Settings) -> dict[str, Any]:
    """All settings, with token hashes shortened and passwords removed."""
    document: dict[str, Any] = settings.model_dump(mode="json", by_alias=True)
    for token in document["security"]["tokens"]:
        token["sha256"] = f"{token['sha256'][:8]}…"
        token["scopes"] = sorted(token["scopes"])
    if settings.storage.url is not None:
        document["storage"]["url"] = without_password(settings.storage.url)
    return document


def _show_check(inventory: InventoryCheckDocument) -> None:
    screen = console()
    screen.print()
    found = len(inventory.problems)
    said = f"{found} problem{'s' if found > 1 else ''}" if found else "all can be used (none was asked)"
    screen.print(Text.assemble((platforms_text(inventory), "bold"), f"; {said}"), soft_wrap=True)
    for line in reporting_lines(inventory):
        screen.print(line, soft_wrap=True)
