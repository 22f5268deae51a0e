"""Which moments of traffic a round looks at beside the newest, and when traffic counts as changed."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.tuning.moments import (
    ASIDE_FOR,
    LEAST_BEGUN,
    LEAST_WINDOWS,
    LONG_MOMENTS,
    LOOKS_AGREE,
    MOST_ASIDE,
    Extent,
    Judged,
    Moments,
    Regime,
)
from telemetry.state import FlowClass, Incast, NetworkState
from tests.unit.service.tuning.rounds import state
from tests.unit.twin.fabrics import star
from twin.arrivals.in_a_row import begun_bytes
from twin.scenario import Scenario

NS = 1_000_000_000
WINDOW = state()
WHOLE = Extent(None, None)


def window(end_s: float, *, load: float = 1.0, mice: float = 0.5, fan_in: int = 2) -> NetworkState:
    """A window that ends then, of this load, share of bytes in mice and senders a receiver."""
    span_ns = WINDOW.window_end_ns - WINDOW.window_start_ns
    sent = 1e9 * load * WINDOW.duration_s
    return replace(
        WINDOW,
        window_start_ns=round(end_s * NS) - span_ns,
        window_end_ns=round(end_s * NS),
        bytes_by_class={FlowClass.MOUSE: mice * sent, FlowClass.ELEPHANT: (1 - mice) * sent},
        incast=(Incast("h3", fan_in, fan_in),),
    )


def moments(count: int = 4, **given_: float) -> Moments:
    return Moments(count, **({"moment_s": 0.02, "long_s": 0.0, "over_s": 300.0} | given_))


def ends_of(kept: Moments, end_s: float = 1e6) -> list[float]:
    """When the moments end that a round at ``end_s`` looks at beside its own, told by their names."""
    judged = kept.to_judge(star([(0, 1)]), WHOLE, window(end_s))
    return [float(one.name) for one in judged.moments[1:]]


def after(kept: Moments, *ends_s: float, load: float = 1.0) -> Moments:
    """After rounds on traffic of this load."""
    for end_s in ends_s:
        kept.saw(window(end_s, load=load), end_s)
        kept.keep(star([(0, 1)], name=str(end_s)), WHOLE, window(end_s, load=load), end_s)
    return kept


def test_the_newest_come_first() -> None:
    assert ends_of(after(moments(), 10, 20, 30)) == [30, 20, 10]


def test_beside_its_own_a_round_looks_at_one_less_than_the_count() -> None:
    assert ends_of(after(moments(), 10, 20, 30, 40)) == [40, 30, 20]


def test_they_spread_over_the_time_kept() -> None:
    kept = ends_of(after(moments(8), *range(10, 300, 5)), end_s=301)
    assert len(kept) == 7
    gaps = -np.diff(kept)
    assert gaps.max() <= 4 * gaps.min()
    assert kept[0] == 295
    assert kept[-1] < 100


def test_old_ones_go() -> None:
    kept = after(moments(), 10, 20, 300)
    kept.saw(window(315), 315)
    assert ends_of(kept) == [300, 20]


def test_one_that_overlaps_another_takes_its_place() -> None:
    kept = after(moments(), 10, 20)
    assert ends_of(after(kept, 20.01)) == [20.01, 10]


def test_a_round_does_not_look_at_what_overlaps_its_own() -> None:
    assert ends_of(after(moments(), 10, 20), end_s=20.01) == [10]


def test_all_moments_monitor_the_newest_ports() -> None:
    kept = after(moments(), 10, 20)
    newest = replace(star([(0, 1)]), monitored=(9,))
    assert {one.monitored for one in kept.to_judge(newest, WHOLE, window(30)).moments} == {(9,)}


def test_moments_that_show_other_ports_come_on_those_of_all() -> None:
    kept = moments()
    kept.keep(star([(5, 6)], n_hosts=7, name="wide"), WHOLE, window(10), 10)
    discovered = replace(window(30), topology_declared=False)
    narrow, wide = kept.to_judge(star([(1, 2)], n_hosts=4, name="narrow"), WHOLE, discovered).moments
    assert narrow.ports == wide.ports
    assert narrow.ports[:8] == star([(1, 2)], n_hosts=4).ports
    crossed = [
        [(one.ports[at].node, one.ports[at].port) for at in one.flows.path_ports] for one in (narrow, wide)
    ]
    assert crossed == [[("h1", None), ("s", "p2")], [("h5", None), ("s", "p6")]]
    assert {one.monitored for one in (narrow, wide)} == {(4, 5, 6, 7)}


def test_moments_of_another_topology_are_left_out() -> None:
    kept = after(moments(), 10)
    slower = star([(0, 1)])
    slower = replace(slower, ports=tuple(replace(port, rate_bytes_per_s=1e9) for port in slower.ports))
    (alone,) = kept.to_judge(slower, WHOLE, window(30)).moments
    assert alone.ports == slower.ports
    found = kept.to_judge(slower, WHOLE, replace(window(30), topology_declared=False)).moments
    assert [one.ports for one in found] == [slower.ports] * 2


def test_moments_on_ports_that_are_no_longer_declared_are_left_out() -> None:
    kept = moments()
    for end_s, n_hosts in ((10, 7), (20, 3)):
        kept.keep(star([(0, 1)], n_hosts=n_hosts, name=str(n_hosts)), WHOLE, window(end_s), end_s)
    judged = kept.to_judge(star([(1, 2)], n_hosts=4, name="4"), WHOLE, window(30))
    assert [one.name for one in judged.moments] == ["4", "3"]


def test_the_seconds_replayed_are_bounded() -> None:
    kept = after(moments(8, moment_s=0.01), 10, 20, 30, 40)  # each of 0.02 s
    assert ends_of(kept) == [40, 30, 20]


def test_few_reports_and_endless_flows_need_longer() -> None:
    kept = moments(moment_s=0.001)
    kept.keep(star([(0, 1)]), WHOLE, window(WINDOW.window_start_ns / NS - 1), 0.0)
    dense = replace(
        WINDOW, n_reports=10**9, arrivals=replace(WINDOW.arrivals, wire_bytes=np.ones(len(WINDOW.arrivals)))
    )
    assert kept.extent(dense, None) == Extent(0.001, 0.001)
    rate = 100_000 * dense.duration_s
    assert kept.extent(replace(dense, n_reports=round(rate)), None).look_s == pytest.approx(0.01)
    assert kept.extent(replace(dense, n_reports=1), None) == Extent(0.05, 0.05)
    endless = replace(dense.arrivals, wire_bytes=np.full(len(dense.arrivals), np.inf))
    assert kept.extent(replace(dense, arrivals=endless), None) == Extent(None, None)


@pytest.mark.parametrize(
    ("extent", "since_set_s", "expected"),
    [
        (Extent(0.01, 0.1, goes_on=True), 0.2, Extent(0.01, 0.1, goes_on=True)),
        (Extent(0.01, 0.1, goes_on=True), 0.04, Extent(0.01, 0.04, goes_on=True)),
        (Extent(0.01, 0.5, goes_on=True), 0.2, Extent(0.01, 0.2, goes_on=True)),
        (Extent(0.05, 0.05), 0.04, Extent(0.04, 0.04)),
        (Extent(None, None), 0.04, Extent(0.04, 0.04)),
        (Extent(None, None), math.inf, Extent(None, None)),
    ],
)
def test_nothing_is_replayed_of_before_a_change(extent: Extent, since_set_s: float, expected: Extent) -> None:
    assert extent.within(since_set_s) == expected


class TestLongMoments:
    BUSY = replace(
        WINDOW, n_reports=10**9, arrivals=replace(WINDOW.arrivals, wire_bytes=np.ones(len(WINDOW.arrivals)))
    )

    def kept(self) -> Moments:
        kept = moments(moment_s=0.001, long_s=0.008)
        kept.keep(star([(0, 1)]), WHOLE, window(WINDOW.window_start_ns / NS - 1), 0.0)
        return kept

    @staticmethod
    def lasting(seconds: float) -> NetworkState:
        """A window in which each message takes as long."""
        busy = TestLongMoments.BUSY
        return replace(busy, arrivals=replace(busy.arrivals, last_s=busy.arrivals.start_s + seconds))

    @pytest.mark.parametrize(("waiting", "length_s"), [(0.2, 0.008), (0.8, 0.001), (None, 0.001)])
    def test_only_where_large_messages_are_known_not_to_wait(
        self, waiting: float | None, length_s: float
    ) -> None:
        assert self.kept().extent(self.lasting(0.0001), waiting) == Extent(0.001, length_s, length_s > 0.001)

    @pytest.mark.parametrize(
        ("waiting", "look_s"), [(0.8, pytest.approx(0.009)), (0.2, 0.001), (None, 0.001)]
    )
    def test_where_they_wait_three_of_them_fit(self, waiting: float | None, look_s: float) -> None:
        assert self.kept().extent(self.lasting(0.003), waiting).look_s == look_s

    def test_not_more_than_a_round_replays(self) -> None:
        assert self.kept().extent(self.lasting(1.0), 0.8) == Extent(0.05, 0.05)

    def test_they_do_not_reach_back_to_the_moment_before(self) -> None:
        kept = moments(moment_s=0.001, long_s=10.0)
        kept.keep(star([(0, 1)]), WHOLE, window(WINDOW.window_end_ns / NS - 0.004), 0.0)
        found = kept.extent(self.BUSY, 0.0)
        assert found == Extent(0.001, pytest.approx(0.004, rel=1e-3), True)

    @staticmethod
    def judged(begun: float, extent: Extent, *, n_moments: int = 6) -> Judged:
        """What a round judges on where messages that begin in a moment carry this share of its bytes."""

        def of(end_s: float) -> tuple[Scenario, NetworkState]:
            scenario, seen = star([(0, 1), (2, 1)], name=str(end_s)), window(end_s)
            sent = begun_bytes(scenario) / begun * seen.duration_s / scenario.duration_s
            arrivals = replace(
                seen.arrivals, sent_bytes=np.full(len(seen.arrivals), sent / len(seen.arrivals))
            )
            return scenario, replace(seen, arrivals=arrivals)

        kept = moments(8, moment_s=0.005, long_s=0.02)
        for end_s in range(10, 10 * n_moments, 10):
            scenario, seen = of(end_s)
            kept.keep(scenario, extent, seen, end_s)
        scenario, seen = of(10 * n_moments)
        return kept.to_judge(scenario, extent, seen)

    def test_all_candidates_see_their_start_and_the_leaders_the_newest_in_a_row(self) -> None:
        judged = self.judged(1.01 * LEAST_BEGUN, Extent(0.005, 0.02, goes_on=True))
        assert [one.duration_s for one in judged.moments] == [0.005] * 6
        (long,) = judged.long
        assert long.name == "60"
        assert long.duration_s == pytest.approx(LONG_MOMENTS * 0.02)
        assert long.flows.src == ("h0", "h2", "h2", "h2", "h2")
        assert judged.traffic_s == pytest.approx(4 * 0.02 + 2 * 0.005)

    def test_each_for_itself_where_most_began_before(self) -> None:
        judged = self.judged(0.99 * LEAST_BEGUN, Extent(0.005, 0.02, goes_on=True))
        assert [one.name for one in judged.long] == ["60", "50", "40", "30"]
        assert [one.duration_s for one in judged.long] == [0.02] * 4
        assert judged.traffic_s == pytest.approx(4 * 0.02 + 2 * 0.005)

    def test_short_moments_in_a_row_are_long(self) -> None:
        (long,) = self.judged(1.0, Extent(0.02, 0.02, goes_on=True), n_moments=2).long
        assert (long.duration_s, long.repeated) == (pytest.approx(0.08), pytest.approx(2.0))

    @pytest.mark.parametrize("n_moments", [1, 2, 3, 4])
    def test_few_moments_come_again_and_count_once(self, n_moments: int) -> None:
        judged = self.judged(1.0, Extent(0.005, 0.02, goes_on=True), n_moments=n_moments)
        (long,) = judged.long
        assert long.duration_s == pytest.approx(0.08)
        assert long.repeated == pytest.approx(4 / n_moments)
        assert judged.traffic_s == pytest.approx(0.02 * n_moments)
        assert long.until(0.06).repeated == pytest.approx(max(3 / n_moments, 1.0))

    @pytest.mark.parametrize(
        ("begun", "extent"),
        [
            (1.0, Extent(0.005, 0.02)),  # its messages wait for others
            (0.5, Extent(0.02, 0.02, goes_on=True)),
        ],
    )
    def test_not_where_they_would_show_nothing_new(self, begun: float, extent: Extent) -> None:
        judged = self.judged(begun, extent)
        assert judged.long == ()
        assert judged.traffic_s == pytest.approx(sum(one.duration_s for one in judged.moments))


class TestAChangeOfTraffic:
    @pytest.mark.parametrize(
        ("new", "said"),
        [
            ({"load": 5.0}, "load 5 GB/s, before 1 GB/s"),
            ({"load": 0.1}, "load 100 MB/s, before 1 GB/s"),
            ({"mice": 0.02}, "carry 98 % of the bytes, before 50 %"),
            ({"fan_in": 16}, "16 senders at once to a receiver, before 2"),
        ],
    )
    def test_drops_the_moments_before_it(self, new: dict[str, float], said: str) -> None:
        kept = after(moments(), 10, 20, 30)
        assert said in str(kept.saw(window(40, **new), 40.0))  # type: ignore[arg-type]
        assert ends_of(kept) == []

    @pytest.mark.parametrize(
        "new",
        [{"load": 1.7}, {"load": 0.6}, {"mice": 0.2}, {"fan_in": 4}],
        ids=["more", "less", "fewer mice", "more senders"],
    )
    def test_is_seen_the_better_the_more_windows_there_were_before(self, new: dict[str, float]) -> None:
        def changed(n_windows: int) -> bool:
            kept = moments(8)
            for end_s in range(10, 10 * n_windows + 1, 10):
                assert kept.saw(window(end_s), end_s) is None
            return kept.saw(window(1_000, **new), 10.0 * n_windows + 1) is not None  # type: ignore[arg-type]

        assert not changed(2)
        assert changed(5)

    def test_is_not_seen_in_ordinary_swings(self) -> None:
        kept = moments(8)
        rng = np.random.default_rng(1)
        for end_s in range(10, 300, 5):
            swing = window(end_s, load=float(rng.lognormal(0.0, 0.2)), mice=float(rng.uniform(0.35, 0.65)))
            assert kept.saw(swing, end_s) is None
            kept.keep(star([(0, 1)]), WHOLE, swing, end_s)

    def test_is_not_seen_where_traffic_always_swings(self) -> None:
        kept = moments(8)
        for place, end_s in enumerate(range(10, 300, 5)):
            swing = window(end_s, load=(1.0, 3.0)[place % 2])
            changed = kept.saw(swing, end_s)
            assert changed is None, (place, changed)
            kept.keep(star([(0, 1)]), WHOLE, swing, end_s)

    @pytest.mark.parametrize(
        ("before", "same", "other"),
        [
            ([1.0] * 4 + [1.4], 2.7, 4.5),
            ([1.0] * 4 + [1.4, 3.0, 3.9], 3.9, 4.5),
            ([1.0] * 29 + [0.7], 1.4, 1.6),
            ([1.0, 1.4, 0.7] * 6, 2.5, 4.5),
        ],
        ids=["one far off", "ever farther off", "one of many", "always"],
    )
    def test_what_was_far_off_once_does_not_hide_what_is_farther(
        self, before: list[float], same: float, other: float
    ) -> None:
        loads = [Regime(1e9 * times, (0.2, 0.3, 0.5), 2.0) for times in (*before, same, other)]
        assert loads[-2].unlike(loads[:-2]) is None
        assert loads[-1].unlike(loads[:-2]) is not None

    @given(
        st.lists(
            st.builds(Regime, st.floats(0, 1e12), st.just((0.2, 0.3, 0.5)), st.floats(1, 1e3)), max_size=9
        )
    )
    def test_the_same_traffic_is_no_change(self, seen: list[Regime]) -> None:
        for one in seen:
            assert one.unlike([one] * 4) is None
            assert one.unlike([]) is None


class TestLooks:
    """Between rounds, at whether a round should begin before its time."""

    def test_several_in_a_row_that_find_other_traffic_do(self) -> None:
        kept = after(moments(), 10)
        found = [kept.look(window(end_s, load=9.0), end_s) for end_s in range(11, 11 + LOOKS_AGREE)]
        assert found == [False] * (LOOKS_AGREE - 1) + [True]

    def test_a_single_one_does_not(self) -> None:
        kept = after(moments(), 10)
        found = [kept.look(window(20 + at, load=(9.0, 1.0)[at % 2]), 20 + at) for at in range(8)]
        assert not any(found)

    def test_nor_do_several_at_one_window(self) -> None:
        kept = after(moments(), 10)
        odd = window(20, load=9.0)
        assert not any([kept.look(odd, 20), kept.look(odd, 25), kept.look(odd, 30)])

    def test_the_round_says_what_changed(self) -> None:
        kept = after(moments(), 10)
        for end_s in (20, 30):
            kept.look(window(end_s, load=9.0), end_s)
        assert "before 1 GB/s" in str(kept.saw(window(31, load=9.0), 31))
        assert not kept.look(window(40, load=9.0), 40)

    def test_windows_apart_sharpen_what_counts_as_the_same(self) -> None:
        def changed(ends_s: list[float]) -> bool:
            kept = moments()
            assert not any(kept.look(window(end_s), end_s) for end_s in ends_s)
            return kept.saw(window(1_000, load=1.7), ends_s[-1]) is not None

        assert changed([20, 40, 60, 80, 100])
        overlapping = 1e-3 * WINDOW.duration_s
        assert not changed([20 + overlapping * at for at in range(5)])

    def test_one_in_which_traffic_changes_does_not_hide_the_change(self) -> None:
        kept = after(moments(), 10, 20, 30, 40)
        loads = [1.45, 2.0, 2.0]  # first a window in which it doubles
        assert [
            kept.look(window(50 + 10 * at, load=load), 50 + 10 * at) for at, load in enumerate(loads)
        ] == [
            *[False] * LOOKS_AGREE,
            True,
        ]

    def test_before_the_first_window_nothing_is_another(self) -> None:
        assert not any(moments().look(window(10, load=9.0), 10) for _ in range(5))


class TestTrafficThatComesBack:
    def test_brings_its_moments_along(self) -> None:
        kept = after(after(moments(), 10, 20, 30, 40, 50), 60, 70, 80, 90, load=9.0)
        said = kept.saw(window(100), 100)
        assert "such traffic was last seen 50 s ago" in str(said)
        assert ends_of(kept) == [50, 40, 30]

    def test_is_known_as_well_as_before(self) -> None:
        kept = after(after(moments(), 10, 20, 30, 40, 50), 60, 70, 80, 90, load=9.0)
        kept.saw(window(100), 100)
        assert "last seen" in str(kept.saw(window(110, load=8.0), 110))

    def test_has_aged_only_while_it_was_there(self) -> None:
        kept = after(after(moments(over_s=100.0), 10, 20, 30, 40, 50), *range(60, 600, 20), load=9.0)
        kept.saw(window(600), 600)
        assert ends_of(kept) == [50, 40, 30]
        kept.saw(window(695), 695)
        assert ends_of(kept) == [50]

    def test_is_not_known_from_few_windows(self) -> None:
        kept = after(after(moments(), *range(10, 10 * LEAST_WINDOWS, 10)), 60, 70, 80, 90, load=9.0)
        assert "last seen" not in str(kept.saw(window(100), 100))
        assert ends_of(kept) == []

    def test_is_forgotten_after_long(self) -> None:
        kept = after(after(moments(over_s=100.0), 10, 20, 30, 40, 50), *range(60, 200, 20), load=9.0)
        late_s = 60 + 100.0 * ASIDE_FOR
        after(kept, late_s - 20, late_s - 10, late_s, load=9.0)
        assert "last seen" not in str(kept.saw(window(late_s + 10), late_s + 10))

    def test_only_so_many_kinds_are_kept(self) -> None:
        kept = moments()
        loads = [10.0**at for at in range(MOST_ASIDE + 2)]
        for at, load in enumerate(loads):
            after(kept, *range(100 * at + 10, 100 * at + 60, 10), load=load)
        end_s = 100 * len(loads)
        assert "last seen" not in str(kept.saw(window(end_s, load=loads[0]), end_s))
        assert "last seen" in str(kept.saw(window(end_s + 10, load=loads[-2]), end_s + 10))
