"""Layout of a reported packet, as far as it is carried: Ethernet, IPv4 or IPv6, TCP or UDP, INT, RoCEv2.

INT v1.0 and v2.1 of the P4.org applications working group. In v1.0 the shim's first nibble is 0 and its
length includes the shim; in v2.1 that nibble is the type, and the length does not include the shim.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from telemetry.decode.capture import IPV4, IPV6, VLAN_TAGS
from telemetry.decode.p4.plan import NOWHERE, FlowLayout, HopLayout, Problem, Trace

MOST_HOPS = 64
_SHIM = 4
_MD, _DESTINATION, _MX = 1, 2, 3
_FIXED = {1: 8, 2: 12}
_OLD_TIME_WIDTH = 4
_CHECKSUM_BIT = 15


@dataclass(frozen=True, slots=True)
class Shim:
    """Parsed INT headers: the hops in path order, the offset behind them (``NOWHERE``: beyond what was
    reported), the next protocol (NPT) and the offset of the shim's last 16 bits.
    """

    hops: tuple[HopLayout, ...]
    after: int
    next_protocol: int
    original: int


def shim(trace: Trace, at: int, end: int, source_only_bytes: Mapping[int, int]) -> Shim | Problem | None:
    """The INT headers at ``at``; None where there are none, a ``Problem`` where they are inconsistent or hops
    cannot be told apart from source-only metadata (``IntMarks``).

    A stack that is truncated at ``end`` keeps its whole hops (the last of the path come first).
    """
    if at + _SHIM > end:
        return None
    first = trace.number(at, 1)
    old = first >> 4 == 0
    kind = first if old else first >> 4
    if kind not in ((_MD, _DESTINATION) if old else (_MD, _DESTINATION, _MX)):
        return None
    next_protocol = 0 if old else first >> 2 & 3
    length_at = at + 2 if old else at + 1
    words = trace.number(length_at, 1)
    after = at + 4 * words + (0 if old else _SHIM)
    hops: tuple[HopLayout, ...] = ()
    if kind == _MD:
        found = _stack(trace, at + _SHIM, after, end, 1 if old else 2, source_only_bytes)
        if isinstance(found, Problem):
            return found
        hops = found
    elif after < at + _SHIM:
        rule = "an INT shim's length includes the shim in v1.0"
        return Problem(length_at, f"a length of {words}", rule, "correct the device")
    return Shim(hops, after if after <= end else NOWHERE, next_protocol, at + 2)


def _stack(
    trace: Trace, at: int, after: int, end: int, major: int, source_only_bytes: Mapping[int, int]
) -> tuple[HopLayout, ...] | Problem:
    begin = at + _FIXED[major]
    if after < begin:
        rule = f"INT-MD headers alone are {_FIXED[major] // 4} words"
        return Problem(at - _SHIM, f"{(after - at) // 4} words of INT", rule, "correct the device")
    if begin > end:
        return ()
    version = trace.number(at, 1, 0xF0) >> 4
    if version != major:
        remedy = "correct the device; INT v1.0 and v2.x are supported"
        return Problem(at, f"INT version {version}", f"this shim goes with version {major}", remedy)
    hop_bytes = 4 * trace.number(at + 2, 1, 0x1F)
    bitmap = trace.number(at + 4, 2)
    held = after - begin
    if held == 0:
        return ()
    own, size = hop_layout(bitmap, old=major == 1)
    if hop_bytes == 0 or size > hop_bytes:
        received = f"{hop_bytes} bytes a hop for instructions {bitmap:#06x}"
        return Problem(at + 2, received, f"those instructions take {size} bytes", "correct the device")
    count: int | Problem = held // hop_bytes
    if major == 2:
        domain, instructions = trace.number(at + 6, 2), trace.number(at + 8, 2)
        if domain and instructions:  # domain 0's are reserved
            count = _hops(held, hop_bytes, size, domain, source_only_bytes.get(domain), at + 6)
    if isinstance(count, Problem):
        return count
    if count > MOST_HOPS:
        return Problem(at + 2, f"{count} hops", f"a report holds at most {MOST_HOPS}", "look for a loop")
    whole = min(count, (end - begin) // hop_bytes)
    return tuple(own.moved(begin + hop_bytes * number) for number in reversed(range(whole)))


def _hops(
    held: int, hop_bytes: int, baseline_bytes: int, domain: int, source_only: int | None, at: int
) -> int | Problem:
    """The number of hops in a stack of ``held`` bytes that may end with source-only metadata of
    ``source_only`` bytes (None: unknown), which is not part of a hop's length.
    """
    received = (
        f"a stack of {held} bytes, {hop_bytes} a hop, with source-only metadata of domain {domain:#06x}"
    )
    if source_only is None:
        # A remainder is the source's. Without one, where a hop adds only the baseline values, the domain's
        # instructions are for the source alone: an unknown number of the last "hops" is its metadata.
        if held % hop_bytes or hop_bytes > baseline_bytes:
            return held // hop_bytes
        rule = "its size is known where it may be as long as a hop"
        remedy = "set it in telemetry.int.source_only_bytes; this report was left out"
        return Problem(at, received, rule, remedy)
    for hops_bytes in (held - source_only, held):  # the source need not have added it
        if hops_bytes >= 0 and hops_bytes % hop_bytes == 0:
            return hops_bytes // hop_bytes
    rule = f"it is whole hops of {hop_bytes} bytes, and {source_only} bytes of its source"
    remedy = "correct telemetry.int.source_only_bytes, or the device; this report was left out"
    return Problem(at, received, rule, remedy)


def hop_layout(bitmap: int, *, old: bool) -> tuple[HopLayout, int]:
    """Offsets of a hop's values from its start, and its size, under these INT instructions."""
    places: dict[str, int] = {}
    at = 0
    time_width = _OLD_TIME_WIDTH if old else 8
    for bit, (name, size) in enumerate(_instructions(time_width)):
        if bitmap & 0x8000 >> bit:
            if name:
                places[name] = at
            at += size
    return HopLayout(**places, time_width=time_width), at


def _instructions(time_width: int) -> list[tuple[str, int]]:
    known = [
        ("node", 4),
        ("layer1", 4),
        ("latency", 4),
        ("queue", 4),
        ("ingress_time", time_width),
        ("egress_time", time_width),
        ("layer2", 8),
        ("utilisation", 4),
    ]
    return known + [("", 4)] * (_CHECKSUM_BIT + 1 - len(known))


ROCE_PORT = 4791
TCP, UDP = 6, 17
_HOP_BY_HOP, _ROUTING, _FRAGMENT, _DESTINATION_OPTIONS = 0, 43, 44, 60
_EXTENSIONS = frozenset({_HOP_BY_HOP, _ROUTING, _DESTINATION_OPTIONS})
_MOST_NESTED = 8


@dataclass(frozen=True, slots=True)
class IntMarks:
    """What marks a packet with INT headers behind its UDP or TCP header: a UDP destination port, or a DSCP.

    ``source_only_bytes`` is the size of source-only metadata by Domain Specific ID, which the headers do not
    give. That of 0x5453 is from the specification's example.
    """

    ports: frozenset[int] = frozenset({5000})
    dscps: frozenset[int] = frozenset()
    source_only_bytes: dict[int, int] = field(default_factory=lambda: {0x5453: 8})


@dataclass(frozen=True, slots=True)
class Packet:
    """The flow of a reported packet, and the hops in its INT stack, in path order."""

    flow: FlowLayout
    hops: tuple[HopLayout, ...] = ()


def ethernet(trace: Trace, at: int, end: int, marks: IntMarks) -> Packet | Problem:
    """A packet from its Ethernet header on."""
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
    """A packet from its IPv4 header on, behind ``before`` bytes of it."""
    if at + 20 > end:
        return Packet(FlowLayout(seen=end - at + before))
    first = trace.number(at, 1)
    header = 4 * (first & 0xF)
    if first >> 4 != 4 or header < 20:
        rule = "an IPv4 header begins with 0x45 to 0x4f"
        return Problem(at, f"first byte {first:#04x}", rule, "correct the device")
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
    dscps = frozenset(code << 2 for code in marks.dscps)
    coded = bool(dscps) and trace.choice(at + 1, 1, dscps, 0xFC) is not None
    return _layer4(trace, at + header, end, marks, flow, protocol, coded=coded)


def ipv6(trace: Trace, at: int, end: int, marks: IntMarks, *, before: int = 0) -> Packet | Problem:
    """A packet from its IPv6 header on, behind ``before`` bytes of it."""
    if at + 40 > end:
        return Packet(FlowLayout(seen=end - at + before))
    first = trace.number(at, 1, 0xF0)
    if first != 0x60:
        rule = "an IPv6 header begins with version 6"
        return Problem(at, f"version {first >> 4}", rule, "correct the device")
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
    dscps = frozenset(code << 6 for code in marks.dscps)
    coded = bool(dscps) and trace.choice(at, 2, dscps, 0x0FC0) is not None
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


def _layer4(
    trace: Trace, at: int, end: int, marks: IntMarks, flow: FlowLayout, protocol: int | None, *, coded: bool
) -> Packet | Problem:
    """Ports, INT headers where the packet is marked for them, and RoCEv2's header."""
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
            return _past_int(trace, end, flow, found, port)
    return Packet(_roce(flow, body, end) if port == ROCE_PORT else flow)


def _coded_tcp(trace: Trace, at: int, end: int, marks: IntMarks, flow: FlowLayout) -> Packet | Problem:
    if at + 20 > end:
        return Packet(flow)
    begin = at + 4 * (trace.number(at + 12, 1, 0xF0) >> 4)
    found = shim(trace, begin, end, marks.source_only_bytes)
    if isinstance(found, Problem):
        return found
    return Packet(flow, () if found is None else found.hops)


def _past_int(trace: Trace, end: int, flow: FlowLayout, headers: Shim, port: int | None) -> Packet:
    """The packet behind its INT headers, which hold the original port or protocol."""
    after, original, hops = headers.after, headers.original, headers.hops
    if headers.next_protocol == 2:
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
    if headers.next_protocol == 1:
        flow = replace(flow, destination_port=original)
        port = trace.choice(original, 2, frozenset({ROCE_PORT}))
    if port == ROCE_PORT and after != NOWHERE:
        flow = _roce(flow, after, end)
    return Packet(flow, hops)


def _sequenced(flow: FlowLayout, at: int, end: int) -> FlowLayout:
    return replace(flow, tcp_sequence=at + 4) if at + 8 <= end else flow


def _roce(flow: FlowLayout, at: int, end: int) -> FlowLayout:
    return replace(flow, base=at) if at + 12 <= end else flow
