"""``ecntwin tune``: one round on recorded reports."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

from cli.api_cli_output import console, print_json, shown_progress
from cli.api_cli_tables import flows_table
from cli.prediction_tables import candidates_table, comparison_table, opinion_table
from service.tuning.offline import (
    Recording,
    parse_watermark,
    read_dcqcn,
    read_fabric,
    read_recording,
    tune_recording,
    with_candidates,
)
from service.tuning.round import Ask
from settings.version import ecntwin_version
from twin.search.problem import SearchSettings
from twin.search.score import weights_named
from twin.workers.pool import make_workers

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
    screen.print(flows_table(recording.state))
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
