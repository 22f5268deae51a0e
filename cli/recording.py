"""``ecntwin demo --recording``: INT reports to a recommended watermark, on the recording that comes along."""

from __future__ import annotations

import os

from rich.columns import Columns
from rich.console import Console
from rich.panel import Panel

from cli.api_cli_output import console, shown_progress
from cli.api_cli_tables import flows_table, queues_table
from cli.example import NAME, example_folder
from cli.prediction_tables import candidates_table, comparison_table, opinion_table
from service.documents.recommendation import RoundDocument
from service.tuning.offline import Recording, read_fabric, read_recording, tune_recording, with_candidates
from service.tuning.round import Ask
from settings.version import ecntwin_version
from twin.search.problem import SearchSettings
from twin.units import bytes_text, change_text, duration_text
from twin.watermark import Watermark
from twin.workers.pool import make_workers

INCUMBENT = Watermark(400_000, 1_600_000, 0.2)  # what the recording was made under
QUEUES_SHOWN = 5
CANDIDATES_SHOWN = 5


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
        Columns([flows_table(recording.state), queues_table(recording.state, QUEUES_SHOWN)], padding=(0, 4))
    )


def _show_answer(screen: Console, answer: RoundDocument) -> None:
    screen.print(candidates_table(answer.candidates, CANDIDATES_SHOWN))
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
