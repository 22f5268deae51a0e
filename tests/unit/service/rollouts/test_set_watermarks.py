"""What a switch that is set by role should run, and what of that outlives the journal's entries."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping

import msgspec
import pytest

from rollout.machine import advance, begin
from rollout.plan import Limits, RoleTarget, RolloutPlan
from rollout.state import (
    Applied,
    Applying,
    Approved,
    Confirmed,
    Event,
    Proposed,
    RollbackAsked,
    Staged,
    Undone,
    Verified,
)
from service.rollouts.set_watermarks import SetWatermarks
from switches.base import QueueWatermark, StagedChange
from twin.watermark import Watermark

OLD, HOST, UP = Watermark(400_000, 1_600_000, 0.2), Watermark(50_000, 200_000, 0.05), Watermark(9, 99, 0.1)
ROUNDED = Watermark(8, 98, 0.1)
ROLES = {"leaf-host-100G": RoleTarget(("a", "b"), HOST), "leaf-up-400G": RoleTarget(("c",), UP)}


def followed(
    *,
    until: type[Event] = Confirmed,
    by_role: bool = True,
    roles: Mapping[str, RoleTarget] = ROLES,
    rollout: str = "r1",
    found: SetWatermarks | None = None,
    ran: Mapping[str, Watermark] | None = None,
    between: Callable[[SetWatermarks], SetWatermarks] = lambda found: found,
) -> SetWatermarks:
    """Of a rollout on one switch, up to its first event of that type; ``found`` is of those before it, and
    ``ran`` what ports ran that had not OLD. ``between`` two events something else may happen.
    """

    def part(role: str, after: Watermark, *ports: str) -> StagedChange:
        queues = tuple(QueueWatermark(port, 3, (ran or {}).get(port, OLD)) for port in ports)
        name = f"{rollout}-{role}"
        return StagedChange(id=name, switch="leaf1", asked=after, after=after, before=queues, diff="")

    parts = (part("leaf-host-100G", HOST, "a", "b"), part("leaf-up-400G", ROUNDED, "c"))
    change = StagedChange(
        id=rollout,
        switch="leaf1",
        asked=HOST,
        after=HOST,
        before=tuple(queue for one in parts for queue in one.before),
        diff="",
        parts=parts if by_role else (),
    )
    plan = RolloutPlan(
        id=rollout,
        recommendation="r1",
        targets={"leaf1": HOST},
        stages=(("leaf1",),),
        limits=Limits(soak_s=0, batch_soak_s=0),
        written=("leaf1",),
        by_role={"leaf1": roles} if by_role else {},
    )
    found = SetWatermarks() if found is None else found
    state = begin(Proposed(at_s=0.0, plan=plan))
    for event in (
        Approved(at_s=1.0, by="ada"),
        Staged(at_s=2.0, switch="leaf1", change=change),
        Applying(at_s=3.0, switch="leaf1"),
        Applying(at_s=3.5, switch="leaf1"),  # a second try
        Applied(at_s=4.0, switch="leaf1"),
        Verified(at_s=5.0, switch="leaf1", runs=HOST),
        Confirmed(at_s=6.0, switch="leaf1"),
        RollbackAsked(at_s=7.0, by="ada"),
        Undone(at_s=8.0, switch="leaf1"),
    ):
        state = advance(state, event)
        found.follow(state, event)
        if isinstance(event, until):
            break
        found = between(found)
    return found


def again(of: SetWatermarks) -> SetWatermarks:
    """As the journal's summary gives it to the next process."""
    found = SetWatermarks()
    found.restore(of.to_json().decode())
    return found


def test_each_role_should_run_what_the_device_made_of_its_watermark() -> None:
    for found in (followed(), again(followed())):
        assert found.get("leaf1") is None
        assert found.by_role("leaf1") == ROLES | {"leaf-up-400G": RoleTarget(("c",), ROUNDED)}


def test_a_role_of_which_no_port_is_in_the_inventory_changes_no_other() -> None:
    found = followed(roles={"leaf-down-25G": RoleTarget(("z",), OLD)} | ROLES)
    assert found.by_role("leaf1") == ROLES | {"leaf-up-400G": RoleTarget(("c",), ROUNDED)}


def test_half_of_a_change_is_read_by_role_and_expected_to_run_nothing() -> None:
    half = followed(until=Applying)
    for found in (half, again(half)):
        assert (found.roles("leaf1"), found.by_role("leaf1")) == (ROLES, {})


def test_a_switch_that_is_set_as_a_whole_is_not_read_by_role() -> None:
    found = followed(by_role=False)
    assert (found.get("leaf1"), found.roles("leaf1")) == (HOST, {})


EARLIER = {"leaf-host-100G": RoleTarget(("a", "b"), UP), "leaf-up-400G": RoleTarget(("c",), OLD)}
RAN = {"a": UP, "b": UP}


def before() -> SetWatermarks:
    """Of a switch that runs EARLIER by role, as set from here."""
    found = SetWatermarks()
    found.restore(
        msgspec.json.encode({"set_to": {}, "last_set_s": 0.5, "by_role": {"leaf1": EARLIER}}).decode()
    )
    return found


@pytest.mark.parametrize("by_role", [True, False])
@pytest.mark.parametrize("between", [lambda found: found, again])
def test_after_an_undo_a_switch_should_run_the_roles_it_was_set_by_before(
    by_role: bool, between: Callable[[SetWatermarks], SetWatermarks]
) -> None:
    done = followed(by_role=by_role, rollout="r2", found=before(), ran=RAN)
    assert done.by_role("leaf1") != EARLIER
    found = followed(until=Undone, by_role=by_role, rollout="r2", found=before(), ran=RAN, between=between)
    for one in (found, again(found)):
        assert (one.get("leaf1"), one.by_role("leaf1")) == (None, EARLIER)
        last = followed(until=Undone, by_role=False, rollout="r3", found=one, ran=RAN)
        assert last.by_role("leaf1") == EARLIER


def test_undos_of_two_rollouts_in_a_row_give_back_the_roles_before_both() -> None:
    events = itertools.count()

    def another(found: SetWatermarks) -> SetWatermarks:
        if next(events) < 6:  # not set yet
            return found
        return again(
            followed(until=Undone, rollout="r3", found=found, ran={"a": HOST, "b": HOST, "c": ROUNDED})
        )

    found = followed(until=Undone, rollout="r2", found=before(), ran=RAN, between=another)
    assert (found.get("leaf1"), found.by_role("leaf1")) == (None, EARLIER)


def test_after_an_undo_nothing_is_expected_of_roles_that_were_half_set_or_given_up_before() -> None:
    for found in (followed(until=Applying), before()):
        found.put("leaf1", None)  # as when it is adopted
        undone = followed(until=Undone, rollout="r2", found=found, ran=RAN)
        assert (undone.get("leaf1"), undone.by_role("leaf1")) == (None, {})


def test_an_undo_takes_back_only_what_its_own_rollout_found() -> None:
    found = followed(by_role=False, rollout="r2", found=before(), ran=RAN)
    later = followed(until=Undone, by_role=False, rollout="r3", found=found)
    assert (later.get("leaf1"), later.roles("leaf1")) == (OLD, {})


def test_a_summary_of_before_roles_were_kept_can_be_read() -> None:
    found = SetWatermarks()
    found.restore('{"set_to": {}, "last_set_s": 1.5}')
    assert (found.roles("leaf1"), found.last_set_s) == ({}, 1.5)
