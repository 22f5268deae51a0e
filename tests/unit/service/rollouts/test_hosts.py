"""Hosts as members of rollouts: exclusive use of each, what is retried, and what others set meanwhile."""

from __future__ import annotations

import asyncio
import re
import threading

import pytest

from nics.base import StagedChange
from rollout.machine import replay
from rollout.plan import RolloutPlan, host_stages_of
from rollout.state import Applied, Failed, Phase, Progress, RolloutState
from switches.errors import BusyError, UnreachableError
from tests.unit.nics.sysfs import DEFAULTS
from tests.unit.rollout.rollouts import plan
from tests.unit.service.nics.making import Hosts, nic, reading
from tests.unit.service.rollouts.world import PATIENCE_S, World, until, world

pytestmark = pytest.mark.anyio

CHANGE = {"rpg_ai_rate": 50}
BUSY = BusyError("host 'h1'", "another change under way", "one at a time", "let it end")
AWAY = UnreachableError("host 'h2'", None, "a host answers in time", "check that it is up")


def with_hosts(*hosts: str, dry: bool = False) -> tuple[World, RolloutPlan]:
    here = world("a")
    here.nics = Hosts(*hosts)
    here.__post_init__()  # over these hosts
    of = plan(("h1",), tuple(hosts[1:]), ("a",), soak_s=0.0, patience_s=3_000.0)
    names = [name for name in of.members if name != "a"]
    return here, _as(of, names, dry=dry)


def _as(of: RolloutPlan, hosts: list[str], *, dry: bool) -> RolloutPlan:
    return RolloutPlan(
        id=of.id,
        recommendation=of.recommendation,
        targets={"a": of.targets["a"]},
        nics=dict.fromkeys(hosts, CHANGE),
        stages=of.stages,
        limits=of.limits,
        before=of.before,
        written=("a",) if dry else of.members,
    )


def rates(here: World) -> dict[str, int]:
    return {name: one.runs["rpg_ai_rate"] for name, one in here.nics.adapters.items()}


def progress(state: RolloutState) -> dict[str, str]:
    return {name: one.progress.value for name, one in state.members.items()}


async def test_a_host_is_read_and_set_one_at_a_time() -> None:
    here, of = with_hosts("h1", "h2")
    host, gate = here.nics.adapters["h1"], threading.Event()
    apply = host.apply

    def held(change: StagedChange) -> None:
        apply(change)
        assert gate.wait(PATIENCE_S)

    host.apply = held  # type: ignore[method-assign]
    rollout = await here.rollouts.start(of, "ada")
    await until(lambda: "apply" in host.calls)
    meanwhile = asyncio.create_task(here.nics.polling.read("h1"))
    for _ in range(20):  # another's readings, all of which began after this one
        await here.nics.polling.read("h2")
    assert not meanwhile.done()
    gate.set()
    await meanwhile
    assert (await here.ended(rollout)).phase is Phase.DONE
    await here.stop()


async def test_a_host_that_another_sets_this_moment_is_tried_again() -> None:
    here, of = with_hosts("h1", "h2")
    here.nics.adapters["h1"].meets = {"apply": [BUSY, BUSY]}
    rollout = await here.rollouts.start(of, "ada")
    assert (await here.ended(rollout)).phase is Phase.DONE
    here.nics.adapters["h1"].meets = {"undo": [BUSY, BUSY]}
    await here.rollouts.roll_back(of.id, "ada")
    state = await here.ended(rollout)
    # Left alone it would be half of the change for ever.
    assert progress(state) == {"h1": "restored", "h2": "restored", "a": "restored"}
    assert rates(here) == {"h1": 5, "h2": 5}
    await here.stop()


async def test_without_the_right_to_write_a_host_is_staged_alone() -> None:
    here, of = with_hosts("h1", "h2", dry=True)
    state = await here.rolled_out(of)
    assert state.phase is Phase.DONE
    assert {*here.nics.adapters["h1"].calls, *here.nics.adapters["h2"].calls} == {"stage"}
    await here.rollouts.roll_back(of.id, "ada")
    await here.ended(here.rollouts.get(of.id))
    assert {*here.nics.adapters["h1"].calls} == {"stage"}
    await here.stop()


async def test_what_somebody_else_sets_on_a_host_meanwhile_takes_all_back() -> None:
    here, of = with_hosts("h1", "h2")
    here.switches["a"].gate.clear()  # hosts are set, the switch is not yet
    rollout = await here.rollouts.start(of, "ada")
    await until(lambda: "apply" in here.switches["a"].calls)
    here.nics.adapters["h2"].now = reading("h2", nic("ens1", {**DEFAULTS, "rpg_ai_rate": 7}))
    await here.nics.polling.read("h2")  # whoever reads it
    here.switches["a"].gate.set()
    state = await here.ended(rollout)
    assert state.phase is Phase.ROLLED_BACK
    assert (
        "host 'h2': received ens1 rpg_ai_rate 7 Mbit/s; what a rollout has set (rpg_ai_rate 50 Mbit/s)"
        in (state.why or "")
    )
    assert progress(state) == {"h1": "restored", "h2": "left_alone", "a": "restored"}
    assert rates(here) == {"h1": 5, "h2": 7}
    await here.stop()


async def test_one_that_is_left_out_is_in_the_journal_once() -> None:
    here, of = with_hosts("h1", "h2", "h3")
    limits = plan(patience_s=1.0, soak_s=0.0, missing_share=0.34).limits
    here.nics.adapters["h2"].meets = {"stage": [AWAY] * 1_000}
    of = RolloutPlan(**{**{name: getattr(of, name) for name in of.__struct_fields__}, "limits": limits})
    state = await here.rolled_out(of)
    assert (state.phase, state.members["h2"].progress) == (Phase.DONE, Progress.LEFT_OUT)
    assert state.members["h2"].detail == str(AWAY)
    events = here.journal.events()
    assert 1 <= sum(isinstance(one, Failed) for one in events) <= 2
    assert not any(isinstance(one, Applied) and one.switch == "h2" for one in events)
    told = replay(events)
    assert told is not None
    assert progress(told) == progress(state)
    await here.stop()


async def test_a_host_that_left_the_inventory_is_retried_until_it_is_back() -> None:
    here, of = with_hosts("h1", "h2")
    rollout = await here.rollouts.start(of, "ada")
    await here.ended(rollout)
    polling = here.nics.polling
    host = polling.hosts.pop("h2")  # type: ignore[attr-defined]
    adapter = polling._made.adapters.pop("h2")  # type: ignore[attr-defined]
    await here.rollouts.roll_back(of.id, "ada")
    await until(lambda: rollout.state.members["h2"].detail or rollout.stalled)
    assert rollout.stalled is None
    said = "'h2' is no longer written .*; set push.enabled and push.nics again, or put it back into push.inv"
    assert re.search(said, rollout.state.members["h2"].detail)
    polling.hosts["h2"], polling._made.adapters["h2"] = host, adapter  # type: ignore[index]
    assert (await here.ended(rollout)).phase is Phase.ROLLED_BACK
    assert rates(here) == {"h1": 5, "h2": 5}
    await here.stop()


def test_the_canary_is_of_each_class_and_of_hosts_that_answer() -> None:
    classes = {"g1": "h100", "g2": "h100", "g3": "b200", "g4": "b200", "g5": "h100"}
    assert host_stages_of(classes, canary=2, batch_size=2) == (("g3", "g1"), ("g2", "g4"), ("g5",))
    assert host_stages_of(classes, unsure=["g3", "g1"], canary=3, batch_size=9) == (
        ("g4", "g2", "g3"),
        ("g1", "g5"),
    )
    assert host_stages_of({"g1": ""}, canary=9, batch_size=9) == (("g1",),)
