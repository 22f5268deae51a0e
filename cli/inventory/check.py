"""``ecntwin check-config``, ``switches`` and ``nics``: settings, inventory, what each switch and NIC runs."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import typer
import yaml
from rich.table import Table
from rich.text import Text

from api.certificates import ServerTls
from api.deps import check_host
from cli.output import (
    BAD_INPUT,
    FAILED,
    NONE,
    WIDE,
    clock_text,
    console,
    count_text,
    counted_progress,
    headed_table,
    print_json,
    print_line,
    screen_for_asking,
    watermark_cells,
    watermark_text,
)
from nics.parameters import value_text
from service.adapter_check import Answer, Reads, ReadT, check_inventory, make_adapters, read_all
from service.auth.tokens import holds_tokens
from service.documents.base import list_text
from service.documents.nics import HostDocument, HostsReadDocument, NicDocument
from service.documents.switches import InventoryCheckDocument, InventoryReadDocument, ReadSwitchDocument
from service.domain import load_topology, reporting_of
from service.nics.hosts import check_hosts, make_nics
from service.tuning.workers import check_backend
from settings.errors import InputError, SettingsError
from settings.inventory import Inventory, load_inventory, untuned_in
from settings.load import load_settings, with_storage
from settings.model import Settings
from settings.twin import IncumbentSettings
from settings.validation import without_password
from store.connection import place_of
from switches.device import Device
from switches.hashing.registry import hash_adapter
from switches.hashing.values import HashReading
from switches.registry import AdapterRegistry
from twin.advice.artefact import read as read_advice
from twin.errors import ParameterError
from twin.watermark import Watermark

_PLACES_NAMED = 3
_NAMED = 2
_SHOWN = {  # each with its unit below
    "g\n/1024": "dce_tcp_g",
    "additive\nMbit/s": "rpg_ai_rate",
    "hyper\nMbit/s": "rpg_hai_rate",
    "period\nµs": "rpg_time_reset",
    "counter\nbytes": "rpg_byte_reset",
    "fast\nsteps": "rpg_threshold",
    "cut\nµs": "rate_reduce_monitor_period",
    "alpha\nµs": "dce_tcp_rtt",
}


def platforms_text(document: InventoryCheckDocument) -> str:
    """``inventory.yaml: 12 switches (2 lab, 10 sonic)``, and hosts where there are some."""
    switches = _counted_text(document.platforms, "switch", "switches")
    hosts = f", {_counted_text(document.hosts, 'host', 'hosts')}" if document.hosts else ""
    return f"{document.path}: {switches}{hosts}"


def _counted_text(platforms: Mapping[str, int], one: str, several: str) -> str:
    each = ", ".join(f"{count} {platform}" for platform, count in platforms.items())
    return count_text(sum(platforms.values()), one, several) + (f" ({each})" if each else "")


def problem_lines(problems: Iterable[str]) -> Iterator[Text]:
    """One line per problem; problems that differ only in the switch share a line."""
    groups: dict[str, list[str]] = {}
    for problem in problems:
        where, received, rest = problem.partition(": received ")
        if not received:
            where, _, rest = problem.partition(": ")
        groups.setdefault(rest, []).append(where)
    for rest, places in groups.items():
        place = list_text(places, _PLACES_NAMED)
        yield Text.assemble(("✗ ", "red"), (place, "bold"), f": {rest}" if rest else "")


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
        named = Text(list_text(names, _NAMED), "bold")
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
    registry.factory(settings.push.adapter, where="settings push.adapter")
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
    problems = [str(one) for one in check_inventory(devices, registry, clock_ns=time.time_ns)]
    missing = [name for name in settings.rollout.canary if name not in devices]
    if missing and settings.push.enabled:
        problems.append(
            f"settings rollout.canary: received {', '.join(missing)}; "
            "a canary is a switch of the inventory; correct the name"
        )
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


def switches(config: Path | None, inventory: Path | None, *, timeout_s: float | None, as_json: bool) -> None:
    """Exits 0 if all answered, 1 if some did not, 2 if an adapter rejects its inventory entry."""
    settings = load_settings(config)
    path = inventory_path("switches", inventory, settings)
    devices = {
        name: _device(device, settings.incumbent, timeout_s) for name, device in load_inventory(path).items()
    }
    with closing(make_adapters(devices, AdapterRegistry.with_installed(), clock_ns=time.time_ns)) as made:
        refuse(made.problems)
        answers = _asked(made.adapters, "reading switches", quiet=as_json)
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
        answers = _asked(adapters, "reading hashes", quiet=quiet)
    finally:
        for adapter in adapters.values():
            adapter.close()
    return {name: answer.reading for name, answer in answers.items() if answer.reading is not None}


def inventory_path(command: str, inventory: Path | None, settings: Settings) -> Path:
    """The inventory that ``command`` reads; raises ``InputError`` where none is named."""
    path = inventory or settings.push.inventory
    if path is None:
        kind = "hosts" if command == "nics" else "switches"
        raise InputError(
            command,
            None,
            f"no inventory; it says where the {kind} are",
            "give --inventory FILE, or push.inventory in the settings",
        )
    return path


def _device(device: Device, incumbent: IncumbentSettings, timeout_s: float | None) -> Device:
    running = incumbent.switches.get(device.name, incumbent.default).watermark()
    return replace(device, running=running, timeout_s=timeout_s or device.timeout_s)


def refuse(problems: Collection[object]) -> None:
    """Ends the command where entries of the inventory cannot be used."""
    if problems:
        screen_for_asking().print(*problem_lines(map(str, problems)), sep="\n", soft_wrap=True)
        raise typer.Exit(BAD_INPUT)


def _asked(adapters: Mapping[str, Reads[ReadT]], stage: str, *, quiet: bool) -> Mapping[str, Answer[ReadT]]:
    with counted_progress(stage, quiet=quiet, lines=False) as progress:
        return read_all(adapters, progress=progress)


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


def nics(config: Path | None, inventory: Path | None, *, timeout_s: float | None, as_json: bool) -> None:
    """Exits 0 if all answered and are known, 1 if some are not, 2 if a host's entry cannot be used."""
    settings = load_settings(config)
    path = inventory_path("nics", inventory, settings)
    hosts = {
        name: replace(host, timeout_s=timeout_s or host.timeout_s)
        for name, host in Inventory.read(path).hosts().items()
    }
    if not hosts:
        rule, remedy = "NICs are those of its hosts", "add hosts; docs/nics/connectx.md says how"
        raise InputError("nics", f"no hosts in {path.name}", rule, remedy)
    with closing(make_nics(hosts, clock_ns=time.time_ns)) as made:
        refuse(made.problems.values())
        answers = _asked(made.adapters, "reading hosts", quiet=as_json)
    documents = [
        HostDocument.of(host, answers[name].reading, answers[name].failure) for name, host in hosts.items()
    ]
    answered = sum(one.reachable for one in documents)
    document = HostsReadDocument(path=str(path), answered=answered, hosts=documents)
    if as_json:
        print_json(document)
    else:
        _show_nics(document)
    if answered < len(documents) or any(nic.problem for one in documents for nic in one.nics):
        raise typer.Exit(FAILED)


def _show_nics(document: HostsReadDocument) -> None:
    screen = console(wide=True)
    total = count_text(len(document.hosts), "host")
    screen.print(Text(f"{document.path}: {document.answered} of {total} answered", "bold"), soft_wrap=True)
    screen.print(_nics_table(document, wide=screen.width >= WIDE))
    for line in _nic_lines(document):
        screen.print(line, soft_wrap=True)


def _nics_table(document: HostsReadDocument, *, wide: bool) -> Table:
    classes = wide or len({host.nic_class for host in document.hosts}) > 1
    before = (*(("class",) if classes else ()), *(("reacts on",) if wide else ()))
    table = headed_table(
        None, "host", "NICs", *before, *_SHOWN, *(("last read",) if wide else ()), left=2 + len(before)
    )
    usual = _usual(document)
    for host in document.hosts:
        name, nic_class = Text(host.name, "bold"), host.nic_class or NONE
        read_at = clock_text(host.read_at) if host.read_at else NONE
        if not host.nics:
            table.add_row(name, Text("no answer", "red"), *((nic_class,) if classes else ()))
        for names, nic in _alike(host):
            table.add_row(
                name,
                list_text(names, _NAMED),
                *((nic_class,) if classes else ()),
                *((_priorities(nic.reacts),) if wide else ()),
                *(_value(nic, name, usual[host.nic_class]) for name in _SHOWN.values()),
                *((read_at,) if wide else ()),
            )
    return table


def _alike(host: HostDocument) -> Iterator[tuple[list[str], NicDocument]]:
    """NICs of a host that show the same: their names, and one of them."""
    groups: dict[str, list[NicDocument]] = {}
    for nic in host.nics:
        shown = repr((nic.reacts, [nic.values.get(name) for name in _SHOWN.values()]))
        groups.setdefault(shown, []).append(nic)
    for alike in groups.values():
        yield [nic.name for nic in alike], alike[0]


def _usual(document: HostsReadDocument) -> dict[str, dict[str, int]]:
    """What most NICs of each class have of each parameter."""
    counted: defaultdict[str, defaultdict[str, Counter[int]]] = defaultdict(lambda: defaultdict(Counter))
    for host in document.hosts:
        for nic in host.nics:
            for name, value in nic.values.items():
                counted[host.nic_class][name][value] += 1
    return {
        nic_class: {name: values.most_common(1)[0][0] for name, values in of_class.items()}
        for nic_class, of_class in counted.items()
    }


def _value(nic: NicDocument, name: str, usual: dict[str, int]) -> str | Text:
    value = nic.values.get(name)
    if value is None:
        return NONE
    return str(value) if value == usual[name] else Text(str(value), "yellow")


def _priorities(reacts: list[int] | None) -> str | Text:
    if reacts is None:
        return NONE
    return ", ".join(map(str, reacts)) if reacts else Text("none", "yellow")


def _nic_lines(document: HostsReadDocument) -> Iterator[Text]:
    """Why hosts did not answer, what is not known of NICs, and which differ from most."""
    problems = [one.detail for one in document.hosts if one.detail is not None]
    problems += [nic.problem for one in document.hosts for nic in one.nics if nic.problem is not None]
    yield from problem_lines(problems)
    unmodelled = [
        note for one in document.hosts for nic in one.nics if nic.dcqcn is None for note in nic.notes
    ]
    yield from map(Text, dict.fromkeys(unmodelled))
    of_class = _usual(document)
    most = "most" if len(of_class) < 2 else "most of its class"
    for host in document.hosts:
        for nic in host.nics:
            usual = of_class[host.nic_class]
            found = [
                f"{name} {value} ({most} {value_text(name, usual[name])})"
                for name, value in nic.values.items()
                if value != usual[name]
            ]
            if found:
                where = f"{host.name}/{nic.name}"
                yield Text.assemble(("≠ ", "yellow"), (where, "bold"), f" runs {', '.join(found)}")
