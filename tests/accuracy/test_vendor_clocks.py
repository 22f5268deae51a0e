"""Under a vendor's clocks senders fall to 1 Mbit/s and wait for milliseconds: the replay against packets."""

from __future__ import annotations

import numpy as np
import pytest

from telemetry.topology import GBPS, EgressPort
from twin.engine import engine
from twin.scenario import Flows, Scenario
from twin.senders.dcqcn import VENDOR
from twin.watermark import Watermark

pytestmark = pytest.mark.accuracy

SEEDS = range(16)
RATE_BYTES_PER_S = 25 * GBPS


def into_one_port(n_flows: int) -> Scenario:
    """Flows of 4 MB from as many hosts to another, 20 µs apart."""
    hosts = range(n_flows + 1)
    up = [EgressPort(f"h{host}", None, "s", RATE_BYTES_PER_S, 1e-6) for host in hosts]
    down = [EgressPort("s", f"p{host}", f"h{host}", RATE_BYTES_PER_S, 1e-6) for host in hosts]
    last = len(up) + n_flows
    return Scenario(
        name="into one port",
        ports=(*up, *down),
        flows=Flows(
            src=tuple(port.node for port in up[:-1]),
            dst=(f"h{n_flows}",) * n_flows,
            payload_bytes=np.full(n_flows, 4e6),
            start_s=20e-6 * np.arange(n_flows),
            start_rate_bytes_per_s=np.full(n_flows, RATE_BYTES_PER_S),
            path_offset=np.arange(0, 2 * n_flows + 1, 2, dtype=np.int32),
            path_ports=np.array([port for host in range(n_flows) for port in (host, last)], np.int32),
        ),
        monitored=(last,),
        dcqcn=VENDOR,
        duration_s=0.06,
        window_s=(0.0, 0.06),
    )


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
    scenario = into_one_port(n_flows)
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
