"""Topology, state and flows over HTTP."""

from __future__ import annotations

import json
import re
from copy import deepcopy
from typing import Any

import pytest

from service.network_metrics import MOST_STRANGERS
from switches.base import Reading
from telemetry.counters.window import PortRates, Rates
from telemetry.encode.arrow import MEDIA_TYPE, encode
from telemetry.network.assemble import Snapshot
from telemetry.report import ReportBatch
from telemetry.state import NetworkState
from tests.counterparts.pods import Pods
from tests.integration.service import TOPOLOGY, Running, Wanted, manual, running, traffic
from twin.watermark import Watermark

pytestmark = pytest.mark.anyio


async def test_an_empty_window_is_a_409_that_says_what_to_do_and_is_documented(here: Running) -> None:
    documented = (await here.get("/openapi.json"))["paths"]
    for path in ("/v1/state", "/v1/state/queues", "/v1/flows", "/v1/fabric", "/v1/fabric/{name}"):
        answer = await here.get(path, status=409)
        assert "post INT reports" in answer["remedy"]
        assert "409" in documented[path]["get"]["responses"]


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


async def test_an_empty_window_of_one_period_is_not_full() -> None:
    async with running(Wanted(manual(telemetry={"n_periods": 1}))) as here:
        assert not (await here.get("/readyz"))["window"]["warm"]
        await here.post_reports(traffic(1))
        assert (await here.get("/readyz"))["window"]["warm"]


async def test_a_declared_switch_is_in_the_metrics_however_many_others_are_named(here: Running) -> None:
    await here.client.put("/v1/topology", json=TOPOLOGY)
    names = [*(f"invented{number}" for number in range(MOST_STRANGERS)), "invented too", "leaf1"]
    here.service.metrics.network.saw_ports(PortRates(one, "1", 1.0, Rates(0.5), {}) for one in names)
    told = (await here.client.get("/metrics")).text
    assert 'ecntwin_switch_pause_ratio{switch="leaf1"} 0.5' in told
    assert "invented too" not in told


def told_of(exposition: str) -> dict[str, list[str]]:
    """Which switches have series of what they run, were told to run, and answered; by family and role."""
    found = re.findall(
        r'^(ecntwin_(?:watermark_\w+|switch_reachable|switch_drifted)){(?:role="(\w+)",)?switch="([^"]+)"} ',
        exposition,
        re.MULTILINE,
    )
    told: dict[str, list[str]] = {}
    for family, role, switch in found:
        told.setdefault(f"{family} {role}", []).append(switch)
    return told


async def told_now(here: Running) -> dict[str, list[str]]:
    return told_of((await here.client.get("/metrics")).text)


async def test_switches_that_senders_invent_fill_no_metrics(here: Running) -> None:
    reports = traffic(2 * MOST_STRANGERS)
    for number, one in enumerate(reports):
        one["hops"][0]["switch"] = f"invented{number}"
    await here.post_reports(reports)
    assert len(await here.get("/v1/switches")) == 2 * MOST_STRANGERS
    await here.post("/v1/tune")
    told = await told_now(here)
    assert len(told) == 2 * 3 + 2
    assert {family: len(switches) for family, switches in told.items()} == dict.fromkeys(told, MOST_STRANGERS)


async def test_a_switch_that_is_declared_no_more_leaves_the_metrics(here: Running) -> None:
    await here.feed()
    await here.get("/v1/switches")
    await here.post("/v1/tune")
    told = await told_now(here)
    assert {one for switches in told.values() for one in switches} == {"leaf1"}
    assert len(told) == 2 * 3 + 2
    other = json.loads(json.dumps(TOPOLOGY).replace("leaf1", "tor1"))
    await here.client.put("/v1/topology", json=other)
    assert await told_now(here) == {}
    # A rollout under way still reads it.
    here.service.fleet.note(Reading("leaf1", Watermark(7_000, 9_000, 0.5), read_ns=1))
    assert await told_now(here) == {}
    await here.get("/v1/switches")
    assert {one for switches in (await told_now(here)).values() for one in switches} == {"tor1"}


async def test_a_round_that_outlasts_its_topology_tells_nothing_of_what_is_gone(here: Running) -> None:
    await here.feed()
    assert (await here.tuned_while(lambda: here.service.fleet.declared(["tor1"]))).status_code == 200
    assert not [family for family in await told_now(here) if "recommended" in family]


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
    nothing = {"declared": None, "discovered": None, "neighbours": None}
    assert (await here.client.get("/v1/topology")).json() == nothing
    await here.post_reports(traffic(60))
    found = (await here.client.get("/v1/topology")).json()
    assert found["declared"] is None
    assert [switch["name"] for switch in found["discovered"]["switches"]] == ["leaf1"]
    both = (await here.client.put("/v1/topology", json=TOPOLOGY)).json()
    assert both["declared"] == TOPOLOGY
    assert both["discovered"] == found["discovered"]
    assert (await here.client.get("/v1/state")).json()["topology"] == "declared"
    assert "leaf1" in [one["name"] for one in (await here.client.get("/v1/switches")).json()]


async def test_a_fabric_of_others_takes_the_place_of_the_one_before(here: Running) -> None:
    await here.client.put("/v1/topology", json=TOPOLOGY)
    await here.post_reports(traffic(60))
    assert (await here.client.get("/v1/state")).json()["queues"]
    other = json.loads(json.dumps(TOPOLOGY).replace("leaf1", "tor1"))
    await here.client.put("/v1/topology", json=other)
    assert [one["name"] for one in (await here.client.get("/v1/switches")).json()] == ["tor1"]
    assert (await here.client.get("/v1/state")).status_code == 409
    assert here.service.window.held_s == 0.0


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


SMALL = Pods(pods=2, racks=2, aggregation=2, cores=2, uplinks=2, hosts_a_rack=3)


async def test_the_fabric_is_added_up_by_pod_and_switch(here: Running) -> None:
    await here.client.put("/v1/topology", json=SMALL.topology())
    batch = SMALL.across(2_000, flows=400)
    answer = await here.client.post(
        "/v1/telemetry/int", content=encode(batch), headers={"Content-Type": MEDIA_TYPE}
    )
    assert answer.json()["accepted"] == 2_000
    for number in (1, 2):
        await here.client.post("/v1/telemetry/counters", content=SMALL.counters(number))
    found = (await here.client.get("/v1/fabric")).json()
    queues = (await here.client.get("/v1/state?queues=10000")).json()["queues"]
    assert [pod["name"] for pod in found["pods"]] == ["core", "pod0", "pod1"]
    assert (found["switch_count"], found["host_count"]) == (10, 12)
    assert (found["port_count"], found["queue_count"]) == (len(SMALL.ports), len(queues))
    to_hosts = [
        queue["throughput_bytes_per_s"]
        for queue in queues
        if "rack" in queue["switch"] and int(queue["port"].removeprefix("Ethernet")) < SMALL.hosts_a_rack
    ]
    assert found["delivered_bytes_per_s"] == pytest.approx(sum(to_hosts))
    pod = found["pods"][1]
    assert pod["role"] == ["spine", "spine", "leaf", "leaf"]
    assert pod["hosts"] == [0, 0, 3, 3]
    for place, name in enumerate(pod["switches"]):
        own = [queue for queue in queues if queue["switch"] == name]
        deepest = max(own, key=lambda queue: queue["depth_p99_bytes"])
        busiest = max(own, key=lambda queue: queue["throughput_bytes_per_s"] / queue["capacity_bytes_per_s"])
        assert pod["queues"][place] == len(own)
        assert pod["depth_p99_bytes"][place] == round(deepest["depth_p99_bytes"])
        assert pod["deepest_port"][place] == deepest["port"]
        assert pod["busiest_port"][place] == busiest["port"]
        assert pod["over_kmin"][place] == sum(
            queue["depth_p99_bytes"] > pod["kmin_bytes"][place] for queue in own
        )
        assert pod["pause_share"][place] is not None
    assert sum(map(sum, (one["over_kmin"] for one in found["pods"]))) > 0
    assert (await here.client.get("/v1/fabric?fields=host_count")).json() == {"host_count": 12}


async def test_queues_in_columns_are_those_of_the_state(here: Running) -> None:
    body = encode(SMALL.across(2_000, flows=400))
    await here.client.post("/v1/telemetry/int", content=body, headers={"Content-Type": MEDIA_TYPE})
    told = await here.client.get("/v1/state/queues")
    state = await here.client.get("/v1/state?queues=10000&fields=queues")
    columns, queues = told.json(), state.json()["queues"]
    assert [columns["names"][place] for place in columns["switch"]] == [one["switch"] for one in queues]
    for name in ("port", "queue"):
        assert columns[name] == [one[name] for one in queues]
    for name, digits in (
        ("depth_mean_bytes", None),
        ("depth_p99_bytes", None),
        ("marked_ratio", 4),
        ("throughput_bytes_per_s", None),
        ("capacity_bytes_per_s", None),
    ):
        assert columns[name] == [None if one[name] is None else round(one[name], digits) for one in queues]
    assert len(told.content) < len(state.content) / 3


async def test_the_fabric_is_added_up_anew_once_reports_counters_or_watermarks_change(here: Running) -> None:
    async def seen() -> dict[str, Any]:
        return {pod["name"]: pod for pod in (await here.client.get("/v1/fabric")).json()["pods"]}["core"]

    async def report(batch: ReportBatch) -> None:
        headers = {"Content-Type": MEDIA_TYPE}
        await here.client.post("/v1/telemetry/int", content=encode(batch), headers=headers)

    await here.client.put("/v1/topology", json=SMALL.topology())
    await report(SMALL.across(200, flows=400))
    first = await seen()
    assert first == await seen()
    await report(SMALL.across(2_000, flows=400, since_ns=1_000_000, seed=2))
    more = await seen()
    assert more["depth_p99_bytes"] != first["depth_p99_bytes"]
    for number in (1, 2):
        await here.client.post("/v1/telemetry/counters", content=SMALL.counters(number))
    counted = await seen()
    assert (more["drops_per_s"], None in counted["drops_per_s"]) == ([None, None], False)
    read = Reading("core0", Watermark(7_000, 9_000, 0.5), read_ns=1)
    here.service.fleet.note(read)
    assert (await seen())["kmin_bytes"][0] == 7_000


async def test_one_switch_is_shown_port_by_port(here: Running) -> None:
    await here.client.put("/v1/topology", json=SMALL.topology())
    batch = SMALL.across(2_000, flows=400)
    await here.client.post("/v1/telemetry/int", content=encode(batch), headers={"Content-Type": MEDIA_TYPE})
    found = (await here.client.get("/v1/fabric/pod1-agg0")).json()
    assert (found["role"], found["pod"]) == ("spine", "pod1")
    ends = [(one["port"], one["peer"], one["peer_port"], one["up"]) for one in found["ports"]]
    assert ends[0] == ("Ethernet2", "core0", "Ethernet2", True)
    assert ends[2:] == [
        ("Ethernet0", "pod1-rack0", "Ethernet3", False),
        ("Ethernet1", "pod1-rack1", "Ethernet3", False),
    ]
    queues = (await here.client.get("/v1/state?switch=pod1-agg0&queues=100")).json()["queues"]
    shown = [queue for port in found["ports"] for queue in port["queues"]]
    assert sorted(shown, key=str) == sorted(queues, key=str)
    assert found["ports"][0]["capacity_bytes_per_s"] == 400e9 / 8
    unknown = await here.get("/v1/fabric/nobody", status=404)
    assert "nobody" in unknown["where"]


async def test_what_reports_show_is_left_out_on_request(here: Running) -> None:
    await here.client.put("/v1/topology", json=TOPOLOGY)
    await here.post_reports(traffic(60))
    found = (await here.client.get("/v1/topology?discovered=false")).json()
    assert found == {"declared": TOPOLOGY, "discovered": None, "neighbours": None}


async def test_a_state_that_takes_long_is_shown_for_a_while(
    here: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = Snapshot.state

    def slow(snapshot: Snapshot) -> NetworkState:
        here.hand.now_s += 2.0
        return quick(snapshot)

    monkeypatch.setattr(Snapshot, "state", slow)
    await here.post_reports(traffic(30))
    assert (await here.client.get("/v1/state")).json()["reports"] == 30
    await here.post_reports(traffic(60))
    here.hand.now_s += 5.9  # eight seconds after it was begun it is worked out anew
    assert (await here.client.get("/v1/state")).json()["reports"] == 30
    here.hand.now_s += 0.2
    assert (await here.client.get("/v1/state")).json()["reports"] == 60
