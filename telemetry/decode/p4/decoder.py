"""UDP payloads of P4.org telemetry reports (v0.5, v1.0, v2.0) to columns.

Payloads are grouped by length; within a group those that fit a known layout are read at once. Others are
analysed one by one, which takes some hundred times as long, and is therefore limited by the bytes received:
time and memory are linear in them, whatever they contain.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from telemetry.decode.p4.assemble import NO_VALUE, NodesOf, P4Reports, Senders, assembled, most_places
from telemetry.decode.p4.columns import Part, Payloads, fitting, part_of, read_all
from telemetry.decode.p4.devices import Devices
from telemetry.decode.p4.names import Names
from telemetry.decode.p4.packet import IntMarks
from telemetry.decode.p4.plan import NOWHERE, Plan, RawReport, read
from telemetry.decode.p4.reports import plan_of
from telemetry.errors import DecodeError, ReportError
from telemetry.report import ReportProblem

_PLANS_A_LENGTH = 16
_MOST_WEIGHT = 200_000  # some 50 MB
_NEW_PLANS_A_BLOCK = 16
_FEWEST_AT_ONCE = 8
# Limit of a call, in parts of plans (10 to 30 us each): a fixed number and one per so many bytes. Datagrams
# of many reports in varying order, as the lab sends, have one per 12 bytes.
_FREE_PARTS, _BYTES_A_PART = 20_000, 10
_BLOCK_BYTES = 8 << 20


class P4Decoder:
    """Decodes telemetry reports, and caches layouts and names (a bounded number). Not thread-safe.

    ``device_time``: the devices' clocks are synchronised (PTP), so a report's time is its last hop's
    timestamp, where that has 64 bits.
    """

    def __init__(
        self, devices: Devices | None = None, marks: IntMarks | None = None, *, device_time: bool = False
    ) -> None:
        self._names = Names(devices or Devices())
        self._marks = marks or IntMarks()
        self._device_time = device_time
        self._plans: OrderedDict[int, list[Plan]] = OrderedDict()
        self._weight = 0

    def decode(
        self, payloads: Sequence[bytes], received_ns: int | NDArray[np.int64], nodes: NodesOf | None = None
    ) -> P4Reports:
        """The reports of ``payloads``, received at ``received_ns`` (one time for all, or one per payload).

        ``nodes`` gives the senders of v0.5 payloads, which may lack them. Unreadable reports are listed in
        ``problems`` by the payload's position and the byte's offset; the rest is kept. Where too many
        payloads have layouts of their own, or name too many new places, further ones are left out. Raises
        ``DecodeError`` for negative times, or a number of them that differs from that of payloads.
        """
        at_ns = np.asarray(received_ns, np.int64)
        if at_ns.ndim and len(at_ns) != len(payloads):
            received = f"{len(at_ns)} times for {len(payloads)} payloads"
            rule = "one time for all, or one each"
            raise DecodeError("received_ns", received, rule, "give as many as there are payloads")
        if at_ns.size and int(at_ns.min()) < 0:
            received, rule = str(int(at_ns.min())), "a time is 0 ns or more"
            raise DecodeError("received_ns", received, rule, "give the time since 1970")
        n_bytes = sum(map(len, payloads))
        found = Found(room=_FREE_PARTS + n_bytes // _BYTES_A_PART)
        for position, block in _blocks(payloads):
            self._take(block, position, found)
        found.end()
        return assembled(
            found.all_parts(),
            found.senders(),
            sorted(found.problems),
            most_places=most_places(n_bytes),
            received_ns=np.broadcast_to(at_ns, len(payloads)),
            names=self._names,
            device_time=self._device_time,
            nodes=nodes,
        )

    def _take(self, block: Payloads, position: NDArray[np.int64], found: Found) -> None:
        for plan in list(self._known(block.length)):
            if block.count < _FEWEST_AT_ONCE:
                break
            block, position = _consume(plan, block, position, found)
        for _ in range(_NEW_PLANS_A_BLOCK):
            if block.count < _FEWEST_AT_ONCE or found.room <= 0:
                break
            before, begin = block.count, block.count // 2 * block.length
            plan = plan_of(block.buffer[begin : begin + block.length], self._marks)
            found.room -= _weight(plan)
            block, position = _consume(plan, block, position, found)
            if before - block.count >= _FEWEST_AT_ONCE:  # a stray payload must not evict a common layout
                self._keep(plan)
        data = memoryview(block.buffer)
        for row, payload_position in enumerate(position.tolist()):
            if found.room <= 0:
                found.left_out += position[row:].tolist()
                break
            payload = bytes(data[row * block.length : (row + 1) * block.length])
            plan = plan_of(payload, self._marks)
            found.room -= _weight(plan)
            found.take_one(plan, payload, payload_position)

    def _known(self, length: int) -> list[Plan]:
        if length in self._plans:
            self._plans.move_to_end(length)
        return self._plans.get(length, [])

    def _keep(self, plan: Plan) -> None:
        """Caches a layout, evicting the least recently used lengths."""
        plans = self._plans.setdefault(plan.length, [])
        plans.insert(0, plan)
        self._weight += _weight(plan) - sum(map(_weight, plans[_PLANS_A_LENGTH:]))
        del plans[_PLANS_A_LENGTH:]
        while self._weight > _MOST_WEIGHT:
            _, forgotten = self._plans.popitem(last=False)
            self._weight -= sum(map(_weight, forgotten))


def _weight(plan: Plan) -> int:
    """The number of parts of a plan."""
    hops = sum([len(report.hops) for report in plan.reports])
    return 1 + len(plan.guards) + len(plan.reports) + hops + len(plan.problems)


def _blocks(payloads: Sequence[bytes]) -> list[tuple[NDArray[np.int64], Payloads]]:
    """Payloads by length, in blocks of ``_BLOCK_BYTES`` at most."""
    found = sorted(set(map(len, payloads)))
    if len(found) == 1:
        return _cut(np.arange(len(payloads)), payloads, found[0])
    sizes = np.fromiter(map(len, payloads), np.int64, len(payloads))
    order = np.argsort(sizes, kind="stable")
    ends = np.searchsorted(sizes[order], found, side="right").tolist()
    blocks, begin = [], 0
    for length, end in zip(found, ends, strict=True):
        rows = order[begin:end]
        blocks += _cut(rows, list(map(payloads.__getitem__, rows.tolist())), length)
        begin = end
    return blocks


def _cut(
    rows: NDArray[np.int64], payloads: Sequence[bytes], length: int
) -> list[tuple[NDArray[np.int64], Payloads]]:
    step = max(_BLOCK_BYTES // max(length, 1), 1)
    return [
        (
            rows[at : at + step],
            Payloads(b"".join(payloads[at : at + step]), len(rows[at : at + step]), length),
        )
        for at in range(0, len(rows), step)
    ]


def _consume(
    plan: Plan, block: Payloads, position: NDArray[np.int64], found: Found
) -> tuple[Payloads, NDArray[np.int64]]:
    """Reads the payloads that fit ``plan``; returns the others."""
    fits = fitting(plan, block)
    if fits.all():
        found.take_many(plan, block, position)
        return Payloads(b"", 0, block.length), position[:0]
    rows = np.flatnonzero(fits)
    if len(rows):
        found.take_many(plan, block.take(rows), position[rows])
        others = np.flatnonzero(~fits)
        return block.take(others), position[others]
    return block, position


@dataclass(slots=True)
class Found:
    """Results so far; ``room`` is how many parts of plans may still be read, ``left_out`` the payloads
    skipped for lack of it.
    """

    room: int
    left_out: list[int] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    alone: dict[tuple[int, int], list[tuple[int, int, RawReport]]] = field(default_factory=dict)
    problems: list[ReportProblem] = field(default_factory=list)
    origins: list[NDArray[np.int64]] = field(default_factory=list)

    def end(self) -> None:
        """Adds a problem for the payloads that were left out, if any."""
        if self.left_out:
            first = min(self.left_out)
            received = (
                f"it and {len(self.left_out) - 1} others, after many that are broken or of other layouts"
            )
            rule = "devices send whole reports in a few layouts"
            remedy = "check which devices send to this port; these were left out"
            error = ReportError(f"datagram {first} byte 0", received, rule, remedy)
            self.problems.append(ReportProblem(first, str(error)))

    def take_many(self, plan: Plan, payloads: Payloads, position: NDArray[np.int64]) -> None:
        """Reads payloads that fit a plan, unless their problems exceed ``room``."""
        if len(position) * len(plan.problems) > self.room:
            self.left_out += position.tolist()
            return
        self.room -= len(position) * len(plan.problems)
        self.parts += read_all(plan, payloads, position)
        self._origin(plan, payloads, position)
        if plan.problems:
            for at in position.tolist():
                self._name(plan, at)

    def _origin(self, plan: Plan, payloads: Payloads, position: NDArray[np.int64]) -> None:
        layout = plan.origin
        if layout is None:
            return
        node = NO_VALUE if layout.node == NOWHERE else payloads.number(layout.node, 4).astype(np.int64)
        hardware = payloads.number(layout.hardware, 4).astype(np.int64) >> layout.hardware_shift & 0x3F
        sequence = payloads.number(layout.sequence, 4) & (1 << layout.sequence_bits) - 1
        columns = (position, layout.version, node, hardware, sequence, layout.sequence_bits)
        self.origins.append(np.stack(np.broadcast_arrays(*columns)).astype(np.int64))

    def take_one(self, plan: Plan, payload: bytes, position: int) -> None:
        """Reads a single payload by its own plan."""
        for place, report in enumerate(read(plan, payload)):
            kind = (len(report.hops), report.flow.version)
            self.alone.setdefault(kind, []).append((position, place, report))
        self._origin(plan, Payloads(payload, 1, len(payload)), np.array([position]))
        self._name(plan, position)

    def _name(self, plan: Plan, position: int) -> None:
        for wrong in plan.problems:
            where = f"datagram {position} byte {wrong.offset}"
            error = ReportError(where, wrong.received, wrong.rule, wrong.remedy)
            self.problems.append(ReportProblem(position, str(error)))

    def all_parts(self) -> list[Part]:
        """Every part, in no order; the rows of each are sorted."""
        alone = [part_of(sorted(reports, key=itemgetter(0, 1))) for reports in self.alone.values()]
        return [*self.parts, *alone]

    def senders(self) -> Senders:
        """The senders, in the order of payloads."""
        columns = np.concatenate([np.empty((6, 0), np.int64), *self.origins], axis=1)
        payload, version, node, hardware, sequence, bits = columns[:, np.argsort(columns[0], kind="stable")]
        return Senders(
            payload,
            version.astype(np.int8),
            node,
            hardware.astype(np.int16),
            sequence,
            bits.astype(np.int8),
        )
