"""Elephants follow each other on their pairs; mice keep their load."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.unit.twin.traffic.making import wire_bytes
from twin.errors import ParameterError
from twin.traffic.base import Hosts
from twin.traffic.patterns import ElephantsAndMice

HOSTS = Hosts(count=16)


def test_as_many_elephants_at_a_time_as_asked_each_followed_by_one_of_its_pair() -> None:
    pattern = ElephantsAndMice(elephants=4, elephant_bytes=2_000_000, per_receiver=2)
    traffic = pattern.traffic(HOSTS, duration_s=0.02, seed=1)
    waits = traffic.awaited
    rows = np.flatnonzero(traffic.payload_bytes == 2_000_000)
    assert sum(not waits[row] for row in rows) == 4
    for row in rows:
        for earlier in waits[row]:
            assert (traffic.src[earlier], traffic.dst[earlier]) == (traffic.src[row], traffic.dst[row])
    pairs = {(int(traffic.src[row]), int(traffic.dst[row])) for row in rows}
    assert len(pairs) == len({src for src, _ in pairs}) == 4
    assert len({dst for _, dst in pairs}) == 2
    assert not {src for src, _ in pairs} & {dst for _, dst in pairs}
    # Two share a receiver's line: each lasts twice as long as alone.
    assert len(rows) == 4 * math.floor(0.02 / (2 * HOSTS.alone_s(2_000_000)))


def test_endless_elephants_are_one_a_pair() -> None:
    traffic = ElephantsAndMice(elephants=3, elephant_bytes=math.inf).traffic(HOSTS, duration_s=0.01, seed=1)
    assert np.isinf(traffic.payload_bytes).sum() == 3
    assert not len(traffic.after)


def test_mice_are_small_and_keep_their_load() -> None:
    traffic = ElephantsAndMice(mice_load=0.3, mouse_bytes=50_000).traffic(HOSTS, duration_s=0.02, seed=1)
    mice = traffic.payload_bytes <= 50_000
    assert np.array_equal(~mice, traffic.payload_bytes == 10_000_000)
    offered = wire_bytes(traffic, HOSTS)[mice].sum() / (HOSTS.count * HOSTS.nic_bytes_per_s * 0.02)
    assert offered == pytest.approx(0.3, rel=0.05)


def test_more_elephants_than_senders_share_them() -> None:
    traffic = ElephantsAndMice(elephants=6, per_receiver=6, elephant_bytes=1e6).traffic(
        Hosts(count=4), duration_s=1e-3, seed=1
    )
    elephants = traffic.payload_bytes == 1e6
    assert np.unique(traffic.src[elephants], return_counts=True)[1].tolist() == [2, 2, 2]
    assert len(set(traffic.dst[elephants].tolist())) == 1


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"elephants": 0}, "elephants: received 0"),
        ({"elephants": 40}, "elephants: received 40, 2 a receiver; their receivers leave a sender"),
        ({"elephant_bytes": 0}, "elephant_bytes: received 0"),
        ({"elephant_bytes": math.nan}, "elephant_bytes: received nan; it must be above 0"),
        ({"per_receiver": 0}, "per_receiver: received 0"),
        ({"mice_load": 0}, "mice_load: received 0"),
        ({"mouse_bytes": math.inf}, "mouse_bytes: received inf"),
    ],
)
def test_options_that_make_no_mix_are_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ParameterError, match=f"elephants-and-mice {says}"):
        ElephantsAndMice(**options).traffic(HOSTS, duration_s=0.01, seed=1)
