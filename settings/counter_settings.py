"""The settings of counters that are taken from the switches themselves; must not ask one."""

from __future__ import annotations

from pydantic import Field

from settings.settings_section import Section
from telemetry.counters.counters import CounterSettings

_COUNTERS = CounterSettings()


class CounterPollSettings(Section):
    """Counters taken from the switches of `push.inventory` themselves ([docs/counters.md](counters.md) says
    from which platforms). They are only read: `push.enabled` need not be true.

    Each is asked every ``every_s`` seconds, ``at_once`` of them at a time. ``max_series`` ports and queues
    have room, of whatever source; each takes up to 13 kB.
    """

    poll: bool = True
    every_s: float = Field(default=10.0, ge=1, le=300)
    at_once: int = Field(default=8, ge=1, le=256)
    max_series: int = Field(default=_COUNTERS.max_series, ge=1)

    def window(self) -> CounterSettings:
        """The same for the domain."""
        return CounterSettings(max_series=self.max_series)
