"""Moments of one fabric's traffic, one after the other, as one scenario.

What a watermark costs elephants piles up for longer than a moment lasts. Run as if they had followed each
other, moments show it.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from twin.arrivals.from_telemetry import RUNNING_FROM_S
from twin.scenario import Flows, Scenario, Waits


def in_a_row(moments: Sequence[Scenario]) -> Scenario:
    """The first moment, then what begins in each of the others; all on the same ports. One may come again.

    What already ran when another began is left out: messages of the moment before run on, and stand for it.
    So are flows without an end, unless their hosts have one in every moment. A chain goes on with the
    messages of the same hosts in the next moment.
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


def _linked(parts: Sequence[Flows]) -> Waits | None:
    """The waits of all parts.

    The first message of a chain waits for the last that its hosts have in the part before, the first step of
    a host for all that it sends and receives in its last step there.
    """
    after: list[list[int]] = []
    gap_s: list[NDArray[np.float64]] = []
    chains: defaultdict[tuple[str, str], deque[int]] = defaultdict(deque)
    steps: defaultdict[str, list[int]] = defaultdict(list)
    begins = 0
    for part in parts:
        waits = part.waits or Waits(after=np.full(len(part), -1), gap_s=np.zeros(len(part)))
        every = waits.every
        rows = [(row[row >= 0] + begins).tolist() for row in every]
        waited_for = np.isin(np.arange(len(part)), every)
        waiting = waits.after >= 0
        of_step = np.count_nonzero(every >= 0, axis=1) > 1
        of_step |= np.isin(np.arange(len(part)), every[of_step])
        first_s: dict[str, float] = {}
        for first in np.flatnonzero(waited_for & ~waiting).tolist():
            src = part.src[first]
            if not of_step[first] and (before := chains[src, part.dst[first]]):
                rows[first] = [before.popleft()]
            elif of_step[first] and part.start_s[first] == first_s.setdefault(src, part.start_s[first]):
                rows[first] = steps[src]
        chains.clear()
        steps.clear()
        for last in np.flatnonzero(~waited_for & waiting).tolist():
            if of_step[last]:
                steps[part.src[last]].append(begins + last)
                steps[part.dst[last]].append(begins + last)
            else:
                chains[part.src[last], part.dst[last]].append(begins + last)
        after += rows
        gap_s.append(waits.gap_s)
        begins += len(part)
    every = np.full((begins, max(1, *map(len, after))), -1)
    for at, row in enumerate(after):
        every[at, : len(row)] = row
    return Waits.of(every, np.concatenate(gap_s))
