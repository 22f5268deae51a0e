"""Hosts as members: what is watched, which stages are canaries, who may be left out, and older journals."""

from __future__ import annotations

import msgspec
import pytest

from nics.base import NicValues
from nics.base import StagedChange as NicsChange
from rollout.machine import advance, begin, replay, wanted
from rollout.plan import RolloutPlan
from rollout.state import (
    Approved,
    Event,
    Phase,
    Progress,
    Proposed,
    Resumed,
    RolloutState,
    Stage,
    Staged,
    StagedNics,
    Watch,
    decode,
    encode,
)
from tests.unit.rollout.rollouts import T0, after, change_of, failed, plan, setting

CHANGE = {"rpg_ai_rate": 50}
HOSTS = ("h1", "h2", "h3", "h4")


def with_hosts(*stages: tuple[str, ...], **limits: float) -> RolloutPlan:
    of = plan(*stages, **limits)
    return msgspec.structs.replace(
        of,
        nics={name: CHANGE for name in of.members if name in HOSTS},
        targets={name: mark for name, mark in of.targets.items() if name not in HOSTS},
    )


NICS_FIRST = with_hosts(("h1", "h2"), ("h3", "h4"), ("a",), ("b",), batch_soak_s=3.0)


def staged(name: str, at_s: float = T0 + 1) -> Event:
    if name not in HOSTS:
        return Staged(at_s=at_s, switch=name, change=change_of(name))
    before = (NicValues("ens1", {"rpg_ai_rate": 5}),)
    change = NicsChange(id="r", host=name, after=CHANGE, before=before, diff="")
    return StagedNics(at_s=at_s, switch=name, change=change)


def approved(of: RolloutPlan) -> RolloutState:
    return after(begin(Proposed(at_s=T0, plan=of)), Approved(at_s=T0, by="ada", checks=True))


def test_members_are_of_the_kind_that_names_them() -> None:
    assert NICS_FIRST.members == ("h1", "h2", "h3", "h4", "a", "b")
    assert (NICS_FIRST.switches, NICS_FIRST.hosts) == (("a", "b"), HOSTS)
    stages = [one for one in wanted(approved(NICS_FIRST), T0) if isinstance(one, Stage)]
    assert stages[0] == Stage("h1", CHANGE)
    assert stages[-1] == Stage("b", NICS_FIRST.targets["b"])


def test_the_first_stage_of_either_kind_soaks_as_a_canary() -> None:
    assert [NICS_FIRST.soak_s(stage) for stage in range(4)] == [10.0, 3.0, 10.0, 3.0]
    last = with_hosts(("a",), ("b",), ("h1",), ("h2",), batch_soak_s=3.0)
    assert [last.soak_s(stage) for stage in range(4)] == [10.0, 3.0, 10.0, 3.0]


def test_nics_are_watched_on_all_switches() -> None:
    assert NICS_FIRST.watched(0) == NICS_FIRST.watched(3) == ("a", "b")
    last = with_hosts(("a",), ("b",), ("h1",))
    assert [last.watched(stage) for stage in range(3)] == [("a",), ("a", "b"), ("a", "b")]
    state = after(approved(NICS_FIRST), *map(staged, NICS_FIRST.members))
    state = after(state, *setting("h1"), *setting("h2"))
    assert state.phase is Phase.SOAK
    assert wanted(state, T0 + 3) == (Watch(("a", "b"), T0 + 2),)


def away(state: RolloutState, *names: str) -> RolloutState:
    """These do not answer for longer than the patience."""
    for name in names:
        state = after(state, failed(name, "stage", T0 + 1), failed(name, "stage", T0 + 40))
    return state


@pytest.mark.parametrize(
    ("share", "out", "phase"),
    [
        (0.0, ("h3",), Phase.ROLLED_BACK),
        (0.25, ("h3",), Phase.APPROVED),
        (0.25, ("h3", "h4"), Phase.ROLLED_BACK),
        (0.5, ("h1", "h3"), Phase.APPROVED),
        (1.0, ("h1", "h2"), Phase.ROLLED_BACK),  # the canary would be nobody
        (1.0, ("a",), Phase.ROLLED_BACK),  # a switch is never left out
    ],
)
def test_some_hosts_may_be_left_out_before_anything_is_set(
    share: float, out: tuple[str, ...], phase: Phase
) -> None:
    of = with_hosts(("h1", "h2"), ("h3", "h4"), ("a",), missing_share=share)
    state = away(approved(of), *out)
    assert state.phase is phase
    if phase is Phase.APPROVED:
        state = after(state, *(staged(name) for name in of.members if name not in out))
        assert state.phase is Phase.CANARY
        assert {name for name, one in state.members.items() if one.progress is Progress.LEFT_OUT} == set(out)
        again = advance(state, Resumed(at_s=T0 + 50, checks=True))
        assert again.members[out[0]].detail == f"{out[0]} is away"


def test_a_refusal_leaves_nobody_out() -> None:
    of = with_hosts(("h1", "h2"), ("h3", "h4"), ("a",), missing_share=1.0)
    state = after(approved(of), failed("h3", "stage", T0 + 1, passing=False))
    assert state.phase is Phase.ROLLED_BACK


def test_once_something_is_set_nobody_is_left_out() -> None:
    of = with_hosts(("h1",), ("h2", "h3", "h4"), ("a",), missing_share=1.0, soak_s=0.0)
    state = after(approved(of), *map(staged, of.members), *setting("h1"))
    state = after(state, failed("h2", "apply", T0 + 3), failed("h2", "apply", T0 + 90))
    assert state.phase is Phase.ROLLING_BACK


def test_a_journal_from_before_hosts_were_members_replays() -> None:
    first = (
        b'{"type":"Proposed","at_s":1.0,"plan":{"id":"r","recommendation":"x","targets":{"a":{"kmin_bytes":1,'
        b'"kmax_bytes":2,"pmax":0.5}},"stages":[["a"]],"limits":{"soak_s":0.0,"batch_soak_s":0.0,'
        b'"patience_s":60.0,"unseen_s":75.0,"max_step":null,"pause_share":0.01,"pfc_frames_per_s":100.0,'
        b'"drops_per_s":0.0,"queue_factor":2.0,"throughput_share":0.5},"before":[],"predicted":[],'
        b'"written":["a"]}}'
    )
    verified = (
        b'{"type":"Verified","at_s":4.0,"switch":"a","runs":{"kmin_bytes":1,"kmax_bytes":2,"pmax":0.5}}'
    )
    events = [
        decode(first),
        Approved(at_s=2.0, by="ada"),
        staged("a", 3.0),
        *setting("a", 4.0)[:2],
        decode(verified),
        setting("a", 4.0)[3],
    ]
    state = replay(events)
    assert state is not None
    assert (state.phase, state.members["a"].progress) == (Phase.DONE, Progress.SET)
    assert encode(decode(verified)) == verified
