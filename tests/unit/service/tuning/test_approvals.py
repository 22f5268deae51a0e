"""How long policy waits after a rollout was taken back."""

from __future__ import annotations

import msgspec
import pytest

from rollout.state import Approved, HashStaged, Phase, RollbackAsked, RolloutState
from service.tuning.approvals import hold_left_s
from switches.hashing.values import StagedHash
from tests.unit.rollout.rollouts import T0, after, plan, proposed, setting

HOLD_S = 100.0


def hashed() -> RolloutState:
    """A rollout that has set what switch a hashes by."""
    of = msgspec.structs.replace(
        plan(("a",), soak_s=0.0, rollout_id="hash-1"), targets={}, hashes={"a": "7"}, recommendation=""
    )
    change = StagedHash(id="hash-1", switch="a", setting="seed", before=None, after="7")
    approved = after(
        proposed(of), Approved(at_s=T0, by="ada"), HashStaged(at_s=T0, switch="a", change=change)
    )
    return after(approved, *setting("a"))


def taken_back(state: RolloutState) -> RolloutState:
    return after(state, RollbackAsked(at_s=T0 + 9, by="a guard"))


@pytest.mark.parametrize("undone", [False, True], ids=["done", "taken back"])
def test_another_hash_neither_ends_nor_begins_the_wait(undone: bool) -> None:
    hash_state = taken_back(hashed()) if undone else hashed()
    assert hash_state.phase is (Phase.ROLLING_BACK if undone else Phase.DONE)
    watermark = taken_back(proposed(plan(soak_s=0.0)))
    for newest_first, left_s in (
        ([watermark], HOLD_S),
        ([hash_state, watermark], HOLD_S),
        ([hash_state], 0.0),
    ):
        assert hold_left_s(newest_first, {"a"}, now_s=T0 + 9, hold_s=HOLD_S) == left_s
