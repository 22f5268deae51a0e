"""What-if requests to the service: interactive ones on a reserved worker, the others in turn."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from service.documents.predictions import MOST_PACKET_HOPS, WhatIfDocument, WhatIfRequest
from service.events import Broadcaster, retrieve
from service.ingest.window_owner import WindowOwner
from service.nics.polling import NicPolling
from service.switches.fleet import Fleet
from service.tuning.fabric import Fabric
from service.tuning.round import Ask, rebuilt, scenario_of, switches_of, what_if_notes
from service.tuning.whatif import SIDE_BY_SIDE, Wanted, what_if
from settings.errors import UnprocessableError
from telemetry.state import NetworkState
from twin.arrivals.from_telemetry import replayed_from_s
from twin.engine import ONE_BY_ONE
from twin.scenario import Scenario, packet_hops
from twin.scenario_file import scenario_from_json
from twin.search.round import Progress
from twin.watermark import Watermark
from twin.workers.pool import Workers


class _GoneError(Exception):
    """Aborts the work of a cancelled request."""


@dataclass(frozen=True, slots=True)
class _Problem:
    """A scenario to predict on; ``taken_s`` is the time of its state, None if it came in the request."""

    scenario: Scenario
    incumbent: Watermark | None
    taken_s: float | None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Lane:
    """Workers that serve one request at a time, first come, first served."""

    workers: Workers
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(kw_only=True)
class WhatIfRequests:
    """Predicts on the window, beside what runs now, or on a scenario in the request.

    A few watermarks on the window go to ``quick``, which rounds never use; all else to ``workers``, which
    they share. ``clock_s`` is monotonic seconds. A cancelled request loses its turn, or ends at its next
    batch. Use from one event loop only.
    """

    ask: Ask
    window: WindowOwner
    events: Broadcaster
    workers: Workers
    quick: Workers
    fleet: Fleet
    nics: NicPolling
    clock_s: Callable[[], float]

    def __post_init__(self) -> None:
        self._quick, self._many = _Lane(self.quick), _Lane(self.workers)
        self._state: tuple[float, NetworkState] | None = None
        self._switches: tuple[NetworkState, tuple[str, ...]] | None = None
        self._scenario: (
            tuple[NetworkState, tuple[Watermark | None, float | None, Fabric], Scenario] | None
        ) = None

    async def answer(self, asked: WhatIfRequest) -> WhatIfDocument:
        """Raises ``ApiError`` and ``TwinError`` for what cannot be predicted."""
        watermarks = tuple(given.watermark() for given in asked.watermarks)
        beside = None if asked.incumbent is None else asked.incumbent.watermark()
        few = len(watermarks) < SIDE_BY_SIDE and asked.engine not in ONE_BY_ONE and asked.scenario is None
        lane = self._quick if few else self._many
        async with lane.turn:
            # Read only now: a request that had to wait gets the window as it is at its turn.
            problem = await self._problem(asked)
            wanted = Wanted(
                watermarks,
                engine=asked.engine,
                seed=asked.seed,
                incumbent=beside or problem.incumbent,
                trajectories=asked.trajectories,
            )
            await _check_packets(wanted, problem.scenario)
            document = await self._run(problem.scenario, wanted, lane.workers)
        if problem.taken_s is None:
            return document
        age_s, notes = max(self.clock_s() - problem.taken_s, 0.0), [*problem.notes, *document.notes]
        return document.model_copy(update={"age_s": age_s, "notes": notes})

    def close(self) -> None:
        """Closes the quick workers; the others belong to the caller."""
        self.quick.close()

    async def _run(self, scenario: Scenario, wanted: Wanted, workers: Workers) -> WhatIfDocument:
        """Runs in a thread. A cancelled request ends at its next batch; the lane stays taken until then."""
        loop, gone = asyncio.get_running_loop(), threading.Event()

        def report(step: Progress) -> None:
            if gone.is_set():
                raise _GoneError
            loop.call_soon_threadsafe(self.events.publish, "whatif", {"done": step.done, "total": step.total})

        running = asyncio.ensure_future(
            asyncio.to_thread(
                what_if,
                scenario,
                wanted,
                search=self.ask.search,
                workers=workers,
                version=self.ask.version,
                progress=report,
            )
        )
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            gone.set()
            await asyncio.wait({running})
            retrieve(running)
            raise

    async def _problem(self, asked: WhatIfRequest) -> _Problem:
        if asked.scenario is not None:
            scenario = await asyncio.to_thread(_inline_scenario, asked.scenario)
            return _Problem(scenario.until(asked.window_s or scenario.duration_s), None, None)
        taken_s, state = await self._state_of(asked.max_age_s)
        replay_s = asked.window_s
        if replay_s is not None:
            whole_s = state.duration_s - await asyncio.to_thread(replayed_from_s, state)
            replay_s = replay_s if replay_s < whole_s else None
        running = self.fleet.incumbent(await self._switches_of(state))
        scenario = await self._scenario_of(state, running, replay_s)
        fleet = self.fleet
        notes = await asyncio.to_thread(what_if_notes, scenario, running, fleet.incumbent, fleet.by_role)
        return _Problem(scenario, running, taken_s, notes)

    async def _state_of(self, max_age_s: float) -> tuple[float, NetworkState]:
        """The state and when it was taken; the last request's, while no older than ``max_age_s``."""
        now_s = self.clock_s()
        if self._state is None or now_s - self._state[0] >= max_age_s:
            self._state = now_s, await self.window.state()
        return self._state

    async def _switches_of(self, state: NetworkState) -> tuple[str, ...]:
        if self._switches is None or self._switches[0] is not state:
            made = await asyncio.to_thread(scenario_of, state, self.ask.fabric)
            self._switches = state, switches_of(made)
        return self._switches[1]

    async def _scenario_of(
        self, state: NetworkState, running: Watermark | None, replay_s: float | None
    ) -> Scenario:
        known, fabric = self._scenario, self.nics.asked(self.ask).fabric
        if known is None or known[0] is not state or known[1] != (running, replay_s, fabric):
            made = await asyncio.to_thread(rebuilt, state, fabric, running, replay_s=replay_s, live=True)
            known = self._scenario = state, (running, replay_s, fabric), made.scenario
        return known[2]


async def _check_packets(wanted: Wanted, scenario: Scenario) -> None:
    if wanted.engine not in ONE_BY_ONE:
        return
    hops = wanted.n_runs * await asyncio.to_thread(packet_hops, scenario, scenario.duration_s)
    if hops > MOST_PACKET_HOPS:
        raise UnprocessableError(
            "whatif",
            f"{hops:.2g} packet-hops",
            f"a request to the {wanted.engine} engine holds at most {MOST_PACKET_HOPS:.2g} of them",
            "ask for fewer watermarks or a shorter scenario, or use the command",
        )


def _inline_scenario(document: dict[str, Any]) -> Scenario:
    if "flows_csv" in document:
        raise UnprocessableError(
            "scenario flows_csv",
            repr(document["flows_csv"]),
            "a scenario in a request brings its flows along, and no file of the server is read",
            "give the rows under flows",
        )
    with tempfile.TemporaryDirectory(prefix="ecntwin-whatif-") as nothing:
        return scenario_from_json(document, directory=Path(nothing))
