"""``ecntwin bench``: the repository's measurements, which no distribution carries.

Finds the recording that ``ecntwin demo`` runs on, in an installed distribution or the repository.

``ecntwin demo --recording``: INT reports to a recommended watermark, on the recording that comes along.

``ecntwin tune``: one round on recorded reports.

``ecntwin whatif``: predictions for watermarks in a file.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import as_file, files
from pathlib import Path

import typer
from pydantic import TypeAdapter, ValidationError
from rich.columns import Columns
from rich.console import Console
from rich.panel import Panel

from cli.output import console, print_json, shown_progress
from cli.prediction_tables import candidates_table, comparison_table, opinion_table, whatif_table
from cli.tables import queues_table, state_flows_table
from service.documents.predictions import WatermarkInput
from service.documents.recommendation import RoundDocument
from service.tuning.round import (
    Ask,
    Recording,
    parse_watermark,
    read_dcqcn,
    read_fabric,
    read_json,
    read_recording,
    tune_recording,
    with_candidates,
)
from service.tuning.whatif import Wanted, what_if, workers_for
from settings.errors import InputError
from settings.validation import mistake
from settings.version import ecntwin_version
from twin.errors import WatermarkError
from twin.scenario_file import load_scenario
from twin.search.problem import SearchSettings
from twin.search.score import weights_named
from twin.units import bytes_text, change_text, duration_text
from twin.watermark import Watermark
from twin.workers.pool import make_workers

_REPOSITORY = Path(__file__).resolve().parents[1]


def bench(modules: Sequence[str]) -> None:
    """Runs ``python -m bench`` in the repository; raises ``InputError`` outside it."""
    if not (_REPOSITORY / "bench" / "__main__.py").is_file():
        raise InputError(
            "bench",
            None,
            "measurements are in the repository, not in an installed distribution",
            "clone it and run make bench",
        )
    done = subprocess.run([sys.executable, "-m", "bench", *modules], cwd=_REPOSITORY, check=False)
    raise typer.Exit(done.returncode)


NAME = "websearch-16"


def example_folder() -> Path:
    """The folder with ``scenario.json``, ``topology.json`` and ``reports.ndjson.gz``, or ``InputError``."""
    with as_file(files("cli") / "examples" / NAME) as installed:
        places = (installed, Path(__file__).resolve().parents[1] / "examples" / NAME)
    for folder in places:
        if (folder / "reports.ndjson.gz").is_file():
            return folder
    raise InputError(
        "demo",
        None,
        f"examples/{NAME} of the distribution is missing",
        "install ecntwin again, or run it from its repository",
    )


INCUMBENT = Watermark(400_000, 1_600_000, 0.2)  # what the recording was made under
QUEUES_SHOWN = 5
CANDIDATES_OF_DEMO = 5


def recording(*, seed: int, candidates: int) -> None:
    """Decodes the recording, shows what it says, runs a round, and says what to do next."""
    screen = console()
    folder = example_folder()
    topology, fabric = read_fabric(folder / "scenario.json", None)
    recording = read_recording(folder / "reports.ndjson.gz", topology)
    _show_state(screen, recording)
    ask = Ask(fabric=fabric, search=SearchSettings(), base=None, seed=seed, version=ecntwin_version())
    pool = make_workers(os.cpu_count() or 1)
    try:
        with shown_progress(quiet=False) as progress:
            _, answer = tune_recording(
                recording, with_candidates(ask, candidates), INCUMBENT, workers=pool, progress=progress
            )
    finally:
        pool.close()
    _show_answer(screen, answer)


def _show_state(screen: Console, recording: Recording) -> None:
    duration = duration_text(recording.state.duration_s)
    screen.print(
        f"[bold]{NAME}[/]: {recording.accepted} INT reports, {duration} of a 16-host RoCEv2 fabric\n"
    )
    screen.print(
        Columns(
            [state_flows_table(recording.state), queues_table(recording.state, QUEUES_SHOWN)], padding=(0, 4)
        )
    )


def _show_answer(screen: Console, answer: RoundDocument) -> None:
    screen.print(candidates_table(answer.candidates, CANDIDATES_OF_DEMO))
    screen.print(comparison_table(answer.incumbent, answer.recommendation))
    opinion = opinion_table(answer)
    if opinion is not None:
        screen.print(opinion)
    screen.print(Panel(answer.why, title="Why", title_align="left", border_style="green"))
    measured, residual = answer.measured.queue_mean_bytes, answer.measured.residual_ratio
    predicted = answer.incumbent.queue_mean_bytes
    if measured is not None and residual is not None and predicted is not None:
        screen.print(
            f"The twin against reality: mean queue of what runs now predicted {bytes_text(predicted)}, "
            f"measured {bytes_text(measured)} ({change_text(residual)})."
        )
    screen.print(
        f"{answer.candidate_count} candidates in {duration_text(answer.wall_s)}, seed {answer.seed}, "
        f"version {answer.version}: the same seed gives the same answer.\n\n"
        "Next: [bold]ecntwin serve[/], open http://127.0.0.1:8080, post reports to it; the page shows how."
    )


MOST_PROBLEMS_SHOWN = 5
CANDIDATES_SHOWN = 8


def tune(
    reports: Path,
    topology: Path,
    dcqcn: str | None,
    incumbent: str,
    candidates: int,
    weights: str,
    *,
    seed: int,
    n_workers: int | None,
    second_opinion: bool,
    as_json: bool,
) -> None:
    """Reads, runs, prints. Reports that had to be left out are told on standard error, never silently."""
    running = parse_watermark(incumbent, "--incumbent")
    search = SearchSettings(weights=weights_named(weights))
    if not second_opinion:
        search = replace(search, second_engine=None)
    declared, fabric = read_fabric(topology, read_dcqcn(dcqcn) if dcqcn is not None else None)
    recording = read_recording(reports, declared)
    ask = Ask(fabric=fabric, search=search, base=None, seed=seed, version=ecntwin_version())
    pool = make_workers((os.cpu_count() or 1) if n_workers is None else n_workers)
    try:
        with shown_progress(quiet=as_json) as progress:
            _, document = tune_recording(
                recording, with_candidates(ask, candidates), running, workers=pool, progress=progress
            )
    finally:
        pool.close()
    complain(recording)
    if as_json:
        print_json(document)
        return
    screen = console()
    screen.print(state_flows_table(recording.state))
    screen.print(comparison_table(document.incumbent, document.recommendation))
    screen.print(candidates_table(document.candidates, CANDIDATES_SHOWN))
    opinion = opinion_table(document)
    if opinion is not None:
        screen.print(opinion)
    screen.print(document.why)
    for note in document.notes:
        screen.print(note)


def complain(recording: Recording) -> None:
    """Says on standard error what had to be left out."""
    for problem in recording.problems[:MOST_PROBLEMS_SHOWN]:
        sys.stderr.write(f"ecntwin: {problem.detail}\n")
    if recording.rejected:
        total = recording.accepted + recording.rejected
        sys.stderr.write(f"ecntwin: {recording.rejected} of {total} reports were left out\n")


# A file has no incumbent, no age and no curves to tell of: those are the service's.
TOLD = {"scenario", "engine", "seed", "version", "wall_s", "results"}

_WATERMARKS = TypeAdapter(list[WatermarkInput])


def whatif(
    scenario: Path, watermarks: Path, engine: str, *, seed: int, n_workers: int | None, as_json: bool
) -> None:
    """Reads both files, predicts, prints."""
    problem = load_scenario(scenario)
    wanted = read_watermarks(watermarks)
    pool = make_workers((os.cpu_count() or 1) if n_workers is None else n_workers)
    try:
        with shown_progress(quiet=as_json) as progress:
            document = what_if(
                problem,
                Wanted(tuple(wanted), engine, seed),
                weights=weights_named("balanced"),
                workers=workers_for(engine, len(wanted), pool),
                version=ecntwin_version(),
                progress=progress,
            )
    finally:
        pool.close()
    if as_json:
        print_json(document.model_dump(mode="json", include=TOLD))
    else:
        console().print(whatif_table(document))


def read_watermarks(path: Path) -> list[Watermark]:
    """The watermarks of a file, as given; raises ``InputError`` naming the entry that is wrong."""
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
