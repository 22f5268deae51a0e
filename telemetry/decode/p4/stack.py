"""INT headers inside a packet, after its UDP or TCP header: shim, instructions, the stack of hops; imports
only its neighbour ``plan``.

INT v1.0 and v2.1 of the P4.org applications working group. In v1.0 the shim's first nibble is 0 and its
length counts the shim; in v2.1 that nibble is the type, and the shim is not counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from telemetry.decode.p4.plan import NOWHERE, HopLayout, Problem, Trace

MOST_HOPS = 64
_SHIM = 4
_MD, _DESTINATION, _MX = 1, 2, 3
_FIXED = {1: 8, 2: 12}
_OLD_TIME_WIDTH = 4
_CHECKSUM_BIT = 15


@dataclass(frozen=True, slots=True)
class Shim:
    """What INT headers left behind: the hops in path order, where the original packet goes on (``NOWHERE``:
    beyond what was reported), its next protocol (NPT) and the offset of the shim's last 16 bits.
    """

    hops: tuple[HopLayout, ...]
    after: int
    next_protocol: int
    original: int


def shim(trace: Trace, at: int, end: int, source_only_bytes: Mapping[int, int]) -> Shim | Problem | None:
    """The INT headers at ``at``; None where they are no INT headers, a ``Problem`` where they contradict
    themselves, or where hops cannot be told from what the source alone added (``IntMarks``).

    A stack that is cut off at ``end`` keeps its whole hops (the last of the path come first).
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
        return Problem(
            length_at, f"a length of {words}", "an INT shim counts itself in v1.0", "correct the device"
        )
    return Shim(hops, after if after <= end else NOWHERE, next_protocol, at + 2)


def _stack(
    trace: Trace, at: int, after: int, end: int, major: int, source_only_bytes: Mapping[int, int]
) -> tuple[HopLayout, ...] | Problem:
    begin = at + _FIXED[major]
    if after < begin:
        return Problem(
            at - _SHIM,
            f"{(after - at) // 4} words of INT",
            f"INT-MD headers alone are {_FIXED[major] // 4} words",
            "correct the device",
        )
    if begin > end:
        return ()
    version = trace.number(at, 1, 0xF0) >> 4
    if version != major:
        return Problem(
            at,
            f"INT version {version}",
            f"this shim goes with version {major}",
            "correct the device; INT v1.0 and v2.x are understood",
        )
    hop_bytes = 4 * trace.number(at + 2, 1, 0x1F)
    bitmap = trace.number(at + 4, 2)
    held = after - begin
    if held == 0:
        return ()
    own, size = hop_layout(bitmap, old=major == 1)
    if hop_bytes == 0 or size > hop_bytes:
        return Problem(
            at + 2,
            f"{hop_bytes} bytes a hop for instructions {bitmap:#06x}",
            f"those instructions take {size} bytes",
            "correct the device",
        )
    count: int | Problem = held // hop_bytes
    if major == 2:
        domain, instructions = trace.number(at + 6, 2), trace.number(at + 8, 2)
        if domain and instructions:  # those of domain 0 are reserved
            count = _hops(held, hop_bytes, size, domain, source_only_bytes.get(domain), at + 6)
    if isinstance(count, Problem):
        return count
    if count > MOST_HOPS:
        return Problem(at + 2, f"{count} hops", f"a report holds at most {MOST_HOPS}", "look for a loop")
    whole = min(count, (end - begin) // hop_bytes)
    return tuple(moved(own, begin + hop_bytes * number) for number in reversed(range(whole)))


def _hops(
    held: int, hop_bytes: int, baseline_bytes: int, domain: int, source_only: int | None, at: int
) -> int | Problem:
    """How many hops a stack of ``held`` bytes has, at the bottom of which the source may have left metadata
    of its own, of ``source_only`` bytes (None: not told), which the length of a hop does not count.
    """
    what = f"a stack of {held} bytes, {hop_bytes} a hop, with source-only metadata of domain {domain:#06x}"
    if source_only is None:
        # A remainder is the source's. Where there is none, and all that a hop adds is in the baseline, the
        # instructions ask the source alone: the last "hops" are its metadata, and nobody knows how many.
        if held % hop_bytes or hop_bytes > baseline_bytes:
            return held // hop_bytes
        return Problem(
            at,
            what,
            "its size is known where it may be as long as a hop",
            "tell it as telemetry.int.source_only_bytes; this report was left out",
        )
    for hops_bytes in (held - source_only, held):  # the source need not have added it
        if hops_bytes >= 0 and hops_bytes % hop_bytes == 0:
            return hops_bytes // hop_bytes
    return Problem(
        at,
        what,
        f"it is whole hops of {hop_bytes} bytes, and {source_only} bytes of its source",
        "correct telemetry.int.source_only_bytes, or the device; this report was left out",
    )


def hop_layout(bitmap: int, *, old: bool) -> tuple[HopLayout, int]:
    """Where a hop's values lie from its start, and the bytes they take, under these INT instructions."""
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


def moved(hop: HopLayout, by: int) -> HopLayout:
    """A hop's layout ``by`` bytes further on."""
    return HopLayout(
        **{name: at + by for name in PLACES if (at := getattr(hop, name)) != NOWHERE},
        time_width=hop.time_width,
    )


PLACES = (
    *("node", "layer1", "layer2", "latency", "queue", "queue_id"),
    *("ingress_time", "egress_time", "utilisation", "drop_reason"),
)
