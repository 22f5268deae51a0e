"""Events of a rollout as people read them: numbers with names and units, one of a thing in the singular."""

from __future__ import annotations

from rollout.plan import Figures
from rollout.state import LeftAlone, Measured, Proposed, RollbackAsked
from service.documents.rollouts import RolloutDocument, _event
from service.rollouts.rollout import Rollout
from tests.unit.rollout.rollouts import after, done, plan, proposed, soaking


def test_measured_figures_have_names_and_units() -> None:
    figures = Figures(
        queue_mean_bytes=1.5e5, throughput_bytes_per_s=4.187e10, pause_share=0.0125, pfc_frames_per_s=0.0
    )
    assert _event(Measured(at_s=0.0, figures=figures)).detail == (
        "mean queue 150 KB, throughput 335 Gbit/s, ports paused 1.25 %, PFC frames sent 0 a second"
    )


def test_one_switch_is_one_and_two_are_several() -> None:
    alone = _event(Proposed(at_s=0.0, plan=plan(("leaf1",)))).detail
    both = _event(Proposed(at_s=0.0, plan=plan(("leaf1",), ("leaf2",)))).detail
    assert (alone, both) == ("1 switch in 1 stage", "2 switches in 2 stages")


def test_a_list_counts_the_switches_it_does_not_tell_one_by_one() -> None:
    ended = RolloutDocument.of(Rollout(done(), [])).summary
    assert (ended.switches, ended.written, ended.progress, ended.left_alone) == (3, 3, {"set": 3}, [])
    assert ended.target == RolloutDocument.of(Rollout(done(), [])).switches[0].target
    dry = RolloutDocument.of(Rollout(proposed(plan(written=())), [])).summary
    assert (dry.written, dry.progress) == (0, {"waiting": 3})
    mixed = RolloutDocument.of(Rollout(done(plan(written=("a",))), [])).summary
    assert (mixed.progress, mixed.written_progress) == ({"set": 3}, {"set": 1})
    back = after(
        soaking(), RollbackAsked(at_s=9.0, by="ada"), LeftAlone(at_s=9.0, switch="a", sentence="set since")
    )
    assert RolloutDocument.of(Rollout(back, [])).summary.left_alone == ["a"]


def test_without_its_switches_a_rollout_is_told_in_a_kilobyte_and_their_names() -> None:
    many = tuple(f"leaf{number}" for number in range(500))
    rollout = Rollout(proposed(plan(many[:1], many[1:])), [])
    slim = RolloutDocument.of(rollout, switches=False, events=False).model_dump_json(exclude={"stages"})
    assert len(slim) < 1_500
    assert len(RolloutDocument.of(rollout).model_dump_json()) > 50 * len(slim)
