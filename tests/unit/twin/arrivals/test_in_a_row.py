"""Moments one after the other: what is kept of each, and how chains go on."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from tests.unit.twin.fabrics import after, chained, star
from twin.arrivals.in_a_row import begun_bytes, in_a_row
from twin.replay.model import ReplayEngine
from twin.scenario import Scenario, Waits
from twin.watermark import Watermark

NOW = Watermark(1e5, 4e5, 0.2)
PAIRS = [(0, 1), (2, 1), (3, 4)]


def moment(name: str = "star", *, running: int = 1, **given: object) -> Scenario:
    """Three flows, of which the first ``running`` began before it."""
    found = star(PAIRS, name=name, **given)  # type: ignore[arg-type]
    start_s = np.where(np.arange(len(PAIRS)) < running, 0.0, found.flows.start_s + 1e-4)
    return replace(found, flows=replace(found.flows, start_s=start_s))


def test_what_ran_before_counts_in_the_first_only() -> None:
    found = in_a_row([moment("new"), moment("old", duration_s=0.03), moment("older")])
    assert found.name == "new"
    assert found.duration_s == pytest.approx(0.07)
    assert found.window_s == (pytest.approx(0.002), found.duration_s)
    assert found.flows.src == ("h0", "h2", "h3", "h2", "h3", "h2", "h3")
    offset_s = np.repeat([0.0, 0.02, 0.05], [3, 2, 2])
    assert found.flows.start_s - offset_s == pytest.approx([0, *[101e-6, 102e-6] * 3], abs=1e-12)
    assert [found.flows.path(flow) for flow in range(7)] == [(0, 9), *[(2, 9), (3, 12)] * 3]
    assert found.flows.waits is None


def test_a_moment_that_comes_again_is_told_from_others() -> None:
    once = moment()
    assert in_a_row([once, moment()]).repeated == pytest.approx(1.0)
    found = in_a_row([once, once, once])
    assert (found.duration_s, found.repeated) == (pytest.approx(0.06), pytest.approx(3.0))
    assert len(found.flows) == 3 + 2 + 2


def test_one_moment_is_itself() -> None:
    alone = moment(payload_bytes=[np.inf, 2e6, 2e6])
    found = in_a_row([alone])
    run, again = (ReplayEngine().predict(one, [NOW], seed=1) for one in (alone, found))
    assert run == again


def test_the_answer_is_that_of_all_flows_as_one_scenario() -> None:
    found = in_a_row([moment(), moment()])
    by_hand = star([*PAIRS, *PAIRS[1:]], duration_s=0.04)
    flows = replace(by_hand.flows, start_s=found.flows.start_s)
    by_hand = replace(by_hand, flows=flows, window_s=found.window_s)
    run, again = (ReplayEngine().predict(one, [NOW], seed=1) for one in (found, by_hand))
    assert run == again


def test_a_flow_without_an_end_counts_where_its_hosts_have_one_in_every_moment() -> None:
    endless = moment(payload_bytes=[np.inf, np.inf, 2e6], running=2)
    once = moment(payload_bytes=[np.inf, 2e6, 2e6], running=2)
    found = in_a_row([endless, once])
    assert found.flows.src == ("h0", "h3", "h3")
    assert np.isinf(found.flows.payload_bytes).tolist() == [True, False, False]


def test_begun_bytes_are_those_of_messages_that_begin_and_end() -> None:
    one = moment(payload_bytes=[1e6, np.inf, 3e6], running=1)
    assert begun_bytes(one) == one.flow_wire_bytes[2]


class TestChains:
    @staticmethod
    def of_pair(running: int, added: int = 1) -> Scenario:
        """Four messages of a chain, of which some began before, and one more that the chain is given."""
        found = chained(star([(0, 1)] * (4 + added)), gap_s=1e-6)
        start_s = np.where(np.arange(4 + added) < 4, 4e-3 * np.arange(4 + added), found.duration_s)
        start_s[:running] = 0.0
        return replace(found, flows=replace(found.flows, start_s=start_s))

    @staticmethod
    def two_of_pair() -> Scenario:
        """Two chains of a pair at once, of four messages each; both began before."""
        both = star([(0, 1)] * 8)
        waits = Waits.of([(), (), *((row,) for row in range(6))], np.zeros(8))
        start_s = np.repeat([0.0, 4e-3, 8e-3, 12e-3], 2)
        return replace(both, flows=replace(both.flows, start_s=start_s, waits=waits))

    def test_goes_on_in_the_next_moment(self) -> None:
        found = in_a_row([self.of_pair(1), self.of_pair(1), self.of_pair(1)])
        assert found.flows.waits is not None
        # Four messages, three (the first ran before), three and the one that the chain is given.
        assert after(found.flows.waits) == list(range(-1, 10))
        assert found.flows.waits.gap_s.tolist() == [1e-6] * 11
        assert found.flows.start_s[-1] == pytest.approx(found.duration_s)

    def test_goes_on_after_a_moment_in_which_none_of_it_began(self) -> None:
        """As where transfers are slow: one lasts as long as a moment."""
        of_others = self.of_pair(1)
        of_others = replace(of_others, flows=replace(of_others.flows, src=("h2",) * 5, dst=("h3",) * 5))
        without = moment(payload_bytes=[2e6], running=0)
        found = in_a_row([self.of_pair(1), of_others, without, self.of_pair(1)])
        assert found.flows.waits is not None
        waits = dict(zip(range(len(found.flows)), after(found.flows.waits), strict=True))
        last = [row for row, name in enumerate(found.flows.src) if name == "h0" and row in waits][-4:]
        assert [waits[row] for row in last] == [3, *last[:-1]]

    def test_each_of_two_at_once(self) -> None:
        both = self.two_of_pair()
        found = in_a_row([both, both])
        assert found.flows.waits is not None
        assert after(found.flows.waits) == [-1, -1, *range(12)]

    def test_what_ended_last_goes_on_before_what_nothing_followed(self) -> None:
        """Two chains of a pair in the first moment, one from then on."""
        both = self.two_of_pair()
        found = in_a_row([both, self.of_pair(1), self.of_pair(1)])
        assert found.flows.waits is not None
        assert after(found.flows.waits) == [-1, -1, *range(6), 6, *range(8, 14)]

    def test_steps_of_a_collective_go_on_in_the_next_moment(self) -> None:
        """Two hosts send to each other, step by step: each waits for what both sent in the step before."""
        found = star([(0, 1), (1, 0)] * 3)
        start_s = np.array([0.0, 0.0, 5e-3, 5e-3, found.duration_s, found.duration_s])
        waits = Waits(
            barrier=np.array([-1, -1, 0, 1, 2, 3]),
            gap_s=np.full(6, 1e-6),
            offset=np.arange(0, 9, 2),
            row=np.array([0, 1, 0, 1, 2, 3, 2, 3]),
        )
        found = replace(found, flows=replace(found.flows, start_s=start_s, waits=waits))
        row = in_a_row([found, found]).flows
        # The first two ran when the second moment began: its first step waits for the last of the first.
        assert row.start_s[4:].tolist() == pytest.approx([0.025, 0.025, 0.04, 0.04])
        assert row.waits is not None
        begin, after = row.waits.of_each_flow()
        assert [sorted(after[one:end].tolist()) for one, end in pairwise(begin.tolist())] == [
            *([], [], [0, 1], [0, 1]),
            *([2, 3], [2, 3], [4, 5], [4, 5]),
        ]

    def test_of_other_hosts_begin_when_they_were_seen_to(self) -> None:
        other = replace(star([(2, 3)] * 5), duration_s=0.02)
        other = replace(other, flows=replace(self.of_pair(1).flows, src=("h2",) * 5, dst=("h3",) * 5))
        found = in_a_row([self.of_pair(1), other])
        assert found.flows.waits is not None
        assert after(found.flows.waits) == [-1, 0, 1, 2, -1, 4, 5, 6]
        assert found.flows.start_s[4] == pytest.approx(0.024)

    def test_run_as_one_chain(self) -> None:
        """Under a slower watermark later messages start later, in the next moment too."""
        found = in_a_row([self.of_pair(0, 0), self.of_pair(1, 0)])
        quick, slow = ReplayEngine().predict(
            replace(found, window_s=(0.0, found.duration_s)),
            [Watermark(5e5, 2e6, 0.1), Watermark(1_000, 2_000, 1.0)],
            seed=1,
        )
        assert slow.slowdown["elephant"].n <= quick.slowdown["elephant"].n == 7
