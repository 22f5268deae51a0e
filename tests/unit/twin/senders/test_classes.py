"""Which class a host's NICs are of: what is said, what hosts at its rate are, or the rate."""

from __future__ import annotations

import pytest

from telemetry.topology import Host, Link, Topology
from twin.senders.classes import nic_classes

RATES_GBPS = {"a": 100.0, "b": 100.0, "c": 100.0, "d": 25.0}
TOPOLOGY = Topology(
    tuple(map(Host, RATES_GBPS)),
    ("s",),
    tuple(Link(name, "s", rate, 1.0, None, f"to-{name}") for name, rate in RATES_GBPS.items()),
)


@pytest.mark.parametrize(
    ("said", "classes"),
    [
        ({}, {"a": "100G", "b": "100G", "c": "100G", "d": "25G"}),
        ({"a": "gpu", "d": "disk"}, {"a": "gpu", "b": "gpu", "c": "gpu", "d": "disk"}),
        ({"a": "gpu", "b": "gpu", "c": "disk"}, {"a": "gpu", "b": "gpu", "c": "disk", "d": "25G"}),
        ({"a": "gpu", "b": ""}, {"a": "gpu", "b": "gpu", "c": "gpu", "d": "25G"}),
        ({"b": "y", "c": "x"}, {"a": "x", "b": "y", "c": "x", "d": "25G"}),
        ({"x": "gpu", "y": ""}, {"a": "100G", "b": "100G", "c": "100G", "d": "25G", "x": "gpu", "y": "gpu"}),
        ({"a": "gpu", "d": "gpu"}, {}),
    ],
)
def test_a_host_without_a_class_is_of_that_of_most_at_its_rate(
    said: dict[str, str], classes: dict[str, str]
) -> None:
    assert nic_classes(said, TOPOLOGY) == classes


@pytest.mark.parametrize(
    ("said", "classes"),
    [
        ({}, {}),
        ({"a": "", "b": ""}, {}),
        ({"a": "gpu", "b": ""}, {}),
        (
            {"a": "gpu", "b": "", "c": "disk", "d": "disk"},
            {"a": "gpu", "b": "disk", "c": "disk", "d": "disk"},
        ),
    ],
)
def test_without_a_topology_classes_are_those_said(said: dict[str, str], classes: dict[str, str]) -> None:
    assert nic_classes(said, None) == classes
