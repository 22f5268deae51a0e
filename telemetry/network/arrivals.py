"""When each flow's packets were sent, with sampling undone, as a replay of the window needs it.

A packet's departure is the sink's time, less its residence in each switch (by that switch's own clock), less
the links' delay: no two clocks are ever compared. ``messages`` turns packets into messages.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from telemetry.network.messages import incast_degrees, messages
from telemetry.network.placement import NOBODY, HostNames, Placement
from telemetry.report import HopSite
from telemetry.settings import WindowSettings
from telemetry.state import FlowArrivals, Incast
from telemetry.topology import GBPS, EgressPort, Topology
from telemetry.window.samples import NEVER_NS, Samples
from telemetry.window.tables import Paths

_NOWHERE = -1


@dataclass(frozen=True, slots=True, eq=False)
class Senders:
    """Distinct (source, destination, path) of samples: the hosts by number in ``HostNames`` (``NOBODY``:
    unknown), the source's line rate, and a packet's time on the links up to the last switch: ``cable_ns``,
    plus ``ns_per_byte`` for its size. ``row`` is the index of each sample's sender.
    """

    row: NDArray[np.int64]
    src: NDArray[np.int64]
    dst: NDArray[np.int64]
    rate_bytes_per_s: NDArray[np.float64]
    cable_ns: NDArray[np.float64]
    ns_per_byte: NDArray[np.float64]


def senders_of(
    samples: Samples,
    hosts: HostNames,
    paths: Paths,
    row_path: NDArray[np.int64],
    topology: Topology,
    settings: WindowSettings,
) -> Senders:
    """The senders of samples whose paths are ``paths[row_path]``.

    The ends of a merged flow (a negative number) are the hosts behind the ends of its path.
    """
    places = _SiteLinks(paths, topology)
    src, dst = np.full(len(samples), NOBODY, np.int64), np.full(len(samples), NOBODY, np.int64)
    own, nameless = np.flatnonzero(samples.flow >= 0), np.flatnonzero(samples.flow < 0)
    src[own], dst[own] = hosts.src[samples.flow[own]], hosts.dst[samples.flow[own]]
    if len(nameless):
        path = row_path[nameless]
        src[nameless] = places.behind("ingress_port")[paths.number[paths.offset[path]]]
        dst[nameless] = places.behind("egress_port")[paths.number[paths.offset[path + 1] - 1]]
    n_names = len(hosts.names) + 1
    pairs, pair = np.unique((src + 1) * n_names + dst + 1, return_inverse=True)
    codes, row = np.unique(pair * len(paths) + row_path, return_inverse=True)
    of_pair, path = np.divmod(codes, len(paths))
    src, dst = (end - 1 for end in np.divmod(pairs[of_pair], n_names))
    first_rate, first_delay_s = places.nics(hosts, src, path, settings)
    rates, delays_s = places.egress()
    delay_s, ns_per_byte = first_delay_s.copy(), 1e9 / first_rate
    for hop in range(int(paths.counts.max()) - 1):
        onward = np.flatnonzero(paths.counts[path] - 1 > hop)  # the report is made before the last link
        site = paths.number[paths.offset[path[onward]] + hop]
        delay_s[onward] += delays_s[site]
        ns_per_byte[onward] += 1e9 / rates[site]
    return Senders(row, src, dst, first_rate, delay_s * 1e9, ns_per_byte)


class _SiteLinks:
    """Links and hosts of the topology at the sites of paths."""

    def __init__(self, paths: Paths, topology: Topology) -> None:
        self._paths = paths
        self._topology = topology
        self._used: list[int] = np.unique(paths.number).tolist()

    def egress(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Rate (bytes/s) and delay (s) of each site's egress link: infinite and 0 where unknown."""
        rates = np.full(len(self._paths.things), np.inf)
        delays_s = np.zeros(len(self._paths.things))
        for site in self._used:
            index = self._port(self._paths.things[site], "egress_port")
            if index != _NOWHERE:
                rates[site] = self._topology.ports[index].rate_bytes_per_s
                delays_s[site] = self._topology.ports[index].delay_s
        return rates, delays_s

    def behind(self, side: str) -> NDArray[np.int64]:
        """Number of the host at the other end of each site's port, or ``NOBODY``."""
        numbers = {host.name: number for number, host in enumerate(self._topology.hosts)}
        found = np.full(len(self._paths.things), NOBODY, np.int64)
        for site in self._used:
            index = self._port(self._paths.things[site], side)
            if index != _NOWHERE:
                found[site] = numbers.get(self._topology.ports[index].peer, NOBODY)
        return found

    def nics(
        self, hosts: HostNames, src: NDArray[np.int64], path: NDArray[np.int64], settings: WindowSettings
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Rate (bytes/s) and delay (s) of each source's link to the first switch of its path."""
        topology, paths = self._topology, self._paths
        site = paths.number[paths.offset[path]].astype(np.int64)
        n_sites = len(paths.things)
        codes, code = np.unique((src + 1) * n_sites + site, return_inverse=True)

        @cache
        def cables_of(host: str) -> dict[str | None, EgressPort]:
            """The host's links by peer; of several to one peer the first."""
            cables: dict[str | None, EgressPort] = {}
            for index in topology.ports_of.get(host, ()):
                cables.setdefault(topology.ports[index].peer, topology.ports[index])
            return cables

        found = []
        for number, first in zip(*(part.tolist() for part in np.divmod(codes, n_sites)), strict=True):
            cables = cables_of(hosts.names[number - 1] if number else "")
            # The link to that switch, or the host's first.
            nic = cables.get(paths.things[first].switch) or next(iter(cables.values()), None)
            if nic is None:
                found.append((settings.default_rate_gbps * GBPS, settings.default_delay_us * 1e-6))
            else:
                found.append((nic.rate_bytes_per_s, nic.delay_s))
        table = np.array(found, np.float64).reshape(-1, 2)
        return table[code, 0], table[code, 1]

    def _port(self, site: HopSite, side: str) -> int:
        port: str | None = getattr(site, side)
        return self._topology.port_index.get((site.switch or "", port or ""), _NOWHERE)


def flow_arrivals(
    samples: Samples,
    hosts: HostNames,
    last_before_ns: NDArray[np.int64],
    places: Placement,
    span_ns: tuple[int, int],
    settings: WindowSettings,
    topology: Topology,
    usual_packet_bytes: int,
) -> tuple[FlowArrivals, tuple[Incast, ...]]:
    """Every message of the window, and the incast of each receiver.

    A message still being sent when the window closes has ``inf`` bytes, and lasts until then.
    """
    used, row_flow = np.unique(samples.flow, return_inverse=True)
    # Merged flows lost their identity: each of their samples is a message of its own.
    nameless = np.flatnonzero(samples.flow < 0)
    row_flow = row_flow.astype(np.int64)
    row_flow[nameless] = len(used) + np.arange(len(nameless))
    n_flows = len(used) + len(nameless)
    before = np.full(n_flows, NEVER_NS, np.int64)
    own = np.flatnonzero(used >= 0)
    before[own] = last_before_ns[used[own]]
    senders = senders_of(samples, hosts, places.site_paths, places.row_site_path, topology, settings)
    way_ns = _way_ns(samples, places, senders, topology)
    found = messages(
        samples,
        row_flow,
        # From the window's start: float64 resolves today's nanoseconds only to ±128.
        sent_ns=(samples.ts_ns - span_ns[0]) - way_ns,
        nic_bytes_per_s=senders.rate_bytes_per_s[senders.row],
        last_before_ns=before,
        end_ns=span_ns[1],
        settings=settings,
        short=_short(samples.packet_bytes, senders.src[senders.row], usual_packet_bytes),
    )
    fingerprint = samples.fingerprint[found.first_row]
    start_ns = np.where(found.running_at_open, 0.0, np.maximum(found.start_ns, 0.0))
    sender = senders.row[found.first_row]
    src, dst = senders.src[sender], senders.dst[sender]
    chosen = np.flatnonzero((src != NOBODY) & (dst != NOBODY))
    order = chosen[np.lexsort((fingerprint[chosen], start_ns[chosen]))]
    arrivals = FlowArrivals(
        src_host=hosts.names_of(src[order]),
        dst_host=hosts.names_of(dst[order]),
        path=places.row_path[found.first_row[order]],
        wire_bytes=np.where(found.sending_at_close, np.inf, found.wire_bytes)[order],
        start_s=start_ns[order] * 1e-9,
        last_s=found.last_ns[order] * 1e-9,
        way_s=way_ns[found.last_row[order]] * 1e-9,
        sent_bytes=found.wire_bytes[order],
        n_samples=found.n_samples[order],
        end_seen=found.end_seen[order],
        ran_before=found.ran_before[order],
    )
    length_ns = float(span_ns[1] - span_ns[0])
    until_ns = np.where(found.sending_at_close, length_ns, np.minimum(found.end_ns, length_ns))
    incast = incast_degrees(
        hosts.names, src[chosen], dst[chosen], start_ns[chosen], np.maximum(until_ns, start_ns)[chosen]
    )
    return arrivals, incast


def _short(packet_bytes: NDArray[np.int32], sender: NDArray[np.int64], usual: int) -> NDArray[np.bool_]:
    """Which samples are shorter than the longest of their sender, of which one longer than usual, as of
    another MTU, says nothing about the others.
    """
    _, sender = np.unique(sender, return_inverse=True)
    full = np.zeros(int(sender.max(initial=-1)) + 1, packet_bytes.dtype)
    np.maximum.at(full, sender, packet_bytes)
    return np.asarray(packet_bytes < np.minimum(full, usual)[sender])


def _way_ns(samples: Samples, places: Placement, senders: Senders, topology: Topology) -> NDArray[np.float64]:
    """How long each sample was on its way from its sender to the sink: residence in switches and delay of
    links. Unknown residence is taken as depth ÷ rate, or 0.
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
    return np.asarray(switches_ns + cables_ns)
