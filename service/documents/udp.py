"""What became of datagrams, as a document."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from service.documents.base import Document
from service.metrics_ingest import UDP_DROPS
from service.udp.listener import Tally
from service.udp.receiver import UdpCounts


class UdpDocument(Document):
    """Datagrams since the service started; all 0 and no ``addresses`` where it listens to none.

    ``taken`` have been decoded, and their reports are in the window; ``waiting`` are in the queue. Dropped
    were those that found it full (``queue``), or the kernel's buffer (``kernel``; not among ``received``),
    that came from elsewhere than may send (``refused``), or were too long (``truncated``).
    """

    addresses: list[str]
    received: int
    taken: int
    waiting: int
    dropped: dict[str, int]

    @classmethod
    def of(cls, addresses: Iterable[str], tally: Tally | None) -> Self:
        """The document of a listener; None: there is none."""
        tally = tally or Tally(UdpCounts(), 0, 0)
        return cls(
            addresses=list(addresses),
            received=tally.counts.received,
            taken=tally.taken,
            waiting=tally.waiting,
            dropped={where: getattr(tally.counts, where) for where in UDP_DROPS},
        )
