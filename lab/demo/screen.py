"""The demo's terminal output: progress, and the table of results."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from lab.demo.closed_loop import CLOSED_LOOP, PAPER_SETTING, VENDOR, Interval, Outcome, Round, by_phase
from lab.demo.plan import PAPER, VENDOR_DEFAULT, DemoPlan
from lab.documents import FiguresDocument
from twin.units import bytes_text, change_text, duration_text, gain_text, percent_text
from twin.watermark import Watermark

NONE = "–"
_BLOCKS = "▁▂▃▄▅▆▇█"
_NOTHING_NEW = {"kept": "keep", "held": "held back", "failed": "round failed"}


class Shown:
    """Lines on ``screen`` (None: none), and progress bars on standard error if that is a terminal."""

    def __init__(self, plan: DemoPlan, screen: Console | None) -> None:
        self._plan = plan
        self._screen = screen
        self._tasks: dict[str, TaskID] = {}
        self._doing = ""
        bars = Console(stderr=True)
        self._bars = Progress(
            SpinnerColumn(),
            TextColumn("{task.description:<15}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[now]}"),
            TimeElapsedColumn(),
            console=bars,
            transient=True,
            disable=not bars.is_terminal,
            redirect_stdout=screen is not None,
        )

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def stage(self, text: str) -> None:
        if self._doing:
            self._bars.remove_task(self._tasks.pop(self._doing))
        self._doing = text
        self._tasks[text] = self._bars.add_task(text, total=None, now="")

    def interval(self, run: str, interval: Interval, round_: Round | None) -> None:
        """Updates the run's bar; prints a line for the closed loop."""
        end_s = interval.figures.end_s
        if run not in self._tasks:
            self._tasks[run] = self._bars.add_task(run, total=self._plan.duration_s, now="")
        now = f"{duration_text(end_s)}, mean queue {bytes_text(interval.figures.queue_mean_bytes)}"
        self._bars.update(self._tasks[run], completed=end_s, now=now)
        if run == CLOSED_LOOP and self._screen is not None:
            self._screen.print(_line(self._plan, interval, round_), soft_wrap=True)


def opening(plan: DemoPlan, seed: int) -> str:
    numbers = plan.fabric
    phases = ", then ".join(phase.name for phase in plan.phases)
    return (
        f"[bold]{numbers.leaves * numbers.hosts} hosts[/], {numbers.leaves} leaves, {numbers.spines} spines, "
        f"packet by packet for {duration_text(plan.duration_s)}, seed {seed}: {phases}.\n"
        f"Three labs see the same flows. Two keep a setting: the vendor default ({brief(VENDOR_DEFAULT)}) "
        f"and the DCQCN paper's ({brief(PAPER)}). The third starts with the vendor default and reports to "
        "a service, which may set it anew after every interval.\n"
    )


def brief(mark: Watermark) -> str:
    return f"{bytes_text(mark.kmin_bytes)}, {bytes_text(mark.kmax_bytes)}, {percent_text(mark.pmax)}"


def _line(plan: DemoPlan, interval: Interval, round_: Round | None) -> Text:
    figures = interval.figures
    phase = plan.phase_at(figures.begin_s).name
    line = Text(
        f"{duration_text(figures.end_s):>7}  {phase:<15} queue {bytes_text(figures.queue_mean_bytes):<8}"
    )
    if round_ is None:
        return line.append("end")
    gain = "" if round_.score_gain is None else f"  gain {gain_text(round_.score_gain, None)}"
    if round_.outcome == "pushed":
        return line.append(f"→ {brief(round_.watermark)}{gain}", style="green")
    reason = f": {round_.why}" if round_.outcome in ("held", "failed") else ""
    return line.append(f"= {_NOTHING_NEW[round_.outcome]}{reason}", style="dim")


_Figure = tuple[str, Callable[[FiguresDocument], float | None], Callable[[float], str]]


def _ratio(value: float) -> str:
    return f"{value:.3g}×"


def _pause(value: float) -> str:
    return duration_text(value) if value else "none"


FIGURES: Sequence[_Figure] = (
    ("mean queue", lambda one: one.queue_mean_bytes, bytes_text),
    ("99 % queue", lambda one: one.queue_p99_bytes, bytes_text),
    ("mice slowdown, 99 %", lambda one: one.slowdown["mice"].p99, _ratio),
    ("elephant slowdown", lambda one: one.slowdown["elephant"].mean, _ratio),
    ("PFC pause", lambda one: one.paused_s, _pause),
    ("goodput", lambda one: one.goodput_gbps, lambda value: f"{value:.4g} Gbit/s"),
)


def result_table(outcome: Outcome) -> Table:
    """Figures of the whole run: vendor default, the paper's setting, closed loop, and the change; gains by
    phase, whose traffic is unlike that of the others, and over all.
    """
    loop, vendor, paper = outcome.runs
    table = Table(
        title="The whole run, measured in the labs; change from the vendor default",
        title_justify="left",
        title_style="bold",
        box=SIMPLE_HEAD,
    )
    table.add_column("")
    for name in (VENDOR, PAPER_SETTING, CLOSED_LOOP, "change"):
        table.add_column(name, justify="right")
    for name, figure, text in FIGURES:
        before, other, after = (figure(run.whole) for run in (vendor, paper, loop))
        change = change_text(after / before - 1.0) if before and after is not None else NONE
        shown = (NONE if value is None else text(value) for value in (before, other, after))
        table.add_row(name, *shown, change)
    table.add_section()
    found = [by_phase(outcome.plan, vendor, run) for run in (vendor, paper, loop)]
    for phase, gains in zip(outcome.plan.phases, zip(*found, strict=True), strict=True):
        table.add_row(f"gain, {phase.name}", *(gain_text(gain, None) for gain in gains), "")
    closed, first, second = (gain_text(one.value, None) for one in outcome.gains)
    table.add_row("gain, all of it", first, second, Text(closed, "bold"), "")
    return table


def verdict(outcome: Outcome) -> str:
    rounds = outcome.loop.rounds
    pushed = sum(one.outcome == "pushed" for one in rounds)
    places = list(zip(outcome.gains[1:], outcome.runs[1:], strict=True))
    better = max(places, key=lambda place: place[0].value)[1].name
    short = ""
    if outcome.plan.too_short_to_judge:
        n = len(outcome.plan.ends_s)
        short = (
            f" A run this short shows how it works, not how well: 1 interval of {n} is over before any round."
        )
    compared = "better" if outcome.lead > 0 else "worse"
    return (
        f"{pushed} of {len(rounds)} rounds changed the watermark; over the whole run the closed loop is "
        f"{gain_text(abs(outcome.lead), None)} {compared} than the better static setting, the {better}'s. "
        f"Gain: elephants' speed and small messages' delay, half each, and pauses.{short}"
    )


def queue_lines(outcome: Outcome) -> list[str]:
    """The mean queue of each run, interval by interval, on one logarithmic scale."""
    rows = [[one.figures.queue_mean_bytes for one in run.intervals] for run in outcome.runs]
    low, high = (math.log(pick(pick(row) for row in rows) + 1.0) for pick in (min, max))

    def block(value: float) -> str:
        share = (math.log(value + 1.0) - low) / (high - low) if high > low else 0.0
        return _BLOCKS[min(int(share * len(_BLOCKS)), len(_BLOCKS) - 1)] * 2

    width = max(len(run.name) for run in outcome.runs)
    lines = [
        f"  {run.name:<{width}}  {''.join(map(block, row))}"
        for run, row in zip(outcome.runs, rows, strict=True)
    ]
    return [*lines[1:], lines[0]]  # static settings first, as in the table
