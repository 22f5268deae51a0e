"""The interface of switch adapters, and its values.

A change goes stage → apply → verify → confirm, and back by rollback. Staging computes and checks, and sets
nothing. The ``StagedChange`` holds all that a later step needs: that step may run in another process after a
crash, and a second time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

from switches.errors import CapabilityError
from switches.units import WatermarkUnits
from twin.watermark import Watermark

_TINY = 1e-9  # a probability may have been converted to text and back

Wanted: TypeAlias = Callable[[str, int], bool]
"""The queues, by port and number, that a look at a switch is about: those of the inventory; for an undo those
of its change, whatever has become of the inventory and of other queues.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """``writes`` False: it records and never sets a device. ``reads`` False: it asks none either, and a
    reading is what the settings say. ``per`` is the object that holds a watermark on the platform; ``units``
    how it is written there. ``atomic``: all three values change at one moment. ``dead_man``: a change that is
    not confirmed undoes itself. ``undo`` and ``read_back`` describe in a phrase how a change is taken back,
    and the source of a reading. ``one_for_all`` says why ports of a role cannot run a watermark of their own;
    empty: they can.
    """

    kind: str
    writes: bool
    reads: bool = True
    per: Literal["switch", "profile", "port", "queue"] = "queue"
    units: WatermarkUnits = field(default_factory=WatermarkUnits)
    atomic: bool = True
    dead_man: bool = False
    undo: str = "the old values are written again"
    read_back: str = "what runs"
    one_for_all: str = "its adapter sets one watermark for all ports of a switch"


@dataclass(frozen=True, slots=True)
class QueueWatermark:
    """One egress queue's watermark; None: it does not mark (ECN is off).

    ``port`` names the port, or the platform's object that holds the watermark (a profile, a traffic class).
    """

    port: str
    queue: int
    watermark: Watermark | None


@dataclass(frozen=True, slots=True)
class Reading:
    """What a switch runs. ``read_ns`` is wall-clock nanoseconds since 1970.

    ``watermark`` is that of all queues: None where it is unknown, or where they differ. ``queues`` is empty
    where the adapter cannot tell them apart.
    """

    switch: str
    watermark: Watermark | None
    read_ns: int
    queues: tuple[QueueWatermark, ...] = ()

    @classmethod
    def of(cls, switch: str, queues: Iterable[QueueWatermark], read_ns: int) -> Reading:
        found = tuple(queues)
        marks = {queue.watermark for queue in found}
        return cls(switch, marks.pop() if len(marks) == 1 else None, read_ns, found)

    @property
    def usual(self) -> Watermark | None:
        """The watermark of all queues, or of most of them (the lowest of equally common ones)."""
        if self.watermark is not None:
            return self.watermark
        counted = Counter(queue.watermark for queue in self.queues if queue.watermark is not None)
        return min(counted, key=lambda mark: (-counted[mark], mark), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedChange:
    """A checked change not yet made.

    ``id`` is the caller's name for it, unique among all changes; sessions and checkpoints on the device are
    named after it. ``asked`` is the watermark wanted and ``after`` the one the device will hold, rounded to
    its units; ``notes`` explain a difference. ``before`` has each queue of the change as it was, and ``diff``
    shows the change to a person. ``undo`` is the platform's record of the old state as JSON values without
    secrets: another process can roll back with it. A change by port role has ``parts``, a change for the
    ports of each role; its ``after`` is that of most of its queues. Raises ``CapabilityError`` for a change
    of no queue.
    """

    id: str
    switch: str
    asked: Watermark
    after: Watermark
    before: tuple[QueueWatermark, ...]
    diff: str
    notes: tuple[str, ...] = ()
    undo: Mapping[str, Any] = field(default_factory=dict)
    parts: tuple[StagedChange, ...] = ()

    def __post_init__(self) -> None:
        if not self.before:
            rule = "a change is about at least one egress queue"
            remedy = "correct queues and ports of the inventory, or set the queue up on the switch"
            raise CapabilityError(f"switch {self.switch!r}", None, rule, remedy)

    @property
    def ran(self) -> Watermark | None:
        """The watermark of all its queues before: None where they differed or did not mark."""
        marks = {queue.watermark for queue in self.before}
        return marks.pop() if len(marks) == 1 else None

    @property
    def changes(self) -> bool:
        if self.parts:
            return any(part.changes for part in self.parts)
        return any(queue.watermark != self.after for queue in self.before)

    def made_in(self, reading: Reading) -> bool:
        """Whether each of its queues runs ``after``."""
        if self.parts:
            return all(part.made_in(reading) for part in self.parts)
        running = _by_queue(reading)
        return all(alike(running.get((queue.port, queue.queue)), self.after) for queue in self.before)

    def its_queues(self) -> Wanted:
        """What its undo looks at."""
        own = {(queue.port, queue.queue) for queue in self.before}
        return lambda port, queue: (port, queue) in own

    def left_in(self, reading: Reading) -> tuple[QueueWatermark, ...]:
        """Its queues as they were, but for those that the switch no longer has."""
        running = _by_queue(reading)
        return tuple(queue for queue in self.before if (queue.port, queue.queue) in running)

    def undone_in(self, reading: Reading) -> bool:
        """Whether each of its queues that is left runs what it did before.

        False where none is left: an answer without queues is not that of a switch which was put back.
        """
        running, left = _by_queue(reading), self.left_in(reading)
        return bool(left) and all(alike(running[queue.port, queue.queue], queue.watermark) for queue in left)

    def explains(self, reading: Reading) -> bool:
        """Whether each of its queues is there, and runs values from before and after only: nobody else has
        set them.

        A change made in part leaves such a mix. A queue that did not mark before may have any of ``after``.
        """
        return self.left_in(reading) == self.before and self.explains_left(reading)

    def explains_left(self, reading: Reading) -> bool:
        """The same of those of its queues that are left: one that is gone holds nobody's value."""
        running = _by_queue(reading)
        for queue in self.left_in(reading):
            now = running[queue.port, queue.queue]
            if now is None or alike(now, queue.watermark):
                if now is None and queue.watermark is not None:
                    return False
                continue
            known = [mark for mark in (queue.watermark, self.after) if mark is not None]
            for name in ("kmin_bytes", "kmax_bytes", "pmax"):
                if all(abs(getattr(now, name) - getattr(mark, name)) > _TINY for mark in known):
                    return False
        return True


class SwitchAdapter(Protocol):
    """One switch. Methods block (they run in threads, one at a time for a switch) and raise ``SwitchError``
    only: ``UnreachableError`` where a retry may help, within the device's ``timeout_s``.
    """

    switch: str

    def capabilities(self) -> Capabilities:
        """Does not ask the device."""

    def read(self) -> Reading:
        """What the switch runs now: the hardware where it can be read, else the configuration."""

    def stage(self, watermark: Watermark, change_id: str) -> StagedChange:
        """Checks the change against the platform and what runs, rounds it, and writes its diff."""

    def apply(self, change: StagedChange) -> None:
        """Makes a staged change, under the platform's dead-man timer where it has one.

        Does nothing if it is made already. Raises ``ConcurrentEditError``, and sets nothing, where the switch
        runs values that are neither from this change nor from before it; ``BusyError`` where somebody else is
        configuring the switch, such as under a lock: a retry may help.
        """

    def verify(self, change: StagedChange) -> Reading:
        """Reads back what was applied; raises ``ReadBackError`` where it is not ``change.after``."""

    def confirm(self, change: StagedChange) -> None:
        """Stops the dead-man timer: the change stays. Does nothing without one."""

    def rollback(self, change: StagedChange) -> None:
        """Restores each queue to what it ran before the change, and reads that back.

        Looks at no other queue, and passes over one that the switch no longer has. Does nothing where the
        old values run already. Raises ``ConcurrentEditError``, and sets nothing, where somebody else has set
        these queues since, also to what is no watermark; ``BusyError`` as ``apply``; ``ReadBackError`` where
        the old values do not take; ``GoneError`` where no queue is left. Only the first ends the undo: the
        others are tried again.
        """

    def close(self) -> None:
        """Closes connections; the next call opens them anew."""


def _by_queue(reading: Reading) -> dict[tuple[str, int], Watermark | None]:
    return {(queue.port, queue.queue): queue.watermark for queue in reading.queues}


def alike(now: Watermark | None, wanted: Watermark | None, rounding_bytes: int = 0) -> bool:
    """Whether one may be read back for the other where hardware rounds thresholds by ``rounding_bytes``."""
    if now is None or wanted is None:
        return now is wanted
    return (
        abs(now.kmin_bytes - wanted.kmin_bytes) <= rounding_bytes
        and abs(now.kmax_bytes - wanted.kmax_bytes) <= rounding_bytes
        and abs(now.pmax - wanted.pmax) <= _TINY
    )
