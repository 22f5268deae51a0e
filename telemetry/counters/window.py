"""Recent counters of many ports and queues, bounded in memory, and the rates at which they grow."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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
from telemetry.settings import NS_PER_S

LEAST_SPAN_NS = 1_000_000
"""Closer readings give no rate: a single event would be thousands per second."""


class Rates(NamedTuple):
    """Rates of one port or queue, by its own clock; None: unknown. ``pause_share`` is 0 to 1, the others are
    events or bytes per second.
    """

    pause_share: float | None = None
    pfc_rx_frames_per_s: float | None = None
    pfc_tx_frames_per_s: float | None = None
    ecn_marked_per_s: float | None = None
    cnp_per_s: float | None = None
    drops_per_s: float | None = None
    wred_drops_per_s: float | None = None
    tx_bytes_per_s: float | None = None


UNKNOWN = Rates()
_COUNTED = (
    "pfc_pause_ns",
    "pfc_rx_frames",
    "pfc_tx_frames",
    "ecn_marked_packets",
    "cnp_packets",
    "dropped_packets",
    "wred_dropped_packets",
    "tx_bytes",
)
_COLUMNS = tuple(Counters._fields.index(name) for name in _COUNTED)


@dataclass(frozen=True, slots=True)
class PortRates:
    """One port: ``rates`` of the whole port, ``queues`` those of its queues by number.

    The port's pause share is that of its most paused queue, its other rates the sum over its queues; the
    port's own counters are used where no queue has the figure, and first of all for bytes. ``covered_s``: the
    longest time between the readings used.
    """

    switch: str
    port: str
    covered_s: float
    rates: Rates
    queues: dict[int, Rates]


def port_rates(grown: Iterable[tuple[SeriesKey, Grown]]) -> tuple[PortRates, ...]:
    """Rates by port, in order of switch and port; each series over its own time."""
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
        if whole.tx_bytes_per_s is not None:  # not every queue may be polled
            rates = rates._replace(tx_bytes_per_s=whole.tx_bytes_per_s)
    covered_s = max(one.end_ns - one.begin_ns for _, one in series) / NS_PER_S
    return PortRates(switch, port, covered_s, rates, dict(sorted(queues.items())))


def _rates(grown: Grown) -> Rates:
    spans_ns = [grown.spans_ns[column] for column in _COLUMNS]
    counts = [grown.by_field[column] for column in _COLUMNS]
    paused, *others = (
        None if count is None or span_ns < LEAST_SPAN_NS else count / (span_ns / NS_PER_S)
        for count, span_ns in zip(counts, spans_ns, strict=True)
    )
    # A pause counted at its end may have begun before the first reading.
    return Rates(None if paused is None else min(paused / NS_PER_S, 1.0), *others)


_SET_FORWARD_NS = 3_600_000_000_000
_ENDED_NS = 60_000_000_000  # the slowest usual poll is every 10 s; queues may be read less often than ports


@dataclass(frozen=True, slots=True)
class CountersAdded:
    """How many samples were accepted, and which were rejected: too late, or no room for another series."""

    accepted: int
    late: tuple[ReportProblem, ...]
    no_room: tuple[ReportProblem, ...]


@dataclass(slots=True)
class _Tracked:
    series: CounterSeries
    arrived_ns: int = 0
    set_back: int = 0
    set_back_ns: int = -1
    lately: tuple[tuple[int, int], Grown | None] | None = None


@dataclass(slots=True)
class _Port:
    whole: Grown | None = None
    queues: list[Grown] = field(default_factory=list)


class CounterWindow:
    """The counters of each (switch, port, queue), by the devices' clocks, which need not agree. Not
    thread-safe.
    """

    def __init__(self, settings: CounterSettings | None = None) -> None:
        self._settings = settings or CounterSettings()
        self._held: dict[str, dict[SeriesKey, _Tracked]] = {}
        self._count = 0
        self._none_ended_ns = -1  # up to this time of arrival no series has ended

    def __len__(self) -> int:
        return self._count

    @property
    def switches(self) -> tuple[str, ...]:
        return tuple(sorted(self._held))

    def add(
        self, samples: Sequence[CounterSample], positions: Sequence[int] | None = None, *, arrived_ns: int = 0
    ) -> CountersAdded:
        """Adds samples in order. ``positions`` are their indices in the body (None: 0, 1, 2, ...),
        ``arrived_ns`` is when they came, by the caller's monotonic clock.

        A sample no newer than its series' newest is late. When there are too many series, those whose last
        accepted sample arrived longer ago than the horizon are dropped.
        """
        accepted, late, no_room = 0, [], []
        for index, sample in zip(positions or range(len(samples)), samples, strict=True):
            held = self._held.get(sample.key.switch, {}).get(sample.key)
            if held is None:
                if self._count >= self._settings.max_series and arrived_ns > self._none_ended_ns:
                    self._drop_ended(arrived_ns)
                if self._count >= self._settings.max_series:
                    no_room.append(ReportProblem(index, str(self._no_room(index))))
                    continue
                held = self._begin(sample.key)
            elif sample.ts_ns <= held.series.newest_ns:
                if not self._clock_set_back(held, sample.ts_ns):
                    late.append(ReportProblem(index, str(_late(index, sample, held.series.newest_ns))))
                    continue
                held.series.begin_anew()
            elif sample.ts_ns - held.series.newest_ns > _SET_FORWARD_NS:
                held.series.begin_anew()  # what it grew in so long a time is no rate, if it was that long
            held.set_back, held.set_back_ns = 0, -1
            held.arrived_ns = arrived_ns
            held.series.append(sample.ts_ns, sample.counters)
            accepted += 1
        return CountersAdded(accepted, tuple(late), tuple(no_room))

    def newest_ns(self, switches: Collection[str] | None = None) -> int | None:
        """Time of the newest reading of these switches (None: all), by their clock; None without one."""
        held = (self._held.get(switch) for switch in (self._held if switches is None else switches))
        return max((_newest_ns(ports) for ports in held if ports), default=None)

    def increase(self, switches: Collection[str] | None, since_ns: int, until_ns: int) -> CounterIncrease:
        """Growth of the counters of these switches (None: all) between two times of the devices' clocks.

        Of each series: from its last reading up to ``since_ns``, else its first after, to its last up to
        ``until_ns``. Per field, a port's queues are added up where they have it; otherwise its own is taken.
        """
        covered_ns = dict.fromkeys(self._held if switches is None else switches, 0)
        ports: defaultdict[tuple[str, str], _Port] = defaultdict(_Port)
        for key, held in self._of(switches):
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
        covered_s = min(covered_ns.values(), default=0) / NS_PER_S
        return CounterIncrease(_summed(ports.values()), covered_s, len(ports))

    def lately(self, span_ns: int) -> list[tuple[SeriesKey, Grown]]:
        """Growth of each series over the last ``span_ns`` before its newest reading, or between its last two
        readings where they are further apart; computed only for series with a new reading.

        Left out are series with fewer than two readings, and those that ended more than a minute and
        ``span_ns`` before others of their switch.
        """
        found = []
        for held_by_key in self._held.values():
            since_ns = _newest_ns(held_by_key) - span_ns - _ENDED_NS
            arrived_ns = max(held.arrived_ns for held in held_by_key.values()) - span_ns - _ENDED_NS
            for key, held in held_by_key.items():
                newest_ns = held.series.newest_ns
                span = (max(newest_ns - span_ns, 0), newest_ns)
                if newest_ns < since_ns or held.arrived_ns < arrived_ns:
                    continue
                if held.lately is None or held.lately[0] != span:
                    held.lately = (span, held.series.between(*span))
                if held.lately[1] is not None:
                    found.append((key, held.lately[1]))
        return found

    def newest_by_switch(self) -> dict[str, int]:
        """Time of the newest reading of each switch, by its own clock."""
        return {switch: _newest_ns(ports) for switch, ports in self._held.items()}

    def _of(self, switches: Collection[str] | None) -> Iterator[tuple[SeriesKey, _Tracked]]:
        for switch in self._held if switches is None else set(switches):
            yield from self._held.get(switch, {}).items()

    def _begin(self, key: SeriesKey) -> _Tracked:
        settings = self._settings
        held = _Tracked(CounterSeries(settings.max_samples, settings.horizon_ns))
        self._held.setdefault(key.switch, {})[key] = held
        self._count += 1
        return held

    def _drop_ended(self, now_ns: int) -> None:
        before_ns = now_ns - self._settings.horizon_ns
        for switch, ports in list(self._held.items()):
            kept = {key: held for key, held in ports.items() if held.arrived_ns >= before_ns}
            self._count -= len(ports) - len(kept)
            if kept:
                self._held[switch] = kept
            else:
                del self._held[switch]
        self._none_ended_ns = self._settings.horizon_ns + min(
            (held.arrived_ns for _, held in self._of(None)), default=now_ns
        )

    def _clock_set_back(self, held: _Tracked, ts_ns: int) -> bool:
        """Whether so many late samples came in a row that the clock must have been set back."""
        if ts_ns >= held.series.newest_ns - self._settings.horizon_ns:
            return False
        held.set_back = held.set_back + 1 if ts_ns > held.set_back_ns else 1
        held.set_back_ns = ts_ns
        return held.set_back >= self._settings.confirm_samples

    def _no_room(self, index: int) -> ReportError:
        rule = f"counters of {self._settings.max_series} ports and queues are kept"
        remedy = "send fewer queues' counters; this sample was left out"
        return ReportError(f"sample {index}", "another port or queue", rule, remedy)


def _newest_ns(ports: Mapping[SeriesKey, _Tracked]) -> int:
    """Time of a switch's newest reading, of the series that have not ended: one that ended before the clock
    was set back lies ahead of all others.
    """
    since_ns = max(held.arrived_ns for held in ports.values()) - _ENDED_NS
    return max(held.series.newest_ns for held in ports.values() if held.arrived_ns >= since_ns)


def _summed(ports: Iterable[_Port]) -> Counters:
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
    rule = (
        f"samples of {key.switch} {key.port}{queue} come in order of time, and the newest is of {newest_ns}"
    )
    remedy = "send each reading once, in order; this sample was left out"
    return ReportError(f"sample {index} ts_ns", str(sample.ts_ns), rule, remedy)
