"""The window: accepted, duplicate, rejected and expired reports."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from numpy.typing import NDArray

from telemetry.errors import WindowError
from telemetry.report import FlowKeys, HopSite, ReportBatch
from telemetry.settings import WindowSettings
from telemetry.state import FlowClass, FlowKey, NetworkState
from telemetry.topology import Topology
from telemetry.window import window as window_module
from telemetry.window.samples import Samples, SampleStore
from telemetry.window.tables import KnownPaths, misplaced
from telemetry.window.window import Window, WindowCounters

START_NS = 1_767_225_600_000_000_000
MS = 1_000_000
S = 1_000_000_000
YEAR_NS = 365 * 86_400 * S

Make = Callable[..., dict[str, Any]]
Batch = Callable[[list[dict[str, Any]]], ReportBatch]


def steady(report: Make, n: int, *, first_ns: int = START_NS, step_ns: int = 10 * MS) -> list[dict[str, Any]]:
    return [report(first_ns + number * step_ns) for number in range(n)]


def many_flows(n: int, *, first_ns: int, first_flow: int = 0, span_ns: int = S) -> ReportBatch:
    """One report each of ``n`` flows between two hosts, 100 000 bytes each once sampling is undone."""
    step = span_ns // n
    return ReportBatch(
        index=np.arange(n),
        ts_ns=first_ns + np.arange(n) * step,
        flow=np.arange(n, dtype=np.int32),
        packet_bytes=np.full(n, 1000),
        sampling_rate=np.full(n, 0.01),
        hop_offset=np.arange(n + 1),
        hop_site=np.zeros(n, np.int32),
        queue_bytes=np.zeros(n),
        ingress_ns=np.full(n, -1),
        egress_ns=np.full(n, -1),
        marked=np.zeros(n, np.int8),
        flow_keys=FlowKeys.of(
            FlowKey(f"10.0.{k >> 16}.1", "10.0.0.2", k & 0xFFFF, 4791, 17)
            for k in range(first_flow, first_flow + n)
        ),
        sites=(HopSite("tor1", "Ethernet1", "Ethernet2", 3),),
    )


def total_bytes(state: NetworkState) -> float:
    return sum(state.bytes_by_class.values())


def test_an_empty_window_says_so() -> None:
    window = Window()
    assert window.last_report_ns is None
    with pytest.raises(WindowError, match="it holds no report"):
        window.state()
    assert window.add(ReportBatch.empty()).accepted == 0
    with pytest.raises(WindowError):
        window.state()


def test_bytes_and_throughput_have_the_sampling_undone(
    report: Make, batch: Batch, two_hosts: Topology
) -> None:
    window = Window(topology=two_hosts)
    result = window.add(batch(steady(report, 101)))
    assert (result.accepted, result.rejected, result.errors) == (101, 0, ())
    state = window.state()
    assert total_bytes(state) == pytest.approx(101 * 1000 / 0.01)
    assert state.duration_s == pytest.approx(1.0)
    assert state.flows.throughput_bytes_per_s[0] == pytest.approx(101 * 1000 / 0.01, rel=1e-6)
    assert state.flows.src_host == ("h1",)
    assert state.flows.dst_host == ("h2",)
    assert state.queues[0].throughput_bytes_per_s == pytest.approx(10_100_000, rel=1e-6)
    assert state.dominant_class is FlowClass.ELEPHANT
    assert state.topology_declared
    assert window.last_report_ns == START_NS + S


def test_copies_count_once(report: Make, batch: Batch) -> None:
    window = Window()
    reports = steady(report, 30)
    window.add(batch(reports))
    result = window.add(batch(reports + reports[:5]))
    assert (result.accepted, result.duplicates) == (35, 35)
    assert window.counters.duplicates == 35
    assert window.state().n_reports == 30


def test_same_time_but_other_values_is_another_packet(report: Make, batch: Batch) -> None:
    window = Window()
    window.add(batch([report(), report(hop={"queue_bytes": 5}), report(dst="10.0.0.3")]))
    assert window.counters.duplicates == 0
    assert window.state().n_reports == 3


def test_old_periods_leave_and_late_reports_are_refused(report: Make, batch: Batch) -> None:
    window = Window(WindowSettings(period_ns=S, n_periods=3))
    window.add(batch(steady(report, 1000)))
    assert window.state().n_reports == 300
    assert len(window) == 300
    late = window.add(batch([report(START_NS + S)]))
    assert late.rejected == 1
    assert "within the window of 3 s" in late.errors[0].detail
    assert window.counters.too_old == 1
    in_time = window.add(batch([report(START_NS + 8 * S + 1)]))
    assert in_time.accepted == 1


@pytest.mark.parametrize("away_ns", [YEAR_NS, -YEAR_NS, 10 * YEAR_NS, 3600 * S, -START_NS])
def test_one_clock_far_away_does_not_move_the_window(report: Make, batch: Batch, away_ns: int) -> None:
    window = Window()
    window.add(batch(steady(report, 200)))
    before = window.state()
    result = window.add(batch([report(START_NS + away_ns), *steady(report, 10, first_ns=START_NS + 5)]))
    assert [error.index for error in result.errors] == [0]
    assert "correct the sink's clock" in result.errors[0].detail
    assert window.counters.skewed == 1
    state = window.state()
    assert (state.window_start_ns, state.window_end_ns) == (before.window_start_ns, before.window_end_ns)
    assert state.n_reports == before.n_reports + 10


@pytest.mark.parametrize(
    ("unit", "size_ns"), [("microseconds", 1_000), ("milliseconds", 1_000_000), ("seconds", S)]
)
def test_times_in_another_unit_are_told_though_all_senders_have_it(
    unit: str, size_ns: int, report: Make, batch: Batch
) -> None:
    now_ns = START_NS + 300 * S
    sent = [report((START_NS + number * 100 * MS) // size_ns) for number in range(20)]
    window = Window()
    result = window.add(batch(sent), now_ns=now_ns)
    assert result.rejected == window.counters.skewed == 20
    assert f"which is the present time in {unit}" in result.errors[0].detail
    assert "send ts_ns in nanoseconds since 1970" in result.errors[0].detail
    assert window.add(batch(steady(report, 20)), now_ns=now_ns).accepted == 20
    # A recording's own time is not this machine's; once it runs, it may pass any number.
    assert Window().add(batch(steady(report, 20, first_ns=7 * S)), now_ns=now_ns).accepted == 20
    running = Window()
    before_ns = START_NS // size_ns - (4 * S if size_ns == 1_000 else S)
    running.add(batch(steady(report, 20, first_ns=before_ns)), now_ns=now_ns)
    assert running.add(batch(sent), now_ns=now_ns).rejected == 0


def test_a_clock_away_in_the_first_batch_is_outvoted(report: Make, batch: Batch) -> None:
    window = Window()
    result = window.add(batch([report(START_NS + YEAR_NS), *steady(report, 20)]))
    assert [error.index for error in result.errors] == [0]
    assert window.state().n_reports == 20


def test_a_clock_a_few_seconds_ahead_does_not_move_the_window_either(report: Make, batch: Batch) -> None:
    window = Window()
    window.add(batch(steady(report, 200)))
    end_ns = window.state().window_end_ns
    window.add(batch([report(START_NS + 8 * S)]))
    assert window.state().window_end_ns == end_ns
    assert window.state().n_reports == 200
    window.add(batch(steady(report, 100, first_ns=START_NS + 8 * S + 1)))
    assert window.state().window_end_ns == START_NS + 8 * S + 1 + 99 * 10 * MS + 1
    assert window.state().n_reports == 301


def test_reports_behind_a_clock_that_is_ahead_are_counted(report: Make, batch: Batch) -> None:
    window = Window()
    for number in range(100):
        now_ns = START_NS + number * 100 * MS
        window.add(batch([*steady(report, 3, first_ns=now_ns, step_ns=MS), report(now_ns + 5 * S + 7)]))
    counters = window.counters
    # The window follows it once it is confirmed; from then on the others are behind.
    assert (counters.accepted, counters.skewed) == (400, 0)
    assert 250 < counters.behind <= 300
    assert counters.behind_share_since(WindowCounters()) == counters.behind / 400
    window.add(batch([report(now_ns + 5 * S + 7)]))
    assert window.counters.behind_share_since(counters) == 0.0, "a repeat is no report"


def test_the_state_tells_the_newest_report_of_each_sink(report: Make, batch: Batch) -> None:
    window = Window()
    # The second switch on the way sends the report, whatever the first one is.
    longer = report(START_NS + 3 * S, hop={"switch": "leaf1"})
    longer["hops"].append(report(START_NS, hop={"switch": "leaf2"})["hops"][0])
    at_leaf1 = [report(START_NS + at_ns, hop={"switch": "leaf1"}) for at_ns in (S, 2 * S)]
    window.add(batch([*at_leaf1, longer]))
    assert window.state().newest_ns == {"leaf1": START_NS + 2 * S, "leaf2": START_NS + 3 * S}


@pytest.mark.parametrize("gap_ns", [3600 * S, YEAR_NS, -YEAR_NS])
def test_the_window_follows_a_real_restart(report: Make, batch: Batch, gap_ns: int) -> None:
    window = Window()
    window.add(batch(steady(report, 200)))
    rejected = 0
    for number in range(300):
        rejected += window.add(batch([report(START_NS + gap_ns + number * MS)])).rejected
    assert 0 < rejected <= 100
    assert window.state().n_reports == 300 - rejected
    assert window.state().window_end_ns == START_NS + gap_ns + 299 * MS + 1


def test_a_wrong_clock_among_right_ones_never_wins(report: Make, batch: Batch) -> None:
    window = Window()
    for number in range(200):
        right = steady(report, 3, first_ns=START_NS + number * 30 * MS)
        window.add(batch([*right, report(START_NS + YEAR_NS + number * MS)]))
    assert window.counters.skewed == 200
    assert window.state().n_reports == 600


@pytest.mark.parametrize("a_run", [1, 3, 7])
def test_the_window_follows_few_reports_with_long_gaps(a_run: int, report: Make, batch: Batch) -> None:
    window = Window()
    for run in range(30):
        window.add(batch(steady(report, a_run, first_ns=START_NS + run * 60 * S)))
    assert window.last_report_ns is not None
    assert window.last_report_ns >= START_NS + 20 * 60 * S


@pytest.mark.parametrize("step_s", [1, 10, -1, -10])
def test_a_period_for_every_report_is_not_a_period_held(
    step_s: int, report: Make, batch: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_in = 0
    append = SampleStore.append

    def counting(store: SampleStore, period: int, samples: Samples) -> None:
        nonlocal put_in
        put_in += 1
        append(store, period, samples)

    monkeypatch.setattr(SampleStore, "append", counting)
    window = Window()
    window.add(batch([report(START_NS + n * step_s * S) for n in range(1_000)]))
    assert 0 < put_in <= 3 * window.settings.n_periods


def test_a_long_recording_at_once_ends_in_its_last_window(report: Make, batch: Batch) -> None:
    window = Window(WindowSettings(period_ns=S, n_periods=2))
    assert window.add(batch(steady(report, 3000))).rejected == 0
    assert window.state().n_reports == 200


@pytest.mark.parametrize(
    ("hop", "said"),
    [
        ({"switch": "tor9"}, "switch 'tor9'"),
        ({"egress_port": "Ethernet9"}, "egress_port 'Ethernet9' of switch 'tor1'"),
        ({"ingress_port": "Ethernet9"}, "ingress_port 'Ethernet9' of switch 'tor1'"),
    ],
)
def test_hops_outside_the_declared_topology_are_refused(
    report: Make, batch: Batch, two_hosts: Topology, hop: dict[str, str], said: str
) -> None:
    window = Window(topology=two_hosts)
    result = window.add(batch([report(), report(START_NS + 1, hop=hop), report(START_NS + 2)]))
    assert (result.accepted, result.rejected) == (2, 1)
    assert result.errors[0].index == 1
    assert f"hops[0]: received {said}" in result.errors[0].detail
    assert window.counters.unknown_sites == 1
    assert window.state().n_reports == 2


def test_a_table_of_sites_that_batches_share_is_checked_once_also_where_some_are_wrong(
    report: Make, batch: Batch, two_hosts: Topology, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked = Mock(wraps=misplaced)
    monkeypatch.setattr(window_module, "misplaced", checked)
    window = Window(topology=two_hosts)
    both = batch([report(), report(START_NS + 1, hop={"switch": "tor9"})])
    for row in (1, 0, 1):
        assert window.add(both.take(np.array([row]))).rejected == row
    assert checked.call_count == 1
    links = tuple(replace(one, b="tor9") for one in two_hosts.links)
    window.set_topology(replace(two_hosts, switches=("tor9",), links=links))
    assert window.add(both.take(np.array([0]))).rejected == 1


def test_a_hop_that_does_not_say_where_it_is_fits_any_topology(
    report: Make, batch: Batch, two_hosts: Topology
) -> None:
    window = Window(topology=two_hosts)
    nulls = {"switch": None, "ingress_port": None, "egress_port": None, "queue": None}
    assert window.add(batch([report(hop=nulls)])).rejected == 0
    state = window.state()
    assert state.queues == ()
    assert state.paths == ((),)
    assert total_bytes(state) == pytest.approx(100_000)


def test_switch_clocks_apart_change_nothing(report: Make, batch: Batch) -> None:
    def hops(ts_ns: int, skew_ns: int) -> list[dict[str, Any]]:
        first = {"switch": "a", "ingress_port": "1", "egress_port": "2", "queue": 0, "queue_bytes": 100}
        second = {"switch": "b", "ingress_port": "1", "egress_port": "2", "queue": 0, "queue_bytes": 100}
        return [
            first | {"ingress_ts_ns": ts_ns + skew_ns, "egress_ts_ns": ts_ns + skew_ns + 700},
            second | {"ingress_ts_ns": ts_ns, "egress_ts_ns": ts_ns + 500},
        ]

    arrivals = []
    for skew_ns in (0, 5 * S, -1_000 * S):
        window = Window()
        times = [START_NS + number * MS for number in range(50)]
        window.add(batch([report(ts_ns, hops=hops(ts_ns, skew_ns)) for ts_ns in times]))
        state = window.state()
        arrivals.append((state.arrivals.start_s.tolist(), state.arrivals.wire_bytes.tolist()))
        assert window.counters.negative_latencies == 0
        # 1.2 µs in switches; on each of two cables 1 µs and the 80 ns of a packet.
        assert state.arrivals.way_s.tolist() == pytest.approx([3.36e-6], abs=1e-9)
    assert arrivals[0] == arrivals[1] == arrivals[2]


def test_a_hop_that_leaves_before_it_came_is_counted_and_not_used(report: Make, batch: Batch) -> None:
    window = Window()
    window.add(batch([report(hop={"ingress_ts_ns": START_NS + 9, "egress_ts_ns": START_NS})]))
    assert window.counters.negative_latencies == 1
    assert window.state().n_reports == 1


def test_a_hundred_thousand_flows_at_once(two_hosts: Topology) -> None:
    window = Window(topology=two_hosts)
    assert window.add(many_flows(100_000, first_ns=START_NS)).accepted == 100_000
    state = window.state()
    assert len(state.flows) == 100_000
    assert state.flow_groups == 1


def test_flows_beyond_the_limit_are_merged_and_no_byte_is_lost(
    report: Make, batch: Batch, two_hosts: Topology
) -> None:
    window = Window(WindowSettings(max_flows=500), two_hosts)
    elephant = [report(START_NS + n * MS, flow={"sport": 65_000}, sampling_rate=0.0001) for n in range(20)]
    window.add(batch(elephant))
    for number in range(20):
        window.add(
            many_flows(400, first_ns=START_NS + number * 50 * MS, first_flow=400 * number, span_ns=50 * MS)
        )
    state = window.state()
    assert len(state.flows) <= 500
    assert state.flows.keys[0].sport == 65_000
    assert total_bytes(state) == pytest.approx(20 * 10_000_000 + 8000 * 100_000)
    assert state.bytes_by_class[FlowClass.ELEPHANT] == pytest.approx(20 * 10_000_000)
    assert sum(state.flows_by_class.values()) == 8001
    assert state.queues[0].throughput_bytes_per_s * state.duration_s == pytest.approx(total_bytes(state))
    assert window.counters.evicted >= 7500
    finite = np.isfinite(state.arrivals.wire_bytes)
    assert np.sum(state.arrivals.wire_bytes[finite]) == pytest.approx(8000 * 100_000 + 200_000_000, rel=0.3)
    assert set(state.arrivals.src_host) == {"h1"}


def test_memory_stays_bounded_as_new_flows_keep_coming(two_hosts: Topology) -> None:
    settings = WindowSettings(period_ns=S, n_periods=2, max_flows=1000, max_reports=5000)
    window = Window(settings, two_hosts)
    for number in range(60):
        window.add(
            many_flows(2000, first_ns=START_NS + number * S // 2, first_flow=2000 * number, span_ns=S // 2)
        )
        assert len(window) <= 5000
        assert len(window.state().flows) <= 1000
    assert window.counters.thinned > 0
    rate = total_bytes(window.state()) / window.state().duration_s
    assert rate == pytest.approx(4000 * 100_000, rel=0.15)


def test_flows_long_silent_are_forgotten_and_nothing_tells(
    report: Make, batch: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = WindowSettings(period_ns=MS, n_periods=2, idle_gap_ns=80 * MS)
    window = Window(settings)
    with monkeypatch.context() as patched:
        patched.setattr("telemetry.window.window._FEW_FLOWS", 1_000_000)
        hoarding = Window(settings)
    went_on: dict[str, list[bool]] = {"10.0.9.75": [], "10.0.9.100": []}
    for number in range(400):
        now_ns = START_NS + number * MS
        came = [many_flows(50, first_ns=now_ns, first_flow=50 * number, span_ns=MS)]
        back = [host for host in went_on if number % int(host.rpartition(".")[2]) == 0]
        came += [batch([report(now_ns + 1, flow={"src": host})]) for host in back]
        for part in came:
            window.add(part)
            hoarding.add(part)
        if back:
            found, expected = window.state().arrivals, hoarding.state().arrivals
            assert found.start_s.tolist() == expected.start_s.tolist()
            assert found.src_host == expected.src_host
            for host in back:
                went_on[host].append(found.start_s[found.src_host.index(host)] == 0.0)
    assert went_on == {"10.0.9.75": [False] + [True] * 5, "10.0.9.100": [False] * 4}
    assert len(hoarding.snapshot().flow_keys) == 20_002
    assert len(window.snapshot().flow_keys) < 2 * 50 * (120 + 2) + 100


def test_names_without_end_are_refused_not_hoarded(report: Make, batch: Batch) -> None:
    window = Window(WindowSettings(max_queues=10))
    reports = [report(START_NS + n, hop={"egress_port": f"Ethernet{n}"}) for n in range(50)]
    result = window.add(batch(reports))
    assert (result.accepted, result.rejected) == (10, 40)
    assert result.errors[0].detail == (
        "report 10 hops: received another queue than those held; a window holds 1000000 paths and 10 queues; "
        "raise max_queues, or look for a device that invents names; this report was left out"
    )
    assert window.counters.overflowed == 40
    assert window.add(batch([report(START_NS + 99, hop={"egress_port": "Ethernet3"})])).accepted == 1


def test_a_full_window_is_gone_through_once_a_quarter_of_it_has_left(
    report: Make, batch: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    swept = 0
    keep = KnownPaths.keep

    def counted(paths: KnownPaths, numbers: NDArray[np.int64]) -> NDArray[np.int32]:
        nonlocal swept
        swept += 1
        return keep(paths, numbers)

    monkeypatch.setattr(KnownPaths, "keep", counted)
    window = Window(WindowSettings(max_queues=10, n_periods=10))

    def add(number: int, port: int) -> int:
        ts_ns = START_NS + number * 20 * MS
        return window.add(batch([report(ts_ns, hop={"egress_port": f"E{port}"})])).accepted

    assert [add(number, number % 10) for number in range(500)] == [1] * 500  # E9 only in these ten seconds
    assert not any(add(499, port) for port in range(10, 60))
    assert [add(number, number % 9) + add(number, 99) for number in range(500, 600)] == [1] * 100
    assert swept == 0  # a fifth has left
    assert sum(add(number, number % 9) + add(number, 99) - 1 for number in range(600, 1_100)) == 50
    assert swept == 4  # each time three tenths have, until E9 has


def test_queues_no_longer_used_make_room_for_new_ones(report: Make, batch: Batch) -> None:
    window = Window(WindowSettings(max_queues=10, n_periods=2))
    for number in range(6):
        reports = [
            report(START_NS + number * S + n * 20 * MS, hop={"egress_port": f"E{3 * number + n % 3}"})
            for n in range(50)
        ]
        assert window.add(batch(reports)).rejected == 0
    assert [queue.ref.port for queue in window.state().queues] == ["E12", "E13", "E14", "E15", "E16", "E17"]


@pytest.mark.parametrize(
    ("ts_ns", "away", "remedy"),
    [
        (START_NS // 1_000, "55.9 years before", "send ts_ns in nanoseconds since 1970"),
        (START_NS // 1_000_000, "56 years before", "send ts_ns in nanoseconds"),
        (START_NS // 1_000_000_000, "56 years before", "send ts_ns in nanoseconds"),
        (START_NS - 3_600 * S, "60 minutes before", "correct the sink's clock"),
        (START_NS + 400 * 86_400 * S, "400 days after", "correct the sink's clock"),
        (0, "56 years before", "correct the sink's clock"),
    ],
)
def test_how_far_away_a_time_is_and_in_which_unit(
    report: Make, batch: Batch, ts_ns: int, away: str, remedy: str
) -> None:
    window = Window()
    window.add(batch(steady(report, 100)))
    said = window.add(batch([report(ts_ns)])).errors[0].detail
    assert f"{ts_ns}, {away} the window's end" in said
    assert remedy in said


def test_reports_of_another_fabric_go_when_one_is_declared(
    report: Make, batch: Batch, two_hosts: Topology
) -> None:
    window = Window(topology=two_hosts)
    window.add(batch(steady(report, 10)))
    window.set_topology(replace(two_hosts, links=two_hosts.links))
    assert window.state().n_reports == 10
    switch = replace(
        two_hosts, switches=("tor2",), links=tuple(replace(one, b="tor2") for one in two_hosts.links)
    )
    window.set_topology(switch)
    assert (len(window), window.span_ns) == (0, None)
    window.set_topology(two_hosts)
    assert window.add(batch(steady(report, 3))).accepted == 3
    assert window.state().n_reports == 3


def test_topology_can_be_declared_and_withdrawn(report: Make, batch: Batch, two_hosts: Topology) -> None:
    window = Window()
    window.add(batch(steady(report, 10)))
    assert not window.state().topology_declared
    assert window.state().flows.dst_host == ("10.0.0.2",)
    window.set_topology(two_hosts)
    assert window.topology is two_hosts
    assert window.state().flows.dst_host == ("h2",)
    window.set_topology(None)
    assert not window.state().topology_declared


def test_paths_groups_and_classes(report: Make, batch: Batch) -> None:
    window = Window(WindowSettings(period_ns=S, n_periods=5))
    small = [report(START_NS + n * S, sampling_rate=1.0, src="10.0.0.3") for n in range(5)]
    big = [report(START_NS + n * 10 * MS) for n in range(20)]
    once = [report(START_NS + 4 * S, sampling_rate=1.0, dst="10.0.0.4", hop={"egress_port": "Ethernet4"})]
    window.add(batch(small + big + once))
    state = window.state()
    assert state.flows_by_class == {
        FlowClass.MOUSE: 1,
        FlowClass.POTENTIAL_ELEPHANT: 1,
        FlowClass.ELEPHANT: 1,
    }
    assert [FlowClass(c) for c in state.flows.flow_class] == [
        FlowClass.ELEPHANT,
        FlowClass.POTENTIAL_ELEPHANT,
        FlowClass.MOUSE,
    ]
    assert state.flow_groups == 2
    assert sorted(state.flows.dst_host) == ["10.0.0.2", "10.0.0.2", "10.0.0.4"]
    assert [state.paths[path][0].port for path in state.flows.path] == ["Ethernet2", "Ethernet2", "Ethernet4"]
    assert state.packet_bytes == 1000


def test_a_flow_that_changes_path_is_shown_on_the_one_that_carried_more(report: Make, batch: Batch) -> None:
    window = Window()
    moved = [
        report(START_NS + n, hop={"egress_port": "Ethernet2" if n < 3 else "Ethernet5"}) for n in range(10)
    ]
    window.add(batch(moved))
    state = window.state()
    assert state.paths[state.flows.path[0]][0].port == "Ethernet5"


@pytest.mark.parametrize("ts_ns", [START_NS, 0, 2**63 - 1])
def test_one_report_alone_makes_a_state(report: Make, batch: Batch, ts_ns: int) -> None:
    window = Window()
    window.add(batch([report(ts_ns)]))
    state = window.state()
    assert state.duration_s == pytest.approx(0.001)
    assert len(state.flows) == len(state.arrivals) == 1


def test_a_flow_that_outlasts_the_window_is_persistent_from_its_start(report: Make, batch: Batch) -> None:
    window = Window(WindowSettings(period_ns=S, n_periods=3))
    window.add(batch(steady(report, 800)))
    arrivals = window.state().arrivals
    assert arrivals.wire_bytes.tolist() == [np.inf]
    assert arrivals.start_s.tolist() == [0.0]
    assert arrivals.n_samples.tolist() == [len(window)]


def test_a_flow_that_began_and_ended_inside_the_window_is_finite(report: Make, batch: Batch) -> None:
    window = Window(WindowSettings(period_ns=S, n_periods=3))
    burst = [report(START_NS + S + n * 6400, src="10.0.0.9") for n in range(30)]
    window.add(batch(steady(report, 200) + burst))
    arrivals = window.state().arrivals
    row = arrivals.src_host.index("10.0.0.9")
    assert arrivals.wire_bytes[row] == pytest.approx(30 * 100_000)
    assert arrivals.start_s[row] == pytest.approx(1.0, abs=1e-4)


def test_a_snapshot_does_not_see_what_comes_after(report: Make, batch: Batch) -> None:
    window = Window(WindowSettings(period_ns=S, n_periods=3, max_flows=50))
    window.add(batch(steady(report, 200)))
    snapshot = pickle.loads(pickle.dumps(window.snapshot()))
    kept = window.snapshot()
    window.add(many_flows(400, first_ns=START_NS + 3 * S))
    window.add(batch(steady(report, 300, first_ns=START_NS + 4 * S)))
    for one in (snapshot, kept):
        assert one.state().n_reports == 200
        assert one.state().window_end_ns == START_NS + 199 * 10 * MS + 1
        assert len(one.state().flows) == 1


def test_a_window_in_which_every_flow_was_merged_has_a_state(report: Make, batch: Batch) -> None:
    window = Window(WindowSettings(n_periods=4, max_flows=3))
    small = [report(START_NS + number, flow={"sport": number}) for number in range(40)]
    ahead = [report(START_NS + 4 * S, packet_bytes=9000, flow={"sport": number}) for number in (7, 8, 9)]
    window.add(batch(small))
    window.add(batch(ahead))  # too few to be followed, but the largest
    state = window.state()
    assert (state.n_reports, len(state.flows)) == (40, 0)
    assert state.bytes_by_class[FlowClass.MOUSE] == pytest.approx(4_000_000)


def test_hardly_any_room_is_enough_for_a_state(report: Make, batch: Batch) -> None:
    window = Window(WindowSettings(n_periods=2, max_reports=3, max_flows=1))
    shown = 0
    for number in range(30):  # flows are merged, and of those that were not nothing is held in the end
        flows = [{"sport": 40 * number + one} for one in range(40)]
        window.add(batch([report(START_NS + number * S // 3, flow=flow) for flow in flows]))
        if window.last_report_ns is not None:
            shown += window.state().n_reports > 0
    assert shown


def test_what_stands_for_many_goes_on_to_when_less_is_thinned(two_hosts: Topology) -> None:
    window = Window(WindowSettings(n_periods=2, max_reports=1000, max_flows=100_000), two_hosts)

    def bytes_of_the_few() -> float:
        flows = window.state().flows
        few = np.array([key.sport + (int(key.src.split(".")[2]) << 16) >= 1 << 16 for key in flows.keys])
        return float(flows.window_bytes[few].sum())

    window.add(many_flows(8000, first_ns=START_NS))
    window.add(many_flows(3000, first_ns=START_NS + S, first_flow=1 << 16))
    for number in range(4):  # the many leave, and less and less is thinned
        window.add(many_flows(2, first_ns=START_NS + 2 * S, first_flow=10_000 + 2 * number))
    before = bytes_of_the_few()
    assert before > 0
    window.add(many_flows(2000, first_ns=START_NS + 2 * S, first_flow=20_000))
    assert bytes_of_the_few() == before


@pytest.mark.parametrize("longer", [1000, 4144], ids=["alike", "another MTU"])
def test_a_longer_packet_makes_no_ends_of_its_senders_others(report: Make, batch: Batch, longer: int) -> None:
    window = Window()
    times = [START_NS + number * MS for number in range(20)]
    odd = [report(START_NS, packet_bytes=longer, flow={"sport": 65_000})]
    short = [report(START_NS + 100 * MS, packet_bytes=500, flow={"sport": 65_001})]
    window.add(batch([report(ts_ns) for ts_ns in times] + odd + short))
    assert window.state().arrivals.end_seen.tolist() == [False, False, True]
