"""Moments of one fabric's traffic, one after the other, as one scenario.

What a watermark costs elephants piles up for longer than a moment lasts. Run as if they had followed each
other, moments show it.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from twin.arrivals.chains import Pair
from twin.arrivals.from_telemetry import RUNNING_FROM_S
from twin.scenario import Flows, Scenario, Waits


def in_a_row(moments: Sequence[Scenario]) -> Scenario:
    """The first moment, then what begins in each of the others; all on the same ports. One may come again.

    What already ran when another began is left out: messages of the moment before run on, and stand for it.
    So are flows without an end, unless their hosts have one in every moment. Chains and the steps of
    collectives go on with those of the same hosts in the next moment.
    """
    lasting = set.intersection(*(_endless(one.flows) for one in moments))
    parts: list[Flows] = []
    begins_s = 0.0
    for place, moment in enumerate(moments):
        flows = moment.flows.only(_kept(moment, place == 0, place == len(moments) - 1, lasting))
        parts.append(replace(flows, start_s=flows.start_s + begins_s))
        begins_s += moment.duration_s
    offset = np.cumsum([0, *(len(part.path_ports) for part in parts)])
    flows = Flows(
        src=tuple(name for part in parts for name in part.src),
        dst=tuple(name for part in parts for name in part.dst),
        payload_bytes=np.concatenate([part.payload_bytes for part in parts]),
        start_s=np.concatenate([part.start_s for part in parts]),
        start_rate_bytes_per_s=np.concatenate([part.start_rate_bytes_per_s for part in parts]),
        path_offset=np.concatenate(
            [[0], *(part.path_offset[1:] + at for part, at in zip(parts, offset, strict=False))]
        ).astype(np.int32),
        path_ports=np.concatenate([part.path_ports for part in parts]),
        waits=_linked(parts),
        rest=np.concatenate(
            [np.zeros(len(part), np.bool_) if part.rest is None else part.rest for part in parts]
        ),
    )
    return replace(
        moments[0],
        flows=flows,
        duration_s=begins_s,
        window_s=(moments[0].window_s[0], begins_s),
        repeated=begins_s / sum(one.duration_s for one in {id(one): one for one in moments}.values()),
    )


def begun_bytes(moment: Scenario) -> float:
    """Bytes on the wire of the messages that begin in a moment."""
    begins = _begins(moment) & (moment.flows.start_s < moment.duration_s)
    return float(moment.flow_wire_bytes[begins & np.isfinite(moment.flow_wire_bytes)].sum())


def _begins(moment: Scenario) -> NDArray[np.bool_]:
    return np.asarray(moment.flows.start_s > RUNNING_FROM_S)


def _endless(flows: Flows) -> set[tuple[str, str]]:
    return {(flows.src[flow], flows.dst[flow]) for flow in np.flatnonzero(np.isinf(flows.payload_bytes))}


def _kept(
    moment: Scenario, is_first: bool, is_last: bool, lasting: set[tuple[str, str]]
) -> NDArray[np.bool_]:
    """Which flows of a moment are part of the row: of chains, only the last moment's go on beyond it."""
    flows = moment.flows
    lasts = np.array([pair in lasting for pair in zip(flows.src, flows.dst, strict=True)], dtype=np.bool_)
    ends = np.isfinite(flows.payload_bytes)
    kept = np.where(ends, is_first | _begins(moment), is_first & lasts)
    return np.asarray(kept & (is_last | (flows.start_s < moment.duration_s)))


class _Ends:
    """Rows of the parts before that nothing waits for: of each pair of hosts those that its sender, and those
    that its receiver, would have waited for next.
    """

    def __init__(self) -> None:
        self.sent: defaultdict[Pair, deque[int]] = defaultdict(deque)
        self.received: defaultdict[Pair, deque[int]] = defaultdict(deque)

    def taken(self, host: str, pairs: Iterable[Pair]) -> list[int]:
        """What ``host`` waits for of these pairs, each row once."""
        of = ((self.sent if pair[0] == host else self.received)[pair] for pair in pairs)
        return [rows.popleft() for rows in of if rows]

    def sent_by(self, host: str) -> list[int]:
        return self.taken(host, [pair for pair in self.sent if pair[0] == host])


def _linked(parts: Sequence[Flows]) -> Waits | None:
    """The waits of all parts.

    The first message of a chain, and the first step of a host, wait for the last of the same hosts in the
    parts before: in place of each row that the next one waits for.
    """
    barrier, gap_s, awaited = [], [], list[list[int]]()
    ends = _Ends()
    first_row = 0
    for part in parts:
        if part.waits is None:
            barrier.append(np.full(len(part), -1))
            gap_s.append(np.zeros(len(part)))
        else:
            barrier.append(_goes_on(part, part.waits, ends, awaited, first_row))
            gap_s.append(part.waits.gap_s)
        first_row += len(part)
    if not awaited:
        return None
    return Waits(
        barrier=np.concatenate(barrier),
        gap_s=np.concatenate(gap_s),
        offset=np.cumsum([0, *map(len, awaited)]),
        row=np.concatenate(awaited).astype(np.int64),
    )


def _goes_on(
    part: Flows, waits: Waits, ends: _Ends, awaited: list[list[int]], first_row: int
) -> NDArray[np.int64]:
    """The barriers that flows of a part wait at, among those of all parts.

    Adds to ``awaited`` the rows, from ``first_row`` on, that each barrier of the part waits for. Takes from
    ``ends``, of the parts before, what goes on in it, and adds what the next may wait for, the newest first.
    """
    own = np.where(waits.waiting, waits.barrier + len(awaited), -1)
    next_barrier = len(awaited) + len(waits.offset) - 1
    pairs = list(zip(part.src, part.dst, strict=True))
    rows_of = [rows.tolist() for rows in np.split(waits.row, waits.offset[1:-1])]
    at_sender, at_receiver = set[int](), set[int]()
    begun: list[list[int]] = []
    for first, rows in zip(waits.first_start.tolist(), rows_of, strict=True):
        host = part.src[first]
        of_host = [row for row in rows if pairs[row][0] == host]
        at_sender.update(of_host)
        at_receiver.update(set(rows).difference(of_host))
        ran = [] if of_host else ends.sent_by(host)  # as the part began
        awaited.append([first_row + row for row in rows] + ran)
        begins = [row for row in of_host if waits.barrier[row] < 0]
        if before := ends.taken(host, [pairs[row] for row in rows]) if begins else []:
            own[begins] = next_barrier + len(begun)
            begun.append(before)
    awaited += begun
    for row in np.union1d(np.flatnonzero(waits.waiting), waits.row)[::-1].tolist():
        if row not in at_sender:
            ends.sent[pairs[row]].appendleft(first_row + row)
        if row not in at_receiver:
            ends.received[pairs[row]].appendleft(first_row + row)
    return own
