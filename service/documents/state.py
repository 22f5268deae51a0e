"""What the state says of receivers and ports; null wherever a device does not tell a figure."""

from __future__ import annotations

from typing import Self

from service.documents.base import Document, Figure
from telemetry.counters.counter_rates import PortRates, Rates
from telemetry.state import Incast


class IncastDocument(Document):
    """One receiver: ``degree`` is the most senders that had a message to it under way at the same moment of
    the window, ``senders`` how many there were in all of it.
    """

    receiver: str
    degree: int
    senders: int

    @classmethod
    def of(cls, incast: Incast) -> Self:
        """The document of one receiver's incast."""
        return cls(receiver=incast.receiver, degree=incast.degree, senders=incast.senders)


class RatesDocument(Document):
    """What counters say of now: share of time paused by PFC, then events a second; null where not told."""

    pause_share: Figure
    pfc_rx_frames_per_s: Figure
    pfc_tx_frames_per_s: Figure
    ecn_marked_per_s: Figure
    cnp_per_s: Figure
    drops_per_s: Figure
    wred_drops_per_s: Figure


class QueueRatesDocument(RatesDocument):
    """The counters of one queue."""

    queue: int

    @classmethod
    def of(cls, queue: int, rates: Rates) -> Self:
        """The document of one queue's rates."""
        return cls(queue=queue, **rates._asdict())


class PortDocument(RatesDocument):
    """The counters of one port over ``covered_s``: as paused as its most paused queue, all else added up."""

    switch: str
    port: str
    covered_s: float
    queues: list[QueueRatesDocument]

    @classmethod
    def of(cls, port: PortRates) -> Self:
        """The document of one port's rates."""
        return cls(
            switch=port.switch,
            port=port.port,
            covered_s=port.covered_s,
            queues=[QueueRatesDocument.of(number, rates) for number, rates in port.queues.items()],
            **port.rates._asdict(),
        )


def worst_first(port: PortRates) -> tuple[float, float, str, str]:
    """Sorts ports by what hurts: lost packets, then pauses."""
    rates = port.rates
    return -(rates.drops_per_s or 0.0), -(rates.pause_share or 0.0), port.switch, port.port
