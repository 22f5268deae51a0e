"""The sliding window with a million flows: time of a batch of reports, and memory."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.figure import Figure
from telemetry.report import FlowKeys, HopSite, ReportBatch
from telemetry.settings import WindowSettings
from telemetry.window.window import Window

N_FLOWS = 1_000_000
FEW_FLOWS = 10_000
BATCH = 10_000
GOAL_GIGABYTES = 2.0
GOAL_P99_MS = 100.0
N_LEAVES, N_SPINES, HOSTS_A_LEAF = 64, 16, 32
REPORT_EVERY_NS = 6_667  # 150 000 a second: every flow once in less than the window's ten seconds


class Fabric(NamedTuple):
    """Places by number, and those of the three hops of each flow."""

    sites: tuple[HopSite, ...]
    hops: NDArray[np.int32]
    keys: FlowKeys


def measure() -> Iterable[Figure]:
    """A leaf-spine fabric of 2048 hosts; flows between hosts of any two leaves, three hops each."""
    many = _fabric(N_FLOWS)
    before = _resident_gigabytes()
    window = Window(WindowSettings())
    arriving = _times_ms(window, many, _every_flow_once(N_FLOWS))
    twice = np.concatenate((_every_flow_once(N_FLOWS), _every_flow_once(N_FLOWS)))
    steady = _times_ms(window, many, twice, after=N_FLOWS)  # old reports leave meanwhile
    held = _resident_gigabytes() - before
    note = f"batches of {BATCH}, three hops a report"
    p99, usual = (float(np.quantile(steady, share)) for share in (0.99, 0.5))
    yield Figure(
        "a batch of 10 000 reports, 1 million flows live, p99", p99, "ms", GOAL_P99_MS, "lower", note
    )
    yield Figure("the same, median", usual, "ms", note=f"{BATCH / usual * 1e3:,.0f} reports/s")
    yield Figure(
        "the same while they come, each report a new flow, p99",
        float(np.quantile(arriving, 0.99)),
        "ms",
        note=f"median {np.median(arriving):.0f} ms",
    )
    yield Figure("memory of 1 million flows and 1.5 million reports", held, "GB", GOAL_GIGABYTES, "lower")
    few = Window(WindowSettings())
    few_fabric = _fabric(FEW_FLOWS)
    order = np.tile(np.arange(FEW_FLOWS), 40)
    known = float(np.median(_times_ms(few, few_fabric, order)[5:]))
    yield Figure(
        "a batch with 1 million flows live over one with 10 000",
        usual / known,
        "times",
        note=f"{known:.1f} ms with 10 000",
    )
    began = time.perf_counter()
    state = window.state()
    yield Figure(
        "network state of them, topology discovered",
        time.perf_counter() - began,
        "s",
        note=f"{len(state.flows)} flows",
    )
    yield Figure("memory with the state", _resident_gigabytes() - before, "GB")


def _fabric(n_flows: int) -> Fabric:
    random = np.random.default_rng(1)
    n_hosts = N_LEAVES * HOSTS_A_LEAF
    src = random.integers(n_hosts, size=n_flows)
    leaf = src // HOSTS_A_LEAF
    other = (leaf + random.integers(1, N_LEAVES, size=n_flows)) % N_LEAVES
    dst = other * HOSTS_A_LEAF + random.integers(HOSTS_A_LEAF, size=n_flows)
    spine = random.integers(N_SPINES, size=n_flows)
    up = src * N_SPINES + spine
    across = (spine * N_LEAVES + leaf) * N_LEAVES + other
    down = dst * N_SPINES + spine
    names: list[HopSite] = []
    columns = []
    for hop, codes in enumerate((up, across, down)):
        used, number = np.unique(codes, return_inverse=True)
        columns.append(len(names) + number)
        names += [_site(hop, code) for code in used.tolist()]
    hosts = tuple(f"10.{host >> 16}.{host >> 8 & 255}.{host & 255}" for host in range(n_hosts))
    keys = FlowKeys(
        hosts,
        src.astype(np.int32),
        dst.astype(np.int32),
        random.integers(1_024, 65_536, size=n_flows).astype(np.uint16),
        np.full(n_flows, 4791, np.uint16),
        np.full(n_flows, 17, np.uint8),
    )
    return Fabric(tuple(names), np.stack(columns, axis=1).astype(np.int32), keys)


def _site(hop: int, code: int) -> HopSite:
    if hop == 1:
        spine, pair = divmod(code, N_LEAVES * N_LEAVES)
        came, goes = divmod(pair, N_LEAVES)
        return HopSite(f"spine{spine}", f"Ethernet{came}", f"Ethernet{goes}", 3)
    host, spine = divmod(code, N_SPINES)
    leaf, port = divmod(host, HOSTS_A_LEAF)
    ports = (f"Ethernet{port}", f"Ethernet{HOSTS_A_LEAF + spine}")
    return HopSite(f"leaf{leaf}", *(ports if hop == 0 else ports[::-1]), 3)


def _every_flow_once(n_flows: int) -> NDArray[np.int64]:
    return np.random.default_rng(2).permutation(n_flows)


def _times_ms(
    window: Window, fabric: Fabric, order: NDArray[np.int64], after: int = 0
) -> NDArray[np.float64]:
    took = []
    for batch in _batches(fabric, order, after):
        began = time.perf_counter()
        result = window.add(batch)
        took.append((time.perf_counter() - began) * 1e3)
        assert not result.rejected, result.errors[:1]
    return np.array(took)


def _batches(fabric: Fabric, order: NDArray[np.int64], after: int) -> Iterator[ReportBatch]:
    random = np.random.default_rng(3)
    for begin in range(0, len(order), BATCH):
        flows, flow = np.unique(order[begin : begin + BATCH], return_inverse=True)
        n = len(flow)
        ts_ns = 1_700_000_000_000_000_000 + (after + begin + np.arange(n)) * REPORT_EVERY_NS
        left_ns = np.repeat(ts_ns, 3)
        yield ReportBatch(
            index=np.arange(n),
            ts_ns=ts_ns,
            flow=flow.astype(np.int32),
            packet_bytes=np.full(n, 1096),
            sampling_rate=np.full(n, 0.01),
            hop_offset=3 * np.arange(n + 1),
            hop_site=fabric.hops[flows[flow]].reshape(-1),
            queue_bytes=random.random(3 * n) * 1e5,
            ingress_ns=left_ns - 700,
            egress_ns=left_ns,
            marked=np.zeros(3 * n, np.int8),
            flow_keys=fabric.keys.take(flows),
            sites=fabric.sites,
        )


def _resident_gigabytes() -> float:
    for line in Path("/proc/self/status").read_text("ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1e6
    return float("nan")
