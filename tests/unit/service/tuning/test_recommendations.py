"""The history of rounds: bounded, superseding, and decided once."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest

from rollout.plan import Limits, RolloutPlan
from rollout.state import MemberProgress, Phase, Progress, RolloutState
from service.documents.recommendation import recommendation_document
from service.tuning.entry import Support
from service.tuning.recommendations import RecommendationStore
from service.tuning.round import RoundResult
from settings.errors import ConflictError, NotFoundError
from switches.base import QueueWatermark, StagedChange
from tests.unit.service.tuning.rounds import INCUMBENT, changing, keeping, store_in_memory
from twin.search.recommendation import Verdict, VerdictKind
from twin.watermark import Watermark


@pytest.fixture
def store() -> RecommendationStore:
    return store_in_memory(3, count(1_767_225_600_000_000_000, 1_000_000_000).__next__)


def other(watermark: Watermark) -> RoundResult:
    return replace(changing(), recommendation=replace(changing().recommendation, watermark=watermark))


def test_another_answer_waits_and_supersedes_the_one_before(store: RecommendationStore) -> None:
    first, second = store.add(changing(), 1.0), store.add(other(Watermark(7_000, 70_000, 0.1)), 1.0)
    assert store.get(first.id).status == "superseded"
    assert store.current() == second
    assert store.newest(5) == [second, store.get(first.id)]
    assert first.id.startswith("20260101T000000-")


def test_the_same_answer_keeps_its_id_and_gains_support(store: RecommendationStore) -> None:
    first = store.add(changing(), 1.0)
    again = store.add(replace(changing(), n_moments=2, traffic_s=0.02), 2.0)
    assert store.newest(5) == [again]
    assert (again.id, again.created_ns, again.status) == (first.id, first.created_ns, "pending")
    assert again.support == Support(
        rounds=2,
        last_ns=first.created_ns + 1_000_000_000,
        moments=2,
        traffic_s=0.02,
        hour_rounds=2,
        hour_agreeing=2,
    )
    assert again.said.wall_s == 2.0
    document = recommendation_document(again).support
    assert document is not None
    assert (document.rounds, document.last) == (2, "2026-01-01T00:00:01.000Z")


def test_the_same_answer_is_another_recommendation_for_other_traffic(store: RecommendationStore) -> None:
    first = store.add(changing(), 1.0)
    second = store.add(changing(), 1.0, changed="load doubled")
    assert (store.get(first.id).status, second.status) == ("superseded", "pending")
    assert second.support is not None
    assert second.support.changed == "load doubled"
    third = store.add(changing(), 1.0)
    assert third.support is not None
    assert (third.id, third.support.changed) == (second.id, "load doubled")


def test_the_same_answer_after_a_decision_is_another_recommendation(store: RecommendationStore) -> None:
    first = store.add(changing(), 1.0)
    store.decide(store.pending(first.id), "rejected", "ada")
    again = store.add(changing(), 1.0)
    assert again.id != first.id
    assert store.get(first.id).status == "rejected"


def test_what_is_being_rolled_out_is_not_recommended_again(store: RecommendationStore) -> None:
    first = store.add(changing(), 1.0)
    store.decide(first, "approved", "ada")
    store.follow(first.id, rollout(Phase.SOAK))
    approved = store.get(first.id)
    again = store.add(replace(changing(), n_moments=2), 9.0, rolling={first.id})
    assert again.support is not None
    assert (again.support.rounds, again.support.moments) == (2, 2)
    assert again == replace(approved, support=again.support), "the rest stays as it was approved"
    changed = store.add(changing(), 9.0, changed="load doubled", rolling={first.id})
    assert changed.id == first.id, "it is no other change for other traffic"
    assert store.newest(5) == [changed] == [store.current()]


def test_another_answer_during_a_rollout_waits_until_the_first_is_given_again(
    store: RecommendationStore,
) -> None:
    first = store.add(changing(), 1.0)
    store.decide(first, "approved", "ada")
    assert store.standing({first.id}) == store.get(first.id)
    second = store.add(other(Watermark(7_000, 70_000, 0.1)), 1.0, rolling={first.id})
    assert (second.status, store.current(), store.standing({first.id})) == ("pending", second, second)
    again = store.add(changing(), 1.0, rolling={first.id})
    assert (again.id, again.status, store.get(second.id).status) == (first.id, "approved", "superseded")


def test_what_was_taken_back_or_is_set_for_long_is_recommended_anew(store: RecommendationStore) -> None:
    first = store.add(changing(), 1.0)
    store.decide(first, "approved", "ada")
    assert store.standing() is None
    second = store.add(changing(), 1.0)
    assert (second.id != first.id, second.status) == (True, "pending")
    store.decide(second, "approved", "ada")
    store.follow(second.id, rollout(Phase.ROLLED_BACK))
    assert store.standing({second.id}) is None
    third = store.add(changing(), 1.0, rolling={second.id})
    assert (third.id != second.id, third.status) == (True, "pending")


def test_stability_counts_the_rounds_of_an_hour_that_agree() -> None:
    store = store_in_memory(9, count(1_767_225_600_000_000_000, 1_200_000_000_000).__next__)
    answers = [
        changing(),
        other(Watermark(7_000, 70_000, 0.1)),
        changing(),
        changing(),
        changing(),
        changing(),
    ]
    found = [store.add(one, 1.0).support for one in answers]
    assert [(one.hour_agreeing, one.hour_rounds) for one in found if one] == [
        (1, 1),
        (1, 2),
        (2, 3),
        (3, 4),
        (3, 4),
        (4, 4),
    ]


def test_stability_counts_rounds_on_the_same_incumbent_alone(store: RecommendationStore) -> None:
    store.add(changing(), 1.0)
    moved = replace(changing().recommendation, incumbent=Watermark(7_000, 70_000, 0.1))
    support = store.add(replace(changing(), recommendation=moved), 1.0).support
    assert support is not None
    assert (support.hour_agreeing, support.hour_rounds) == (1, 1)


def test_a_round_that_finds_no_change_supersedes_what_waits(store: RecommendationStore) -> None:
    pending = store.add(changing(), 1.0)
    kept = store.add(keeping(), 1.0)
    assert store.get(pending.id).status == "superseded"
    assert store.current() == kept


def test_a_round_that_cannot_tell_leaves_what_waits(store: RecommendationStore) -> None:
    pending = store.add(changing(), 1.0)
    verdict = Verdict(VerdictKind.UNCALIBRATED, "No recommendation: it is not like the network.")
    store.add(replace(keeping(), recommendation=replace(keeping().recommendation, verdict=verdict)), 1.0)
    assert store.get(pending.id).status == "pending"
    assert store.current().id == pending.id


def test_rounds_that_change_nothing_are_kept_once(store: RecommendationStore) -> None:
    assert store.add(keeping(), 1.0).status == "kept"
    newest = store.add(keeping(), 1.0)
    assert store.newest(5) == [newest]
    assert newest.support is not None
    assert newest.support.rounds == 2


def test_the_oldest_go_first(store: RecommendationStore) -> None:
    entries = [store.add(other(Watermark(7_000 + n, 70_000, 0.1)), 1.0) for n in range(5)]
    assert len(store) == 3
    with pytest.raises(NotFoundError, match=r"no longer kept \(storage.keep_recommendations"):
        store.get(entries[0].id)


def test_only_what_is_pending_can_be_decided(store: RecommendationStore) -> None:
    with pytest.raises(NotFoundError, match="before the first round"):
        store.current()
    entry = store.add(changing(), 1.0)
    decided = store.decide(store.pending(entry.id), "rejected", "ada")
    assert (decided.status, decided.decided_by) == ("rejected", "ada")
    with pytest.raises(ConflictError, match="is rejected"):
        store.pending(entry.id)
    assert store.current() == decided
    document = recommendation_document(decided, candidates=False)
    assert document.candidates == []
    assert document.candidate_count == len(changing().recommendation.candidates)
    assert document.decided_at is not None


def test_stages_of_a_round_are_timed_apart() -> None:
    assert set(changing().stage_s) >= {"scenario", "propose", "window 1"}
    assert changing().search_s == sum(changing().stage_s.values()) - changing().stage_s["scenario"]
    assert changing().switches == ("leaf1",)
    assert changing().measured_queue_bytes is not None


def rollout(phase: Phase, progress: Progress = Progress.SET) -> RolloutState:
    mark = INCUMBENT
    ran = (QueueWatermark("Ethernet0", 3, mark),)
    change = StagedChange(id="r", switch="leaf1", asked=mark, after=mark, before=ran, diff="-a\n+b")
    plan = RolloutPlan(
        id="r", recommendation="x", targets={"leaf1": mark}, stages=(("leaf1",),), limits=Limits()
    )
    one = MemberProgress(progress, change, mark)
    return RolloutState(plan=plan, phase=phase, since_s=1.0, proposed_s=0.0, members={"leaf1": one})


def test_a_recommendation_follows_its_rollout(store: RecommendationStore) -> None:
    entry = store.add(changing(), 1.0)
    assert (recommendation_document(entry).rollout, recommendation_document(entry).pushed) == (None, [])
    store.decide(entry, "approved", "ada")
    store.follow(entry.id, rollout(Phase.CANARY, Progress.APPLYING))
    under_way = recommendation_document(store.get(entry.id))
    assert (under_way.status, under_way.rollout, under_way.pushed) == ("approved", "r", [])
    store.follow(entry.id, rollout(Phase.DONE))
    (pushed,) = recommendation_document(store.get(entry.id)).pushed
    assert (pushed.switch, pushed.writes, pushed.diff) == ("leaf1", False, "-a\n+b")
    assert pushed.read_back is not None


@pytest.mark.parametrize("phase", [Phase.ROLLING_BACK, Phase.ROLLED_BACK])
def test_one_that_is_taken_back_stands_no_more(store: RecommendationStore, phase: Phase) -> None:
    entry = store.add(changing(), 1.0)
    store.decide(entry, "approved", "ada")
    store.follow(entry.id, rollout(phase, Progress.RESTORED))
    document = recommendation_document(store.get(entry.id))
    assert (document.status, document.decided_by, document.pushed) == ("rolled_back", "ada", [])
    with pytest.raises(ConflictError, match="is rolled_back"):
        store.pending(entry.id)


def test_a_rollout_outlives_the_memory_of_its_recommendation(store: RecommendationStore) -> None:
    store.follow("long ago", rollout(Phase.DONE))
    assert len(store) == 0
