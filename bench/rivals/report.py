"""Tables and pictures of standings."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich import box
from rich.table import Table

from bench.rivals.judge import SLICE_S
from bench.rivals.scenarios import scenario_named
from bench.rivals.standings import ONE_STATIC, Standing, Standings, interval
from bench.rivals.store import Key
from bench.rivals.tuners import INCUMBENT
from twin.errors import ParameterError

_SMOOTHED_OVER = 5  # milliseconds


def regret_table(standings: Standings, *, markdown: bool = False) -> Table:
    """Regret by scenario, and how often each beat the incumbent."""
    table = _table(
        f"Regret to the best static of each phase, in ln of slowdowns: mean ± 95 % over seeds "
        f"{_range(standings.seeds)}",
        markdown,
    )
    table.add_column("tuner", no_wrap=True)
    for name in (*standings.scenarios, "all", "over incumbent", "won"):
        table.add_column(name, justify="right", overflow="fold")
    for tuner, budget in standings.tuners:
        cells = [
            interval(standings.figures(tuner, budget, lambda one: one.regret, scenario))
            for scenario in (*standings.scenarios, None)
        ]
        gained = interval(standings.figures(tuner, budget, lambda one: one.over_incumbent))
        each = [one.over_incumbent for one in _found(standings, tuner, budget)]
        if tuner == INCUMBENT:
            table.add_row(tuner, *cells, "–", "–", style="bold")
        else:
            table.add_row(
                _named(tuner, budget), *cells, gained, f"{sum(one > 0 for one in each)}/{len(each)}"
            )
    if not markdown:
        table.add_section()
    cells = [interval(standings.one_static(scenario)) for scenario in (*standings.scenarios, None)]
    table.add_row(ONE_STATIC, *cells, "", "", style="dim")
    return table


def conduct_table(standings: Standings, *, markdown: bool = False) -> Table:
    """How each tuner got there, means over scenarios and seeds."""
    table = _table("On the way there: means over scenarios and seeds", markdown)
    table.add_column("tuner", no_wrap=True)
    for heading in (
        "settled",
        "settles in",
        "never",
        "worst ms",
        "worse ms",
        "changes",
        "of size",
        "sent",
        "CPU",
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    for tuner, budget in standings.tuners:
        found = _found(standings, tuner, budget)
        after_s = [one for each in found for one in each.settled_after_s]
        reached = [one for one in after_s if math.isfinite(one)]
        decisions = sum(one.row.decisions for one in found)
        table.add_row(
            _named(tuner, budget),
            _figure(_mean(found, lambda one: one.regret_settled)),
            f"{1e3 * float(np.median(reached)):.0f} ms" if reached else "–",
            f"{len(after_s) - len(reached)}/{len(after_s)}",
            _figure(_mean(found, lambda one: one.worst_shortfall)),
            f"{100 * _mean(found, lambda one: one.worse_share):.0f} %",
            f"{_mean(found, lambda one: one.row.changes):.0f}",
            f"{_mean(found, lambda one: one.row.change_size):.2f}",
            f"{_mean(found, lambda one: one.row.exchanged_bytes) / 1e3:.0f} KB",
            f"{1e6 * sum(one.row.decide_cpu_s for one in found) / decisions:.0f} µs" if decisions else "–",
            style="bold" if tuner == INCUMBENT else "",
        )
    return table


def trying_table(standings: Standings, *, markdown: bool = False) -> Table:
    """What traffic suffered while tuners tried settings, over the incumbent in the same milliseconds."""
    table = _table("While trying settings, over the incumbent", markdown)
    table.add_column("tuner", no_wrap=True)
    for heading in ("of the time", "pauses", "drops", "mice p99"):
        table.add_column(heading, justify="right", no_wrap=True)
    for tuner, budget in standings.tuners:
        found = _found(standings, tuner, budget)
        if not any(one.row.exploring_share for one in found):
            continue
        mice = [one.extra_mice for one in found if not math.isnan(one.extra_mice)]
        table.add_row(
            _named(tuner, budget),
            f"{100 * _mean(found, lambda one: one.row.exploring_share):.0f} %",
            f"{_mean(found, lambda one: one.extra_pauses):+.0f}",
            f"{_mean(found, lambda one: one.extra_drops):+.0f}",
            f"{100 * math.expm1(float(np.mean(mice))):+.0f} %" if mice else "–",
        )
    return table


def plot(standings: Standings, into: Path) -> list[Path]:
    """A picture a scenario: how far below the phase's best static each tuner was, by millisecond.

    Raises ``ParameterError`` where matplotlib is not installed.
    """
    try:
        import matplotlib as mpl
    except ImportError:
        raise ParameterError("plot", None, "it takes matplotlib", "run scripts/setup bench") from None
    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "rivals"  # so that the same results give the same file
    from matplotlib import pyplot

    paths = []
    for scenario in standings.scenarios:
        figure, axes = pyplot.subplots(figsize=(9, 3.6), layout="constrained")
        for tuner, budget in standings.tuners:
            keys = [Key(scenario, tuner, budget, seed) for seed in standings.seeds]
            lines = [standings.shortfall(key) for key in keys if key in standings.all]
            if not lines:
                continue
            mean = np.convolve(np.mean(lines, axis=0), np.ones(_SMOOTHED_OVER) / _SMOOTHED_OVER, mode="valid")
            at_ms = (np.arange(len(mean)) + _SMOOTHED_OVER / 2) * SLICE_S * 1e3
            label = _named(tuner, budget)
            axes.plot(at_ms, mean, label=label, linewidth=1.2, color="black" if tuner == INCUMBENT else None)
        axes.axhline(0.0, color="grey", linewidth=0.8)
        for begin_s, _ in scenario_named(scenario).spans_s[1:]:
            axes.axvline(begin_s * 1e3, color="grey", linestyle=":", linewidth=0.8)
        axes.set_xlabel("simulated time, ms")
        axes.set_ylabel("below the best static, ln")
        axes.set_title(f"{scenario}: mean of {len(standings.seeds)} seeds over {_SMOOTHED_OVER} ms")
        axes.legend(fontsize=7, ncols=2, frameon=False)
        paths.append(into / f"{scenario}.svg")
        figure.savefig(paths[-1], metadata={"Date": None})
        pyplot.close(figure)
    return paths


def _table(title: str, markdown: bool) -> Table:
    if markdown:
        return Table(box=box.MARKDOWN)
    return Table(title=title, title_justify="left", box=box.SIMPLE_HEAVY, padding=(0, 1), pad_edge=False)


def _found(standings: Standings, tuner: str, budget: str) -> list[Standing]:
    return [one for key, one in standings.all.items() if (key.tuner, key.budget) == (tuner, budget)]


def _named(tuner: str, budget: str) -> str:
    return tuner if budget == "none" else f"{tuner} @{budget}"


def _range(seeds: list[int]) -> str:
    contiguous = seeds == list(range(seeds[0], seeds[-1] + 1)) and len(seeds) > 1
    return f"{seeds[0]}–{seeds[-1]}" if contiguous else ", ".join(map(str, seeds))


def _mean(found: list[Standing], figure: Callable[[Standing], float]) -> float:
    return float(np.mean([figure(one) for one in found])) if found else math.nan


def _figure(value: float) -> str:
    return f"{value:.2f}".replace("-", "−")
