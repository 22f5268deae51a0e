"""Rollouts killed at random instants: no switch is left half set, and whoever restarts ends them unasked.

The process that is killed is the service's conductor, journal, adapters and telemetry; SONiC switches are
real redis-servers with a stand-in for orchagent. A template process with all imported is forked each time.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import random
from collections.abc import Iterator, Mapping
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from rollout.plan import Figures, Limits, RolloutPlan, stages_of
from rollout.state import Phase
from switches.device import Device
from tests.counterparts.rollouts_alone import ended, rollouts_alone
from tests.counterparts.switches.sonic_fabric import SonicFabric
from twin.watermark import Watermark

OLD, NEW = Watermark(1_048_576, 2_097_152, 0.05), Watermark(200_000, 900_000, 0.1)
SWITCHES = 5
KILLS = 50
PARTS = 10
PATIENCE_S = 120.0
SOAK_S = 0.15
BEGUN, WRITTEN = "begun", "written"


def plan(rollout_id: str, names: list[str], *, breach: bool) -> RolloutPlan:
    """One canary that soaks, then batches of two; ``breach``: its soak ends in a guard's breach."""
    before = Figures(throughput_bytes_per_s=1e15 if breach else 1.0)
    return RolloutPlan(
        id=rollout_id,
        recommendation="r",
        targets=dict.fromkeys(names, NEW),
        stages=stages_of(names, canary=names[:1], batch_size=2),
        limits=Limits(soak_s=SOAK_S, batch_soak_s=0.0, patience_s=20.0),
        before=(before, before, before),
        written=tuple(names),
    )


def conduct(
    devices: Mapping[str, Device], journal: str, wanted: RolloutPlan | None, told: Connection
) -> None:
    """In the process that is killed: begins ``wanted``, or takes up what the journal holds, to the end.

    ``told`` hears when a rollout begins, when it is in the journal, and of its end.
    """

    async def main() -> None:
        async with rollouts_alone(devices, f"sqlite:///{journal}", at_once=3) as rollouts:
            if wanted is not None:
                told.send(BEGUN)
                await rollouts.start(wanted, "test")
                told.send(WRITTEN)
            for rollout in rollouts.newest(100):
                state = await ended(rollouts, rollout.id, PATIENCE_S)
                told.send((rollout.id, state.phase, state.why))

    asyncio.run(main())
    told.close()


@pytest.fixture(scope="module")
def fabric(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SonicFabric]:
    with closing(SonicFabric(tmp_path_factory.mktemp("fabric"), SWITCHES, lag_s=0.01)) as made:
        yield made


class Runner:
    """Processes forked from one that has imported everything."""

    def __init__(self, fabric: SonicFabric, folder: Path) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload([__name__])
        self._devices = fabric.devices()
        self._journal = str(folder / "journal.db")

    def run(
        self, wanted: RolloutPlan | None, *, kill_after_s: float | None = None, since: str = BEGUN
    ) -> dict[str, Phase]:
        """Runs to the end, or is killed so long after the rollout began, or was written down; how rollouts
        ended, if they did.
        """
        ours, theirs = self._context.Pipe(duplex=False)
        process = self._context.Process(target=conduct, args=(self._devices, self._journal, wanted, theirs))
        process.start()
        theirs.close()
        found: dict[str, Phase] = {}
        try:
            while ours.poll(PATIENCE_S):
                heard = ours.recv()
                if heard not in (BEGUN, WRITTEN):
                    found[heard[0]] = heard[1]
                elif heard == since and kill_after_s is not None:
                    process.join(kill_after_s)
                    process.kill()
        except EOFError:
            pass  # it has ended, of its own accord or not
        finally:
            process.kill()
            process.join()
            ours.close()
        return found


@pytest.mark.e2e
@pytest.mark.parametrize(
    "part", [0, *(pytest.param(part, marks=pytest.mark.slow) for part in range(1, PARTS))]
)
def test_a_killed_rollout_is_ended_by_whoever_restarts(
    fabric: SonicFabric, tmp_path: Path, part: int
) -> None:
    draws = random.Random(part)
    names = sorted(fabric.switches)
    runner = Runner(fabric, tmp_path)
    ends = set()
    for number in range(KILLS // PARTS):
        fabric.reset()
        wanted = plan(f"r{part}-{number}", names, breach=draws.random() < 0.4)
        # However slow the disk is, some are killed after their first word.
        runner.run(wanted, kill_after_s=draws.uniform(0.0, 0.6), since=(BEGUN, WRITTEN)[number % 2])
        for name, running in fabric.hardware().items():
            assert running in ({OLD}, {NEW}), f"{name} runs {running} after a kill"
        found = runner.run(None)
        phase = found.get(wanted.id)
        ends.add(phase)
        runs = fabric.hardware()
        if phase is Phase.DONE:
            assert all(running == {NEW} for running in runs.values()), runs
        else:  # taken back, or killed before its first word was written down
            assert phase in (Phase.ROLLED_BACK, None)
            assert all(running == {OLD} for running in runs.values()), runs
    assert ends & {Phase.DONE, Phase.ROLLED_BACK}
