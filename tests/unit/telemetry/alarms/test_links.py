"""What conditions on links cover, and the figures of ports they hold against their bounds."""

from __future__ import annotations

from typing import get_args

import pytest

from telemetry.alarms import Rule
from telemetry.counters.window import PortRates, Rates
from telemetry.links import FIGURES, FigureName, LinkCondition, LinkEnd, link_ends
from telemetry.state import QueueRef, QueueState
from telemetry.topology import leaf_spine

RULE = Rule(warning=0.8, critical=None, hold_s=0, clear_s=0)
UPLINK = LinkEnd("leaf1", "Ethernet2", "spine1 Ethernet0", "leaf-up-400G", 1_000.0)


def condition(figure: FigureName = "utilisation", **changes: object) -> LinkCondition:
    return LinkCondition(**({"name": "mine", "figure": figure, "rule": RULE} | changes))  # type: ignore[arg-type]


def queue(number: int, **figures: object) -> QueueState:
    usual = {"depth_mean_bytes": 10.0, "depth_p99_bytes": 20.0, "depth_max_bytes": 30.0, "marked_ratio": None}
    usual |= {"throughput_bytes_per_s": 300.0, "capacity_bytes_per_s": None}
    return QueueState(QueueRef("leaf1", "Ethernet2", number), 500, **(usual | figures))  # type: ignore[arg-type]


COUNTED = PortRates(
    "leaf1", "Ethernet2", 5.0, Rates(pause_share=0.4, drops_per_s=7.0, tx_bytes_per_s=900.0),
    {3: Rates(pause_share=0.4, drops_per_s=5.0), 4: Rates(pause_share=0.1, drops_per_s=2.0), 5: Rates()},
)  # fmt: skip


def test_every_switch_port_has_both_ends_its_role_and_its_rate() -> None:
    ends = link_ends(leaf_spine(2, 1, 2, uplink_gbps=400), declared=True)
    assert len(ends) == 2 * 2 + 2 * 2
    assert ends["leaf2", "Ethernet2"] == LinkEnd(
        "leaf2", "Ethernet2", "spine1 Ethernet1", "leaf-up-400G", 50e9
    )
    assert ends["spine1", "Ethernet1"].name == "spine1 Ethernet1 to leaf2 Ethernet2"
    assert ends["leaf1", "Ethernet1"].name == "leaf1 Ethernet1 to h1"
    discovered = link_ends(leaf_spine(2, 1, 2), declared=False)
    assert {end.rate_bytes_per_s for end in discovered.values()} == {None}


@pytest.mark.parametrize(
    ("patterns", "covered"),
    [
        ({}, True),
        ({"ports": ("leaf*:Ethernet?",)}, True),
        ({"ports": ("spine*:*", "leaf1:*"), "roles": ("leaf-up-*",)}, True),
        ({"ports": ("leaf*:*",), "roles": ("spine-*",)}, False),
        ({"ports": ("leaf1:Ethernet",)}, False),
        ({"ports": ("LEAF1:*",)}, False),
    ],
)
def test_a_link_is_covered_that_fits_a_port_and_a_role(patterns: dict[str, object], covered: bool) -> None:
    assert condition(**patterns).covers(UPLINK) == covered


def test_a_port_of_no_known_role_fits_no_role() -> None:
    assert not condition(roles=("leaf-*",)).covers(LinkEnd("leaf1", "Ethernet2"))


def test_utilisation_is_of_reports_else_of_counters_and_unknown_without_a_rate() -> None:
    mine = condition()
    assert mine.value(UPLINK, [queue(3), queue(4)], COUNTED) == 0.6
    assert condition(queues=frozenset({4})).value(UPLINK, [queue(3), queue(4)], COUNTED) == 0.3
    assert mine.value(UPLINK, [], COUNTED) == 0.0  # its switch reports, and nothing crossed it
    assert mine.value(UPLINK, None, COUNTED) == 0.9
    assert mine.value(UPLINK, None, None) is None
    unrated = LinkEnd("leaf1", "Ethernet2")
    assert mine.value(unrated, [queue(3)], None) is None
    assert mine.value(unrated, [queue(3), queue(4, capacity_bytes_per_s=2_000.0)], None) == 0.3


def test_depths_and_marks_are_those_of_the_worst_queue() -> None:
    nan = float("nan")
    queues = [queue(3, marked_ratio=0.2), queue(4, depth_p99_bytes=70.0, marked_ratio=0.1)]
    assert condition("depth_p99_bytes").value(UPLINK, queues, None) == 70
    assert condition("depth_p99_bytes", queues=frozenset({3})).value(UPLINK, queues, None) == 20
    assert condition("marked_ratio").value(UPLINK, queues, None) == 0.2
    assert condition("depth_mean_bytes").value(UPLINK, [queue(3, depth_mean_bytes=nan)], None) is None
    assert condition("depth_mean_bytes").value(UPLINK, [], None) == 0
    assert condition("depth_mean_bytes").value(UPLINK, None, COUNTED) is None


def test_counters_are_those_of_the_port_or_of_its_queues() -> None:
    three_up = frozenset({3, 4, 5})
    assert condition("pause_share").value(UPLINK, None, COUNTED) == 0.4
    assert condition("drops_per_s", queues=three_up).value(UPLINK, None, COUNTED) == 7
    assert condition("pause_share", queues=frozenset({4, 5})).value(UPLINK, None, COUNTED) == 0.1
    assert condition("drops_per_s", queues=frozenset({5, 6})).value(UPLINK, None, COUNTED) is None
    assert condition("cnp_per_s").value(UPLINK, None, COUNTED) is None


def test_a_forecast_is_held_against_the_bound_as_any_figure() -> None:
    full = condition("forecast_utilisation", ahead_s=600.0)
    assert full.value(UPLINK, [queue(3)], COUNTED, 0.9) == 0.9
    assert full.value(UPLINK, [queue(3)], COUNTED) is None
    assert "is forecast to carry 90% of its rate within 10 min (mine: over 80%)" in full.sentence(UPLINK, 0.9)


def test_a_sentence_names_both_ends_the_figure_and_the_bound() -> None:
    assert condition().sentence(UPLINK, 0.851) == (
        "leaf1 Ethernet2 to spine1 Ethernet0 carries 85.1% of its rate (mine: over 80%)"
    )
    deep = condition("depth_p99_bytes", rule=Rule(
        warning=None, critical=400_000.0, hold_s=0, clear_s=0, below=True,
    ))  # fmt: skip
    assert deep.sentence(UPLINK, 12.0).endswith(
        "holds 12 bytes (99th percentile) in its deepest queue (mine: under 400 000 bytes)"
    )


def test_every_figure_has_words() -> None:
    assert set(FIGURES) == set(get_args(FigureName))
    assert all(figure.says.count("{}") == 1 for figure in FIGURES.values())
