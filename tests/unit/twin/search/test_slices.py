"""Which receivers make a slice, and what a round looks at within its budget."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import spearmanr

from bench.replay import fabric_under
from tests.unit.twin.fabrics import star
from twin.replay.model import ReplayEngine
from twin.scenario import Scenario, packet_hops
from twin.search.gain import POLICIES, gain_over
from twin.search.looks import CORES, HOP_S, LEAST_HOSTS, WHOLE_SHARE, full_runs, long_moments, plan
from twin.search.problem import SearchSettings, TuningProblem
from twin.search.recommendation import Recommendation
from twin.search.round import Progress, tune
from twin.search.slices import deal, groups, last_ports, slices
from twin.watermark import Watermark
from twin.workers.pool import InProcessWorkers, ProcessWorkers, Workers

NOW = Watermark(400_000, 1_600_000, 0.2)
SETTINGS = SearchSettings()


@pytest.fixture(scope="module")
def large() -> Scenario:
    """128 hosts below eight leaves, all of them receivers."""
    return fabric_under(8, 4, 16, 400.0, 0.6, 4e-3, "paper")


class TestDealing:
    def test_a_rack_stays_together(self, large: Scenario) -> None:
        slice_of = deal(large, 4)
        racks: dict[str, set[int]] = {}
        for port, number in slice_of.items():
            racks.setdefault(large.ports[port].node, set()).add(number)
        assert all(len(numbers) == 1 for numbers in racks.values())
        assert Counter(number for numbers in racks.values() for number in numbers) == dict.fromkeys(
            range(4), 2
        )

    def test_where_racks_are_few_ports_are_dealt(self) -> None:
        few = fabric_under(2, 2, 8, 200.0, 0.6, 1e-3, "paper")
        assert all(len(ports) == 1 for ports in groups(few))
        sizes = Counter(deal(few, 4).values())
        assert max(sizes.values()) - min(sizes.values()) <= 1

    def test_slices_are_alike_in_load(self) -> None:
        scenario = fabric_under(32, 4, 4, 400.0, 0.6, 2e-3, "paper")
        slice_of = deal(scenario, 4)
        load = np.zeros(4)
        for port, wire in zip(last_ports(scenario).tolist(), scenario.flow_wire_bytes.tolist(), strict=True):
            load[slice_of[port]] += wire
        assert load.max() < 1.5 * load.min()

    def test_a_slice_monitors_what_only_its_flows_cross(self, large: Scenario) -> None:
        _, [part], _ = slices(large, deal(large, 4), [1], NOW, 1)
        flows = large.flows
        mine = np.isin(last_ports(large), [port for port, number in deal(large, 4).items() if number == 1])
        others = {port for flow in np.flatnonzero(~mine).tolist() for port in flows.path(flow)}
        assert len(part.flows) == np.count_nonzero(mine)
        assert part.monitored
        assert not others & set(part.monitored)
        background = part.background
        assert background is not None
        assert not set(background.ports.tolist()) & set(part.monitored)
        assert {flows.path(flow)[0] for flow in np.flatnonzero(mine).tolist()} & set(
            background.ports.tolist()
        )

    def test_a_slice_away_from_the_monitored_ports_monitors_its_own(self, large: Scenario) -> None:
        """A live window monitors busy ports alone, and they may all be in one rack."""
        slice_of = deal(large, 4)
        hot = next(ports for ports in groups(large) if slice_of[ports[0]] == 0)
        _, parts, _ = slices(replace(large, monitored=tuple(hot)), slice_of, range(4), NOW, 1)
        _, as_usual, _ = slices(large, slice_of, range(4), NOW, 1)
        assert set(parts[0].monitored) == set(hot)
        assert [set(one.monitored) for one in parts[1:]] == [set(one.monitored) for one in as_usual[1:]]


class TestOwnShare:
    def test_bytes_wait_at_receivers_or_at_oversubscribed_uplinks(self) -> None:
        for uplink_gbps, load, low, high in ((400.0, 0.6, 0.95, 1.0), (100.0, 0.2, 0.0, 0.8)):
            scenario = fabric_under(8, 4, 16, uplink_gbps, load, 2e-3, "paper")
            own = slices(scenario, deal(scenario, 4), range(4), NOW, 1)[2]
            assert low < own <= high

    def test_then_fewer_candidates_run_on_the_whole(self) -> None:
        scenario = fabric_under(8, 4, 16, 100.0, 0.2, 4e-3, "paper")
        problem = TuningProblem(scenario=scenario, incumbent=NOW, base=NOW, dominant_class="elephant")
        small = replace(TestRound.SMALL, candidates=80, budget_s=0.3)
        answer = tune(problem, small, seed=1, workers=InProcessWorkers())
        assert "at ports that slices of this fabric share" in answer.notes[0]
        assert len(answer.candidates) < 40
        assert answer.incumbent_prediction == ReplayEngine().predict(scenario, [NOW], seed=1)[0]


class TestPlan:
    def test_a_small_fabric_is_looked_at_whole(self) -> None:
        small = fabric_under(4, 2, 16, 400.0, 0.6, 1e-3, "paper")
        found = plan([small], replace(SETTINGS, budget_s=1e-6))
        assert (found.n_slices, found.notes) == (1, ())
        assert np.count_nonzero(small.is_nic) < LEAST_HOSTS

    def test_what_the_budget_pays_for_is_looked_at_whole(self, large: Scenario) -> None:
        takes_s = full_runs(SETTINGS, 1) * HOP_S * packet_hops(large, large.duration_s)
        assert plan([large], replace(SETTINGS, budget_s=1.01 * takes_s)).n_slices == 1
        assert plan([large], replace(SETTINGS, budget_s=0.9 * takes_s)).n_slices > 1

    def test_a_moment_of_few_receivers_is_not_dealt_to_more_slices(self, large: Scenario) -> None:
        few = np.flatnonzero(np.isin(last_ports(large), np.unique(last_ports(large))[:3]))
        moments = [large, replace(large, flows=large.flows.only(np.isin(np.arange(len(large.flows)), few)))]
        found = plan(moments, replace(SETTINGS, budget_s=0.1))
        assert found.n_slices == 1

    def test_a_lesser_budget_looks_at_less(self, large: Scenario) -> None:
        moments = [large] * 8
        found = [plan(moments, replace(SETTINGS, budget_s=budget_s)) for budget_s in (30.0, 5.0, 2.0, 0.1)]
        assert [one.n_slices for one in found] == sorted(one.n_slices for one in found)
        assert [len(one.looks) for one in found] == sorted((len(one.looks) for one in found), reverse=True)
        assert len(found[-1].looks) == 4
        assert found[-1].n_whole == 0
        assert "all of it would take too long even for the leaders" in found[-1].notes[0]

    def test_moments_are_looked_at_in_different_slices(self, large: Scenario) -> None:
        looks = plan([large] * 8, replace(SETTINGS, budget_s=6.0)).looks
        assert [one.moment for one in looks] == list(range(len(looks)))
        assert len({one.slice for one in looks}) > 1

    def test_one_moment_is_looked_at_four_times(self, large: Scenario) -> None:
        found = plan([large], replace(SETTINGS, budget_s=1.0))
        assert [one.moment for one in found.looks] == [0] * 4
        assert len({one.slice for one in found.looks}) == 4 <= found.n_slices

    def test_other_engines_look_at_everything(self, large: Scenario) -> None:
        assert plan([large], replace(SETTINGS, engine="fluid", budget_s=0.01)).n_slices == 1

    def test_slices_of_too_few_flows_are_not_cut(self) -> None:
        sparse = fabric_under(8, 4, 16, 400.0, 0.05, 1e-3, "paper")
        found = plan([sparse], replace(SETTINGS, budget_s=1e-4))
        assert found.n_slices == 1
        assert "too few" in found.notes[0]
        assert found.candidates_share < 1.0


class TestLongMoments:
    @staticmethod
    def paid_for(large: Scenario, count: float) -> SearchSettings:
        """A budget that pays for the leaders on so many of these moments."""
        each_s = 4 * SETTINGS.leaders * HOP_S * packet_hops(large, large.duration_s)
        return replace(SETTINGS, budget_s=count * each_s / (WHOLE_SHARE * CORES))

    @pytest.mark.parametrize("count", [4, 2, 0])
    def test_as_many_as_the_budget_allows_the_leaders(self, large: Scenario, count: int) -> None:
        found, (note,) = long_moments([large] * 4, self.paid_for(large, count + 0.01), 0.1 * large.duration_s)
        assert found == (large,) * count
        assert ("compared" if count else "longer than the budget") in note

    def test_the_last_is_cut_short(self, large: Scenario) -> None:
        first, last = long_moments([large] * 4, self.paid_for(large, 1.5), 0.1 * large.duration_s)[0]
        assert first == large
        assert 0.4 < last.duration_s / large.duration_s < 0.8

    def test_one_hardly_longer_than_what_all_candidates_saw_is_left_out(self, large: Scenario) -> None:
        found, _ = long_moments([large] * 4, self.paid_for(large, 1.5), 0.45 * large.duration_s)
        assert found == (large,)

    def test_of_a_fabric_in_parts_none_run(self, large: Scenario) -> None:
        found, notes = long_moments([large], SETTINGS, 0.1 * large.duration_s, in_parts=True)
        assert found == ()
        assert notes == (
            "Elephants may pile up more than predicted: a fabric in parts or slices is judged on short "
            "moments only.",
        )

    def test_none_given_none_said(self) -> None:
        assert long_moments([], SETTINGS, 0.01, in_parts=True) == ((), ())


class TestRound:
    def test_a_fabric_in_parts_that_the_budget_makes_look_at_less(self) -> None:
        apart = [star([(0, 1), (2, 1), (4, 5), (6, 7)], n_hosts=130, duration_s=5e-4) for _ in range(3)]
        hurried = replace(SETTINGS, candidates=8, narrowed=2, leaders=2, second_engine=None, budget_s=1e-4)
        asked = TuningProblem(
            scenario=apart[0], incumbent=NOW, base=NOW, dominant_class="mouse", earlier=tuple(apart[1:])
        )
        answer = tune(asked, hurried, seed=1, workers=InProcessWorkers())
        assert len(answer.parts) == 3
        assert answer.watermark != NOW

    SMALL = SearchSettings(
        candidates=24, narrowed=8, leaders=3, seeds=1, most_seeds=1, batch=8, second_engine=None, budget_s=1.0
    )

    def ask(self, large: Scenario, workers: Workers, seen: list[Progress] | None = None) -> Recommendation:
        problem = TuningProblem(scenario=large, incumbent=NOW, base=NOW, dominant_class="elephant")
        progress = (lambda _: None) if seen is None else seen.append
        return tune(problem, self.SMALL, seed=1, workers=workers, progress=progress)

    def test_leaders_decide_on_the_whole(self, large: Scenario) -> None:
        seen: list[Progress] = []
        answer = self.ask(large, InProcessWorkers(), seen)
        stages = list(dict.fromkeys(one.stage for one in seen))
        assert stages[0] == "slices"
        assert "whole fabric" in stages
        assert "candidates were compared on 4 slices" in answer.notes[0]
        assert "leaders on all of it" in answer.notes[0]
        now, new = ReplayEngine().predict(large, [NOW, answer.watermark], seed=1)
        assert answer.incumbent_prediction == now
        assert answer.winner_prediction == new
        assert answer.parts[0].n_flows == len(large.flows)

    def test_the_answer_does_not_depend_on_the_workers(self, large: Scenario) -> None:
        with closing(ProcessWorkers(2)) as pool:
            assert self.ask(large, pool) == self.ask(large, InProcessWorkers())

    def test_candidates_that_ran_on_slices_are_shown_as_on_the_whole(self, large: Scenario) -> None:
        answer = self.ask(large, InProcessWorkers())
        tried = [one.watermark for one in answer.candidates]
        whole = ReplayEngine().predict(large, tried, seed=1)
        for one, ran in zip(answer.candidates, whole, strict=True):
            assert one.prediction.goodput_bytes_per_s == pytest.approx(ran.goodput_bytes_per_s, rel=0.15)
        by_slices = [one.score for one in answer.candidates]
        policy = POLICIES["balanced"]
        by_whole = [gain_over(whole[tried.index(NOW)], one, policy, 0.0).value for one in whole]
        assert spearmanr(by_slices, by_whole).statistic > 0.9
