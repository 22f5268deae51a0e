"""The loop runs rounds by itself while telemetry is fresh and new, and survives whatever a round does."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
import pytest

from service.tuning.round import run_round
from settings.model import Settings
from tests.integration.gate import Gate
from tests.integration.service import PATIENCE_S, SMALL, TOPOLOGY, Running, Wanted, running, traffic
from tests.unit.twin.advice.test_guard import LEARNT
from tests.unit.twin.analytic_engine import HERE
from twin.advice.artefact import Feature
from twin.workers.pool import InProcessWorkers, Job

T = TypeVar("T")

pytestmark = pytest.mark.anyio

QUICK = {"tuning": {"enabled": True, "period_s": 0.01}}


async def heard(here: Running, wanted: Callable[[str, dict[str, Any]], bool]) -> dict[str, Any]:
    """Waits for an event; what the service says, not how long it takes, is what is tested."""
    with here.service.events.listen() as queue:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                event = await queue.get()
                assert event is not None
                if wanted(event.kind, dict(event.data)):
                    return dict(event.data)


def counted(here: Running, outcome: str) -> float:
    return here.metric("ecntwin_rounds_total", outcome=outcome) or 0.0


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            if true():
                return
            await asyncio.sleep(0)


def finished(kind: str, data: dict[str, Any]) -> bool:
    return kind == "round" and data["stage"] == "finished"


async def test_a_round_follows_reports_and_waits_for_new_ones() -> None:
    async with running(Wanted(settings=Settings(**QUICK))) as here:
        waiting = asyncio.ensure_future(heard(here, finished))
        await here.post_reports(traffic())
        assert (await waiting)["outcome"] == "recommended"
        rounds = here.metric("ecntwin_rounds_total", outcome="recommended")
        skipped = counted(here, "skipped")
        await until(lambda: counted(here, "skipped") >= skipped + 3)
        assert here.metric("ecntwin_rounds_total", outcome="recommended") == rounds
        waiting = asyncio.ensure_future(heard(here, finished))
        await here.post_reports(traffic(30, first=900))
        await waiting
        listed = (await here.client.get("/v1/recommendations")).json()
        assert sum(one["support"]["rounds"] for one in listed["recommendations"]) == 2


async def test_no_round_fails_on_a_window_that_another_topology_emptied() -> None:
    async with running(Wanted(settings=Settings(**QUICK))) as here:
        waiting = asyncio.ensure_future(heard(here, finished))
        await here.post_reports(traffic())
        await waiting
        other = json.loads(json.dumps(TOPOLOGY).replace("leaf1", "tor1"))
        assert (await here.client.put("/v1/topology", json=other)).status_code == 200
        here.service.tuning._accepted_at_last_round = -1  # as if more had come before it was declared
        skipped = counted(here, "skipped")
        await until(lambda: counted(here, "skipped") >= skipped + 3)
        assert counted(here, "failed") == 0


async def test_a_round_begins_as_soon_as_traffic_changes() -> None:
    tuning = {"enabled": True, "period_s": 3_600, "look_every_s": 0.01}
    window = {"period_s": 0.001, "n_periods": 9}  # as long as what is posted
    async with running(Wanted(settings=Settings(tuning=tuning, telemetry=window))) as here:
        await here.post_reports(traffic())
        assert (await here.client.post("/v1/tune")).status_code == 200
        waiting = asyncio.ensure_future(heard(here, lambda kind, data: data.get("stage") == "regime"))
        more = [[one | {"sampling_rate": 1 / 640} for one in traffic(first=first)] for first in (900, 1_800)]
        await here.post_reports(more[0])
        await until(lambda: here.service.tuning.moments._unlike > 0 or waiting.done())
        await here.post_reports(more[1])
        assert "before" in (await waiting)["detail"]
        await until(lambda: len(here.service.store) == 2)


async def test_a_look_that_fails_puts_off_no_round(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*given: object) -> bool:
        raise ArithmeticError("planted")

    tuning = {"enabled": True, "period_s": 0.05, "look_every_s": 0.01}
    window = {"period_s": 0.001, "n_periods": 9}
    async with running(Wanted(settings=Settings(tuning=tuning, telemetry=window))) as here:
        monkeypatch.setattr(here.service.tuning.moments, "look", fails)
        waiting = asyncio.ensure_future(heard(here, finished))
        await here.post_reports(traffic())
        assert (await waiting)["outcome"] == "recommended"


async def test_a_look_advises_and_the_next_round_answers(tmp_path: Path) -> None:
    anywhere = [Feature(one.name, -1e9, 1e9) for one in LEARNT.features]
    file, tree = tmp_path / "own.json", msgspec.structs.replace(LEARNT.tree, threshold=[1e9, 0.0, 0.0])
    file.write_bytes(msgspec.json.encode(msgspec.structs.replace(LEARNT, features=anywhere, tree=tree)))
    tuning = {"enabled": True, "period_s": 3_600, "look_every_s": 0.01, "advice": True, "advice_file": file}
    window = {"period_s": 0.001, "n_periods": 9}
    async with running(Wanted(settings=Settings(tuning=tuning, telemetry=window))) as here:
        assert (await here.client.get("/v1/advice")).json()["newest"] is None
        waiting = asyncio.ensure_future(heard(here, lambda kind, _: kind == "advice"))
        await here.post_reports(traffic())
        await waiting
        found = (await here.client.get("/v1/advice")).json()
        assert (found["problem"], found["version"]) == (None, None)
        assert "would gain about" in found["newest"]["why"]
        assert found["newest"]["watermark"] == found["newest"]["target"] != found["newest"]["incumbent"]
        assert found["looks"]["given"] == here.metric("ecntwin_advice_looks_total", outcome="given") > 0
        assert (await here.client.post("/v1/tune")).status_code == 200
        answered = (await here.client.get("/v1/advice")).json()
        assert answered["confirmed"] + answered["contradicted"] + answered["untold"] == 1
        current = (await here.client.get("/v1/recommendations/current")).json()
        assert current["advice"].keys() == found["newest"].keys()
        assert not len(here.service.rollouts)
        listed = (await here.client.get("/v1/recommendations?limit=1")).json()["recommendations"]
        assert listed[0]["advice"] is None


async def test_no_round_runs_on_stale_reports() -> None:
    async with running(
        Wanted(settings=Settings(tuning={"enabled": True, "period_s": 0.01, "stale_after_s": 5}))
    ) as here:
        here.service.window.accepted = 1
        await until(lambda: counted(here, "skipped") >= 3)
        assert len(here.service.store) == 0


async def test_the_loop_goes_on_after_a_failing_round() -> None:
    broken = replace(SMALL, engine=f"{HERE}:RaisingEngine")
    async with running(Wanted(settings=Settings(**QUICK), search=broken)) as here:
        for first in (0, 900):
            waiting = asyncio.ensure_future(heard(here, finished))
            await here.post_reports(traffic(60, first=first))
            ended = await waiting
            assert ended["outcome"] == "failed"
            assert "a kernel went wrong" in ended["detail"]
        assert here.metric("ecntwin_rounds_total", outcome="failed") == 2


class Overfull(InProcessWorkers):
    """Needs more memory for each round than any machine has."""

    def run(self, tasks: Sequence[Job[T]], done: Callable[[int, T], None]) -> None:
        np.empty((1 << 40, 1 << 17))


async def test_a_round_that_does_not_fit_into_memory_is_a_sentence_and_the_service_stays_up() -> None:
    async with running(Wanted(workers=Overfull())) as here:
        await here.post_reports(traffic())
        waiting = asyncio.ensure_future(heard(here, finished))
        answer = await here.client.post("/v1/tune")
        said = (await waiting)["detail"]
        assert (answer.status_code, answer.json()["detail"]) == (503, said)
        assert said.startswith("tuning round: received no memory left: another 1.00 EiB does not fit; ")
        assert "use fewer workers (search.workers), shorter or fewer moments" in said
        assert (failure := here.service.tuning.last_failure) is not None
        assert failure.why == said
        assert (await here.client.get("/v1/state")).status_code == 200
        assert (await here.post_reports(traffic(30, first=900)))["accepted"] == 30


async def test_reports_are_taken_and_questions_answered_while_a_round_runs() -> None:
    gate = Gate()
    async with running(Wanted(workers=gate)) as here:
        await here.post_reports(traffic())
        tuning = asyncio.ensure_future(here.client.post("/v1/tune"))
        assert await asyncio.to_thread(gate.entered.wait, PATIENCE_S)
        assert here.metric("ecntwin_round_running") == 1
        assert (await here.post_reports(traffic(30, first=900)))["accepted"] == 30
        assert (await here.client.get("/v1/state")).json()["reports"] == 930
        assert (await here.client.post("/v1/tune")).status_code == 409
        gate.open.set()
        assert (await tuning).status_code == 200
        assert here.metric("ecntwin_round_running") == 0


async def test_stopping_ends_the_round_and_the_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate()
    async with running(Wanted(workers=gate)) as here:
        await here.post_reports(traffic())
        tuning = asyncio.ensure_future(here.client.post("/v1/tune"))
        assert await asyncio.to_thread(gate.entered.wait, PATIENCE_S)
        told, stop_soon = asyncio.Event(), here.service.tuning.stop_soon

        def telling() -> None:
            stop_soon()
            told.set()

        monkeypatch.setattr(here.service.tuning, "stop_soon", telling)
        stopping = asyncio.ensure_future(here.service.stop())
        await told.wait()  # other parts end before it
        gate.open.set()
        await stopping
        answer = await tuning
        assert answer.status_code == 503
        assert "the service ended before the round" in answer.json()["rule"]
        assert gate.closed


async def test_the_twins_distance_from_reality_is_a_metric() -> None:
    async with running() as here:
        await here.post_reports(traffic())
        await here.client.post("/v1/tune")
        predicted = here.metric("ecntwin_predicted_queue_bytes", role="incumbent")
        measured = here.metric("ecntwin_measured_queue_bytes")
        assert predicted is not None
        assert measured is not None
        expected = (predicted + 1_000) / (measured + 1_000) - 1
        assert here.metric("ecntwin_twin_residual_ratio") == pytest.approx(expected)
        for name in ("kmin_bytes", "kmax_bytes", "pmax_ratio"):
            for role in ("current", "recommended"):
                assert here.metric(f"ecntwin_watermark_{name}", switch="leaf1", role=role) is not None


async def test_a_queue_that_the_last_round_did_not_measure_is_not_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running() as here:
        monkeypatch.setattr(
            "service.tuning.loop.run_round",
            lambda *args, **named: replace(run_round(*args, **named), measured_queue_bytes=None),
        )
        here.service.metrics.measured_queue.set(20_000)
        await here.post_reports(traffic())
        assert (await here.client.post("/v1/tune")).status_code == 200
        assert here.metric("ecntwin_measured_queue_bytes") == pytest.approx(math.nan, nan_ok=True)
