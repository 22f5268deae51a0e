"""What the twin's pick of a watermark loses in gain, judged on the packets of another simulator.

``python -m bench.picks`` prints a table; the tests marked ``accuracy`` assert the goals on the same numbers.
The truth says what bulk traffic, mice, pauses and losses get. It has no probe: where the probe judges, it is
the packet engine's, which shares nothing with the replay that picked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from typing import Literal

import numpy as np
from rich.console import Console

from bench.accuracy import PROBLEMS, markdown, order_agreement, scenario, truth
from bench.figure import Figure
from bench.replay import INCUMBENT
from twin.engine import engine
from twin.prediction import Prediction, averaged
from twin.search.disagreement import few, of_both
from twin.search.gain import POLICIES, Gain, Policy, gain_over, gains_over_first, persistent_bytes_share
from twin.search.problem import SearchSettings
from twin.search.round import engine_seeds
from twin.search.score import WEIGHT_PRESETS, score

Judge = Literal["mice", "probe"]
JUDGES: tuple[Judge, ...] = ("mice", "probe")
MEAN_GOAL, WORST_GOAL, RANK_GOAL = 0.02, 0.06, 0.95


@cache
def runs(name: str, by: str, seed: int) -> tuple[Prediction, ...]:
    watermarks = [one.watermark for one in truth(name)]
    return tuple(engine(by).predict(scenario(name), watermarks, seed=seed))


@cache
def run(name: str, by: str, seed: int, row: int) -> Prediction:
    [found] = engine(by).predict(scenario(name), [truth(name)[row].watermark], seed=seed)
    return found


def now_row(name: str) -> int:
    """The row of the vendor default, which gains are over."""
    return [one.watermark for one in truth(name)].index(INCUMBENT)


def gains(name: str, predictions: Sequence[Prediction], policy: Policy) -> list[Gain]:
    """Gains of the truth's watermarks over the vendor default."""
    now = predictions[now_row(name)]
    share = persistent_bytes_share(scenario(name), now.gain_figures)
    return [gain_over(now, one, policy, share) for one in predictions]


@cache
def true_gains(name: str, policy: Policy, judge: Judge) -> tuple[float, ...]:
    """Gains by the packets, with the mice alone or the probe alone as what small messages suffer."""
    problem = scenario(name)
    port_s = len(problem.ports) * problem.duration_s
    rows = []
    for number, true in enumerate(truth(name)):
        row = replace(true, paused_share=true.pfc_pause_s / port_s)
        if judge == "probe":
            kept = {size: one for size, one in true.slowdown.items() if size != "mice"}
            row = replace(row, slowdown=kept, probe=runs(name, "packet", 1)[number].probe)
        rows.append(row)
    return tuple(one.value for one in gains(name, rows, policy))


def judges(name: str) -> tuple[Judge, ...]:
    """Both, or the probe alone where the truth has no mice."""
    return JUDGES if "mice" in truth(name)[0].slowdown else ("probe",)


def lost(name: str, row: int, policy: Policy, judge: Judge) -> float:
    """Gain lost by a row against the best of the truth's watermarks."""
    true = true_gains(name, policy, judge)
    return max(true) - true[row]


def confirmed(name: str, policy: Policy, seed: int = 1) -> list[Gain]:
    """The replay's gains, as in a round: the leaders under every seed, together with what runs now."""
    settings = SearchSettings()
    first, *others = engine_seeds(seed, settings.seeds)
    found = gains(name, runs(name, "replay", first), policy)
    leaders = sorted(range(len(found)), key=lambda row: -found[row].value)[: settings.leaders]
    rows = [now_row(name), *leaders]
    mean = [
        averaged([runs(name, "replay", first)[row], *(run(name, "replay", seed, row) for seed in others)])
        for row in rows
    ]
    again = dict(zip(rows, gains_over_first(scenario(name), mean, policy), strict=True))
    return [again.get(row, one) for row, one in enumerate(found)]


def picked(name: str, policy: Policy, seed: int = 1) -> int:
    """The replay's pick among the truth's watermarks."""
    return _best(confirmed(name, policy, seed))


def picked_twice(name: str, policy: Policy) -> tuple[int, list[int]]:
    """The pick after the packet engine's opinion, and the rows it ran."""
    settings, now, problem = SearchSettings(), now_row(name), scenario(name)
    first = confirmed(name, policy)
    rows = runs(name, "replay", 1)
    scores = score(rows, WEIGHT_PRESETS["balanced"], problem.pfc).with_gains(first, "gain")
    asked = few(scores, WEIGHT_PRESETS["balanced"], settings.second_candidates, _best(first), now)
    second = gains(name, runs(name, "packet", 1), policy)
    ran = [now, *asked]
    both = of_both(first, {row: second[row] for row in ran}, [one.watermark.usual for one in truth(name)])
    return max(ran, key=lambda row: both[row].value), ran


def rank_of_gain(name: str, policy: Policy, one: str, other: str) -> float:
    """Rank correlation of two engines' gains, one run each."""
    ours, theirs = ([gain.value for gain in gains(name, runs(name, by, 1), policy)] for by in (one, other))
    return order_agreement(np.array(ours), np.array(theirs))


def _best(found: Sequence[Gain]) -> int:
    return max(range(len(found)), key=lambda row: (found[row].value, -row))


def rows(names: Iterable[str] = PROBLEMS) -> list[dict[str, object]]:
    """A row a problem, policy and judge."""
    found: list[dict[str, object]] = []
    for name in names:
        for policy_name, policy in POLICIES.items():
            one, (two, _) = picked(name, policy), picked_twice(name, policy)
            for judge in judges(name):
                true = true_gains(name, policy, judge)
                found.append(
                    {
                        "problem": name,
                        "policy": policy_name,
                        "judge": judge,
                        "picked": str(truth(name)[one].watermark),
                        "lost": lost(name, one, policy, judge),
                        "picked_twice": str(truth(name)[two].watermark),
                        "lost_twice": lost(name, two, policy, judge),
                        "lost_by_vendor_default": lost(name, now_row(name), policy, judge),
                        "range": max(true) - min(true),
                        "rank": rank_of_gain(name, policy, "replay", "packet"),
                    }
                )
    return found


def measure() -> Iterable[Figure]:
    found = rows()
    for key, who in (("lost", "replay"), ("lost_twice", "replay, then packet")):
        values = [float(str(row[key])) for row in found]
        yield Figure(f"{who}: gain lost by the pick, mean", float(np.mean(values)), "gain", goal=MEAN_GOAL)
        yield Figure(f"{who}: gain lost by the pick, worst", max(values), "gain", goal=WORST_GOAL)
    ranks = {str(row["problem"]): float(str(row["rank"])) for row in found if row["policy"] == "balanced"}
    yield Figure(
        "replay and packet: rank correlation of gains, worst problem", min(ranks.values()), "rank",
        goal=RANK_GOAL, better="higher", note=", ".join(f"{name} {rank:.2f}" for name, rank in ranks.items()),
    )  # fmt: skip


def main() -> None:
    table = markdown(
        "problem", "policy", "judged by", "picked", "lost", "with a second opinion", "lost",
        "vendor default loses", "range", "rank of two engines",
    )  # fmt: skip
    for row in rows():
        numbers = ("lost", "picked_twice", "lost_twice", "lost_by_vendor_default", "range", "rank")
        cells = [f"{row[key]:.3f}" if isinstance(row[key], float) else str(row[key]) for key in numbers]
        table.add_row(*(str(row[key]) for key in ("problem", "policy", "judge", "picked")), *cells)
    Console(width=220).print(table)


if __name__ == "__main__":
    main()
