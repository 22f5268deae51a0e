"""Reads the history of queues, alarms, residuals and recommendations from the database."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec
from sqlalchemy import Connection

from rollout.state import Phase, RolloutState
from service.documents.base import timestamp
from service.documents.history import (
    AdviceDayDocument,
    AdviceHistoryDocument,
    MeasuredFiguresDocument,
    OutcomeDocument,
    PredictedDocument,
    PredictedFiguresDocument,
    RolloutGainDocument,
)
from service.history.alarms import AlarmHistory
from service.tuning.entry import Entry
from settings.errors import UnprocessableError
from settings.history import Steps
from store import alarm_rows, gain_rows, residual_rows
from store.alarm_rows import AlarmRow
from store.database import Database
from store.gain_rows import GainRow
from store.queue_rows import PortPoint, PortStep, begin_ns, deepest, seen, series
from store.residual_rows import ResidualRow
from telemetry.settings import NS_PER_S

_FIGURES = PortStep._fields[2:]
_MOST_STEPS = 60
"""Compared before or after a rollout unless none are so long: of 32 000 ports they are 2 million rows."""
MOST_POINTS = 500_000
"""Most ports × steps of one answer: about 300 MB while it is built."""


@dataclass(frozen=True, slots=True)
class Span:
    """From ``since_ns`` to before ``until_ns``, nanoseconds since 1970."""

    since_ns: int
    until_ns: int

    @property
    def length_s(self) -> float:
        return (self.until_ns - self.since_ns) / NS_PER_S

    @property
    def bounds(self) -> dict[str, int]:
        """Both times in the form that queries take."""
        return {"since_ns": self.since_ns, "until_ns": self.until_ns}


@dataclass
class HistoryReader:
    """``steps``: those of the queue history (None: not kept); ``window_s``: the length of the window."""

    database: Database
    steps: Steps | None
    alarm_history: AlarmHistory
    window_s: float
    wall_ns: Callable[[], int]

    def span(self, since_ns: int | None, until_ns: int | None, *, usual_s: float) -> Span:
        """The requested span, by default the last ``usual_s`` seconds. Raises ``UnprocessableError`` where it
        ends before it begins.
        """
        end_ns = self.wall_ns() if until_ns is None else until_ns
        begin = end_ns - round(usual_s * NS_PER_S) if since_ns is None else since_ns
        if begin >= end_ns:
            raise UnprocessableError(
                "since and until",
                f"since {timestamp(begin)} and until {timestamp(end_ns)}",
                "a span begins before it ends",
                "give an earlier since, or a later until",
            )
        return Span(begin, end_ns)

    async def queues(
        self, span: Span, *, switch: str | None, port: str | None, most: int, ports: int
    ) -> bytes:
        """A ``QueueHistoryDocument`` in JSON, of at most ``ports`` ports in ``most`` steps. Raises
        ``UnavailableError``, and ``UnprocessableError`` beyond ``MOST_POINTS``.
        """
        if most * ports > MOST_POINTS:
            raise UnprocessableError(
                "most and queues",
                f"{most} steps of {ports} ports",
                f"an answer has at most {MOST_POINTS} points (steps × ports)",
                "ask for fewer steps or ports",
            )
        steps = self.steps or Steps({1: 0.0})
        age_s = (self.wall_ns() - span.since_ns) / NS_PER_S
        step_s, width_s = steps.chosen(span_s=span.length_s, age_s=age_s, most=most)
        since_ns = begin_ns(span.since_ns, width_s)  # includes the step that contains ``since``
        ranked_by_s = steps.ranked_by(step_s, span_s=span.length_s)

        def read(connection: Connection) -> bytes:
            chosen: list[tuple[str, str]] = []
            for length_s in dict.fromkeys((ranked_by_s, step_s)):  # coarser steps are made from finer ones
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
                connection, step_s, width_s=width_s, since_ns=since_ns, until_ns=span.until_ns, ports=chosen
            )
            return _json(span, width_s, found)

        return await self.database.read(read)

    async def residuals(self, span: Span, limit: int) -> list[ResidualRow]:
        """The newest of that span. Raises ``UnavailableError``."""
        return await self.database.read(
            lambda connection: residual_rows.listed(connection, **span.bounds, limit=limit)
        )

    async def advice(self, span: Span) -> AdviceHistoryDocument:
        """By day, what the rounds of that span advised. Raises ``UnavailableError``."""
        rows = await self.database.read(lambda connection: residual_rows.by_day(connection, **span.bounds))
        return AdviceHistoryDocument(days=[AdviceDayDocument.of(row) for row in rows])

    async def gains(self, span: Span, limit: int) -> list[GainRow]:
        """Those of rollouts that began in that span, newest first. Raises ``UnavailableError``."""
        return await self.database.read(
            lambda connection: gain_rows.listed(connection, **span.bounds, limit=limit)
        )

    async def alarms(self, span: Span, limit: int) -> list[AlarmRow]:
        """The alarms of that span, the last raised first. Raises ``UnavailableError``."""
        rows = await self.database.read(
            lambda connection: alarm_rows.listed(connection, **span.bounds, limit=limit)
        )
        return [self.alarm_history.current(row) for row in rows]

    async def outcome(self, entry: Entry, rollout: RolloutState | None, *, span_s: float) -> OutcomeDocument:
        """A recommendation's prediction against ``span_s`` before and after. Raises ``UnavailableError``."""
        now_ns = self.wall_ns()
        # Without a database the answer is a 503, not an empty list.
        row = await self.database.read(lambda connection: gain_rows.one(connection, entry.id))
        gain = None if row is None else RolloutGainDocument.of(row)
        if rollout is None or self.steps is None:
            return outcome_document(entry, rollout, None, None, None, gain)
        steps, times = self.steps, times_of(rollout, span_s=span_s, window_s=self.window_s, now_ns=now_ns)

        def measured(
            connection: Connection, between: tuple[int, int] | None
        ) -> MeasuredFiguresDocument | None:
            if between is None:
                return None
            since_ns, until_ns = between
            age_s = (now_ns - since_ns) / NS_PER_S
            step_s = steps.chosen(span_s=Span(*between).length_s, age_s=age_s, most=_MOST_STEPS).step_s
            figures = seen(connection, step_s, since_ns=since_ns, until_ns=until_ns, switches=times.switches)
            if figures is None:
                return None
            return MeasuredFiguresDocument.of(figures, since_ns=since_ns, until_ns=until_ns, step_s=step_s)

        before, after = await self.database.read(
            lambda connection: (measured(connection, times.before), measured(connection, times.after))
        )
        return outcome_document(entry, rollout, times, before, after, gain)


def _json(span: Span, step_s: int, found: Mapping[tuple[str, str], list[PortPoint]]) -> bytes:
    times = {point.at_ns for points in found.values() for point in points}
    texts = {at_ns: timestamp(at_ns) for at_ns in times}
    queues = []
    for (switch, port), points in found.items():
        if not points:
            continue
        at, steps = zip(*points, strict=True)
        columns = dict(zip(PortStep._fields, zip(*steps, strict=True), strict=True))
        queues.append(
            {"switch": switch, "port": port, "at": [texts[at_ns] for at_ns in at]}
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


@dataclass(frozen=True, slots=True)
class Times:
    """Nanoseconds since 1970: the spans (from, until) ``before`` and ``after`` the switches were set
    (``after`` None: not yet), and when the last of ``switches`` was set.
    """

    switches: tuple[str, ...]
    before: tuple[int, int]
    set_ns: int | None
    after: tuple[int, int] | None


def times_of(rollout: RolloutState, *, span_s: float, window_s: float, now_ns: int) -> Times:
    """Up to ``span_s`` on either side; ``window_s`` is the length of the window."""
    span_ns, window_ns = round(span_s * NS_PER_S), round(window_s * NS_PER_S)
    proposed_ns = _ns(rollout.proposed_s)
    back_s = next((at_s for at_s, phase in rollout.phases if phase is Phase.ROLLING_BACK), None)
    set_s = _set_s(rollout)
    set_ns = None if set_s is None else _ns(set_s)
    after = None
    if set_ns is not None:
        from_ns = set_ns + window_ns
        until_ns = min(from_ns + span_ns, now_ns, now_ns if back_s is None else _ns(back_s))
        after = (from_ns, until_ns) if from_ns < until_ns else None
    last = len(rollout.plan.stages) - 1 if rollout.phase is Phase.DONE else rollout.stage
    return Times(
        switches=rollout.plan.watched(last),
        before=(proposed_ns - span_ns, proposed_ns),
        set_ns=set_ns,
        after=after,
    )


def outcome_document(
    entry: Entry,
    rollout: RolloutState | None,
    times: Times | None,
    before: MeasuredFiguresDocument | None,
    after: MeasuredFiguresDocument | None,
    gain: RolloutGainDocument | None,
) -> OutcomeDocument:
    said = entry.said
    return OutcomeDocument(
        id=entry.id,
        rollout=entry.rollout,
        phase=None if rollout is None else rollout.phase.value,
        switches=list(entry.switches if times is None else times.switches),
        since=None if times is None or times.set_ns is None else timestamp(times.set_ns),
        until=None if times is None or times.after is None else timestamp(times.after[1]),
        predicted=PredictedDocument(
            incumbent=PredictedFiguresDocument.from_attributes(said.incumbent),
            recommended=PredictedFiguresDocument.from_attributes(said.recommendation),
            queue_change=_change(said.recommendation.queue_mean_bytes, said.incumbent.queue_mean_bytes),
        ),
        before=before,
        after=after,
        queue_change=None
        if before is None or after is None
        else _change(after.queue_mean_bytes, before.queue_mean_bytes),
        residual_ratio=said.measured.residual_ratio,
        gain=gain,
    )


def _set_s(rollout: RolloutState) -> float | None:
    """When the last switch was set, before any rollback."""
    set_s: float | None = None
    until = next(
        (number for number, (_, phase) in enumerate(rollout.phases) if phase is Phase.ROLLING_BACK), None
    )
    for at_s, phase in reversed(rollout.phases[:until]):
        if phase is Phase.SOAK:
            return at_s
        if phase is not Phase.DONE:
            break  # switches were being set in between
        set_s = at_s
    return set_s


def _change(new: float | None, old: float | None) -> float | None:
    return new / old - 1 if new is not None and old else None


def _ns(at_s: float) -> int:
    return round(at_s * NS_PER_S)
