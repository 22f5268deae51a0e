"""Watermark, port roles and NICs together: what matters is found, the rest is left, and shares add up."""

from __future__ import annotations

import math
from contextlib import closing
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest

from telemetry.topology import GBPS
from tests.unit.twin.analytic_engine import AnalyticEngine
from tests.unit.twin.fabrics import star
from tests.unit.twin.search.test_round import COUPLED, INCUMBENT, problem, settings
from twin.errors import ParameterError, ScenarioError
from twin.prediction import Prediction, SolveStatus
from twin.scenario import Scenario
from twin.search.co_tuning import change_of
from twin.search.coordinates import SENDERS, Settings, coordinates
from twin.search.problem import SearchSettings, TuningProblem
from twin.search.recommendation import CoTuning, SettingChange
from twin.search.round import tune
from twin.senders.dcqcn import PAPER, VENDOR, DcqcnParams
from twin.watermark import RoleWatermarks, Setting, Watermark, WatermarkBounds
from twin.workers.pool import InProcessWorkers, ProcessWorkers

HERE = "tests.unit.twin.search.test_co_tuning"
BEST_CUT_S = 10e-6
SLOW = "leaf-host-25G"


class SendersMatter(AnalyticEngine):
    """Every flow is slower by how far the cut interval is from 10 µs, whatever else senders run."""

    def predict(self, scenario: Scenario, watermarks: Any, *, seed: int) -> list[Prediction]:
        away = abs(math.log(scenario.dcqcn.cnp_interval_s / BEST_CUT_S))
        return [self.slower(self.one(scenario, one.usual, seed), 1.0 + 0.3 * away) for one in watermarks]

    @staticmethod
    def slower(found: Prediction, factor: float) -> Prediction:
        slowdown = {
            name: replace(one, mean=one.mean * factor, p99=one.p99 * factor)
            for name, one in found.slowdown.items()
        }
        return replace(found, slowdown=slowdown)


class ClassesMatter(SendersMatter):
    """Every flow is slower by how far cut intervals of senders are, on average, from that of their class."""

    BEST_S: ClassVar = {"h100": 10e-6, "b200": 60e-6}

    def predict(self, scenario: Scenario, watermarks: Any, *, seed: int) -> list[Prediction]:
        away = np.mean(
            [
                abs(math.log(scenario.dcqcn_of(host).cnp_interval_s / self.BEST_S[scenario.nic_class[host]]))
                for host in scenario.flows.src
            ]
        )
        return [self.slower(self.one(scenario, one.usual, seed), 1.0 + 0.3 * away) for one in watermarks]


class FastSendersFail(SendersMatter):
    """Runs with a cut interval below 20 µs do not end."""

    def predict(self, scenario: Scenario, watermarks: Any, *, seed: int) -> list[Prediction]:
        if scenario.dcqcn.cnp_interval_s < 20e-6:
            return [Prediction.failed(one, SolveStatus.DIVERGED) for one in watermarks]
        return super().predict(scenario, watermarks, seed=seed)


class WatermarkFailsBesideFastSenders(SendersMatter):
    """What runs now does not end with a cut interval below 20 µs."""

    def predict(self, scenario: Scenario, watermarks: Any, *, seed: int) -> list[Prediction]:
        found = super().predict(scenario, watermarks, seed=seed)
        fast = scenario.dcqcn.cnp_interval_s < 20e-6
        return [
            Prediction.failed(mark, SolveStatus.BUDGET) if fast and mark.usual == INCUMBENT else one
            for mark, one in zip(watermarks, found, strict=True)
        ]


class NextToNothing(AnalyticEngine):
    """A quarter of the cut interval gains 6 %; four times R_AI or g gain 0.9 % each."""

    def predict(self, scenario: Scenario, watermarks: Any, *, seed: int) -> list[Prediction]:
        gain = 0.0
        for field, factor, most in (
            ("cnp_interval_s", 1 / 4, 0.06),
            ("ai_rate_bytes_per_s", 4.0, 0.009),
            ("gain", 4.0, 0.009),
        ):
            moved = math.log(getattr(scenario.dcqcn, field) / getattr(PAPER, field)) / math.log(factor)
            gain += most * (1.0 - (moved - 1.0) ** 2)
        return [
            SendersMatter.slower(self.one(scenario, one.usual, seed), math.exp(-gain)) for one in watermarks
        ]


class SlowPortsWantMuch(SendersMatter):
    """As ``SendersMatter``, and the slower, the further ports of 25 Gbit/s are from 400 KB; nothing else."""

    def predict(self, scenario: Scenario, watermarks: Any, *, seed: int) -> list[Prediction]:
        usual = [RoleWatermarks.of(INCUMBENT, {})] * len(watermarks)
        of_slow = [dict(one.exceptions).get(SLOW, one.usual) for one in watermarks]
        return [
            self.slower(replace(found, watermark=one), 1.0 + 0.3 * abs(math.log(mark.kmin_bytes / 4e5)))
            for one, mark, found in zip(
                watermarks, of_slow, super().predict(scenario, usual, seed=seed), strict=True
            )
        ]


class SlowPortsRunTheirBest(AnalyticEngine):
    """As ``AnalyticEngine``, and the slower, the further ports of 25 Gbit/s are from 2 MB."""

    def predict(self, scenario: Scenario, watermarks: Any, *, seed: int) -> list[Prediction]:
        of_slow = [dict(one.exceptions).get(SLOW, one.usual) for one in watermarks]
        return [
            SendersMatter.slower(
                self.one(scenario, one.usual, seed), 1.0 + abs(math.log(mark.kmin_bytes / 2e6))
            )
            for one, mark in zip(watermarks, of_slow, strict=True)
        ]


class Disagrees(AnalyticEngine):
    """A second engine for which a short cut interval makes everything worse."""

    def predict(self, scenario: Scenario, watermarks: Any, *, seed: int) -> list[Prediction]:
        factor = 1.0 + 50e-6 / scenario.dcqcn.cnp_interval_s
        return [SendersMatter.slower(self.one(scenario, one.usual, seed), factor) for one in watermarks]


class Refuses(AnalyticEngine):
    """A second engine that refuses every scenario."""

    def predict(self, scenario: Scenario, watermarks: Any, *, seed: int) -> list[Prediction]:
        raise ScenarioError("scenario", None, "paths are too long", "shorten them")


class RolesMatter(AnalyticEngine):
    """The host ports decide by their own thresholds, as ``AnalyticEngine`` says, uplinks do nothing."""

    def predict(self, scenario: Scenario, watermarks: Any, *, seed: int) -> list[Prediction]:
        def of_hosts(setting: Setting) -> Watermark:
            return dict(setting.exceptions).get(SLOW, setting.usual)

        return [self.one(scenario, of_hosts(one), seed) for one in watermarks]


class BothMatter(SendersMatter):
    """As ``SendersMatter``, and the slower, the further ports of 25 Gbit/s are from 2 MB."""

    def predict(self, scenario: Scenario, watermarks: Any, *, seed: int) -> list[Prediction]:
        of_slow = [dict(one.exceptions).get(SLOW, one.usual) for one in watermarks]
        return [
            self.slower(found, 1.0 + 0.1 * abs(math.log(mark.kmin_bytes / 2e6)))
            for mark, found in zip(of_slow, super().predict(scenario, watermarks, seed=seed), strict=True)
        ]


def together(engine: str, what: tuple[str, ...] = ("watermark", "nic"), **more: Any) -> CoTuning | None:
    asked = more.pop("problem", problem(COUPLED))
    workers = more.pop("workers", InProcessWorkers())
    how = replace(settings(**more), engine=f"{HERE}:{engine}", what=what)  # type: ignore[arg-type]
    return tune(asked, how, seed=3, workers=workers).co_tuning


def found(engine: str, **more: Any) -> CoTuning:
    answer = together(engine, **more)
    assert answer is not None
    return answer


@pytest.fixture(scope="module")
def of_senders() -> CoTuning:
    return found("SendersMatter")


def test_the_value_that_matters_is_found_and_the_others_stay(of_senders: CoTuning) -> None:
    assert {one.name for one in of_senders.changes} <= {"watermark", "cut interval"}
    assert of_senders.senders.cnp_interval_s == pytest.approx(BEST_CUT_S, rel=0.35)
    assert replace(of_senders.senders, cnp_interval_s=PAPER.cnp_interval_s) == PAPER
    first, *others = of_senders.sensitivities
    assert first.name == "cut interval"
    assert first.gain > 0.1
    assert len(others) == 10
    assert all(abs(one.gain) < 1e-9 for one in others)


def test_it_is_recommended_by_how_much_more_it_gains(of_senders: CoTuning) -> None:
    assert of_senders.recommended
    assert of_senders.more == pytest.approx(of_senders.gain - of_senders.alone)
    # By the formula: half of the weight is on elephants, half on mice, and both are as much slower.
    at_50_us = 1.0 + 0.3 * abs(math.log(PAPER.cnp_interval_s / BEST_CUT_S))
    assert of_senders.more == pytest.approx(math.log(at_50_us), abs=0.05)
    assert "cut interval 50 →" in of_senders.sentence


def test_the_shares_of_a_change_add_up_to_its_gain(of_senders: CoTuning) -> None:
    [of_cut] = [one.share for one in of_senders.changes if one.name == "cut interval"]
    assert sum(one.share for one in of_senders.changes) == pytest.approx(of_senders.gain, abs=0.03)
    assert of_cut == pytest.approx(of_senders.more, abs=0.03)


def test_the_way_there_is_predicted_for_either_order(of_senders: CoTuning) -> None:
    of = {one.name: one.share for one in of_senders.changes}
    assert of_senders.watermark_first is not None
    assert of_senders.others_first is not None
    # Here parts do not depend on each other: what each gains alone is its share.
    assert of_senders.watermark_first.gain == pytest.approx(of["watermark"], abs=0.03)
    assert of_senders.others_first.gain == pytest.approx(of["cut interval"], abs=0.03)
    assert of_senders.queue_ratio == of_senders.watermark_first.queue_ratio != 1.0
    assert of_senders.others_first.queue_ratio == 1.0  # senders do not move this engine's queue


def test_what_senders_run_is_tried_within_bounds_alone() -> None:
    bounds = (("cnp_interval_s", 20, 60), ("ai_rate_bytes_per_s", 30, 50), ("byte_counter_bytes", 0, 0))
    answer = found("SendersMatter", sender_bounds=bounds)
    assert answer.senders.cnp_interval_s == pytest.approx(20e-6)
    tried = {one.name: one for one in answer.sensitivities}
    assert tried["additive increase"].best in (30, 50)
    assert tried["byte counter"].best is None


@pytest.mark.parametrize(
    "bounds", [("nothing", 1, 2), ("cnp_interval_s", 200, 300), ("byte_counter_bytes", 1, 5)]
)
def test_bounds_without_a_value_that_is_tried_are_refused(bounds: tuple[str, float, float]) -> None:
    with pytest.raises(ParameterError, match="sender_bounds"):
        SearchSettings(sender_bounds=(bounds,))


def test_the_recommendation_itself_is_that_of_the_watermark_alone() -> None:
    def answer(*what: str) -> Watermark:
        how = replace(settings(), engine=f"{HERE}:SendersMatter", what=what)  # type: ignore[arg-type]
        return tune(problem(COUPLED), how, seed=3, workers=InProcessWorkers()).watermark

    assert answer("watermark", "nic") == answer("watermark")


def test_nothing_is_said_of_nics_that_may_not_be_set() -> None:
    assert together("SendersMatter", what=("watermark",)) is None


def test_where_nothing_gains_nothing_is_changed() -> None:
    answer = found("PlainSenders")
    assert not answer.recommended
    assert [one.name for one in answer.changes] == ["watermark"]
    assert "Nothing beside the watermark gains" in answer.sentence


class PlainSenders(AnalyticEngine):
    """Senders do nothing."""

    def predict(self, scenario: Scenario, watermarks: Any, *, seed: int) -> list[Prediction]:
        return [self.one(scenario, one.usual, seed) for one in watermarks]


def test_values_whose_runs_fail_are_not_chosen() -> None:
    answer = found("FastSendersFail")
    assert answer.senders.cnp_interval_s >= 20e-6
    assert math.isfinite(answer.gain)


def test_what_the_second_engine_contradicts_is_not_recommended() -> None:
    answer = found("SendersMatter", second_engine=f"{HERE}:Disagrees")
    assert answer.second_more is not None
    assert answer.second_more < 0.0
    assert not answer.recommended
    assert "not sure enough" in answer.sentence


def test_a_second_engine_that_would_see_next_to_nothing_is_not_asked() -> None:
    answer = found("SendersMatter", second_engine=f"{HERE}:Disagrees", second_packet_hops=10)
    assert answer.second_more is None
    assert answer.recommended


def test_a_second_engine_that_fails_ends_no_round() -> None:
    how = replace(settings(), engine=f"{HERE}:SendersMatter", what=("watermark", "nic"))
    how = replace(how, second_engine=f"{HERE}:Refuses")
    answer = tune(problem(COUPLED), how, seed=3, workers=InProcessWorkers())
    assert "paths are too long" in " ".join(answer.notes)
    assert answer.co_tuning is not None
    assert answer.co_tuning.second_more is None
    assert answer.co_tuning.recommended


def test_a_second_engine_whose_runs_fail_has_no_say() -> None:
    answer = found("SendersMatter", second_engine=f"{HERE}:FastSendersFail")
    assert answer.senders.cnp_interval_s < 20e-6
    assert answer.second_more is None
    assert answer.recommended
    assert "nan" not in answer.sentence


def test_traffic_that_is_not_like_the_networks_gets_no_joint_change() -> None:
    unlike = problem(COUPLED, unlike="Replayed, what runs now is not what was measured.")
    assert together("SendersMatter", problem=unlike) is None


@pytest.mark.parametrize("seed", range(4))
def test_all_that_a_joint_change_sets_is_listed(seed: int) -> None:
    """What a screening tried, and found next to nothing, may lie beside the best by chance."""
    how = replace(settings(), engine=f"{HERE}:NextToNothing", what=("watermark", "nic"))
    answer = tune(problem(COUPLED), how, seed=seed, workers=InProcessWorkers()).co_tuning
    assert answer is not None
    names = {one.field: one.name for one in SENDERS}
    moved = {
        names[field]
        for field in names
        if getattr(answer.senders, field) != getattr(answer.senders_now, field)
    }
    assert {one.name for one in answer.changes} - {"watermark"} == moved


def test_where_a_part_of_a_change_cannot_be_predicted_shares_are_unknown() -> None:
    answer = found("WatermarkFailsBesideFastSenders")
    assert answer.recommended
    assert [one.name for one in answer.changes] == ["watermark", "cut interval"]
    assert all(math.isnan(one.share) for one in answer.changes)


def test_the_answer_is_the_same_in_processes_of_their_own() -> None:
    with closing(ProcessWorkers(2)) as pool:
        assert found("SendersMatter", workers=pool) == found("SendersMatter")


def of_classes(**by_class: DcqcnParams) -> TuningProblem:
    """Hosts of two classes, which send to each other."""
    asked = problem(COUPLED)
    hosts = sorted({*asked.scenario.flows.src, *asked.scenario.flows.dst})
    nic_class = {host: "h100" if number % 2 else "b200" for number, host in enumerate(hosts)}
    scenario = replace(asked.scenario, nic_class=nic_class, dcqcn_by_class=by_class)
    return replace(asked, scenario=scenario)


def test_each_class_of_nics_gets_values_of_its_own() -> None:
    answer = found("ClassesMatter", problem=of_classes())
    assert answer.recommended
    then = {one.nic_class: one.then for one in answer.by_class}
    for name, best_s in ClassesMatter.BEST_S.items():
        assert then.get(name, answer.senders).cnp_interval_s == pytest.approx(best_s, rel=0.35)
    assert all(one.now == PAPER for one in answer.by_class)
    own = [one for one in answer.changes if " of " in one.name]
    assert own
    assert sum(one.share for one in answer.changes) == pytest.approx(answer.gain, abs=0.03)
    tried = [one.name for one in answer.sensitivities]
    assert tried.index("gain g") < 11 <= tried.index("gain g of h100")
    assert {"cut interval of h100", "cut interval of b200"} <= set(tried)
    assert answer.watermark_first is not None
    assert answer.others_first is not None
    assert answer.others_first.gain == pytest.approx(answer.gain - answer.watermark_first.gain, abs=0.03)


def test_classes_that_run_their_best_are_left_so() -> None:
    best = {name: replace(PAPER, cnp_interval_s=best_s) for name, best_s in ClassesMatter.BEST_S.items()}
    answer = found("ClassesMatter", problem=of_classes(**best))
    assert [one.name for one in answer.changes] == ["watermark"]
    assert [(one.nic_class, one.now, one.then) for one in answer.by_class] == [
        (name, params, params) for name, params in sorted(best.items())
    ]


def test_classes_that_need_nothing_of_their_own_get_what_all_hosts_get(of_senders: CoTuning) -> None:
    answer = found("SendersMatter", problem=of_classes())
    assert answer.by_class == ()
    assert (answer.watermark, answer.senders, answer.changes) == (
        of_senders.watermark,
        of_senders.senders,
        of_senders.changes,
    )
    assert answer.sensitivities[:11] == of_senders.sensitivities


def test_hosts_of_one_class_are_searched_as_before() -> None:
    plain = problem(COUPLED)
    alike = dict.fromkeys(plain.scenario.flows.src, "h100")
    asked = replace(plain, scenario=replace(plain.scenario, nic_class=alike))
    assert found("SendersMatter", problem=asked) == found("SendersMatter")


def test_a_class_keeps_its_own_value_whatever_the_others_run() -> None:
    of_all = next(one for one in SENDERS if one.name == "cut interval")
    own = replace(of_all, name="cut interval of h100", nic_class="h100")
    start = Settings(INCUMBENT, PAPER)
    moved = of_all.tried(own.tried(start)[0])[-1]
    assert (own.value(moved), of_all.value(moved)) == (3, 100)
    assert own.value(of_all.taken_from(moved, start)) == 3
    assert own.taken_from(moved, start).dcqcn_by_class == ()
    # Whatever order parts are taken in, the same comes of them: also of a class that stays where others move.
    stays = of_all.taken_from(start.with_own("h100", "cnp_interval_s", PAPER.cnp_interval_s), moved)
    for pick in (moved, stays):
        assert of_all.taken_from(own.taken_from(start, pick), pick) == pick
        assert own.taken_from(of_all.taken_from(start, pick), pick) == pick


def test_a_change_that_keeps_a_value_says_so() -> None:
    change = SettingChange("cut interval of h100", "nic", "µs", 50.0, 50.0, 0.1)
    assert change_of(change) == "cut interval of h100 stays at 50 µs"
    assert change_of(replace(change, after=3.0)) == "cut interval of h100 50 → 3 µs"


def mixed_rates() -> Scenario:
    """The star of ``fabrics``, its last four hosts at 25 Gbit/s."""
    plain = star(COUPLED)
    ports = tuple(
        replace(port, rate_bytes_per_s=25 * GBPS) if (port.port or port.node)[1:] in "4567" else port
        for port in plain.ports
    )
    return replace(plain, ports=ports)


def test_ports_of_another_rate_get_thresholds_of_their_own() -> None:
    low = Watermark(4_000, 16_000, 0.2)
    asked = TuningProblem(scenario=mixed_rates(), incumbent=low, base=INCUMBENT, dominant_class="mouse")
    answer = found("RolesMatter", what=("watermark", "roles"), problem=asked)
    assert {one.name for one in answer.sensitivities} == {"Kmin leaf-host-25G", "Kmin leaf-host-100G"}
    assert answer.senders == PAPER


def test_roles_and_nics_are_predicted_together_and_each_has_its_share() -> None:
    asked = TuningProblem(scenario=mixed_rates(), incumbent=INCUMBENT, base=INCUMBENT, dominant_class="mouse")
    answer = found("BothMatter", what=("watermark", "roles", "nic"), problem=asked)
    of = {one.name: one.share for one in answer.changes}
    assert {"cut interval", f"Kmin {SLOW}"} <= of.keys()
    assert all(of[name] > 0.1 for name in ("cut interval", f"Kmin {SLOW}"))
    assert sum(of.values()) == pytest.approx(answer.gain, abs=0.03)
    assert answer.recommended
    # On the way there switches have all of theirs, ports by role too, and NICs nothing, or the reverse.
    assert answer.watermark_first is not None
    assert answer.others_first is not None
    assert answer.others_first.gain == pytest.approx(of["cut interval"], abs=0.03)
    assert answer.watermark_first.gain == pytest.approx(answer.gain - of["cut interval"], abs=0.03)


@pytest.mark.parametrize("what", [("watermark", "nic"), ("nic",)])
def test_ports_of_a_role_that_run_another_watermark_move_with_the_watermark_or_stay(
    what: tuple[str, ...],
) -> None:
    runs = Watermark(20_000, 80_000, 0.2)
    mixed = problem(COUPLED, scenario=mixed_rates(), by_role=((SLOW, runs),))
    answer = found("SlowPortsWantMuch", what=what, problem=mixed)
    assert sum(one.share for one in answer.changes) == pytest.approx(answer.gain, rel=0.05)
    if "watermark" in what:
        assert [one.name for one in answer.changes] == ["watermark", "cut interval"]
        assert answer.by_role == ()
    else:
        assert [one.name for one in answer.changes] == ["cut interval"]
        assert (answer.watermark, answer.by_role) == (INCUMBENT, ((SLOW, runs),))


def test_the_other_ports_are_set_while_those_of_a_role_keep_what_they_run() -> None:
    runs = Watermark(2_000_000, 6_000_000, 0.2)
    mixed = problem(COUPLED, scenario=mixed_rates(), by_role=((SLOW, runs),))
    answer = found("SlowPortsRunTheirBest", what=("watermark", "roles"), problem=mixed)
    assert answer.recommended
    assert [one.name for one in answer.changes] == ["watermark"]
    assert answer.watermark != INCUMBENT
    assert answer.by_role == ((SLOW, runs),)
    assert answer.alone == 0.0
    assert f"Set the watermark of the others, while ports of {SLOW} stay as they run: " in answer.sentence


def test_a_fabric_of_one_role_has_no_roles_to_tune() -> None:
    assert together("PlainSenders", what=("watermark", "roles")) is None


@pytest.mark.parametrize("senders", [PAPER, VENDOR], ids=["paper", "vendor"])
@pytest.mark.parametrize("coordinate", SENDERS, ids=lambda one: one.name)
def test_every_value_tried_is_one_that_hardware_takes(coordinate: Any, senders: Any) -> None:
    start = Settings(INCUMBENT, senders)
    tries = coordinate.tried(start)
    rng = np.random.default_rng(1)
    tries += [coordinate.near(start, normal) for normal in rng.standard_normal(50).tolist()]
    for one in tries:
        value = coordinate.value(one)
        if value is not None and one != start:
            assert value == pytest.approx(round(value))
            assert getattr(coordinate, "low", 0) <= round(value) <= getattr(coordinate, "high", 32_767)
        assert coordinate.taken_from(one, start) == start
        assert coordinate.taken_from(start, one) == one


def test_a_role_that_has_the_usual_watermark_is_no_exception() -> None:
    [_, hosts] = coordinates(("roles",), mixed_rates(), WatermarkBounds())
    start = Settings(INCUMBENT, PAPER)
    moved = hosts.tried(start)[0]
    assert moved.marks != INCUMBENT
    assert hosts.taken_from(moved, start) == start
    assert start.marks == INCUMBENT


def test_thresholds_of_a_role_stay_inside_the_bounds() -> None:
    [_, hosts] = coordinates(("roles",), mixed_rates(), WatermarkBounds(kmin_low_bytes=300_000))
    tried = hosts.tried(Settings(INCUMBENT, PAPER))
    assert tried
    assert all(hosts.value(one) >= 300_000 for one in tried)  # type: ignore[operator]


def test_an_unknown_thing_to_tune_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"known things to tune are watermark, roles, nic"):
        SearchSettings(what=("watermark", "cables"))  # type: ignore[arg-type]
