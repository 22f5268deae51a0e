"""Alarms over HTTP: raised from what is posted, told as events and metrics, cleared; policy minds some."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from service.events import Event
from tests.integration.http.test_binary import datagram, post, sampled
from tests.integration.service import (
    EPOCH_NS,
    TOPOLOGY,
    Hand,
    Running,
    Wanted,
    manual,
    report,
    running,
    traffic,
)

pytestmark = pytest.mark.anyio

# Looked at by the tests alone: their clock stands still between.
LOOKS = {"every_s": 86_400.0, "hold_s": 10.0, "clear_s": 20.0, "clock_offset_warning": None}
TRUSTING = {"enabled": False, "residual_limit": 1e6}  # the engine of these tests is not the network's
S = 1_000_000_000


def wanted(**sections: Any) -> Wanted:
    alarms = LOOKS | sections.pop("alarms", {})
    return Wanted(settings=manual(alarms=alarms, **sections))


@pytest.fixture
async def here() -> AsyncIterator[Running]:
    async with running(wanted()) as started:
        yield started


def now_ns(hand: Hand) -> int:
    return EPOCH_NS + round(hand.now_s * 1e9)


class Port:
    """A port whose counters are posted, a second of its own clock later each time."""

    def __init__(self, here: Running, switch: str = "leaf1", port: str = "Ethernet0", queue: int = 3) -> None:
        self._here = here
        self._where = {"switch": switch, "port": port, "queue": queue}
        self._totals: dict[str, int] = {}

    async def passes(self, seconds: float, **growth: int) -> None:
        """So much time, in which the counters grow by so much a second."""
        self._here.hand.now_s += seconds
        for name, per_s in growth.items():
            self._totals[name] = self._totals.get(name, 0) + round(per_s * seconds)
        sample = self._where | {"ts_ns": now_ns(self._here.hand)} | self._totals
        answer = await self._here.client.post("/v1/telemetry/counters", json=[sample])
        assert answer.json()["accepted"] == 1, answer.text
        await self._here.service.alarms.check()


async def alarms(here: Running, query: str = "") -> dict[str, Any]:
    return await here.get(f"/v1/alarms{query}")


async def kinds(here: Running) -> list[tuple[str, str]]:
    return [(one["kind"], one["level"]) for one in (await alarms(here))["alarms"]]


async def test_nothing_is_wrong_with_a_service_that_has_heard_nothing(here: Running) -> None:
    assert await alarms(here) == {
        "warning": 0, "critical": 0, "left_off": 0, "looked": None, "alarms": [], "ended": None, "next": None,
        "acknowledged": 0, "silenced": 0, "open_warning": 0, "open_critical": 0,
        "groups": [], "open_causes": 0, "notes": [],
    }  # fmt: skip
    await here.service.alarms.check()
    found = await alarms(here, "?all=true")
    assert found["looked"] == "2026-01-01T00:16:40.000Z"
    assert (found["alarms"], found["ended"]) == ([], [])
    assert here.metric("ecntwin_alarms", kind="pfc_storm", level="critical") == 0


async def test_a_pfc_storm_is_raised_when_it_lasts_and_cleared_when_it_is_over(here: Running) -> None:
    port = Port(here)
    with here.service.events.listen() as heard:
        await port.passes(1, pfc_pause_ns=0)
        for _ in range(3):
            await port.passes(5, pfc_pause_ns=S // 10)
        assert await kinds(here) == [("pfc_storm", "warning")]
        for _ in range(4):
            await port.passes(5, pfc_pause_ns=S // 2)
        (alarm,) = (await alarms(here))["alarms"]
        assert (alarm["level"], alarm["switch"], alarm["unit"]) == ("critical", "leaf1", "share")
        assert (alarm["subject"], alarm["threshold"]) == ("leaf1 Ethernet0", 0.25)
        assert alarm["value"] == pytest.approx(0.5)
        assert "50.0%" in alarm["sentence"]
        assert alarm["since"] == "2026-01-01T00:16:56.000Z"
        assert "Find who sends the pauses" in alarm["look"]
        assert here.metric("ecntwin_alarms", kind="pfc_storm", level="critical") == 1
        assert here.metric("ecntwin_switch_pause_ratio", switch="leaf1") == pytest.approx(0.5)
        for _ in range(7):
            await port.passes(5, pfc_pause_ns=0)
        events = [one for one in drained(heard) if one.kind == "alarm"]
    assert await kinds(here) == []
    assert [(one.data["what"], one.data["level"]) for one in events] == [
        ("raised", "warning"),
        ("level", "critical"),
        ("cleared", "critical"),
    ]
    assert json.dumps(events[0].data)
    (ended,) = (await alarms(here, "?all=true"))["ended"]
    assert (ended["kind"], ended["why"], ended["ended"] > ended["since"]) == ("pfc_storm", None, True)
    assert here.metric("ecntwin_alarms_raised_total", kind="pfc_storm") == 1
    assert here.metric("ecntwin_alarms", kind="pfc_storm", level="critical") == 0


def drained(heard: Any) -> list[Event]:
    found = []
    while not heard.empty():
        found.append(heard.get_nowait())
    return found


async def test_loss_counts_on_lossless_queues_alone(here: Running) -> None:
    lossless, other = Port(here), Port(here, port="Ethernet1", queue=0)
    for port in (lossless, other):
        await port.passes(1, dropped_packets=0)
    for _ in range(3):
        await lossless.passes(5, dropped_packets=500)
        await other.passes(0.5, dropped_packets=500)
    (alarm,) = (await alarms(here))["alarms"]
    assert (alarm["kind"], alarm["level"], alarm["subject"]) == (
        "lossless_loss", "critical", "leaf1 Ethernet0 queue 3",
    )  # fmt: skip
    state = await here.client.get("/v1/state")
    assert state.status_code == 409


async def test_where_pfc_is_off_no_queue_is_lossless() -> None:
    async with running(wanted(fabric={"pfc": False})) as here:
        port = Port(here)
        for _ in range(4):
            await port.passes(5, dropped_packets=500)
        assert await kinds(here) == []


async def test_a_deep_queue_that_marks_nothing_has_lost_its_ecn() -> None:
    incumbent = {"default": {"kmin_bytes": 1_000, "kmax_bytes": 10_000, "pmax": 0.1}}
    async with running(wanted(incumbent=incumbent)) as here:
        reports = traffic()
        for one in reports:
            one["hops"][0]["ecn_marked"] = False
        await here.post_reports(reports)
        for _ in range(3):
            await here.service.alarms.check()
            here.hand.now_s += 5
        (alarm,) = (await alarms(here))["alarms"]
        assert (alarm["kind"], alarm["level"]) == ("ecn_off", "critical")
        assert (alarm["subject"], alarm["unit"]) == ("leaf1 Ethernet0 queue 3", "times")
        assert alarm["value"] > 2
        await here.post_reports(traffic(100, first=900))  # of these every tenth is marked
        await here.service.alarms.check()
        here.hand.now_s += 20
        await here.service.alarms.check()
        assert await kinds(here) == []


def on_links(*conditions: dict[str, Any], **sections: Any) -> Wanted:
    return wanted(alarms={"links": list(conditions), "switch_silent_warning": None}, **sections)


async def test_a_condition_on_links_is_raised_held_silenced_and_cleared_as_any_alarm(tmp_path: Path) -> None:
    topology = tmp_path / "topology.json"
    topology.write_text(json.dumps(TOPOLOGY), "utf-8")
    fabric = {"fabric": {"topology": topology}}
    busy = {"name": "busy host", "figure": "utilisation", "over": "40%", "for_s": 10, "remedy": "Call Ada."}
    async with running(on_links(busy | {"roles": ["leaf-host-*"]}, **fabric)) as here:
        ports = [Port(here, port=f"Ethernet{number}") for number in (0, 1)]
        for _ in range(4):
            for port, share in zip(
                ports, (0.5, 0.25), strict=True
            ):  # 8 s apart each, so twice as much in 4 s
                await port.passes(4, tx_bytes=round(12.5e9 * 2 * share))
        (alarm,) = (await alarms(here))["alarms"]
        assert (alarm["kind"], alarm["level"], alarm["switch"]) == ("link:busy host", "warning", "leaf1")
        assert [one["subject"] for one in alarm["subjects"]] == ["leaf1 Ethernet0 to h0"]
        assert (alarm["unit"], alarm["threshold"], alarm["look"]) == ("share", 0.4, "Call Ada.")
        assert here.metric("ecntwin_alarms", kind="link:busy host", level="warning") == 1
        silence = {"kind": "link:busy hosts", "for_s": 60}
        refused = await here.post("/v1/alarms/silences", silence, status=422)
        assert "link:busy host;" in refused["detail"]
        made = await here.client.post("/v1/alarms/silences", json=silence | {"kind": "link:busy host"})
        assert made.status_code == 201
        assert here.metric("ecntwin_alarms", kind="link:busy host", level="warning") == 0
        for _ in range(4):
            await ports[0].passes(10, tx_bytes=0)
        found = await alarms(here, "?all=true")
        assert (found["alarms"], found["notes"]) == ([], [])
        assert "carries 50% of its rate (busy host: over 40%)" in alarm["sentence"]
        assert [one["kind"] for one in found["ended"]] == ["link:busy host"]
        past = (await here.client.get("/v1/history/alarms")).json()["alarms"]
        assert [one["kind"] for one in past] == ["link:busy host"]


async def test_reports_tell_utilisation_and_depth_and_an_idle_port_has_none(tmp_path: Path) -> None:
    topology = tmp_path / "topology.json"
    topology.write_text(json.dumps(TOPOLOGY), "utf-8")
    at_once = {"for_s": 0, "ports": ["leaf1:*"]}
    async with running(
        on_links(
            at_once | {"name": "idle", "figure": "utilisation", "under": "1%"},
            at_once | {"name": "deep", "figure": "depth_max_bytes", "over": "20KB", "level": "critical"},
            fabric={"topology": topology},
        )
    ) as here:
        await here.post_reports(traffic())
        await here.service.alarms.check()
        found = {one["kind"]: one for one in (await alarms(here))["alarms"]}
        assert [one["subject"] for one in found["link:deep"]["subjects"]] == ["leaf1 Ethernet0 to h0"]
        assert sorted(one["subject"] for one in found["link:idle"]["subjects"]) == [
            f"leaf1 Ethernet{number} to h{number}" for number in (1, 2, 3)
        ]


async def test_conditions_that_watch_nothing_are_noted() -> None:
    typo = {"name": "typo", "figure": "drops_per_s", "over": 1, "ports": ["leef*:*"]}
    unknown = {"name": "unknown", "figure": "cnp_per_s", "over": 1, "queues": [3]}
    seen = {"name": "seen", "figure": "drops_per_s", "over": 1}
    async with running(on_links(typo, unknown, seen)) as here:
        assert (await alarms(here))["notes"] == []  # no port is known yet
        await Port(here).passes(1, dropped_packets=0)
        await Port(here).passes(1, dropped_packets=0)
        first, second = (await alarms(here))["notes"]
        assert "'typo' watches nothing so far: none of 1 known ports fits leef*:*" in first
        assert "leaf1:Ethernet0" in first
        assert "'unknown' watches nothing so far: cnp_per_s of queues 3 is not known" in second


async def test_silence_is_an_alarm_only_after_there_was_something(here: Running) -> None:
    await here.post_reports(traffic())
    await here.service.alarms.check()
    here.hand.now_s += 30
    await here.service.alarms.check()
    assert await kinds(here) == [("telemetry_silent", "warning")]
    here.hand.now_s += 100
    await here.service.alarms.check()
    (alarm,) = (await alarms(here))["alarms"]
    assert (alarm["level"], alarm["value"]) == ("critical", 130)
    for first in (900, 1_000):  # an exporter that posts every 20 s
        await here.post_reports(traffic(100, first=first))
        for _ in range(4):
            await here.service.alarms.check()
            assert await kinds(here) == []
            here.hand.now_s += 5


async def test_one_switch_whose_counters_stop_is_named(here: Running) -> None:
    stopped, other = Port(here, "leaf2"), Port(here)
    await stopped.passes(1, dropped_packets=0)
    for _ in range(14):
        await other.passes(5, dropped_packets=0)
    (alarm,) = (await alarms(here))["alarms"]
    assert (alarm["kind"], alarm["switch"], alarm["subject"]) == (
        "switch_silent", "leaf2", "Counters of leaf2",
    )  # fmt: skip
    assert here.metric("ecntwin_switch_dropped_packets_per_second", switch="leaf1") == 0
    assert here.metric("ecntwin_switch_dropped_packets_per_second", switch="leaf2") is None


async def test_reports_that_are_left_out_or_run_backwards_are_alarms(here: Running) -> None:
    def backwards(number: int) -> dict[str, Any]:
        one = report(number)
        hop = one["hops"][0]
        hop["ingress_ts_ns"], hop["egress_ts_ns"] = hop["egress_ts_ns"], hop["ingress_ts_ns"]
        return one

    for begin in range(0, 300, 100):
        await here.post_reports([backwards(begin + number) for number in range(90)])
        await here.post_reports([{"nonsense": True}] * 10)
        await here.service.alarms.check()
        here.hand.now_s += 5
    assert await kinds(here) == [("clock_backwards", "warning"), ("reports_rejected", "warning")]


async def test_the_list_is_limited_and_counted(here: Running) -> None:
    ports = [Port(here, f"leaf{number}", f"Ethernet{port}") for number in range(3) for port in range(3)]
    for _ in range(5):
        for port in ports:
            await port.passes(1, dropped_packets=1)
    found = await alarms(here, "?limit=2")
    assert (len(found["alarms"]), found["warning"], found["critical"]) == (2, 3, 0)
    rest = (await here.client.get("/v1/alarms", params={"limit": 2, "after": found["next"]})).json()
    assert (len(rest["alarms"]), rest["next"]) == (1, None)
    assert found["alarms"] + rest["alarms"] == (await alarms(here))["alarms"]
    assert (await here.client.get("/v1/alarms?after=storm_over")).status_code == 404
    (one, _) = (await alarms(here, "?limit=2&subjects=2"))["alarms"]
    assert (len(one["subjects"]), one["subject_count"]) == (2, 3)
    assert (await here.client.get("/v1/alarms?limit=-1")).status_code == 422


async def test_what_ports_did_lately_is_in_the_state(here: Running) -> None:
    await here.post_reports(traffic())
    port = Port(here)
    await port.passes(1, pfc_pause_ns=0, dropped_packets=0)
    await port.passes(4, pfc_pause_ns=S // 4, dropped_packets=3)
    state = (await here.client.get("/v1/state")).json()
    (shown,) = state["ports"]
    assert (shown["switch"], shown["port"], shown["covered_s"]) == ("leaf1", "Ethernet0", 4.0)
    assert state["port_count"] == 1
    assert (shown["pause_share"], shown["drops_per_s"], shown["cnp_per_s"]) == (0.25, 3.0, None)
    assert [one["queue"] for one in shown["queues"]] == [3]
    assert state["incast"] == [{"receiver": "10.0.0.0", "degree": 3, "senders": 3}]
    (queue,) = state["queues"]
    sent_per_s = queue["throughput_bytes_per_s"] / 1_048
    assert queue["marked_packets_per_s"] == pytest.approx(0.1 * sent_per_s)
    assert (state["flows"]["elephant"], state["mice_to_elephants"]) == (3, 0)
    assert state["mice_to_elephants_bytes"] == 0
    await here.service.alarms.check()
    assert here.metric("ecntwin_incast_degree") == 3
    assert here.metric("ecntwin_queue_p99_bytes", switch_role="leaf") == queue["depth_p99_bytes"]
    assert here.metric("ecntwin_switch_queue_p99_bytes", switch=queue["switch"]) == queue["depth_p99_bytes"]
    assert here.metric("ecntwin_goodput_bytes_per_second") == pytest.approx(queue["throughput_bytes_per_s"])


async def test_policy_leaves_switches_alone_that_lose_and_a_person_may_set_them() -> None:
    async with running(wanted(rollout={"auto": True}, tuning=TRUSTING)) as here:
        port = Port(here)
        for _ in range(4):
            await port.passes(5, dropped_packets=500)
        assert await kinds(here) == [("lossless_loss", "critical")]
        await here.post_reports(traffic())
        found = (await here.client.post("/v1/tune")).json()
        assert (found["status"], found["holds"]) == ("pending", [])
        now = (await here.client.get("/v1/recommendations/current")).json()
        why = "a critical alarm is on its switches (lossless_loss on leaf1 Ethernet0 queue 3)"
        assert why in now["caution"]
        approved = await here.client.post(f"/v1/recommendations/{found['id']}/approve")
        assert approved.json()["status"] == "approved", approved.text
        assert approved.json()["caution"].startswith("Approved by local although a critical alarm is on")


async def test_policy_waits_until_alarms_of_before_the_start_have_had_time_to_come_again() -> None:
    async with running(wanted(rollout={"auto": True}, tuning=TRUSTING)) as here:
        for passed_s, status in ((0, "pending"), (29, "pending"), (2, "approved")):
            here.hand.now_s += passed_s
            await here.post_reports(traffic())
            found = (await here.client.post("/v1/tune")).json()
            now = (await here.client.get("/v1/recommendations/current")).json()
            assert (found["status"], now["status"]) == (status, status)
            assert ("alarms from before the service started" in (now["caution"] or "")) == (
                status == "pending"
            )


async def test_policy_does_not_mind_a_warning_nor_another_switch() -> None:
    async with running(wanted(rollout={"auto": True}, tuning=TRUSTING)) as here:
        warned, elsewhere = Port(here), Port(here, "leaf9")
        for _ in range(4):
            await warned.passes(5, dropped_packets=5)
            await elsewhere.passes(1, dropped_packets=5_000)
        found = await alarms(here)
        assert [one["switch"] for one in found["alarms"]] == ["leaf9", "leaf1"]
        here.hand.now_s += here.service.alarms.settling_s()
        await here.post_reports(traffic())
        decided = (await here.client.post("/v1/tune")).json()
        assert decided["status"] == "approved"
        assert decided["caution"] is None


async def test_a_device_whose_datagrams_are_lost_and_whose_units_nobody_told(here: Running) -> None:
    number = 0
    for look in range(4):
        for _ in range(9):
            await post(here, datagram(sampled(number), sequence=number, node=3))
            number += 1 if look == 3 else 2  # every second one is lost at first
        await here.service.alarms.check()
        here.hand.now_s += 5
    found = {one["kind"]: one for one in (await alarms(here))["alarms"]}
    assert found["sequence_gaps"]["level"] == "critical"
    assert found["sequence_gaps"]["subject"] == "sender 3 unit 5"
    assert found["sequence_gaps"]["switch"] is None
    assert found["untuned"]["subject"] == "3"
    assert "in unknown units" in found["untuned"]["sentence"]


async def stormy(here: Running, share: float = 0.1) -> dict[str, Any]:
    port = Port(here)
    await port.passes(1, pfc_pause_ns=0)
    for _ in range(3):
        await port.passes(5, pfc_pause_ns=round(S * share))
    alarm: dict[str, Any] = (await alarms(here))["alarms"][0]
    return alarm


async def test_who_acknowledged_an_alarm_and_silenced_it_is_known_also_after_a_restart(
    tmp_path: Path,
) -> None:
    wanted_here = wanted(storage={"url": f"sqlite:///{tmp_path}/ecntwin.db"})
    async with running(wanted_here) as here:
        alarm = await stormy(here)
        path = f"/v1/alarms/{alarm['id']}/ack"
        assert (await alarms(here))["open_warning"] == 1
        acked = (await here.client.post(path, json={"note": "ticket 4711"})).json()
        assert (await alarms(here))["open_warning"] == 0
        assert acked["acknowledged"] == {
            "by": "local", "at": "2026-01-01T00:16:56.000Z", "note": "ticket 4711",
        }  # fmt: skip
        asked = {"switch": "leaf1", "until": "2026-01-01T04:00:00Z", "note": "rack is moved"}
        silence = (await here.client.post("/v1/alarms/silences", json=asked)).json()
        assert (silence["by"], silence["kind"], silence["until"]) == (
            "local", None, "2026-01-01T04:00:00.000Z",
        )  # fmt: skip
        audit = (await here.client.get("/v1/audit")).json()["entries"]
        assert [(one["what"], one["subject"], one["outcome"]) for one in audit] == [
            ("silence", "all alarms on leaf1", "done"),
            ("acknowledge", f"alarm {alarm['id']}", "done"),
        ]
    async with running(wanted_here) as here:
        found = await alarms(here)
        (again,) = found["alarms"]
        assert (found["acknowledged"], found["silenced"], again["id"]) == (1, 1, alarm["id"])
        assert (found["warning"], found["open_warning"], found["open_critical"]) == (1, 0, 0)
        assert again["acknowledged"] == acked["acknowledged"]
        assert again["silenced"] == silence
        assert (await here.client.get("/v1/alarms/silences")).json() == {"silences": [silence]}
        (past,) = (await here.client.get("/v1/history/alarms?until=2026-01-02T00:00:00Z")).json()["alarms"]
        assert (past["id"], past["ended"], past["subjects"]) == (alarm["id"], None, ["leaf1 Ethernet0"])
        assert past["acknowledged"]["by"] == "local"
        gone = await here.client.delete(f"/v1/alarms/silences/{silence['id']}")
        assert (gone.status_code, gone.json()) == (200, silence)
        assert (await here.client.delete(f"/v1/alarms/silences/{silence['id']}")).status_code == 404
        assert (await here.client.delete(f"/v1/alarms/{alarm['id']}/ack")).json()["acknowledged"] is None


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        ({"for_s": 60}, "a silence names a kind, a switch, or both"),
        ({"kind": "storms", "for_s": 60}, "kind is one of pfc_storm"),
        ({"switch": "leaf1"}, "give either until or for_s"),
        ({"switch": "leaf1", "for_s": 60, "until": "2026-01-01T04:00:00Z"}, "give either until or for_s"),
        ({"switch": "leaf1", "for_s": 700_000}, "less than or equal to 604800"),
        ({"switch": "leaf1", "until": "2026-01-09T04:00:00Z"}, "within 7 days"),
        ({"switch": "leaf1", "until": "2026-01-01T00:00:00Z"}, "ends after now"),
        ({"switch": "leaf1", "for_s": 60, "note": "x" * 501}, "at most 500"),
    ],
)
async def test_a_silence_without_a_subject_or_an_end_is_refused(
    here: Running, body: dict[str, Any], rule: str
) -> None:
    answer = await here.client.post("/v1/alarms/silences", json=body)
    assert answer.status_code == 422
    assert rule in answer.text


async def test_an_acknowledgement_needs_no_body_and_an_alarm_that_is_there(here: Running) -> None:
    alarm = await stormy(here)
    assert (await here.client.post(f"/v1/alarms/{alarm['id']}/ack")).json()["acknowledged"]["note"] is None
    missing = await here.post("/v1/alarms/0123/ack", status=404)
    assert missing["remedy"] == "list them at /v1/alarms"


async def test_a_silenced_storm_still_keeps_policy_from_its_switch() -> None:
    async with running(wanted(rollout={"auto": True}, tuning=TRUSTING)) as here:
        await stormy(here, share=0.5)
        await here.client.post("/v1/alarms/silences", json={"switch": "leaf1", "for_s": 3_600})
        assert here.metric("ecntwin_alarms", kind="pfc_storm", level="critical") == 0
        await here.post_reports(traffic())
        found = (await here.client.post("/v1/tune")).json()
        assert found["status"] == "pending"
        now = (await here.client.get("/v1/recommendations/current")).json()
        assert "a critical alarm is on its switches (pfc_storm on leaf1 Ethernet0)" in now["caution"]


async def test_one_incast_is_one_alarm_with_its_ports_in_it() -> None:
    incumbent = {"default": {"kmin_bytes": 1_000, "kmax_bytes": 10_000, "pmax": 0.1}}
    async with running(wanted(incumbent=incumbent)) as here:
        await here.client.put("/v1/topology", json=TOPOLOGY)
        reports = traffic()
        for one in reports:
            one["hops"][0]["ecn_marked"] = False
        ports = [Port(here, port=f"Ethernet{number}") for number in range(1, 4)]
        for _ in range(5):
            await here.post_reports(reports)
            for port in ports:
                await port.passes(1.5, pfc_tx_frames=6_000)
        (alarm,) = (await alarms(here))["alarms"]
        assert alarm["incast"] == {"receiver": "h0", "senders": 3, "switch": "leaf1", "port": "Ethernet0"}
        assert (alarm["kind"], alarm["level"], alarm["subject_count"]) == ("ecn_off", "critical", 4)
        assert {(one["subject"], one["kind"]) for one in alarm["subjects"]} == {
            ("leaf1 Ethernet0 queue 3", "ecn_off"),
            *((f"leaf1 Ethernet{number}", "pfc_frames") for number in range(1, 4)),
        }
