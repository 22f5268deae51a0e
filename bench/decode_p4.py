"""Binary telemetry reports decoded a second, from UDP payloads in memory to columns, one core."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

import numpy as np

from bench.figure import Figure
from telemetry.decode.p4.decoder import P4Decoder
from telemetry.decode.p4.devices import Devices, UnitProfile
from telemetry.encode.p4 import datagram_v2
from telemetry.state import FlowKey
from tests.counterparts.p4_writer import InnerType, Metadata, base_transport, int_headers, packet, report_v2
from tests.oracles.p4_one_by_one import decode_one_by_one

GOAL_PER_S = 1_000_000
PAYLOADS = 200_000
PAYLOADS_A_CALL = (1_000, 10_000, 100_000)
REPEATS = 5
DEVICES = Devices(default=UnitProfile("cells", 80))
N_FLOWS, N_NODES, N_PORTS = 10_000, 32, 64
TEMPLATES = 20_000


def measure() -> Iterable[Figure]:
    """Best of five passes over 200 000 payloads of 10 000 flows and 32 nodes, one report a payload."""
    for name, hops in (("one hop", 0), ("a stack of two hops and the sink", 2)):
        payloads = _payloads(hops)
        for size in PAYLOADS_A_CALL:
            rate = _rate(payloads, size)
            yield Figure(
                f"v2.0 reports decoded, {name}, {size} a call",
                rate,
                "reports/s",
                GOAL_PER_S,
                "higher",
                f"{len(payloads[0])} bytes a payload, {N_FLOWS} flows, best of {REPEATS}",
            )
        yield Figure(f"the same one by one, {name}", _rate_alone(payloads[:5_000]), "reports/s")


def _payloads(n_hops: int) -> list[bytes]:
    """Payloads that differ in flow, node, ports, depths, times and sequence."""
    random = np.random.default_rng(1)
    made = []
    for number in range(TEMPLATES):
        flow = int(random.integers(N_FLOWS))
        node = flow % N_NODES  # a flow has one path
        depth = int(random.integers(100_000))
        begun = 1_700_000_000_000_000_000 + number * 1000
        metadata = Metadata(
            layer1=(flow // N_NODES % 8, flow % N_PORTS),
            queue=(3, depth),
            ingress_time=begun,
            egress_time=begun + depth,
        )
        hops = [Metadata(node=100 + hop, queue=(3, depth)) for hop in range(n_hops)]
        behind = int_headers(hops, next_protocol=1, original=4791) if hops else b""
        key = FlowKey(f"10.0.{flow >> 8}.{flow & 255}", "10.1.0.1", 10_000 + flow, 5000 if hops else 4791, 17)
        inner = packet(key, behind + base_transport(7, number), packet_bytes=1096, ecn=1)
        report = report_v2(metadata, flags=2, inner=inner, inner_type=InnerType.IPV4)
        made.append(datagram_v2(node, 0, number, [report]))
    return [bytes(bytearray(one)) for _ in range(PAYLOADS // TEMPLATES) for one in made]


def _rate(payloads: Sequence[bytes], size: int) -> float:
    decoder = P4Decoder(DEVICES)
    batches = [payloads[at : at + size] for at in range(0, len(payloads), size)]
    best_s = float("inf")
    for _ in range(REPEATS + 1):  # the first warms up
        begin = time.perf_counter()
        reports = sum(len(decoder.decode(batch, 0)) for batch in batches)
        best_s = min(best_s, time.perf_counter() - begin)
        assert reports == len(payloads)
    return len(payloads) / best_s


def _rate_alone(payloads: Sequence[bytes]) -> float:
    begin = time.perf_counter()
    decode_one_by_one(payloads, 0, DEVICES)
    return len(payloads) / (time.perf_counter() - begin)
