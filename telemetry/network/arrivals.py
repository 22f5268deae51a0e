"""Who sent the samples of a window, how fast its cable is, and how long the cables take; imports only
``telemetry``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from telemetry.network.host_names import NOBODY, HostNames
from telemetry.report import HopSite
from telemetry.settings import WindowSettings
from telemetry.topology import GBPS, EgressPort, Topology
from telemetry.window.places import Paths
from telemetry.window.samples import Samples

_NOWHERE = -1


@dataclass(frozen=True, slots=True, eq=False)
class Senders:
    """Distinct (source, destination, path) of samples: the hosts by number in ``HostNames`` (``NOBODY``: not
    known), the source's line rate, and the time a packet spends on the cables up to the last switch:
    ``cable_ns``, and ``ns_per_byte`` of it. ``row`` is the one of each sample.
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

    A merged flow (a negative number) is told by the hosts behind its path's ends.
    """
    places = _Places(paths, topology)
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
        onward = np.flatnonzero(paths.counts[path] - 1 > hop)  # the last switch's cable is beyond the report
        site = paths.number[paths.offset[path[onward]] + hop]
        delay_s[onward] += delays_s[site]
        ns_per_byte[onward] += 1e9 / rates[site]
    return Senders(row, src, dst, first_rate, delay_s * 1e9, ns_per_byte)


class _Places:
    """The topology as the places on paths see it."""

    def __init__(self, paths: Paths, topology: Topology) -> None:
        self._paths = paths
        self._topology = topology
        self._used: list[int] = np.unique(paths.number).tolist()

    def egress(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Of each place the rate (bytes/s) and delay (s) of the cable it leads to: endless and none where the
        topology does not know.
        """
        rates = np.full(len(self._paths.things), np.inf)
        delays_s = np.zeros(len(self._paths.things))
        for site in self._used:
            index = self._port(self._paths.things[site], "egress_port")
            if index != _NOWHERE:
                rates[site] = self._topology.ports[index].rate_bytes_per_s
                delays_s[site] = self._topology.ports[index].delay_s
        return rates, delays_s

    def behind(self, side: str) -> NDArray[np.int64]:
        """Of each place the host at that port's other end (by its number in the topology), or ``NOBODY``."""
        numbers = {host.name: number for number, host in enumerate(self._topology.hosts)}
        found = np.full(len(self._paths.things), NOBODY, np.int64)
        for site in self._used:
            index = self._port(self._paths.things[site], side)
            if index != _NOWHERE:
                found[site] = numbers.get(self._topology.ports[index].peer, NOBODY)
        return found

    def nics(
        self,
        hosts: HostNames,
        src: NDArray[np.int64],
        path: NDArray[np.int64],
        settings: WindowSettings,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Rate (bytes/s) and delay (s) of each source's cable to the first switch of its path."""
        topology, paths = self._topology, self._paths
        site = paths.number[paths.offset[path]].astype(np.int64)
        n_sites = len(paths.things)
        codes, code = np.unique((src + 1) * n_sites + site, return_inverse=True)

        @cache
        def cables_of(host: str) -> dict[str | None, EgressPort]:
            """The host's cables by where they lead to; of several to one place the first."""
            cables: dict[str | None, EgressPort] = {}
            for index in topology.ports_of.get(host, ()):
                cables.setdefault(topology.ports[index].peer, topology.ports[index])
            return cables

        told = []
        for number, first in zip(*(part.tolist() for part in np.divmod(codes, n_sites)), strict=True):
            cables = cables_of(hosts.names[number - 1] if number else "")
            # The cable to that switch, or the host's first.
            nic = cables.get(paths.things[first].switch) or next(iter(cables.values()), None)
            if nic is None:
                told.append((settings.default_rate_gbps * GBPS, settings.default_delay_us * 1e-6))
            else:
                told.append((nic.rate_bytes_per_s, nic.delay_s))
        table = np.array(told, np.float64).reshape(-1, 2)
        return table[code, 0], table[code, 1]

    def _port(self, site: HopSite, side: str) -> int:
        port: str | None = getattr(site, side)
        return self._topology.port_index.get((site.switch or "", port or ""), _NOWHERE)
