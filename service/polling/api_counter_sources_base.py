"""What a source of counters is, and how it fails; must not know any platform."""

from __future__ import annotations

from typing import Protocol

from switches.errors import SwitchError
from telemetry.decode.polled import Polled


class NoCountersError(SwitchError):
    """The switch answers, and has no counters of the ports and queues that are wanted."""

    reason = "no_counters"


class Reader(Protocol):
    """Looks at a switch's counters, once a call. Blocks: it runs in a thread, one call at a time."""

    def read(self) -> Polled:
        """The counters now. Raises ``SwitchError`` only."""
        ...

    def abort(self) -> None:
        """Called from another thread: a ``read`` under way fails soon."""
        ...

    def close(self) -> None:
        """Lets go of connections; the next ``read`` opens them anew."""
        ...


class CounterSource(Protocol):
    """The counters of one switch as they come. Use from one event loop only."""

    switch: str
    adapter: str

    async def following(self) -> Polled:
        """The next counters, when they are due. Raises ``SwitchError``; the next call begins anew."""
        ...

    async def close(self) -> None:
        """Lets go of connections."""
        ...
