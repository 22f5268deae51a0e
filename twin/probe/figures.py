"""What a gain is made of, alike for all engines: probes, shares paused and lost, blocks left out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twin.prediction import BLOCKS, ELEPHANT_FROM_BYTES, MOUSE_BELOW_BYTES, GainFigures, Probe, slowdowns
from twin.probe._draws import PROBE_BINS, PROBE_FIRST, PROBE_SHIFT, PROBES, Paths, ProbePaths, draw_paths
from twin.scenario import Scenario

_EDGES = (np.arange(PROBE_BINS + 1, dtype=np.uint64) + np.uint64(PROBE_FIRST)) << np.uint64(PROBE_SHIFT)
_LOWER, _WIDTH = _EDGES.view(np.float64)[:-1], np.diff(_EDGES.view(np.float64))
MOST_INSTANTS = 8192  # of a window: more cost more than they tell
_TINY = 1e-300  # makes 0 ÷ 0 a 0
_WIDTH[0] = 0.0  # empty queues: exactly 1


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Blocks:
    """What a run counted, one row a block of its metrics window.

    ``probes[block, switches crossed − 1, bin]``; ``delivered_bytes`` payload; ``paused_s`` of all ports
    together; ``lost_bytes`` and ``sent_bytes`` on the wire. ``window_s`` is how long a block is,
    ``counted_s`` how long pauses and losses were counted in it: the first and the last block may reach beyond
    the window.
    """

    probes: NDArray[np.int64]
    delivered_bytes: NDArray[np.float64]
    paused_s: NDArray[np.float64]
    lost_bytes: NDArray[np.float64]
    sent_bytes: NDArray[np.float64]
    window_s: NDArray[np.float64]
    counted_s: NDArray[np.float64]


def block_ends(first: int, last: int) -> NDArray[np.int64]:
    """Where each block of the steps [first, last) ends."""
    return first + np.arange(1, BLOCKS + 1, dtype=np.int64) * (last - first) // BLOCKS


def probe_paths(
    paths: Sequence[Sequence[int]],
    of_flow: NDArray[np.int32],
    alone_s: NDArray[np.float64],
    rate: NDArray[np.float64],
    queue_of: Mapping[int, int],
) -> ProbePaths:
    """The table a kernel draws from.

    ``paths`` begin with the NIC; ``rate`` is per port, in an engine's unit of depths a second.
    """
    crossed = [path[1:] for path in paths]
    hops = [port for path in crossed for port in path]
    lengths = np.array([len(path) for path in crossed])
    return ProbePaths(
        of_flow=of_flow,
        offset=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32),
        queue=np.array([queue_of[port] for port in hops], dtype=np.int32),
        weight=1.0 / (rate[hops] * np.repeat(alone_s, lengths)),
    )


def drawn_paths(paths: ProbePaths, steps: int, most: int = MOST_INSTANTS) -> tuple[Paths, int]:
    """Paths of the probes, ``drawn[instant, k]``, and from how many of ``steps`` one is an instant."""
    every = -(-steps // most)
    drawn = np.empty((-(-steps // every), PROBES), dtype=np.int32)
    draw_paths(paths, drawn)
    return drawn, every


def probes(counts: NDArray[np.int64]) -> dict[str, Probe]:
    """Slowdown of the probes in ``counts[switches crossed − 1, bin]``, all and by path class."""
    kinds = np.flatnonzero(counts.any(axis=1))
    if not kinds.size:
        return {}
    names = ["all", *(f"{kind + 1} hop{'s' if kind else ''}" for kind in kinds.tolist())]
    rows = np.concatenate([counts.sum(axis=0)[None], counts[kinds]])
    return dict(zip(names, map(Probe, rows.sum(axis=1).tolist(), *_quantiles(rows, 0.5, 0.99)), strict=True))


def probe_mean(counts: NDArray[np.int64]) -> float:
    """Mean slowdown of the probes in ``counts[..., bin]``, each at its bin's middle; NaN without any."""
    by_bin = counts.reshape(-1, PROBE_BINS).sum(axis=0)
    n = int(by_bin.sum())
    return float(by_bin @ (_LOWER + _WIDTH / 2)) / n if n else math.nan


def gain_parts(
    scenario: Scenario,
    completion_s: NDArray[np.float64],
    blocks: Blocks,
    sent_bytes: NDArray[np.float64] | None = None,
    started_s: NDArray[np.float64] | None = None,
) -> dict[str, Any]:
    """The fields of a prediction that a gain is made of.

    ``completion_s[flow]`` and ``started_s[flow]`` as in ``slowdowns``; ``sent_bytes[flow]``: payload that
    flows which are not over have sent, None where the engine counts none. The flows of a class form blocks
    of equal number by their start: of blocks of time one may hold every elephant.
    """
    started_s = scenario.flows.start_s if started_s is None else started_s
    size = scenario.flows.payload_bytes
    slowdown = slowdowns(scenario, completion_s, sent_bytes, started_s)
    counted = np.isfinite(size) & ~np.isnan(slowdown)
    slowdown, size = slowdown[counted], size[counted]
    large, mice = slowdown[size >= ELEPHANT_FROM_BYTES], slowdown[size < MOUSE_BELOW_BYTES]
    large_block, mouse_block = _blocks_of(large.size), _blocks_of(mice.size)
    order = np.argsort(mice)
    sorted_mice, mouse_block = mice[order], mouse_block[order]
    lasting, lasting_block = _lasting(scenario, sent_bytes, started_s)
    by_block = blocks.probes.sum(axis=1)
    [probe_p99] = _quantiles(by_block.sum(axis=0) - by_block, 0.99)
    # Flows to a share of the receivers cause that share of the pauses.
    ports_s = blocks.counted_s * len(scenario.ports) * scenario.slice_share
    columns = (
        _without(blocks.delivered_bytes, blocks.window_s),
        [_mean(large[large_block != block]) for block in range(BLOCKS)],
        [_p99(sorted_mice[mouse_block != block]) for block in range(BLOCKS)],
        [None if math.isnan(p99) else p99 for p99 in probe_p99],
        _without(blocks.paused_s, ports_s),
        _without(blocks.lost_bytes, blocks.sent_bytes),
        [_mean(lasting[lasting_block != block]) for block in range(BLOCKS)],
    )
    return {
        "probe": probes(blocks.probes.sum(axis=0)),
        "paused_share": float(blocks.paused_s.sum() / ports_s.sum()),
        "loss_share": float(blocks.lost_bytes.sum() / max(blocks.sent_bytes.sum(), 1.0)),
        "lasting_bytes_per_s": _mean(lasting),
        "without_block": tuple(map(GainFigures, *columns)),
        "watched": _watched(scenario, completion_s, sent_bytes, started_s),
    }


def _watched(
    scenario: Scenario,
    completion_s: NDArray[np.float64],
    sent_bytes: NDArray[np.float64] | None,
    started_s: NDArray[np.float64],
) -> tuple[tuple[float, float], ...]:
    """Of each watched flow, bytes and seconds until it ended or the run did; 0 where it never started."""
    rows = list(scenario.watched)
    if not rows or sent_bytes is None:
        return ()
    running = np.isnan(completion_s[rows])
    carried = np.where(running, sent_bytes[rows], scenario.flows.payload_bytes[rows])
    taken_s = np.where(running, scenario.duration_s - started_s[rows], completion_s[rows])
    begun = (taken_s > 0.0) & (np.array(rows) >= 0)  # false for NaN
    found = np.where(begun, np.stack((carried, taken_s)), 0.0)
    return tuple(map(tuple, found.T.tolist()))


def _lasting(
    scenario: Scenario, sent_bytes: NDArray[np.float64] | None, started_s: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The rate of each flow that never ends, from its start to the run's end, and its block."""
    if sent_bytes is None:
        return np.zeros(0), np.zeros(0, dtype=np.int64)
    left_s = scenario.duration_s - started_s
    endless = np.isinf(scenario.flows.payload_bytes) & (left_s > 0)
    rate = sent_bytes[endless] / left_s[endless]
    return rate, _blocks_of(rate.size)


def _without(above: NDArray[np.float64], below: NDArray[np.float64]) -> list[float]:
    """Sum ÷ sum with each block left out; 0 where nothing is left."""
    left: list[float] = ((above.sum() - above) / np.maximum(below.sum() - below, _TINY)).tolist()
    return left


def _blocks_of(count: int) -> NDArray[np.int64]:
    """The block of each of ``count`` flows in the order of their start; a single one is never left out."""
    return np.arange(count) * BLOCKS // count if count > 1 else np.full(count, -1)


def _mean(values: NDArray[np.float64]) -> float | None:
    return float(values.mean()) if values.size else None


def _p99(ordered: NDArray[np.float64]) -> float | None:
    if not ordered.size:
        return None
    below, part = divmod(0.99 * (ordered.size - 1), 1.0)
    low, high = ordered[int(below)], ordered[min(int(below) + 1, ordered.size - 1)]
    return float(low + part * (high - low))


def _quantiles(counts: NDArray[np.int64], *shares: float) -> list[list[float]]:
    """Quantiles of each row of counts, linear inside a bin; NaN where a row is empty."""
    below = np.cumsum(counts, axis=1)
    rows, n = np.arange(len(counts)), below[:, -1]
    found = []
    for share in shares:
        rank = share * n
        place = np.count_nonzero(below < rank[:, None], axis=1)
        inside = counts[rows, place]
        within = (rank - below[rows, place] + inside) / np.maximum(inside, 1)
        found.append(np.where(n > 0, _LOWER[place] + _WIDTH[place] * within, np.nan).tolist())
    return found
