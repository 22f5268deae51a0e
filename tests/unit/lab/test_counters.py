"""What a fabric counted, written and read back by the service's own decoder."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import httpx
import numpy as np
import pytest

from lab import runner as runner_module
from lab.reports import COUNTERS_PATH, EPOCH_NS, REPORTS_PATH, Body, CounterWriter, Poster
from telemetry.counters.model import CounterSample
from telemetry.counters.window import CounterWindow
from telemetry.decode.counters import decode_counters
from tests.unit.lab.labs import NEW, fabric_of, parts_of, running
from twin.packet.fabric import Fabric

PATIENCE_S = 120.0
CROWDED: dict[str, Any] = {"traffic": "incast:7", "buffer_bytes": 200_000.0}


def fabric_at(until_s: float, **options: Any) -> Fabric:
    parts = parts_of(**options)
    fabric = fabric_of(parts)
    fabric.offer(parts.feed.take())
    fabric.advance(until_s)
    return fabric


def samples_of(body: Body) -> tuple[CounterSample, ...]:
    decoded = decode_counters(body.content)
    assert decoded.errors == ()
    return decoded.samples


def test_every_port_is_told_with_what_it_counted() -> None:
    fabric, plan = fabric_at(0.003, pfc=False, **CROWDED), parts_of().plan
    measured = fabric.measured()
    body = CounterWriter(plan).body(measured)
    samples = samples_of(body)
    assert (body.records, body.path) == (len(samples), COUNTERS_PATH)
    assert {sample.ts_ns for sample in samples} == {EPOCH_NS + 3_000_000}
    queues = {sample.key: sample.counters for sample in samples if sample.key.queue is not None}
    ports = {sample.key: sample.counters for sample in samples if sample.key.queue is None}
    assert len(queues) == len(ports) == len(plan.switch_ports)
    assert measured.dropped_packets.sum() > 0
    for index in plan.switch_ports:
        port = plan.ports[index]
        queue, whole = queues[port.node, str(port.port), 3], ports[port.node, str(port.port), None]
        assert queue.tx_packets == measured.sent_packets[index]
        assert queue.ecn_marked_packets == measured.marked_packets[index]
        assert queue.dropped_packets == measured.dropped_packets[index]
        assert queue.dropped_bytes == round(measured.dropped_wire_bytes[index])
        assert whole.tx_bytes == round(measured.sent_bytes[index])
        assert (queue.cnp_packets, queue.wred_dropped_packets, queue.tx_bytes) == (None, None, None)


def test_a_pause_is_received_where_it_stops_and_sent_across() -> None:
    fabric, plan = fabric_at(0.003, **CROWDED), parts_of().plan
    measured = fabric.measured()
    assert measured.pauses.sum() > 0
    samples = samples_of(CounterWriter(plan).body(measured))
    found = {sample.key: sample.counters for sample in samples if sample.key.queue is not None}
    across = 0
    for index in plan.switch_ports:
        port, back = plan.ports[index], plan.reverse[index]
        counters = found[port.node, str(port.port), 3]
        assert counters.pfc_rx_frames == measured.pauses[index]
        assert counters.pfc_tx_frames == measured.pauses[back]
        assert counters.pfc_pause_ns == round(measured.paused_s[index] * 1e9)
        if plan.ports[back].port is not None:
            assert (
                found[plan.ports[back].node, str(plan.ports[back].port), 3].pfc_tx_frames
                == measured.pauses[index]
            )
            across += int(measured.pauses[index])
    sent = sum(counters.pfc_tx_frames or 0 for counters in found.values())
    assert sent == measured.pauses.sum() - measured.pauses[_host_bound(plan)].sum()
    assert across <= sent


def _host_bound(plan: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Ports that hosts pause: nobody does, a host takes all it is sent."""
    return np.array([index for index in plan.switch_ports if plan.ports[plan.reverse[index]].port is None])


class Service:
    """Takes everything, and keeps the counters."""

    def __init__(self, *, knows_counters: bool = True) -> None:
        self.counters: list[bytes] = []
        self.reports = 0
        self._knows_counters = knows_counters

    def __call__(self, request: httpx.Request) -> httpx.Response:
        count = request.content.count(b"\n")
        if request.url.path == REPORTS_PATH:
            self.reports += count
        elif not self._knows_counters:
            return httpx.Response(404)
        else:
            self.counters.append(request.content)
        return httpx.Response(202, json={"accepted": count, "rejected": 0})


def told(*ends_s: float, service: Service) -> Poster:
    """A lab's counters, posted over these advances; a watermark is set after the first."""
    parts = parts_of()
    poster = Poster("http://127.0.0.1:8080", transport=httpx.MockTransport(service), first_pause_s=0.001)
    with running(parts, poster=poster, counters=CounterWriter(parts.plan)) as (runner, _):
        for until_s in ends_s:
            _result(runner.advance(until_s))
            _result(runner.set_watermark(list(runner.view.watermarks), NEW))
    return poster


def _result(answer: Future[Any]) -> Any:
    return answer.result(PATIENCE_S)


def times_of(service: Service) -> list[int]:
    """When each body was read, in ns after time 0."""
    times = []
    for body in service.counters:
        (ts_ns,) = {sample.ts_ns for sample in decode_counters(body).samples}
        times.append(ts_ns - EPOCH_NS)
    return times


def test_counters_are_read_each_period_and_at_the_end_of_an_advance() -> None:
    service = Service()
    poster = told(0.0025, 0.004, service=service)
    assert times_of(service) == [0, 1_000_000, 2_000_000, 2_500_000, 3_000_000, 4_000_000]
    samples = [decode_counters(body).samples for body in service.counters]
    assert poster.counts.samples_accepted == sum(map(len, samples))
    assert poster.counts.accepted == poster.counts.posted == service.reports > 0
    window = CounterWindow()
    assert all(window.add(one).accepted == len(one) for one in samples)
    assert (window.increase(None, EPOCH_NS, EPOCH_NS + 4_000_000).counters.tx_packets or 0) > 0


def test_the_same_steps_give_the_same_counters_however_they_are_sliced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bodies = []
    for slice_wall_s in (0.05, 0.0005):
        monkeypatch.setattr(runner_module, "SLICE_WALL_S", slice_wall_s)
        service = Service()
        told(0.0015, 0.0035, service=service)
        bodies.append(service.counters)
    assert bodies[0] == bodies[1]
    assert len(set(bodies[0])) == len(bodies[0]) == 6


def test_a_service_without_counters_gets_its_reports() -> None:
    service = Service(knows_counters=False)
    poster = told(0.002, service=service)
    assert poster.failure is None
    assert (poster.counts.samples_accepted, poster.counts.retries) == (0, 0)
    assert poster.counts.accepted == service.reports > 0


def test_nobody_to_post_to_is_nothing_to_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Body:
        raise AssertionError

    monkeypatch.setattr(CounterWriter, "body", refuse)
    parts = parts_of()
    with running(parts, counters=CounterWriter(parts.plan)) as (runner, _):
        assert _result(runner.advance(0.002)).end_s == 0.002
