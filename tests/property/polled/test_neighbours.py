"""Random answers of switches, declarations and INT: merging never raises, and loses nothing that is sure."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from telemetry.neighbours.eos import eos_neighbours
from telemetry.neighbours.merge import merge
from telemetry.neighbours.model import Neighbour, Port, SwitchNeighbours
from telemetry.neighbours.nxos import nxos_neighbours
from telemetry.neighbours.openconfig import OpenConfigNeighbours
from telemetry.neighbours.sonic import sonic_neighbours
from telemetry.topology import Host, Link, Topology, topology_from_json

SWITCHES = ("leaf1", "leaf2", "spine1.dc.example")
PORTS = ("Ethernet0", "Ethernet4", "etp1", "Eth4")
NAMES = st.sampled_from(
    [
        *SWITCHES,
        "leaf1.dc.example",
        "leaf1.b",
        "LEAF2",
        "spine1",
        "sonic",
        "h1",
        "h1.dc",
        "h1.b",
        "H2",
        "10.0.0.1",
    ]
)
MACS = st.sampled_from(["00:00:00:00:00:01", "00:00:00:00:00:02"])
NEIGHBOUR = st.builds(
    Neighbour,
    st.sampled_from(PORTS[:2]),
    st.none() | NAMES,
    MACS,
    st.none() | st.sampled_from([*PORTS, "ens1f0", "00:00:00:00:00:01"]),
    st.none() | st.sampled_from(PORTS),
)
READ = st.dictionaries(
    st.sampled_from(SWITCHES),
    st.builds(
        SwitchNeighbours,
        st.lists(NEIGHBOUR, max_size=4).map(tuple),
        st.dictionaries(
            st.sampled_from(PORTS[:2]),
            st.builds(
                Port,
                st.none() | st.sampled_from([25.0, 100.0]),
                st.sampled_from([(), ("etp1",), ("Ethernet0",)]),
            ),
        ),
        st.lists(NAMES, max_size=2).map(tuple),
        st.none() | MACS,
    ),
)


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    """Any that is allowed, on names like those of switches and neighbours."""
    names = draw(st.lists(NAMES, unique=True, min_size=2))
    cut = draw(st.integers(0, len(names)))
    addresses = draw(st.lists(NAMES.filter(lambda one: one not in names[:cut]), unique=True, max_size=cut))
    others = [*addresses, *[None] * (cut - len(addresses))]
    hosts = tuple(
        Host(name, name if draw(st.booleans()) else other)
        for name, other in zip(names[:cut], others, strict=True)
    )
    ends = draw(st.permutations([(name, port) for name in names for port in PORTS]))
    links = [
        Link(a, b, draw(st.sampled_from([25.0, 100.0])), 1.0, a_port, b_port)
        for (a, a_port), (b, b_port) in zip(ends[::2], ends[1::2], strict=True)
        if a != b and draw(st.booleans())
    ]
    return Topology(hosts, tuple(names[cut:]), tuple(links))


@given(READ, st.none() | topologies(), st.none() | topologies())
def test_whatever_is_merged_is_a_topology_and_what_both_ends_say_is_in_it(
    read: dict[str, SwitchNeighbours], declared: Topology | None, discovered: Topology | None
) -> None:
    found = merge(SWITCHES, read, declared=declared, discovered=discovered)
    if found.topology.links:  # one that declares none is refused
        assert topology_from_json(found.topology.to_json()) == found.topology
    assert set(SWITCHES) <= set(found.topology.switches)
    assert all(one.sentence.isprintable() for one in found.differences)
    assert found.default_delays <= len(found.topology.links)
    again = merge(SWITCHES, read, declared=found.topology)
    assert {one.delay_us for one in again.topology.links} <= {1.0}


@st.composite
def cabled(draw: st.DrawFn) -> list[tuple[str, str, str, str]]:
    """Cables between switches and to hosts, each port in one of them."""
    ends = draw(
        st.permutations([(switch, port) for switch in ("s1", "s2", "s3") for port in ("1", "2", "3", "4")])
    )
    pairs = [(a, a_port, b, b_port) for (a, a_port), (b, b_port) in zip(ends[::2], ends[1::2], strict=True)]
    hosts = [(a, a_port, f"h{number}", "ens1") for number, (a, a_port, *_) in enumerate(pairs)]
    return [
        host if a == b or draw(st.booleans()) else pair
        for pair, host in zip(pairs, hosts, strict=True)
        for a, _, b, _ in [pair]
    ]


@given(cabled(), st.sets(st.sampled_from(["s1", "s2", "s3"])), st.randoms())
def test_cables_come_back_as_they_are_whoever_was_read(
    cables: list[tuple[str, str, str, str]], silent: set[str], order: Any
) -> None:
    rows: dict[str, list[Neighbour]] = {name: [] for name in ("s1", "s2", "s3")}
    for a, a_port, b, b_port in cables:
        rows[a].append(Neighbour(a_port, b, None, b_port))
        if b in rows:
            rows[b].append(Neighbour(b_port, a, None, a_port))
    for ones in rows.values():
        order.shuffle(ones)
    ports = {port: Port(100.0) for port in ("1", "2", "3", "4")}
    read = {name: SwitchNeighbours(tuple(ones), ports) for name, ones in rows.items() if name not in silent}
    found = merge(("s1", "s2", "s3"), read)
    seen = {frozenset({(one.a, one.a_port), (one.b, one.b_port)}) for one in found.topology.links}
    assert seen == {
        frozenset({(a, a_port), (b, b_port)})
        for a, a_port, b, b_port in cables
        if a not in silent or b in read
    }
    assert {one.kind for one in found.differences} <= {"unseen"}  # of switches without any cable


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6) | NAMES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *(
                        "lldpNeighbors",
                        "lldpNeighborInfo",
                        "neighborInterfaceInfo",
                        "interfaceStatuses",
                        "bandwidth",
                    ),
                    *(
                        "systemName",
                        "chassisId",
                        "interfaceId",
                        "fqdn",
                        "hostname",
                        "TABLE_nbor_detail",
                        "speed",
                    ),
                    *(
                        "ROW_nbor_detail",
                        "TABLE_interface",
                        "ROW_interface",
                        "interface",
                        "l_port_id",
                        "sys_name",
                    ),
                    *(
                        "lldp",
                        "interfaces",
                        "neighbors",
                        "neighbor",
                        "state",
                        "id",
                        "name",
                        "system-name",
                        "alias",
                    ),
                    *(
                        "ethernet",
                        "port-speed",
                        "chassis-id",
                        "lldp_rem_sys_name",
                        "lldp_rem_port_id",
                        "Ethernet0",
                    ),
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
ANSWER = st.dictionaries(st.text(max_size=4) | st.sampled_from(PORTS), JSON, max_size=3)


@given(JSON, JSON, JSON, ANSWER, ANSWER)
def test_whatever_a_switch_answers_is_decoded_and_merged(
    one: Any, two: Any, three: Any, rows: dict[str, Any], ports: dict[str, Any]
) -> None:
    tree = OpenConfigNeighbours()
    for value in (one, two, three):
        tree.add((), value)
    mappings = [value if isinstance(value, dict) else {} for value in (one, two, three)]
    read = {
        "leaf1": sonic_neighbours(rows, one, ports),
        "leaf2": eos_neighbours(*mappings),
        "s3": nxos_neighbours(one, two, three),
        "s4": tree.found(),
    }
    merge(tuple(read), read)
