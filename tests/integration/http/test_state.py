"""Topology, state and flows over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from copy import deepcopy
from typing import Any

import pytest

from tests.integration.service import TOPOLOGY, Running, running, traffic

pytestmark = pytest.mark.anyio


@pytest.fixture
async def here() -> AsyncIterator[Running]:
    async with running() as started:
        yield started


async def test_an_empty_window_is_a_409_that_says_what_to_do(here: Running) -> None:
    for path in ("/v1/state", "/v1/flows"):
        answer = await here.client.get(path)
        assert answer.status_code == 409
        assert "post INT reports" in answer.json()["remedy"]


async def test_the_state_counts_flows_and_shows_the_deepest_queues(here: Running) -> None:
    await here.post_reports(traffic())
    state = (await here.client.get("/v1/state?queues=1")).json()
    assert state["reports"] == 900
    assert state["topology"] == "discovered"
    assert sum(state["flows"].values()) == 3
    assert state["queue_count"] >= 1
    assert [queue["port"] for queue in state["queues"]] == ["Ethernet0"]
    assert not state["stale"]
    here.hand.now_s += 3_600
    later = (await here.client.get("/v1/state")).json()
    assert later["stale"]
    assert later["age_s"] == 3_600


async def test_flows_are_listed_by_class_most_bytes_first(here: Running) -> None:
    await here.post_reports(traffic())
    everything = (await here.client.get("/v1/flows")).json()
    assert everything["total"] == 3
    volumes = [flow["window_bytes"] for flow in everything["flows"]]
    assert volumes == sorted(volumes, reverse=True)
    by_class = [
        (await here.client.get(f"/v1/flows?class={name}")).json()
        for name in ("mouse", "potential_elephant", "elephant")
    ]
    assert sum(answer["total"] for answer in by_class) == 3
    limited = (await here.client.get("/v1/flows?limit=1")).json()
    assert (limited["total"], len(limited["flows"])) == (3, 1)
    assert limited["flows"][0]["path"][-1] == "leaf1/Ethernet0/3"


@pytest.mark.parametrize("query", ["class=whale", "limit=0", "limit=many"])
async def test_a_question_that_means_nothing_is_a_422(here: Running, query: str) -> None:
    answer = await here.client.get(f"/v1/flows?{query}")
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert query.split("=")[0] in answer.json()["where"]
    assert answer.json()["error_count"] == 1


async def test_declared_and_discovered_stand_side_by_side(here: Running) -> None:
    assert (await here.client.get("/v1/topology")).json() == {"declared": None, "discovered": None}
    await here.post_reports(traffic(60))
    found = (await here.client.get("/v1/topology")).json()
    assert found["declared"] is None
    assert [switch["name"] for switch in found["discovered"]["switches"]] == ["leaf1"]
    both = (await here.client.put("/v1/topology", json=TOPOLOGY)).json()
    assert both["declared"] == TOPOLOGY
    assert both["discovered"] == found["discovered"]
    assert (await here.client.get("/v1/state")).json()["topology"] == "declared"
    assert "leaf1" in [one["name"] for one in (await here.client.get("/v1/switches")).json()]


def without_a_host(topology: dict[str, Any]) -> None:
    del topology["hosts"][0]


def with_a_port_twice(topology: dict[str, Any]) -> None:
    topology["links"][0]["b_port"] = "Ethernet1"


def with_a_negative_rate(topology: dict[str, Any]) -> None:
    topology["links"][0]["rate_gbps"] = -1


def with_an_unknown_key(topology: dict[str, Any]) -> None:
    topology["cables"] = []


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (without_a_host, "'h0'"),
        (with_a_port_twice, "Ethernet1"),
        (with_a_negative_rate, "rate_gbps -1"),
        (with_an_unknown_key, "cables"),
    ],
)
async def test_a_topology_that_dangles_changes_nothing(here: Running, change: Any, says: str) -> None:
    await here.client.put("/v1/topology", json=TOPOLOGY)
    broken = deepcopy(TOPOLOGY)
    change(broken)
    answer = await here.client.put("/v1/topology", json=broken)
    assert answer.status_code == 422
    assert says in answer.json()["detail"]
    assert (await here.client.get("/v1/topology")).json()["declared"] == TOPOLOGY


@pytest.mark.parametrize("body", [b"{", b"[]", b"", b'{"hosts": NaN}'])
async def test_a_topology_that_is_no_object_is_refused(here: Running, body: bytes) -> None:
    answer = await here.client.put("/v1/topology", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422)
    assert answer.json()["where"].startswith(("body", "topology"))
