"""Pictures of standings."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bench.rivals.claims import named
from bench.rivals.judge import SLICE_S
from bench.rivals.scenarios import scenario_named
from bench.rivals.standings import Standings
from bench.rivals.store import Key
from bench.rivals.tuners import INCUMBENT
from twin.errors import ParameterError

_SMOOTHED_OVER = 5  # milliseconds


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
            label = named(tuner, budget)
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
