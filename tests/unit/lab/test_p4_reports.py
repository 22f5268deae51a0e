"""What a fabric samples, as binary reports: read back, it says what the JSON reports say."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.p4_reports import PAYLOAD_BYTES, IntNumbers, IntReportWriter, inventory
from lab.reports import ReportWriter
from lab.setup import LabParts
from settings.errors import InputError
from settings.inventory import load_inventory, load_reporting
from telemetry.decode.json import decode
from telemetry.decode.p4.decoder import P4Decoder
from telemetry.decode.p4.devices import Devices
from telemetry.decode.p4.sequence import Sender, SequenceGaps
from telemetry.encode.p4 import MOST_OCCUPANCY
from telemetry.report import ReportBatch
from tests.unit.lab.labs import RATE, fabric_of, parts_of
from twin.packet.results import Samples

URL = "http://127.0.0.1:9000"


def sampled(parts: LabParts) -> Samples:
    fabric = fabric_of(parts)
    fabric.offer(parts.feed.take())
    return fabric.advance(0.002).samples


def devices_of(parts: LabParts, folder: Path) -> Devices:
    file = folder / "inventory.yaml"
    file.write_text(inventory(parts.plan, address=URL, sampling_rate=RATE))
    return load_reporting(file)


def read(parts: LabParts, samples: Samples, folder: Path) -> ReportBatch:
    writer = IntReportWriter(parts.plan, parts.addresses)
    decoder = P4Decoder(devices_of(parts, folder), device_time=True)
    found = decoder.decode(writer.datagrams(samples), 0)
    assert found.problems == ()
    assert found.untuned == ()
    return found.batch


def rows(batch: ReportBatch) -> list[tuple[Any, ...]]:
    """Each report by itself, in an order that is the same however they came."""
    made = []
    for row in range(len(batch)):
        hops = slice(batch.hop_offset[row], batch.hop_offset[row + 1])
        sites = tuple(batch.sites[site] for site in batch.hop_site[hops])
        times = tuple(zip(batch.ingress_ns[hops].tolist(), batch.egress_ns[hops].tolist(), strict=True))
        depths = tuple(batch.queue_bytes[hops].tolist())
        marks = tuple(batch.marked[hops].tolist())
        flow = tuple(batch.flow_keys[batch.flow[row]])
        made.append((flow, times, sites, depths, marks, int(batch.ts_ns[row]), int(batch.packet_bytes[row])))
    return sorted(made)


@pytest.mark.parametrize("buffer_bytes", [None, 16_000_000.0])
def test_they_say_what_the_json_reports_say(buffer_bytes: float | None, tmp_path: Path) -> None:
    parts = parts_of(buffer_bytes=buffer_bytes)
    samples = sampled(parts)
    written = ReportWriter(parts.plan, parts.addresses, sampling_rate=RATE)
    told = rows(decode(b"".join(body.content for body in written.bodies(samples))).batch)
    batch = read(parts, samples, tmp_path)
    assert set(batch.sampling_rate.tolist()) == {RATE}
    found = rows(batch)
    assert len(found) == len(told) > 100
    cell_bytes = IntNumbers.of(parts.plan).cell_bytes
    assert cell_bytes == (2 if buffer_bytes is None else 1)
    slowest = max(port.delay_s + 1_048 / port.rate_bytes_per_s for port in parts.plan.ports)
    for binary, json in zip(found, told, strict=True):
        assert binary[:3] == json[:3]
        assert binary[3] == pytest.approx(json[3], abs=cell_bytes / 2)
        # Of hops before the last nobody knows whether a packet was marked there.
        assert binary[4] == (-1,) * (len(json[4]) - 1) + json[4][-1:]
        # A JSON report is dated when the packet was delivered, a binary one when it left the last switch.
        assert 0 <= json[5] - binary[5] <= math.ceil(slowest * 1e9) + 1
        # A packet shorter than the headers that are reported of it is as long as those.
        assert binary[6] == json[6] or json[6] < binary[6] <= 44 + 28 * (len(json[2]) - 1)


def test_datagrams_fit_a_frame_and_are_numbered_by_switch() -> None:
    parts = parts_of()
    fabric = fabric_of(parts)
    fabric.offer(parts.feed.take())
    writer = IntReportWriter(parts.plan, parts.addresses)
    gaps, reports = SequenceGaps(), 0
    for until_s in (0.001, 0.002):
        samples = fabric.advance(until_s).samples
        datagrams = writer.datagrams(samples)
        assert max(map(len, datagrams)) <= PAYLOAD_BYTES
        found = P4Decoder(Devices()).decode(datagrams, 0)
        assert len(found) == len(samples)
        assert len(datagrams) < len(samples) / 5
        reports += len(samples)
        for node, sequence in zip(found.senders.node.tolist(), found.senders.sequence.tolist(), strict=True):
            assert gaps.note(Sender(node, 0, 2), sequence, 22).lost == 0
    assert reports > 100
    assert writer.datagrams(fabric.advance(0.002_000_001).samples) == []


def test_a_queue_deeper_than_can_be_told_is_told_as_the_deepest() -> None:
    parts = parts_of(buffer_bytes=1e6)
    samples = sampled(parts)
    deep = replace(samples, queue_bytes=samples.queue_bytes + 1e9)
    found = P4Decoder(Devices()).decode(IntReportWriter(parts.plan, parts.addresses).datagrams(deep), 0)
    assert set(found.occupancy.tolist()) == {MOST_OCCUPANCY}


@pytest.mark.parametrize("rate", [RATE, 0.0])
def test_the_inventory_is_one_that_a_service_takes(rate: float, tmp_path: Path) -> None:
    parts = parts_of()
    file = tmp_path / "inventory.yaml"
    file.write_text(inventory(parts.plan, address=URL, sampling_rate=rate))
    devices = load_inventory(file)
    assert {device.platform for device in devices.values()} == {"lab"}
    assert {device.address for device in devices.values()} == {URL}
    assert tuple(devices) == parts.plan.switches
    assert yaml.safe_load(file.read_text())["switches"]["leaf1"]["int"]["interfaces"][1] == "Ethernet0"


def test_a_fabric_of_ipv6_is_reported_too(tmp_path: Path) -> None:
    parts = parts_of()
    parts = replace(parts, addresses={name: f"2001:db8::{n}" for n, name in enumerate(parts.plan.hosts, 1)})
    batch = read(parts, sampled(parts), tmp_path)
    assert all(key.src.startswith("2001:db8::") for key in batch.flow_keys)


@pytest.mark.parametrize(("address", "says"), [(None, "no address"), ("host", "host"), ("::1", "IPv6")])
def test_hosts_need_addresses_of_one_version(address: str | None, says: str) -> None:
    parts = parts_of()
    with pytest.raises(InputError, match=says):
        IntReportWriter(parts.plan, parts.addresses | {"h3": address})
