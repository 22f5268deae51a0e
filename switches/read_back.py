"""Reads a change back until it shows, or its time is over."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from switches.base import Reading, StagedChange
from switches.device import Device
from switches.errors import ReadBackError

FoundT = TypeVar("FoundT")

_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 1.0


@dataclass(frozen=True, slots=True)
class Waiting:
    """The clock and sleep of polling; tests replace them."""

    monotonic_s: Callable[[], float] = time.monotonic
    sleep_s: Callable[[float], None] = time.sleep

    def until(self, within_s: float) -> Iterator[None]:
        """Yields at least once, then after growing pauses, until the time is over."""
        end_s = self.monotonic_s() + within_s
        pause_s = _FIRST_PAUSE_S
        while True:
            yield
            left_s = end_s - self.monotonic_s()
            if left_s <= 0:
                return
            self.sleep_s(min(pause_s, left_s))
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)


def made(
    change: StagedChange, read: Callable[[], Reading], device: Device, waiting: Waiting | None = None
) -> Reading:
    """A reading in which every queue runs ``change.after``; raises ``ReadBackError``.

    With ``waiting`` it polls until the device's ``settle_s`` is over.
    """
    for _ in _rounds(device, waiting):
        found = read()
        if change.made_in(found):
            return found
    raise ReadBackError(
        device.where,
        str(found.watermark) if found.watermark is not None else "queues that differ, or do not mark",
        f"after applying, every queue must run {change.after}",
        "check for others who set this switch, and its own log",
    )


def undone(
    change: StagedChange, read: Callable[[], Reading], device: Device, waiting: Waiting | None = None
) -> None:
    """Polls as ``made``; raises ``ReadBackError`` where a queue does not run what it did before."""
    for _ in _rounds(device, waiting):
        found = read()
        if change.undone_in(found):
            return
    raise ReadBackError(
        device.where,
        str(found.watermark) if found.watermark is not None else "queues that differ, or do not mark",
        "after rolling back, every queue must run what it did before",
        "check the switch's own log, and set the old values by hand",
    )


def settled(
    look: Callable[[], FoundT], unsettled: Callable[[FoundT], str | None], device: Device, waiting: Waiting
) -> FoundT:
    """Polls ``look`` until hardware runs the configuration: a change from another state could not be undone
    to it.

    ``unsettled`` names what does not run yet, None for nothing; raises ``ReadBackError`` after the device's
    ``timeout_s``.
    """
    lagging: str | None = None
    for _ in waiting.until(device.timeout_s):
        now = look()
        lagging = unsettled(now)
        if lagging is None:
            return now
    raise ReadBackError(
        device.where,
        lagging,
        "hardware runs what is configured before that is changed",
        "check the switch's own log, or give units.cell_bytes where hardware rounds thresholds",
    )


def _rounds(device: Device, waiting: Waiting | None) -> Iterator[None]:
    return iter((None,)) if waiting is None else waiting.until(device.settle_s)
