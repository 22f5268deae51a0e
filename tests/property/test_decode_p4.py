"""Written reports are read back, for every layout; read at once or one by one."""

from __future__ import annotations

import socket
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from telemetry.decode.p4.assemble import P4Reports
from telemetry.decode.p4.decoder import P4Decoder
from telemetry.decode.p4.devices import Devices, UnitProfile
from telemetry.decode.p4.names import NameTable, Numbering, numbered
from telemetry.decode.p4.packet import IntMarks
from telemetry.encode.p4 import datagram_v2
from telemetry.report import MISSING_NS
from telemetry.state import FlowKey
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
from tests.oracles.p4_one_by_one import decode_one_by_one

BYTES = Devices(default=UnitProfile())
MARKS = IntMarks(frozenset({5000}), frozenset({23}))
WORDS = st.integers(0, 2**32 - 2)
HALVES = st.integers(0, 2**16 - 2)
TIMES = st.integers(0, 2**63 - 1)
QUEUES = st.tuples(st.integers(0, 254), st.integers(0, 2**24 - 2))
NOBODY = FlowKey("0.0.0.0", "0.0.0.0", 0, 0, 0)


@dataclass(frozen=True)
class Expected:
    """The expected report: its flow, and the values of each hop."""

    flow: FlowKey
    hops: list[Metadata]
    flags: int
    queue_pair: tuple[int, int] = (-1, -1)
    packet_bytes: int | None = None


def metadata(**kinds: st.SearchStrategy[Any]) -> st.SearchStrategy[Metadata]:
    """Any of these values, present or absent."""
    return st.builds(Metadata, **{name: st.none() | kind for name, kind in kinds.items()})


TOLD = metadata(
    layer1=st.tuples(HALVES, HALVES),
    latency=WORDS,
    queue=QUEUES,
    ingress_time=TIMES,
    egress_time=TIMES,
    layer2=st.tuples(WORDS, WORDS),
    utilisation=WORDS,
    buffer=QUEUES,
)
# IPv6 addresses that stand for IPv4 ones are read as these.
SIX = st.ip_addresses(v=6).filter(lambda one: one.ipv4_mapped is None)
ADDRESSES = st.one_of(st.tuples(*[st.ip_addresses(v=4).map(str)] * 2), st.tuples(*[SIX.map(str)] * 2))


def _spelled(address: str) -> str:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return socket.inet_ntop(family, socket.inet_pton(family, address))


@st.composite
def flows(draw: st.DrawFn, protocols: tuple[int, ...] = (6, 17, 1)) -> FlowKey:
    # As the C library spells them, which is not always as Python does.
    source, destination = (_spelled(end) for end in draw(ADDRESSES))
    protocol = draw(st.sampled_from(protocols))
    if protocol == 1:
        return FlowKey(source, destination, 0, 0, 1)
    ports = st.integers(0, 65_535).filter(lambda port: port not in (5000, 4791))
    return FlowKey(source, destination, draw(ports), draw(ports | st.just(4791)), protocol)


@st.composite
def stacks(draw: st.DrawFn, *, old: bool) -> list[Metadata]:
    names = draw(st.sets(st.sampled_from(["node", "layer1", "latency", "queue", "egress_time", "layer2"])))
    kinds: dict[str, st.SearchStrategy[Any]] = {
        "node": WORDS,
        "layer1": st.tuples(HALVES, HALVES),
        "latency": WORDS,
        "queue": QUEUES,
        "egress_time": WORDS if old else TIMES,
        "layer2": st.tuples(WORDS, WORDS),
    }
    hop = st.builds(Metadata, **{name: kinds[name] for name in sorted(names | {"node"})})
    return draw(st.lists(hop, min_size=1, max_size=4))


@st.composite
def packets(draw: st.DrawFn) -> tuple[bytes, InnerType, Expected]:
    """A reported packet, with or without INT headers of some kind, and the expected result."""
    kind = draw(st.sampled_from(["plain", "port", "layer4", "dscp", "old", "mx"]))
    flow = draw(flows() if kind == "plain" else flows((17,)))
    ethernet, ecn = draw(st.booleans()), draw(st.integers(0, 3))
    pair = (draw(st.integers(0, 2**24 - 1)), draw(st.integers(0, 2**24 - 1)))
    behind = base_transport(*pair) if flow.dport == 4791 and flow.protocol == 17 else bytes(12)
    hops = [] if kind in ("plain", "mx") else draw(stacks(old=kind == "old"))
    carried, dscp = flow, 0
    if kind == "port":
        # Of a domain whose source adds 8 bytes, none, or one nobody knows: less than a hop is not one.
        sources = [(b"", (0, 1)), (bytes([0xA6] * 8), (0x5453, 0x8000))]
        sources += [(bytes(4), (7, 1))] if _words(hops) > 1 else []
        below, domain = draw(st.sampled_from(sources))
        behind = (
            int_headers(hops, next_protocol=1, original=flow.dport, source_only=below, domain=domain) + behind
        )
        carried = flow._replace(dport=5000)
    elif kind == "layer4":
        whole = packet(flow, behind, packet_bytes=100)
        behind = int_headers(hops, next_protocol=2, original=17) + whole[-8 - len(behind) :]
        carried = flow._replace(sport=1, dport=5000)
    elif kind == "mx":
        behind = mx_headers(next_protocol=1, original=flow.dport) + behind
        carried = flow._replace(dport=5000)
    elif kind in ("dscp", "old"):
        behind, dscp = int_headers(hops, version=1 if kind == "old" else 2) + behind, 23
    length = draw(st.integers(1500, 9000))
    inner = packet(carried, behind, packet_bytes=length, ecn=ecn, dscp=dscp, ethernet=ethernet)
    inner_type = InnerType.ETHERNET if ethernet else InnerType.IPV6 if ":" in flow.src else InnerType.IPV4
    roce = flow.dport == 4791 and flow.protocol == 17
    return inner, inner_type, Expected(flow, hops, 0, pair if roce else (-1, -1), length)


def _words(hops: list[Metadata]) -> int:
    return len(int_headers(hops[:1])) // 4 - 4


def _merged(own: Metadata, expected: Expected, flags: int) -> Expected:
    """The hops of the packet and the sender's own, which may be its last."""
    tells = any(
        getattr(own, one.name) is not None for one in fields(own) if one.name not in ("node", "buffer")
    )
    hops = expected.hops
    if hops and hops[-1].node == own.node:
        return Expected(expected.flow, [], flags)  # left to the tests of that case
    hops = [*hops, own] if tells or not hops else hops
    return Expected(expected.flow, hops, flags, expected.queue_pair, expected.packet_bytes)


@st.composite
def individual(draw: st.DrawFn, node: int) -> tuple[bytes, Expected]:
    flags = draw(st.integers(0, 7))
    told = draw(TOLD)
    own = Metadata(**{one.name: getattr(told, one.name) for one in fields(told)} | {"node": node})
    form = draw(st.sampled_from(["none", "packet", "tlv", "only"]))
    if form == "none":
        body = report_v2(told, flags=flags, domain=(1, 2, 3, bytes(4 * draw(st.integers(0, 3)))))
        return body, Expected(NOBODY, [own], flags)
    inner, kind, expected = draw(packets())
    if form == "only":
        bare = Metadata(node=node)
        return inner_only_v2(inner, kind, flags=flags), _merged(bare, expected, flags)
    if form == "tlv":
        numbers = {InnerType.ETHERNET: 1, InnerType.IPV4: 2, InnerType.IPV6: 3}
        inner, kind = tlv(0, bytes(4)) + tlv(numbers[kind], inner), InnerType.TLV
    return report_v2(told, flags=flags, inner=inner, inner_type=kind), _merged(own, expected, flags)


@st.composite
def datagrams(draw: st.DrawFn) -> tuple[bytes, list[Expected], tuple[int, int, int, int]]:
    version = draw(st.sampled_from([0, 1, 2, 2, 2]))
    node, hardware = draw(WORDS), draw(st.integers(0, 63))
    if version == 2:
        sequence = draw(st.integers(0, 2**22 - 1))
        reports = draw(st.lists(individual(node), min_size=1, max_size=3))
        payload = datagram_v2(node, hardware, sequence, [body for body, _ in reports])
        return payload, [expected for _, expected in reports], (2, node, hardware, sequence)
    flags, sequence = draw(st.integers(0, 3)) << 1, draw(WORDS)
    inner, kind, expected = draw(packets())
    own = Metadata(node=node, layer1=(1, 2), queue=draw(QUEUES), ingress_time=7, egress_time=9)
    if version == 1:
        payload = datagram_v1(
            own, flags=flags, hardware=hardware, sequence=sequence, inner=inner, inner_type=kind
        )
    else:
        inner = inner if kind == InnerType.ETHERNET else bytes(12) + _ethertype(kind) + inner
        more = 0 if kind == InnerType.ETHERNET else 14
        assert expected.packet_bytes is not None
        expected = Expected(
            expected.flow, expected.hops, 0, expected.queue_pair, expected.packet_bytes + more
        )
        payload = datagram_v0(own, flags=flags, hardware=hardware, sequence=sequence, inner=inner)
    return payload, [_merged(own, expected, flags)], (version, node, hardware, sequence)


def _ethertype(kind: InnerType) -> bytes:
    return b"\x08\x00" if kind == InnerType.IPV4 else b"\x86\xdd"


@given(st.lists(datagrams(), min_size=1, max_size=4))
def test_what_is_written_is_what_is_read(
    sent: list[tuple[bytes, list[Expected], tuple[int, int, int, int]]],
) -> None:
    reports = P4Decoder(BYTES, MARKS).decode([payload for payload, _, _ in sent] * 9, 5)
    assert reports.problems == ()
    senders = reports.senders
    for number, (_, _, origin) in enumerate(sent):
        columns = (senders.version, senders.node, senders.hardware, senders.sequence)
        assert tuple(int(column[number]) for column in columns) == origin
    every = [(at, one) for at, (_, expected, _) in enumerate(sent * 9) for one in expected]
    assert reports.batch.index.tolist() == [at for at, _ in every]
    for row, (_, expected) in enumerate(every):
        assert reports.batch.flow_keys[reports.batch.flow[row]] == expected.flow
        assert reports.flags[row] == expected.flags
        if expected.hops:
            _check(reports, row, expected)


def _check(reports: P4Reports, row: int, expected: Expected) -> None:
    batch = reports.batch
    begin, end = batch.hop_offset[row : row + 2].tolist()
    assert end - begin == len(expected.hops)
    assert (reports.queue_pair[row], reports.packet_sequence[row]) == expected.queue_pair
    if expected.packet_bytes is not None:
        assert batch.packet_bytes[row] == expected.packet_bytes
    for hop, told in zip(range(begin, end), expected.hops, strict=True):
        ports = told.layer1 or told.layer2 or (None, None)
        names = [None if port is None else str(port) for port in ports]
        queue = told.queue or told.drop or (None, None)
        assert batch.sites[batch.hop_site[hop]] == (str(told.node), *names, queue[0])
        depth = None if told.queue is None else float(told.queue[1])
        assert batch.queue_bytes[hop] == depth if depth is not None else np.isnan(batch.queue_bytes[hop])
        if told.latency is None:
            times = told.ingress_time, told.egress_time
            shown = batch.ingress_ns[hop], batch.egress_ns[hop]
            assert tuple(MISSING_NS if time is None else time for time in times) == shown
        elif told.ingress_time is None or told.egress_time is None:
            assert batch.egress_ns[hop] - batch.ingress_ns[hop] == told.latency or (
                max(told.ingress_time or 0, told.egress_time or 0) + told.latency > 2**63 - 1
            )


COLUMNS = (
    *("index", "ts_ns", "flow", "packet_bytes", "sampling_rate", "hop_offset", "hop_site"),
    *("queue_bytes", "ingress_ns", "egress_ns", "marked"),
)


def assert_the_same(first: P4Reports, second: P4Reports) -> None:
    """Both hold the same reports; flows and places may be numbered differently."""
    for name in COLUMNS:
        if name not in ("flow", "hop_site"):
            np.testing.assert_array_equal(getattr(first.batch, name), getattr(second.batch, name), name)
    for one, other in zip(first.batch.flow, second.batch.flow, strict=True):
        assert first.batch.flow_keys[one] == second.batch.flow_keys[other]
    for one, other in zip(first.batch.hop_site, second.batch.hop_site, strict=True):
        assert first.batch.sites[one] == second.batch.sites[other]
    for name in (
        *(
            "flags",
            "drop_reason",
            "queue_pair",
            "packet_sequence",
            "hop_limit",
            "packet_identity",
            "occupancy",
            "tx_utilisation",
        ),
        *("problems", "untuned"),
    ):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name), name)
    for name in ("payload", "version", "node", "hardware", "sequence", "sequence_bits"):
        np.testing.assert_array_equal(getattr(first.senders, name), getattr(second.senders, name), name)


@given(st.lists(datagrams(), min_size=1, max_size=3), st.data())
def test_payloads_read_at_once_are_those_read_one_by_one(
    sent: list[tuple[bytes, list[Expected], tuple[int, int, int, int]]], data: st.DataObject
) -> None:
    payloads = []
    for payload, _, _ in sent:
        for _ in range(12):  # enough to be read at once, and most of them changed a little
            changed = bytearray(payload)
            for place in data.draw(st.lists(st.integers(0, len(payload) - 1), max_size=2)):
                changed[place] = data.draw(st.integers(0, 255))
            payloads.append(bytes(changed))
    for devices in (BYTES, Devices()):
        at_once = P4Decoder(devices, MARKS, device_time=True).decode(payloads, 5)
        assert_the_same(at_once, decode_one_by_one(payloads, 5, devices, MARKS, device_time=True))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2**64 - 1)), min_size=1, max_size=50))
def test_rows_are_numbered_in_order_of_first_appearance(rows: list[tuple[int, int]]) -> None:
    columns = [np.array(column, np.uint64) for column in zip(*rows, strict=True)]
    first, kind = numbered(columns)
    kinds = list(dict.fromkeys(rows))
    assert [rows[place] for place in first.tolist()] == kinds
    assert kind.tolist() == [kinds.index(row) for row in rows]


ROWS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2**64 - 1)), max_size=60)


@given(st.lists(ROWS, min_size=1, max_size=5), st.integers(0, 3))
def test_a_row_has_one_number_and_keeps_it(batches: list[list[tuple[int, int]]], many: int) -> None:
    numbering = Numbering(2)
    known: dict[tuple[int, int], int] = {}
    for batch in batches:
        rows = [*batch, *((7, 10**6 * many + number) for number in range(1000 * many))]
        columns = [np.array([row[place] for row in rows], np.uint64) for place in (0, 1)]
        numbers = numbering.numbers(columns).tolist()
        for row, number in zip(rows, numbers, strict=True):
            assert known.setdefault(row, number) == number
        assert len(numbering) == len(known) == len(set(known.values()))
        held = zip(*(column.tolist() for column in numbering.values(0)), strict=True)
        assert list(held) == sorted(known, key=known.__getitem__)


@given(st.lists(st.lists(st.integers(0, 30), max_size=40), min_size=1, max_size=30))
def test_what_is_named_is_handed_out_under_its_name(batches: list[list[int]]) -> None:
    known = NameTable(1, str, 20)
    for batch in batches:
        numbers = known.numbers([np.array(batch, np.uint64)])
        names, place = known.names(numbers)
        assert [names[at] for at in place.tolist()] == [str(value) for value in batch]
