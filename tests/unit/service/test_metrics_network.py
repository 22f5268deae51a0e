"""What metrics of the network show, and no longer show."""

from __future__ import annotations

import math
from collections.abc import Iterable

from prometheus_client import CollectorRegistry

from service.network_metrics import MOST_STRANGERS, NetworkMetrics
from telemetry.counters.window import PortRates, Rates
from telemetry.topology import leaf_spine


def test_a_switch_that_tells_nothing_of_now_is_taken_away_and_may_come_back() -> None:
    registry = CollectorRegistry()
    metrics = NetworkMetrics(registry)

    def drops(switch: str) -> float | None:
        return registry.get_sample_value("ecntwin_switch_dropped_packets_per_second", {"switch": switch})

    def saw(**per_s: float | None) -> None:
        metrics.saw_ports(
            PortRates(switch, "1", 1.0, Rates(drops_per_s=value), {}) for switch, value in per_s.items()
        )

    saw(leaf1=1.0, leaf2=2.0)
    assert (drops("leaf1"), drops("leaf2")) == (1.0, 2.0)
    saw(leaf1=3.0, leaf2=None)
    assert (drops("leaf1"), drops("leaf2")) == (3.0, None)
    saw(leaf2=4.0)
    assert (drops("leaf1"), drops("leaf2")) == (None, 4.0)


def test_names_without_end_make_no_labels_without_end() -> None:
    registry = CollectorRegistry()
    metrics = NetworkMetrics(registry)
    invented = [f"invented{number}" for number in range(MOST_STRANGERS + 10)]

    def saw(names: Iterable[str]) -> None:
        metrics.saw_ports(PortRates(one, "1", 1.0, Rates(0.5, *[5.0] * 6), {}) for one in names)

    def told(name: str = "ecntwin_switch_dropped_packets_per_second") -> list[str]:
        return [
            one.labels["switch"]
            for family in registry.collect()
            for one in family.samples
            if one.name == name
        ]

    saw(invented)
    assert told() == told("ecntwin_switch_pause_ratio") == invented[:MOST_STRANGERS]
    metrics.knows_switches(["leaf1"])
    saw([*reversed(invented), "leaf1"])
    assert told() == [*invented[:MOST_STRANGERS], "leaf1"]
    saw(invented[1:])
    assert set(told()) == set(invented[1 : MOST_STRANGERS + 1])


def test_pauses_and_queues_are_told_by_the_role_of_the_switch() -> None:
    registry = CollectorRegistry()
    metrics = NetworkMetrics(registry)
    topology = leaf_spine(n_leaves=2, n_spines=1, hosts_per_leaf=1, rate_gbps=100.0, delay_us=1.0)
    metrics._roles = topology.roles

    def told(role: str) -> float | None:
        return registry.get_sample_value("ecntwin_pause_ratio", {"switch_role": role})

    paused = {"leaf1": 0.1, "leaf2": 0.3, "spine1": 0.2, "elsewhere": 0.4}
    metrics.saw_ports(
        PortRates(switch, "1", 1.0, Rates(pause_share=share), {}) for switch, share in paused.items()
    )
    assert {role: told(role) for role in ("leaf", "spine", "core", "other")} == {
        "leaf": 0.3,
        "spine": 0.2,
        "core": None,
        "other": 0.4,
    }
    metrics.saw_ports(())
    assert told("leaf") is None


def test_where_the_window_tells_nothing_of_now_its_figures_are_none() -> None:
    registry = CollectorRegistry()
    NetworkMetrics(registry).saw_state(None)
    for name, labels in (
        ("ecntwin_incast_degree", {}),
        ("ecntwin_mice_to_elephants_ratio", {"by": "flows"}),
        ("ecntwin_flows", {"class": "mouse"}),
    ):
        value = registry.get_sample_value(name, labels)
        assert value is not None
        assert math.isnan(value)
