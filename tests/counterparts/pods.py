"""A fabric of pods of any size, racks below aggregation below cores: its topology, reports and counters."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from telemetry.report import FlowKeys, HopSite, ReportBatch

BEGUN_NS = 1_800_000_000_000_000_000
QUEUE = 3


@dataclass(frozen=True)
class Pods:
    """``uplinks`` cables go from each aggregation switch to the cores in turn. The defaults are 500 switches
    with 31 920 ports over 14 000 hosts.
    """

    pods: int = 10
    racks: int = 28
    aggregation: int = 14
    cores: int = 80
    uplinks: int = 36
    hosts_a_rack: int = 50

    @property
    def hosts(self) -> int:
        return self.pods * self.racks * self.hosts_a_rack

    @cached_property
    def switches(self) -> tuple[str, ...]:
        """Racks, then aggregation switches, then cores; a pod's are in a row."""
        return (
            *(f"pod{pod}-rack{rack}" for pod in range(self.pods) for rack in range(self.racks)),
            *(f"pod{pod}-agg{one}" for pod in range(self.pods) for one in range(self.aggregation)),
            *(f"core{core}" for core in range(self.cores)),
        )

    @cached_property
    def ports(self) -> tuple[tuple[str, int], ...]:
        """Every switch port: the switch's name and the port's number."""
        n_racks, n_aggregation = self.pods * self.racks, self.pods * self.aggregation
        below = self.pods * self.aggregation * self.uplinks // self.cores
        wide = [self.hosts_a_rack + self.aggregation] * n_racks
        wide += [self.racks + self.uplinks] * n_aggregation + [below] * self.cores
        return tuple((name, port) for name, n in zip(self.switches, wide, strict=True) for port in range(n))

    def topology(self) -> dict[str, Any]:
        """The declared form; 100 Gbit/s to hosts, 400 Gbit/s above."""
        links = []

        def cable(a: str, a_port: int | None, b: str, b_port: int, gbps: int) -> None:
            above = {} if a_port is None else {"a_port": f"Ethernet{a_port}"}
            links.append(
                {"a": a, "b": b, "b_port": f"Ethernet{b_port}", "rate_gbps": gbps, "delay_us": 1} | above
            )

        for host in range(self.hosts):
            rack, port = divmod(host, self.hosts_a_rack)
            cable(f"host{host}", None, self.switches[rack], port, 100)
        for pod in range(self.pods):
            for rack in range(self.racks):
                for one in range(self.aggregation):
                    cable(
                        f"pod{pod}-rack{rack}", self.hosts_a_rack + one, f"pod{pod}-agg{one}", rack, 400
                    )  # fmt: skip
        for number, (pod, one, uplink) in enumerate(np.ndindex(self.pods, self.aggregation, self.uplinks)):
            core, port = number % self.cores, number // self.cores
            cable(f"pod{pod}-agg{one}", self.racks + uplink, f"core{core}", port, 400)
        return {
            "hosts": [{"name": f"host{host}", "ip": address(host)} for host in range(self.hosts)],
            "switches": [{"name": name} for name in self.switches],
            "links": links,
        }

    def across(self, n: int, *, flows: int, since_ns: int = 0, seed: int = 1) -> ReportBatch:
        """Reports of five hops between racks of different pods, over ``flows`` five-tuples, a µs apart."""
        random = np.random.default_rng(seed)
        of_flow = np.random.default_rng(0)
        src = of_flow.integers(self.hosts, size=flows)
        dst = (src + of_flow.integers(1, self.hosts, size=flows)) % self.hosts
        a_pod = self.racks * self.hosts_a_rack
        dst = np.where(src // a_pod == dst // a_pod, (dst + a_pod) % self.hosts, dst)
        up, uplink = (
            of_flow.integers(self.aggregation, size=flows),
            of_flow.integers(self.uplinks, size=flows),
        )
        rises = (src // a_pod * self.aggregation + up) * self.uplinks + uplink
        core = rises % self.cores
        # Cables of the receiving pod to that core: every ``cores``-th from its first.
        a_pod_has = self.aggregation * self.uplinks
        first = dst // a_pod * a_pod_has
        falls = first + (core - first) % self.cores
        falls += self.cores * of_flow.integers(max(a_pod_has // self.cores, 1), size=flows)
        down = falls // self.uplinks % self.aggregation
        n_racks, n_aggregation = self.pods * self.racks, self.pods * self.aggregation
        racks, aggregation = self.hosts_a_rack, self.racks  # the first ports that lead up
        places = (  # switch, ingress port, egress port of each hop
            (src // self.hosts_a_rack, src % self.hosts_a_rack, racks + up),
            (
                n_racks + src // a_pod * self.aggregation + up,
                src // self.hosts_a_rack % self.racks,
                aggregation + uplink,
            ),
            (n_racks + n_aggregation + core, rises // self.cores, falls // self.cores),
            (
                n_racks + dst // a_pod * self.aggregation + down,
                aggregation + falls % self.uplinks,
                dst // self.hosts_a_rack % self.racks,
            ),
            (dst // self.hosts_a_rack, racks + down, dst % self.hosts_a_rack),
        )
        hops = np.stack([(switch << 12) + (came << 6) + goes for switch, came, goes in places], axis=1)
        flow = random.integers(flows, size=n)
        used, site = np.unique(hops[flow], return_inverse=True)
        sites = tuple(
            HopSite(self.switches[code >> 12], f"Ethernet{code >> 6 & 63}", f"Ethernet{code & 63}", QUEUE)
            for code in used.tolist()
        )
        ts_ns = BEGUN_NS + since_ns + 1_000 * np.arange(n)
        return self._batch(src[flow], dst[flow], flow, ts_ns, sites, site.reshape(n, 5))

    def _batch(
        self,
        src: NDArray[np.int64],
        dst: NDArray[np.int64],
        flow: NDArray[np.int64],
        ts_ns: NDArray[np.int64],
        sites: tuple[HopSite, ...],
        site: NDArray[np.int64],
    ) -> ReportBatch:
        n, n_hops = site.shape
        random = np.random.default_rng(int(ts_ns[0] % 2**32))
        # A few queues are deep, and the same ones in every batch.
        deep = np.array([crc32(f"{one.switch} {one.egress_port}".encode()) for one in sites]) / 2**32
        depth = (4_000_000 * deep[site.ravel()] ** 12 * random.random(n * n_hops)).round()
        left_ns = np.repeat(ts_ns, n_hops)
        return ReportBatch(
            index=np.arange(n),
            ts_ns=ts_ns,
            flow=np.arange(n, dtype=np.int32),
            packet_bytes=np.full(n, 4_096),
            sampling_rate=np.full(n, 0.001),
            hop_offset=n_hops * np.arange(n + 1),
            hop_site=site.ravel().astype(np.int32),
            queue_bytes=depth,
            ingress_ns=left_ns - 700,
            egress_ns=left_ns,
            marked=(depth > 400_000).astype(np.int8),
            flow_keys=FlowKeys(
                tuple(map(address, range(self.hosts))),
                src.astype(np.int32),
                dst.astype(np.int32),
                (10_000 + flow % 50_000).astype(np.uint16),
                np.full(n, 4791, np.uint16),
                np.full(n, 17, np.uint8),
            ),
            sites=sites,
        )

    def counters(self, number: int) -> bytes:
        """The reading ``number`` of every queue's counters, ten seconds after the one before, as NDJSON."""
        random = np.random.default_rng(2)
        paused, dropped = random.random(len(self.ports)) < 0.02, random.random(len(self.ports)) < 0.005
        lines = [
            json.dumps(
                {
                    "ts_ns": BEGUN_NS + number * 10_000_000_000,
                    "switch": switch,
                    "port": f"Ethernet{port}",
                    "queue": QUEUE,
                    "pfc_pause_ns": int(is_paused) * number * 500_000_000,
                    "pfc_rx_frames": int(is_paused) * number * 900,
                    "pfc_tx_frames": 0,
                    "ecn_marked_packets": number * 1_000,
                    "dropped_packets": int(is_dropped) * number * 40,
                    "tx_packets": number * 1_000_000,
                }
            )
            for (switch, port), is_paused, is_dropped in zip(self.ports, paused, dropped, strict=True)
        ]
        return "\n".join(lines).encode()


def address(host: int) -> str:
    return f"10.{host >> 16}.{host >> 8 & 255}.{host & 255}"
