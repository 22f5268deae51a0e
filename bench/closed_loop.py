"""The demo's closed loop, in its own processes, against the better of two static settings over five seeds.

``python -m bench.closed_loop [SEED ...]`` prints one JSON document. A seed takes about a minute on two cores.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from bench.figure import Figure
from lab.demo.closed_loop import Interval, Round
from lab.demo.conduct import conduct
from lab.demo.plan import FULL, DemoPlan

SEEDS = (1, 2, 3, 4, 5)
WINS_GOAL = 4


class _Silent:
    """Watches without a word."""

    def stage(self, text: str) -> None:
        """Nothing."""

    def interval(self, run: str, interval: Interval, round_: Round | None) -> None:
        """Nothing."""


def run(seeds: Sequence[int] = SEEDS, plan: DemoPlan = FULL) -> list[dict[str, Any]]:
    """A row a seed: gains over the whole run, what they are made of, the closed loop's lead."""
    rows = []
    for seed in seeds:
        outcome = conduct(plan, seed, _Silent())
        rows.append(
            {
                "seed": seed,
                "lead": outcome.lead,
                "wall_s": outcome.wall_s,
                "pushes": sum(one.outcome == "pushed" for one in outcome.loop.rounds),
                "runs": [
                    {
                        "name": one.name,
                        "gain": gain.value,
                        "queue_mean_bytes": one.whole.queue_mean_bytes,
                        "queue_p99_bytes": one.whole.queue_p99_bytes,
                        "mice_p99_slowdown": one.whole.slowdown["mice"].p99,
                        "elephant_mean_slowdown": one.whole.slowdown["elephant"].mean,
                        "pfc_pause_s": one.whole.paused_s,
                    }
                    for one, gain in zip(outcome.runs, outcome.gains, strict=True)
                ],
            }
        )
    return rows


def measure() -> Iterable[Figure]:
    """The number of seeds it wins, and by how much."""
    rows = run()
    leads = [row["lead"] for row in rows]
    yield Figure(
        "closed loop, seeds where it beats the better static setting",
        sum(lead > 0 for lead in leads),
        f"of {len(rows)}",
        goal=WINS_GOAL,
        better="higher",
        note="gain over the whole run less the better static's, by seed: "
        + ", ".join(f"{lead:+.2f}" for lead in leads),
    )
    yield Figure(
        "closed loop, the whole demo",
        statistics.median(row["wall_s"] for row in rows),
        "s",
        goal=120.0,
        note=f"three labs, a service, {FULL.duration_s * 1e3:g} ms simulated; median of {len(rows)}",
    )


def main(arguments: list[str]) -> None:
    """Measures the seeds given, or all."""
    print(json.dumps(run([int(seed) for seed in arguments] or SEEDS), indent=2))


if __name__ == "__main__":
    main(sys.argv[1:])
