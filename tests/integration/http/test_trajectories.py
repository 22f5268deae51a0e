"""Queues over time in a recommendation, over HTTP: where they are, where not, and why there are none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.integration.service import SMALL, Wanted, running, traffic
from tests.unit.twin.analytic_engine import HERE

pytestmark = pytest.mark.anyio


async def test_a_recommendation_by_itself_shows_them_and_lists_do_not() -> None:
    async with running() as here:
        await here.post_reports(traffic())
        found = (await here.client.post("/v1/tune")).json()
        shown = found["trajectories"]
        assert shown["window_s"] > 0
        assert shown["depth_is"] == "mean of each step"
        (queue, *_) = shown["queues"]
        assert queue["switch"] == "leaf1"
        assert len(queue["incumbent_bytes"]) == len(queue["recommended_bytes"]) > 1
        assert max(queue["recommended_bytes"]) < max(queue["incumbent_bytes"])
        one = (await here.client.get(f"/v1/recommendations/{found['id']}")).json()
        assert one["trajectories"] == shown
        assert (await here.client.get("/v1/recommendations/current")).json()["trajectories"] == shown
        for query in ("", "?candidates=false"):
            (listed,) = (await here.client.get(f"/v1/recommendations{query}")).json()["recommendations"]
            assert listed["id"] == found["id"]
            assert listed["trajectories"] is None


@pytest.mark.parametrize("engine", ["NoTrajectoryEngine", "DivergingTrajectoryEngine"])
async def test_a_round_without_them_stands_and_says_why(engine: str) -> None:
    async with running(Wanted(search=replace(SMALL, engine=f"{HERE}:{engine}"))) as here:
        await here.post_reports(traffic())
        answer = await here.post("/v1/tune")
        assert answer["trajectories"] is None
        assert any(note.startswith("No trajectories of the queues: ") for note in answer["notes"])
        assert answer["status"] == "pending"
