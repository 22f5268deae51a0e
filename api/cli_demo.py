"""``ecntwin demo``: the whole way from INT reports to a recommended watermark, on the recording that comes along."""

from __future__ import annotations

import os

from rich.panel import Panel

from api.cli_output import console, shown_progress
from api.cli_tables import candidates_table, comparison_table, flows_table, queues_table
from api.example import NAME, example_folder
from api.offline import read_fabric, read_recording, tune_recording, with_candidates
from api.rounds import Ask
from api.version import ecntwin_version
from twin.search_problem import SearchSettings
from twin.units import bytes_text, change_text, duration_text
from twin.watermark import Watermark
from twin.workers import make_workers

INCUMBENT = Watermark(400_000, 1_600_000, 0.2)  # what the recording was made under
QUEUES_SHOWN = 5
CANDIDATES_SHOWN = 6


def demo(*, seed: int, candidates: int) -> None:
    """Decodes the recording, shows what it says, runs a round, and says what to do next."""
    screen = console()
    folder = example_folder()
    topology, fabric = read_fabric(folder / "scenario.json", None)
    recording = read_recording(folder / "reports.ndjson.gz", topology)
    state = recording.state
    screen.rule(
        f"[bold]{NAME}[/]: {recording.accepted} INT reports, {duration_text(state.duration_s)} of traffic"
    )
    screen.print(flows_table(state), queues_table(state, QUEUES_SHOWN))
    ask = Ask(fabric=fabric, search=SearchSettings(), base=None, seed=seed, version=ecntwin_version())
    pool = make_workers(os.cpu_count() or 1)
    try:
        with shown_progress(quiet=False) as progress:
            _, answer = tune_recording(
                recording, with_candidates(ask, candidates), INCUMBENT, workers=pool, progress=progress
            )
    finally:
        pool.close()
    screen.print(candidates_table(answer, CANDIDATES_SHOWN), comparison_table(answer))
    measured, residual = answer.measured.queue_mean_bytes, answer.measured.residual_ratio
    check = ""
    if measured is not None and residual is not None and answer.incumbent.queue_mean_bytes is not None:
        check = (
            f"\nThe twin against reality: incumbent's mean queue predicted {bytes_text(answer.incumbent.queue_mean_bytes)}, "
            f"measured {bytes_text(measured)} ({change_text(residual)})."
        )
    screen.print(Panel(f"{answer.why}{check}", title="Why", title_align="left", border_style="green"))
    screen.print(
        f"Seed {answer.seed}, version {answer.version}, {answer.candidate_count} candidates in "
        f"{duration_text(answer.wall_s)}; the same seed gives the same answer."
    )
    screen.print("Next: [bold]ecntwin serve[/], then post reports to http://127.0.0.1:8080/v1/telemetry/int")
