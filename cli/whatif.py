"""``ecntwin whatif``: predictions for given watermarks; ``kmin-floor``: where mixed senders share."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from itertools import count, takewhile
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from cli.output import WIDE, console, headed_table, print_json, say, shown_progress, watermark_cells
from cli.prediction_tables import whatif_table
from cli.tune import Scoring, report_rejected
from service.documents.predictions import WatermarkInput
from service.tuning.fabric import read_dcqcn, read_fabric, read_json
from service.tuning.recordings import parse_watermark, read_recording
from service.tuning.round import rebuilt
from service.tuning.whatif import Wanted, what_if, workers_for
from settings.errors import InputError
from settings.validation import mistake
from settings.version import ecntwin_version
from twin.errors import WatermarkError
from twin.packet.kmin_floor import kmin_floor, meeting
from twin.packet.plan import FabricPlan
from twin.scenario import Scenario
from twin.scenario_file import load_scenario
from twin.search.round import Progress
from twin.watermark import Watermark
from twin.workers.pool import make_workers

# The other fields (age, curves) are known only to a running service.
PRINTED = {"scenario", "engine", "seed", "version", "wall_s", "score_is", "results", "notes"}

_WATERMARKS = TypeAdapter(list[WatermarkInput])


def problem_of(
    scenario: Path | None,
    reports: Path | None,
    topology: Path | None,
    dcqcn: str | None,
    incumbent: str | None,
) -> Scenario:
    """The scenario of a file, or of recorded reports with their topology; raises ``InputError``."""
    if reports is None and scenario is not None and topology is None and dcqcn is None:
        return load_scenario(scenario)
    if scenario is not None or reports is None or topology is None:
        raise InputError(
            "whatif",
            None,
            "it predicts on a scenario file, or on --reports with their --topology",
            "give one of the two",
        )
    running = None if incumbent is None else parse_watermark(incumbent, "--incumbent")
    declared, fabric = read_fabric(topology, None if dcqcn is None else read_dcqcn(dcqcn))
    recording = read_recording(reports, declared)
    report_rejected(recording)
    found = rebuilt(recording.state, fabric, running)
    if found.failure is not None:
        say(f"not calibrated: {found.failure}")
    return found.scenario


def whatif(
    problem: Scenario,
    wanted: Sequence[Watermark],
    engine: str,
    incumbent: str | None,
    scoring: Scoring,
    *,
    seed: int,
    n_workers: int | None,
    as_json: bool,
) -> None:
    now = None if incumbent is None else parse_watermark(incumbent, "--incumbent")
    with (
        closing(make_workers((os.cpu_count() or 1) if n_workers is None else n_workers)) as pool,
        shown_progress(quiet=as_json) as progress,
    ):
        document = what_if(
            problem,
            Wanted(tuple(wanted), engine, seed, incumbent=now),
            search=scoring.search(),
            workers=workers_for(engine, len(wanted), pool),
            version=ecntwin_version(),
            progress=progress,
        )
    if as_json:
        print_json(document.model_dump(mode="json", include=PRINTED))
    else:
        screen = console(wide=True)
        screen.print(whatif_table(document, wide=screen.width >= WIDE))
        for note in document.notes:
            screen.print(note)


def kmin_floors(
    scenario: Path,
    receiver: str | None,
    flows: Sequence[int] | None,
    watermark: str,
    *,
    seed: int,
    as_json: bool,
) -> None:
    problem, like = load_scenario(scenario), parse_watermark(watermark, "--watermark")
    plan = FabricPlan.of(problem)
    if receiver is None:
        pairs = set(zip(problem.flows.src, problem.flows.dst, strict=True))
        heard = Counter(dst for _, dst in pairs)
        receiver = max(plan.hosts, key=lambda host: heard[host])
    everyone = len(plan.hosts) - 1
    counts = flows or sorted({everyone, *takewhile(lambda n: n < everyone, (2**k for k in count(1)))})
    chosen = [meeting(plan, receiver, n) for n in counts]
    found = []
    with shown_progress(quiet=as_json) as progress:
        for senders in chosen:
            found.append(kmin_floor(plan, receiver, senders, like, seed=seed))
            if progress is not None:
                progress(Progress("floors", len(found), len(chosen)))
    if as_json:
        print_json({"receiver": receiver, "seed": seed, "floors": list(map(asdict, found))})
        return
    title = f"Least watermark under which DCQCN flows to {receiver} get their fair share"
    table = headed_table(title, "flows", "by DCQCN", "Kmin", "Kmax", "Pmax", left=0)
    for one in found:
        table.add_row(str(one.n_flows), str(one.n_dcqcn), *watermark_cells(one.watermark))
    console(wide=True).print(table)


def wanted_watermarks(given: Sequence[str], path: Path | None) -> list[Watermark]:
    """Those given as ``KMIN,KMAX,PMAX``, then those of a file; raises ``InputError``."""
    if not given and path is None:
        raise InputError(
            "whatif",
            "no watermark",
            "at least one is predicted",
            "give such as --watermark 100KB,400KB,20%, or --watermarks FILE",
        )
    found = [parse_watermark(one, "--watermark") for one in given]
    return found if path is None else found + read_watermarks(path)


def read_watermarks(path: Path) -> list[Watermark]:
    """Reads the watermarks of a file, in order; raises ``InputError`` naming the wrong entry."""
    document = read_json(path, "watermarks")
    where = f"watermarks {path.name}"
    if isinstance(document, dict):
        if "results" not in document:
            raise InputError(where, "an object without results", "it holds the array under results", "add it")
        document, where = document["results"], f"{where} results"
    try:
        entries = _WATERMARKS.validate_python(document)
    except ValidationError as error:
        raise InputError(*mistake(error.errors(include_url=False)[0], prefix=where)) from error
    if not entries:
        raise InputError(where, "an empty array", "at least one watermark is predicted", "add one")
    found = []
    for number, entry in enumerate(entries):
        try:
            found.append(entry.watermark())
        except WatermarkError as error:
            raise InputError(
                f"{where}[{number}] {error.where}", error.received, error.rule, error.remedy
            ) from error
    return found
