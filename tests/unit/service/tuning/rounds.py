"""A small network state, and rounds on it with an engine of closed formulas."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from itertools import count

from service.tuning.fabric import Fabric
from service.tuning.recommendations import RecommendationStore, SavedRounds
from service.tuning.round import Ask, RoundResult, run_round
from store.database import Database, Recorder
from telemetry.decode.json import decode
from telemetry.settings import WindowSettings
from telemetry.state import NetworkState
from telemetry.topology import topology_from_json
from telemetry.window.window import Window
from tests.integration.service import TOPOLOGY, traffic
from tests.unit.twin.analytic_engine import HERE
from twin.search.problem import SearchSettings
from twin.senders.dcqcn import PAPER
from twin.watermark import Watermark
from twin.workers.pool import InProcessWorkers

INCUMBENT = Watermark(400_000, 1_600_000, 0.2)


def state(one_in: int = 64) -> NetworkState:
    """Three hosts sending to a fourth: at half of its rate, twice that where one packet in 128 is sampled."""
    window = Window(WindowSettings(), topology_from_json(TOPOLOGY))
    reports = [one | {"sampling_rate": 1 / one_in} for one in traffic()]
    window.add(decode(json.dumps(reports).encode()).batch)
    return window.state()


def ask(margin: float) -> Ask:
    """How these rounds are run."""
    search = SearchSettings(
        candidates=12,
        narrowed=2,
        leaders=1,
        seeds=1,
        fractions=(1.0,),
        engine=f"{HERE}:AnalyticEngine",
        second_engine=None,
        margin=margin,
    )
    return Ask(fabric=Fabric(dcqcn=PAPER), search=search, base=None, seed=1, version="0")


def a_round(*, margin: float = 0.0) -> RoundResult:
    return run_round(
        state(),
        ask(margin),
        lambda _: INCUMBENT,
        workers=InProcessWorkers(),
        clock_s=count(0.0, 0.5).__next__,
    )


@cache
def changing() -> RoundResult:
    """A round that recommends a change; the same in every test, as none alters it."""
    return a_round()


@cache
def keeping() -> RoundResult:
    """A round whose margin nothing exceeds."""
    return a_round(margin=100.0)


def store_in_memory(keep: int, clock_ns: Callable[[], int]) -> RecommendationStore:
    """A store that never writes to its database."""
    database = Database(None)
    saved = SavedRounds(database, Recorder(database), keep=keep, keep_days=1.0, monotonic_s=lambda: 0.0)
    return RecommendationStore(keep, saved, clock_ns=clock_ns)
