"""What telemetry says since a change: nothing of before it, nothing that was not reported."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from itertools import product
from typing import Any

import pytest

from rollout.plan import Figures
from service.rollouts.watch import Mark, Watcher
from tests.integration.service import EPOCH_NS, TOPOLOGY, Running, manual, report, running
from tests.integration.service import Wanted as Service

WINDOW_S = 0.004
SETTINGS = manual(telemetry={"period_s": 0.001, "n_periods": 4})


def scene(acts: Callable[[Running, Watcher], Coroutine[Any, Any, None]]) -> None:
    async def all_of_it() -> None:
        async with running(Service(settings=SETTINGS)) as here:
            await here.client.put("/v1/topology", json=TOPOLOGY)
            service = here.service
            await acts(here, Watcher(service.window, service.counters, silence_s=15.0))

    asyncio.run(all_of_it())


def reports(begin_s: float, end_s: float, queue_bytes: int) -> list[dict[str, Any]]:
    """Three hosts sending to h0, a report each 10 µs, and every one saw a queue of that length."""
    made = []
    for number in range(round(begin_s * 1e5), round(end_s * 1e5)):
        one = report(number, src=1 + number % 3)
        one["hops"][0]["queue_bytes"] = queue_bytes
        made.append(one)
    return made


async def counters(here: Running, at_s: float, *, switch: str = "leaf1", **counted: int) -> None:
    samples = [
        {"switch": switch, "port": port, "queue": 3, "ts_ns": EPOCH_NS + round(at_s * 1e9)} | counted
        for port in ("Ethernet0", "Ethernet1")
    ]
    answer = await here.client.post("/v1/telemetry/counters", content=json.dumps(samples))
    assert answer.json()["accepted"] == 2, answer.text


def test_without_telemetry_nothing_is_said() -> None:
    async def acts(here: Running, watcher: Watcher) -> None:
        assert await watcher.mark(["leaf1"]) == Mark(at_s=here.hand.now_s, counters_ns={"leaf1": 0})
        assert await watcher.lately(["leaf1"]) == Figures()
        assert await watcher.since(Mark(at_s=0.0), ["leaf1"]) == Figures()

    scene(acts)


def test_before_the_first_report_silence_counts_from_when_the_watching_began() -> None:
    async def acts(here: Running, watcher: Watcher) -> None:
        here.hand.now_s += 3_600  # the service is up, and its journal could not be read until now
        mark = await watcher.mark(["leaf1"])
        here.hand.now_s += 15
        assert watcher.silent(mark) is None
        here.hand.now_s += 1
        assert watcher.silent(mark) == "no INT report for 16 s; the limit is 15 s"
        await here.post_reports(reports(0.0, 0.001, 1_000))
        assert watcher.silent(mark) is None

    scene(acts)


def test_silence_is_told_by_its_length() -> None:
    async def acts(here: Running, watcher: Watcher) -> None:
        await here.post_reports(reports(0.0, 0.001, 1_000))
        here.hand.now_s += 15
        mark = await watcher.mark(["leaf1"])
        assert watcher.silent(mark) is None
        here.hand.now_s += 2
        assert watcher.silent(mark) == "no INT report for 17 s; the limit is 15 s"

    scene(acts)


def test_queues_are_told_once_the_whole_window_lies_after_the_change() -> None:
    async def acts(here: Running, watcher: Watcher) -> None:
        await here.post_reports(reports(0.0, 0.008, 50_000))
        before = await watcher.lately(["leaf1"])
        assert before.queue_mean_bytes is not None
        assert before.throughput_bytes_per_s is not None
        assert before.throughput_bytes_per_s > 0
        mark = await watcher.mark(["leaf1"])
        await here.post_reports(reports(0.008, 0.010, 10_000))  # half of the window is of before
        assert await watcher.since(mark, ["leaf1"]) == Figures()
        await here.post_reports(reports(0.010, 0.014, 10_000))
        after = await watcher.since(mark, ["leaf1"])
        assert after.queue_mean_bytes is not None
        assert 0 < after.queue_mean_bytes < before.queue_mean_bytes / 2

    scene(acts)


def test_only_the_switches_asked_about_count() -> None:
    async def acts(here: Running, watcher: Watcher) -> None:
        await here.post_reports(reports(0.0, 0.008, 50_000))
        seen = await watcher.lately(["spine9"])
        assert (seen.queue_mean_bytes, seen.throughput_bytes_per_s) == (0.0, 0.0)

    scene(acts)


def test_figures_of_growing_groups_are_those_of_all_their_switches() -> None:
    async def acts(here: Running, watcher: Watcher) -> None:
        assert await watcher.lately_each([["leaf1"], ["spine1"]]) == [Figures(), Figures()]
        await here.post_reports(reports(0.0, 0.008, 50_000))
        for second, switch in product((0.0, 10.0), ("leaf1", "spine1")):
            await counters(here, second, switch=switch, dropped_packets=int(second), pfc_pause_ns=0)
        alone, both, no_more = await watcher.lately_each([["leaf1"], ["spine1", "spine9"], []])
        assert alone == await watcher.lately(["leaf1"])
        assert both == no_more == await watcher.lately(["leaf1", "spine1", "spine9"])
        assert (alone.drops_per_s, both.drops_per_s, both.pause_share) == (2.0, 4.0, 0.0)

    scene(acts)


def test_counters_since_the_change_are_rates_and_those_that_no_port_gives_are_not_told() -> None:
    async def acts(here: Running, watcher: Watcher) -> None:
        await here.post_reports(reports(0.0, 0.008, 50_000))
        await counters(here, 0.0, pfc_pause_ns=0, dropped_packets=5)
        await counters(here, 10.0, pfc_pause_ns=2_000_000_000, dropped_packets=5)
        mark = await watcher.mark(["leaf1"])
        unchanged = await watcher.since(mark, ["leaf1"])
        assert (unchanged.pause_share, unchanged.drops_per_s) == (None, None)  # nothing since
        await counters(here, 14.0, pfc_pause_ns=3_000_000_000, dropped_packets=25)
        seen = await watcher.since(mark, ["leaf1"])
        assert seen.pause_share == pytest.approx(0.25)  # 1 of 4 s, on each of two ports
        assert seen.drops_per_s == pytest.approx(10.0)  # 20 in 4 s, on each of two ports
        assert seen.pfc_frames_per_s is None
        assert (await watcher.since(mark, ["spine9"])).drops_per_s is None

    scene(acts)


def test_counters_that_come_only_after_a_restart_are_counted_from_their_first() -> None:
    async def acts(here: Running, watcher: Watcher) -> None:
        mark = await watcher.mark(["leaf1"])
        await here.post_reports(reports(0.0, 0.008, 50_000))
        await counters(here, 10.0, pfc_pause_ns=2_000_000_000, dropped_packets=5)
        assert await watcher.counted(["leaf1"], mark) == Figures()
        await counters(here, 14.0, pfc_pause_ns=3_000_000_000, dropped_packets=25)
        seen = await watcher.since(mark, ["leaf1"])
        assert (seen.pause_share, seen.drops_per_s) == (0.25, 10.0)
        assert (await watcher.since(mark, ["spine1"])).drops_per_s is None  # not asked about then

    scene(acts)


def test_a_switch_that_counts_less_hides_nothing_and_makes_nothing_look_like_more() -> None:
    async def acts(here: Running, watcher: Watcher) -> None:
        await here.post_reports(reports(0.0, 0.008, 50_000))
        await counters(here, 100.0, dropped_packets=0, pfc_pause_ns=0)
        await counters(here, 400.0, switch="spine1", dropped_packets=0)  # its clock is five minutes ahead
        switches = ["leaf1", "spine1", "spine2"]  # of which the last counts nothing
        mark = await watcher.mark(switches)
        await counters(here, 110.0, dropped_packets=50, pfc_pause_ns=1_000_000_000)
        seen = await watcher.since(mark, switches)
        assert (seen.drops_per_s, seen.pause_share) == (10.0, 0.1)
        await counters(here, 401.0, switch="spine1", dropped_packets=1)
        seen = await watcher.since(mark, switches)
        assert seen.drops_per_s == 12.0  # 100 in 10 s and 2 in 1 s

    scene(acts)


def test_what_counters_were_before_is_what_they_were_for_a_minute() -> None:
    async def acts(here: Running, watcher: Watcher) -> None:
        await here.post_reports(reports(0.0, 0.008, 50_000))
        for second in range(0, 130, 10):  # an exporter much slower than the window is long
            await counters(here, float(second), dropped_packets=10 * second)
        assert (await watcher.lately(["leaf1"])).drops_per_s == pytest.approx(20.0)

    scene(acts)
