"""What a tuner is: told the fabric once, shown one interval at a time, it answers with settings."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from telemetry.topology import GBPS, Topology
from twin.packet.results import Samples
from twin.scenario import FabricSizes
from twin.senders.dcqcn import DcqcnParams
from twin.watermark import Watermark

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


class Looks(Enum):
    """What a tuner looks at; the harness collects no more, as exact flows double the cost of a run."""

    NOTHING = "nothing"  # ``act`` is never called
    COUNTERS = "counters"
    FLOWS = "flows"  # and ``Seen.flows``, ``Seen.samples``


@dataclass(frozen=True, kw_only=True)
class FabricFacts:
    """What an operator knows beforehand.

    ``queues`` are the egress ports of switches, as indices into ``topology.ports``: one column of ``Seen``
    and one watermark of ``Settings`` each, in this order. ``act`` is called every ``interval_s``; what it
    returns runs ``delay_s`` later. ``sampling`` is the share of packets behind ``Seen.flows``, 1 where flows
    are exact. ``incumbent`` is the watermark of each queue before the tuner came. ``sets_senders``: whether
    ``Settings.dcqcn`` can be applied.
    """

    topology: Topology
    sizes: FabricSizes
    dcqcn: DcqcnParams
    queues: tuple[int, ...]
    interval_s: float
    delay_s: float
    sampling: float
    incumbent: tuple[Watermark, ...]
    sets_senders: bool = True

    @cached_property
    def rate_bytes_per_s(self) -> Floats:
        return np.array([self.topology.ports[port].rate_bytes_per_s for port in self.queues])

    @cached_property
    def switch(self) -> tuple[str, ...]:
        return tuple(self.topology.ports[port].node for port in self.queues)

    @cached_property
    def to_host(self) -> NDArray[np.bool_]:
        return np.array(
            [self.topology.ports[port].peer not in self.topology.switch_names for port in self.queues],
            dtype=np.bool_,
        )

    @cached_property
    def base_rtt_s(self) -> float:
        """Round trip of a full packet and its acknowledgement between the first and the last host, alone."""
        first, last = self.topology.hosts[0].name, self.topology.hosts[-1].name
        path = [self.topology.ports[port] for port in self.topology.path(first, last, 0)]
        wire_bytes = self.sizes.packet_wire_bytes + self.sizes.ack_wire_bytes
        return sum(2.0 * port.delay_s + wire_bytes / port.rate_bytes_per_s for port in path)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SeenFlows:
    """Flows at the queues they cross, one row a flow and queue, of those seen within the last 10 ms.

    ``queue`` is the row of ``FabricFacts.queues``, so its switch's table is a selection of rows; ``src`` and
    ``dst`` number ``topology.hosts``; ``payload_bytes`` have been delivered so far, scaled up where packets
    are sampled; ``last_s`` is when the last packet left the queue.
    """

    flow: Counts
    queue: Counts
    src: Counts
    dst: Counts
    payload_bytes: Floats
    last_s: Floats

    def __len__(self) -> int:
        return len(self.flow)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Seen:
    """One interval, as far as the observation budget shows it; arrays have an entry a queue.

    ``paused_s`` is how long a queue was stopped by its cable's far end, ``pausing_s`` how long its port
    stopped that far end, with ``pauses_sent``. ``watermarks`` ran at its end, as did ``dcqcn`` at the
    senders. ``flows`` and ``samples`` (its INT reports) are None for a tuner that does not look at flows.
    """

    begin_s: float
    end_s: float
    depth_mean_bytes: Floats
    depth_peak_bytes: Floats
    sent_bytes: Floats
    marked_bytes: Floats
    dropped_packets: Counts
    paused_s: Floats
    pausing_s: Floats
    pauses_sent: Counts
    watermarks: tuple[Watermark, ...]
    dcqcn: DcqcnParams
    flows: SeenFlows | None = None
    samples: Samples | None = None

    @property
    def lasted_s(self) -> float:
        return self.end_s - self.begin_s


@dataclass(frozen=True, slots=True)
class Settings:
    """A watermark a queue, in the order of ``FabricFacts.queues``; of tuners of senders also ``dcqcn``."""

    watermarks: tuple[Watermark, ...]
    dcqcn: DcqcnParams | None = None

    @classmethod
    def flat(cls, facts: FabricFacts, watermark: Watermark, dcqcn: DcqcnParams | None = None) -> Settings:
        return cls((watermark,) * len(facts.queues), dcqcn)


class Tuner(Protocol):
    """A tuner; subclass it for its defaults. The same facts, seed and sights give the same settings.

    ``exploring``: whether what it asked for last is a trial; ``exchanged_bytes``: what its parts have sent
    each other so far.
    """

    looks: ClassVar[Looks] = Looks.COUNTERS
    exploring: bool = False
    exchanged_bytes: int = 0

    def begin(self, facts: FabricFacts, seed: int) -> Settings:
        """The settings to start with, at once; forgets what an earlier run left behind, except training."""
        ...

    def act(self, seen: Seen) -> Settings:
        """The settings to run from ``FabricFacts.delay_s`` after the end of ``seen`` on."""
        ...


def by_rate(
    rates_bytes_per_s: Floats, kmin_bytes: float, kmax_bytes: float, pmax: float
) -> tuple[Watermark, ...]:
    """A watermark a queue, its thresholds in proportion to the rate: those given at 25 Gbit/s."""
    at = 25.0 * GBPS
    return tuple(
        Watermark(round(kmin_bytes * rate / at), round(kmax_bytes * rate / at), pmax)
        for rate in rates_bytes_per_s
    )
