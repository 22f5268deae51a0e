"""The demo's plans make labs, settings and traffic that mean something."""

from __future__ import annotations

import pytest

from lab.demo.plan import FULL, PAPER, QUICK, VENDOR_DEFAULT, DemoPlan
from lab.setup import LabOptions, lab_parts
from settings.model import Settings
from twin.search.vendor_table import vendor_table


@pytest.mark.parametrize("plan", [FULL, QUICK], ids=lambda plan: plan.name)
class TestPlans:
    def test_intervals_fill_the_run(self, plan: DemoPlan) -> None:
        assert plan.ends_s[-1] == pytest.approx(plan.duration_s)
        assert list(plan.ends_s) == sorted(plan.ends_s)

    def test_phases_begin_and_end_with_intervals(self, plan: DemoPlan) -> None:
        starts = {0.0, *plan.ends_s}
        assert len(plan.phases) >= 2
        assert all(any(abs(phase.begin_s - at) < 1e-9 for at in starts) for phase in plan.phases)
        assert [plan.phase_at(phase.begin_s) for phase in plan.phases] == list(plan.phases)

    def test_its_traffic_changes_and_is_the_same_for_a_seed(self, plan: DemoPlan) -> None:
        def flows(seed: int) -> tuple[list[float], list[float]]:
            options = LabOptions(
                leaf_spine=plan.fabric, traffic=plan.traffic, duration_s=plan.duration_s, seed=seed
            )
            feed = lab_parts(options).feed
            traffic = feed._traffic
            return traffic.start_s.tolist(), traffic.payload_bytes.tolist()

        starts, sizes = flows(1)
        assert (starts, sizes) == flows(1) != flows(2)
        for phase in plan.phases:
            begun = [at for at in starts if phase.begin_s <= at < phase.begin_s + plan.interval_s]
            assert begun, phase.name

    def test_its_settings_are_settings(self, plan: DemoPlan) -> None:
        given = plan.service_settings(seed=3, lab_url="http://127.0.0.1:9000", workers=2)
        settings = Settings(**given)
        assert settings.incumbent.default.watermark() == VENDOR_DEFAULT
        bounds = settings.bounds.bounds()
        assert bounds.contains(VENDOR_DEFAULT)
        assert bounds.contains(PAPER)
        assert settings.telemetry.window().length_ns == pytest.approx(plan.window_s * 1e9)
        assert settings.push.adapter == "lab"
        assert (settings.rollout.soak_s, settings.rollout.batch_soak_s) == (0, 0)
        assert settings.rollout.batch_size >= plan.fabric.leaves + plan.fabric.spines - 1


def test_both_static_settings_are_published_ones() -> None:
    published = {row.watermark for row in vendor_table(12.5e9)}
    assert {VENDOR_DEFAULT, PAPER} <= published
