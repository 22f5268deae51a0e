"""``ecntwin tune`` and ``ecntwin demo --recording``: one round on recorded reports."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import dataclass, replace
from importlib.resources import as_file, files
from pathlib import Path

from rich.columns import Columns
from rich.console import Console
from rich.panel import Panel
from rich.table import Table

from cli.output import NONE, WIDE, console, headed_table, print_json, say, shown_progress
from cli.prediction_tables import (
    candidates_table,
    co_tuning_tables,
    comparison_table,
    opinion_table,
    path_sentences,
    path_tables,
)
from service.documents.round import RoundDocument, round_document
from service.documents.telemetry import deepest_first
from service.tuning.fabric import read_dcqcn, read_fabric
from service.tuning.recordings import Recording, parse_watermark, read_recording, with_candidates
from service.tuning.round import Ask, run_round
from settings.errors import InputError
from settings.version import ecntwin_version
from telemetry.state import FlowClass, NetworkState
from twin.errors import ParameterError, check_known
from twin.search.coordinates import WHAT, What
from twin.search.gain import policy_named
from twin.search.problem import SearchSettings
from twin.search.score import weights_for
from twin.units import bytes_text, change_text, duration_text, percent_text
from twin.watermark import Watermark
from twin.workers.pool import make_workers

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


INCUMBENT = Watermark(400_000, 1_600_000, 0.2)  # the recording was made under it
QUEUES_SHOWN = 5
CANDIDATES_SHOWN = 8
CANDIDATES_OF_DEMO = 5
MOST_PROBLEMS_SHOWN = 5


def recording(*, seed: int, candidates: int) -> None:
    """Decodes the example recording, shows its state, runs a round, and names the next steps."""
    screen = console()
    folder = example_folder()
    topology, fabric = read_fabric(folder / "scenario.json", None)
    recording = read_recording(folder / "reports.ndjson.gz", topology)
    _show_state(screen, recording)
    ask = Ask(fabric=fabric, search=SearchSettings(), base=None, seed=seed, version=ecntwin_version())
    _show_answer(screen, _round(recording, with_candidates(ask, candidates), INCUMBENT))


def _round(
    recording: Recording, ask: Ask, running: Watermark, *, n_workers: int | None = None, quiet: bool = False
) -> RoundDocument:
    with (
        closing(make_workers((os.cpu_count() or 1) if n_workers is None else n_workers)) as pool,
        shown_progress(quiet=quiet) as progress,
    ):
        result = run_round(recording.state, ask, lambda _: running, workers=pool, progress=progress)
    return round_document(result, wall_s=result.wall_s)


def _show_state(screen: Console, recording: Recording) -> None:
    duration = duration_text(recording.state.duration_s)
    screen.print(
        f"[bold]{NAME}[/]: {recording.accepted} INT reports, {duration} of a 16-host RoCEv2 fabric\n",
        markup=True,
    )
    screen.print(
        Columns(
            [state_flows_table(recording.state), queues_table(recording.state, QUEUES_SHOWN)], padding=(0, 4)
        )
    )


def _show_answer(screen: Console, answer: RoundDocument) -> None:
    _show_candidates(screen, answer, CANDIDATES_OF_DEMO)
    screen.print(comparison_table(answer.incumbent, answer.recommendation))
    _show_opinion(screen, answer)
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
        "Next: [bold]ecntwin serve[/], open http://127.0.0.1:8080, post reports to it; the page shows how.",
        markup=True,
    )


def _show_candidates(screen: Console, answer: RoundDocument, limit: int) -> None:
    wide = screen.width >= WIDE
    screen.print(candidates_table(answer.candidates, limit, score_is=answer.score_is, origins=wide))


def _show_opinion(screen: Console, answer: RoundDocument) -> None:
    if (opinion := opinion_table(answer)) is not None:
        screen.print(opinion)


@dataclass(frozen=True, slots=True)
class Scoring:
    """``--weights`` and ``--score``."""

    weights: str
    score: str

    def search(self) -> SearchSettings:
        """The search's defaults with these; raises ``ParameterError``."""
        policy = policy_named(self.weights)
        return SearchSettings(
            score=self.score,  # type: ignore[arg-type] # it checks
            policy=policy,
            weights=weights_for(self.weights, policy),
        )


def tune(
    reports: Path,
    topology: Path,
    dcqcn: str | None,
    incumbent: str,
    candidates: int,
    scoring: Scoring,
    what: str,
    *,
    seed: int,
    n_workers: int | None,
    second_opinion: bool,
    as_json: bool,
) -> None:
    """Rejected reports are counted on standard error."""
    running = parse_watermark(incumbent, "--incumbent")
    search = replace(scoring.search(), what=tuned(what))
    if not second_opinion:
        search = replace(search, second_engine=None)
    declared, fabric = read_fabric(topology, read_dcqcn(dcqcn) if dcqcn is not None else None)
    recording = read_recording(reports, declared)
    ask = Ask(fabric=fabric, search=search, base=None, seed=seed, version=ecntwin_version())
    wanted = with_candidates(ask, candidates)
    try:
        document = _round(recording, wanted, running, n_workers=n_workers, quiet=as_json)
    finally:  # what was left out may be why it failed
        report_rejected(recording)
    if as_json:
        print_json(document)
        return
    screen = console(wide=True)
    screen.print(state_flows_table(recording.state))
    screen.print(comparison_table(document.incumbent, document.recommendation))
    _show_candidates(screen, document, CANDIDATES_SHOWN)
    _show_opinion(screen, document)
    screen.print(document.why)
    for note in document.notes:
        screen.print(note)
    if document.co_tuning is not None:
        for table in co_tuning_tables(document.co_tuning, document.incumbent):
            screen.print(table)
        screen.print(document.co_tuning.sentence)
    if document.paths is not None:
        for part in (*path_tables(document.paths), *path_sentences(document.paths)):
            screen.print(part)


def tuned(what: str) -> tuple[What, ...]:
    """What a list separated by commas names; raises ``ParameterError`` without the watermark in it."""
    names = tuple(dict.fromkeys(name.strip() for name in what.split(",")))
    for name in names:
        check_known("--what", name, WHAT, "things to tune")
    if "watermark" not in names:
        rule = "the watermark is always tuned, and the others with it"
        raise ParameterError("--what", what, rule, f"give such as watermark,{what}")
    return names  # type: ignore[return-value] # checked


def report_rejected(recording: Recording) -> None:
    """Counts the reports left out on standard error, the first few with their mistake."""
    for problem in recording.problems[:MOST_PROBLEMS_SHOWN]:
        say(problem.detail)
    if recording.rejected:
        total = recording.accepted + recording.rejected
        say(f"{recording.rejected} of {total} reports were left out")
    if recording.unread:
        say(f"reports have keys that were not read: {', '.join(recording.unread)}; is one misspelt?")


def state_flows_table(state: NetworkState) -> Table:
    table = headed_table("Flows in the window", "class", "flows", "bytes", "share")
    total = sum(state.bytes_by_class.values()) or 1.0
    for flow_class in reversed(FlowClass):
        volume = state.bytes_by_class.get(flow_class, 0.0)
        table.add_row(
            flow_class.label.replace("_", " "),
            f"{state.flows_by_class.get(flow_class, 0)}",
            bytes_text(volume),
            percent_text(volume / total),
        )
    return table


def queues_table(state: NetworkState, limit: int) -> Table:
    table = headed_table("Deepest queues", "queue", "mean", "99 %", "marked", "load")
    for queue in sorted(state.queues, key=deepest_first)[:limit]:
        capacity = queue.capacity_bytes_per_s
        table.add_row(
            f"{queue.ref.switch} {queue.ref.port} · {queue.ref.queue}",
            bytes_text(queue.depth_mean_bytes) if queue.has_depth else NONE,
            bytes_text(queue.depth_p99_bytes) if queue.has_depth else NONE,
            NONE if queue.marked_ratio is None else percent_text(queue.marked_ratio),
            percent_text(queue.throughput_bytes_per_s / capacity) if capacity else NONE,
        )
    return table
