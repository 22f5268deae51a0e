"""The age of rows, where the wall clock may be wrong."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Column, Connection, func, select


class Uptime(NamedTuple):
    """Of a service: the wall clock at its start and now, and how long it has run by the monotonic clock."""

    began_ns: int
    now_ns: int
    ran_ns: int


def outdated_ns(connection: Connection, at_ns: Column[int], keep_ns: int, uptime: Uptime) -> int:
    """The time before which rows, dated by their column ``at_ns``, are older than ``keep_ns``.

    The wall clock is believed only as far as the newest row from before the service started (or the start,
    without such a row) plus the time it has run. One that is years ahead, at the start or after a step, thus
    outdates no row; rows are kept longer by the time for which none was written before the start.
    """
    newest_ns = connection.scalar(select(func.max(at_ns)).where(at_ns < uptime.began_ns))
    last_ns = uptime.began_ns if newest_ns is None else newest_ns
    return min(uptime.now_ns, last_ns + uptime.ran_ns) - keep_ns
