"""Under a vendor's clocks senders fall to 1 Mbit/s and wait for milliseconds: the replay against packets."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.twin.fluid.problems import flow, star
from twin.engine import engine
from twin.senders.dcqcn import VENDOR
from twin.watermark import Watermark

pytestmark = pytest.mark.accuracy

SEEDS = range(16)


@pytest.mark.parametrize(
    ("n_flows", "watermark"),
    [
        (4, Watermark(400_000, 1_600_000, 0.2)),
        (8, Watermark(100_000, 400_000, 0.2)),
        (8, Watermark(20_000, 40_000, 1.0)),
    ],
    ids=str,
)
def test_flows_into_one_port_are_as_slow_as_packets_and_queue_as_much(
    n_flows: int, watermark: Watermark
) -> None:
    # One seed of either moves the slowdown by a fifth: means of sixteen.
    rows = [flow(f"h{one}", f"h{n_flows}", 4_000_000, 20e-6 * one) for one in range(n_flows)]
    scenario = star(
        rows, hosts=n_flows + 1, rate_gbps=25.0, dcqcn=VENDOR, duration_s=0.06, window_s=(0.0, 0.06), pfc=True
    )
    figures = {
        name: np.mean(
            [
                (one.slowdown["all"].mean, one.queue_mean_bytes)
                for seed in SEEDS
                for one in engine(name).predict(scenario, [watermark], seed=seed)
            ],
            axis=0,
        )
        for name in ("replay", "packet")
    }
    np.testing.assert_allclose(figures["replay"] / figures["packet"], 1.0, atol=0.3)
