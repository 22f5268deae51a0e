"""How long policy waits after a rollout was taken back."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from rollout.state import Approved, HashStaged, Phase, RollbackAsked, RolloutState
from service.tuning.approvals import Approvals, hold_left_s
from settings.errors import ConflictError
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


def test_an_approval_names_switches_that_could_not_be_read() -> None:
    names = [f"leaf{number}" for number in range(9)]
    entry = SimpleNamespace(id="x", switches=names, changes=True, undecided=lambda: entry)

    async def refresh(switches: Sequence[str], *, from_now: bool) -> Sequence[str]:
        return switches if from_now else []

    async def fetch(_: str) -> SimpleNamespace:
        return entry

    parts: dict[str, Any] = dict.fromkeys(("settings", "saved", "watcher", "audit", "events"))
    parts |= {
        "fleet": SimpleNamespace(refresh=refresh),
        "store": SimpleNamespace(fetch=fetch, find=lambda _: entry, pending=lambda _: entry),
        "rollouts": SimpleNamespace(check_journal_read=lambda: None),
        "alarms": SimpleNamespace(holding=lambda _: None),
        "validity": SimpleNamespace(deciding=set(), check=lambda *_: None),
    }
    with pytest.raises(ConflictError, match="leaf0, leaf1, leaf2, leaf3, leaf4 and 4 more"):
        asyncio.run(Approvals(**parts).approve("x", "ada"))


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
