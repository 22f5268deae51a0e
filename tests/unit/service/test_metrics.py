"""Metric names follow the house rules: one prefix, base units, no label that could name a flow."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from service.metrics import Metrics
from service.network_metrics import MOST_STRANGERS
from twin.watermark import Watermark

UNITLESS = {
    "ecntwin_nic_hosts_unread",
    "ecntwin_nics_differing",
    "ecntwin_sender_contradicts",
    "ecntwin_flows",
    "ecntwin_lossless_findings",
    "ecntwin_round_running",
    "ecntwin_round_candidates_per_second",
    "ecntwin_build_info",
    "ecntwin_switch_reachable",
    "ecntwin_switch_drifted",
    "ecntwin_switches_frozen",
    "ecntwin_rollouts_active",
    "ecntwin_udp_queue_datagrams",
    "ecntwin_int_datagrams_lost",
    "ecntwin_int_untuned",
    "ecntwin_alarms",
    "ecntwin_alarms_silenced",
    "ecntwin_asyncio_tasks",
    "ecntwin_storage_failing",
    "ecntwin_storage_waiting",
    "ecntwin_incast_degree",
    "ecntwin_recommendation_pending",
    "ecntwin_condition_level",
    "ecntwin_condition_figures_level",
    "ecntwin_goodput_bytes_per_second",
    "ecntwin_switch_pfc_frames_received_per_second",
    "ecntwin_switch_pfc_frames_sent_per_second",
    "ecntwin_switch_ecn_marked_packets_per_second",
    "ecntwin_switch_cnp_packets_per_second",
    "ecntwin_switch_dropped_packets_per_second",
    "ecntwin_switch_wred_dropped_packets_per_second",
}
COUNTS = {
    "ecntwin_advice_looks",
    "ecntwin_advice_rounds",
    "ecntwin_storage_dropped",
    "ecntwin_authentication_failures",
    "ecntwin_requests_limited",
    "ecntwin_reports_accepted",
    "ecntwin_reports_rejected",
    "ecntwin_report_bodies_refused",
    "ecntwin_ingest_refused",
    "ecntwin_switch_samples_accepted",
    "ecntwin_switch_samples_rejected",
    "ecntwin_counter_polls",
    "ecntwin_counter_poll_failures",
    "ecntwin_counter_poll_values_refused",
    "ecntwin_udp_datagrams_received",
    "ecntwin_udp_datagrams_dropped",
    "ecntwin_int_datagrams",
    "ecntwin_int_drop_reports",
    "ecntwin_int_flagged_reports",
    "ecntwin_int_postcards",
    "ecntwin_int_sender_restarts",
    "ecntwin_rounds",
    "ecntwin_rollouts",
    "ecntwin_rollouts_begun",
    "ecntwin_switch_failures",
    "ecntwin_switch_rollbacks",
    "ecntwin_alarms_raised",
    "ecntwin_nic_reads",
    "ecntwin_nic_read_failures",
    "ecntwin_nic_events",
}
LABELS = {
    *("reason", "class", "stage", "outcome", "switch", "role", "version", "python", "le"),
    *("adapter", "step", "where"),
    *("kind", "level", "by", "rule"),
    *("queue", "flag", "switch_role", "status", "counter"),
}


BY_SWITCH = {
    *("ecntwin_switch_reachable", "ecntwin_switch_drifted"),
    *("ecntwin_watermark_kmin_bytes", "ecntwin_watermark_kmax_bytes", "ecntwin_watermark_pmax_ratio"),
}
MARK = Watermark(1, 2, 0.5)


@pytest.fixture
def metrics() -> Metrics:
    made = Metrics(CollectorRegistry(), version="1.2.3")
    made.accepted.inc(3)
    made.stage_seconds.labels("scenario").observe(0.2)
    made.round_seconds.observe(0.3)
    made.predicted_queue.labels("incumbent").set(1.0)
    made.rollouts.labels("done").inc()
    made.step_seconds.labels("lab", "apply").observe(0.1)
    made.switch_failures.labels("lab", "unreachable").inc()
    made.switch_rollbacks.labels("lab").inc()
    made.drifted.labels("leaf1").set(0)
    made.binary.drops.labels("leaf1", "3").inc()
    made.binary.flagged.labels("leaf1", "congested_queue").inc()
    made.saw_watermarks("current", {"leaf1": Watermark(1, 2, 0.5), "leaf2": None})
    return made


def exposed(metrics: Metrics) -> str:
    text, media_type = metrics.exposition("")
    assert media_type.startswith("text/plain")
    return text.decode()


def test_only_switches_of_the_newest_recommendation_have_a_recommended_watermark(metrics: Metrics) -> None:
    for switches in (["leaf1", "leaf2"], ["leaf2", "leaf3"]):
        metrics.saw_watermarks("recommended", dict.fromkeys(switches, Watermark(1, 2, 0.5)))
    said = exposed(metrics)
    for name in ("kmin_bytes", "kmax_bytes", "pmax_ratio"):
        found = re.findall(rf'ecntwin_watermark_{name}{{role="(\w+)",switch="(\w+)"}}', said)
        assert sorted(found) == [("current", "leaf1"), ("recommended", "leaf2"), ("recommended", "leaf3")]


def test_of_switches_that_nobody_declared_so_many_have_series(metrics: Metrics) -> None:
    def told() -> dict[str, int]:
        found = re.findall(r'^(ecntwin_\w+){(?:role="(\w+)",)?switch="\w+"} ', exposed(metrics), re.MULTILINE)
        each = ["_".join(filter(None, one)) for one in found if one[0] in BY_SWITCH]
        return {one: each.count(one) for one in each}

    def seen(names: list[str]) -> None:
        for name in names:
            metrics.saw_switch(name, MARK, reachable=True, drifted=False)
        for role in ("current", "recommended"):
            metrics.saw_watermarks(role, dict.fromkeys(names, MARK))

    metrics = Metrics(CollectorRegistry(), version="1.2.3")
    metrics.network.knows_switches(["leaf1", "leaf2"])
    seen([*(f"invented{number}" for number in range(2 * MOST_STRANGERS)), "leaf1", "leaf2"])
    assert set(told().values()) == {MOST_STRANGERS + 2}
    assert len(told()) == 2 * 3 + 2
    metrics.network.knows_switches(["leaf2"])
    metrics.keep_switches({"leaf2", "invented1"})
    assert set(told().values()) == {2}
    seen(["leaf2", *(f"late{number}" for number in range(MOST_STRANGERS))])
    assert set(told().values()) == {MOST_STRANGERS + 1}
    assert "leaf1" not in exposed(metrics)


def test_names_carry_the_prefix_and_a_base_unit(metrics: Metrics) -> None:
    for family in text_string_to_metric_families(exposed(metrics)):
        name = family.name.removesuffix("_created")
        assert name.startswith("ecntwin_")
        assert name in UNITLESS | COUNTS or re.search(r"_(seconds|bytes|ratio)$", name), name
        assert family.documentation


def test_no_label_names_a_flow(metrics: Metrics) -> None:
    used = {
        label for family in metrics.registry.collect() for sample in family.samples for label in sample.labels
    }
    assert used <= LABELS


def test_an_unknown_watermark_is_left_out(metrics: Metrics) -> None:
    labels = {"switch": "leaf1", "role": "current"}
    assert metrics.registry.get_sample_value("ecntwin_watermark_kmin_bytes", labels) == 1
    assert (
        metrics.registry.get_sample_value("ecntwin_watermark_kmin_bytes", labels | {"switch": "leaf2"})
        is None
    )


@pytest.mark.parametrize(
    "figure",
    ["measured_queue_bytes", "twin_residual_ratio", "round_candidates_per_second"],
)
def test_what_only_a_round_tells_is_not_known_before_the_first(figure: str) -> None:
    """0 would be an empty queue, a perfect prediction and no candidate."""
    assert f"ecntwin_{figure} NaN" in exposed(Metrics(CollectorRegistry(), version="1"))


def test_two_services_share_nothing(metrics: Metrics) -> None:
    other = Metrics(CollectorRegistry(), version="1.2.3")
    assert other.registry.get_sample_value("ecntwin_reports_accepted_total") == 0


def test_promtool_has_no_complaint(metrics: Metrics) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian package prometheus)")
    done = subprocess.run(
        [promtool, "check", "metrics"], input=exposed(metrics), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
