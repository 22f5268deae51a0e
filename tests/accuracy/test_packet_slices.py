"""Slices of a fabric in the packet engine, the rest as background, against every packet of the whole."""

from __future__ import annotations

import numpy as np
import pytest

from bench.replay import fabric_under
from twin.packet.model import PacketEngine
from twin.search.slices import deal, slices
from twin.watermark import Watermark

INCUMBENT = Watermark(400_000, 1_600_000, 0.2)


@pytest.mark.accuracy
@pytest.mark.slow
def test_slices_tell_what_the_whole_does() -> None:
    whole = fabric_under(8, 4, 16, 400.0, 0.6, 0.003, "paper")
    _, parts, _ = slices(whole, deal(whole, 4), range(4), INCUMBENT, 1)
    watermarks = [INCUMBENT, Watermark(50_000, 200_000, 0.5)]
    found = [PacketEngine().predict(part, watermarks, seed=1) for part in parts]
    for at, one in enumerate(PacketEngine().predict(whole, watermarks, seed=1)):
        queue_of = dict(zip(whole.monitored, one.port_queue_mean_bytes, strict=True))
        same = np.mean([queue_of[port] for part in parts for port in part.monitored])
        sliced = [each[at] for each in found]
        assert np.mean([each.port_queue_mean_bytes for each in sliced]) == pytest.approx(same, rel=0.1)
        for name, within in (("mice", 0.05), ("elephant", 0.05)):
            n = [each.slowdown[name].n for each in sliced]
            mean = np.average([each.slowdown[name].mean for each in sliced], weights=n)
            assert mean == pytest.approx(one.slowdown[name].mean, rel=within)
        p99 = np.mean([each.probe["all"].p99 for each in sliced])
        assert p99 == pytest.approx(one.probe["all"].p99, rel=0.1)
        assert sum(each.goodput_bytes_per_s for each in sliced) == pytest.approx(
            one.goodput_bytes_per_s, rel=0.03
        )
