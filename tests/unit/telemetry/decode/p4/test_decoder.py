"""Binary telemetry reports: the values of every vector, and pitfalls of the layouts."""

from __future__ import annotations

import numpy as np
import pytest

from telemetry.decode.p4 import assemble, names
from telemetry.decode.p4 import decoder as decoder_module
from telemetry.decode.p4.assemble import P4Reports, ReportFlags
from telemetry.decode.p4.columns import FlowColumns
from telemetry.decode.p4.decoder import P4Decoder
from telemetry.decode.p4.devices import Devices, UnitProfile
from telemetry.decode.p4.packet import IntMarks
from telemetry.decode.p4.reports import plan_of
from telemetry.encode.p4 import datagram_v2
from telemetry.errors import DecodeError, TelemetryError
from telemetry.report import MARK_UNKNOWN, MISSING_NS
from telemetry.state import FlowKey
from tests.counterparts.p4_reports import LENGTHS, PAYLOADS, VECTORS
from tests.counterparts.p4_writer import (
    InnerType,
    Metadata,
    base_transport,
    datagram_v0,
    datagram_v1,
    inner_only_v2,
    int_headers,
    mx_headers,
    packet,
    report_v2,
    tlv,
)

NODE = 0x0A000001
BYTES = Devices(default=UnitProfile())
TCP = FlowKey("10.0.0.1", "10.0.0.2", 1234, 80, 6)
ROCE = FlowKey("10.0.0.1", "10.0.0.2", 49152, 4791, 17)
UDP_FLOW = FlowKey("10.0.0.1", "10.0.0.2", 1234, 80, 17)
NOBODY = FlowKey("0.0.0.0", "0.0.0.0", 0, 0, 0)
FULL = Metadata(
    node=NODE,
    layer1=(9, 17),
    latency=12_000,
    queue=(3, 52_000),
    ingress_time=1_700_000_000_000_000_000,
    egress_time=1_700_000_000_000_012_000,
    layer2=(1009, 1017),
    utilisation=8750,
    buffer=(0, 900_000),
)
CONGESTED = ReportFlags.CONGESTED_QUEUE | ReportFlags.TRACKED_FLOW


def decoded(*payloads: bytes, devices: Devices = BYTES, marks: IntMarks | None = None) -> P4Reports:
    return P4Decoder(devices, marks).decode(payloads, 77)


def alone(payload: bytes, *, devices: Devices = BYTES, marks: IntMarks | None = None) -> P4Reports:
    reports = decoded(payload, devices=devices, marks=marks)
    assert reports.problems == ()
    assert len(reports) == 1
    return reports


def flow_of(reports: P4Reports, row: int = 0) -> FlowKey:
    return reports.batch.flow_keys[reports.batch.flow[row]]


def places(reports: P4Reports) -> list[tuple[str | None, str | None, str | None, int | None]]:
    return [tuple(reports.batch.sites[number]) for number in reports.batch.hop_site.tolist()]


@pytest.mark.parametrize("name", sorted(LENGTHS))
def test_the_vectors_are_as_long_as_their_layouts_say(name: str) -> None:
    assert len(VECTORS[name]) == LENGTHS[name]


def test_a_tracked_flow_with_its_tcp_packet() -> None:
    reports = alone(PAYLOADS["A"])
    assert flow_of(reports) == TCP
    assert places(reports) == [(str(NODE), "9", "17", 3)]
    assert reports.batch.queue_bytes.tolist() == [4096.0]
    assert reports.batch.packet_bytes.tolist() == [40]
    assert reports.batch.ts_ns.tolist() == [77]
    assert reports.batch.marked.tolist() == [0]
    assert reports.flags.tolist() == [ReportFlags.TRACKED_FLOW]
    sent = reports.senders
    assert (sent.version[0], sent.node[0], sent.hardware[0], sent.sequence[0]) == (2, NODE, 5, 1001)


def test_every_baseline_value() -> None:
    reports = alone(PAYLOADS["B"])
    assert flow_of(reports) == NOBODY
    assert places(reports) == [(str(NODE), "9", "17", 3)]
    assert reports.batch.queue_bytes.tolist() == [52_000.0]
    assert reports.batch.ingress_ns.tolist() == [1_700_000_000_000_000_000]
    assert reports.batch.egress_ns.tolist() == [1_700_000_000_000_012_000]
    assert reports.tx_utilisation.tolist() == [0.875]
    assert reports.flags.tolist() == [CONGESTED]
    assert reports.batch.marked.tolist() == [MARK_UNKNOWN]


def test_a_drop_is_told_and_is_no_traffic() -> None:
    reports = alone(PAYLOADS["C"])
    assert reports.dropped.tolist() == [True]
    assert reports.drop_reason.tolist() == [71]
    assert places(reports) == [(str(NODE), None, None, 3)]
    assert len(reports.delivered()) == 0


@pytest.mark.parametrize(("name", "version"), [("D", 1), ("E", 0)])
def test_the_older_versions(name: str, version: int) -> None:
    reports = alone(PAYLOADS[name])
    assert places(reports) == [(str(NODE), "9", "17", 3)]
    assert reports.batch.queue_bytes.tolist() == [4096.0]
    assert reports.batch.ingress_ns.tolist() == [123_456_789]
    assert reports.batch.egress_ns.tolist() == [123_468_789]
    assert reports.flags.tolist() == [CONGESTED]
    sent = reports.senders
    assert (sent.version[0], sent.node[0], sent.hardware[0], sent.sequence[0]) == (version, NODE, 5, 77)


def test_a_stack_in_the_truncated_packet_comes_before_the_sink() -> None:
    reports = alone(PAYLOADS["G"])
    assert [place[0] for place in places(reports)] == ["1", "2", "3"]
    assert reports.batch.queue_bytes.tolist() == [40.0, 600.0, 7.0]
    assert flow_of(reports) == ROCE
    assert (reports.queue_pair.tolist(), reports.packet_sequence.tolist()) == ([0x42], [7])
    # Marked when it was reported; which hop marked it nobody knows.
    assert reports.batch.marked.tolist() == [MARK_UNKNOWN, MARK_UNKNOWN, 1]


def test_what_the_source_alone_added_lies_below_the_stack() -> None:
    """The example of INT v2.1: a MAC address below the hops of one word each."""
    reports = alone(PAYLOADS["J"])
    assert [place[0] for place in places(reports)] == ["1", "2", "4", "3"]
    assert (reports.queue_pair.tolist(), reports.packet_sequence.tolist()) == ([0x42], [7])


def test_a_packet_that_ends_unmarked_says_nothing_of_earlier_hops_either() -> None:
    """Otherwise a hop would only be known for unmarked packets, and seem never to mark."""
    payload = PAYLOADS["G"].replace(bytes.fromhex("456b0048"), bytes.fromhex("456a0048"))
    reports = alone(payload)
    assert reports.batch.marked.tolist() == [MARK_UNKNOWN, MARK_UNKNOWN, 0]


def test_a_datagram_of_two_reports() -> None:
    reports = decoded(PAYLOADS["H"])
    assert reports.problems == ()
    assert reports.batch.index.tolist() == [0, 0]
    assert reports.drop_reason.tolist() == [71, -1]
    assert np.isnan(reports.batch.queue_bytes[0])
    assert reports.batch.queue_bytes[1] == 52_000
    assert len(reports.delivered()) == 1


def test_all_ones_are_no_number() -> None:
    reports = alone(PAYLOADS["I"])
    assert places(reports) == [(str(NODE), None, None, None)]
    assert np.isnan(reports.batch.queue_bytes[0])
    assert reports.occupancy.tolist() == [-1]
    ones = Metadata(
        layer1=(0xFFFF, 4),
        latency=0xFFFF_FFFF,
        queue=(2, 0xFF_FFFF),
        ingress_time=2**64 - 1,
        egress_time=2**64 - 1,
        layer2=(8, 0xFFFF_FFFF),
        utilisation=0xFFFF_FFFF,
    )
    reports = alone(datagram_v2(1, 0, 0, [report_v2(ones, flags=4)]))
    assert places(reports) == [("1", "8", "4", 2)]
    assert np.isnan(reports.batch.queue_bytes[0])
    assert np.isnan(reports.tx_utilisation[0])
    assert (reports.batch.ingress_ns[0], reports.batch.egress_ns[0]) == (MISSING_NS, MISSING_NS)


def test_the_encoder_writes_the_vectors() -> None:
    tracked = Metadata(layer1=(9, 17), queue=(3, 4096))
    tcp = packet(TCP, b"", packet_bytes=40, ecn=2)
    a = report_v2(tracked, flags=2, inner=tcp, inner_type=InnerType.IPV4)
    assert datagram_v2(NODE, 5, 1001, [a]) == VECTORS["A"]
    full = report_v2(FULL, flags=6)
    assert datagram_v2(NODE, 5, 1001, [full]) == VECTORS["B"]
    drop = report_v2(Metadata(drop=(3, 71)), flags=8)
    assert datagram_v2(NODE, 5, 1001, [drop]) == VECTORS["C"]
    assert datagram_v2(NODE, 5, 1003, [drop, full]) == VECTORS["H"]
    old = Metadata(
        node=NODE, layer1=(9, 17), queue=(3, 4096), ingress_time=123_456_789, egress_time=123_468_789
    )
    assert datagram_v1(old, flags=6, hardware=5, sequence=77) == VECTORS["D"]
    assert datagram_v0(old, flags=6, hardware=5, sequence=77) == VECTORS["E"]
    hops = [Metadata(node=1, queue=(3, 40)), Metadata(node=2, queue=(3, 600))]
    stack = int_headers(hops, next_protocol=1, original=4791, remaining_hops=6)
    assert stack == VECTORS["F"]
    inner = packet(
        ROCE._replace(dport=5000), stack + base_transport(0x42, 7), packet_bytes=72, ecn=3, dscp=26
    )
    sink = report_v2(Metadata(queue=(3, 7)), flags=6, inner=inner, inner_type=InnerType.IPV4)
    assert datagram_v2(3, 5, 1002, [sink]) == VECTORS["G"]
    mac = bytes.fromhex("a61af6b1647d0000")
    stack = bytearray(
        int_headers(
            [Metadata(node=node) for node in (1, 2, 4)],
            next_protocol=1,
            original=4791,
            source_only=mac,
            domain=(0x5453, 0x8000),
            remaining_hops=5,
        )
    )
    stack[14] = 0x40  # of the domain's flags, which the encoder does not write
    inner = packet(
        ROCE._replace(dport=5000), stack + base_transport(0x42, 7), packet_bytes=76, ecn=3, dscp=26
    )
    sink = report_v2(Metadata(queue=(3, 7)), flags=6, inner=inner, inner_type=InnerType.IPV4)
    assert datagram_v2(3, 5, 1005, [sink]) == VECTORS["J"]
    nothing = report_v2(Metadata(queue=(0xFF, 0xFF_FFFF)), flags=0)
    assert datagram_v2(NODE, 5, 1004, [nothing]) == VECTORS["I"]


def sunk(inner: bytes, told: Metadata | None = None, node: int = 9) -> bytes:
    report = report_v2(told or Metadata(), flags=2, inner=inner, inner_type=InnerType.IPV4)
    return datagram_v2(node, 0, 0, [report])


HOPS = [Metadata(node=1, queue=(3, 40)), Metadata(node=2, queue=(3, 600))]


@pytest.mark.parametrize("ethernet", [False, True])
@pytest.mark.parametrize("source", ["10.0.0.1", "2001:db8::1"])
def test_every_next_protocol_of_the_shim_gives_the_original_flow(source: str, ethernet: bool) -> None:
    flow = ROCE._replace(src=source, dst=source + "7")
    kind = InnerType.ETHERNET if ethernet else InnerType.IPV6 if ":" in source else InnerType.IPV4
    bth = base_transport(5, 6)
    port = int_headers(HOPS, next_protocol=1, original=4791) + bth
    whole = packet(flow, bth, packet_bytes=100)
    layer4 = whole[-(8 + len(bth)) :]
    protocol = int_headers(HOPS, next_protocol=2, original=17) + layer4
    coded = int_headers(HOPS) + bth
    for behind, changed, dscp in (
        (port, {"dport": 5000}, 0),
        (protocol, {"sport": 7, "dport": 5000}, 0),
        (coded, {}, 23),
    ):
        inner = packet(flow._replace(**changed), behind, packet_bytes=200, dscp=dscp, ethernet=ethernet)
        report = report_v2(Metadata(queue=(1, 7)), flags=2, inner=inner, inner_type=kind)
        reports = alone(datagram_v2(9, 0, 0, [report]), marks=IntMarks(frozenset({5000}), frozenset({23})))
        assert flow_of(reports) == flow
        assert [place[0] for place in places(reports)] == ["1", "2", "9"]
        assert (reports.queue_pair[0], reports.packet_sequence[0]) == (5, 6)
        assert reports.batch.packet_bytes[0] == 200


def test_int_after_tcp_is_found_by_its_dscp_only() -> None:
    inner = packet(TCP, int_headers(HOPS, version=1), packet_bytes=90, dscp=23)
    assert [place[0] for place in places(alone(sunk(inner)))] == ["9"]
    found = alone(sunk(inner), marks=IntMarks(dscps=frozenset({23})))
    assert [place[0] for place in places(found)] == ["1", "2"]
    assert flow_of(found) == TCP


def test_a_packet_with_int_mx_carries_no_stack() -> None:
    behind = mx_headers(next_protocol=1, original=4791) + base_transport(5, 6)
    reports = alone(sunk(packet(ROCE._replace(dport=5000), behind, packet_bytes=100), Metadata(queue=(3, 8))))
    assert flow_of(reports) == ROCE
    assert reports.batch.queue_bytes.tolist() == [8.0]
    assert reports.queue_pair.tolist() == [5]


def test_a_sink_that_put_itself_on_the_stack_is_one_hop() -> None:
    inner = packet(ROCE._replace(dport=5000), int_headers(HOPS, next_protocol=1), packet_bytes=100)
    both = alone(sunk(inner, Metadata(layer1=(5, 6)), node=2))
    assert places(both) == [("1", None, None, 3), ("2", "5", "6", 3)]
    assert both.batch.queue_bytes.tolist() == [40.0, 600.0]
    # Read together with one whose sink is not on the stack: the same bytes but for the node.
    mixed = decoded(*[sunk(inner, Metadata(layer1=(5, 6)), node=node) for node in (2, 3) * 10])
    assert mixed.batch.hop_count.tolist() == [2, 3] * 10


def test_a_stack_that_is_cut_off_keeps_its_last_hops() -> None:
    hops = [Metadata(node=number, queue=(3, number)) for number in (1, 2, 3)]
    inner = packet(ROCE._replace(dport=5000), int_headers(hops, next_protocol=1), packet_bytes=100)
    reports = alone(sunk(inner[:-12], Metadata(queue=(3, 9))))
    assert [place[0] for place in places(reports)] == ["3", "9"]


def test_what_only_the_domain_understands_is_passed_over() -> None:
    told = Metadata(layer1=(1, 2), queue=(3, 4))
    report = report_v2(told, flags=1, domain=(0x5453, 0xFFFF, 7, b"\xaa" * 20))
    reports = alone(datagram_v2(9, 0, 0, [report]))
    assert places(reports) == [("9", "1", "2", 3)]


MAC = bytes.fromhex("a61af6b1647d0000")
NODES = [Metadata(node=1), Metadata(node=2), Metadata(node=3)]
QUEUED = [Metadata(node=1, layer1=(1, 2), queue=(3, 4)), Metadata(node=2, layer1=(1, 2), queue=(3, 4))]


def carrying(hops: list[Metadata], below: bytes, domain: int, hop_words: int | None = None) -> bytes:
    """A report of a packet with this stack, for which the domain's first instruction asked."""
    stack = bytearray(
        int_headers(hops, next_protocol=1, original=4791, source_only=below, domain=(domain, 0x8000))
    )
    if hop_words is not None:
        stack[6] = hop_words
    behind = bytes(stack) + base_transport(5, 6)
    return sunk(packet(ROCE._replace(dport=5000), behind, packet_bytes=200), Metadata(queue=(3, 9)))


@pytest.mark.parametrize("copies", [1, 20])
@pytest.mark.parametrize(
    ("payload", "nodes"),
    [
        (carrying(NODES, MAC, 0x5453), ["1", "2", "3"]),  # the example of INT v2.1
        (carrying(NODES, b"", 0x5453), ["3"]),  # 8 bytes below one hop are those of the domain
        (carrying(NODES, b"", 0), ["1", "2", "3"]),  # instructions of no domain mean nothing
        (carrying(QUEUED, MAC, 0x5453), ["1", "2"]),
        (carrying(QUEUED, b"", 0x5453), ["1", "2"]),  # its source added none
        (carrying(QUEUED, bytes(12), 7), ["2"]),
        (carrying(QUEUED, MAC, 8), ["1", "2"]),  # nobody told its size, and no hop is so short
        (carrying([*QUEUED, *QUEUED], b"", 8, hop_words=6), ["2", "2"]),  # every hop adds to its own
    ],
)
def test_what_the_source_alone_added_is_no_hop(payload: bytes, nodes: list[str], copies: int) -> None:
    marks = IntMarks(source_only_bytes={0x5453: 8, 7: 24})
    reports = decoded(*[payload] * copies, marks=marks)
    assert reports.problems == ()
    assert [place[0] for place in places(reports)] == [*nodes, "9"] * copies


@pytest.mark.parametrize("copies", [1, 20])
@pytest.mark.parametrize(
    ("payload", "said"),
    [
        (carrying(NODES, MAC, 8), "a stack of 20 bytes, 4 a hop, with source-only metadata of domain 0x0008"),
        (carrying(QUEUED, bytes(12), 8), "telemetry.int.source_only_bytes"),
        (carrying(QUEUED, bytes(4), 0x5453), "whole hops of 12 bytes, and 8 bytes of its source"),
    ],
)
def test_a_stack_whose_hops_cannot_be_told_from_the_rest_is_named(
    payload: bytes, said: str, copies: int
) -> None:
    reports = decoded(*[payload] * copies)
    assert len(reports) == 0
    assert [said in problem.detail for problem in reports.problems] == [True] * copies


def test_contents_by_type_and_length() -> None:
    inner = packet(TCP, b"", packet_bytes=40)
    contents = tlv(0, bytes(8)) + tlv(2, inner)
    for body, flow in ((contents, TCP), (tlv(0, bytes(8)), NOBODY)):
        report = report_v2(Metadata(queue=(1, 2)), flags=2, inner=body, inner_type=InnerType.TLV)
        assert flow_of(alone(datagram_v2(9, 0, 0, [report]))) == flow


def test_a_report_of_a_packet_alone() -> None:
    inner = packet(TCP, b"", packet_bytes=1500, ethernet=True)
    reports = alone(datagram_v2(9, 0, 0, [inner_only_v2(inner, InnerType.ETHERNET, flags=2)]))
    assert flow_of(reports) == TCP
    assert places(reports) == [("9", None, None, None)]
    assert reports.batch.packet_bytes.tolist() == [1500]


def test_a_report_longer_than_its_length_field_goes_to_the_end() -> None:
    inner = packet(TCP, bytes(1400), packet_bytes=1440)
    report = report_v2(Metadata(queue=(1, 2)), flags=2, inner=inner, inner_type=InnerType.IPV4)
    assert report[1] == 0xFF
    assert flow_of(alone(datagram_v2(9, 0, 0, [report]))) == TCP


SERVICE_TAGS = (b"\x88\xa8", b"\x91\x00", b"\x92\x00")


def test_a_tagged_packet_and_a_later_fragment() -> None:
    inner = packet(TCP, b"", packet_bytes=54, ethernet=True)
    for tags in (b"\x81\x00\x00\x05", *(kind + b"\x00\x07\x81\x00\x00\x05" for kind in SERVICE_TAGS)):
        tagged = inner[:12] + tags + inner[12:]
        reports = alone(datagram_v2(9, 0, 0, [inner_only_v2(tagged, InnerType.ETHERNET, flags=2)]))
        assert flow_of(reports) == TCP
        assert reports.batch.packet_bytes.tolist() == [54 + len(tags)]
    fragment = bytearray(packet(TCP, b"", packet_bytes=40))
    fragment[6:8] = b"\x20\x10"
    assert flow_of(alone(sunk(bytes(fragment)))) == TCP._replace(sport=0, dport=0)
    other = inner[:12] + b"\x08\x06" + inner[14:]
    report = inner_only_v2(other, InnerType.ETHERNET, flags=2)
    assert flow_of(alone(datagram_v2(9, 0, 0, [report]))) == NOBODY


@pytest.mark.parametrize("ethernet", [False, True])
@pytest.mark.parametrize("flow", [UDP_FLOW, UDP_FLOW._replace(src="2001:db8::1", dst="2001:db8::2")])
@pytest.mark.parametrize("copies", [1, 20])
def test_a_packet_is_as_long_as_it_says_however_the_report_is_padded(
    flow: FlowKey, ethernet: bool, copies: int
) -> None:
    headers = 14 * ethernet + (40 if ":" in flow.src else 20) + 8
    kind = InnerType.ETHERNET if ethernet else InnerType.IPV6 if ":" in flow.src else InnerType.IPV4
    for kept, size in ((1, headers + 1), (18, headers + 18), (18, 1500)):
        whole = packet(flow, bytes(kept), packet_bytes=size, ethernet=ethernet)
        reports = decoded(*[datagram_v2(9, 0, 0, [inner_only_v2(whole, kind, flags=2)])] * copies)
        assert reports.batch.packet_bytes.tolist() == [size] * copies
        # Where its header does not tell (segmentation left to a network card, a jumbogram): what is there.
        at = 14 * ethernet + (4 if ":" in flow.src else 2)
        untold = whole[:at] + bytes(2) + whole[at + 2 :] + bytes(-len(whole) % 4)
        reports = decoded(*[datagram_v2(9, 0, 0, [inner_only_v2(untold, kind, flags=2)])] * copies)
        assert reports.batch.packet_bytes.tolist() == [len(untold)] * copies


def test_ipv4_written_as_ipv6_is_the_ipv4_host() -> None:
    flow = FlowKey("::ffff:10.0.0.1", "2001:db8::2", 7, 8, 17)
    report = inner_only_v2(packet(flow, b"", packet_bytes=100), InnerType.IPV6, flags=2)
    assert flow_of(alone(datagram_v2(9, 0, 0, [report]))).src == "10.0.0.1"


def test_ipv6_options_lead_to_the_ports() -> None:
    flow = FlowKey("2001:db8::1", "2001:db8::2", 7, 8, 17)
    plain = packet(flow, b"", packet_bytes=100)
    for kind, option in ((0, b"\x11\x00" + bytes(6)), (44, b"\x11\x00\x00\x01" + bytes(4))):
        inner = plain[:6] + bytes([kind]) + plain[7:40] + option + plain[40:]
        report = inner_only_v2(inner, InnerType.IPV6, flags=2)
        assert flow_of(alone(datagram_v2(9, 0, 0, [report]))) == flow
    later = plain[:6] + b"\x2c" + plain[7:40] + b"\x11\x00\x00\x08" + bytes(4) + plain[40:]
    report = inner_only_v2(later, InnerType.IPV6, flags=2)
    assert flow_of(alone(datagram_v2(9, 0, 0, [report])))[2:] == (0, 0, 17)


@pytest.mark.parametrize(
    ("profile", "queue_bytes", "stay_ns", "share"),
    [
        (UnitProfile(utilisation_scale=100.0), 600.0, 1_500, 0.5),
        (UnitProfile("cells", 80, "us", 1000.0), 48_000.0, 1_500_000, 0.05),
        (UnitProfile("packets", 1500, "2^-32 s"), 900_000.0, 349, 0.005),
    ],
)
def test_units_are_the_devices(profile: UnitProfile, queue_bytes: float, stay_ns: int, share: float) -> None:
    told = Metadata(queue=(3, 600), ingress_time=2**34, egress_time=2**34 + 1500, utilisation=50)
    devices = Devices(profiles={9: profile})
    reports = alone(datagram_v2(9, 0, 0, [report_v2(told, flags=2)]), devices=devices)
    assert reports.batch.queue_bytes.tolist() == [queue_bytes]
    assert reports.batch.egress_ns[0] - reports.batch.ingress_ns[0] == stay_ns
    assert reports.tx_utilisation.tolist() == [share]
    assert reports.untuned == ()


def test_a_device_without_a_profile_is_shown_and_not_believed() -> None:
    reports = decoded(*[PAYLOADS["G"]] * 2, devices=Devices(profiles={1: UnitProfile()}))
    assert reports.untuned == (2, 3)
    assert reports.batch.queue_bytes[0] == 40
    assert np.isnan(reports.batch.queue_bytes[1:3]).all()
    assert reports.occupancy.tolist() == [40, 600, 7] * 2
    times = decoded(PAYLOADS["B"], PAYLOADS["D"], devices=Devices())
    assert times.batch.ingress_ns.tolist() == times.batch.egress_ns.tolist() == [MISSING_NS] * 2


def test_devices_of_several_units_in_one_batch() -> None:
    told = Metadata(queue=(3, 10), ingress_time=5, egress_time=7)
    devices = Devices(profiles={1: UnitProfile("cells", 80, "us"), 2: UnitProfile(sampling_rate=0.25)})
    payloads = [datagram_v2(node, 0, 0, [report_v2(told, flags=2)]) for node in (1, 2, 3)]
    batch = decoded(*payloads, devices=devices).batch
    assert batch.queue_bytes[:2].tolist() == [800, 10]
    assert batch.ingress_ns.tolist() == [5000, 5, MISSING_NS]
    assert batch.sampling_rate.tolist() == [1.0, 0.25, 1.0]


@pytest.mark.parametrize("together", [1, 20])
def test_a_sink_that_is_on_no_hop_tells_how_many_packets_a_report_stands_for(together: int) -> None:
    """Bytes of a flow are those reported, divided by the rate: that of the first hops' node is another."""
    rates = {1: 0.5, 2: 0.25, 3: 1.0}
    devices = Devices(profiles={node: UnitProfile(sampling_rate=rate) for node, rate in rates.items()})
    stack = int_headers([Metadata(node=1, queue=(3, 1))], next_protocol=1, original=4791)
    inner = packet(ROCE._replace(dport=5000), stack, packet_bytes=400)
    through = report_v2(Metadata(), flags=2, inner=inner, inner_type=InnerType.IPV4)
    payloads = [datagram_v2(node, 0, 0, [through]) for node in (2, 3, 1)] * together
    reports = decoded(*payloads, devices=devices)
    assert reports.batch.hop_count.tolist() == [1, 1, 1] * together
    assert {site.switch for site in reports.batch.sites} == {"1"}
    assert reports.batch.sampling_rate.tolist() == [0.25, 1.0, 0.5] * together


def test_names_come_from_the_inventory() -> None:
    devices = Devices({NODE: "tor1"}, {NODE: {9: "Ethernet10"}}, default=UnitProfile())
    assert places(alone(PAYLOADS["A"], devices=devices)) == [("tor1", "Ethernet10", "17", 3)]


@pytest.mark.parametrize(
    ("told", "begun_ended"),
    [
        (Metadata(latency=12), (0, 12)),
        (Metadata(latency=12, ingress_time=100), (100, 112)),
        (Metadata(latency=12, egress_time=100), (88, 100)),
        (Metadata(latency=12, egress_time=3), (0, 12)),
        (Metadata(latency=12, ingress_time=100, egress_time=150), (100, 150)),
        (Metadata(ingress_time=2**63), (MISSING_NS, MISSING_NS)),
    ],
)
def test_a_hop_latency_alone_is_a_stay(told: Metadata, begun_ended: tuple[int, int]) -> None:
    batch = decoded(*[datagram_v2(9, 0, 0, [report_v2(told, flags=2)])] * 10).batch
    assert set(zip(batch.ingress_ns.tolist(), batch.egress_ns.tolist(), strict=True)) == {begun_ended}


def test_a_clock_of_32_bits_goes_round() -> None:
    old = Metadata(node=1, ingress_time=2**32 - 10, egress_time=20)
    batch = alone(datagram_v1(old, flags=2, hardware=0, sequence=0)).batch
    assert batch.egress_ns[0] - batch.ingress_ns[0] == 30
    backwards = Metadata(node=1, ingress_time=100, egress_time=90)
    batch = alone(datagram_v1(backwards, flags=2, hardware=0, sequence=0)).batch
    assert batch.egress_ns[0] - batch.ingress_ns[0] == -10


def test_the_devices_time_is_taken_where_it_is_right_and_whole() -> None:
    decoder = P4Decoder(BYTES, device_time=True)
    reports = decoder.decode([PAYLOADS[name] for name in ("A", "B", "D")], np.array([1, 2, 3]))
    assert reports.batch.ts_ns.tolist() == [1, 1_700_000_000_000_012_000, 3]


@pytest.mark.parametrize(
    ("payload", "byte", "said"),
    [
        (b"", 0, "0 bytes"),
        (b"\x70\x00", 0, "version 7"),
        (b"\x20", 1, "the group header of v2.0 takes 8"),
        (PAYLOADS["A"][:8], 8, "followed by reports"),
        (PAYLOADS["A"][:10], 8, "2 bytes"),
        (PAYLOADS["A"][:-4], 9, "a report of 56 bytes, 52 before the end"),
        (PAYLOADS["A"][:8] + b"\x20\x00\x00\x00", 8, "IOAM"),
        (PAYLOADS["A"][:8] + b"\x70\x00\x00\x00", 8, "type 7"),
        (PAYLOADS["A"][:8] + b"\x10\x01\x00\x00" + bytes(4), 9, "begins with 12"),
        (PAYLOADS["A"][:8] + b"\x10\x02\x01\x00" + bytes(8), 10, "4 bytes of metadata"),
        (PAYLOADS["A"][:8] + b"\x10\x02\x00\x00\x80" + bytes(7), 12, "first bit is reserved"),
        (PAYLOADS["A"][:8] + b"\x10\x02\x00\x00\x10" + bytes(7), 12, "cannot hold"),
        (PAYLOADS["A"][:8] + b"\x16\x02\x00\x00" + bytes(8), 20, "InType is 0 to 5"),
        (PAYLOADS["A"][:8] + b"\x14\x07\x00\x00" + bytes(28), 20, "IPv4 header begins"),
        (PAYLOADS["A"][:8] + b"\x15\x0c\x00\x00" + bytes(48), 20, "IPv6 header begins"),
        (PAYLOADS["A"][:8] + b"\x11\x03\x00\x00" + bytes(8) + b"\x20\x09\x00\x00", 21, "36 bytes"),
        (PAYLOADS["D"][:15], 15, "v1.0 takes 16"),
        (PAYLOADS["D"][:24], 24, "header takes 28"),
        (b"\x14" + PAYLOADS["D"][1:], 0, "RepMdBits 0x2c need 28"),
        (b"\x17\xf6" + PAYLOADS["D"][2:], 1, "next protocol 7"),
        (b"\x17\x36" + PAYLOADS["D"][2:] + bytes(20), 28, "IPv4 header begins"),
        (PAYLOADS["E"][:11], 11, "v0.5 takes 12"),
        (PAYLOADS["E"][:20], 20, "switch-local header takes 28"),
        (b"\x01" + PAYLOADS["E"][1:20], 20, "drop header takes 24"),
        (b"\x09" + PAYLOADS["E"][1:], 0, "next protocol 9"),
        (PAYLOADS["E"] + bytes(12) + b"\x08\x00" + bytes(20), 42, "IPv4 header begins"),
    ],
)
@pytest.mark.parametrize("copies", [1, 20])
def test_what_cannot_be_read_is_named_by_its_byte(payload: bytes, byte: int, said: str, copies: int) -> None:
    reports = decoded(PAYLOADS["A"], *[payload] * copies, PAYLOADS["A"])
    assert reports.batch.index.tolist() == [0, copies + 1]
    assert [problem.index for problem in reports.problems] == list(range(1, copies + 1))
    for problem in reports.problems:
        assert problem.detail.startswith(f"datagram {problem.index} byte {byte}: received ")
        assert said in problem.detail


def test_a_bad_report_costs_only_itself() -> None:
    good = report_v2(Metadata(queue=(1, 2)), flags=2)
    bad = b"\x10\x02\x00\x00\x80" + bytes(7)
    reports = decoded(datagram_v2(9, 0, 0, [good, bad, good]))
    assert len(reports) == 2
    assert len(reports.problems) == 1


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({1: 2}, "INT-MD headers alone are 3 words"),
        ({4: 0x10}, "INT version 1"),
        ({6: 0}, "0 bytes a hop"),
        ({8: 0xFF}, "those instructions take"),
    ],
)
def test_int_headers_that_contradict_themselves_are_named(changed: dict[int, int], said: str) -> None:
    stack = bytearray(int_headers(HOPS, next_protocol=1, original=4791))
    for place, value in changed.items():
        stack[place] = value
    reports = decoded(sunk(packet(ROCE._replace(dport=5000), bytes(stack), packet_bytes=100)))
    assert len(reports) == 0
    assert said in reports.problems[0].detail


def test_a_port_that_is_not_ints_after_all_is_a_packet() -> None:
    flow = ROCE._replace(dport=5000)
    assert flow_of(alone(sunk(packet(flow, b"\xff" * 20, packet_bytes=100)))) == flow


def test_more_hops_than_a_report_holds() -> None:
    hops = [Metadata(node=number) for number in range(65)]
    reports = decoded(
        sunk(packet(ROCE._replace(dport=5000), int_headers(hops, next_protocol=1), packet_bytes=400))
    )
    assert "at most 64" in reports.problems[0].detail


def test_times_must_match_the_payloads() -> None:
    with pytest.raises(DecodeError, match="2 times for 1 payloads"):
        P4Decoder().decode([b""], np.array([1, 2]))
    with pytest.raises(DecodeError, match="0 ns or more"):
        P4Decoder().decode([b""], -1)
    assert len(P4Decoder().decode([], 0)) == 0


@pytest.mark.parametrize(
    "build",
    [
        lambda: UnitProfile("cells", 0),
        lambda: UnitProfile("bytes", 80),
        lambda: UnitProfile(utilisation_scale=0.0),
        lambda: UnitProfile(sampling_rate=1.5),
        lambda: UnitProfile(sampling_rate=1e-12),
    ],
)
def test_units_that_cannot_be(build: object) -> None:
    with pytest.raises(TelemetryError):
        build()  # type: ignore[operator]


def test_rows_are_told_apart_even_where_every_hash_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "_MIXERS", (np.uint64(0),) * 2)
    few = np.array([7, 9, 7, 8, 9], np.uint64)
    begun, kind = names.numbered([few, few])
    assert begun.tolist() == [0, 1, 3]
    assert kind.tolist() == [0, 1, 0, 2, 1]
    crowd = names.Numbering(2)
    column = np.array([*range(100), *range(100)], np.uint64)
    first = crowd.numbers([column, column])
    assert first[:100].tolist() == first[100:].tolist()
    assert sorted(first[:100].tolist()) == list(range(100))
    assert crowd.numbers([column, column]).tolist() == first.tolist()
    more = np.arange(5_000, dtype=np.uint64)  # the table grows
    assert crowd.numbers([more, more])[:100].tolist() == first[:100].tolist()
    assert len(crowd) == 5_000


def test_what_the_decoder_remembers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder_module, "_MOST_WEIGHT", 100)
    decoder = P4Decoder()
    for number in range(1, 60):
        payload = PAYLOADS["A"][:8] + bytes([0x20 + number % 16, 0, 0, 0]) * number
        assert len(decoder.decode([payload] * 10, 0).problems) == 10 * min(number, 17)
        kept = [plan for plans in decoder._plans.values() for plan in plans]
        assert decoder._weight == sum(map(decoder_module._weight, kept)) <= 100
    for kind in range(40):  # as many layouts of one length
        decoder.decode([PAYLOADS["A"][:8] + bytes([0x20 + kind % 16, 0, 0, 0])] * 10, 0)
    assert max(map(len, decoder._plans.values())) <= 16


def test_what_the_names_remember_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_MOST_PLACES", "_MOST_HOSTS"):
        monkeypatch.setattr(names, name, 5)
    remembered = names.Names(Devices())
    for begin in range(0, 100, 10):
        rows = np.arange(begin, begin + 10, dtype=np.uint64)
        flow, keys = remembered.flows([FlowColumns(4, (rows, rows)), FlowColumns(6, (rows,) * 5)])
        assert [keys[number].dst for number in flow[:10]] == [
            f"0.0.0.{row}" for row in range(begin, begin + 10)
        ]
        assert [keys[number].sport for number in flow[10:]] == [0] * 10
        at, ports = rows << np.uint64(8) | np.uint64(3), rows << np.uint64(32) | np.uint64(1)
        found = remembered.places(remembered.place_numbers(at, ports))
        assert [found.sites[site] for site in found.site] == [
            (str(row), str(row), "1", 3) for row in rows.tolist()
        ]
        assert found.untuned == tuple(rows.tolist())
        assert np.isnan(found.unit_bytes[found.number]).all()
        assert len(remembered._places) == 10
        assert all(len(hosts) < 12 for hosts in remembered._hosts.values())


def test_reports_of_both_ip_versions_name_only_their_own_hosts() -> None:
    """Names of all that is remembered would be new ones each time, and nobody could cache what they give."""
    remembered = names.Names(Devices())
    rows = np.arange(100, dtype=np.uint64)
    for _ in range(10):
        remembered.flows([FlowColumns(4, (rows, rows))])
        remembered.flows([FlowColumns(6, (rows,) * 5)])
    one = rows[7:8]
    flow, keys = remembered.flows([FlowColumns(6, (one,) * 5), FlowColumns(4, (one, one))])
    assert [keys[number].dst for number in flow.tolist()] == ["::7:0:0:0:7", "0.0.0.7"]
    assert sorted(keys.hosts) == ["0.0.0.0", "0.0.0.7", "::7:0:0:0:7"]


def test_names_are_the_same_object_while_none_is_new() -> None:
    decoder = P4Decoder(BYTES)
    payloads = [PAYLOADS["A"], PAYLOADS["G"]]
    for _ in range(10):
        decoder.decode(payloads, 0)
    first, second = (decoder.decode(some, 0).batch for some in (payloads, payloads[1:]))
    assert second.sites is first.sites
    assert second.flow_keys.hosts is first.flow_keys.hosts
    assert flow_of(decoder.decode(payloads[1:], 0)) == ROCE
    other = decoder.decode([PAYLOADS["C"]], 0).batch  # of a place not met before
    assert len(other.sites) == 1


def test_noise_does_not_make_the_decoder_forget_what_is_sent() -> None:
    random = np.random.default_rng(3)
    decoder = P4Decoder(BYTES)
    for _ in range(20):
        payloads = [PAYLOADS["A"]] * 200
        for place in random.choice(200, 40, replace=False):
            payloads[place] = random.bytes(len(PAYLOADS["A"]))
        decoder.decode(payloads, 0)
    (plans,) = decoder._plans.values()
    assert len(plans) < 5
    assert any(plan == plan_of(PAYLOADS["A"], IntMarks()) for plan in plans)


@pytest.mark.parametrize("copies", [1, 10])
def test_which_packet_of_its_flow_it_was_and_who_saw_it_first(copies: int) -> None:
    plain = UDP_FLOW._replace(src="2001:db8::1", dst="2001:db8::2")
    for flow, identity in ((TCP, 77 << 16 | 5), (UDP_FLOW, 5), (plain, -1)):
        inner = packet(flow, b"", packet_bytes=100, hop_limit=61, identification=5, tcp_sequence=77)
        kind = InnerType.IPV6 if flow is plain else InnerType.IPV4
        payload = datagram_v2(9, 0, 0, [inner_only_v2(inner, kind, flags=2)])
        reports = decoded(*[payload] * copies)
        assert reports.hop_limit.tolist() == [61] * copies
        assert reports.packet_identity.tolist() == [identity] * copies
    nameless = packet(UDP_FLOW, b"", packet_bytes=100, identification=0)
    reports = decoded(*[sunk(nameless)] * copies, *[PAYLOADS["B"]] * copies)
    assert reports.packet_identity.tolist() == [-1] * (2 * copies)
    assert reports.hop_limit.tolist() == [64] * copies + [-1] * copies
    behind = int_headers(HOPS, next_protocol=2, original=6) + packet(TCP, b"", packet_bytes=40)[20:]
    inside = packet(ROCE._replace(dport=5000), behind, packet_bytes=100)
    assert decoded(*[sunk(inside)] * copies).packet_identity.tolist() == [1 << 16 | 1] * copies


def test_payloads_that_are_each_laid_out_in_a_way_of_their_own_are_limited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Such payloads are read one by one, at a hundred times the cost; known layouts are read all the same."""
    monkeypatch.setattr(decoder_module, "_FREE_PARTS", 100)
    monkeypatch.setattr(decoder_module, "_BYTES_A_PART", 1_000_000)
    decoder = P4Decoder(BYTES)
    decoder.decode([PAYLOADS["A"]] * 20, 0)
    own = [PAYLOADS["A"][:-4] + bytes(4 * more) for more in range(2, 102)]  # a byte too many each
    reports = decoder.decode([*own, *[PAYLOADS["A"]] * 20], 0)
    assert reports.batch.index.tolist()[-20:] == list(range(100, 120))
    (problem,) = [one for one in reports.problems if "of other layouts" in one.detail]
    read = {*reports.batch.index.tolist(), *(one.index for one in reports.problems)} - {problem.index}
    assert f"it and {119 - len(read)} others" in problem.detail
    assert 20 + 5 < len(read) < 20 + 50


def test_what_is_wrong_is_told_of_a_limited_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder_module, "_FREE_PARTS", 100)
    monkeypatch.setattr(decoder_module, "_BYTES_A_PART", 1_000_000)
    bad = PAYLOADS["A"][:8] + b"\x20\x00\x00\x00"
    reports = decoded(*[bad] * 1000, *[PAYLOADS["A"]] * 20)
    assert len(reports) == 20
    assert len(reports.problems) == 1
    assert reports.problems[0].index == 0
    assert "it and 999 others" in reports.problems[0].detail


def test_a_datagram_of_many_bad_reports_is_given_up() -> None:
    reports = decoded(PAYLOADS["A"][:8] + b"\x20\x00\x00\x00" * 1000)
    assert len(reports.problems) == 17
    said = "datagram 0 byte 72: received more after 0 reports and 16 that cannot be read"
    assert any(problem.detail.startswith(said) for problem in reports.problems)


def test_new_places_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Naming a place costs as much time and memory as hundreds of bytes."""
    monkeypatch.setattr(assemble, "_FREE_PLACES", 30)
    monkeypatch.setattr(assemble, "_BYTES_A_PLACE", 1_000_000)
    told = Metadata(queue=(3, 600))
    payloads = [
        sunk(
            packet(ROCE._replace(dport=5000), int_headers(HOPS, next_protocol=1), packet_bytes=100),
            told,
            node,
        )
        for node in range(10, 60)
    ]
    decoder = P4Decoder(BYTES)
    decoder.decode(payloads[:5], 0)
    reports = decoder.decode(payloads, 0)
    assert len(reports) == 35
    assert {place[0] for place in places(reports)} == {
        "1",
        "2",
        *(str(10 + at) for at in reports.batch.index),
    }
    (problem,) = reports.problems
    assert "received 15 reports of further places after 30 new ones" in problem.detail
    again = decoder.decode(payloads[:20], 0)
    assert again.problems == ()
    assert places(again)[2::3] == [(str(node), None, None, 3) for node in range(10, 30)]
