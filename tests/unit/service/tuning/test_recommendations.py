"""The history of rounds: bounded, superseding, and decided once."""

from __future__ import annotations

from itertools import count

import pytest

from service.tuning.recommendations import RecommendationStore
from service.tuning.round import RoundResult, run_round
from settings.errors import ConflictError, NotFoundError
from switches.base import QueueWatermark, StagedChange
from switches.rollout.plan import Limits, RolloutPlan
from switches.rollout.state import Phase, Progress, RolloutState, SwitchProgress
from tests.unit.service.tuning.rounds import INCUMBENT, ask, state, store_in_memory
from twin.workers.pool import InProcessWorkers


def a_round(*, margin: float = 0.0) -> RoundResult:
    return run_round(
        state(),
        ask(margin),
        lambda _: INCUMBENT,
        workers=InProcessWorkers(),
        clock_s=count(0.0, 0.5).__next__,
    )


CHANGING, KEEPING = a_round(), a_round(margin=100.0)


@pytest.fixture
def store() -> RecommendationStore:
    return store_in_memory(3, count(1_767_225_600_000_000_000, 1_000_000_000).__next__)


def test_a_change_waits_and_supersedes_the_one_before(store: RecommendationStore) -> None:
    first, second = store.add(CHANGING, 1.0), store.add(CHANGING, 1.0)
    assert store.get(first.id).status == "superseded"
    assert store.current() == second
    assert store.newest(5) == [second, store.get(first.id)]
    assert first.id.startswith("20260101T000000-")


def test_rounds_that_change_nothing_are_kept_once_and_hide_no_change(
    store: RecommendationStore,
) -> None:
    assert store.add(KEEPING, 1.0).status == "kept"
    newest = store.add(KEEPING, 1.0)
    assert store.newest(5) == [newest]
    pending = store.add(CHANGING, 1.0)
    store.add(KEEPING, 1.0)
    assert store.current() == pending


def test_the_oldest_go_first(store: RecommendationStore) -> None:
    entries = [store.add(CHANGING, 1.0) for _ in range(5)]
    assert len(store) == 3
    with pytest.raises(NotFoundError, match="newest 3 rounds"):
        store.get(entries[0].id)


def test_only_what_is_pending_can_be_decided(store: RecommendationStore) -> None:
    with pytest.raises(NotFoundError, match="before the first round"):
        store.current()
    entry = store.add(CHANGING, 1.0)
    decided = store.decide(store.pending(entry.id), "rejected", "ada")
    assert (decided.status, decided.decided_by) == ("rejected", "ada")
    with pytest.raises(ConflictError, match="is rejected"):
        store.pending(entry.id)
    assert store.current() == decided
    document = decided.document(candidates=False)
    assert document.candidates == []
    assert document.candidate_count == len(CHANGING.recommendation.candidates)
    assert document.decided_at is not None


def test_stages_of_a_round_are_timed_apart() -> None:
    assert set(CHANGING.stage_s) >= {"scenario", "propose", "window 1"}
    assert CHANGING.search_s == sum(CHANGING.stage_s.values()) - CHANGING.stage_s["scenario"]
    assert CHANGING.switches == ("leaf1",)
    assert CHANGING.measured_queue_bytes is not None


def rollout(phase: Phase, progress: Progress = Progress.SET) -> RolloutState:
    mark = INCUMBENT
    ran = (QueueWatermark("Ethernet0", 3, mark),)
    change = StagedChange(id="r", switch="leaf1", asked=mark, after=mark, before=ran, diff="-a\n+b")
    plan = RolloutPlan(
        id="r", recommendation="x", targets={"leaf1": mark}, stages=(("leaf1",),), limits=Limits()
    )
    one = SwitchProgress(progress, change, mark)
    return RolloutState(plan=plan, phase=phase, since_s=1.0, proposed_s=0.0, switches={"leaf1": one})


def test_a_recommendation_follows_its_rollout(store: RecommendationStore) -> None:
    entry = store.add(CHANGING, 1.0)
    assert (entry.document().rollout, entry.document().pushed) == (None, [])
    store.decide(entry, "approved", "ada")
    store.follow(entry.id, rollout(Phase.CANARY, Progress.APPLYING))
    under_way = store.get(entry.id).document()
    assert (under_way.status, under_way.rollout, under_way.pushed) == ("approved", "r", [])
    store.follow(entry.id, rollout(Phase.DONE))
    (pushed,) = store.get(entry.id).document().pushed
    assert (pushed.switch, pushed.writes, pushed.diff) == ("leaf1", False, "-a\n+b")
    assert pushed.read_back is not None


@pytest.mark.parametrize("phase", [Phase.ROLLING_BACK, Phase.ROLLED_BACK])
def test_one_that_is_taken_back_stands_no_more(store: RecommendationStore, phase: Phase) -> None:
    entry = store.add(CHANGING, 1.0)
    store.decide(entry, "approved", "ada")
    store.follow(entry.id, rollout(phase, Progress.RESTORED))
    document = store.get(entry.id).document()
    assert (document.status, document.decided_by, document.pushed) == ("rolled_back", "ada", [])
    with pytest.raises(ConflictError, match="is rolled_back"):
        store.pending(entry.id)


def test_a_rollout_outlives_the_memory_of_its_recommendation(store: RecommendationStore) -> None:
    store.follow("long ago", rollout(Phase.DONE))
    assert len(store) == 0
