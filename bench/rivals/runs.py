"""Which runs there are to do, and doing them, several at once."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from types import MappingProxyType

from bench.rivals.arena import Played, play
from bench.rivals.observe import budget_named
from bench.rivals.scenarios import FULL, QUICK, scenario_named
from bench.rivals.store import Key, Row
from bench.rivals.tuners import INCUMBENT, TUNERS, budgets_of, tuner_named
from bench.rivals.tuners.statics import GRID, QUICK_GRID, static_name
from twin.errors import ParameterError
from twin.watermark import Watermark


@dataclass(frozen=True, slots=True)
class Preset:
    """What is run where nothing else is said; a tuner is NAME or NAME@BUDGET."""

    scenarios: tuple[str, ...]
    tuners: tuple[str, ...]
    seeds: tuple[int, ...]
    grid: tuple[Watermark, ...]


PRESETS = MappingProxyType(
    {
        "quick": Preset(
            QUICK,
            ("secn1", "annealing@box", "paraleon-plus@box", "acc@box", "ecntwin"),
            (1, 2, 3),
            QUICK_GRID,
        ),
        "full": Preset(FULL, tuple(TUNERS), tuple(range(1, 11)), GRID),
    }
)


def keys_of(
    scenarios: Sequence[str], tuners: Sequence[str], seeds: Sequence[int], grid: Sequence[Watermark]
) -> list[Key]:
    """Every run: the incumbent and the oracle's statics first, as all others are compared with them.

    Raises ``ParameterError`` for an unknown scenario, tuner or budget, or a budget its tuner does not take.
    """
    wanted = {(INCUMBENT, "none"): None}
    wanted |= {(static_name(mark), "none"): None for mark in grid}
    for one in tuners:
        name, at, budget = one.partition("@")
        takes = budgets_of(name)
        if at and budget_named(budget).name not in takes:
            rule = f"it runs on {', '.join(takes)}"
            raise ParameterError(f"tuner {name}", f"budget {budget!r}", rule, "drop it")
        wanted |= {(name, each): None for each in ((budget,) if at else takes)}
    for name in scenarios:
        scenario_named(name)
    return [
        Key(scenario, tuner, budget, seed)
        for scenario in dict.fromkeys(scenarios)
        for seed in dict.fromkeys(seeds)
        for tuner, budget in wanted
    ]


def weight(key: Key) -> float:
    """How long a run takes, compared with others: what hosts could send, what is looked at, and rounds."""
    scenario = scenario_named(key.scenario)
    rate = sum(port.rate_bytes_per_s for port in scenario.plan.ports if port.port is None)
    looks = {"none": 1.0, "collector": 1.5, "box": 3.0}[key.budget]
    return rate * scenario.duration_s * (20.0 if key.tuner.startswith("ecntwin") else looks)


def run_one(key: Key, commit: str) -> tuple[Row, Played]:
    begun_s = time.perf_counter()
    played = play(scenario_named(key.scenario), tuner_named(key.tuner), key.seed, budget_named(key.budget))
    return Row.of(key, played, commit=commit, wall_s=time.perf_counter() - begun_s), played


def run_all(keys: Iterable[Key], commit: str, *, at_once: int) -> Iterator[tuple[Row, Played]]:
    """Results as they come, from ``at_once`` processes. Raises ``ParameterError`` where one dies."""
    keys = list(keys)
    if not keys:
        return
    # Ctrl-C is the parent's: runs under way end, others are not begun.
    pool = ProcessPoolExecutor(at_once, initializer=signal.signal, initargs=(signal.SIGINT, signal.SIG_IGN))
    try:
        for done in as_completed([pool.submit(run_one, key, commit) for key in keys]):
            yield done.result()
    except BrokenProcessPool:
        remedy = "run it again, with a lower --jobs if memory was short"
        raise ParameterError("run", "a process that died", "results until then are kept", remedy) from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def cores() -> int:
    """Those this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
