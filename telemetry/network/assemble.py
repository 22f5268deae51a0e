"""Builds the ``NetworkState`` from the samples of a window, or from a snapshot of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from telemetry.network.arrivals import flow_arrivals
from telemetry.network.discovery import discover, journeys
from telemetry.network.placement import HostNames, Placement, placement
from telemetry.network.queues import (
    DrainRate,
    HopRows,
    drain_rates,
    hop_rows,
    lifts,
    queue_states,
    recent_samples,
)
from telemetry.report import FlowKeys
from telemetry.settings import WindowSettings
from telemetry.state import FlowClass, FlowTable, NetworkState, QueueRef
from telemetry.topology import Topology
from telemetry.window.samples import NEVER_NS, Samples
from telemetry.window.tables import Paths


def classify(
    window_bytes: NDArray[np.float64],
    active_periods: NDArray[np.int64],
    *,
    n_periods: int,
    elephant_bytes: float,
) -> NDArray[np.int8]:
    """``FlowClass`` of each flow from Φ(f), its bytes in the window, and the number of its active periods.

    Φ ≥ ``elephant_bytes``: elephant; below, but active in all ``n_periods``: potential elephant; otherwise
    mouse. A window of one period shows no persistence, so it has no potential elephants.
    """
    classes = np.full(len(window_bytes), FlowClass.MOUSE, np.int8)
    if n_periods > 1:
        classes[active_periods >= n_periods] = FlowClass.POTENTIAL_ELEPHANT
    classes[window_bytes >= elephant_bytes] = FlowClass.ELEPHANT
    return classes


def dominant_class(bytes_by_class: Mapping[FlowClass, float]) -> FlowClass:
    """The class with the most bytes; of equals the one of larger flows."""
    return max(FlowClass, key=lambda flow_class: (bytes_by_class.get(flow_class, 0.0), flow_class))


def _port_rates(hops: HopRows, refs: Sequence[QueueRef]) -> dict[tuple[str, str], DrainRate]:
    rates: dict[tuple[str, str], DrainRate] = {}
    for number, rate in drain_rates(hops, len(refs)).items():
        port = (refs[number].switch, refs[number].port)
        rates[port] = max(rate, rates.get(port, rate))
    return rates


def _main_path(
    flow: NDArray[np.int64],
    path: NDArray[np.int32],
    true_bytes: NDArray[np.float64],
    n_paths: int,
    n_flows: int,
) -> NDArray[np.int32]:
    """The path with most of each flow's bytes."""
    pairs, pair = np.unique(flow * n_paths + path, return_inverse=True)
    carried = np.bincount(pair, true_bytes)
    owner = pairs // n_paths
    order = np.lexsort((-pairs, carried, owner))
    last = (
        np.concatenate((owner[order][1:] != owner[order][:-1], [True])) if n_flows else np.empty(0, np.bool_)
    )
    main: NDArray[np.int64] = pairs[order][last] % n_paths
    return main.astype(np.int32)


def _newest_by_sink(ts_ns: NDArray[np.int64], paths: Paths, row_path: NDArray[np.int64]) -> dict[str, int]:
    """The newest report of each switch that is the last on a path; ``row_path`` indexes ``paths``."""
    last_site = paths.number[paths.offset[1:] - 1]
    newest = np.full(len(paths.things), NEVER_NS, np.int64)
    np.maximum.at(newest, last_site[row_path], ts_ns)
    by_sink: dict[str, int] = {}
    for site in np.flatnonzero(newest != NEVER_NS).tolist():
        if (switch := paths.things[site].switch) is not None:
            by_sink[switch] = max(int(newest[site]), by_sink.get(switch, NEVER_NS))
    return by_sink


def _usual_packet(samples: Samples) -> int:
    sizes, size = np.unique(samples.packet_bytes, return_inverse=True)
    carried = np.bincount(size, samples.true_bytes)
    return int(sizes[len(sizes) - 1 - int(np.argmax(carried[::-1]))])


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """A window's reports and tables at one moment; shares no mutable data with the window.

    Taking one costs a few milliseconds; ``state`` about a second per 200 000 reports, in any thread or (it
    pickles) process.
    """

    parts: tuple[Samples, ...]
    flow_keys: FlowKeys
    flow_fingerprint: NDArray[np.uint64]
    last_before_ns: NDArray[np.int64]
    path_sites: Paths
    merged_flows: NDArray[np.int64]
    span_ns: tuple[int, int]
    settings: WindowSettings
    topology: Topology | None

    def samples(self) -> Samples:
        return Samples.joined(self.parts).in_canonical_order()

    def state(self) -> NetworkState:
        samples = self.samples()
        span_ns, settings, topology = self.span_ns, self.settings, self.topology
        places = placement(samples, self.path_sites)
        hops = hop_rows(samples, places.hop_queue)
        rates = _port_rates(hops, places.refs)
        if topology is None:
            topology = discover(
                journeys(samples, self.flow_keys, places.site_paths, places.row_site_path),
                rates_bytes_per_s={port: rate.likely for port, rate in rates.items()},
                bounds_bytes_per_s={port: (rate.least, rate.most) for port, rate in rates.items()},
                default_rate_gbps=settings.default_rate_gbps,
                default_delay_us=settings.default_delay_us,
            )
        declared = self.topology is not None
        capacity = {
            number: topology.ports[index].rate_bytes_per_s
            for number, ref in enumerate(places.refs)
            if (index := topology.port_index.get((ref.switch, ref.port))) is not None
            # The rate of a discovered port that was never seen full is assumed: no capacity follows from it.
            and (declared or (ref.switch, ref.port) in rates)
        }
        lift = lifts(hops, capacity, len(places.refs))
        queues = queue_states(hops, places.refs, capacity, lift, (span_ns[1] - span_ns[0]) * 1e-9)
        recent = recent_samples(hops, capacity, lift, span_ns)
        del hops  # the largest array, no longer needed
        hosts = HostNames.of(self.flow_keys, topology)
        flows, receiver, bytes_by_class, flows_by_class = self._flows(samples, places, hosts)
        packet_bytes = _usual_packet(samples)
        arrivals, incast = flow_arrivals(
            samples, hosts, self.last_before_ns, places, span_ns, settings, topology, packet_bytes
        )
        return NetworkState(
            window_start_ns=span_ns[0],
            window_end_ns=span_ns[1],
            n_reports=int(samples.stands_for.sum()),
            topology=topology,
            topology_declared=declared,
            paths=places.paths,
            flows=flows,
            flow_groups=len(np.unique(receiver * len(places.paths) + flows.path)),
            queues=queues,
            arrivals=arrivals,
            bytes_by_class=bytes_by_class,
            flows_by_class=flows_by_class,
            dominant_class=dominant_class(bytes_by_class),
            packet_bytes=packet_bytes,
            incast=incast,
            recent=recent,
            newest_ns=_newest_by_sink(samples.ts_ns, places.site_paths, places.row_site_path),
        )

    def _flows(
        self, samples: Samples, places: Placement, hosts: HostNames
    ) -> tuple[FlowTable, NDArray[np.int64], dict[FlowClass, float], dict[FlowClass, int]]:
        """The flows, each flow's receiver by number in ``hosts``, and bytes and flows by class."""
        settings, (start_ns, end_ns) = self.settings, self.span_ns
        own = np.flatnonzero(samples.flow >= 0)
        used, flow = np.unique(samples.flow[own], return_inverse=True)
        n = len(used)
        window_bytes = np.bincount(flow, samples.true_bytes[own], minlength=n).astype(np.float64)
        period = (samples.ts_ns[own] - settings.origin_ns) // settings.period_ns
        first_period = (start_ns - settings.origin_ns) // settings.period_ns
        n_periods = int((end_ns - 1 - settings.origin_ns) // settings.period_ns - first_period) + 1
        cells = np.unique(flow * n_periods + (period - first_period))
        classes = classify(
            window_bytes,
            np.bincount(cells // n_periods, minlength=n),
            n_periods=n_periods,
            elephant_bytes=settings.elephant_bytes,
        )
        path = _main_path(flow, places.row_path[own], samples.true_bytes[own], len(places.paths), n)
        order = np.lexsort((self.flow_fingerprint[used], -window_bytes))
        used = used[order].astype(np.int64)
        # Summed in the table's order: otherwise the last bit would depend on the order of arrival.
        bytes_by_class = np.zeros(len(FlowClass))  # bincount of no flows gives integers
        bytes_by_class += np.bincount(classes[order], window_bytes[order], minlength=len(FlowClass))
        flows_by_class = np.bincount(classes, minlength=len(FlowClass)) + self.merged_flows
        merged = np.flatnonzero(samples.flow < 0)
        bytes_by_class += np.bincount(
            -1 - samples.flow[merged], samples.true_bytes[merged], minlength=len(FlowClass)
        )
        table = FlowTable(
            keys=self.flow_keys.take(used),
            src_host=hosts.names_of(hosts.src[used]),
            dst_host=hosts.names_of(hosts.dst[used]),
            path=path[order],
            flow_class=classes[order],
            window_bytes=window_bytes[order],
            throughput_bytes_per_s=window_bytes[order] / ((end_ns - start_ns) * 1e-9),
            n_reports=np.bincount(flow, samples.stands_for[own], minlength=n).astype(np.int64)[order],
        )
        return (
            table,
            hosts.dst[used],
            {c: float(bytes_by_class[c]) for c in FlowClass},
            {c: int(flows_by_class[c]) for c in FlowClass},
        )
