"""Rows of queue history: written, folded, pruned and read.

A row is a port in one step. A step without a row of a port counts as empty where figures are averaged, as in
a window.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    and_,
    delete,
    distinct,
    func,
    literal,
    select,
    tuple_,
)

from store.tables import queue_history as history
from store.tables import takeable, upsert, upsert_from
from telemetry.settings import NS_PER_S

MEANS = ("depth_bytes", "throughput_bytes_per_s", "marked_packets_per_s", "pause_share")


class PortStep(NamedTuple):
    """One port in one step; None: unknown. ``depth_bytes`` sums the mean depths of its queues,
    ``depth_max_bytes`` the maxima.
    """

    switch: str
    port: str
    depth_bytes: float | None
    depth_max_bytes: float | None
    throughput_bytes_per_s: float | None
    marked_packets_per_s: float | None
    pause_share: float | None


_POINT = ("at_ns", *PortStep._fields)


class PortPoint(NamedTuple):
    """A port at a time, nanoseconds since 1970."""

    at_ns: int
    step: PortStep


class Seen(NamedTuple):
    """Figures of some switches' ports over some steps: means over ports and time, the largest depth of any
    port (``depth_max_bytes``), and sums over ports of their mean throughput and marks. None: unknown.
    """

    steps: int
    ports: int
    depth_bytes: float | None
    depth_max_bytes: float | None
    throughput_bytes_per_s: float | None
    marked_packets_per_s: float | None
    pause_share: float | None


def write_step(connection: Connection, step_s: int, at_ns: int, ports: Sequence[PortStep]) -> None:
    """Writes the ports of the step at ``at_ns``, in place of an earlier write."""
    rows = [{"step_s": step_s, "at_ns": at_ns, **port._asdict()} for port in ports]
    if rows:
        connection.execute(upsert(connection, history), rows)


def fold(connection: Connection, *, from_s: int, to_s: int, within_ns: int) -> None:
    """Merges the steps of length ``from_s`` into the step of ``to_s`` that contains ``within_ns``; replaces
    an earlier merge.
    """
    since_ns = begin_ns(within_ns, to_s)
    folded = _folded(from_s, _between(since_ns, since_ns + to_s * NS_PER_S), width_s=to_s).subquery()
    source = select(literal(to_s), *(folded.c[name] for name in _POINT)).where(literal(True))
    connection.execute(upsert_from(connection, history, ["step_s", *_POINT], source))


def prune(connection: Connection, step_s: int, before_ns: int, *, most: int) -> int:
    """Removes the ``most`` oldest steps of that length before a time, each in a statement of its own: each
    has as many rows as there are ports. Returns how many.
    """
    for removed in range(most):
        at_ns = oldest_ns(connection, step_s)
        if at_ns is None or at_ns >= before_ns:
            return removed
        connection.execute(delete(history).where(history.c.step_s == step_s, history.c.at_ns == at_ns))
    return most


def oldest_ns(connection: Connection, step_s: int) -> int | None:
    found: int | None = connection.scalar(select(func.min(history.c.at_ns)).where(history.c.step_s == step_s))
    return found


def newest_ns(connection: Connection, step_s: int, *, until_ns: int) -> int | None:
    found: int | None = connection.scalar(
        select(func.max(history.c.at_ns)).where(history.c.step_s == step_s, history.c.at_ns <= until_ns)
    )
    return found


def lengths(connection: Connection) -> list[int]:
    """The step lengths in the table, in seconds; costs one index search each."""
    found: list[int] = []
    while True:
        longer = history.c.step_s > (found[-1] if found else 0)
        step_s = connection.scalar(select(func.min(history.c.step_s)).where(longer))
        if step_s is None:
            return found
        found.append(step_s)


def deepest(
    connection: Connection,
    step_s: int,
    *,
    since_ns: int,
    until_ns: int,
    switch: str | None,
    port: str | None,
    most: int,
    by: Literal["depth_bytes", "throughput_bytes_per_s"] = "depth_bytes",
) -> list[tuple[str, str]]:
    """The ports in that time, the deepest (or by throughput) on average first; where it is unknown last."""
    wanted = and_(history.c.step_s == step_s, _between(since_ns, until_ns), _of(switch, port))
    query = (
        select(history.c.switch, history.c.port)
        .where(wanted)
        .group_by(history.c.switch, history.c.port)
        .order_by(func.coalesce(func.sum(history.c[by]), -1.0).desc())
        .order_by(history.c.switch, history.c.port)
        .limit(most)
    )
    return [(row.switch, row.port) for row in connection.execute(query)]


def series(
    connection: Connection,
    step_s: int,
    *,
    width_s: int,
    since_ns: int,
    until_ns: int,
    ports: Collection[tuple[str, str]],
) -> Mapping[tuple[str, str], list[PortPoint]]:
    """These ports in order of time; ``width_s``, a multiple of the step, merges steps."""
    between = _between(since_ns, until_ns)
    found: dict[tuple[str, str], list[PortPoint]] = {one: [] for one in ports}
    if not found:
        return found
    named = tuple_(history.c.switch, history.c.port).in_(list(found))
    if width_s == step_s:
        plain = (history.c[name] for name in _POINT)
        query = select(*plain).where(history.c.step_s == step_s, between, named)
    else:
        query = _folded(step_s, between, width_s=width_s, rows=named)
    for at_ns, *step in connection.execute(query.order_by("at_ns")):
        found[step[0], step[1]].append(PortPoint(at_ns, PortStep(*step)))
    return found


def sent(
    connection: Connection, step_s: int, *, since_ns: int, until_ns: int, ports: Collection[tuple[str, str]]
) -> Iterable[Row[int, str, str, float | None]]:
    """Time, switch, port and throughput (bytes a second) of these ports."""
    columns = history.c.at_ns, history.c.switch, history.c.port, history.c.throughput_bytes_per_s
    storable = [one for one in ports if one == (takeable(one[0]), takeable(one[1]))]
    named = tuple_(history.c.switch, history.c.port).in_(storable)
    query = select(*columns).where(history.c.step_s == step_s, _between(since_ns, until_ns), named)
    return connection.execute(query)


def times(connection: Connection, step_s: int, *, since_ns: int, until_ns: int) -> list[int]:
    """When steps of that length began that have a row of any port."""
    query = select(history.c.at_ns).where(history.c.step_s == step_s, _between(since_ns, until_ns))
    return list(connection.scalars(query.distinct()))


def seen(
    connection: Connection, step_s: int, *, since_ns: int, until_ns: int, switches: Collection[str]
) -> Seen | None:
    """Figures of these switches' ports in that time; None without any row."""
    wanted = and_(
        history.c.step_s == step_s, _between(since_ns, until_ns), history.c.switch.in_(sorted(switches))
    )
    steps = connection.scalar(select(func.count(distinct(history.c.at_ns))).where(wanted))
    if not steps:
        return None
    rows = (
        select(
            func.max(history.c.depth_max_bytes).label("most"),
            func.sum(history.c.depth_bytes).label("depth"),
            _told("depth_bytes", steps).label("depth_told"),
            _mean("throughput_bytes_per_s", steps).label("throughput"),
            _mean("marked_packets_per_s", steps).label("marks"),
            func.sum(history.c.pause_share).label("paused"),
            _told("pause_share", steps).label("pause_told"),
        )
        .where(wanted)
        .group_by(history.c.switch, history.c.port)
        .subquery()
    )
    every = select(func.count(), *(func.sum(column) for column in rows.c[1:]), func.max(rows.c.most))
    ports, depth, depth_told, throughput, marks, paused, pause_told, most = connection.execute(every).one()
    return Seen(
        steps=steps,
        ports=ports,
        depth_bytes=None if depth is None else depth / int(depth_told),
        depth_max_bytes=most,
        throughput_bytes_per_s=throughput,
        marked_packets_per_s=marks,
        pause_share=None if paused is None else paused / int(pause_told),
    )


def begin_ns(at_ns: int, step_s: int) -> int:
    """The begin of the step of that length that contains a time."""
    return at_ns // (step_s * NS_PER_S) * step_s * NS_PER_S


def _folded(
    step_s: int, between: ColumnElement[bool], *, width_s: int, rows: ColumnElement[bool] | None = None
) -> Select[Any]:
    """Steps merged to ``width_s``: means over all of them, also those without a row of the port."""
    width_ns = literal(width_s * NS_PER_S)
    wanted = and_(history.c.step_s == step_s, between)
    bucket = history.c.at_ns // width_ns * width_ns
    each = select(history.c.at_ns).where(wanted).distinct().subquery()  # in the key's order: not sorted
    steps = (
        select((each.c.at_ns // width_ns * width_ns).label("began_ns"), func.count().label("steps"))
        .group_by("began_ns")  # not called at_ns, which is also a column's name
        .subquery()
    )
    means = {name: _mean(name, steps.c.steps) for name in MEANS}
    figures = means | {"depth_max_bytes": func.max(history.c.depth_max_bytes)}
    query = (
        select(
            steps.c.began_ns.label("at_ns"),
            history.c.switch,
            history.c.port,
            *(figures[name].label(name) for name in PortStep._fields[2:]),
        )
        .join_from(history, steps, steps.c.began_ns == bucket)
        .where(wanted)
        .group_by(steps.c.began_ns, steps.c.steps, history.c.switch, history.c.port)
    )
    return query if rows is None else query.where(rows)


def _told(name: str, steps: int | ColumnElement[int]) -> Any:
    """In how many of these steps a port's figure is known: without a row it is 0."""
    return steps - func.count() + func.count(history.c[name])


def _mean(name: str, steps: int | ColumnElement[int]) -> ColumnElement[Any]:
    return func.sum(history.c[name]) / func.nullif(_told(name, steps), 0)


def _between(since_ns: int, until_ns: int) -> ColumnElement[bool]:
    return and_(history.c.at_ns >= since_ns, history.c.at_ns < until_ns)


def _of(switch: str | None, port: str | None) -> ColumnElement[bool]:
    return and_(
        literal(True),
        *(
            column == takeable(name)
            for column, name in ((history.c.switch, switch), (history.c.port, port))
            if name is not None
        ),
    )
