"""Open-loop arrivals: flows of drawn sizes start at random, whatever the fabric does; must import nothing but
numpy, errors and this package.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from twin.errors import ParameterError
from twin.traffic.base import Traffic
from twin.traffic.checks import check_above_zero, check_share
from twin.traffic.pattern import Hosts, Seed, check_duration, check_flows, chosen_hosts, generator_of
from twin.traffic.sizes import SizeDistribution


@dataclass(frozen=True, kw_only=True)
class Poisson:
    """Every sender starts flows as a Poisson process of its own, each to any receiver but itself.

    ``load`` is the mean share of a sender's line rate, in bytes on the wire: payload and an overhead a
    packet. Receivers fewer than senders are loaded more than that. Sizes above ``largest_bytes`` are cut down
    to it and the arrivals grow to keep the load.
    """

    load: float = 0.5
    sizes: SizeDistribution
    largest_bytes: float | None = None
    senders: tuple[int, ...] | None = None
    receivers: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        check_share("poisson load", self.load)
        if self.largest_bytes is not None:
            check_above_zero("poisson largest_bytes", self.largest_bytes)

    def traffic(self, hosts: Hosts, *, duration_s: float, seed: Seed) -> Traffic:
        """The arrivals of [0, ``duration_s``)."""
        check_duration(duration_s)
        generator = generator_of(seed)
        senders = chosen_hosts("poisson senders", self.senders, hosts)
        receivers = chosen_hosts("poisson receivers", self.receivers, hosts)
        if len(receivers) == 1 and receivers[0] in senders:
            raise ParameterError(
                "poisson receivers",
                f"only host {receivers[0]}, a sender too",
                "every sender has a receiver other than itself",
                "name another receiver or take it from the senders",
            )
        sizes = self.sizes if self.largest_bytes is None else self.sizes.capped(self.largest_bytes)
        overhead = sizes.mean_packets(hosts.mtu_payload_bytes) * hosts.wire_overhead_bytes
        flows_per_s = len(senders) * self.load * hosts.nic_bytes_per_s / (sizes.mean_bytes + overhead)
        # Given their number, the arrivals of a Poisson process are uniform over the time.
        check_flows("poisson", flows_per_s * duration_s)
        count = int(generator.poisson(flows_per_s * duration_s))
        src = senders[generator.integers(len(senders), size=count)]
        return Traffic.independent(
            src,
            _others(generator, src, receivers, hosts),
            sizes.sample(generator, count),
            generator.uniform(0.0, duration_s, count),
        )


def _others(
    generator: np.random.Generator, src: NDArray[np.int64], receivers: NDArray[np.int64], hosts: Hosts
) -> NDArray[np.int64]:
    """For each sender one of the receivers, evenly, never itself."""
    place = np.full(hosts.count, len(receivers))
    place[receivers] = np.arange(len(receivers))
    own = place[src]
    drawn = generator.integers(np.where(own < len(receivers), len(receivers) - 1, len(receivers)))
    return np.asarray(receivers[drawn + (drawn >= own)], dtype=np.int64)
