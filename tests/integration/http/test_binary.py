"""Binary reports over HTTP: payloads and captures, names and units of the inventory, what is no traffic."""

from __future__ import annotations

import gzip
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from telemetry.state import FlowKey
from tests.counterparts.captures import pcap, pcapng, udp
from tests.counterparts.p4_reports import PAYLOADS
from tests.counterparts.p4_writer import InnerType, Metadata, base_transport, packet, report_v2
from tests.integration.service import (
    EPOCH_NS,
    PATIENCE_S,
    TOPOLOGY,
    Running,
    Wanted,
    all_taken,
    manual,
    running,
)

pytestmark = pytest.mark.anyio

BINARY = {"Content-Type": "application/octet-stream"}
LEAF1 = 0x0A000001
INVENTORY = """
defaults: {platform: dry-run}
switches:
  leaf1:
    int:
      node_id: 0x0a000001
      source: 192.0.2.1
      interfaces: {9: Ethernet8}
      interface_pattern: "Ethernet{}"
      occupancy: cells
      cell_bytes: 80
  leaf3: {int: {node_id: 3}}
"""


def wanted(tmp_path: Path, **telemetry: Any) -> Wanted:
    (tmp_path / "inventory.yaml").write_text(INVENTORY, "utf-8")
    settings = manual(push={"inventory": str(tmp_path / "inventory.yaml")}, telemetry=telemetry)
    return Wanted(settings=settings)


async def post(here: Running, body: bytes, query: str = "", **headers: str) -> dict[str, Any]:
    return await here.post(f"/v1/telemetry/int{query}", status=202, content=body, headers=BINARY | headers)


def datagram(*reports: bytes, sequence: int = 0, node: int = LEAF1, hardware: int = 5) -> bytes:
    return struct.pack(">II", 2 << 28 | hardware << 22 | sequence, node) + b"".join(reports)


def sampled(number: int, *, occupancy: int = 500, flags: int = 2, egress: int = 17, src: int = 1) -> bytes:
    """A report of one packet of a flow 10.0.0.``src`` → 10.0.0.9 as leaf1 saw it, ``number`` × 10 µs on."""
    at_ns = EPOCH_NS + 10_000 * number
    told = Metadata(layer1=(9, egress), queue=(3, occupancy), ingress_time=at_ns - 4_000, egress_time=at_ns)
    inner = packet(FlowKey(f"10.0.0.{src}", "10.0.0.9", 40_000 + src, 4791, 17), b"", packet_bytes=1_048)
    return report_v2(told, flags=flags, inner=inner, inner_type=InnerType.IPV4)


async def test_the_published_vectors_are_taken_one_by_one(tmp_path: Path) -> None:
    async with running(wanted(tmp_path)) as here:
        for name, payload in PAYLOADS.items():
            reports = 2 if name == "H" else 1
            held = int(name in "EH")  # each tells of a packet that one before it told of
            assert await post(here, payload) == all_taken(reports, duplicates=held), name
        state = await here.get("/v1/state")
        (queue,) = [one for one in state["queues"] if one["switch"] == "leaf1"]
        assert (queue["port"], queue["queue"]) == ("Ethernet17", 3)
        assert queue["depth_max_bytes"] == 52_000 * 80  # B and H count cells
        flows = {flow["src"]: flow for flow in (await here.get("/v1/flows"))["flows"]}
        assert flows["10.0.0.1"]["path"] == ["leaf1/Ethernet17/3"]
        assert here.metric("ecntwin_int_drop_reports_total", switch="leaf1", queue="3") == 2


async def test_packets_of_a_datagram_count_each_and_one_that_is_told_twice_once(tmp_path: Path) -> None:
    flow = FlowKey("10.0.0.1", "10.0.0.9", 40_001, 4791, 17)
    told = Metadata(layer1=(9, 17), queue=(3, 0))  # by a switch without a clock, whose queue stays empty
    reports = [
        report_v2(told, flags=2, inner=packet(flow, transport, packet_bytes=1_048), inner_type=InnerType.IPV4)
        for transport in (base_transport(17, number) for number in (100, 101, 102, 102))
    ]
    async with running(wanted(tmp_path)) as here:
        assert await post(here, datagram(*reports)) == all_taken(4, duplicates=1)
        assert (await here.get("/v1/state"))["reports"] == 3


@pytest.mark.parametrize("write", [pcap, pcapng])
async def test_a_capture_is_as_many_payloads_and_was_received_when_it_was_captured(
    tmp_path: Path, write: Any
) -> None:
    frames = [udp(datagram(sampled(number), sequence=number)) for number in range(5)]
    async with running(wanted(tmp_path)) as here:
        assert (await post(here, gzip.compress(write(frames)), "?port=32766"))["accepted"] == 5
        state = await here.get("/v1/state")
        assert state["reports"] == 5
        assert state["window_end"].startswith("2023-11-14T22:13:24.123")  # four seconds after TIME_NS
        assert here.metric("ecntwin_int_datagrams_total", switch="leaf1") == 5


async def test_device_time_is_the_reports_time_where_devices_are_trusted(tmp_path: Path) -> None:
    frames = [udp(datagram(sampled(number), sequence=number)) for number in range(5)]
    async with running(wanted(tmp_path, int={"device_time": True})) as here:
        await post(here, pcap(frames))
        assert (await here.get("/v1/state"))["window_end"].startswith("2026-01-01T00:00:00")


async def test_a_port_leaves_other_datagrams_of_a_capture_out(tmp_path: Path) -> None:
    async with running(wanted(tmp_path)) as here:
        capture = pcap([udp(b"dns?", FlowKey("192.0.2.1", "192.0.2.9", 1, 53, 17)), udp(PAYLOADS["A"])])
        assert (await post(here, capture, "?port=32766&port=9"))["rejected"] == 0
        assert (await post(here, capture))["rejected"] == 1
        answer = await here.post("/v1/telemetry/int?port=9", status=400, content=capture, headers=BINARY)
        assert "port 9" in answer["detail"]
        answer = await here.client.post("/v1/telemetry/int?port=65536", content=capture, headers=BINARY)
        assert answer.status_code == 422


async def test_bad_payloads_are_told_by_frame_and_byte_and_the_others_are_kept(tmp_path: Path) -> None:
    async with running(wanted(tmp_path)) as here:
        frames = [udp(one) for one in (PAYLOADS["A"], b"\x21\x40", PAYLOADS["I"], b"", PAYLOADS["G"][:40])]
        told = await post(here, pcap(frames))
        assert told["accepted"] == 2
        assert [error["index"] for error in told["errors"]] == [1, 3, 4]
        assert "frame 1 payload byte" in told["errors"][0]["detail"]
        alone = await post(here, b"\x21\x40")
        assert (alone["accepted"], alone["rejected"]) == (0, 1)
        assert "datagram 0 byte" in alone["errors"][0]["detail"]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "nothing"),
        (b"\x1f\x8bbroken", "gzip"),
        (pcap([]), "no UDP datagram"),
        (pcap([])[:10], "24"),
        (b"\x0a\x0d\x0d\x0a", "block"),
    ],
)
async def test_a_body_without_any_datagram_is_a_400(tmp_path: Path, body: bytes, says: str) -> None:
    async with running(wanted(tmp_path)) as here:
        answer = await here.post("/v1/telemetry/int", status=400, content=body, headers=BINARY)
        assert says in answer["detail"]
        assert (await post(here, PAYLOADS["A"]))["accepted"] == 1


async def test_a_body_too_large_unpacked_is_a_413(tmp_path: Path) -> None:
    (tmp_path / "inventory.yaml").write_text(INVENTORY, "utf-8")
    small = Wanted(settings=manual(server={"max_decoded_bytes": 1_000}))
    async with running(small) as here:
        bomb = gzip.compress(bytes(100_000))
        answer = await here.client.post("/v1/telemetry/int", content=bomb, headers=BINARY)
        assert answer.status_code == 413


async def test_dropped_packets_are_counted_and_are_no_traffic(tmp_path: Path) -> None:
    async with running(wanted(tmp_path)) as here:
        told = await post(here, PAYLOADS["C"])
        assert told["accepted"] == 1
        assert here.service.window.accepted == 0
        assert here.metric("ecntwin_int_drop_reports_total", switch="leaf1", queue="3") == 1


async def test_sequence_numbers_are_watched_by_sender(tmp_path: Path) -> None:
    async with running(wanted(tmp_path)) as here:
        for sequence in (10, 11, 15):
            await post(here, datagram(sampled(0), sequence=sequence))
        await post(here, datagram(sampled(0), sequence=7, node=3))
        assert here.metric("ecntwin_int_datagrams_total", switch="leaf1") == 3
        assert here.metric("ecntwin_int_datagrams_lost", switch="leaf1") == 3
        assert here.metric("ecntwin_int_datagrams_lost", switch="leaf3") == 0
        lost = {here.service.pipeline.binary.name(one): count.lost for one, count in _counts(here).items()}
        assert lost == {"leaf1": 3, "leaf3": 0}


def _counts(here: Running) -> Any:
    return here.service.pipeline.binary.sequence_counts()


async def test_reports_of_v05_are_their_source_addresses(tmp_path: Path) -> None:
    fixed = struct.pack(">III", 0x00200005, 77, 1_000)  # next protocol Ethernet, tracked flow, no switch id
    inner = packet(FlowKey("10.0.0.1", "10.0.0.9", 1, 4791, 17), b"", packet_bytes=200, ethernet=True)
    strange = FlowKey("198.51.100.7", "192.0.2.9", 40_000, 32_766, 17)
    async with running(wanted(tmp_path)) as here:
        told = await post(here, pcap([udp(fixed + inner), udp(fixed + inner, strange)]))
        assert told["accepted"] == 2
        assert here.metric("ecntwin_int_datagrams_total", switch="leaf1") == 1
        assert here.metric("ecntwin_int_datagrams_total", switch="198.51.100.7") == 1
        assert sorted(sender.source for sender in _counts(here)) == ["192.0.2.1", "198.51.100.7"]


async def test_a_device_without_units_is_shown_and_not_tuned(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(wanted(tmp_path)) as here:
        for number in range(150):
            await post_both(here, number)
        state = await here.get("/v1/state")
        depth = {one["switch"]: one["depth_mean_bytes"] for one in state["queues"]}
        assert depth["leaf1"] > 0
        assert depth["leaf3"] is None
        assert state["queues"][-1]["switch"] == "leaf3"
        untuned = [one["name"] for one in await here.get("/v1/switches") if one["untuned"]]
        assert untuned == ["leaf3"]
        assert here.metric("ecntwin_int_untuned", switch="leaf3") == 1
        assert here.metric("ecntwin_int_untuned", switch="leaf1") is None
        warned = [one for one in caplog.records if one.name == "ecntwin.int" and "leaf3" in one.message]
        assert len(warned) == 1

        found = await here.post("/v1/tune")
        assert found["left_out"] == ["leaf3"]
        assert any("leaf3" in note for note in found["notes"])
        entry = here.service.store.get(found["id"])
        assert entry.switches == ("leaf1",)


async def post_both(here: Running, number: int) -> None:
    """A packet through leaf1 and one through leaf3, which reports in units nobody told."""
    here.hand.now_s += 1e-5
    for node, source in ((LEAF1, 1 + number % 3), (3, 4 + number % 3)):
        await post(here, datagram(sampled(number, src=source), sequence=number, node=node))


async def test_where_no_depth_is_known_a_round_says_what_to_do(tmp_path: Path) -> None:
    async with running(wanted(tmp_path)) as here:
        for number in range(100):
            here.hand.now_s += 1e-5
            await post(here, datagram(sampled(number), sequence=number, node=3))
        answer = await here.post("/v1/tune", status=422)
        assert "unit profile" in answer["detail"]
        assert "queue_bytes of each hop" in answer["detail"]


async def test_the_settings_default_units_are_those_of_devices_the_inventory_lacks() -> None:
    settings = manual(telemetry={"int": {"default_units": {"occupancy": "packets", "packet_bytes": 1_000}}})
    async with running(replace(Wanted(), settings=settings)) as here:
        await post(here, datagram(sampled(0, occupancy=7), node=77))
        (queue,) = (await here.get("/v1/state"))["queues"]
        assert (queue["switch"], queue["depth_max_bytes"]) == ("77", 7_000)


async def test_any_other_type_names_the_binary_one(tmp_path: Path) -> None:
    async with running() as here:
        answer = await here.post(
            "/v1/telemetry/int",
            status=415,
            content=b"x",
            headers={"Content-Type": "application/vnd.tcpdump.pcap"},
        )
        assert "application/octet-stream" in answer["detail"]


async def test_postcards_of_a_packet_become_its_path_though_nothing_follows(tmp_path: Path) -> None:
    """Two switches report each packet (INT-XD); a flow's bytes count once."""
    chosen = wanted(tmp_path, int={"merge_postcards_s": 0.01})
    async with running(chosen) as here:
        for node, hop_limit in ((LEAF1, 64), (3, 63)):
            flow = FlowKey("10.0.0.1", "10.0.0.9", 40_001, 4791, 17)
            inner = packet(flow, base_transport(5, 1), packet_bytes=1_048, hop_limit=hop_limit)
            told = Metadata(layer1=(9, 17), queue=(3, 10))
            card = report_v2(told, flags=2, inner=inner, inner_type=InnerType.IPV4)
            assert (await post(here, datagram(card, node=node)))["accepted"] == 1
        assert here.service.window.accepted == 0
        with here.service.events.listen() as told, anyio.fail_after(PATIENCE_S):
            while not here.service.window.accepted:
                here.hand.now_s += 1.0
                await told.get()
        (flow_seen,) = (await here.get("/v1/flows"))["flows"]
        assert flow_seen["path"] == ["leaf1/Ethernet17/3", "leaf3/17/3"]
        assert flow_seen["window_bytes"] == 1_048
        assert here.metric("ecntwin_int_postcards_total", outcome="merged") == 2


async def test_what_becomes_of_earlier_postcards_is_not_in_this_body_s_answer(tmp_path: Path) -> None:
    """Paths of a switch that the topology lacks are refused when they are whole, with a later body."""
    async with running(wanted(tmp_path, int={"merge_postcards_s": 0.01})) as here:
        await here.client.put("/v1/topology", json=TOPOLOGY)
        for number in range(6):
            inner = packet(
                FlowKey("10.0.0.1", "10.0.0.2", 40_000 + number, 4791, 17),
                base_transport(5, 1),
                packet_bytes=1_048,
            )
            card = report_v2(
                Metadata(layer1=(9, 17), queue=(3, 10)), flags=2, inner=inner, inner_type=InnerType.IPV4
            )
            here.hand.now_s += 10.0 * (number == 5)
            answer = await post(here, datagram(card, node=3, sequence=number))
            assert answer == all_taken(1)
        with here.service.events.listen() as told, anyio.fail_after(PATIENCE_S):
            while here.service.window.rejected < 6:
                here.hand.now_s += 1.0
                await told.get()
