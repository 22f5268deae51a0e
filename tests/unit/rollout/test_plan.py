"""Stages: a canary of the operator's choice, a leaf or whatever comes first, then all others in batches."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollout.plan import Figures, stages_of
from switches.errors import SwitchError
from tests.unit.rollout.rollouts import BEFORE, plan

SWITCHES = ("spine1", "leaf2", "leaf1", "spine2")


def test_the_first_leaf_goes_first_where_no_canary_is_named() -> None:
    stages = stages_of(SWITCHES, leaves=("leaf1", "leaf2"), batch_size=2)
    assert stages == (("leaf1",), ("leaf2", "spine1"), ("spine2",))


def test_the_named_canaries_go_together_in_the_order_they_are_named() -> None:
    stages = stages_of(SWITCHES, canary=("spine2", "leaf2", "spine2", "gone"), batch_size=8)
    assert stages == (("spine2", "leaf2"), ("leaf1", "spine1"))


@pytest.mark.parametrize("leaves", [(), ("gone",)])
def test_a_canary_of_another_fabric_is_no_canary(leaves: tuple[str, ...]) -> None:
    assert stages_of(SWITCHES, canary=("gone",), leaves=leaves, batch_size=8)[0] == ("leaf1",)


def test_one_switch_is_one_stage() -> None:
    assert stages_of(["a", "a"], batch_size=1) == (("a",),)


def test_a_rollout_without_switches_is_refused() -> None:
    with pytest.raises(SwitchError, match="rollout: a rollout sets at least one switch"):
        stages_of([], batch_size=1)


@given(
    st.lists(st.sampled_from("abcdefgh"), min_size=1),
    st.lists(st.sampled_from("abxy"), max_size=3),
    st.integers(1, 4),
)
def test_every_switch_is_set_once_and_no_batch_is_too_large(
    switches: list[str], canary: list[str], batch_size: int
) -> None:
    stages = stages_of(switches, canary=canary, batch_size=batch_size)
    named = [name for stage in stages for name in stage]
    assert sorted(named) == sorted(set(switches))
    assert all(stages)
    assert all(len(stage) <= batch_size for stage in stages[1:])


def test_a_plan_knows_what_is_set_by_when() -> None:
    of = plan(("a",), ("b", "c"), ("d",))
    assert of.switches == ("a", "b", "c", "d")
    assert of.up_to(0) == ("a",)
    assert of.up_to(1) == ("a", "b", "c")
    assert of.known(of.before, 1) == BEFORE
    assert of.known(of.predicted, 0) == Figures()


def test_the_canary_soaks_by_itself_and_a_dry_run_never_does() -> None:
    of = plan(soak_s=10.0, batch_soak_s=3.0)
    assert (of.soak_s(0), of.soak_s(1)) == (10.0, 3.0)
    dry = plan(written=(), soak_s=10.0, batch_soak_s=3.0)
    assert (dry.soak_s(0), dry.soak_s(1)) == (0.0, 0.0)
