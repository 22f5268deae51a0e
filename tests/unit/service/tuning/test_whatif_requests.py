"""Who answers a what-if, on which window, and what becomes of an answer that nobody waits for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import pytest

from service.documents.predictions import WhatIfDocument, WhatIfRequest
from service.events import Broadcaster
from service.tuning import whatif_requests
from service.tuning.fabric import Fabric
from service.tuning.round import rebuilt, scenario_of
from service.tuning.whatif_requests import WhatIfRequests
from telemetry.state import NetworkState
from tests.unit.service.nics.making import Hosts
from tests.unit.service.tuning.rounds import INCUMBENT, ask, state
from twin.senders.dcqcn import PAPER
from twin.watermark import Watermark
from twin.workers.pool import InProcessWorkers, Job

pytestmark = pytest.mark.anyio

T = TypeVar("T")
STATE = state()
WHOLE_S = scenario_of(STATE, Fabric(dcqcn=PAPER)).duration_s
MARK = {"kmin_bytes": 5_000, "kmax_bytes": 50_000, "pmax": 0.1}


class Counted(InProcessWorkers):
    """Knows how many jobs it ran; ``gate`` holds them back while it is shut."""

    def __init__(self) -> None:
        self.jobs = 0
        self.begun = threading.Event()
        self.gate = threading.Event()
        self.gate.set()

    def run(self, tasks: Sequence[Job[T]], done: Callable[[int, T], None]) -> None:
        def counted(number: int, answer: T) -> None:
            self.jobs += 1
            self.begun.set()
            assert self.gate.wait(60)
            done(number, answer)

        super().run(tasks, counted)


@dataclass
class Seen:
    """A window that is another one at every look, if it ``moves``."""

    moves: bool = False
    looks: int = 0
    shown: NetworkState = STATE

    async def state(self) -> NetworkState:
        self.looks += 1
        return replace(self.shown) if self.moves else self.shown


class Leaf1:
    """A fleet of one switch, whose ports run what ``roles`` says."""

    def __init__(self) -> None:
        self.roles: dict[str, Watermark] = {}

    def incumbent(self, switches: Iterable[str]) -> Watermark:
        return INCUMBENT if list(switches) == ["leaf1"] else pytest.fail("unknown switch")

    def by_role(self, ports: Iterable[tuple[str, str, str]]) -> dict[str, Watermark]:
        return self.roles


@dataclass
class Rig:
    """Everything around what-if, in hand."""

    window: Seen = field(default_factory=Seen)
    quick: Counted = field(default_factory=Counted)
    many: Counted = field(default_factory=Counted)
    fleet: Leaf1 = field(default_factory=Leaf1)
    now_s: float = 100.0

    def __post_init__(self) -> None:
        self.asked = WhatIfRequests(
            ask=ask(margin=0.0),
            window=self.window,  # type: ignore[arg-type] # it is only asked for its state
            events=Broadcaster(),
            workers=self.many,
            quick=self.quick,
            fleet=self.fleet,  # type: ignore[arg-type] # it is only asked what runs
            nics=Hosts().polling,
            clock_s=lambda: self.now_s,
        )

    async def answer(self, n_watermarks: int = 1, **more: Any) -> WhatIfDocument:
        marks = [MARK | {"kmin_bytes": 1_000 * (1 + number)} for number in range(n_watermarks)]
        return await self.asked.answer(WhatIfRequest.model_validate({"watermarks": marks} | more))


async def test_a_few_on_the_window_are_quick_and_all_else_is_not() -> None:
    rig = Rig()
    await rig.answer(7)
    assert (rig.quick.jobs, rig.many.jobs) == (1, 0)
    await rig.answer(8)
    assert (rig.quick.jobs, rig.many.jobs) == (1, 1)
    await rig.answer(engine="packet", window_s=1e-4)
    assert (rig.quick.jobs, rig.many.jobs) == (1, 3)


def test_what_runs_is_predicted_beside_and_scored_with_them() -> None:
    document = asyncio.run(Rig().answer(2))
    assert document.incumbent is not None
    assert document.incumbent.kmin_bytes == INCUMBENT.kmin_bytes
    assert [one.kmin_bytes for one in document.results] == [1_000, 2_000]
    alone = asyncio.run(Rig().answer(2, incumbent=MARK | {"kmax_bytes": 90_000}))
    assert alone.incumbent is not None
    assert alone.incumbent.kmax_bytes == 90_000
    assert alone.results[0].queue_mean_bytes == document.results[0].queue_mean_bytes


async def test_a_window_is_kept_while_it_is_young_enough() -> None:
    rig = Rig(Seen(moves=True))
    first = await rig.answer()
    assert first.age_s == 0
    rig.now_s += 2.0
    again = await rig.answer(max_age_s=3.0)
    assert (rig.window.looks, again.age_s) == (1, 2.0)
    rig.now_s += 1.0
    fresh = await rig.answer(max_age_s=3.0)
    assert (rig.window.looks, fresh.age_s) == (2, 0)
    await rig.answer()
    assert rig.window.looks == 3


def test_a_state_becomes_a_scenario_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[float | None] = []

    def counted(
        state: NetworkState,
        fabric: Fabric,
        incumbent: Watermark | None,
        *,
        replay_s: float | None,
        live: bool,
    ) -> Any:
        assert live
        made.append(replay_s)
        return rebuilt(state, fabric, incumbent, replay_s=replay_s, live=live)

    monkeypatch.setattr(whatif_requests, "rebuilt", counted)

    async def main() -> None:
        rig = Rig()
        for window_s in (None, None, 2e-4, 2e-4):
            await rig.answer(window_s=window_s)

    asyncio.run(main())
    assert len(made) == 2


def test_a_shorter_window_is_the_end_of_it_and_told() -> None:
    whole, short = asyncio.run(Rig().answer()), asyncio.run(Rig().answer(window_s=2e-4))
    longer = asyncio.run(Rig().answer(window_s=1.0))
    assert whole.window_s == longer.window_s == pytest.approx(WHOLE_S)
    assert short.window_s == pytest.approx(2e-4)
    assert WHOLE_S > 2e-4


def test_less_than_the_longer_replay_of_endless_flows_is_taken_as_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    endless = replace(
        STATE,
        window_start_ns=STATE.window_end_ns - 200_000_000,
        arrivals=replace(STATE.arrivals, wire_bytes=np.full_like(STATE.arrivals.wire_bytes, np.inf)),
    )
    made: list[float | None] = []

    def noted(state: NetworkState, *others: Any, replay_s: float | None, live: bool) -> Any:
        made.append(replay_s)
        return rebuilt(STATE, *others, live=live)

    monkeypatch.setattr(whatif_requests, "rebuilt", noted)
    for window_s in (0.04, 0.075, 0.12):
        asyncio.run(Rig(Seen(shown=endless)).answer(window_s=window_s))
    assert made == [0.04, 0.075, None]


def test_ports_of_a_role_that_run_something_else_are_said() -> None:
    rig = Rig()
    assert not any("run something else" in note for note in asyncio.run(rig.answer()).notes)
    rig.fleet.roles = {"leaf-down": replace(INCUMBENT, pmax=0.5)}
    note = asyncio.run(rig.answer()).notes[0]
    assert note.startswith("Ports of leaf-down run something else than Kmin")
    assert note.endswith("but a what-if takes all to run that.")


async def test_who_goes_while_waiting_is_never_worked_for() -> None:
    rig = Rig()
    rig.quick.gate.clear()
    first = asyncio.create_task(rig.answer())
    await asyncio.to_thread(rig.quick.begun.wait, 60)
    waiting = [asyncio.create_task(rig.answer()) for _ in range(5)]
    await asyncio.sleep(0)
    for task in waiting[:4]:
        task.cancel()
    await asyncio.wait(waiting[:4])
    rig.quick.gate.set()
    assert (await first).results
    assert (await waiting[4]).results
    assert rig.quick.jobs == 2


async def test_who_goes_meanwhile_ends_it_at_the_next_batch_and_the_next_one_has_his_turn() -> None:
    rig = Rig()
    rig.quick.gate.clear()
    first = asyncio.create_task(rig.answer(3, trajectories=True))
    await asyncio.to_thread(rig.quick.begun.wait, 60)
    following = asyncio.create_task(rig.answer())
    first.cancel()
    await asyncio.sleep(0)
    assert not first.done()  # its batch is still under way, and the place not free
    rig.quick.gate.set()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert (await following).results
    assert rig.quick.jobs == 2  # none of the four curves


def test_curves_are_asked_for() -> None:
    document = asyncio.run(Rig(Seen(shown=state(one_in=128))).answer(2, trajectories=True))
    assert document.trajectories is not None
    assert document.trajectories.window_s == document.window_s
    (queue, *_) = document.trajectories.queues
    assert queue.incumbent_bytes is not None
    assert {len(queue.incumbent_bytes), *map(len, queue.results_bytes)} == {len(queue.results_bytes[0])}
    assert len(queue.results_bytes) == 2
    assert not any("trajectories" in note for note in document.notes)
    assert asyncio.run(Rig().answer()).trajectories is None
