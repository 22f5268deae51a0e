"""The adapter that touches no device: it records what it would have set; must not open a connection."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from switches.base import Capabilities, Reading, StagedChange
from switches.diff import watermark_diff
from switches.errors import ReadBackError, StageError
from twin.watermark import Watermark


@dataclass(frozen=True, slots=True)
class DryRunRecord:
    """What would have happened: ``action`` is ``set`` or ``undo``; ``watermark`` None means unknown."""

    action: str
    watermark: Watermark | None
    recorded_ns: int
    diff: str


class DryRunAdapter:
    """Stands in for one switch. ``read`` keeps answering what it was said to run: nothing was written.

    ``clock_ns`` gives wall-clock nanoseconds since 1970; the newest ``keep`` records are kept, oldest first.
    """

    def __init__(
        self, switch: str, running: Watermark | None, *, clock_ns: Callable[[], int], keep: int = 100
    ) -> None:
        self.switch = switch
        self._running = running
        self._clock_ns = clock_ns
        self._records: deque[DryRunRecord] = deque(maxlen=keep)
        self._staged: StagedChange | None = None
        self._count = 0

    @property
    def records(self) -> tuple[DryRunRecord, ...]:
        """What would have been set or undone, oldest first."""
        return tuple(self._records)

    def capabilities(self) -> Capabilities:
        return Capabilities(kind="dry-run", writes=False)

    def read(self) -> Reading:
        return Reading(self.switch, self._running, self._clock_ns())

    def stage(self, watermark: Watermark) -> StagedChange:
        self._count += 1
        diff = watermark_diff(self.switch, self._running, watermark)
        self._staged = StagedChange(self._count, self.switch, self._running, watermark, diff)
        return self._staged

    def apply(self, change: StagedChange) -> None:
        self._check(change)
        self._records.append(DryRunRecord("set", change.after, self._clock_ns(), change.diff))

    def verify(self, change: StagedChange) -> Reading:
        last = self._records[-1] if self._records else None
        recorded = last.watermark if last else None
        if recorded != change.after:
            raise ReadBackError(
                f"switch {self.switch!r} (dry-run)",
                str(recorded) if recorded else "no record",
                f"after applying, the record must hold {change.after}",
                "apply the staged change first",
            )
        return Reading(self.switch, recorded, self._clock_ns())

    def rollback(self, change: StagedChange) -> None:
        self._check(change)
        self._records.append(DryRunRecord("undo", change.before, self._clock_ns(), _reverse(change)))

    def _check(self, change: StagedChange) -> None:
        if change != self._staged:
            raise StageError(
                f"switch {self.switch!r} (dry-run)",
                f"staged change {change.number}",
                "only the change staged last can be applied or undone",
                "stage it again",
            )


def _reverse(change: StagedChange) -> str:
    return "" if change.before is None else watermark_diff(change.switch, change.after, change.before)
