"""What keeps priorities lossless at the ports of a switch, and the interface of adapters that can read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from twin.watermark import Watermark


@dataclass(frozen=True, slots=True, kw_only=True)
class LosslessPriority:
    """A priority on which PFC is on at one port; what is None is not known.

    ``queue`` is its egress queue. The port sends pauses once it holds ``xoff_bytes`` received of it: a fixed
    threshold where ``alpha`` is None, else the highest that a dynamic one gets, in a pool of ``pool_bytes``
    that nothing else fills. ``headroom_bytes`` is the room for what arrives after that.
    """

    priority: int
    queue: int | None = None
    xoff_bytes: int | None = None
    alpha: float | None = None
    pool_bytes: int | None = None
    headroom_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LosslessPort:
    """``priorities`` are all on which PFC is on. Queues and DSCPs without an entry are not known.

    ``watermarks`` are those configured, by queue; None: it does not mark. ``strict`` says of a queue whether
    it is served before all others, ``queue_of_dscp`` where packets of a DSCP go.
    """

    port: str
    priorities: tuple[LosslessPriority, ...] = ()
    watermarks: Mapping[int, Watermark | None] = field(default_factory=dict)
    strict: Mapping[int, bool] = field(default_factory=dict)
    queue_of_dscp: Mapping[int, int] = field(default_factory=dict)
    rate_gbps: float | None = None
    mtu_bytes: int | None = None
    cable_m: float | None = None

    @property
    def pfc(self) -> frozenset[int]:
        return frozenset(one.priority for one in self.priorities)


@dataclass(frozen=True, slots=True)
class LosslessReading:
    """Ports of the inventory that are not shut down. ``read_ns`` is wall-clock nanoseconds since 1970."""

    switch: str
    read_ns: int
    ports: tuple[LosslessPort, ...]


@runtime_checkable
class ReadsLossless(Protocol):
    """An adapter that also reads this; it may be asked in any thread, as ``SwitchAdapter``."""

    def read_lossless(self) -> LosslessReading:
        """Reads the configuration in force; raises ``SwitchError`` only, as ``SwitchAdapter.read``."""


def dynamic_xoff_bytes(alpha: float, pool_bytes: int, reserved_bytes: int = 0) -> int:
    """The highest dynamic threshold: alpha × what is free, of a pool that only this ingress fills."""
    return reserved_bytes + int(pool_bytes * alpha / (1 + alpha))
