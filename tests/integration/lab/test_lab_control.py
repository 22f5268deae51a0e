"""The lab's control interface: what is set runs, time goes on when told, and mistakes are sentences."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.integration.lab.labs import RunningLab, running_lab

pytestmark = pytest.mark.anyio

OLD = {"kmin_bytes": 400_000, "kmax_bytes": 1_600_000, "pmax": 0.2}
NEW = {"kmin_bytes": 50_000, "kmax_bytes": 200_000, "pmax": 0.05}


@pytest.fixture
async def here() -> AsyncIterator[RunningLab]:
    async with running_lab() as started:
        yield started


async def switch(here: RunningLab, name: str = "leaf1") -> dict[str, Any]:
    document: dict[str, Any] = (await here.client.get(f"/switches/{name}")).json()
    return document


async def test_every_switch_shows_every_queue(here: RunningLab) -> None:
    found = (await here.client.get("/switches")).json()["switches"]
    assert [one["name"] for one in found] == ["leaf1", "leaf2", "spine1", "spine2"]
    assert all(one["watermark"] == OLD for one in found)
    assert [(queue["port"], queue["queue"]) for queue in found[0]["queues"]] == [
        (f"Ethernet{number}", 3) for number in range(6)
    ]


async def test_a_watermark_is_set_on_a_switch_or_on_some_of_its_ports(here: RunningLab) -> None:
    answer = await here.client.put("/switches/leaf1/watermark", json=NEW)
    assert answer.status_code == 200
    assert answer.json()["watermark"] == NEW
    assert (await switch(here, "leaf2"))["watermark"] == OLD
    part = await here.client.put("/switches/leaf1/watermark", json=OLD | {"ports": ["Ethernet2"]})
    assert part.json()["watermark"] is None
    assert [queue["port"] for queue in part.json()["queues"] if queue["kmin_bytes"] == 400_000] == [
        "Ethernet2"
    ]
    assert await switch(here) == part.json()


async def test_a_switch_s_seed_is_set_shown_and_taken_away(here: RunningLab) -> None:
    assert (await switch(here))["ecmp_seed"] is None
    answer = await here.client.put("/switches/leaf1/ecmp-seed", json={"seed": 7})
    assert answer.status_code == 200
    assert answer.json() == await switch(here)
    assert [(await switch(here, name))["ecmp_seed"] for name in ("leaf1", "leaf2")] == [7, None]
    await here.client.put("/switches/leaf1/ecmp-seed", json={"seed": None})
    assert (await switch(here))["ecmp_seed"] is None


async def test_a_host_s_senders_are_set_and_read_back(here: RunningLab) -> None:
    before = (await here.client.get("/hosts")).json()["hosts"]
    assert [one["name"] for one in before] == [f"h{number}" for number in range(8)]
    assert before[0]["dcqcn"]["rai_gbps"] == 0.04
    assert before[0]["dcqcn"]["increase_timer_us"] == 55
    changed = {"rai_gbps": 0.4, "byte_counter_bytes": None, "fast_recovery_steps": 1}
    answer = await here.client.put("/hosts/h0/dcqcn", json=changed)
    assert answer.status_code == 200
    assert answer.json() == {"name": "h0", "dcqcn": before[0]["dcqcn"] | changed}
    assert (await here.client.get("/hosts/h0")).json() == answer.json()
    assert (await here.client.get("/hosts")).json()["hosts"] == [answer.json(), *before[1:]]
    # What is shown can be sent back as it is.
    again = await here.client.put("/hosts/h0/dcqcn", json=answer.json()["dcqcn"])
    assert again.json() == answer.json()


async def test_faster_senders_change_what_a_lab_shows() -> None:
    async def slowdown(told: dict[str, float]) -> float:
        async with running_lab() as lab:
            await lab.client.put("/switches/leaf1/watermark", json=NEW)
            for host in range(8):
                assert (await lab.client.put(f"/hosts/h{host}/dcqcn", json=told)).status_code == 200
            found: float = (await lab.advance(0.005))["slowdown"]["all"]["mean"]
            return found

    as_it_was = await slowdown({})
    assert await slowdown({"rai_gbps": 0.04}) == as_it_was
    assert await slowdown({"rai_gbps": 2.0, "rhai_gbps": 2.0}) != as_it_was


async def test_ports_are_read_and_their_peaks_begin_anew(here: RunningLab) -> None:
    await here.advance(0.002)
    first = (await here.client.post("/switches/leaf1/read")).json()
    again = (await here.client.post("/switches/leaf1/read")).json()
    assert first["now_s"] == again["now_s"] == 0.002
    assert [one["port"] for one in first["ports"]] == [f"Ethernet{number}" for number in range(6)]
    assert any(one["peak_bytes"] > one["depth_bytes"] for one in first["ports"])
    assert again["ports"] == [one | {"peak_bytes": one["depth_bytes"]} for one in first["ports"]]
    await here.advance(0.004)
    later = (await here.client.post("/switches/leaf1/read")).json()
    for before, after in zip(first["ports"], later["ports"], strict=True):
        mean = (after["depth_byte_s"] - before["depth_byte_s"]) / 0.002
        assert 0 <= mean <= after["peak_bytes"]
        assert all(after[name] >= before[name] for name in ("sent_bytes", "marked_bytes", "paused_s"))
    figures = (await here.client.get("/figures")).json()
    marked = 0.0
    for switch in ("leaf1", "leaf2", "spine1", "spine2"):
        read = (await here.client.post(f"/switches/{switch}/read")).json()
        marked += sum(one["marked_bytes"] for one in read["ports"])
    assert figures["marked_bytes"] == marked


async def test_time_goes_on_when_told_and_says_what_happened(here: RunningLab) -> None:
    before = (await here.client.get("/status")).json()
    assert (before["now_s"], before["lately"], before["stepwise"]) == (0.0, None, True)
    figures = await here.advance(0.004)
    assert (figures["begin_s"], figures["end_s"]) == (0.0, 0.004)
    assert figures["completions"] == figures["slowdown"]["all"]["n"] > 0
    assert figures["queue_p99_bytes"] > figures["queue_mean_bytes"] > 0
    assert figures["goodput_gbps"] > 0
    after = (await here.client.get("/status")).json()
    assert after["lately"] == figures
    assert after["flows_offered"] >= after["flows_completed"] == figures["completions"]
    assert after["reports"]["made"] > 0
    assert after["reports"]["posted"] == 0


async def test_cables_are_cut_and_mended(here: RunningLab) -> None:
    cable = {"switch": "leaf1", "port": "Ethernet4"}
    cut = await here.client.post("/links/fail", json=cable)
    assert cut.json() == cable | {"peer": "spine1", "up": False}
    assert (await here.client.get("/status")).json()["links_down"] == ["leaf1/Ethernet4", "spine1/Ethernet0"]
    await here.advance(0.002)
    mended = await here.client.post("/links/restore", json=cable)
    assert mended.json()["up"]
    assert (await here.client.get("/status")).json()["links_down"] == []


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "says"),
    [
        ("GET", "/switches/leaf9", None, 404, "switches of this lab are leaf1, leaf2"),
        ("PUT", "/switches/leaf9/watermark", NEW, 404, "leaf9"),
        ("POST", "/switches/leaf9/read", None, 404, "switches of this lab are leaf1, leaf2"),
        ("PUT", "/switches/leaf1/watermark", NEW | {"ports": ["Ethernet99"]}, 404, "its ports are Ethernet0"),
        ("PUT", "/switches/leaf1/watermark", NEW | {"ports": []}, 422, "ports"),
        ("PUT", "/switches/leaf1/watermark", NEW | {"kmin": 5}, 422, "kmin"),
        ("PUT", "/switches/leaf1/watermark", NEW | {"kmax_bytes": 5}, 422, "Kmin must be below Kmax"),
        ("PUT", "/switches/leaf1/watermark", NEW | {"pmax": 0}, 422, "(0, 1]"),
        ("PUT", "/switches/leaf1/watermark", NEW | {"pmax": "much"}, 422, "pmax"),
        ("PUT", "/switches/leaf1/watermark", [], 422, "body"),
        ("PUT", "/switches/leaf9/ecmp-seed", {"seed": 1}, 404, "leaf9"),
        ("PUT", "/switches/leaf1/ecmp-seed", {"seed": -1}, 422, "a seed is a whole number"),
        ("PUT", "/switches/leaf1/ecmp-seed", {"seed": 0.5}, 422, "seed"),
        ("PUT", "/switches/leaf1/ecmp-seed", {}, 422, "seed"),
        ("GET", "/hosts/h99", None, 404, "hosts of this lab are h0, h1"),
        ("PUT", "/hosts/leaf1/dcqcn", {"rai_gbps": 1}, 404, "leaf1"),
        ("PUT", "/hosts/h0/dcqcn", {"rai_gbps": 0}, 422, "it must be above 0"),
        ("PUT", "/hosts/h0/dcqcn", {"rai_gbps": None}, 422, "rai_gbps"),
        ("PUT", "/hosts/h0/dcqcn", {"rai": 1}, 422, "rai"),
        ("PUT", "/hosts/h0/dcqcn", {"g": 1}, 422, "(0, 1)"),
        ("PUT", "/hosts/h0/dcqcn", {"g": "little"}, 422, "g"),
        ("PUT", "/hosts/h0/dcqcn", {"fast_recovery_steps": 0.5}, 422, "fast_recovery_steps"),
        ("PUT", "/hosts/h0/dcqcn", {"initial_alpha": 2}, 422, "[0, 1]"),
        ("PUT", "/hosts/h0/dcqcn", [], 422, "body"),
        ("POST", "/advance", {"until_s": 0}, 422, "after now"),
        ("POST", "/advance", {"until_s": 1e9}, 422, "duration"),
        ("POST", "/advance", {"until_s": "soon"}, 422, "until_s"),
        ("POST", "/advance", {}, 422, "until_s"),
        ("POST", "/links/fail", {"switch": "leaf1", "port": "Ethernet99"}, 404, "its ports are"),
        ("POST", "/links/fail", {"switch": "h0", "port": "x"}, 404, "h0"),
        ("POST", "/links/restore", {"switch": "leaf1"}, 422, "port"),
        ("GET", "/nowhere", None, 404, "/nowhere"),
        ("POST", "/switches/leaf1", None, 405, "GET"),
    ],
)
async def test_a_mistake_is_a_problem_document_and_changes_nothing(
    here: RunningLab, method: str, path: str, body: Any, status: int, says: str
) -> None:
    shown = ("/status", "/switches", "/hosts")
    before = [(await here.client.get(where)).json() for where in shown]
    answer = await here.client.request(method, path, json=body)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert says in answer.json()["detail"]
    assert [(await here.client.get(where)).json() for where in shown] == before


async def test_broken_json_and_huge_bodies_are_refused(here: RunningLab) -> None:
    broken = await here.client.post("/advance", content=b"{", headers={"Content-Type": "application/json"})
    assert broken.status_code == 400
    huge = await here.client.post("/advance", content=b" " * (1 << 21))
    assert huge.status_code == 413


async def test_pages_of_other_sites_may_not_act(here: RunningLab) -> None:
    crossing = await here.client.post(
        "/advance", json={"until_s": 0.001}, headers={"Sec-Fetch-Site": "cross-site"}
    )
    assert crossing.status_code == 403
    rebound = await here.client.get("/status", headers={"Host": "evil.example"})
    assert rebound.status_code == 403
    assert "token" not in rebound.json()["detail"]  # the lab knows none


async def test_a_lab_that_runs_by_itself_is_not_told_to() -> None:
    async with running_lab(stepwise=False, duration_s=10.0) as alone:
        answer = await alone.client.post("/advance", json={"until_s": 0.001})
        assert answer.status_code == 409
        assert "--step" in answer.json()["remedy"]
        assert (await alone.client.put("/switches/leaf1/watermark", json=NEW)).status_code == 200
        while (await alone.client.get("/status")).json()["lately"] is None:
            pass
        lately = (await alone.client.get("/status")).json()["lately"]
        assert lately["end_s"] - lately["begin_s"] >= 0.001
