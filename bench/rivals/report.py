"""Tables of standings and claims."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import zip_longest

import numpy as np
from rich import box
from rich.table import Table

from bench.rivals.claims import Finding, Verdict, named
from bench.rivals.standings import ONE_STATIC, Standing, Standings, interval
from bench.rivals.tuners import INCUMBENT


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
            table.add_row(named(tuner, budget), *cells, gained, f"{sum(one > 0 for one in each)}/{len(each)}")
    if not markdown:
        table.add_section()
    cells = [interval(standings.one_static(scenario)) for scenario in (*standings.scenarios, None)]
    table.add_row(ONE_STATIC, *cells, "", "", style="dim")
    return table


def conduct_table(standings: Standings, *, markdown: bool = False) -> Table:
    """How each tuner settles, changes settings and what it costs: means over scenarios and seeds."""
    table = _table("On the way there: means over scenarios and seeds", markdown)
    table.add_column("tuner", no_wrap=True)
    headings = "settled", "settles in", "never", "worst ms", "worse ms", "changes", "of size", "sent", "CPU"
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    for tuner, budget in standings.tuners:
        found = _found(standings, tuner, budget)
        after_s = [one for each in found for one in each.settled_after_s]
        reached = [one for one in after_s if math.isfinite(one)]
        decisions = sum(one.row.decisions for one in found)
        table.add_row(
            named(tuner, budget),
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
            named(tuner, budget),
            f"{100 * _mean(found, lambda one: one.row.exploring_share):.0f} %",
            f"{_mean(found, lambda one: one.extra_pauses):+.0f}",
            f"{_mean(found, lambda one: one.extra_drops):+.0f}",
            f"{100 * math.expm1(float(np.mean(mice))):+.0f} %" if mice else "–",
        )
    return table


def claims_table(findings: Sequence[Finding], *, markdown: bool = False) -> Table:
    """Each claim beside what was found; the number under ``run`` is that of a command in ``commands``."""
    table = _table("Claims of others beside ours: own ÷ other − 1 in %, mean [95 % over seeds]", markdown)
    for heading in ("claim", "source", "measure", "tuner", "against"):
        table.add_column(heading, no_wrap=heading == "tuner", overflow="fold")
    for heading in ("printed", "ours"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("where best", overflow="fold")
    for heading in ("own, other", "over all"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict", overflow="fold")
    table.add_column("run", justify="right")
    to_run = commands(findings)
    before: Sequence[str] = ()
    for one in findings:
        mean, low, high = one.ours
        source = f"{one.claim.where} \\[{one.claim.standing}]"
        first = (f"{one.claim.id} {one.claim.says}", source, one.measure, one.tuner or "–")
        same = [new == old for new, old in zip_longest(first, before)]
        table.add_row(
            *("" if all(same[: place + 1]) else text for place, text in enumerate(first)),
            one.against or "–",
            "–" if one.printed is None else _percent(one.printed),
            f"{_percent(mean)} \\[{_percent(low)}, {_percent(high)}]" if one.values else "–",
            one.case + (f", of {one.cases}" if one.cases > 1 else ""),
            _pair(one),
            "" if math.isnan(one.overall) else _percent(one.overall),
            f"{one.verdict}: {one.why}" if one.why else str(one.verdict),
            str(to_run.index(one.missing) + 1) if one.missing else "",
            style={Verdict.CONFIRMED: "green", Verdict.CONTRADICTED: "red"}.get(one.verdict, ""),
        )
        before = first
    return table


def tally(findings: Sequence[Finding]) -> list[str]:
    """``pet @box: 3 confirmed, 5 contradicted`` for each tuner."""
    return [
        f"{tuner}: " + ", ".join(f"{count} {verdict}" for verdict in Verdict if (count := counts[verdict]))
        for tuner in dict.fromkeys(one.tuner for one in findings)
        if tuner and (counts := Counter(one.verdict for one in findings if one.tuner == tuner))
    ]


def commands(findings: Sequence[Finding]) -> list[str]:
    """Those that make the runs which claims lack, each once."""
    return list(dict.fromkeys(one.missing for one in findings if one.missing))


def _percent(value: float) -> str:
    return f"{value:+.1f}".replace("-", "−")


def _pair(one: Finding) -> str:
    in_kb = one.statistic.endswith("_bytes")
    figures = ", ".join(f"{value / 1e3:.1f}" if in_kb else f"{value:.3g}" for value in one.figures)
    return f"{figures} KB" if in_kb and figures else figures


def _table(title: str, markdown: bool) -> Table:
    if markdown:
        return Table(box=box.MARKDOWN)
    return Table(title=title, title_justify="left", box=box.SIMPLE_HEAVY, padding=(0, 1), pad_edge=False)


def _found(standings: Standings, tuner: str, budget: str) -> list[Standing]:
    return [one for key, one in standings.all.items() if (key.tuner, key.budget) == (tuner, budget)]


def _range(seeds: list[int]) -> str:
    contiguous = seeds == list(range(seeds[0], seeds[-1] + 1)) and len(seeds) > 1
    return f"{seeds[0]}–{seeds[-1]}" if contiguous else ", ".join(map(str, seeds))


def _mean(found: list[Standing], figure: Callable[[Standing], float]) -> float:
    return float(np.mean([figure(one) for one in found])) if found else math.nan


def _figure(value: float) -> str:
    return f"{value:.2f}".replace("-", "−")
