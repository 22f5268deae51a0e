"""The window's flows as a replay wants them: who sent what when, with sampling undone; imports only
``telemetry``.

When a packet left its sender follows from the sink's time, less its stay in each switch (each by its own
clock), less what the cables take: no two clocks are ever subtracted. ``telemetry.messages`` makes messages of
the packets.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from telemetry.flow_keys import FlowKeys
from telemetry.incast import incast_degrees
from telemetry.messages import messages
from telemetry.placement import Placement
from telemetry.places import Path
from telemetry.samples import NEVER_NS, Samples
from telemetry.settings import WindowSettings
from telemetry.state import FlowArrivals, FlowClass, Incast
from telemetry.topology import GBPS, Topology


def flow_arrivals(
    samples: Samples,
    flow_keys: FlowKeys,
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
    before[: len(used)] = np.where(used >= 0, last_before_ns[np.maximum(used, 0)], NEVER_NS)
    senders = _senders(samples, flow_keys, places, settings, topology)
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
    known = np.array([src is not None and dst is not None for src, dst in senders.ends], np.bool_)
    chosen = np.flatnonzero(known[senders.row[found.first_row]])
    order = chosen[np.lexsort((fingerprint[chosen], start_ns[chosen]))]
    ends = [senders.ends[number] for number in senders.row[found.first_row[order]].tolist()]
    arrivals = FlowArrivals(
        src_host=tuple(str(src) for src, _ in ends),
        dst_host=tuple(str(dst) for _, dst in ends),
        path=places.row_path[found.first_row[order]],
        wire_bytes=np.where(found.sending_at_close, np.inf, found.wire_bytes)[order],
        start_s=start_ns[order] * 1e-9,
        last_s=found.last_ns[order] * 1e-9,
        sent_bytes=found.wire_bytes[order],
    )
    length_ns = float(span_ns[1] - span_ns[0])
    until_ns = np.where(found.sending_at_close, length_ns, np.minimum(found.end_ns, length_ns))
    incast = incast_degrees(
        [(str(src), str(dst)) for src, dst in senders.ends],
        senders.row[found.first_row[chosen]],
        start_ns[chosen],
        np.maximum(until_ns, start_ns)[chosen],
    )
    return arrivals, incast


@dataclass(frozen=True, slots=True, eq=False)
class _Senders:
    """Distinct (source, destination, path) of the samples: their hosts, line rate, and time on the cables."""

    row: NDArray[np.int64]
    ends: list[tuple[str | None, str | None]]
    rate_bytes_per_s: NDArray[np.float64]
    cable_ns: NDArray[np.float64]
    ns_per_byte: NDArray[np.float64]


def _senders(
    samples: Samples,
    flow_keys: FlowKeys,
    places: Placement,
    settings: WindowSettings,
    topology: Topology,
) -> _Senders:
    n_paths = len(places.site_paths)
    code = (samples.flow.astype(np.int64) + len(FlowClass)) * n_paths + places.row_site_path
    distinct, row = np.unique(code, return_inverse=True)
    flow, path = np.divmod(distinct, n_paths)
    numbers: dict[tuple[str | None, str | None, int], int] = {}
    host = topology.host_by_address
    sender_of = []
    for f, p in zip((flow - len(FlowClass)).tolist(), path.tolist(), strict=True):
        if f >= 0:
            src, dst = flow_keys[f].src, flow_keys[f].dst
            ends: tuple[str | None, str | None] = (host.get(src, src), host.get(dst, dst))
        else:
            ends = _ends_of(places.site_paths[p], topology)
        sender_of.append(numbers.setdefault((*ends, p), len(numbers)))
    rate, cable_ns, ns_per_byte = (np.empty(len(numbers)) for _ in range(3))
    for (src_host, _, p), number in numbers.items():
        rates, delays = _cables(src_host, places.site_paths[p], topology, settings)
        rate[number] = rates[0]
        cable_ns[number] = sum(delays) * 1e9
        ns_per_byte[number] = sum(1e9 / r for r in rates)
    return _Senders(
        np.array(sender_of, np.int64)[row], [(s, d) for s, d, _ in numbers], rate, cable_ns, ns_per_byte
    )


def _ends_of(path: Path, topology: Topology) -> tuple[str | None, str | None]:
    """The hosts at both ends of a path, as far as its first and last port tell."""
    hosts = {host.name for host in topology.hosts}

    def behind(switch: str | None, port: str | None) -> str | None:
        index = topology.port_index.get((switch or "", port or ""))
        peer = None if index is None else topology.ports[index].peer
        return peer if peer in hosts else None

    return behind(path[0].switch, path[0].ingress_port), behind(path[-1].switch, path[-1].egress_port)


def _cables(
    src_host: str | None, path: Path, topology: Topology, settings: WindowSettings
) -> tuple[list[float], list[float]]:
    """Rates (bytes/s) and delays (s) of the cables up to the last switch, the sender's NIC first."""
    ports = [
        topology.ports[index]
        for site in path[:-1]
        if (index := topology.port_index.get((site.switch or "", site.egress_port or ""))) is not None
    ]
    nics = [topology.ports[index] for index in topology.ports_of.get(src_host or "", ())]
    nic = next((port for port in nics if port.peer == path[0].switch), nics[0] if nics else None)
    if nic is None:
        first = (settings.default_rate_gbps * GBPS, settings.default_delay_us * 1e-6)
    else:
        first = (nic.rate_bytes_per_s, nic.delay_s)
    return [first[0], *(p.rate_bytes_per_s for p in ports)], [first[1], *(p.delay_s for p in ports)]


def _sent_ns(
    samples: Samples, places: Placement, senders: _Senders, topology: Topology, zero_ns: int
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
