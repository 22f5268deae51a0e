"""The layouts of telemetry reports v0.5, v1.0 and v2.0, distinguished by the first nibble."""

from __future__ import annotations

from dataclasses import replace

from telemetry.decode.p4.packet import MOST_HOPS, IntMarks, Packet, ethernet, ipv4, ipv6
from telemetry.decode.p4.plan import (
    NOWHERE,
    FlowLayout,
    HopLayout,
    OriginLayout,
    Plan,
    Problem,
    ReportLayout,
    Trace,
    joined,
)

MOST_PAYLOAD_BYTES = 65_535
MOST_REPORTS = 512
MOST_PROBLEMS = 16
_TO_THE_END = 0xFF
_INNER_ONLY, _INT = 0, 1
_IN_NONE, _IN_TLV, _IN_DOMAIN, _IN_ETHERNET, _IN_IPV4, _IN_IPV6 = range(6)
_PACKETS = {_IN_ETHERNET: ethernet, _IN_IPV4: ipv4, _IN_IPV6: ipv6}
_TLV_PACKETS = {1: ethernet, 2: ipv4, 3: ipv6}
_UNREADABLE_AT_THE_FRONT = 0x8000
_RESERVED = 0x007E
_DROP_BIT = 0x0001
_BASELINE = (
    ("layer1", 4),
    ("latency", 4),
    ("queue", 4),
    ("ingress_time", 8),
    ("egress_time", 8),
    ("layer2", 8),
    ("utilisation", 4),
    ("", 4),
)
_V1_BASELINE = (
    ("layer1", 4),
    ("latency", 4),
    ("queue", 4),
    ("egress_time", 4),
    ("drop", 4),
    ("utilisation", 4),
)
_CORRECT = "correct the device; this report was left out"
_TRUNCATED = "find out what truncates datagrams"


def plan_of(payload: bytes, marks: IntMarks) -> Plan:
    """How to read this payload and all of the same layout; never fails, but a plan may be problems only."""
    trace = Trace(payload)
    if not payload or len(payload) > MOST_PAYLOAD_BYTES:
        received = f"{len(payload)} bytes"
        wrong = Problem(0, received, f"a UDP payload has 1 to {MOST_PAYLOAD_BYTES}", "check the capture")
        return _planned(trace, None, [], [wrong])
    version = trace.number(0, 1, 0xF0) >> 4
    reader = {0: _version_0, 1: _version_1, 2: _version_2}.get(version)
    if reader is None:
        rule, remedy = "telemetry reports are v0.5, v1.0 or v2.0", "check which devices send to this port"
        wrong = Problem(0, f"version {version}", rule, remedy)
        return _planned(trace, None, [], [wrong])
    return reader(trace, marks)


def _planned(
    trace: Trace, origin: OriginLayout | None, reports: list[ReportLayout], problems: list[Problem]
) -> Plan:
    guards = joined(trace.guards, trace.length)
    return Plan(trace.length, guards, tuple(trace.likenesses), origin, tuple(reports), tuple(problems))


def _too_short(trace: Trace, need: int, what: str) -> Plan:
    received = f"the end after {trace.length} bytes"
    wrong = Problem(trace.length, received, f"{what} takes {need}", _TRUNCATED)
    return _planned(trace, None, [], [wrong])


def _version_2(trace: Trace, marks: IntMarks) -> Plan:
    end = trace.length
    if end < 8:
        return _too_short(trace, 8, "the group header of v2.0")
    origin = OriginLayout(2, node=4, hardware=0, hardware_shift=22, sequence=0, sequence_bits=22)
    reports: list[ReportLayout] = []
    problems: list[Problem] = []
    at = 8
    if at == end:
        problems.append(Problem(at, "the end", "a group header is followed by reports", _TRUNCATED))
    while at < end:
        if len(reports) == MOST_REPORTS or len(problems) == MOST_PROBLEMS:
            received = f"more after {len(reports)} reports and {len(problems)} that cannot be read"
            rule = f"a datagram has at most {MOST_REPORTS} and {MOST_PROBLEMS}"
            remedy = "have the device send more datagrams; the rest of this one was not read"
            problems.append(Problem(at, received, rule, remedy))
            break
        if at + 4 > end:
            problems.append(Problem(at, f"{end - at} bytes", "a report begins with 4", _TRUNCATED))
            break
        words = trace.number(at + 1, 1)
        stop = end if words == _TO_THE_END else at + 4 + 4 * words
        if stop > end:
            received = f"a report of {4 * words} bytes, {end - at - 4} before the end"
            remedy = f"{_TRUNCATED}; this report was left out"
            problems.append(Problem(at + 1, received, "a report ends inside its datagram", remedy))
            break
        found = _individual(trace, at, stop, marks)
        if isinstance(found, Problem):
            problems.append(found)
        else:
            reports.append(found)
        at = stop
    return _planned(trace, origin, reports, problems)


def _individual(trace: Trace, at: int, stop: int, marks: IntMarks) -> ReportLayout | Problem:
    kind, inner = divmod(trace.number(at, 1), 16)
    if kind not in (_INNER_ONLY, _INT):
        name = "IOAM" if kind == 2 else f"type {kind}"
        rule = "INT and Inner Only reports are read"
        return Problem(at, f"a report of {name}", rule, "have the device send INT")
    own, body = HopLayout(node=4), at + 4
    if kind == _INT:
        found = _metadata(trace, at, stop)
        if isinstance(found, Problem):
            return found
        own, body = found
    packet = _inner(trace, inner, body, stop, marks)
    if isinstance(packet, Problem):
        return packet
    return _report(trace, packet, own, flags=at, shift=4, missing=0)


def _metadata(trace: Trace, at: int, stop: int) -> tuple[HopLayout, int] | Problem:
    """The reporting node's own values, and where the inner contents begin."""
    held = stop - at - 12
    if held < 0:
        return Problem(at + 1, f"{stop - at} bytes", "an INT report begins with 12", _CORRECT)
    size = 4 * trace.number(at + 2, 1)
    if size > held:
        return Problem(at + 2, f"{size} bytes of metadata", f"{held} are left of its report", _CORRECT)
    bits = trace.number(at + 4, 2)
    if bits & _UNREADABLE_AT_THE_FRONT:
        return Problem(at + 4, f"RepMdBits {bits:#06x}", "its first bit is reserved and 0", _CORRECT)
    places, taken = _own(bits, _BASELINE, 0x4000)
    dropped = bool(bits & _DROP_BIT) and not bits & _RESERVED
    if taken + 4 * dropped > size:
        rule = f"{size} bytes of metadata cannot hold its values"
        return Problem(at + 4, f"RepMdBits {bits:#06x}", rule, _CORRECT)
    begin = at + 12
    if dropped:
        places |= {"queue_id": taken, "drop_reason": taken + 1}
    own = HopLayout(node=4, **{name: begin + place for name, place in places.items()})
    return own, begin + size


def _own(bits: int, table: tuple[tuple[str, int], ...], first: int) -> tuple[dict[str, int], int]:
    """Offsets of the values announced by ``bits``, whose first is ``first``, and their size."""
    places: dict[str, int] = {}
    at = 0
    for number, (name, size) in enumerate(table):
        if bits & first >> number:
            if name == "drop":
                places |= {"queue_id": at, "drop_reason": at + 1}
            elif name:
                places[name] = at
            at += size
    return places, at


def _inner(trace: Trace, kind: int, at: int, stop: int, marks: IntMarks) -> Packet | Problem:
    if kind in _PACKETS:
        return _PACKETS[kind](trace, at, stop, marks)
    if kind == _IN_TLV:
        return _tagged(trace, at, stop, marks)
    if kind in (_IN_NONE, _IN_DOMAIN):
        return Packet(FlowLayout())
    return Problem(at, f"inner contents of type {kind}", "InType is 0 to 5", _CORRECT)


def _tagged(trace: Trace, at: int, stop: int, marks: IntMarks) -> Packet | Problem:
    """The first packet among type-length-value contents."""
    while at + 4 <= stop:
        kind = trace.number(at, 1, 0xF0) >> 4
        words = trace.number(at + 1, 1)
        after = stop if words == _TO_THE_END else at + 4 + 4 * words
        if after > stop:
            rule = f"{stop - at - 4} are left of the report"
            return Problem(at + 1, f"contents of {4 * words} bytes", rule, _CORRECT)
        if kind in _TLV_PACKETS:
            return _TLV_PACKETS[kind](trace, at + 4, after, marks)
        at = after
    return Packet(FlowLayout())


def _report(
    trace: Trace, packet: Packet, own: HopLayout, *, flags: int, shift: int, missing: int
) -> ReportLayout | Problem:
    """A report; the sink's values may be in its header, on top of the stack, or in both."""
    hops = packet.hops
    if not hops:
        hops = (own,)
    elif own.node != NOWHERE and hops[-1].node != NOWHERE and trace.alike(own.node, hops[-1].node):
        hops = (*hops[:-1], hops[-1].completed(own))
    elif own.has_values:
        hops = (*hops, own)
    if len(hops) > MOST_HOPS:
        return Problem(flags, f"{len(hops)} hops", f"a report holds at most {MOST_HOPS}", _CORRECT)
    return ReportLayout(flags, shift, missing, packet.flow, hops)


def _version_1(trace: Trace, marks: IntMarks) -> Plan:
    if trace.length < 16:
        return _too_short(trace, 16, "the header of v1.0")
    origin = OriginLayout(1, node=4, hardware=0, hardware_shift=0, sequence=8, sequence_bits=32)
    first = trace.number(0, 4, 0xFFFF8000)
    size, kind, bits = 4 * (first >> 24 & 0xF), first >> 21 & 7, first >> 15 & 0x3F
    if size > trace.length:
        return _too_short(trace, size, "this header")
    places, taken = _own(bits, _V1_BASELINE, 0x20)
    if size < 16 + taken:
        wrong = Problem(0, f"a header of {size} bytes", f"RepMdBits {bits:#04x} need {16 + taken}", _CORRECT)
        return _planned(trace, origin, [], [wrong])
    read = {0: ethernet, 1: ipv4, 2: ipv6}.get(kind)
    if read is None:
        wrong = Problem(1, f"next protocol {kind}", "0 to 2 are Ethernet, IPv4, IPv6", _CORRECT)
        return _planned(trace, origin, [], [wrong])
    own = HopLayout(
        node=4, ingress_time=12, time_width=4, **{name: 16 + place for name, place in places.items()}
    )
    return _single(trace, origin, read(trace, size, trace.length, marks), own, shift=5)


def _single(
    trace: Trace, origin: OriginLayout, packet: Packet | Problem, own: HopLayout, *, shift: int
) -> Plan:
    """A plan of one report, as v0.5 and v1.0 have it."""
    if not isinstance(packet, Problem):
        found = _report(trace, packet, own, flags=0, shift=shift, missing=1)
        if not isinstance(found, Problem):
            return _planned(trace, origin, [found], [])
        packet = found
    return _planned(trace, origin, [], [packet])


def _version_0(trace: Trace, marks: IntMarks) -> Plan:
    if trace.length < 12:
        return _too_short(trace, 12, "the fixed header of v0.5")
    kind = trace.number(0, 1) & 0xF
    origin = OriginLayout(0, node=NOWHERE, hardware=0, hardware_shift=0, sequence=4, sequence_bits=32)
    own, size = HopLayout(ingress_time=8, time_width=4), 12
    if kind in (1, 2):
        size = 24 if kind == 1 else 28
        if trace.length < size:
            return _too_short(trace, size, "the drop header" if kind == 1 else "the switch-local header")
        origin = replace(origin, node=12)
        own = replace(own, node=12, layer1=16)
        own = (
            replace(own, queue_id=20, drop_reason=21) if kind == 1 else replace(own, queue=20, egress_time=24)
        )
    elif kind != 0:
        wrong = Problem(0, f"next protocol {kind}", "v0.5 has 0 to 2", _CORRECT)
        return _planned(trace, origin, [], [wrong])
    return _single(trace, origin, ethernet(trace, size, trace.length, marks), own, shift=20)
