"""Poisson arrivals carry the load that was asked, between the hosts that were named."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.unit.twin.traffic.making import wire_bytes
from twin.errors import ParameterError
from twin.traffic.base import Hosts
from twin.traffic.patterns import Poisson
from twin.traffic.sizes import SizeDistribution

HOSTS = Hosts(count=16)
WEBSEARCH = SizeDistribution.named("websearch")


@pytest.mark.parametrize("name", ["websearch", "hadoop"])
@pytest.mark.parametrize("load", [0.1, 0.6])
def test_the_load_in_wire_bytes_is_what_was_asked(name: str, load: float) -> None:
    pattern = Poisson(load=load, sizes=SizeDistribution.named(name))
    traffic = pattern.traffic(HOSTS, duration_s=0.5, seed=7)
    wire = wire_bytes(traffic, HOSTS)
    offered = wire.sum() / (HOSTS.count * HOSTS.nic_bytes_per_s * 0.5)
    # A compound Poisson sum has the variance of its squares: four standard deviations.
    within = 4 * math.sqrt(float((wire**2).sum())) / float(wire.sum())
    assert within < 0.15
    assert offered == pytest.approx(load, rel=within)


def test_gaps_between_arrivals_are_exponential() -> None:
    traffic = Poisson(load=0.5, sizes=SizeDistribution.constant(1000)).traffic(HOSTS, duration_s=5e-3, seed=2)
    gaps = np.diff(traffic.start_s)
    assert len(gaps) > 10_000
    # Of an exponential distribution mean and deviation agree, and 1/e of it exceeds the mean.
    assert gaps.std() == pytest.approx(gaps.mean(), rel=0.05)
    assert np.mean(gaps > gaps.mean()) == pytest.approx(math.exp(-1), abs=0.02)


def test_every_pair_of_hosts_is_as_likely_as_any_other() -> None:
    hosts = Hosts(count=4)
    traffic = Poisson(load=0.5, sizes=SizeDistribution.constant(1000)).traffic(hosts, duration_s=0.01, seed=3)
    pairs = np.zeros((4, 4))
    np.add.at(pairs, (traffic.src, traffic.dst), 1)
    assert not pairs.diagonal().any()
    expected = len(traffic) / 12
    others = pairs[~np.eye(4, dtype=bool)]
    assert np.all(np.abs(others - expected) < 5 * math.sqrt(expected))


def test_senders_and_receivers_can_be_named() -> None:
    pattern = Poisson(load=0.5, sizes=WEBSEARCH, senders=(0, 1, 2), receivers=(2, 5))
    traffic = pattern.traffic(HOSTS, duration_s=0.1, seed=1)
    pairs = set(zip(traffic.src.tolist(), traffic.dst.tolist(), strict=True))
    assert pairs == {(0, 2), (0, 5), (1, 2), (1, 5), (2, 5)}
    # The load is per sender: three of them offer three lines' share.
    offered = wire_bytes(traffic, HOSTS).sum() / (3 * HOSTS.nic_bytes_per_s * 0.1)
    assert offered == pytest.approx(0.5, rel=0.35)


def test_a_cap_on_sizes_keeps_the_load() -> None:
    capped = Poisson(load=0.5, sizes=WEBSEARCH, largest_bytes=50_000)
    traffic = capped.traffic(HOSTS, duration_s=0.02, seed=5)
    assert traffic.payload_bytes.max() == 50_000
    offered = wire_bytes(traffic, HOSTS).sum() / (HOSTS.count * HOSTS.nic_bytes_per_s * 0.02)
    assert offered == pytest.approx(0.5, rel=0.03)


def test_starts_lie_within_the_duration() -> None:
    traffic = Poisson(load=0.3, sizes=WEBSEARCH).traffic(HOSTS, duration_s=0.05, seed=5)
    assert traffic.start_s.min() >= 0
    assert traffic.start_s.max() < 0.05
    assert len(Poisson(load=0.3, sizes=WEBSEARCH).traffic(HOSTS, duration_s=0.0, seed=5)) == 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"load": 0}, "load: received 0"),
        ({"load": 1.5}, r"in \(0, 1\]"),
        ({"load": math.nan}, "load: received nan"),
        ({"load": True}, "load: received True; it must be a number"),
        ({"load": 10**400}, "load: received a number of over 300 digits"),
        ({"largest_bytes": 0}, "largest_bytes: received 0"),
        ({"senders": ()}, "senders: received .*at least one host"),
        ({"senders": (1, 1)}, "none twice"),
        ({"senders": (16,)}, "hosts are numbered 0 to 15"),
        ({"receivers": (-1,)}, "receivers: received -1"),
        ({"senders": (3, 4), "receivers": (3,)}, "only host 3, a sender too"),
    ],
)
def test_options_that_make_no_traffic_are_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ParameterError, match=says):
        Poisson(**({"load": 0.5, "sizes": WEBSEARCH} | options)).traffic(HOSTS, duration_s=1e-3, seed=1)


@pytest.mark.parametrize(
    ("duration_s", "seed", "says"),
    [
        (-1.0, 1, "duration_s: received -1.0"),
        (math.inf, 1, "duration_s: received inf"),
        (1e-3, -1, "seed: received -1"),
        (1e-3, None, "seed: received None"),
        (1e6, 1, "at most 20000000 are made at once"),
    ],
)
def test_durations_and_seeds_are_checked(duration_s: float, seed: Any, says: str) -> None:
    with pytest.raises(ParameterError, match=says):
        Poisson(load=0.5, sizes=WEBSEARCH).traffic(HOSTS, duration_s=duration_s, seed=seed)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"count": 1}, "hosts count: received 1; it must be at least 2"),
        ({"count": 2.5}, "hosts count: received 2.5; it is a whole number"),
        ({"count": 2, "nic_bytes_per_s": math.inf}, "nic_bytes_per_s: received inf"),
        ({"count": 2, "mtu_payload_bytes": 0}, "mtu_payload_bytes: received 0"),
        ({"count": 2, "wire_overhead_bytes": -1}, "wire_overhead_bytes: received -1"),
    ],
)
def test_hosts_are_checked(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ParameterError, match=says):
        Hosts(**options)


def test_wire_time_counts_the_overhead_of_every_packet() -> None:
    assert HOSTS.wire_bytes(2001) == 2001 + 3 * 48
    assert HOSTS.alone_s(2000) == pytest.approx(2096 / 12.5e9)
