"""The few journeys of a window from which its fabric can be told; imports only numpy and ``telemetry``.

A million flows show the same cables over and over. Of each thing that a journey can show (an address, a port,
who is behind it, a cable between two) the first to show it is kept, in the order in which ``discover`` goes
through them: it finds the same topology as from all.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from telemetry.flow_keys import FlowKeys
from telemetry.network.discovery import Journey, sortable
from telemetry.window.places import Paths
from telemetry.window.samples import Samples

_NEVER = np.iinfo(np.int64).max


def journeys(
    samples: Samples, flow_keys: FlowKeys, paths: Paths, row_path: NDArray[np.int64]
) -> list[Journey]:
    """Journeys of samples whose paths are ``paths[row_path]``: enough of them to discover what all show."""
    own = np.flatnonzero(samples.flow >= 0)
    if len(own) == 0:
        return []
    flow = samples.flow[own]
    n_hosts = len(flow_keys.hosts)
    ends, end = np.unique(
        flow_keys.src[flow].astype(np.int64) * n_hosts + flow_keys.dst[flow], return_inverse=True
    )
    pair, path = np.divmod(np.unique(end * len(paths) + row_path[own]), len(paths))
    src, dst = np.divmod(ends[pair], n_hosts)
    host_rank = _ranks(flow_keys.hosts)
    order = np.lexsort((_path_ranks(paths)[path], host_rank[dst], host_rank[src]))
    src, dst, path = src[order], dst[order], path[order]
    chosen = _first_to_show(src, dst, path, paths)
    hosts = flow_keys.hosts
    return [
        Journey(hosts[s], hosts[d], paths[p])
        for s, d, p in zip(src[chosen].tolist(), dst[chosen].tolist(), path[chosen].tolist(), strict=True)
    ]


def _ranks(names: Sequence[object]) -> NDArray[np.int64]:
    """The place of each in their order."""
    order = np.array(sorted(range(len(names)), key=names.__getitem__), np.int64)  # type: ignore[arg-type]
    rank = np.empty(len(names), np.int64)
    rank[order] = np.arange(len(names))
    return rank


def _path_ranks(paths: Paths) -> NDArray[np.int64]:
    """The place of each path in the order of their places' names."""
    used, site = np.unique(paths.number, return_inverse=True)
    rank = _ranks([sortable(paths.things[number]) for number in used.tolist()])[site]
    columns = []
    for hop in range(int(paths.counts.max())):
        column = np.full(len(paths), -1, np.int64)  # what has ended comes before what goes on
        has = np.flatnonzero(paths.counts > hop)
        column[has] = rank[paths.offset[has] + hop]
        columns.append(column)
    order = np.lexsort(columns[::-1])
    place = np.empty(len(paths), np.int64)
    place[order] = np.arange(len(paths))
    return place


def _first_to_show(
    src: NDArray[np.int64], dst: NDArray[np.int64], path: NDArray[np.int64], paths: Paths
) -> NDArray[np.int64]:
    """Of journeys in order, those that show something for the first time."""
    hops = _ToldHops(paths)
    first = np.full(len(paths), _NEVER)
    np.minimum.at(first, path, np.arange(len(path)))
    hop_first = first[hops.path]
    follows = hops.path[1:] == hops.path[:-1]
    cable = hops.out_port[:-1] * hops.n_ports + hops.in_port[1:]
    ended = src != dst  # else nobody's address is known
    somebody, told = np.flatnonzero(ended), np.flatnonzero(ended & (hops.count[path] > 0))
    begin, end = hops.offset[path[told]], hops.offset[path[told] + 1] - 1
    shown = [
        _firsts(src[somebody], somebody),
        _firsts(dst[somebody], somebody),
        _firsts(src[told] * hops.n_ports + hops.in_port[begin], told),
        _firsts(dst[told] * hops.n_ports + hops.out_port[end], told),
        _firsts(hops.in_port, hop_first),
        _firsts(hops.out_port, hop_first),
        _firsts(cable[follows], hop_first[1:][follows]),
    ]
    found: NDArray[np.int64] = np.unique(np.concatenate(shown))
    return found[np.flatnonzero(found != _NEVER)]


def _firsts(shown: NDArray[np.int64], when: NDArray[np.int64]) -> NDArray[np.int64]:
    """When each distinct thing is shown first."""
    order = np.argsort(when, kind="stable")
    _, first = np.unique(shown[order], return_index=True)
    return when[order[first]]


class _ToldHops:
    """Hops that name their switch: their path, and numbers of (switch, port), the port told or not."""

    def __init__(self, paths: Paths) -> None:
        used, site = np.unique(paths.number, return_inverse=True)
        sites = [paths.things[number] for number in used.tolist()]
        ports: dict[tuple[str | None, str | None], int] = {}
        ingress, egress = (
            np.array([ports.setdefault((one.switch, port), len(ports)) for one, port in side], np.int64)
            for side in (
                [(one, one.ingress_port) for one in sites],
                [(one, one.egress_port) for one in sites],
            )
        )
        told = np.array([one.switch is not None for one in sites], np.bool_)[site]
        self.n_ports = len(ports)
        self.path = np.repeat(np.arange(len(paths)), paths.counts)[told]
        self.in_port, self.out_port = ingress[site][told], egress[site][told]
        self.offset = np.concatenate((np.zeros(1, np.int64), np.cumsum(told, dtype=np.int64)))[paths.offset]
        self.count = np.diff(self.offset)
