"""States of the reference recordings against the truth measured with them."""

from __future__ import annotations

import dataclasses
import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from telemetry.settings import WindowSettings
from telemetry.state import FlowClass, NetworkState
from telemetry.topology import Topology
from telemetry.window.window import Window

EPOCH_NS = 1_767_225_600_000_000_000  # the recordings' own zero: flows start relative to it
WIRE = 1048 / 1000
INCUMBENT = (400_000, 1_600_000, 0.2)

Recording = Callable[[str], tuple[Any, Topology, list[dict[str, str]]]]


def whole(recording: Recording, name: str, *, declared: bool) -> tuple[NetworkState, list[dict[str, str]]]:
    batch, topology, flows = recording(name)
    window = Window(WindowSettings.covering(batch), topology if declared else None)
    assert window.add(batch).rejected == 0
    return window.state(), flows


def incumbent_truth(reference: Path, name: str) -> dict[str, float]:
    results = json.loads((reference / f"{name}.truth.json").read_text())["results"]
    (found,) = [r for r in results if (r["kmin_bytes"], r["kmax_bytes"], r["pmax"]) == INCUMBENT]
    return dict(found)


def shown_start_s(state: NetworkState) -> np.ndarray[Any, np.dtype[np.float64]]:
    return state.arrivals.start_s + (state.window_start_ns - EPOCH_NS) * 1e-9


@pytest.mark.accuracy
@pytest.mark.parametrize("declared", [True, False], ids=["declared", "discovered"])
def test_websearch_depths_match_the_packets(recording: Recording, reference: Path, declared: bool) -> None:
    state, _ = whole(recording, "websearch-16", declared=declared)
    truth = incumbent_truth(reference, "websearch-16")
    assert len(state.queues) == 16
    mean = np.mean([queue.depth_mean_bytes for queue in state.queues])
    assert mean == pytest.approx(truth["queue_mean_bytes"], rel=0.05)
    assert {queue.capacity_bytes_per_s for queue in state.queues} == {12.5e9}


@pytest.mark.accuracy
def test_websearch_depths_without_capacity_come_close(recording: Recording, reference: Path) -> None:
    batch, _, _ = recording("websearch-16")
    # Without times in the switch there is nothing to estimate a port's rate from.
    silent = dataclasses.replace(batch, ingress_ns=np.full_like(batch.ingress_ns, -1))
    window = Window(WindowSettings.covering(silent))
    window.add(silent)
    state = window.state()
    assert {queue.capacity_bytes_per_s for queue in state.queues} == {None}
    mean = np.mean([queue.depth_mean_bytes for queue in state.queues])
    truth = incumbent_truth(reference, "websearch-16")
    assert mean == pytest.approx(truth["queue_mean_bytes"], rel=0.15)


@pytest.mark.accuracy
def test_parking_lot_bottlenecks_match_the_packets(recording: Recording, reference: Path) -> None:
    batch, topology, _ = recording("parking-lot")
    later = batch.take(batch.ts_ns >= EPOCH_NS + 40_000_000)  # the truth's own window
    window = Window(WindowSettings.covering(later), topology)
    window.add(later)
    state = window.state()
    bottlenecks = sorted(state.queues, key=lambda queue: -queue.depth_mean_bytes)[:2]
    assert {queue.ref.switch for queue in bottlenecks} == {"s1", "s2"}
    truth = incumbent_truth(reference, "parking-lot")
    mean = np.mean([queue.depth_mean_bytes for queue in bottlenecks])
    assert mean == pytest.approx(truth["queue_mean_bytes"], rel=0.1)
    for queue in bottlenecks:
        assert queue.throughput_bytes_per_s == pytest.approx(12.6e9, rel=0.05)


@pytest.mark.accuracy
def test_websearch_arrivals_carry_the_true_load(recording: Recording) -> None:
    state, flows = whole(recording, "websearch-16", declared=True)
    arrivals = state.arrivals
    done = [row for row in flows if float(row["bytes"]) < 2_000_000]
    assert abs(len(arrivals) - len(state.flows)) <= 0.02 * len(state.flows)
    assert np.all(np.diff(arrivals.start_s) >= 0)
    unfinished = np.isinf(arrivals.wire_bytes)
    assert np.count_nonzero(unfinished) == pytest.approx(23, abs=4)  # 1377 flows, 1354 done
    sent: defaultdict[str, float] = defaultdict(float)
    for host, wire_bytes in zip(arrivals.dst_host, arrivals.wire_bytes.tolist(), strict=True):
        sent[host] += wire_bytes if np.isfinite(wire_bytes) else 0
    assert set(sent) == {row["dst"] for row in flows}
    true_total = sum(float(row["bytes"]) for row in done) * WIRE
    small = arrivals.wire_bytes[arrivals.wire_bytes < 2_000_000 * WIRE]
    assert small.sum() == pytest.approx(true_total, rel=0.1)


@pytest.mark.accuracy
@pytest.mark.parametrize("declared", [True, False], ids=["declared", "discovered"])
def test_websearch_large_flows_start_when_they_did(recording: Recording, declared: bool) -> None:
    state, flows = whole(recording, "websearch-16", declared=declared)
    start_s = shown_start_s(state)
    shown: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for row, ends in enumerate(zip(state.arrivals.src_host, state.arrivals.dst_host, strict=True)):
        shown[ends].append(row)
    errors, ratios = [], []
    for flow in flows:
        if float(flow["bytes"]) < 500_000:
            continue
        ends = (flow["src"], flow["dst"])
        if not declared:
            ends = (f"11.0.{ends[0][1:]}.1", f"11.0.{ends[1][1:]}.1")
        nearest = min(shown[ends], key=lambda row: abs(start_s[row] - float(flow["start_s"])))
        errors.append(start_s[nearest] - float(flow["start_s"]))
        ratios.append(state.arrivals.wire_bytes[nearest] / (float(flow["bytes"]) * WIRE))
    assert abs(np.median(errors)) < 3e-6
    assert np.quantile(np.abs(errors), 0.9) < 50e-6
    assert np.median(np.array(ratios)[np.isfinite(ratios)]) == pytest.approx(1.0, abs=0.05)


@pytest.mark.accuracy
@pytest.mark.parametrize("declared", [True, False], ids=["declared", "discovered"])
def test_parking_lot_shows_its_twenty_persistent_flows(recording: Recording, declared: bool) -> None:
    state, flows = whole(recording, "parking-lot", declared=declared)
    assert len(state.arrivals) == len(flows) == 20
    assert np.all(np.isinf(state.arrivals.wire_bytes))
    assert state.flows_by_class[FlowClass.ELEPHANT] == 20
    true_start_s = sorted(float(flow["start_s"]) for flow in flows)
    assert np.max(np.abs(shown_start_s(state) - true_start_s)) < 100e-6
    hops = sorted(len(state.paths[path]) for path in state.flows.path)
    assert hops == [2] * 16 + [3] * 4


def test_discovery_finds_the_declared_fabrics(recording: Recording) -> None:
    for name in ("websearch-16", "parking-lot"):
        state, _ = whole(recording, name, declared=False)
        _, declared, _ = recording(name)
        assert not state.topology_declared
        address = {host.name: host.ip for host in declared.hosts}

        def cables(topology: Topology, names: dict[str, str | None]) -> set[frozenset[tuple[Any, ...]]]:
            return {
                frozenset(
                    ((names.get(link.a, link.a), link.a_port), (names.get(link.b, link.b), link.b_port))
                )
                for link in topology.links
            }

        assert cables(state.topology, {}) == cables(declared, address)
        assert {link.rate_gbps for link in state.topology.links} == {100}
