"""From packets that collide to advice: found by INT, predicted by the replay, judged by packets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from service.tuning.fabric import Fabric
from service.tuning.round import rebuilt
from telemetry.network.collisions import Collisions
from telemetry.state import NetworkState
from telemetry.topology import leaf_spine
from tests.unit.telemetry.network.test_collisions import window
from tests.unit.telemetry.network.uplinks import (
    ON_TWO_OF_FOUR,
    RUNNING,
    over,
    recorded,
    seen,
    without_paths,
)
from tests.unit.twin.paths.test_moves import collided
from twin.errors import ParameterError
from twin.packet.fabric import Fabric as PacketFabric
from twin.packet.plan import FabricPlan
from twin.paths.advice import HASH_SEEDS, advise
from twin.paths.result import PathAdvice, fix_sentence
from twin.prediction import Prediction, SolveStatus
from twin.scenario import Scenario
from twin.search.problem import SearchSettings
from twin.senders.dcqcn import VENDOR
from twin.workers.pool import InProcessWorkers, ProcessWorkers, Workers

HERE = "tests.unit.twin.paths.test_advice"


def advice(
    state: NetworkState, scenario: Scenario | None, workers: Workers | None = None, **settings: Any
) -> PathAdvice:
    how = SearchSettings(**({"what": ("watermark", "path")} | settings))
    return advise(
        state, scenario, RUNNING, how, seed=1, workers=workers or InProcessWorkers(), progress=lambda _: None
    )


def rebuilt_from(state: NetworkState) -> Scenario:
    return rebuilt(state, Fabric(dcqcn=VENDOR), RUNNING).scenario


@pytest.fixture(scope="module")
def collision() -> tuple[NetworkState, Scenario]:
    state = seen(recorded(over(ON_TWO_OF_FOUR)))
    return state, rebuilt_from(state)


@pytest.fixture(scope="module")
def found(collision: tuple[NetworkState, Scenario]) -> PathAdvice:
    return advice(*collision)


def packets(scenario: Scenario) -> float:
    """Mean goodput of the flows by packets that no telemetry saw: bytes per second."""
    fabric = PacketFabric(FabricPlan.of(scenario), watermark=RUNNING, seed=7)
    fabric.offer_routed(scenario.flows)
    fabric.advance(scenario.duration_s)
    return float(np.mean(fabric.acknowledged_bytes())) / scenario.duration_s


@pytest.mark.accuracy
def test_the_predicted_goodput_of_the_moves_is_that_of_packets_within_a_tenth(found: PathAdvice) -> None:
    [fix] = found.fixes
    assert fix.moved is not None
    truth = over(ON_TWO_OF_FOUR)
    # Both leaves number their hosts alike, and the k-th elephant is that of host k.
    spine = {f"Ethernet{8 + number}": number for number in range(4)}
    after = list(ON_TWO_OF_FOUR)
    for move in fix.moved.moves:
        after[int(move.src_host[1:])] = spine[move.after]
    assert fix.moved.first.before_bytes_per_s == pytest.approx(packets(truth), rel=0.1)
    assert fix.moved.first.after_bytes_per_s == pytest.approx(packets(over(after)), rel=0.1)
    assert fix.moved.second is not None
    assert fix.moved.second.after_bytes_per_s == pytest.approx(fix.moved.first.after_bytes_per_s, rel=0.1)


def test_four_of_eight_elephants_move_and_have_twice_their_goodput(found: PathAdvice) -> None:
    [fix] = found.fixes
    assert fix.moved is not None
    assert fix.moved.advised
    assert len(fix.moved.moves) == 4
    assert {move.after for move in fix.moved.moves} == {"Ethernet10", "Ethernet11"}
    assert fix.moved.times == pytest.approx(2.0, abs=0.1)
    assert 0.0 < fix.moved.times_error < 0.5
    assert fix.moved.gain > 0.2
    assert fix.moved.second_gain is not None
    assert fix.sentence.startswith(
        "leaf1: 8 elephants share Ethernet8 and Ethernet9 (195 Gbit/s of 200) while Ethernet10 and "
        "Ethernet11 carry nothing: moving 4 of them would give elephants 2.0 ± "
    )
    assert "; another hash seed 1." in fix.sentence


def test_another_hash_seed_gives_less_and_leaves_a_spread(found: PathAdvice) -> None:
    [fix] = found.fixes
    assert fix.moved is not None
    assert fix.hashed is not None
    assert fix.hashed.n_seeds == HASH_SEEDS
    assert 1.0 < fix.hashed.times < fix.moved.times
    assert fix.hashed.times_spread > 0.05
    assert fix.hashed.gain_spread > 0.0


def test_the_setting_of_the_platform_is_named_where_another_hash_was_predicted(found: PathAdvice) -> None:
    [fix] = found.fixes
    named = fix.with_setting("nv set system forwarding hash-seed")
    assert named.hash_setting == "nv set system forwarding hash-seed"
    assert named.sentence == f"{fix.sentence} Its hash is changed by: nv set system forwarding hash-seed."
    assert fix.with_setting(None) == fix
    assert replace(fix, hashed=None).with_setting("a seed").sentence == fix.sentence


def test_the_advice_is_the_same_in_processes_of_their_own(
    collision: tuple[NetworkState, Scenario], found: PathAdvice
) -> None:
    with closing(ProcessWorkers(2)) as pool:
        assert advice(*collision, workers=pool) == found


def test_elephants_that_end_are_told_by_the_time_they_take() -> None:
    """Transfers of 10 MB, some over before the moment is."""
    scenario = over(ON_TWO_OF_FOUR, payload_bytes=10e6, duration_s=0.005)
    [fix] = advice(seen(recorded(scenario, rate=0.02)), scenario).fixes
    assert fix.moved is not None
    assert fix.moved.second is not None
    assert 1.5 < fix.moved.times < 2.3
    assert fix.moved.first.after_bytes_per_s == pytest.approx(fix.moved.second.after_bytes_per_s, rel=0.1)


def test_without_a_second_engine_the_first_decides(collision: tuple[NetworkState, Scenario]) -> None:
    [fix] = advice(*collision, second_engine=None).fixes
    assert fix.moved is not None
    assert (fix.moved.second, fix.moved.second_gain) == (None, None)
    assert fix.moved.advised


class Disagrees:
    """An engine for which every elephant is slower on the moved paths."""

    name = "disagrees"

    def predict(self, scenario: Scenario, watermarks: Sequence[Any], *, seed: int) -> list[Prediction]:
        used = len({scenario.flows.path(row)[1] for row in range(len(scenario.flows))})
        one = Prediction(RUNNING, SolveStatus.OK, 0, 0, 0, 1e9 / used, 0, 0, 0)
        return [replace(one, watched=((1e9 / used, 1.0),) * len(scenario.watched)) for _ in watermarks]


class Fails(Disagrees):
    def predict(self, scenario: Scenario, watermarks: Sequence[Any], *, seed: int) -> list[Prediction]:
        return [Prediction.failed(one, SolveStatus.DIVERGED) for one in watermarks]


def test_what_the_second_engine_contradicts_is_not_advised(collision: tuple[NetworkState, Scenario]) -> None:
    [fix] = advice(*collision, second_engine=f"{HERE}:Disagrees").fixes
    assert fix.moved is not None
    assert not fix.moved.advised
    assert "not sure enough to advise" in fix.sentence


def test_where_no_move_helps_that_is_said(collision: tuple[NetworkState, Scenario]) -> None:
    [fix] = advice(*collision, engine=f"{HERE}:Disagrees", second_engine=None).fixes
    assert fix.moved is None
    assert "no move to an equal-cost port would give elephants more" in fix.sentence


def test_an_engine_that_fails_predicts_nothing(collision: tuple[NetworkState, Scenario]) -> None:
    [fix] = advice(*collision, engine=f"{HERE}:Fails").fixes
    assert (fix.moved, fix.hashed) == (None, None)
    assert fix.sentence.endswith("the engine could not run it, so that nothing is predicted.")


def test_a_twin_unlike_the_network_predicts_nothing(collision: tuple[NetworkState, Scenario]) -> None:
    found = advice(collision[0], None)
    [fix] = found.fixes
    assert (fix.moved, fix.hashed, found.n_runs) == (None, None, 0)
    assert "the twin is not like this network" in fix.sentence


def test_elephants_that_the_moment_does_not_show_are_not_predicted(
    collision: tuple[NetworkState, Scenario],
) -> None:
    state, scenario = collision
    [fix] = advice(state, replace(scenario, flows=over((2,) * 8).flows)).fixes
    assert "the newest moment shows none of them" in fix.sentence


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (
            lambda: window([(0, 15.0)] * 6, topology=leaf_spine(2, 1, 8)),
            "No elephant crosses a port that has an equal",
        ),
        (lambda: without_paths(window([(0, 15.0)] * 6)), "The paths of all 6 elephants are unknown"),
        (lambda: window([(0, 40.0), (1, 40.0), (2, 40.0), (3, 40.0)] * 2), "No elephants collide: no port"),
        (lambda: window([]), "The window has no elephants"),
    ],
    ids=["one port", "no paths", "even", "no elephants"],
)
def test_where_nothing_collides_it_says_why(made: Callable[[], NetworkState], says: str) -> None:
    found = advice(made(), None)
    assert found.fixes == ()
    assert found.sentence.startswith(says)


def test_of_many_collisions_the_worst_are_listed(
    monkeypatch: pytest.MonkeyPatch, collision: tuple[NetworkState, Scenario]
) -> None:
    many = Collisions((collided(),) * 10, n_groups=10, n_elephants=80, n_unknown=0)
    monkeypatch.setattr("twin.paths.advice.collisions", lambda state, ratio: many)
    found = advice(*collision, second_engine=None)
    assert found.sentence == "Elephants collide in 10 places while equal-cost ports have room."
    assert len(found.fixes) == 8
    assert [one.moved is None for one in found.fixes] == [False] * 3 + [True] * 5
    assert "only the worst are predicted" in found.fixes[-1].sentence
    assert found.notes == ("The 8 worst collisions are listed, and 2 more are not.",)


def test_a_second_engine_without_time_says_nothing(collision: tuple[NetworkState, Scenario]) -> None:
    [fix] = advice(*collision, second_packet_hops=1_000).fixes
    assert fix.moved is not None
    assert fix.moved.second is None


def test_a_topology_made_of_reports_is_said_to_hide_idle_ports() -> None:
    state = replace(window([(0, 15.0)] * 6), topology_declared=False)
    assert any("declare it" in note for note in advice(state, None).notes)


def test_some_unknown_paths_are_counted() -> None:
    state = window([(0, 15.0)] * 6)
    path = state.flows.path.copy()
    path[0] = -1
    notes = advice(replace(state, flows=replace(state.flows, path=path)), None).notes
    assert notes == ("The paths of 1 of 6 elephants are unknown.",)


def test_ports_whose_names_do_not_follow_are_listed() -> None:
    names = {"Ethernet8": "b", "Ethernet9": "a", "Ethernet10": "et-0/0/1", "Ethernet11": "et-0/0/7"}
    group = collided((0, 0))
    renamed = replace(group, ports=tuple(replace(one, name=names[one.name]) for one in group.ports))
    said = fix_sentence(renamed, None, None, "such is it")
    others = "a, et-0/0/1 and et-0/0/7 carry nothing"
    assert said == f"leaf1: 2 elephants share b (50 Gbit/s of 100) while {others}; such is it."


def test_a_ratio_that_every_port_has_is_refused() -> None:
    with pytest.raises(ParameterError, match="collision_ratio"):
        SearchSettings(collision_ratio=1.0)
