"""``ecntwin nics``: what each NIC of the inventory's hosts runs."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import typer
from rich.table import Table
from rich.text import Text

from cli.inventory.reading import NAMED, asked, inventory_path, problem_lines, refuse
from cli.output import FAILED, NONE, WIDE, clock_text, console, count_text, headed_table, print_json
from nics.parameters import value_text
from service.documents.base import list_text
from service.documents.nics import HostDocument, HostsReadDocument, NicDocument
from service.nics.hosts import make_nics
from settings.errors import InputError
from settings.inventory import Inventory
from settings.load import load_settings

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
        answers = asked(made.adapters, "reading hosts", quiet=as_json)
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
                list_text(names, NAMED),
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
