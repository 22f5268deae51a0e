"""The adapter that sets no device, and records what it would have set.

Over the adapter of a real switch it reads and stages as that does, so the diff is real. Without one it stands
for a switch that runs the watermark in the settings.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

from switches.adapter import staged, watermark_diff
from switches.base import Capabilities, QueueWatermark, Reading, StagedChange, SwitchAdapter
from switches.device import Device
from twin.watermark import Watermark

WHOLE = "all ports"


@dataclass(frozen=True, slots=True)
class DryRunRecord:
    """``action`` is ``set`` or ``undo``; ``watermark`` None means unknown."""

    action: str
    watermark: Watermark | None
    recorded_ns: int
    diff: str


class DryRunAdapter:
    """``clock_ns`` gives wall-clock nanoseconds since 1970; ``over`` is the real adapter; the newest ``keep``
    records are kept.
    """

    def __init__(
        self,
        device: Device,
        *,
        clock_ns: Callable[[], int],
        over: SwitchAdapter | None = None,
        keep: int = 100,
    ) -> None:
        self.switch = device.name
        self._running = device.running
        self._queue = device.queues[0]
        self._clock_ns = clock_ns
        self._over = over
        self._records: deque[DryRunRecord] = deque(maxlen=keep)

    @property
    def records(self) -> tuple[DryRunRecord, ...]:
        """The records, oldest first."""
        return tuple(self._records)

    def capabilities(self) -> Capabilities:
        if self._over is None:
            return Capabilities(
                kind="dry-run",
                writes=False,
                reads=False,
                per="switch",
                undo="nothing was set",
                read_back="the settings",
                one_for_all="",
            )
        return replace(self._over.capabilities(), writes=False)

    def read(self) -> Reading:
        if self._over is not None:
            return self._over.read()
        return Reading(self.switch, self._running, self._clock_ns())

    def stage(self, watermark: Watermark, change_id: str) -> StagedChange:
        if self._over is not None:
            return self._over.stage(watermark, change_id)
        queue = QueueWatermark(WHOLE, self._queue, self._running)
        return staged(change_id, Reading.of(self.switch, (queue,), self._clock_ns()), watermark)

    def apply(self, change: StagedChange) -> None:
        self._records.append(DryRunRecord("set", change.after, self._clock_ns(), change.diff))

    def verify(self, change: StagedChange) -> Reading:
        queues = (QueueWatermark(queue.port, queue.queue, change.after) for queue in change.before)
        return Reading.of(self.switch, queues, self._clock_ns())

    def confirm(self, change: StagedChange) -> None:
        """Nothing to do: nothing was set."""

    def rollback(self, change: StagedChange) -> None:
        self._records.append(DryRunRecord("undo", change.ran, self._clock_ns(), _reverse(change)))

    def close(self) -> None:
        if self._over is not None:
            self._over.close()


def _reverse(change: StagedChange) -> str:
    if change.ran is None:
        return ""
    now = [QueueWatermark(queue.port, queue.queue, change.after) for queue in change.before]
    return watermark_diff(change.switch, now, change.ran)
