"""What a switch adapter answers and the values it trades in; may import nothing of twin but the watermark.

A change goes stage → apply → verify, and back by rollback. Staging computes and checks, and touches nothing.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Protocol

from twin.watermark import Watermark


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What an adapter can do. ``writes`` False: it records and never touches a device."""

    kind: str
    writes: bool
    kmin_step_bytes: int = 1
    kmax_step_bytes: int = 1
    pmax_step: float = 0.0


@dataclass(frozen=True, slots=True)
class QueueWatermark:
    """What one egress queue runs."""

    port: str
    queue: int
    watermark: Watermark


@dataclass(frozen=True, slots=True)
class Reading:
    """What a switch runs. ``read_ns`` is wall-clock nanoseconds since 1970.

    ``watermark`` is what all of it runs: None where that is not known, or where its queues differ. ``queues``
    are the egress queues one by one, empty where the adapter cannot tell them apart.
    """

    switch: str
    watermark: Watermark | None
    read_ns: int
    queues: tuple[QueueWatermark, ...] = ()

    @property
    def usual(self) -> Watermark | None:
        """What all of it runs, else what most of its queues run (the lowest, where two are as common)."""
        if self.watermark is not None or not self.queues:
            return self.watermark
        counted = Counter(queue.watermark for queue in self.queues)
        return min(counted, key=lambda mark: (-counted[mark], mark))


@dataclass(frozen=True, slots=True)
class StagedChange:
    """A checked change not yet made, with a unified diff: from ``before`` (None: unknown, or queues that
    differ) to ``after``.
    """

    number: int
    switch: str
    before: Watermark | None
    after: Watermark
    diff: str


class SwitchAdapter(Protocol):
    """One switch. Methods block (the service calls them from a thread) and raise ``SwitchError`` only."""

    switch: str

    def capabilities(self) -> Capabilities:
        """What this adapter can do, without asking the device."""
        ...

    def read(self) -> Reading:
        """What the switch runs now."""
        ...

    def stage(self, watermark: Watermark) -> StagedChange:
        """Checks the change against the capabilities and the running value, and writes its diff."""
        ...

    def apply(self, change: StagedChange) -> None:
        """Makes a staged change. Raises ``StageError`` for one that is not the latest this adapter staged."""
        ...

    def verify(self, change: StagedChange) -> Reading:
        """Reads back what was applied. Raises ``ReadBackError`` where it differs from ``change.after``."""
        ...

    def rollback(self, change: StagedChange) -> None:
        """Returns to what ran before the change, queue by queue where they differed."""
        ...
