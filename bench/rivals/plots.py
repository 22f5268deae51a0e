"""Pictures of standings: regret, each scenario over time, switches of pattern, the price of exploring."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import cycle, pairwise, product
from pathlib import Path
from typing import Any

import numpy as np

from bench.rivals.claims import Pair, named
from bench.rivals.judge import SLICE_S, bootstrap
from bench.rivals.scenarios import scenario_named
from bench.rivals.standings import ONE_STATIC, Standing, Standings
from bench.rivals.store import Key, changes_of
from bench.rivals.tuner import Floats
from bench.rivals.tuners import INCUMBENT, NO_BUDGET
from bench.rivals.tuners.statics import static_watermark
from twin.errors import ParameterError

_SMOOTHED_OVER = 5  # milliseconds
_OWN = "ecntwin"
_COLOURS = {INCUMBENT: "black", _OWN: "#e3001b"}
_OTHERS = ("#0072b2", "#009e73", "#b8860b", "#7e57c2", "#56b4e9", "#8c564b")
_LINES = ("-", "--", ":", "-.")
_MOST_OVER_TIME = 6
_COLOUR_WITHIN = 0.5  # of the incumbent's regret; beyond, colours end

Look = dict[str, Any]


def plot(standings: Standings, into: Path, chosen: Sequence[str] | None = None) -> list[Path]:
    """Draws every picture into a folder; ``chosen`` tuners, NAME or NAME@BUDGET, over switches of pattern.

    Raises ``ParameterError`` where matplotlib is not installed, or no chosen tuner is in the results.
    """
    try:
        import matplotlib as mpl
    except ImportError:
        raise ParameterError("plot", None, "it takes matplotlib", "run scripts/setup bench") from None
    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "rivals"  # so that the same results give the same file
    mpl.rcParams["axes.spines.top"] = mpl.rcParams["axes.spines.right"] = False
    mpl.rcParams["font.size"] = 9
    from matplotlib import pyplot

    looks = looks_of(standings.tuners)
    pictures: list[tuple[str, Any]] = []
    switching = [name for name in standings.scenarios if len(scenario_named(name).phases) > 1]
    over_time = {name: over_time_of(standings, name, chosen) for name in switching}
    pictures.append(("regret", _regret(pyplot, standings)))
    pictures.append(("exploring", _exploring(pyplot, standings, looks)))
    pictures += [
        (f"switch-{name}", _switch(pyplot, standings, name, over_time[name], looks)) for name in switching
    ]
    pictures += [(name, _shortfall(pyplot, standings, name, looks)) for name in standings.scenarios]
    paths = []
    for name, figure in pictures:
        paths.append(into / f"{name}.svg")
        figure.savefig(paths[-1], metadata={"Date": None})
        pyplot.close(figure)
    return paths


def looks_of(tuners: Sequence[Pair]) -> dict[Pair, Look]:
    """Colour and line of each: the incumbent black, ecntwin red, the others by colour, then by line."""
    others = cycle(product(_LINES, _OTHERS))
    found: dict[Pair, Look] = {}
    for pair in tuners:
        if pair[0] in _COLOURS:
            # The incumbent below, where thinner lines on it can be seen.
            on_top = 3 if pair[0] == _OWN else 1.5
            found[pair] = {"color": _COLOURS[pair[0]], "linestyle": "-", "linewidth": 2.2, "zorder": on_top}
        else:
            line, colour = next(others)
            found[pair] = {"color": colour, "linestyle": line, "linewidth": 1.2}
    return found


def over_time_of(standings: Standings, scenario: str, chosen: Sequence[str] | None = None) -> list[Pair]:
    """Those drawn over time: incumbent, ecntwin and the best three others that look, or those chosen."""
    there = [pair for pair in standings.tuners if standings.figures(*pair, lambda one: one.regret, scenario)]
    if chosen is not None:
        wanted = [pair for pair in there if {pair[0], named(*pair, at="@")} & set(chosen)]
        if not wanted or len(wanted) > _MOST_OVER_TIME:
            rule = f"{len(wanted)} of them are in {scenario}, and 1 to {_MOST_OVER_TIME} can be told apart"
            remedy = f"choose from {', '.join(named(*pair, at='@') for pair in there)}"
            raise ParameterError("--tuners", ",".join(chosen), rule, remedy)
        return wanted
    fixed = [pair for pair in there if pair[0] in _COLOURS]
    others = [pair for pair in there if pair[0] not in _COLOURS and pair[1] != NO_BUDGET]

    def regret(pair: Pair) -> float:
        return float(np.mean(standings.figures(*pair, lambda one: one.regret, scenario)))

    return fixed + sorted(others, key=regret)[:3]


def kmin_by_ms(standings: Standings, key: Key) -> Floats:
    """Median Kmin over the queues to hosts at the end of each millisecond, bytes."""
    scenario = scenario_named(key.scenario)
    plan, switches = scenario.plan, scenario.topology.switch_names
    to_host = np.array([plan.ports[port].peer not in switches for port in plan.switch_ports])
    kmin = np.array([mark.kmin_bytes for mark in scenario.incumbent], dtype=np.float64)
    changes = changes_of(standings.folder, key)
    n = len(standings.slices(key).score)
    ends = np.searchsorted(changes.at_s, np.arange(1, n + 1) * SLICE_S - 1e-9)
    found = np.empty(n)
    for number, (first, end) in enumerate(pairwise([0, *ends.tolist()])):
        kmin[changes.queue[first:end]] = changes.to[first:end, 0]
        found[number] = np.median(kmin[to_host])
    return found


def _regret(pyplot: Any, standings: Standings) -> Any:
    """Tuners × scenarios: the number is regret, the colour how far it is from the incumbent's."""
    rows = [
        [
            _mean(standings.figures(*pair, lambda one: one.regret, scenario))
            for scenario in standings.scenarios
        ]
        for pair in standings.tuners
    ]
    rows.append([_mean(standings.one_static(scenario)) for scenario in standings.scenarios])
    names = [*(named(*pair) for pair in standings.tuners), ONE_STATIC]
    columns = [*standings.scenarios, "mean"]
    # A mean of some scenarios would stand beside means of others: NaN.
    regret = np.column_stack([rows, np.mean(rows, axis=1)])
    beside = regret[names.index(INCUMBENT)]
    size = max(5.0, 2.6 + 0.5 * len(columns)), 2.0 + 0.25 * len(names)
    figure, axes = pyplot.subplots(figsize=size, layout="constrained")
    limit = _COLOUR_WITHIN
    image = axes.imshow(regret - beside, cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto")
    for (row, column), value in np.ndenumerate(regret):
        if math.isfinite(value):
            far = abs(value - beside[column]) > 0.7 * limit
            text = f"{value:.2f}".replace("-", "−")
            axes.text(
                column, row, text, ha="center", va="center", fontsize=7, color="white" if far else "black"
            )
    axes.set_xticks(range(len(columns)), columns, rotation=40, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(names)), names)
    for tick, name in zip(axes.get_yticklabels(), names, strict=True):
        _mark(tick, name.partition(" @")[0])
    axes.axhline(len(names) - 1.5, color="black", linewidth=0.8)
    axes.axvline(len(columns) - 1.5, color="black", linewidth=0.8)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    bar = figure.colorbar(image, ax=axes, shrink=0.6, aspect=25, extend="both", pad=0.02)
    bar.set_label("less than the incumbent's  ←  →  more")
    _title(figure, "Regret to the best static of each phase, mean over seeds")
    return figure


def _exploring(pyplot: Any, standings: Standings, looks: dict[Pair, Look]) -> Any:
    """A row a tuner: regret settled and as a whole, and what it suffered while it tried settings."""
    pairs = [pair for pair in standings.tuners if pair[1] != NO_BUDGET or pair[0] == INCUMBENT]
    settled: Callable[[Standing], float] = lambda one: one.regret_settled  # noqa: E731
    pairs.sort(key=lambda pair: -_mean(standings.figures(pair[0], pair[1], settled)))
    figure, (left, middle, right) = pyplot.subplots(
        1, 3, sharey=True, figsize=(9, 1.4 + 0.27 * len(pairs)), layout="constrained", width_ratios=(2, 1, 1)
    )
    for row, pair in enumerate(pairs):
        colour = looks[pair]["color"]
        ends = [_interval(standings, pair, of) for of in (settled, lambda one: one.regret)]
        left.plot([ends[0][0], ends[1][0]], [row, row], color=colour, linewidth=1.0)
        for (mean, low, high), filled in zip(ends, (True, False), strict=True):
            left.plot([low, high], [row, row], color=colour, linewidth=3.0, alpha=0.3)
            left.plot(mean, row, "o", color=colour, markerfacecolor=colour if filled else "white", zorder=3)
        for axes, of in (
            (middle, lambda one: one.shortfall_exploring),
            (right, lambda one: one.extra_mice),
        ):
            mean, *ends_of = _interval(standings, pair, of)
            if axes is right:
                mean, *ends_of = map(math.exp, (mean, *ends_of))
            axes.plot(ends_of, [row, row], color=colour, linewidth=3.0, alpha=0.3)
            axes.plot(mean, row, "o", color=colour)
    left.set_yticks(range(len(pairs)), [named(*pair) for pair in pairs])
    for tick, pair in zip(left.get_yticklabels(), pairs, strict=True):
        _mark(tick, pair[0])
    right.set_xscale("log")
    right.set_xticks([1, 2, 5, 10], ["1", "2", "5", "10"])
    right.set_xticks([], minor=True)
    for axes, nothing, says in (
        (left, 0.0, "regret: ● second half of phases, ○ whole run"),
        (middle, 0.0, "on trial: a ms below\nthe best static, ln"),
        (right, 1.0, "on trial: mice p99\n÷ the incumbent's"),
    ):
        axes.set_xlabel(says)
        axes.axvline(nothing, color="grey", linewidth=0.8)
        axes.grid(axis="y", linewidth=0.4, color="#dddddd")
        axes.tick_params(axis="y", length=0)
    _title(figure, "The price of exploring: means over scenarios, 95 % over seeds")
    return figure


def _switch(
    pyplot: Any, standings: Standings, scenario: str, pairs: Sequence[Pair], looks: dict[Pair, Look]
) -> Any:
    """Kmin and mean queue of a few tuners over a scenario's phases."""
    figure, (upper, lower) = pyplot.subplots(2, 1, sharex=True, figsize=(9, 5), layout="constrained")
    for pair in pairs:
        keys = [key for seed in standings.seeds if (key := Key(scenario, *pair, seed)) in standings.all]
        kmin = np.median([kmin_by_ms(standings, key) for key in keys], axis=0)
        queue = np.mean([standings.slices(key).queue_mean_bytes for key in keys], axis=0)
        upper.plot(
            (np.arange(len(kmin)) + 0.5) * SLICE_S * 1e3, kmin / 1e3, label=named(*pair), **looks[pair]
        )
        at_ms, smooth = _smoothed(queue)
        lower.plot(at_ms, smooth / 1e3, **looks[pair])
    seeds = sorted({key.seed for key in standings.all if key.scenario == scenario})
    for phase, (begin_s, end_s) in enumerate(scenario_named(scenario).spans_s):
        best = [
            static_watermark(standings.best_statics(scenario, seed)[phase].tuner).kmin_bytes for seed in seeds
        ]
        label = "best static of the phase" if phase == 0 else None
        upper.hlines(
            np.median(best) / 1e3,
            begin_s * 1e3,
            end_s * 1e3,
            color="#bbbbbb",
            linewidth=5,
            zorder=0,
            label=label,
        )
    upper.set_yscale("log")
    upper.set_ylabel("Kmin to hosts, KB\n(median of queues and seeds)")
    lower.set_yscale("log")
    lower.set_ylabel(f"mean queue, KB\n(seeds, {_SMOOTHED_OVER} ms)")
    lower.set_xlabel("simulated time, ms")
    _edges(upper, scenario, named_phases=True)
    _edges(lower, scenario)
    upper.set_title(f"{scenario}: how tuners answer a switch of pattern", loc="left", pad=18)
    figure.legend(loc="outside right upper", frameon=False)
    return figure


def _shortfall(pyplot: Any, standings: Standings, scenario: str, looks: dict[Pair, Look]) -> Any:
    """How far below the phase's best static each tuner was, by millisecond."""
    figure, axes = pyplot.subplots(figsize=(9, 3.8), layout="constrained")
    for pair in standings.tuners:
        keys = [Key(scenario, *pair, seed) for seed in standings.seeds]
        lines = [standings.shortfall(key) for key in keys if key in standings.all]
        if lines:
            axes.plot(*_smoothed(np.mean(lines, axis=0)), label=named(*pair), **looks[pair])
    axes.axhline(0.0, color="grey", linewidth=0.8)
    _edges(axes, scenario)
    axes.set_xlabel("simulated time, ms")
    axes.set_ylabel("below the best static, ln")
    axes.set_title(f"{scenario}: mean of {len(standings.seeds)} seeds over {_SMOOTHED_OVER} ms", loc="left")
    figure.legend(loc="outside right upper", fontsize=7, frameon=False)
    return figure


def _smoothed(values: Floats) -> tuple[Floats, Floats]:
    """Milliseconds and the mean over a few of them."""
    mean: Floats = np.convolve(values, np.ones(_SMOOTHED_OVER) / _SMOOTHED_OVER, mode="valid")
    return (np.arange(len(mean), dtype=np.float64) + _SMOOTHED_OVER / 2) * SLICE_S * 1e3, mean


def _edges(axes: Any, scenario: str, *, named_phases: bool = False) -> None:
    found = scenario_named(scenario)
    for phase, (begin_s, end_s) in zip(found.phases, found.spans_s, strict=True):
        if begin_s:
            axes.axvline(begin_s * 1e3, color="grey", linestyle=":", linewidth=0.8)
        if named_phases:
            middle = (begin_s + end_s) / 2 * 1e3
            axes.annotate(
                phase.name, (middle, 1.02), xycoords=("data", "axes fraction"), ha="center", fontsize=8
            )


def _title(figure: Any, says: str) -> None:
    figure.suptitle(says, x=0.01, ha="left", fontsize=10)


def _mark(label: Any, tuner: str) -> None:
    """Prints the labels of the incumbent and ecntwin bold and in their colours."""
    if tuner in _COLOURS:
        label.set_color(_COLOURS[tuner])
        label.set_fontweight("bold")


def _interval(
    standings: Standings, pair: Pair, of: Callable[[Standing], float]
) -> tuple[float, float, float]:
    """Mean over scenarios and seeds and its interval, without those where there is no such figure."""
    by_seed = [
        [
            value
            for key, one in standings.all.items()
            if (key.tuner, key.budget, key.seed) == (*pair, seed) and math.isfinite(value := of(one))
        ]
        for seed in standings.seeds
    ]
    return bootstrap([float(np.mean(values)) for values in by_seed if values])


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if len(values) else math.nan
