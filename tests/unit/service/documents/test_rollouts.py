"""Events of a rollout as people read them: numbers with names and units, one of a thing in the singular."""

from __future__ import annotations

from service.documents.rollouts import _event
from switches.rollout.plan import Figures
from switches.rollout.state import Measured, Proposed
from tests.unit.switches.rollout.rollouts import plan


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
