"""A rollout to 200 SONiC switches: a redis-server and a stand-in for orchagent each, the journal on disk.

The goal is every switch set and read back from ASIC_DB within 60 s. Sixteen switches at a time are compared
with one at a time on some of them, whose orchagent sees each row a little late, in the same run.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from bench.figure import Figure
from rollout.plan import Limits, RolloutPlan, stages_of
from rollout.state import Phase
from tests.counterparts.rollouts_alone import Steps, ended, rollouts_alone
from tests.counterparts.switches.sonic_fabric import SonicFabric
from twin.watermark import Watermark

SWITCHES = 200
COMPARED = 20
PORTS = 32
GOAL_S = 60.0
LAG_S = 0.02
PATIENCE_S = 600.0
NEW = Watermark(200_000, 900_000, 0.1)


@dataclass(frozen=True)
class Ran:
    """One rollout: how long it took, how many entries its journal got, and each step on each switch."""

    seconds: float
    entries: int
    steps: Steps


def measure() -> Iterable[Figure]:
    with (
        tempfile.TemporaryDirectory(prefix="ecntwin-") as folder,
        closing(SonicFabric(Path(folder), SWITCHES, ports=PORTS)) as fabric,
    ):
        names = list(fabric.switches)
        whole = _ran(fabric, names, Path(folder), at_once=16)
        fabric.lag_s = LAG_S
        fabric.reset()
        few = names[:COMPARED]
        one = _ran(fabric, few, Path(folder), at_once=1)
        fabric.reset()
        many = _ran(fabric, few, Path(folder), at_once=16)
    yield Figure(
        f"{SWITCHES} switches of {PORTS} ports set and verified, 16 at a time",
        whole.seconds,
        "s",
        GOAL_S,
        "lower",
        f"{whole.entries} journal entries on disk; one canary, then batches of 50",
    )
    for step, took in whole.steps.by_name.items():
        yield Figure(
            f"one {step}, median of {len(took)}",
            statistics.median(took) * 1e3,
            "ms",
            note=f"longest {max(took) * 1e3:.0f} ms",
        )
    yield Figure(
        f"{COMPARED} switches, one at a time over 16 at a time",
        one.seconds / many.seconds,
        "ratio",
        note=f"{one.seconds:.1f} s over {many.seconds:.1f} s, orchagent {LAG_S * 1e3:.0f} ms late a row",
    )


def _ran(fabric: SonicFabric, names: Sequence[str], folder: Path, *, at_once: int) -> Ran:
    steps = Steps()
    journal = folder / f"{len(names)}-{at_once}.db"
    took, entries = asyncio.run(_rollout(fabric, names, journal, at_once, steps))
    running = fabric.hardware()
    assert all(running[name] == {NEW} for name in names)
    return Ran(took, entries, steps)


async def _rollout(
    fabric: SonicFabric, names: Sequence[str], journal: Path, at_once: int, steps: Steps
) -> tuple[float, int]:
    plan = RolloutPlan(
        id="bench",
        recommendation="bench",
        targets=dict.fromkeys(names, NEW),
        stages=stages_of(names, batch_size=50),
        limits=Limits(soak_s=0.0),
        written=tuple(names),
    )
    devices = {name: device for name, device in fabric.devices().items() if name in set(names)}
    async with rollouts_alone(devices, f"sqlite:///{journal}", at_once=at_once, steps=steps) as rollouts:
        began_s = time.monotonic()
        rollout = await rollouts.start(plan, "bench")
        state = await ended(rollouts, rollout.id, PATIENCE_S)
        took_s = time.monotonic() - began_s
        assert state.phase is Phase.DONE, state.why
        return took_s, len(rollout.events)
