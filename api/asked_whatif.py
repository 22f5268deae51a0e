"""What-if requests to the service, one at a time; must not know HTTP."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from api.errors import UnprocessableError
from api.events import Broadcaster
from api.rounds import Ask, scenario_of
from api.schemas.whatif import MOST_PACKET_HOPS, WhatIfDocument, WhatIfRequest
from api.sensing import Sensing
from api.whatif import ONE_BY_ONE, what_if
from twin.scenario import Scenario
from twin.scenario_json import scenario_from_json
from twin.search import Progress
from twin.workers import Workers
from twin.workload import packet_hops


class AskedWhatIf:
    """Answers them in worker processes, on the window or on a scenario that a request brings along."""

    def __init__(self, ask: Ask, *, sensing: Sensing, events: Broadcaster, workers: Workers) -> None:
        self._ask = ask
        self._sensing = sensing
        self._events = events
        self._workers = workers
        self._asking = asyncio.Lock()

    async def answer(self, asked: WhatIfRequest) -> WhatIfDocument:
        """The predictions; raises ``ApiError`` and ``TwinError`` for what cannot be predicted."""
        watermarks = [given.watermark() for given in asked.watermarks]
        if asked.scenario is None:
            state = await self._sensing.state()
            scenario = await asyncio.to_thread(scenario_of, state, self._ask.fabric)
        else:
            scenario = await asyncio.to_thread(_inline_scenario, asked.scenario)
        if asked.engine in ONE_BY_ONE:
            hops = len(watermarks) * await asyncio.to_thread(packet_hops, scenario, scenario.duration_s)
            if hops > MOST_PACKET_HOPS:
                raise UnprocessableError(
                    "whatif",
                    f"{hops:.2g} packet-hops",
                    f"a request to the {asked.engine} engine holds at most {MOST_PACKET_HOPS:.2g} of them",
                    "ask for fewer watermarks or a shorter scenario, or use the command",
                )
        loop = asyncio.get_running_loop()

        def told(step: Progress) -> None:
            loop.call_soon_threadsafe(
                self._events.publish, "whatif", {"done": step.done, "total": step.total}
            )

        async with self._asking:
            return await asyncio.to_thread(
                what_if,
                scenario,
                watermarks,
                engine=asked.engine,
                seed=asked.seed,
                weights=self._ask.search.weights,
                workers=self._workers,
                version=self._ask.version,
                progress=told,
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
