"""The window's flows as a replay wants them: who sent what when, with sampling undone; imports only
``telemetry``.

When a packet left its sender follows from the sink's time, less its stay in each switch (each by its own
clock), less what the cables take: no two clocks are ever subtracted. ``telemetry.messages`` makes messages of
the packets.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from telemetry.network.arrivals import Senders, senders_of
from telemetry.network.host_names import NOBODY, HostNames
from telemetry.network.incast import incast_degrees
from telemetry.network.messages import messages
from telemetry.network.placement import Placement
from telemetry.settings import WindowSettings
from telemetry.state import FlowArrivals, Incast
from telemetry.topology import Topology
from telemetry.window.samples import NEVER_NS, Samples


def flow_arrivals(
    samples: Samples,
    hosts: HostNames,
    last_before_ns: NDArray[np.int64],
    places: Placement,
    span_ns: tuple[int, int],
    settings: WindowSettings,
    topology: Topology,
) -> tuple[FlowArrivals, tuple[Incast, ...]]:
    """Every message of the window, and how many senders met at each receiver.

    A message still being sent when the window closes has ``inf`` bytes, and lasts until then.
    """
    used, row_flow = np.unique(samples.flow, return_inverse=True)
    # Merged flows have lost their identity: each of their samples is a message of its own.
    nameless = np.flatnonzero(samples.flow < 0)
    row_flow = row_flow.astype(np.int64)
    row_flow[nameless] = len(used) + np.arange(len(nameless))
    n_flows = len(used) + len(nameless)
    before = np.full(n_flows, NEVER_NS, np.int64)
    own = np.flatnonzero(used >= 0)
    before[own] = last_before_ns[used[own]]
    senders = senders_of(samples, hosts, places.site_paths, places.row_site_path, topology, settings)
    found = messages(
        samples,
        row_flow,
        sent_ns=_sent_ns(samples, places, senders, topology, span_ns[0]),
        nic_bytes_per_s=senders.rate_bytes_per_s[senders.row],
        last_before_ns=before,
        end_ns=span_ns[1],
        settings=settings,
    )
    fingerprint = samples.fingerprint[found.first_row]
    start_ns = np.where(found.running_at_open, 0.0, np.maximum(found.start_ns, 0.0))
    sender = senders.row[found.first_row]
    src, dst = senders.src[sender], senders.dst[sender]
    chosen = np.flatnonzero((src != NOBODY) & (dst != NOBODY))
    order = chosen[np.lexsort((fingerprint[chosen], start_ns[chosen]))]
    arrivals = FlowArrivals(
        src_host=hosts.called(src[order]),
        dst_host=hosts.called(dst[order]),
        path=places.row_path[found.first_row[order]],
        wire_bytes=np.where(found.sending_at_close, np.inf, found.wire_bytes)[order],
        start_s=start_ns[order] * 1e-9,
        last_s=found.last_ns[order] * 1e-9,
        sent_bytes=found.wire_bytes[order],
    )
    length_ns = float(span_ns[1] - span_ns[0])
    until_ns = np.where(found.sending_at_close, length_ns, np.minimum(found.end_ns, length_ns))
    incast = incast_degrees(
        hosts.names,
        src[chosen],
        dst[chosen],
        start_ns[chosen],
        np.maximum(until_ns, start_ns)[chosen],
    )
    return arrivals, incast


def _sent_ns(
    samples: Samples, places: Placement, senders: Senders, topology: Topology, zero_ns: int
) -> NDArray[np.float64]:
    """When each sample left its sender: the sink's time less its stay in each switch and on the cables.

    A switch that told no stay is taken at depth ÷ rate, or at none. Relative to ``zero_ns``:
    float64 holds today's nanoseconds only to ±128.
    """
    rates = np.array(
        [
            topology.ports[index].rate_bytes_per_s
            if (index := topology.port_index.get((ref.switch, ref.port))) is not None
            else np.inf
            for ref in places.refs
        ]
        + [np.inf]
    )
    guessed_ns = np.nan_to_num(samples.queue_bytes) / rates[places.hop_queue] * 1e9
    stay_ns = np.where(samples.residence_ns >= 0, samples.residence_ns, guessed_ns)
    switches_ns = np.add.reduceat(stay_ns, samples.hop_offset[:-1])
    cables_ns = senders.cable_ns[senders.row] + senders.ns_per_byte[senders.row] * samples.packet_bytes
    return (samples.ts_ns - zero_ns) - (switches_ns + cables_ns)
