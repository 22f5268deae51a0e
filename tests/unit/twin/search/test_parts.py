"""Splitting a scenario where nothing is shared."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.twin.fabrics import star
from twin.scenario import Scenario
from twin.search.parts import split_moments
from twin.senders.artefact import SWIFT

PAIRS = st.lists(
    st.tuples(st.integers(0, 7), st.integers(0, 7)).filter(lambda pair: pair[0] != pair[1]),
    min_size=1,
    max_size=12,
)


def split(scenario: Scenario, max_parts: int = 8) -> list[Scenario]:
    return [part for (part,) in split_moments([scenario], max_parts)]


def test_one_piece_comes_back_as_it_is() -> None:
    scenario = star([(0, 1), (2, 1), (2, 3)])
    assert split(scenario) == [scenario]


def test_flows_that_share_no_port_part() -> None:
    parts = split(star([(4, 5), (0, 1), (2, 1)]))
    assert [part.flows.src for part in parts] == [("h0", "h2"), ("h4",)]
    assert [part.name for part in parts] == ["star part 1", "star part 2"]


def test_a_part_knows_the_senders_of_its_own_hosts() -> None:
    scenario = replace(star([(4, 5), (0, 1), (2, 1)]), senders={"h4": SWIFT, "h1": SWIFT, "h7": SWIFT})
    assert [set(part.senders) for part in split(scenario)] == [{"h1"}, {"h4"}]


def test_a_shared_nic_joins() -> None:
    assert len(split(star([(0, 1), (0, 2)], ack_wire_bytes=0))) == 1


def test_acknowledgements_join_what_data_does_not() -> None:
    # h1 answers h0 through the NIC from which it sends to h2.
    assert len(split(star([(0, 1), (1, 2)], ack_wire_bytes=0))) == 2
    assert len(split(star([(0, 1), (1, 2)], ack_wire_bytes=60))) == 1


@given(pairs=PAIRS, ack=st.sampled_from([0, 60]), max_parts=st.integers(1, 9))
def test_parts_hold_every_flow_once_on_its_own_path(
    pairs: list[tuple[int, int]], ack: int, max_parts: int
) -> None:
    scenario = star(pairs, ack_wire_bytes=ack)
    parts = split(scenario, max_parts)
    assert 1 <= len(parts) <= max_parts
    whole = sorted(_flow(scenario, flow) for flow in range(len(scenario.flows)))
    assert sorted(_flow(part, flow) for part in parts for flow in range(len(part.flows))) == whole
    for part in parts:
        assert np.all(np.diff(part.flows.start_s) >= 0)
        assert part.duration_s == scenario.duration_s


@given(pairs=PAIRS)
def test_parts_share_no_port(pairs: list[tuple[int, int]]) -> None:
    parts = split(star(pairs, ack_wire_bytes=60))
    seen = [port for part in parts if len(parts) > 1 for port in part.ports]
    assert len(seen) == len(set(seen))


@given(pairs=PAIRS)
def test_a_part_monitors_what_its_flows_cross(pairs: list[tuple[int, int]]) -> None:
    parts = split(star(pairs, ack_wire_bytes=0))
    if len(parts) == 1:
        return
    for part in parts:
        crossed = set(part.flows.path_ports.tolist())
        assert set(part.monitored) == {port for port in crossed if not part.is_nic[port]}


def test_parts_without_a_monitored_port_watch_their_switch_ports() -> None:
    scenario = replace(star([(0, 1), (2, 1), (4, 5)]), monitored=(9,))
    first, second = split(scenario)
    assert [first.ports[port].peer for port in first.monitored] == ["h1"]
    assert [second.ports[port].peer for port in second.monitored] == ["h5"]


@pytest.mark.parametrize(("max_parts", "sizes"), [(8, [3, 2, 1]), (2, [3, 3]), (1, [6])])
def test_the_smallest_stay_together_beyond_the_limit(max_parts: int, sizes: list[int]) -> None:
    scenario = star([(0, 1), (2, 3), (0, 1), (4, 5), (2, 3), (0, 1)])
    assert [len(part.flows) for part in split(scenario, max_parts)] == sizes


def _flow(scenario: object, flow: int) -> tuple[object, ...]:
    flows, ports = scenario.flows, scenario.ports  # type: ignore[attr-defined]
    path = tuple((ports[port].node, ports[port].peer) for port in flows.path(flow))
    return flows.src[flow], flows.dst[flow], float(flows.start_s[flow]), path
