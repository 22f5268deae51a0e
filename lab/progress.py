"""How far a lab has come, as lines of text."""

from __future__ import annotations

from collections.abc import Callable

from lab.control import Lab
from lab.documents import LabDocument
from twin.units import duration_text

_UNITS = ((86_400.0, "days"), (3_600.0, "h"), (60.0, "min"))


class LabProgress:
    """Reports progress every ``every_s`` of ``clock_s``, with the pace since the last report."""

    def __init__(
        self, tell: Callable[[LabDocument, str], None], *, every_s: float, clock_s: Callable[[], float]
    ) -> None:
        self._tell = tell
        self._every_s = every_s
        self._clock_s = clock_s
        self._told_s = clock_s()
        self._came_s = 0.0  # simulated

    def __call__(self, lab: Lab) -> None:
        """Reports progress if it is due; call it often."""
        took_s = self._clock_s() - self._told_s
        if took_s < self._every_s:
            return
        status = lab.document()
        came_s = status.now_s - self._came_s
        self._told_s, self._came_s = self._told_s + took_s, status.now_s
        self._tell(status, progress_line(status, came_s / took_s if took_s > 0 else 0.0))


def progress_line(status: LabDocument, pace: float) -> str:
    """``pace``: simulated seconds a second."""
    line = f"{duration_text(status.now_s)} of {duration_text(status.duration_s)} simulated"
    if pace > 0 and not status.ended:
        left = _roughly((status.duration_s - status.now_s) / pace)
        line += f", {duration_text(pace)} a second, about {left} left"
    reports = status.reports
    line += f"; {status.flows_completed} flows completed, {reports.made} reports"
    if reports.posted:
        line += f", {reports.posted} of them posted"
    return line if reports.waits_for is None else f"{line}; reports wait: {reports.waits_for}"


def _roughly(left_s: float) -> str:
    """Whole seconds, minutes, hours or days."""
    for unit_s, name in _UNITS:
        if left_s >= 2 * unit_s:
            return f"{left_s / unit_s:.0f} {name}"
    return f"{left_s:.0f} s"
