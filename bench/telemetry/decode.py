"""Reports a second, one core: JSON from bytes to window (decoding, ``Window.add``, both), and binary reports
from UDP payloads in memory to columns.
"""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.figure import Figure
from telemetry.decode.json import decode
from telemetry.decode.p4.decoder import P4Decoder
from telemetry.decode.p4.devices import Devices, UnitProfile
from telemetry.encode.p4 import datagram_v2
from telemetry.settings import WindowSettings
from telemetry.state import FlowKey
from telemetry.topology import Topology, topology_from_json
from telemetry.window.window import Window
from tests.counterparts.p4_writer import InnerType, Metadata, base_transport, int_headers, packet, report_v2
from tests.oracles.p4_one_by_one import decode_one_by_one

REFERENCE = Path(__file__).resolve().parents[2] / "tests" / "data" / "reference"
GOAL_PER_S = 50_000
REPEATS = 5
BODY_SIZES = (100, 1_000, 10_000)
P4_GOAL_PER_S = 1_000_000
PAYLOADS = 200_000
PAYLOADS_A_CALL = (1_000, 10_000, 100_000)
DEVICES = Devices(default=UnitProfile("cells", 80))
N_FLOWS, N_NODES, N_PORTS = 10_000, 32, 64
TEMPLATES = 20_000


def measure() -> Iterable[Figure]:
    """By recording (one hop; two to three) and reports a body, best of five."""
    for case in [*_cases("websearch-16"), *_cases("parking-lot")]:
        yield Figure(
            f"decode and window, {case['recording']}, {case['reports_per_body']} reports a body",
            case["both_per_s"],
            "reports/s",
            GOAL_PER_S,
            "higher",
            f"decode alone {case['decode_per_s']:,.0f}, window alone {case['window_per_s']:,.0f}, "
            f"state {case['state_s'] * 1e3:.0f} ms",
        )
    yield from _binary()


def _cases(name: str) -> Iterable[dict[str, Any]]:
    lines = gzip.decompress((REFERENCE / f"{name}.int.ndjson.gz").read_bytes()).splitlines()
    scenario = json.loads((REFERENCE / f"{name}.scenario.json").read_text())
    topology = topology_from_json(scenario["topology"])
    for size in BODY_SIZES:
        bodies = [b"[" + b",".join(lines[at : at + size]) + b"]" for at in range(0, len(lines), size)]
        decode_s, window_s, both_s, state_s = min(
            (_once(bodies, topology) for _ in range(REPEATS)), key=lambda times: times[2]
        )
        yield {
            "recording": name,
            "reports_per_body": size,
            "decode_per_s": len(lines) / decode_s,
            "window_per_s": len(lines) / window_s,
            "both_per_s": len(lines) / both_s,
            "state_s": state_s,
        }


def _once(bodies: list[bytes], topology: Topology) -> tuple[float, float, float, float]:
    window = Window(WindowSettings(), topology)
    decode_s = window_s = 0.0
    for body in bodies:
        took, decoded = _timed(lambda body=body: decode(body))  # type: ignore[misc]
        decode_s += took
        took, _ = _timed(lambda batch=decoded.batch: window.add(batch))  # type: ignore[misc]
        window_s += took
    state_s, _ = _timed(window.state)
    return decode_s, window_s, decode_s + window_s, state_s


def _timed(task: Callable[[], Any]) -> tuple[float, Any]:
    begin = time.perf_counter()
    answer = task()
    return time.perf_counter() - begin, answer


def _binary() -> Iterable[Figure]:
    """Best of five passes over 200 000 payloads of 10 000 flows and 32 nodes, one report a payload."""
    for name, hops in (("one hop", 0), ("a stack of two hops and the sink", 2)):
        payloads = _payloads(hops)
        for size in PAYLOADS_A_CALL:
            rate = _rate(payloads, size)
            yield Figure(
                f"v2.0 reports decoded, {name}, {size} a call",
                rate,
                "reports/s",
                P4_GOAL_PER_S,
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
