"""Elephants moved to equal-cost ports, and flows of a switch hashed anew."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from telemetry.network.collisions import Collision, Elephant, PortLoad
from telemetry.state import FlowKey
from telemetry.topology import GBPS, Host, Link, Topology, leaf_spine
from tests.unit.telemetry.network.uplinks import EVEN, FABRIC, ON_TWO_OF_FOUR, UPLINKS, over
from twin.paths.moves import Carried, carried, hashed, rerouted, spread
from twin.scenario import Flows, Scenario


def port(name: str, switch: str = "leaf1", topology: Topology = FABRIC) -> int:
    return topology.port_index[switch, name]


def elephant(number: int, spine: int, gbps: float = 25.0) -> Elephant:
    key = FlowKey(f"10.0.0.{number + 1}", f"10.0.0.{number + 9}", 1_024 + number, 4_791, 17)
    return Elephant(key, f"h{number}", f"h{number + 8}", port(UPLINKS[spine]), gbps * GBPS)


def collided(spines: tuple[int, ...] = ON_TWO_OF_FOUR, gbps: float = 25.0) -> Collision:
    elephants = [elephant(number, spine, gbps) for number, spine in enumerate(spines)]
    ports = []
    for name in UPLINKS:
        own = tuple(one for one in elephants if one.port == port(name))
        ports.append(PortLoad(port(name), name, 100 * GBPS, sum(one.bytes_per_s for one in own), own))
    return Collision("leaf1", tuple(sorted(ports, key=lambda one: -one.load_bytes_per_s)))


def loads(collision: Collision) -> dict[int, float]:
    return {one.port: one.load_bytes_per_s for one in collision.ports}


def uplinks_of(scenario: Scenario) -> Counter[str | None]:
    """How many flows leave leaf1 by each of its uplinks."""
    paths = [scenario.flows.path(row) for row in range(len(scenario.flows))]
    return Counter(scenario.ports[one].port for path in paths for one in path if one in map(port, UPLINKS))


def walks(scenario: Scenario) -> None:
    """Each path goes from port to port and ends at its receiver."""
    for row, dst in enumerate(scenario.flows.dst):
        path = [scenario.ports[one] for one in scenario.flows.path(row)]
        assert path[0].node == scenario.flows.src[row]
        assert [one.peer for one in path[:-1]] == [one.node for one in path[1:]]
        assert path[-1].peer == dst


class TestMoves:
    def test_eight_on_two_uplinks_become_two_on_each(self) -> None:
        scenario, group = over(ON_TWO_OF_FOUR), collided()
        elephants = carried(scenario.flows, group)
        moves = spread(FABRIC, scenario.flows, group, elephants, loads(group))
        assert len(moves) == 4
        changes = {row: path for move in moves for row, path in move.paths}
        after = replace(scenario, flows=rerouted(scenario.flows, changes))
        assert uplinks_of(after) == dict.fromkeys(UPLINKS, 2)
        walks(after)

    def test_an_even_load_is_left(self) -> None:
        scenario, group = over(EVEN), collided(EVEN)
        assert spread(FABRIC, scenario.flows, group, carried(scenario.flows, group), loads(group)) == []

    def test_a_way_that_is_full_further_on_is_not_taken(self) -> None:
        scenario, group = over(ON_TWO_OF_FOUR), collided()
        full = {port("Ethernet1", "spine3"): 95 * GBPS}
        moves = spread(FABRIC, scenario.flows, group, carried(scenario.flows, group), loads(group) | full)
        assert {one.to for one in moves} == {port("Ethernet11")}

    @pytest.mark.parametrize(("other_gbps", "n_moves"), [(0.0, 1), (60.0, 0)])
    def test_a_receiver_of_two_links_gets_elephants_over_the_other_where_that_has_room(
        self, other_gbps: float, n_moves: int
    ) -> None:
        cables = [
            Link("a", "s", 100, 1, None, "p0"),
            *(Link("s", "b", 100, 1, name, None) for name in ("p1", "p2")),
        ]
        fabric = Topology((Host("a", ("10.0.0.1",)), Host("b", ("10.0.0.2",))), ("s",), tuple(cables))
        full, other = fabric.next_hops("s", "b")
        keys = [FlowKey("10.0.0.1", "10.0.0.2", sport, 4_791, 17) for sport in (1, 2)]
        two = tuple(Elephant(key, "a", "b", full, 40 * GBPS) for key in keys)
        group = Collision(
            "s",
            (
                PortLoad(full, "p1", 100 * GBPS, 80 * GBPS, two),
                PortLoad(other, "p2", 100 * GBPS, other_gbps * GBPS, ()),
            ),
        )
        nic = next(at for at, one in enumerate(fabric.ports) if one.node == "a")
        path = [nic, full]
        flows = Flows(
            src=("a", "a"),
            dst=("b", "b"),
            payload_bytes=np.array([2e6, 2e6]),
            start_s=np.zeros(2),
            start_rate_bytes_per_s=np.full(2, 100 * GBPS),
            path_offset=np.array([0, 2, 4], dtype=np.int32),
            path_ports=np.array([*path, *path], dtype=np.int32),
        )
        moves = spread(fabric, flows, group, carried(flows, group), loads(group))
        assert [one.to for one in moves] == [other] * n_moves

    def test_an_elephant_as_large_as_its_port_has_nowhere_better(self) -> None:
        scenario, group = over((0, 1)), collided((0, 1), 100.0)
        assert spread(FABRIC, scenario.flows, group, carried(scenario.flows, group), loads(group)) == []

    def test_elephants_that_the_moment_does_not_show_stay(self) -> None:
        scenario = over(ON_TWO_OF_FOUR[:2])
        group = collided()
        elephants = carried(scenario.flows, group)
        assert [one.elephant.src_host for one in elephants] == ["h0", "h1"]
        moves = spread(FABRIC, scenario.flows, group, elephants, loads(group))
        assert {one.elephant.src_host for one in moves} <= {"h0", "h1"}

    def test_elephants_between_the_same_hosts_share_their_rows(self) -> None:
        flows = over((0, 0)).flows
        same = replace(flows, src=("h0", "h0"), dst=("h8", "h8"))
        one = elephant(0, 0)
        twin = replace(one, key=one.key._replace(sport=2_000))
        ports = (PortLoad(one.port, "Ethernet8", 100 * GBPS, 50 * GBPS, (one, twin)),)
        assert [found.rows for found in carried(same, Collision("leaf1", ports))] == [(0,), (1,)]


class TestHashing:
    def test_draws_differ_by_seed_and_repeat(self) -> None:
        flows, elephants = over(ON_TWO_OF_FOUR).flows, carried(over(ON_TWO_OF_FOUR).flows, collided())
        first = [hashed(FABRIC, flows, "leaf1", elephants, seed) for seed in range(4)]
        assert first == [hashed(FABRIC, flows, "leaf1", elephants, seed) for seed in range(4)]
        assert len({tuple(one.items()) for one in first}) > 1

    def test_every_port_is_as_likely(self) -> None:
        scenario = over(ON_TWO_OF_FOUR)
        elephants = carried(scenario.flows, collided())
        taken: Counter[str | None] = Counter()
        for seed in range(200):
            changes = hashed(FABRIC, scenario.flows, "leaf1", elephants, seed)
            taken += uplinks_of(replace(scenario, flows=rerouted(scenario.flows, changes)))
        assert sum(taken.values()) == 1_600
        assert all(count == pytest.approx(400, abs=70) for count in taken.values())

    def test_rows_of_one_elephant_stay_together(self) -> None:
        flows = over((0, 0)).flows
        both = [Carried(elephant(0, 0), (0, 1))]
        same = replace(flows, src=("h0", "h0"), dst=("h8", "h8"), path_ports=np.tile(flows.path_ports[:4], 2))
        for seed in range(20):
            changes = hashed(FABRIC, same, "leaf1", both, seed)
            assert changes.get(0) == changes.get(1)

    def test_where_there_is_one_way_nothing_changes(self) -> None:
        narrow = leaf_spine(2, 1, 8)
        assert hashed(narrow, over((0, 0), topology=narrow).flows, "leaf1", [], 1) == {}
