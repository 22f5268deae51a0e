"""Forecasts of the throughput of ports, made of the history of queues when somebody asks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, inf

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from service.documents.base import timestamp
from service.documents.forecast import ForecastDocument, PortForecastDocument
from service.ingest.window_owner import WindowOwner
from settings.errors import NotFoundError, UnavailableError
from settings.history import DAY_S, Steps
from store.database import Database
from store.queue_rows import begin_ns, deepest, newest_ns, oldest_ns, sent, times
from telemetry.forecast import forecasts, needed, predictable
from telemetry.settings import NS_PER_DAY, NS_PER_S

LEAST_AHEAD = 6
"""Steps ahead of a forecast, where the history has steps so short."""
MOST_STEPS = 4_400
"""Read of one port: a month of 600 s, three days of 60 s."""
MOST_POINTS = 400_000
"""Ports × steps read at once."""
MOST_PORTS = 500
STALE_S = 900.0
LOOK_EVERY_S = 60.0
MOST_KEPT = 8

Port = tuple[str, str]

_log = logging.getLogger("ecntwin.history")


@dataclass(frozen=True, slots=True)
class _Past:
    """Bytes a second of ports × steps, up to before ``until_ns``; NaN where nothing was measured."""

    step_s: int
    ahead: int
    until_ns: int
    ports: Sequence[Port]
    sent: NDArray[np.float64]


class _TooLittleError(Exception):
    """The history does not do for a forecast; in a sentence."""


@dataclass
class Forecasts:
    """Forecasts of ``steps`` of the history (None: none is kept). For one event loop.

    Those of all ports are made once a step, for all who ask. ``utilisation`` of ports is kept up to date for
    as many seconds ahead as ``watched`` holds.
    """

    database: Database
    steps: Steps | None
    window: WindowOwner
    wall_ns: Callable[[], int]
    watched: frozenset[float]

    def __post_init__(self) -> None:
        self.utilisation: Mapping[float, Mapping[Port, float]] = {}
        self._making = asyncio.Lock()
        self._kept: dict[tuple[float, str | None], tuple[int, ForecastDocument]] = {}

    async def run_forever(self) -> None:
        """Keeps ``utilisation``; where forecasts fail, it is unknown until they can be made again."""
        while self.watched:
            try:
                await self.look()
            except UnavailableError as error:  # an alarm of its own says so
                self.utilisation = {}
                _log.info("no forecasts for alarms: %s", error)
            except Exception:
                self.utilisation = {}
                _log.exception("forecasts for alarms could not be made; they are tried again")
            await asyncio.sleep(LOOK_EVERY_S)

    async def look(self) -> None:
        """Updates ``utilisation``. Raises ``UnavailableError``."""
        found: dict[float, Mapping[Port, float]] = {}
        for ahead_s in sorted(self.watched):
            made = await self.ranked(ahead_s, switch=None, limit=MOST_PORTS, after=None)
            known = ((one.switch, one.port, one.utilisation) for one in made.ports)
            found[ahead_s] = {(switch, port): full for switch, port, full in known if full is not None}
        self.utilisation = found

    async def of_port(self, switch: str, port: str, horizon_s: float) -> ForecastDocument:
        """With each step of the forecast. Raises ``UnavailableError``."""
        return await self._make(horizon_s, switch, port)

    async def ranked(
        self, horizon_s: float, *, switch: str | None, limit: int, after: str | None
    ) -> ForecastDocument:
        """The ports of a switch (None: of all) that will be fullest first. Raises ``UnavailableError``, and
        ``NotFoundError`` for a cursor that is none of them.
        """
        key = horizon_s, switch
        async with self._making:
            made_ns, every = self._kept.get(key, (0, None))
            # Not before either: a clock that was set back must not keep an old forecast.
            if every is None or not 0 <= self.wall_ns() - made_ns < (every.step_s or 0) * NS_PER_S:
                every = await self._make(horizon_s, switch, None)
                self._kept[key] = self.wall_ns(), every
                while len(self._kept) > MOST_KEPT:
                    del self._kept[next(iter(self._kept))]
        names = [f"{one.switch} {one.port}" for one in every.ports]
        if after is not None and after not in names:
            raise NotFoundError(
                f"cursor {after[:80]!r}", None, "no port of this forecast", "list them from the beginning"
            )
        begin = 0 if after is None else names.index(after) + 1
        end = begin + limit
        more = names[end - 1] if end < len(names) else None
        return every.model_copy(update={"ports": every.ports[begin:end], "next": more})

    async def _make(self, horizon_s: float, switch: str | None, port: str | None) -> ForecastDocument:
        steps, now_ns = self.steps, self.wall_ns()
        past, why, found = None, None, list[PortForecastDocument]()
        try:
            if steps is None:
                raise _TooLittleError("No history is kept: storage.history_step_s is null")
            past = await self.database.read(
                lambda connection: _read(connection, steps, now_ns, horizon_s, switch, port)
            )
            # Hundreds of ports: not on the event loop.
            found = await asyncio.to_thread(_documents, past, self._rates(), path=port is not None)
        except _TooLittleError as error:
            why = str(error)
        return ForecastDocument(
            horizon_s=horizon_s,
            step_s=None if past is None else past.step_s,
            until=timestamp(now_ns if past is None else past.until_ns),
            why=why,
            ports=found,
            total=len(found),
            next=None,
        )

    def _rates(self) -> Mapping[Port, float]:
        """Bytes a second of each port whose rate is known, not assumed."""
        declared, latest = self.window.declared, self.window.latest
        if declared is not None:
            return {(one.node, one.port): one.rate_bytes_per_s for one in declared.ports if one.port}
        return {
            (one.ref.switch, one.ref.port): one.capacity_bytes_per_s
            for one in (() if latest is None else latest.state.queues)
            if one.capacity_bytes_per_s is not None
        }


def _documents(past: _Past, rates: Mapping[Port, float], *, path: bool) -> list[PortForecastDocument]:
    """The fullest first."""
    fit = predictable(past.sent)
    unknown = "Its throughput is not known of most of the time: no INT reports tell it"
    ports = [port for port, fits in zip(past.ports, fit, strict=True) if fits]
    made = forecasts(
        past.sent[fit],
        ahead=past.ahead,
        step_s=past.step_s,
        most=np.array([rates.get(port, inf) for port in ports]),
    )
    found = [
        PortForecastDocument.of(
            *port, one, rate=rates.get(port), from_ns=past.until_ns, step_s=past.step_s, path=path
        )
        for port, one in zip(ports, made, strict=True)
    ]
    found += [
        PortForecastDocument.without(*port, unknown)
        for port, fits in zip(past.ports, fit, strict=True)
        if not fits
    ]
    return sorted(found, key=lambda one: one.fullness, reverse=True)


def _read(
    connection: Connection, steps: Steps, now_ns: int, horizon_s: float, switch: str | None, port: str | None
) -> _Past:
    """The past of one port, or of those that sent most. Raises ``_TooLittleError``."""
    step_s, ahead, until_ns, held = _chosen(connection, steps, now_ns, horizon_s)
    step_ns = step_s * NS_PER_S
    ports = (
        [(switch, port)]
        if switch is not None and port is not None
        else deepest(
            connection,
            step_s,
            since_ns=until_ns - min(held * step_ns, NS_PER_DAY),
            until_ns=until_ns,
            switch=switch,
            port=port,
            most=min(MOST_PORTS, MOST_POINTS // needed(ahead)),
            by="throughput_bytes_per_s",
        )
    )
    count = min(held, MOST_STEPS, MOST_POINTS // max(len(ports), 1))
    measured = np.zeros(count, bool)
    began_ns = times(connection, step_s, since_ns=until_ns - count * step_ns, until_ns=until_ns)
    measured[[(at_ns - until_ns) // step_ns for at_ns in began_ns]] = True  # counted from the end
    # With what lies before a long time away, no port would be known of most of the time.
    while count // 2 >= needed(ahead) and measured[count // 2 - count :].mean() < 0.5:
        count //= 2
    since_ns = until_ns - count * step_ns
    rows = list(sent(connection, step_s, since_ns=since_ns, until_ns=until_ns, ports=ports))
    if not rows:
        of = " ".join(one for one in (switch, port) if one is not None) or "Any port"
        raise _TooLittleError(f"{of} is not in the history of the last {_long(count * step_s)}")
    found = np.full((len(ports), count), np.nan)
    # A port without a row where others have one sent nothing.
    found[:, measured[-count:]] = 0.0
    row_of = {one: row for row, one in enumerate(ports)}
    for at_ns, at_switch, at_port, bytes_per_s in rows:
        place = row_of[at_switch, at_port], (at_ns - since_ns) // step_ns
        found[place] = np.nan if bytes_per_s is None else bytes_per_s
    return _Past(step_s, ahead, until_ns, ports, found)


def _chosen(connection: Connection, steps: Steps, now_ns: int, horizon_s: float) -> tuple[int, int, int, int]:
    """Length of a step, steps ahead, end of the history, and steps of it: the longest steps of which there
    are enough, ``LEAST_AHEAD`` of them ahead if any are so short. Raises ``_TooLittleError``.
    """
    short: list[tuple[int, int, int]] = []  # seconds that lack, that are held, and that are needed
    for step_s in sorted(steps.keep_s, reverse=True):
        if step_s * LEAST_AHEAD > horizon_s and step_s != steps.finest_s:
            continue
        ahead, until_ns = ceil(horizon_s / step_s), begin_ns(now_ns, step_s)
        wanted = needed(ahead)
        oldest = oldest_ns(connection, step_s)
        if wanted > MOST_STEPS or wanted * step_s > steps.keep_s[step_s]:
            continue
        held = 0 if oldest is None else max(until_ns - oldest, 0) // (step_s * NS_PER_S)
        if held < wanted:
            short.append(((wanted - held) * step_s, held * step_s, wanted * step_s))
            continue
        newest = newest_ns(connection, step_s, until_ns=until_ns - 1)
        if newest is None or until_ns - newest > max(STALE_S, 3 * step_s) * NS_PER_S:
            last = "" if newest is None else f" since {timestamp(newest)}"
            raise _TooLittleError(f"Nothing was measured{last}: a forecast needs what ports do now")
        return step_s, ahead, until_ns, held
    if not short:
        raise _TooLittleError(
            f"No history is kept that would do for {_long(horizon_s)} ahead: storage.history_coarser "
            "keeps longer steps for longer"
        )
    _, held_s, needed_s = min(short)
    raise _TooLittleError(
        f"The history is {_long(held_s)} long; {_long(horizon_s)} ahead needs {_long(needed_s)}"
    )


def _long(span_s: float) -> str:
    """``90 s``, ``12 min``, ``3 h``, ``2.5 days``."""
    for least_s, unit_s, name in ((2 * DAY_S, DAY_S, "days"), (3_600, 3_600, "h"), (120, 60, "min")):
        if span_s >= least_s:
            return f"{span_s / unit_s:.3g} {name}"
    return f"{span_s:.3g} s"
