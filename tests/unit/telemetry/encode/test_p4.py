"""Reports written from columns equal those of the test writer byte for byte, and decode to the same."""

from __future__ import annotations

import ipaddress
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.decode.p4.decoder import P4Decoder
from telemetry.decode.p4.devices import Devices, UnitProfile
from telemetry.encode.p4 import MOST_OCCUPANCY, ReportColumns, datagram_v2, reports_v2
from telemetry.state import FlowKey
from tests.counterparts.p4_writer import InnerType, Metadata, int_headers, packet, report_v2

NUMBERS: dict[str, tuple[int, int]] = {
    "node": (1, 2**32 - 2),
    "ingress": (0, 0xFFFE),
    "egress": (0, 0xFFFE),
    "queue": (0, 254),
    "occupancy": (0, MOST_OCCUPANCY),
    "ingress_time": (0, 2**63 - 1),
    "egress_time": (0, 2**63 - 1),
}
PACKETS = {
    "source_port": (0, 65_535),
    "destination_port": (0, 4999),
    "packet_bytes": (300, 9_000),
    "ecn": (0, 3),
}


@st.composite
def columns(draw: st.DrawFn) -> ReportColumns:
    n_reports, n_hops = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    width = draw(st.sampled_from([4, 16]))

    def numbers(low: int, high: int, shape: tuple[int, ...]) -> Any:
        flat = st.lists(st.integers(low, high), min_size=int(np.prod(shape)), max_size=int(np.prod(shape)))
        return np.array(draw(flat), np.int64).reshape(shape)

    hops = {name: numbers(*ends, (n_reports, n_hops)) for name, ends in NUMBERS.items()}
    packets = {name: numbers(*ends, (n_reports,)) for name, ends in PACKETS.items()}
    addresses = {
        name: numbers(0, 255, (n_reports, width)).astype(np.uint8) for name in ("source", "destination")
    }
    return ReportColumns(**hops, **packets, **addresses)


def one_by_one(written: ReportColumns, row: int) -> bytes:
    hops = [
        Metadata(
            node=int(written.node[row, hop]),
            layer1=(int(written.ingress[row, hop]), int(written.egress[row, hop])),
            queue=(int(written.queue[row, hop]), int(written.occupancy[row, hop])),
            ingress_time=int(written.ingress_time[row, hop]),
            egress_time=int(written.egress_time[row, hop]),
        )
        for hop in range(written.node.shape[1])
    ]
    port = int(written.destination_port[row])
    behind = int_headers(hops[:-1], next_protocol=1, original=port) if len(hops) > 1 else b""
    source, destination = (
        str(ipaddress.ip_address(one[row].tobytes())) for one in (written.source, written.destination)
    )
    flow = FlowKey(source, destination, int(written.source_port[row]), 5000 if behind else port, 17)
    inner = packet(flow, behind, packet_bytes=int(written.packet_bytes[row]), ecn=int(written.ecn[row]))
    kind = InnerType.IPV4 if written.version == 4 else InnerType.IPV6
    return report_v2(hops[-1], flags=2, inner=inner, inner_type=kind)


@given(columns())
def test_many_at_once_are_what_they_are_one_by_one(written: ReportColumns) -> None:
    rows = reports_v2(written)
    assert [row.tobytes() for row in rows] == [one_by_one(written, row) for row in range(len(rows))]


@given(columns())
def test_what_was_written_is_read_again(written: ReportColumns) -> None:
    rows = reports_v2(written)
    payloads = [
        datagram_v2(int(node), 0, number, [row.tobytes()])
        for number, (row, node) in enumerate(zip(rows, written.node[:, -1], strict=True))
    ]
    found = P4Decoder(Devices(default=UnitProfile())).decode(payloads, 1)
    assert not found.problems
    batch = found.batch
    if np.array_equal(np.diff(batch.hop_offset), np.full(len(rows), written.node.shape[1])):
        assert batch.queue_bytes.tolist() == written.occupancy.reshape(-1).tolist()
        assert batch.egress_ns.tolist() == written.egress_time.reshape(-1).tolist()
    assert batch.packet_bytes.tolist() == written.packet_bytes.tolist()
    ports = [batch.flow_keys[flow].dport for flow in batch.flow]
    assert ports == written.destination_port.tolist()


@pytest.mark.parametrize("version", [4, 6])
def test_a_report_without_reports_is_no_bytes(version: int) -> None:
    whole, flat = np.empty((0, 2), np.int64), np.empty(0, np.int64)
    address = np.empty((0, 4 if version == 4 else 16), np.uint8)
    written = ReportColumns(
        **dict.fromkeys(NUMBERS, whole),
        **dict.fromkeys(PACKETS, flat),
        source=address,
        destination=address,
    )
    assert len(reports_v2(written)) == 0
