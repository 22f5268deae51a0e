"""What ports and queues did lately, as rates, from how much their counters grew; knows only ``telemetry``.

Recent counters of many ports and queues, bounded in memory; must not import a wire format.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from telemetry.counters.model import (
    CounterIncrease,
    Counters,
    CounterSample,
    CounterSeries,
    CounterSettings,
    Grown,
    SeriesKey,
)
from telemetry.errors import ReportError
from telemetry.report import ReportProblem

NS_PER_S = 1e9
LEAST_SPAN_NS = 1_000_000
"""Between readings that lie closer together there is no rate: one event would be thousands a second."""


class Rates(NamedTuple):
    """Of one port or queue, by its own clock; None: the device does not tell it.

    ``pause_share`` is the share (0 to 1) of the time in which its peer kept it from sending, the others are
    events a second: PFC frames received and sent, packets marked, notifications passed, packets dropped, and
    of those the ones WRED dropped.
    """

    pause_share: float | None = None
    pfc_rx_frames_per_s: float | None = None
    pfc_tx_frames_per_s: float | None = None
    ecn_marked_per_s: float | None = None
    cnp_per_s: float | None = None
    drops_per_s: float | None = None
    wred_drops_per_s: float | None = None


UNKNOWN = Rates()
_COUNTED = (
    "pfc_pause_ns",
    "pfc_rx_frames",
    "pfc_tx_frames",
    "ecn_marked_packets",
    "cnp_packets",
    "dropped_packets",
    "wred_dropped_packets",
)
_COLUMNS = tuple(Counters._fields.index(name) for name in _COUNTED)


@dataclass(frozen=True, slots=True)
class PortRates:
    """One port: ``rates`` of it as a whole, ``queues`` those of its queues by number.

    As a whole: paused for as large a share as its most paused queue, and of everything else the sum over its
    queues; where no queue tells a figure, what the port as a whole tells. ``covered_s``: the time between the
    readings that were used, the longest of the port's.
    """

    switch: str
    port: str
    covered_s: float
    rates: Rates
    queues: dict[int, Rates]


def port_rates(grown: Iterable[tuple[SeriesKey, Grown]]) -> tuple[PortRates, ...]:
    """The ports these series belong to, by switch and port; each series over its own time."""
    ports: defaultdict[tuple[str, str], list[tuple[int | None, Grown]]] = defaultdict(list)
    for key, one in grown:
        ports[key.switch, key.port].append((key.queue, one))
    return tuple(_port(switch, port, series) for (switch, port), series in sorted(ports.items()))


def _port(switch: str, port: str, series: list[tuple[int | None, Grown]]) -> PortRates:
    queues = {queue: _rates(one) for queue, one in series if queue is not None}
    whole = next((_rates(one) for queue, one in series if queue is None), UNKNOWN)
    if not queues:
        rates = whole
    elif len(queues) == 1 and whole is UNKNOWN:
        (rates,) = queues.values()
    else:
        columns = [
            [value for value in column if value is not None] for column in zip(*queues.values(), strict=True)
        ]
        paused, *counted = columns
        rates = Rates(
            max(paused, default=whole.pause_share),
            *(sum(given) if given else own for given, own in zip(counted, whole[1:], strict=True)),
        )
    covered_s = max(one.end_ns - one.begin_ns for _, one in series) / NS_PER_S
    return PortRates(switch, port, covered_s, rates, dict(sorted(queues.items())))


def _rates(grown: Grown) -> Rates:
    if grown.end_ns - grown.begin_ns < LEAST_SPAN_NS:
        return UNKNOWN
    span_s = (grown.end_ns - grown.begin_ns) / NS_PER_S
    paused_ns, *counts = map(grown.by_field.__getitem__, _COLUMNS)
    return Rates(
        # A pause that is counted when it ends may have begun before the first reading.
        None if paused_ns is None else min(paused_ns / NS_PER_S / span_s, 1.0),
        *[None if count is None else count / span_s for count in counts],
    )


_NS_PER_S = 1e9
_ENDED_NS = 60_000_000_000  # the slowest usual poll is every 10 s; queues may be read less often than ports


@dataclass(frozen=True, slots=True)
class CountersAdded:
    """How many samples were taken, and which were not: too late, or without room for another series."""

    accepted: int
    late: tuple[ReportProblem, ...]
    no_room: tuple[ReportProblem, ...]


@dataclass(slots=True)
class _Held:
    series: CounterSeries
    set_back: int = 0
    set_back_ns: int = -1
    lately: tuple[tuple[int, int], Grown | None] | None = None


@dataclass(slots=True)
class _Port:
    whole: Grown | None = None
    queues: list[Grown] = field(default_factory=list)


class CounterWindow:
    """The counters of each (switch, port, queue). One thread at a time; no clock but the devices'."""

    def __init__(self, settings: CounterSettings | None = None) -> None:
        self._settings = settings or CounterSettings()
        self._held: dict[str, dict[SeriesKey, _Held]] = {}
        self._count = 0

    def __len__(self) -> int:
        """Series held."""
        return self._count

    @property
    def switches(self) -> tuple[str, ...]:
        """Those that gave counters, in order."""
        return tuple(sorted(self._held))

    def add(self, samples: Sequence[CounterSample], positions: Sequence[int] | None = None) -> CountersAdded:
        """Takes samples in their order. ``positions`` are their indices in the body (None: 0, 1, 2, ...).

        One that is no later than its series' newest is late. Where there are too many series, those that
        ended longer ago than the horizon make room.
        """
        accepted, late, no_room = 0, [], []
        full = False
        for index, sample in zip(positions or range(len(samples)), samples, strict=True):
            held = self._held.get(sample.key.switch, {}).get(sample.key)
            if held is None:
                if self._count >= self._settings.max_series and not full:
                    self._drop_ended(sample.ts_ns)
                    full = self._count >= self._settings.max_series  # looked at once a call
                if self._count >= self._settings.max_series:
                    no_room.append(ReportProblem(index, str(self._no_room(index))))
                    continue
                held = self._begin(sample.key)
            elif sample.ts_ns <= held.series.newest_ns:
                if not self._clock_set_back(held, sample.ts_ns):
                    late.append(ReportProblem(index, str(_late(index, sample, held.series.newest_ns))))
                    continue
                held.series.begin_anew()
            held.set_back, held.set_back_ns = 0, -1
            held.series.append(sample.ts_ns, sample.counters)
            accepted += 1
        return CountersAdded(accepted, tuple(late), tuple(no_room))

    def newest_ns(self, switches: Collection[str] | None = None) -> int | None:
        """The newest reading of these switches (None: of all), by the device's clock; None without one."""
        return max((held.series.newest_ns for _, held in self._of(switches)), default=None)

    def increase(self, switches: Collection[str] | None, since_ns: int, until_ns: int) -> CounterIncrease:
        """How much the counters of these switches (None: of all) grew between two times of the devices'
        clocks.

        Of each series: from its last reading at or before ``since_ns``, else its first after, to its last at
        or before ``until_ns``. What a port's queues count is not counted again by the port as a whole: per
        field, the queues are taken where they give it.
        """
        covered_ns = dict.fromkeys(self._held if switches is None else switches, 0)
        ports: defaultdict[tuple[str, str], _Port] = defaultdict(_Port)
        newest_ns: int | None = None
        for key, held in self._of(switches):
            newest = held.series.newest_by(until_ns)
            if newest is not None:
                newest_ns = newest if newest_ns is None else max(newest_ns, newest)
            grown = held.series.between(since_ns, until_ns)
            if grown is None:
                continue
            covered = grown.end_ns - max(grown.begin_ns, since_ns)
            covered_ns[key.switch] = max(covered_ns[key.switch], covered)
            port = ports[key.switch, key.port]
            if key.queue is None:
                port.whole = grown
            else:
                port.queues.append(grown)
        counted = [grown for port in ports.values() for grown in (port.whole, *port.queues) if grown]
        return CounterIncrease(
            counters=_summed(list(ports.values())),
            covered_s=min(covered_ns.values(), default=0) / _NS_PER_S,
            series=len(counted),
            ports=len(ports),
            newest_ns=newest_ns,
            silent=tuple(sorted(switch for switch, covered in covered_ns.items() if not covered)),
            resets=sum(grown.resets for grown in counted),
        )

    def lately(self, span_ns: int) -> list[tuple[SeriesKey, Grown]]:
        """How much each series grew in the last ``span_ns`` before its newest reading, or between its last
        two where they lie further apart.

        Left out are those with fewer than two readings, and those that ended more than a minute and
        ``span_ns`` before others of their switch.

        Worked out anew only for series with a new reading.
        """
        found = []
        for held_by_key in self._held.values():
            since_ns = max(held.series.newest_ns for held in held_by_key.values())
            since_ns -= span_ns + _ENDED_NS
            for key, held in held_by_key.items():
                newest_ns = held.series.newest_ns
                asked = (max(newest_ns - span_ns, 0), newest_ns)
                if newest_ns < since_ns:
                    continue
                if held.lately is None or held.lately[0] != asked:
                    held.lately = (asked, held.series.between(*asked))
                if held.lately[1] is not None:
                    found.append((key, held.lately[1]))
        return found

    def newest_by_switch(self) -> dict[str, int]:
        """The newest reading of each switch, by its own clock."""
        return {
            switch: max(held.series.newest_ns for held in ports.values())
            for switch, ports in self._held.items()
        }

    def _of(self, switches: Collection[str] | None) -> Iterator[tuple[SeriesKey, _Held]]:
        for switch in self._held if switches is None else set(switches):
            yield from self._held.get(switch, {}).items()

    def _begin(self, key: SeriesKey) -> _Held:
        settings = self._settings
        held = _Held(CounterSeries(settings.max_samples, settings.horizon_ns))
        self._held.setdefault(key.switch, {})[key] = held
        self._count += 1
        return held

    def _drop_ended(self, now_ns: int) -> None:
        before_ns = now_ns - self._settings.horizon_ns
        for switch, ports in list(self._held.items()):
            kept = {key: held for key, held in ports.items() if held.series.newest_ns >= before_ns}
            self._count -= len(ports) - len(kept)
            if kept:
                self._held[switch] = kept
            else:
                del self._held[switch]

    def _clock_set_back(self, held: _Held, ts_ns: int) -> bool:
        """Whether a late sample is the last of so many in a row that the clock must have been set back."""
        if ts_ns >= held.series.newest_ns - self._settings.horizon_ns:
            return False
        held.set_back = held.set_back + 1 if ts_ns > held.set_back_ns else 1
        held.set_back_ns = ts_ns
        return held.set_back >= self._settings.confirm_samples

    def _no_room(self, index: int) -> ReportError:
        return ReportError(
            f"sample {index}",
            "another port or queue",
            f"counters of {self._settings.max_series} ports and queues are kept",
            "send fewer queues' counters; this sample was left out",
        )


def _summed(ports: Sequence[_Port]) -> Counters:
    totals: list[int | None] = [None] * len(Counters._fields)
    for port in ports:
        for column in range(len(totals)):
            given = [grown.by_field[column] for grown in port.queues]
            parts = [value for value in given if value is not None]
            if not parts and port.whole is not None and port.whole.by_field[column] is not None:
                parts = [port.whole.by_field[column]]  # type: ignore[list-item]
            if parts:
                totals[column] = (totals[column] or 0) + sum(parts)
    return Counters(*totals)


def _late(index: int, sample: CounterSample, newest_ns: int) -> ReportError:
    key = sample.key
    queue = "" if key.queue is None else f" queue {key.queue}"
    return ReportError(
        f"sample {index} ts_ns",
        str(sample.ts_ns),
        f"samples of {key.switch} {key.port}{queue} come in order of time, and the newest is of {newest_ns}",
        "send each reading once, in order; this sample was left out",
    )
