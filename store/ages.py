"""The age of rows, where the wall clock may be wrong."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Column, Connection, func, select

from telemetry.settings import NS_PER_S


class Instant(NamedTuple):
    """What the wall clock and the monotonic clock say at one time."""

    wall_ns: int
    monotonic_s: float


class Uptime(NamedTuple):
    """Of a service, from its start until now."""

    began: Instant
    now: Instant

    @property
    def ran_ns(self) -> int:
        """How long it has run by the monotonic clock."""
        return round((self.now.monotonic_s - self.began.monotonic_s) * NS_PER_S)


def outdated_ns(connection: Connection, at_ns: Column[int], keep_ns: int, uptime: Uptime) -> int:
    """The time before which rows, dated by their column ``at_ns``, are older than ``keep_ns``.

    The wall clock is believed only as far as the newest row from before the service started (or the start,
    without such a row) plus the time it has run. One that is years ahead, at the start or after a step, thus
    outdates no row; rows are kept longer by the time for which none was written before the start.
    """
    newest_ns = connection.scalar(select(func.max(at_ns)).where(at_ns < uptime.began.wall_ns))
    last_ns = uptime.began.wall_ns if newest_ns is None else newest_ns
    return min(uptime.now.wall_ns, last_ns + uptime.ran_ns) - keep_ns
