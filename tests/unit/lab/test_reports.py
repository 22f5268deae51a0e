"""What a fabric samples, written and read back by the service's own decoder."""

from __future__ import annotations

import numpy as np

from lab.reports import EPOCH_NS, ReportWriter
from telemetry.decode.json import decode
from telemetry.settings import WindowSettings
from telemetry.window.window import Window
from tests.unit.lab.labs import RATE, fabric_of, parts_of
from twin.packet.results import Samples


def sampled() -> Samples:
    parts = parts_of()
    fabric = fabric_of(parts)
    fabric.offer(parts.feed.take())
    return fabric.advance(0.002).samples


def writer(**options: int) -> ReportWriter:
    parts = parts_of()
    return ReportWriter(parts.plan, parts.addresses, sampling_rate=RATE, **options)


def test_every_column_comes_back() -> None:
    samples = sampled()
    plan = parts_of().plan
    decoded = decode(b"".join(body.content for body in writer().bodies(samples)))
    assert decoded.errors == ()
    batch = decoded.batch
    assert len(batch) == len(samples) > 100
    assert set(batch.sampling_rate.tolist()) == {RATE}
    np.testing.assert_array_equal(batch.hop_offset, samples.hop_offset)
    np.testing.assert_array_equal(batch.ts_ns, EPOCH_NS + np.rint(samples.delivered_s * 1e9).astype(np.int64))
    np.testing.assert_array_equal(batch.packet_bytes, samples.wire_bytes)
    np.testing.assert_array_equal(batch.queue_bytes, np.rint(samples.queue_bytes))
    np.testing.assert_array_equal(batch.marked.astype(bool), samples.marked)
    waited_ns = (samples.egress_s - samples.ingress_s) * 1e9
    assert np.abs(batch.egress_ns - batch.ingress_ns - waited_ns).max() <= 1.0
    for hop, site in enumerate(batch.hop_site.tolist()):
        egress, ingress = plan.ports[samples.port[hop]], plan.ports[samples.ingress_port[hop]]
        assert batch.sites[site] == (egress.node, ingress.port, egress.port, 3)
        assert ingress.node == egress.node
    keys = [batch.flow_keys[row] for row in batch.flow.tolist()]
    addresses = parts_of().addresses
    for row, key in enumerate(keys):
        assert key.src == addresses[plan.hosts[samples.src[row]]]
        assert key.dst == addresses[plan.hosts[samples.dst[row]]]
        assert (key.dport, key.protocol) == (4791, 17)
    assert len(set(keys)) == len(set(samples.flow.tolist()))


def test_the_service_s_window_takes_all_of_it() -> None:
    decoded = decode(b"".join(body.content for body in writer().bodies(sampled())))
    window = Window(WindowSettings.covering(decoded.batch))
    assert window.add(decoded.batch).rejected == 0
    assert set(window.state().topology.switches) == {"leaf1", "leaf2", "spine1", "spine2"}


def test_a_body_holds_so_many_reports_and_no_more() -> None:
    samples = sampled()
    bodies = list(writer(reports_a_body=100).bodies(samples))
    assert [body.records for body in bodies[:-1]] == [100] * (len(bodies) - 1)
    assert sum(body.records for body in bodies) == len(samples)
    assert all(body.content.count(b"\n") == body.records for body in bodies)
    whole = b"".join(body.content for body in writer().bodies(samples))
    assert b"".join(body.content for body in bodies) == whole


def test_nothing_sampled_is_nothing_to_post() -> None:
    parts = parts_of()
    assert list(writer().bodies(fabric_of(parts).advance(0.0001).samples)) == []


def test_time_nought_is_the_epoch() -> None:
    samples = sampled()
    early = decode(next(writer(epoch_ns=0).bodies(samples)).content).batch
    late = decode(next(writer(epoch_ns=7).bodies(samples)).content).batch
    assert set((late.ts_ns - early.ts_ns).tolist()) == {7}


def test_a_host_without_an_address_is_called_by_its_name() -> None:
    parts = parts_of()
    named = ReportWriter(parts.plan, {}, sampling_rate=RATE)
    batch = decode(next(named.bodies(sampled())).content).batch
    assert {key.src for key in batch.flow_keys} <= set(parts.plan.hosts)
