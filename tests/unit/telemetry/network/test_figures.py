"""What a window's traffic got: slowdowns, goodput and delays of windows made by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from telemetry.network.figures import MICE_AT_LEAST, SEEN_WELL, WindowFigures, window_figures
from telemetry.settings import WindowSettings
from telemetry.topology import Topology
from telemetry.window.window import Window
from tests.unit.telemetry.conftest import START_NS, batch_of, make_report

BLOCKS = 8
LENGTH_NS = 80_000_000
SETTINGS = WindowSettings(period_ns=LENGTH_NS // 10, origin_ns=START_NS, max_jump_periods=100)
BYTES_PER_NS = 12.5
# Of a full packet alone: two links of 1 µs, there and with an acknowledgement back.
ALONE_NS = 2 * (2_000 + (1_000 + 60) / BYTES_PER_NS)
TO_REPORT_NS = 1_000 + 1_000 / BYTES_PER_NS


def measured(
    reports: list[dict[str, Any]],
    topology: Topology,
    settings: WindowSettings = SETTINGS,
    n_blocks: int = BLOCKS,
) -> WindowFigures:
    window = Window(settings, topology)
    ends = [at(0, 9), at(LENGTH_NS - 1, 9)]  # fix the window's ends
    added = window.add(batch_of(sorted([*ends, *reports], key=lambda one: one["ts_ns"])))
    assert added.errors == ()
    return window_figures(window.snapshot(), topology, n_blocks=n_blocks)


def at(ns: float, sport: int, *, queue_bytes: float = 0, rate: float = 1.0, **more: Any) -> dict[str, Any]:
    return make_report(
        START_NS + round(ns),
        flow={"sport": sport},
        hop={"queue_bytes": round(queue_bytes)},
        sampling_rate=rate,
        **more,
    )


def message(
    begin_ns: float, sport: int, size: int, slowdown: float, *, every: int = 1, **more: Any
) -> list[dict[str, Any]]:
    """Packets of 1000 bytes sent evenly, one in ``every`` of them reported, from the middle of the first."""
    count = size // 1_000 // every
    alone_ns = size / BYTES_PER_NS + ALONE_NS
    sending_ns = alone_ns * slowdown - ALONE_NS
    # Where n samples lie on average: from 1/(n + 1) to n/(n + 1) of the time.
    places = (np.arange(count) + 1) / (count + 1)
    return [
        at(begin_ns + TO_REPORT_NS + place * sending_ns, sport, rate=1 / every, **more) for place in places
    ]


@pytest.mark.parametrize("every", [1, 50])
def test_elephants_are_messages_of_a_megabyte_beside_their_time_alone(
    two_hosts: Topology, every: int
) -> None:
    reports = [
        *message(1e6, 1, 2_000_000, 1.5, every=every),
        *message(30e6, 2, 2_000_000, 2.5, every=every),
        *message(50e6, 3, 400_000, 9.0, every=every),  # neither elephant nor mouse
    ]
    found = measured(reports, two_hosts)
    # A sampled window sees the first packet a little late: what is before it counts as its crossing.
    assert found.whole.elephant_slowdown == pytest.approx(2.0, rel=0.005)
    assert (found.whole.goodput_bytes_per_s, found.whole.mice_p99_slowdown) == (None, None)
    assert found.persistent_share == 0
    assert found.without_block[0].elephant_slowdown == pytest.approx(2.5, rel=0.005)
    assert found.without_block[3].elephant_slowdown == pytest.approx(1.5, rel=0.005)
    assert {found.without_block[number] for number in (1, 2, 4, 6)} == {found.whole}


@pytest.mark.parametrize("n_blocks", [1, 3, 16])
def test_the_whole_window_shows_the_same_whatever_its_parts(two_hosts: Topology, n_blocks: int) -> None:
    reports = [
        *message(1e6, 1, 2_000_000, 1.5),
        *message(30e6, 2, 2_000_000, 2.5),
        *(at(40_000 * number, 3, rate=0.01) for number in range(LENGTH_NS // 40_000)),
    ]
    by_eight, by_others = (measured(reports, two_hosts, n_blocks=number) for number in (BLOCKS, n_blocks))
    assert by_eight.whole.elephant_slowdown == pytest.approx(2.0, rel=0.005)
    assert by_others.whole == by_eight.whole
    assert by_others.persistent_share == by_eight.persistent_share


def test_the_wait_of_its_first_packet_is_part_of_a_message(two_hosts: Topology) -> None:
    reports = message(20e6, 1, 2_000_000, 1.0, every=50, queue_bytes=500_000)
    alone_ns = 2_000_000 / BYTES_PER_NS + ALONE_NS
    assert measured(reports, two_hosts).whole.elephant_slowdown == pytest.approx(
        1 + 500_000 / BYTES_PER_NS / alone_ns, rel=0.005
    )


def test_a_message_seen_too_little_or_under_way_at_the_begin_does_not_count(two_hosts: Topology) -> None:
    few = message(20e6, 1, 7_000_000, 3.0, every=7_000 // (SEEN_WELL - 1))
    assert measured(few, two_hosts).whole.elephant_slowdown is None
    window = Window(SETTINGS, two_hosts)
    window.add(batch_of(message(-10e6, 1, 40_000_000, 4.0, every=100)))
    window.add(batch_of([at(LENGTH_NS - 1, 9)]))
    found = window_figures(window.snapshot(), two_hosts, n_blocks=BLOCKS)
    assert found.whole.elephant_slowdown is None


def test_a_message_of_a_thinned_window_is_seen_by_the_reports_that_are_left(two_hosts: Topology) -> None:
    reports = [one for n in range(20) for one in message(1e6 + 3e6 * n, n + 10, 2_000_000, 2.0, every=4)]
    found = measured(reports, two_hosts, replace(SETTINGS, max_reports=len(reports) // 3))  # one in four
    assert found.whole.elephant_slowdown == pytest.approx(2.0, rel=0.05)


def test_flows_that_run_through_the_window_have_a_goodput_and_their_share_of_the_bulk(
    two_hosts: Topology,
) -> None:
    # 1 packet in 100 of 1000 bytes every 40 µs is 2.5 GB/s; it pauses for none of the window.
    through = [at(40_000 * number, 1, rate=0.01) for number in range(LENGTH_NS // 40_000)]
    slower = [at(80_000 * number + 1, 3, rate=0.01) for number in range(LENGTH_NS // 80_000)]
    elephant = message(20e6, 2, 2_000_000, 2.0, every=50)
    found = measured([*through, *slower, *elephant], two_hosts)
    mean = (2.5e9 + 1.25e9) / 2
    assert found.whole.goodput_bytes_per_s == pytest.approx(mean, rel=0.001)
    for without in found.without_block:
        assert without.goodput_bytes_per_s == pytest.approx(mean, rel=0.005)
    assert found.whole.elephant_slowdown == pytest.approx(2.0, rel=0.005)
    bulk = 2 * mean * LENGTH_NS / 1e9
    assert found.persistent_share == pytest.approx(bulk / (bulk + 2_000_000), rel=0.001)


def test_a_full_packet_waits_as_the_reported_ones_each_counting_for_what_it_stands_for(
    two_hosts: Topology,
) -> None:
    shallow = [at(1e6 + 10_000 * n, 1, queue_bytes=12_500, rate=1.0) for n in range(100)]
    deep = at(70e6, 2, queue_bytes=125_000, rate=0.5)
    found = measured([*shallow, deep], two_hosts)  # 2 of 104 packets
    assert found.whole.packet_p99_slowdown == pytest.approx(1 + 10_000 / ALONE_NS)
    assert found.without_block[7].packet_p99_slowdown == pytest.approx(1 + 1_000 / ALONE_NS)
    rare = measured([*shallow, *shallow_again(), deep], two_hosts)
    assert rare.whole.packet_p99_slowdown == pytest.approx(1 + 1_000 / ALONE_NS)
    assert rare.packets_per_s == pytest.approx(304 / (LENGTH_NS / 1e9))


def shallow_again() -> list[dict[str, Any]]:
    return [at(40e6 + 10_000 * n, 3, queue_bytes=12_500) for n in range(200)]


def test_a_packet_with_a_queue_of_unknown_depth_tells_nothing_of_delay(two_hosts: Topology) -> None:
    blind = at(10e6, 1)
    blind["hops"][0] |= {"queue_bytes": None, "ingress_ts_ns": None, "egress_ts_ns": None}
    known = at(20e6, 1, queue_bytes=12_500)
    found = measured([blind, *[known | {"ts_ns": known["ts_ns"] + n} for n in range(1, 200)]], two_hosts)
    assert found.whole.packet_p99_slowdown == pytest.approx(1 + 1_000 / ALONE_NS)


def test_mice_count_where_enough_of_them_were_seen_well(two_hosts: Topology) -> None:
    def mice(count: int) -> list[dict[str, Any]]:
        return [
            one
            for number in range(count)
            for one in message(1e6 + 200_000 * number, number + 10, 20_000, 3.0 if number % 50 else 7.0)
        ]

    assert measured(mice(MICE_AT_LEAST - 1), two_hosts).whole.mice_p99_slowdown is None
    found = measured(mice(MICE_AT_LEAST), two_hosts)
    assert found.whole.mice_p99_slowdown == pytest.approx(7.0, rel=0.01)
    assert found.without_block[0].mice_p99_slowdown == pytest.approx(7.0, rel=0.01)
