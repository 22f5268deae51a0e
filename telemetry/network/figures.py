"""What the traffic of a window experienced: the figures that a gain compares, measured instead of predicted.

Durations are those of the twin, to the last acknowledgement. Figures compare between windows, and roughly
with predictions: they describe what packets met, while an engine integrates every queue over time.

Sampling is undone as far as possible: a message counts if enough of its packets were sampled to tell its size
and duration, and a reported packet counts for all those it stands for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from telemetry.network.assemble import Snapshot
from telemetry.network.messages import Messages, messages
from telemetry.network.placement import Placement, placement
from telemetry.settings import NS_PER_S
from telemetry.topology import Topology
from telemetry.window.samples import Samples
from telemetry.window.tables import Paths

ELEPHANT_FROM_BYTES = 1_000_000.0
LEAST_BULK_SHARE = 0.05  # of the bytes, in elephants, for their speed to count in a gain
MOUSE_BELOW_BYTES = 100_000.0
SEEN_WELL = 8  # sampled packets of a message from which its size and duration are told
THROUGH_WITHIN = 1 / 8  # of the window, from its begin and to its end, a flow is seen that runs through it
MICE_AT_LEAST = 300  # seen well, before three of them are a p99
_QUANTILE = 0.99
_ACK_BYTES = 60  # on the wire, as in a scenario


class TrafficFigures(NamedTuple):
    """None where the window shows none of it.

    ``goodput_bytes_per_s``: on the wire, mean of the flows that run through the window; not their sum, for
    more messages do where they are slower. ``elephant_slowdown``: mean over messages of 1 MB or more that
    begin in it, duration ÷ duration alone; one still sending counts as far as it came.
    ``mice_p99_slowdown``: the same of messages under 100 KB. ``packet_p99_slowdown``: of a full packet that
    waits as the reported packets did (depth ÷ rate of every queue on its path), to its acknowledgement, ÷ its
    time alone; as packets see the queues, which is deeper than over time.
    """

    goodput_bytes_per_s: float | None
    elephant_slowdown: float | None
    mice_p99_slowdown: float | None
    packet_p99_slowdown: float | None


@dataclass(frozen=True, slots=True)
class WindowFigures:
    """Figures of the ``whole`` window, and with each of its equal blocks of time left out.

    A message belongs to the block it begins in. ``persistent_share``: bytes of flows that run through the
    window as a share of theirs and of the elephants'; None without either, or where elephants alone
    carry less than ``LEAST_BULK_SHARE`` of the messages' bytes. ``packets_per_s`` delivered.
    """

    whole: TrafficFigures
    without_block: tuple[TrafficFigures, ...]
    persistent_share: float | None
    packets_per_s: float


@dataclass(frozen=True, slots=True, eq=False)
class _Routes:
    """By path: the slowest link (bytes/s, the sender's included), and how long one full packet takes alone,
    from its first byte to its acknowledgement (s). NaN where a port is unknown.
    """

    slowest: NDArray[np.float64]
    alone_s: NDArray[np.float64]


def elephants_count(elephant_bytes: float, all_bytes: float) -> bool:
    """Whether their speed counts in a gain: few of them among many smaller messages are not what it means."""
    return elephant_bytes > 0 and elephant_bytes >= LEAST_BULK_SHARE * all_bytes


def window_figures(snapshot: Snapshot, topology: Topology, *, n_blocks: int) -> WindowFigures:
    """The figures of a window with at least one report; ``topology`` as its state has it."""
    samples = snapshot.samples()
    places = placement(samples, snapshot.path_sites)
    begin_ns, end_ns = snapshot.span_ns
    duration_s = (end_ns - begin_ns) / NS_PER_S
    at_ns = (samples.ts_ns - begin_ns).astype(np.float64)
    routes = _routes(places.site_paths, topology, float(samples.packet_bytes.max()))
    wait_s = _waits_s(samples, places, topology)
    block = _blocks(at_ns, end_ns - begin_ns, n_blocks)
    packets = samples.true_bytes / samples.packet_bytes
    slowdown = 1.0 + wait_s / routes.alone_s[places.row_site_path]
    order = np.argsort(slowdown)[: np.count_nonzero(~np.isnan(slowdown))]  # NaN come last
    by_slowdown = slowdown[order], packets[order], block[order]
    seen = _seen_messages(samples, places, snapshot, routes, at_ns, wait_s, block, n_blocks)

    def figures(without: int | None) -> TrafficFigures:
        kept = seen.block != without
        elephants, mice = seen.slowdown[seen.elephant & kept], np.sort(seen.slowdown[seen.mouse & kept])
        met, weights, of_block = by_slowdown
        counted = np.arange(n_blocks) != without
        flow_s = seen.n_through * duration_s * float(counted.mean())
        enough = np.count_nonzero(seen.mouse) >= MICE_AT_LEAST  # in the whole window
        return TrafficFigures(
            goodput_bytes_per_s=float(seen.through_bytes[counted].sum()) / flow_s if flow_s else None,
            elephant_slowdown=float(elephants.mean()) if len(elephants) else None,
            mice_p99_slowdown=_p99(mice, np.ones(len(mice))) if enough else None,
            packet_p99_slowdown=_p99(met, weights * (of_block != without)),
        )

    elephants, through = float(seen.bytes[seen.elephant].sum()), float(seen.through_bytes.sum())
    begun = float(seen.bytes[seen.begun].sum())
    bulk = through > 0 or elephants_count(elephants, begun)
    return WindowFigures(
        whole=figures(None),
        without_block=tuple(figures(number) for number in range(n_blocks)),
        persistent_share=through / (through + elephants) if bulk else None,
        packets_per_s=float(packets.sum()) / duration_s,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _SeenMessages:
    """Messages, with the block each begins in, or not ``begun`` in this window; how many run through it, and
    their bytes by block.
    """

    block: NDArray[np.int64]
    begun: NDArray[np.bool_]
    bytes: NDArray[np.float64]
    slowdown: NDArray[np.float64]
    elephant: NDArray[np.bool_]
    mouse: NDArray[np.bool_]
    n_through: int
    through_bytes: NDArray[np.float64]


def _seen_messages(
    samples: Samples,
    places: Placement,
    snapshot: Snapshot,
    routes: _Routes,
    at_ns: NDArray[np.float64],
    wait_s: NDArray[np.float64],
    block: NDArray[np.int64],
    n_blocks: int,
) -> _SeenMessages:
    """Times are those of reports, which are made at the last switch."""
    own = np.flatnonzero(samples.flow >= 0)  # merged flows lost their identity
    if len(own) == 0:
        none, nothing = np.empty(0, np.bool_), np.empty(0)
        return _SeenMessages(np.empty(0, np.int64), none, nothing, nothing, none, none, 0, np.zeros(n_blocks))
    used, flow = np.unique(samples.flow[own], return_inverse=True)
    kept, path = samples.take(own), places.row_site_path[own]
    found = messages(
        kept,
        flow.astype(np.int64),
        sent_ns=at_ns[own],
        nic_bytes_per_s=routes.slowest[path],
        last_before_ns=snapshot.last_before_ns[used],
        end_ns=snapshot.span_ns[1],
        settings=snapshot.settings,
    )
    first, length_ns = found.first_row, snapshot.span_ns[1] - snapshot.span_ns[0]
    first_ns = at_ns[own][first]
    edge_ns = length_ns * THROUGH_WITHIN
    through = (found.n_samples >= SEEN_WELL) & (first_ns < edge_ns) & (found.last_ns >= length_ns - edge_ns)
    slowdown = _slowdowns(found, first_ns, wait_s[own][first], routes, path[first])
    begun = ~found.running_at_open & ~through
    counts = (found.n_samples >= SEEN_WELL) & begun & ~np.isnan(slowdown)
    rows = np.isin(flow, found.flow[through])  # what else such a flow sends is little
    through_bytes = np.bincount(block[own][rows], kept.true_bytes[rows], minlength=n_blocks)
    return _SeenMessages(
        block=block[own][first],
        begun=begun,
        bytes=found.wire_bytes,
        slowdown=slowdown,
        elephant=counts & (found.wire_bytes >= ELEPHANT_FROM_BYTES),
        mouse=counts & ~found.sending_at_close & (found.wire_bytes < MOUSE_BELOW_BYTES),
        n_through=int(np.count_nonzero(through)),
        through_bytes=through_bytes.astype(np.float64),
    )


def _slowdowns(
    found: Messages,
    first_ns: NDArray[np.float64],
    wait_s: NDArray[np.float64],
    routes: _Routes,
    path: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Duration ÷ duration alone of each message: all its bytes at the slowest link, and a way there and back.

    n packets sampled at random lie on average (n − 1)/(n + 1) of the duration apart; the wait of the first
    comes before.
    """
    stretch = (found.n_samples + 1) / np.maximum(found.n_samples - 1, 1)
    sending_s = (found.last_ns - first_ns) * stretch / NS_PER_S
    packet_s = routes.alone_s[path]
    return (sending_s + np.nan_to_num(wait_s) + packet_s) / (
        found.wire_bytes / routes.slowest[path] + packet_s
    )


def _waits_s(samples: Samples, places: Placement, topology: Topology) -> NDArray[np.float64]:
    """How long each reported packet waited on its path: depth ÷ rate, all hops; NaN where one is unknown."""
    rates = np.full(len(places.refs) + 1, np.nan)  # the last one: an unknown queue
    for number, ref in enumerate(places.refs):
        index = topology.port_index.get((ref.switch, ref.port))
        if index is not None:
            rates[number] = topology.ports[index].rate_bytes_per_s
    return np.add.reduceat(samples.queue_bytes / rates[places.hop_queue], samples.hop_offset[:-1])


def _routes(paths: Paths, topology: Topology, packet_bytes: float) -> _Routes:
    n = len(paths.things)
    rate, delay_s = np.full((2, n), np.nan), np.full((2, n), np.nan)
    for site in np.unique(paths.number).tolist():
        one = paths.things[site]
        for side, port in enumerate((one.ingress_port, one.egress_port)):
            index = topology.port_index.get((one.switch or "", port or ""))
            if index is not None:  # both directions of a link have its rate and delay
                rate[side, site] = topology.ports[index].rate_bytes_per_s
                delay_s[side, site] = topology.ports[index].delay_s
    begin = paths.offset[:-1]
    nic = paths.number[begin]
    egress = rate[1][paths.number]
    slowest = np.fmin(np.minimum.reduceat(egress, begin), rate[0][nic])
    link_s = 2 * delay_s + (packet_bytes + _ACK_BYTES) / rate
    return _Routes(slowest, np.add.reduceat(link_s[1][paths.number], begin) + np.nan_to_num(link_s[0][nic]))


def _blocks(at_ns: NDArray[np.float64], length_ns: int, n_blocks: int) -> NDArray[np.int64]:
    return np.clip(at_ns * (n_blocks / length_ns), 0, n_blocks - 1).astype(np.int64)


def _p99(values: NDArray[np.float64], weights: NDArray[np.float64]) -> float | None:
    """The smallest of the sorted values that 99 % of the weight does not exceed; None without weight."""
    below = np.cumsum(weights)
    if len(values) == 0 or below[-1] <= 0:
        return None
    return float(values[int(np.searchsorted(below, _QUANTILE * below[-1]))])
