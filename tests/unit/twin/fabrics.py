"""Small scenarios for tests of the search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from telemetry.topology import GBPS, EgressPort
from twin.scenario import Flows, Scenario, Waits
from twin.senders.dcqcn import PAPER


def star(
    pairs: Sequence[tuple[int, int]],
    *,
    n_hosts: int = 8,
    payload_bytes: float | Sequence[float] = 2e6,
    name: str = "star",
    duration_s: float = 0.02,
    ack_wire_bytes: int = 60,
) -> Scenario:
    """Hosts h0, h1, ... on switch s; one flow a pair (source, destination), a microsecond apart."""
    up = [EgressPort(f"h{host}", None, "s", 100 * GBPS, 1e-6) for host in range(n_hosts)]
    down = [EgressPort("s", f"p{host}", f"h{host}", 100 * GBPS, 1e-6) for host in range(n_hosts)]
    count = len(pairs)
    payload = np.broadcast_to(np.asarray(payload_bytes, dtype=np.float64), (count,)).copy()
    return Scenario(
        name=name,
        ports=(*up, *down),
        flows=Flows(
            src=tuple(f"h{a}" for a, _ in pairs),
            dst=tuple(f"h{b}" for _, b in pairs),
            payload_bytes=payload,
            start_s=np.arange(count) * 1e-6,
            start_rate_bytes_per_s=np.full(count, 100 * GBPS),
            path_offset=np.arange(0, 2 * count + 1, 2, dtype=np.int32),
            path_ports=np.array([port for a, b in pairs for port in (a, n_hosts + b)], dtype=np.int32),
        ),
        monitored=tuple(range(n_hosts, 2 * n_hosts)),
        dcqcn=PAPER,
        ack_wire_bytes=ack_wire_bytes,
        duration_s=duration_s,
        window_s=(0.1 * duration_s, duration_s),
    )


def chained(scenario: Scenario, *, gap_s: float = 0.0) -> Scenario:
    """The same flows, each of which waits for the one before it."""
    count = len(scenario.flows)
    waits = Waits.of([(), *((row,) for row in range(count - 1))], np.full(count, gap_s))
    return replace(scenario, flows=replace(scenario.flows, waits=waits))


def after(waits: Waits) -> list[int]:
    """The one row that each flow waits for, −1 for none."""
    assert np.diff(waits.offset).max() == 1
    return [-1 if one < 0 else int(waits.row[waits.offset[one]]) for one in waits.barrier.tolist()]
