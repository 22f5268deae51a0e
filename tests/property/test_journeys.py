"""The selected journeys give the same topology as all of them."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from telemetry.columns import Ragged
from telemetry.network.discovery import Journey, discover, journeys
from telemetry.report import FlowKeys, HopSite
from telemetry.state import FlowKey
from telemetry.window.samples import Samples
from telemetry.window.tables import Path

SWITCHES = st.sampled_from(["leaf1", "leaf2", "spine1", None])
PORTS = st.sampled_from(["1", "2", "3", None])
SITES = st.builds(HopSite, SWITCHES, PORTS, PORTS, st.sampled_from([0, 3, None]))
PATHS = st.lists(SITES, min_size=1, max_size=4).map(tuple)
HOSTS = st.sampled_from(["10.0.0.1", "10.0.0.2", "10.0.0.3", "leaf1"])
TRIPS = st.lists(st.tuples(HOSTS, HOSTS, PATHS), min_size=1, max_size=30)


def samples_of(flow: list[int], path: list[int]) -> Samples:
    n = len(flow)
    return Samples(
        ts_ns=np.arange(n),
        fingerprint=np.arange(n, dtype=np.uint64),
        flow=np.array(flow, np.int32),
        path=np.array(path, np.int32),
        packet_bytes=np.ones(n, np.int32),
        true_bytes=np.ones(n),
        stands_for=np.ones(n, np.int32),
        hop_offset=np.zeros(n + 1, np.int64),
        queue_bytes=np.empty(0),
        residence_ns=np.empty(0, np.int32),
        marked=np.empty(0, np.int8),
    )


@given(TRIPS)
@example(
    [
        ("10.0.0.2", "10.0.0.2", (HopSite("leaf1", "1", "2", 0),)),
        ("10.0.0.2", "10.0.0.3", (HopSite("leaf1", "1", "2", 0),)),
        ("10.0.0.3", "10.0.0.3", (HopSite("leaf1", "1", "2", 0),)),
    ]
)
def test_the_topology_is_the_same(trips: list[tuple[str, str, Path]]) -> None:
    keys = FlowKeys.of(FlowKey(src, dst, 1, 2, 17) for src, dst, _ in trips)
    sites = tuple({site: None for _, _, path in trips for site in path})
    taken = list({path: None for _, _, path in trips})
    numbers = [sites.index(site) for path in taken for site in path]
    offset = np.concatenate(([0], np.cumsum([len(path) for path in taken]))).astype(np.int64)
    paths = Ragged(sites, offset, np.array(numbers, np.int32))
    row_path = [taken.index(path) for _, _, path in trips]
    kept = journeys(samples_of(list(range(len(trips))), row_path), keys, paths, np.array(row_path))
    assert len(kept) <= len(trips)

    def seen(told: list[Journey]) -> object:
        return discover(told, rates_bytes_per_s={}, default_rate_gbps=100.0, default_delay_us=1.0)

    assert seen(kept) == seen([Journey(*trip) for trip in trips])


def test_a_fabric_of_many_flows_is_told_by_a_few() -> None:
    hosts = [f"10.0.0.{n}" for n in range(16)]
    pairs = [(a, b) for a in range(16) for b in range(16) if a != b]
    keys = FlowKeys.of(FlowKey(hosts[a], hosts[b], 1, 2, 17) for a, b in pairs)
    sites = tuple(HopSite("tor", f"p{a}", f"p{b}", 0) for a, b in pairs)
    paths = Ragged(sites, np.arange(len(pairs) + 1), np.arange(len(pairs), dtype=np.int32))
    rows = list(range(len(pairs)))
    assert len(journeys(samples_of(rows, rows), keys, paths, np.array(rows))) <= 4 * len(hosts)


def test_flows_that_lost_their_names_show_nothing() -> None:
    paths = Ragged((HopSite("tor", "1", "2", 0),), np.array([0, 1]), np.zeros(1, np.int32))
    assert journeys(samples_of([-1], [0]), FlowKeys.of(()), paths, np.array([0])) == []
