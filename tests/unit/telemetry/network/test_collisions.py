"""Elephants that share an uplink while its equal idles: found, and no alarm where there is no collision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from telemetry.network.collisions import Collisions, collisions
from telemetry.state import FlowClass, FlowKey, FlowTable, NetworkState, QueueRef, QueueState
from telemetry.topology import GBPS, Topology, leaf_spine
from tests.unit.telemetry.network.uplinks import (
    EVEN,
    FABRIC,
    ON_TWO_OF_FOUR,
    over,
    recorded,
    seen,
    without_paths,
)

ENOUGH = 1_000


def window(
    elephants: Sequence[tuple[int, float]],
    loads: Mapping[int, float] | None = None,
    *,
    topology: Topology = FABRIC,
    reports: int = ENOUGH,
    flow_class: FlowClass = FlowClass.ELEPHANT,
) -> NetworkState:
    """The k-th elephant, (spine, Gbit/s), goes from host k of leaf1 to that of leaf2.

    ``loads`` of the uplinks in Gbit/s, by spine, are those of their elephants unless given.
    """
    of_elephants: dict[int, float] = {}
    for spine, gbps in elephants:
        of_elephants[spine] = of_elephants.get(spine, 0.0) + gbps
    uplink = {
        int(port.peer[5:]) - 1: port.port or ""
        for port in topology.ports
        if port.node == "leaf1" and port.peer.startswith("spine")
    }
    paths = tuple(
        (
            QueueRef("leaf1", uplink[spine], 3),
            QueueRef(f"spine{spine + 1}", "Ethernet1", 3),
            QueueRef("leaf2", f"Ethernet{row}", 3),
        )
        for row, (spine, _) in enumerate(elephants)
    )
    rate = np.array([gbps * GBPS for _, gbps in elephants])
    count = len(elephants)
    base = seen_once()
    return replace(
        base,
        topology=topology,
        paths=paths,
        flows=FlowTable(
            keys=tuple(FlowKey(f"10.0.0.{row}", "10.0.0.9", 1000 + row, 4791, 17) for row in range(count)),
            src_host=tuple(f"h{row}" for row in range(count)),
            dst_host=tuple(f"h{row + 8}" for row in range(count)),
            path=np.arange(count, dtype=np.int32),
            flow_class=np.full(count, flow_class, dtype=np.int8),
            window_bytes=rate * base.duration_s,
            throughput_bytes_per_s=rate,
            n_reports=np.full(count, reports),
        ),
        queues=tuple(
            QueueState(
                QueueRef("leaf1", uplink[spine], 3), reports, 0.0, 0.0, 0.0, None, gbps * GBPS, 100 * GBPS
            )
            for spine, gbps in (of_elephants if loads is None else loads).items()
        ),
    )


_SEEN: list[NetworkState] = []


def seen_once() -> NetworkState:
    """Any window, for the parts that nothing here depends on."""
    if not _SEEN:
        _SEEN.append(seen(recorded(over(EVEN, duration_s=0.001), rate=0.1)))
    return _SEEN[0]


def fullest(found: Collisions) -> tuple[str, str, int]:
    [one] = found.found
    return one.switch, one.ports[0].name, len(one.ports[0].elephants)


def test_elephants_on_one_uplink_while_three_are_nearly_empty_collide() -> None:
    found = collisions(window([(0, 15.0)] * 6, {0: 92.0, 1: 8.0, 2: 8.0, 3: 8.0}))
    assert fullest(found) == ("leaf1", "Ethernet8", 6)
    [one] = found.found
    assert one.ratio == pytest.approx(92 / 29)
    assert {port.name for port in one.ports} == {"Ethernet8", "Ethernet9", "Ethernet10", "Ethernet11"}
    assert (found.n_groups, found.n_elephants, found.n_unknown) == (1, 6, 0)


def test_two_full_uplinks_of_four_are_one_collision() -> None:
    assert fullest(collisions(window([(0, 25.0), (1, 24.0)] * 4))) == ("leaf1", "Ethernet8", 4)


@pytest.mark.parametrize(
    ("elephants", "loads"),
    [
        ([(0, 40.0), (1, 40.0), (2, 40.0), (3, 40.0)] * 2, None),
        ([(0, 45.0)] * 2, {0: 90.0, 1: 60.0, 2: 60.0, 3: 60.0}),  # 1.33 times the mean
        ([(0, 90.0)], None),  # one elephant shares with nobody
        ([(0, 10.0)] * 2, None),  # the fullest port is a fifth full
        ([(0, 48.0)] * 2, {0: 99.0, 1: 55.0, 2: 55.0, 3: 55.0}),  # one more is as full afterwards
    ],
    ids=["even", "below the ratio", "one elephant", "little load", "no room"],
)
def test_no_false_alarm(elephants: list[tuple[int, float]], loads: dict[int, float] | None) -> None:
    assert collisions(window(elephants, loads)).found == ()


def test_the_ratio_is_the_operators() -> None:
    state = window([(0, 20.0)] * 2, {0: 90.0, 1: 60.0, 2: 60.0, 3: 60.0})
    assert collisions(state, 1.3).found
    assert not collisions(state, 1.4).found


def test_few_samples_prove_nothing() -> None:
    loads = {0: 80.0, 1: 40.0, 2: 40.0, 3: 40.0}
    assert not collisions(window([(0, 20.0)] * 4, loads, reports=20)).found
    assert collisions(window([(0, 20.0)] * 4, loads, reports=200)).found


def test_mice_do_not_collide() -> None:
    assert not collisions(window([(0, 15.0)] * 6, flow_class=FlowClass.MOUSE)).found


def test_one_uplink_is_no_choice() -> None:
    found = collisions(window([(0, 15.0)] * 6, topology=leaf_spine(2, 1, 8)))
    assert (found.found, found.n_groups) == ((), 0)


def test_a_slower_uplink_is_not_equal() -> None:
    links = tuple(
        replace(link, rate_gbps=25.0) if link.b in ("spine2", "spine3", "spine4") else link
        for link in FABRIC.links
    )
    assert collisions(window([(0, 15.0)] * 6, topology=replace(FABRIC, links=links))).n_groups == 0


def test_elephants_of_unknown_path_are_counted() -> None:
    found = collisions(without_paths(window([(0, 15.0)] * 6)))
    assert (found.found, found.n_elephants, found.n_unknown) == ((), 6, 6)


def test_a_detour_has_no_equals() -> None:
    state = window([(0, 15.0)] * 6)
    here = tuple(f"h{row}" for row in (1, 2, 3, 4, 5, 0))  # hosts of the same leaf, yet by a spine
    assert collisions(replace(state, flows=replace(state.flows, dst_host=here))).n_groups == 0


def test_eight_elephants_on_two_of_four_uplinks_are_found_from_one_packet_in_a_thousand() -> None:
    [one] = collisions(seen(recorded(over(ON_TWO_OF_FOUR)))).found
    assert [len(port.elephants) for port in one.ports] == [4, 4, 0, 0]
    assert {port.name for port in one.ports[:2]} == {"Ethernet8", "Ethernet9"}
    assert one.ratio == pytest.approx(2.0, abs=0.15)
    assert collisions(seen(recorded(over(EVEN)))).found == ()


def test_a_topology_made_of_reports_does_not_show_idle_ports() -> None:
    found = collisions(seen(recorded(over(ON_TWO_OF_FOUR, duration_s=0.01), rate=0.01), topology=None))
    assert found.found == ()
    assert found.n_elephants == 8
