"""``ecntwin accept``: collectives on the declared fabric, and whether it passes."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import typer
from rich.table import Table
from rich.text import Text

from cli.output import (
    FAILED,
    NONE,
    WIDE,
    console,
    count_text,
    headed_table,
    print_json,
    say,
    shown_progress,
    watermark_text,
)
from lab.acceptance.collectives import MOST_RANKS, collectives, cost_s, line_rate
from lab.acceptance.criteria import AT_LEAST, Criteria, Judge
from lab.acceptance.documents import AcceptanceDocument, CheckDocument
from lab.acceptance.run import ECN_OFF, run
from lab.documents import DcqcnDocument
from lab.setup import LabOptions, lab_plan
from service.documents.predictions import WatermarkDocument
from service.nics.hosts import make_nics
from service.nics.senders import senders_of
from service.switches.adapter_check import make_adapters, read_all
from service.tuning.recordings import parse_watermark
from settings.errors import InputError
from settings.inventory import Inventory
from settings.version import ecntwin_version
from switches.base import Reading
from switches.registry import AdapterRegistry
from telemetry.topology import GBPS, Topology
from twin.packet.plan import FabricPlan
from twin.search.round import Progress
from twin.senders.classes import nic_classes, unlike_most
from twin.units import duration_text, percent_text
from twin.watermark import Watermark

_HEADINGS = {
    "completes": "delivered",
    "bus_bandwidth": "bus bandwidth",
    "loss": "lost",
    "paused": "paused",
    "slowest_rank": "slowest rank",
    "ecmp_spread": "ECMP",
}


@dataclass(frozen=True, slots=True)
class Runs:
    """What runs on the switches: ``watermark``, or what ``inventory`` reads where there is one."""

    watermark: str
    inventory: Path | None
    duration_s: float
    seeds: int


def accept(options: LabOptions, how: Runs, criteria: Criteria, *, as_json: bool) -> None:
    """Exits 0 if every criterion is met, else 1. Raises an error for options that do not fit together."""
    began_s = time.monotonic()
    topology, plan = lab_plan(options)
    notes: tuple[str, ...] = ()
    if how.inventory is not None:
        plan, watermarks, notes = _read(how, topology, plan, default_dcqcn=options.dcqcn is None)
    else:
        given = ECN_OFF if how.watermark == "off" else parse_watermark(how.watermark, "--watermark")
        watermarks = dict.fromkeys(plan.switch_ports, given)
    judge = Judge(topology, plan, watermarks, criteria)
    seeds = list(range(options.seed, options.seed + how.seeds))
    by_seed = [collectives(plan, duration_s=how.duration_s, seed=seed) for seed in seeds]
    if not as_json:
        took_s = sum(cost_s(topology, plan, one) for one in by_seed[0]) * how.seeds
        say(
            f"{len(plan.hosts)} hosts, {len(by_seed[0])} collectives, {count_text(how.seeds, 'seed')}: "
            f"about {duration_text(math.ceil(took_s))} on one core, a minute more until kernels are compiled"
        )
    documents = []
    with shown_progress(quiet=as_json) as progress:
        for of_one in zip(*by_seed, strict=True):
            outcomes = []
            for seed, collective in zip(seeds, of_one, strict=True):
                stage = f"{collective.name} {seed}" if how.seeds > 1 else collective.name

                def tell(done: int, total: int, stage: str = stage) -> None:
                    if progress is not None:
                        progress(Progress(stage, done, total))

                outcomes.append(run(plan, watermarks, collective, seed=seed, progress=tell))
            documents.append(judge.document(outcomes))
    ranks = len(plan.hosts) // -(-len(plan.hosts) // MOST_RANKS)
    if left := len(plan.hosts) % ranks:
        notes += (f"{left} hosts take no part in the collectives, which run in groups of {ranks}.",)
    usual, n_usual = Counter(watermarks.values()).most_common(1)[0]
    document = AcceptanceDocument(
        topology=str(options.topology),
        hosts=len(plan.hosts),
        switches=len(plan.switches),
        line_rate_gbps=line_rate(plan) / GBPS,
        watermark=None if usual == ECN_OFF else WatermarkDocument.of(usual),
        other_ports=len(watermarks) - n_usual,
        dcqcn=DcqcnDocument.of(plan.dcqcn),
        seeds=seeds,
        passed=all(one.passed for one in documents),
        collectives=documents,
        notes=[*(f"{one}." for one in judge.oddities), *notes],
        wall_s=time.monotonic() - began_s,
        version=ecntwin_version(),
    )
    if as_json:
        print_json(document)
    else:
        _show(document)
    if not document.passed:
        raise typer.Exit(FAILED)


def _read(
    how: Runs, topology: Topology, plan: FabricPlan, *, default_dcqcn: bool
) -> tuple[FabricPlan, Mapping[int, Watermark], tuple[str, ...]]:
    """The plan with what hosts send by, watermarks of switch ports, and notes; raises ``SwitchError``."""
    assert how.inventory is not None
    inventory = Inventory.read(how.inventory)
    devices = inventory.devices()
    if missing := [name for name in plan.switches if name not in devices]:
        rule = "every switch of the topology is read"
        raise InputError(f"--inventory {how.inventory}", f"no switch {missing[0]!r}", rule, "add it")
    chosen = {name: devices[name] for name in plan.switches}
    with (
        closing(make_adapters(chosen, AdapterRegistry.with_installed(), clock_ns=time.time_ns)) as made,
        closing(make_nics(inventory.hosts(), clock_ns=time.time_ns)) as nics,
    ):
        for problem in (*made.problems, *nics.problems.values()):
            raise problem
        answers, hosts = read_all(made.adapters), read_all(nics.adapters)
    readings: dict[str, Reading] = {}
    for name, answer in answers.items():
        if answer.failure is not None:
            raise answer.failure
        assert answer.reading is not None
        readings[name] = answer.reading
    known = {name: answer.reading for name, answer in hosts.items() if answer.reading is not None}
    said = {name: host.nic_class for name, host in inventory.hosts().items()}
    classes = nic_classes(said, topology)
    senders = senders_of(list(hosts), known, plan.dcqcn, said=not default_dcqcn, classes=classes)
    own = {host: sender for host, sender in inventory.senders().items() if host in plan.hosts}
    plan = replace(plan, senders={**plan.senders, **own})
    if default_dcqcn:
        by_host = unlike_most(classes, senders.by_class, senders.params)
        plan = replace(plan, dcqcn=senders.params, dcqcn_by_host=by_host)
    return plan, {port: _running(plan, port, readings) for port in plan.switch_ports}, senders.notes


def _running(plan: FabricPlan, port: int, readings: Mapping[str, Reading]) -> Watermark:
    """What a port runs where its switch tells ports apart, else what most of the switch does."""
    end = plan.ports[port]
    reading = readings[end.node]
    own = [queue.watermark for queue in reading.queues if queue.port == end.port]
    return (own[0] if own else reading.usual) or ECN_OFF


def _show(document: AcceptanceDocument) -> None:
    screen = console(wide=True)
    marks = "ECN off" if document.watermark is None else watermark_text(document.watermark)
    if document.other_ports:
        marks += f" ({document.other_ports} ports differ)"
    switches = count_text(document.switches, "switch", "switches")
    screen.print(
        f"{document.topology}: {document.hosts} hosts, {switches}; {marks}; bus bandwidth "
        f"is a share of {document.line_rate_gbps:g} Gbit/s",
        soft_wrap=True,
    )
    screen.print(_table(document, wide=screen.width >= WIDE))
    for one in document.collectives:
        for check in one.checks:
            if check.finding is not None:
                where = f"{one.name}, {_HEADINGS[check.criterion]} {_value(check)}"
                seed = f", seed {check.seed}" if len(document.seeds) > 1 else ""
                line = Text.assemble(
                    ("✗ ", "red"), (f"{where} ({_limit(check)}{seed})", "bold"), f": {check.finding}"
                )
                screen.print(line, soft_wrap=True)
    for note in document.notes:
        screen.print(f"Note: {note}", soft_wrap=True)
    failed = sum(not one.passed for one in document.collectives)
    screen.print(
        Text("The fabric passes.", "green")
        if document.passed
        else Text(f"The fabric fails: {failed} of {len(document.collectives)} collectives failed.", "red")
    )


def _table(document: AcceptanceDocument, *, wide: bool) -> Table:
    table = headed_table(
        None,
        "collective",
        "took",
        *(("at line rate", "links allow") if wide else ()),
        *_HEADINGS.values(),
        "",
    )
    for one in document.collectives:
        allow = NONE if one.links_allow is None else percent_text(one.links_allow)
        more = (duration_text(one.ideal_s), allow) if wide else ()
        cells = [Text(_value(check), "red" if check.passed is False else "") for check in one.checks]
        verdict = Text("passes", "green") if one.passed else Text("fails", "red")
        table.add_row(one.name, duration_text(one.took_s), *more, *cells, verdict)
    return table


def _value(check: CheckDocument) -> str:
    if check.value is None:
        return NONE
    if check.criterion == "slowest_rank":
        return f"+{percent_text(check.value)}"
    return f"±{percent_text(check.value)}" if check.criterion == "ecmp_spread" else percent_text(check.value)


def _limit(check: CheckDocument) -> str:
    least = check.criterion in AT_LEAST
    return f"{'at least' if least else 'at most'} {percent_text(check.limit)}"
