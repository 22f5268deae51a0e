"""The demo's closed loop, in its own processes, against the best of twelve settings that stay, in hindsight.

``python -m bench.closed_loop [--alike] [SEED ...]`` prints one JSON document: the demo's traffic, whose
phases want unlike watermarks, or with ``--alike`` traffic that one setting serves. A seed takes minutes.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from typing import Any

from bench.__main__ import parser_of
from bench.figure import Figure
from bench.phases import STATICS, changing_run, static_runs
from lab.demo.closed_loop import Interval, Round, Run, by_phase, gains_over, outcome_of
from lab.demo.conduct import conduct
from lab.demo.plan import FULL, PAPER, VENDOR_DEFAULT, DemoPlan, phases
from lab.setup import LeafSpine
from twin.watermark import Watermark

SEEDS = tuple(range(1, 11))
LEAD_GOAL, SHARE_GOAL = 0.08, 0.85
WORSE_BELOW, WORSE_GOAL = -0.02, 0.10  # of a change's gain, and the share of changes that may be so

# Three phases that one setting serves well: little to win by changing, much to lose.
ALIKE = replace(
    FULL,
    name="alike",
    fabric=LeafSpine(leaves=4, spines=2, hosts=4, rate_gbps=100, uplink_gbps=200),
    phases=phases(
        0.040,
        ("web search", "websearch:0.5"),
        ("bulk transfers", "elephants-and-mice:0.2:elephants=12:per_receiver=3:elephant_bytes=5MB"),
        ("Hadoop, incast", "hadoop:0.3,incast:14:each_bytes=64KB"),
    ),
    duration_s=0.120,
    interval_s=0.010,
    window_s=0.015,
)


class _Silent:
    """A watcher that prints nothing."""

    def stage(self, text: str) -> None: ...

    def interval(self, run: str, interval: Interval, round_: Round | None) -> None: ...


def changes_gain(plan: DemoPlan, seed: int, loop: Run) -> list[float]:
    """What each change of the loop gained until the next, by packets: over the run as it was until then, had
    the change not been made.
    """
    begins = [(0.0, VENDOR_DEFAULT)]
    begins += [(one.at_s, one.watermark) for one in loop.rounds if one.outcome == "pushed"]
    ends_s = [at_s for at_s, _ in begins[2:]] + [plan.duration_s]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        stayed = [
            pool.submit(changing_run, plan, seed, "stayed", begins[:count]) for count in range(1, len(begins))
        ]
        found = []
        for (at_s, _), end_s, one in zip(begins[1:], ends_s, stayed, strict=True):
            gains = zip(loop.intervals, gains_over(one.result(), loop), strict=True)
            within = [gain.value for interval, gain in gains if at_s < interval.figures.end_s <= end_s + 1e-9]
            found.append(statistics.mean(within))
    return found


def run(
    seeds: Sequence[int] = SEEDS, plan: DemoPlan = FULL, statics: Sequence[Watermark] = STATICS
) -> list[dict[str, Any]]:
    """A row a seed: the gains of the loop and of settings that stay, and what became of its rounds.

    The first of ``statics`` is the vendor default, which gains are over.
    """
    rows = []
    for seed in seeds:
        found = conduct(plan, seed, _Silent())
        # The best of the settings that stay, known only afterwards; the demo ran two of them.
        stayed = dict(zip((VENDOR_DEFAULT, PAPER), found.runs[1:], strict=True))
        others = [one for one in statics if one not in stayed]
        stayed |= zip(others, static_runs(plan, seed, others), strict=True)
        compared = outcome_of(plan, seed, [found.loop, *map(stayed.__getitem__, statics)], found.wall_s)
        loop, *gains = (one.value for one in compared.gains)
        best = max(range(len(gains)), key=gains.__getitem__)
        rows.append(
            {
                "seed": seed,
                "gain": loop,
                "best_static": str(statics[best]),
                "best_static_gain": gains[best],
                "lead": loop - gains[best],
                "share_of_best": loop / gains[best] if gains[best] > 0 else None,
                "wall_s": found.wall_s,
                "changes_gain": changes_gain(plan, seed, found.loop),
                "statics": dict(zip(map(str, statics), gains, strict=True)),
                "rounds": [
                    {
                        "at_s": one.at_s,
                        "outcome": one.outcome,
                        "watermark": str(one.watermark),
                        "gain": one.score_gain,
                    }
                    for one in found.loop.rounds
                ],
                "phases": by_phase(plan, compared.runs[1], found.loop),
            }
        )
    return rows


def measure() -> Iterable[Figure]:
    """How much of the best setting's gain the loop realises, and its lead where no setting serves."""
    for name, plan in (("phases that want unlike watermarks", FULL), ("phases that want the same", ALIKE)):
        rows = run(plan=plan)
        leads = [row["lead"] for row in rows]
        yield Figure(
            f"closed loop, {name}: gain over the best setting in hindsight",
            statistics.mean(leads),
            "gain",
            goal=LEAD_GOAL if plan is FULL else None,
            better="higher",
            note="by seed: " + ", ".join(f"{lead:+.3f}" for lead in leads),
        )
        shares = [row["share_of_best"] for row in rows if row["share_of_best"] is not None]
        yield Figure(
            f"closed loop, {name}: share of that setting's gain",
            statistics.mean(shares),
            "of it",
            goal=SHARE_GOAL if plan is ALIKE else None,
            better="higher",
            note="by seed: " + ", ".join(f"{share:.2f}" for share in shares),
        )
        changes = [gain for row in rows for gain in row["changes_gain"]]
        yield Figure(
            f"closed loop, {name}: share of changes that gain less than {WORSE_BELOW:g}",
            sum(gain < WORSE_BELOW for gain in changes) / max(len(changes), 1),
            "of them",
            goal=WORSE_GOAL,
            note=f"{len(changes)} changes, each until the next, over the run without it",
        )
    yield Figure(
        "closed loop, the whole demo",
        statistics.median(row["wall_s"] for row in rows),
        "s",
        goal=120.0,
        note=f"three labs, a service, {FULL.duration_s * 1e3:g} ms simulated; median of {len(rows)}",
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = parser_of("bench.closed_loop", __doc__)
    parser.add_argument("seeds", nargs="*", type=int, default=SEEDS, metavar="SEED", help="default: 1 to 10")
    parser.add_argument("--alike", action="store_true", help="traffic that one setting serves")
    given = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # its processes are ended first
    print(json.dumps(run(given.seeds, ALIKE if given.alike else FULL), indent=2))


if __name__ == "__main__":
    main()
