"""The reported packet, as far as the report carries it: Ethernet, IPv4 or IPv6, TCP or UDP, INT, RoCEv2;
imports only its neighbours ``plan`` and ``stack``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from telemetry.decode.ethertypes import IPV4, IPV6, VLAN_TAGS
from telemetry.decode.p4.plan import NOWHERE, FlowLayout, HopLayout, Problem, Trace
from telemetry.decode.p4.stack import shim

ROCE_PORT = 4791
TCP, UDP = 6, 17
_HOP_BY_HOP, _ROUTING, _FRAGMENT, _DESTINATION_OPTIONS = 0, 43, 44, 60
_EXTENSIONS = frozenset({_HOP_BY_HOP, _ROUTING, _DESTINATION_OPTIONS})
_MOST_NESTED = 8


@dataclass(frozen=True, slots=True)
class IntMarks:
    """How a packet says that INT headers follow its UDP or TCP header: a UDP destination port, or a DSCP.

    ``source_only_bytes`` is, by Domain Specific ID, the size of the metadata that the source alone adds where
    there is a DS Instruction: the headers do not tell it. That of 0x5453 is in the specification's example.
    """

    ports: frozenset[int] = frozenset({5000})
    dscps: frozenset[int] = frozenset()
    source_only_bytes: dict[int, int] = field(default_factory=lambda: {0x5453: 8})


@dataclass(frozen=True, slots=True)
class Packet:
    """The flow of a reported packet, and the hops it carried, in path order."""

    flow: FlowLayout
    hops: tuple[HopLayout, ...] = ()


def ethernet(trace: Trace, at: int, end: int, marks: IntMarks) -> Packet | Problem:
    """A packet that begins with its Ethernet header."""
    kind, kinds = at + 12, frozenset({IPV4, IPV6}) | VLAN_TAGS
    for _ in range(_MOST_NESTED):
        if kind + 2 > end:
            break
        found = trace.choice(kind, 2, kinds)
        if found in VLAN_TAGS:
            kind += 4
        elif found is None:
            break
        else:
            return (ipv4 if found == IPV4 else ipv6)(trace, kind + 2, end, marks, before=kind + 2 - at)
    return Packet(FlowLayout(seen=end - at))


def ipv4(trace: Trace, at: int, end: int, marks: IntMarks, *, before: int = 0) -> Packet | Problem:
    """A packet from its IPv4 header on; ``before`` bytes of it came before."""
    if at + 20 > end:
        return Packet(FlowLayout(seen=end - at + before))
    first = trace.number(at, 1)
    header = 4 * (first & 0xF)
    if first >> 4 != 4 or header < 20:
        return Problem(
            at, f"first byte {first:#04x}", "an IPv4 header begins with 0x45 to 0x4f", "correct the device"
        )
    flow = FlowLayout(
        version=4,
        source=at + 12,
        destination=at + 16,
        protocol=at + 9,
        length=at + 2,
        length_least=20,
        length_more=before,
        seen=end - at + before,
        ecn=at,
        hop_limit=at + 8,
        identification=at + 4,
    )
    if trace.choice(at + 6, 2, frozenset({0}), 0x1FFF) is None:  # a later fragment has no ports
        return Packet(flow)
    protocol = trace.choice(at + 9, 1, frozenset({TCP, UDP}))
    coded = bool(marks.dscps) and trace.choice(at + 1, 1, _shifted(marks.dscps), 0xFC) is not None
    return _layer4(trace, at + header, end, marks, flow, protocol, coded=coded)


def ipv6(trace: Trace, at: int, end: int, marks: IntMarks, *, before: int = 0) -> Packet | Problem:
    """A packet from its IPv6 header on; ``before`` bytes of it came before."""
    if at + 40 > end:
        return Packet(FlowLayout(seen=end - at + before))
    first = trace.number(at, 1, 0xF0)
    if first != 0x60:
        return Problem(
            at, f"version {first >> 4}", "an IPv6 header begins with version 6", "correct the device"
        )
    flow = FlowLayout(
        version=6,
        source=at + 8,
        destination=at + 24,
        protocol=at + 6,
        length=at + 4,
        length_more=before + 40,
        seen=end - at + before,
        ecn=at,
        ecn_shift=4,
        hop_limit=at + 7,
    )
    coded = bool(marks.dscps) and (
        trace.choice(at, 2, frozenset(code << 6 for code in marks.dscps), 0x0FC0) is not None
    )
    kinds = _EXTENSIONS | {TCP, UDP, _FRAGMENT}
    place, header = at + 6, at + 40
    for _ in range(_MOST_NESTED):
        kind = trace.choice(place, 1, kinds)
        flow = replace(flow, protocol=place)
        if kind not in _EXTENSIONS and kind != _FRAGMENT:
            return _layer4(trace, header, end, marks, flow, kind, coded=coded)
        if header + 8 > end:
            break
        if kind == _FRAGMENT and trace.choice(header + 2, 2, frozenset({0}), 0xFFF8) is None:
            return Packet(replace(flow, protocol=header))  # a later fragment has no ports
        place = header
        header += 8 if kind == _FRAGMENT else 8 * (1 + trace.number(header + 1, 1))
    return Packet(flow)


def _shifted(dscps: frozenset[int]) -> frozenset[int]:
    return frozenset(code << 2 for code in dscps)


def _layer4(
    trace: Trace,
    at: int,
    end: int,
    marks: IntMarks,
    flow: FlowLayout,
    protocol: int | None,
    *,
    coded: bool,
) -> Packet | Problem:
    """Ports, INT headers where the packet says it has some, and RoCEv2's header."""
    if protocol is None or at + 4 > end:
        return Packet(flow)
    flow = replace(flow, source_port=at, destination_port=at + 2)
    if protocol == TCP:
        flow = _sequenced(flow, at, end)
        return _coded_tcp(trace, at, end, marks, flow) if coded else Packet(flow)
    port = trace.choice(at + 2, 2, marks.ports | {ROCE_PORT})
    body = at + 8
    if port in marks.ports or coded:
        found = shim(trace, body, end, marks.source_only_bytes)
        if isinstance(found, Problem):
            return found
        if found is not None:
            return _past_int(
                trace, end, flow, found.after, found.next_protocol, found.original, found.hops, port
            )
    return Packet(_roce(flow, body, end) if port == ROCE_PORT else flow)


def _coded_tcp(trace: Trace, at: int, end: int, marks: IntMarks, flow: FlowLayout) -> Packet | Problem:
    if at + 20 > end:
        return Packet(flow)
    begin = at + 4 * (trace.number(at + 12, 1, 0xF0) >> 4)
    found = shim(trace, begin, end, marks.source_only_bytes)
    if isinstance(found, Problem):
        return found
    return Packet(flow, () if found is None else found.hops)


def _past_int(
    trace: Trace,
    end: int,
    flow: FlowLayout,
    after: int,
    next_protocol: int,
    original: int,
    hops: tuple[HopLayout, ...],
    port: int | None,
) -> Packet:
    """The packet behind its INT headers, which keep what they took the place of."""
    if next_protocol == 2:
        flow = replace(flow, protocol=original + 1, source_port=NOWHERE, destination_port=NOWHERE)
        protocol = trace.choice(original + 1, 1, frozenset({TCP, UDP}))
        if protocol is None or after == NOWHERE or after + 4 > end:
            return Packet(flow, hops)
        flow = replace(flow, source_port=after, destination_port=after + 2)
        if protocol == TCP:
            flow = _sequenced(flow, after, end)
        elif trace.choice(after + 2, 2, frozenset({ROCE_PORT})) is not None:
            flow = _roce(flow, after + 8, end)
        return Packet(flow, hops)
    if next_protocol == 1:
        flow = replace(flow, destination_port=original)
        port = trace.choice(original, 2, frozenset({ROCE_PORT}))
    if port == ROCE_PORT and after != NOWHERE:
        flow = _roce(flow, after, end)
    return Packet(flow, hops)


def _sequenced(flow: FlowLayout, at: int, end: int) -> FlowLayout:
    return replace(flow, tcp_sequence=at + 4) if at + 8 <= end else flow


def _roce(flow: FlowLayout, at: int, end: int) -> FlowLayout:
    return replace(flow, base=at) if at + 12 <= end else flow
