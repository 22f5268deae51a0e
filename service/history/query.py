"""Answers what was from the database; must not write to it, nor know HTTP."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec
from sqlalchemy import Connection

from service.documents.base import timestamp
from service.documents.history import (
    MeasuredFiguresDocument,
    OutcomeDocument,
    PastAlarmDocument,
    PastAlarmsDocument,
    ResidualDocument,
    ResidualsDocument,
)
from service.documents.recommendation import RecommendationDocument
from service.history.outcome import outcome_document, times_of
from settings.errors import UnprocessableError
from settings.sections import Steps
from store import alarm_rows, residual_rows
from store.database import Database
from store.queue_rows import NS_PER_S, PortPoint, PortStep, begin_ns, deepest, seen, series
from switches.rollout.state import RolloutState

_FIGURES = PortStep._fields[2:]
_MOST_STEPS = 10_000
MOST_POINTS = 500_000
"""Of an answer's ports in steps. About 300 MB while it is written."""


@dataclass(frozen=True, slots=True)
class Span:
    """From ``since_ns`` to before ``until_ns``, nanoseconds since 1970."""

    since_ns: int
    until_ns: int

    @property
    def length_s(self) -> float:
        """How long."""
        return (self.until_ns - self.since_ns) / NS_PER_S


class HistoryReader:
    """``steps``: what is written of queues (None: nothing); ``window_s``: how far telemetry looks back."""

    def __init__(
        self, database: Database, steps: Steps | None, *, window_s: float, wall_ns: Callable[[], int]
    ) -> None:
        self._database = database
        self._steps = steps
        self._window_s = window_s
        self._wall_ns = wall_ns

    def span(self, since_ns: int | None, until_ns: int | None, *, usual_s: float) -> Span:
        """The time that is asked for: until now, and the ``usual_s`` before that, where it is not said.

        Raises ``UnprocessableError`` where it ends before it begins.
        """
        end_ns = self._wall_ns() if until_ns is None else until_ns
        begin = end_ns - round(usual_s * NS_PER_S) if since_ns is None else since_ns
        if begin >= end_ns:
            raise UnprocessableError(
                "since and until",
                f"since {timestamp(begin)} and until {timestamp(end_ns)}",
                "a time begins before it ends",
                "give an earlier since, or a later until",
            )
        return Span(begin, end_ns)

    async def queues(
        self, span: Span, *, switch: str | None, port: str | None, most: int, ports: int
    ) -> bytes:
        """A ``QueueHistoryDocument`` in JSON, of ``ports`` at most, in ``most`` steps at most. Raises
        ``UnavailableError``, and ``UnprocessableError`` where that might be more than ``MOST_POINTS``.
        """
        if most * ports > MOST_POINTS:
            raise UnprocessableError(
                "most and queues",
                f"{most} steps of {ports} ports",
                f"an answer has at most {MOST_POINTS} of both together",
                "ask for fewer steps, or for the ports one after another",
            )
        steps = self._steps or Steps({1: 0.0})
        age_s = (self._wall_ns() - span.since_ns) / NS_PER_S
        step_s, width_s = steps.chosen(span_s=span.length_s, age_s=age_s, most=most)
        since_ns = begin_ns(span.since_ns, width_s)  # the step that began before it is of this time too

        ranked_by_s = steps.ranked_by(step_s, span_s=span.length_s)

        def read(connection: Connection) -> bytes:
            chosen: list[tuple[str, str]] = []
            for length_s in dict.fromkeys((ranked_by_s, step_s)):  # the coarser are not made at once
                chosen = chosen or deepest(
                    connection,
                    length_s,
                    since_ns=since_ns,
                    until_ns=span.until_ns,
                    switch=switch,
                    port=port,
                    most=ports,
                )
            found = series(
                connection,
                step_s,
                width_s=width_s,
                since_ns=since_ns,
                until_ns=span.until_ns,
                ports=chosen,
            )
            return _json(span, width_s, found)

        return await self._database.read(read)

    async def residuals(self, span: Span, limit: int, *, held_beyond: float) -> ResidualsDocument:
        """The newest of that time; beyond ``held_beyond`` the guard pushes nothing. Raises
        ``UnavailableError``.
        """
        rows = await self._database.read(
            lambda connection: residual_rows.listed(
                connection, since_ns=span.since_ns, until_ns=span.until_ns, limit=limit
            )
        )
        return ResidualsDocument(limit=held_beyond, residuals=[ResidualDocument.of(row) for row in rows])

    async def alarms(self, span: Span, limit: int) -> PastAlarmsDocument:
        """Those of that time, the last raised first. Raises ``UnavailableError``."""
        rows = await self._database.read(
            lambda connection: alarm_rows.listed(
                connection, since_ns=span.since_ns, until_ns=span.until_ns, limit=limit
            )
        )
        return PastAlarmsDocument(alarms=[PastAlarmDocument.of(row) for row in rows])

    async def outcome(
        self, found: RecommendationDocument, rollout: RolloutState | None, *, span_s: float
    ) -> OutcomeDocument:
        """What became of it, as far as ``span_s`` before and after. Raises ``UnavailableError``."""
        now_ns = self._wall_ns()
        if rollout is None or self._steps is None:
            await self._database.read(lambda connection: None)  # nobody is told nothing was where it is away
            return outcome_document(found, rollout, None, None, None)
        times = times_of(rollout, span_s=span_s, window_s=self._window_s, now_ns=now_ns)
        age_s = (now_ns - times.before[0]) / NS_PER_S
        step_s = self._steps.chosen(span_s=span_s, age_s=age_s, most=_MOST_STEPS).step_s

        def measured(
            connection: Connection, between: tuple[int, int] | None
        ) -> MeasuredFiguresDocument | None:
            if between is None:
                return None
            since_ns, until_ns = between
            figures = seen(connection, step_s, since_ns=since_ns, until_ns=until_ns, switches=times.switches)
            if figures is None:
                return None
            return MeasuredFiguresDocument.of(figures, since_ns=since_ns, until_ns=until_ns, step_s=step_s)

        before, after = await self._database.read(
            lambda connection: (measured(connection, times.before), measured(connection, times.after))
        )
        return outcome_document(found, rollout, times, before, after)


def _json(span: Span, step_s: int, found: Mapping[tuple[str, str], list[PortPoint]]) -> bytes:
    times = {point.at_ns for points in found.values() for point in points}
    told = {at_ns: timestamp(at_ns) for at_ns in times}
    queues = []
    for (switch, port), points in found.items():
        if not points:
            continue
        at, steps = zip(*points, strict=True)
        columns = dict(zip(PortStep._fields, zip(*steps, strict=True), strict=True))
        queues.append(
            {"switch": switch, "port": port, "at": [told[at_ns] for at_ns in at]}
            | {name: columns[name] for name in _FIGURES}
        )
    return msgspec.json.encode(
        {
            "since": timestamp(span.since_ns),
            "until": timestamp(span.until_ns),
            "step_s": step_s,
            "queues": queues,
        }
    )
