"""The moments of traffic that rounds judge candidates over, and whether it is still the same traffic.

One window of some milliseconds says little of heavy-tailed traffic: on unchanging traffic the answer would
change from round to round. So the replayed part of earlier windows is kept, spread over some minutes, for as
long as load, classes and fan-in stay what they were; where such traffic comes back, so do they. Candidates
are compared over the beginning of each, and the best then over the newest in a row: what a watermark costs
elephants shows in full only as they pile up.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from telemetry.settings import NS_PER_S
from telemetry.state import FlowArrivals, FlowClass, NetworkState
from telemetry.topology import EgressPort
from twin.arrivals.endings import endless_share
from twin.arrivals.from_telemetry import REPLAY_S
from twin.arrivals.in_a_row import begun_bytes, in_a_row
from twin.arrivals.links import MOST_WAITING
from twin.scenario import Scenario
from twin.search.explain import CLASS_WORDS
from twin.search.looks import LEAST_LONG
from twin.units import bytes_text, duration_text, percent_text

_LEAST_REPORTS = 1_000
_SHOWN_TIMES = 3.0  # a moment lasts so many times as long as a message that others wait for
LONG_MOMENTS = 4  # in a row, of the length set
LOOKS_AGREE = 2  # in a row, that traffic is another, before a round begins early
MOST_ASIDE = 3  # kinds of traffic, each with ...
ASIDE_MOMENTS = 4  # ... its newest moments, ...
LEAST_WINDOWS = 4  # ... of which so many windows were seen: fewer do not tell it from others
ASIDE_FOR = 12.0  # times as long as moments are kept
LEAST_BEGUN = 0.85  # of the bytes delivered, in messages that begin in their moment: others last longer
_FARTHEST = math.log(4.0), 0.7  # of loads, as a logarithm, and of the bytes by class
_Name = tuple[str, str | None, str, int]


class _Same(NamedTuple):
    """How far windows of the same traffic may differ from earlier ones.

    ``ratio``: of loads, as a logarithm; ``shares``: of the bytes by class; ``spreads``: as a multiple of what
    earlier windows differ by among themselves, but for one in sixteen. Never farther than from a first one:
    each that was far off, and taken for the same, would open the way to one that is farther yet.
    """

    ratio: float
    shares: float
    spreads: float

    @classmethod
    def after(cls, n_windows: int) -> _Same:
        """The limits after ``n_windows`` windows: the more there were, the better their variation is known.

        Of 160 windows of 40 ms of eight kinds of steady traffic none is beyond the final limits; of 56
        changes from one kind to another 53 are.
        """
        if n_windows < 3:
            return cls(*_FARTHEST, 1.5)
        return cls(math.log(2.0), 0.35, 1.5) if n_windows < 4 else cls(math.log(1.5), 0.2, 3.0)


@dataclass(frozen=True, slots=True)
class Regime:
    """The kind of traffic that a window shows.

    Bytes sent per second; shares of the bytes by class, in the order of ``FlowClass``; and how many senders
    have a message for one receiver at once, as the mean over receivers.
    """

    load_bytes_per_s: float
    class_shares: tuple[float, ...]
    fan_in: float

    @classmethod
    def of(cls, state: NetworkState) -> Self:
        by_class = np.array([state.bytes_by_class.get(one, 0.0) for one in FlowClass])
        total = float(by_class.sum())
        shares = by_class / total if total > 0 else by_class
        degrees = [one.degree for one in state.incast]
        return cls(
            load_bytes_per_s=total / max(state.duration_s, 1e-9),
            class_shares=tuple(shares.tolist()),
            fan_in=float(np.mean(degrees)) if degrees else 1.0,
        )

    def unlike(self, before: Sequence[Regime]) -> str | None:
        """How this traffic differs from all of ``before``; None where it does not, or nothing was before."""
        if not before:
            return None
        same = _Same.after(len(before))

        def moved(of: Callable[[Regime], float]) -> float | None:
            """The earlier value, where the new one is far from it."""
            earlier = np.log([max(of(one), 1e-9) for one in before])
            centre = float(np.median(earlier))
            spread = same.spreads * _usual(np.abs(earlier - centre))
            limit = min(max(same.ratio, spread), _FARTHEST[0])
            far = abs(math.log(max(of(self), 1e-9)) - centre) > limit
            return math.exp(centre) if far else None

        found = []
        if (load := moved(lambda one: one.load_bytes_per_s)) is not None:
            found.append(f"load {bytes_text(self.load_bytes_per_s)}/s, before {bytes_text(load)}/s")
        shares = np.array([one.class_shares for one in before])
        centre = shares.mean(axis=0)
        apart = 0.5 * np.abs(shares - centre).sum(axis=1)
        change = np.array(self.class_shares) - centre
        limit = min(max(same.shares, same.spreads * _usual(apart)), _FARTHEST[1])
        if 0.5 * np.abs(change).sum() > limit:
            place = int(np.argmax(np.abs(change)))
            found.append(
                f"{CLASS_WORDS[list(FlowClass)[place].label]} carry {percent_text(self.class_shares[place])} "
                f"of the bytes, before {percent_text(float(centre[place]))}"
            )
        if (fan_in := moved(lambda one: one.fan_in)) is not None:
            found.append(f"{self.fan_in:.0f} senders at once to a receiver, before {fan_in:.0f}")
        return "; ".join(found) or None


@dataclass(frozen=True, slots=True)
class Moment:
    """One window's replayed part. ``at_s`` is by the service's clock, all other times by telemetry's.

    Candidates are compared over its first ``look_s`` seconds. It ``goes_on`` where messages do not wait for
    others, so that running it for longer shows what would have happened. ``delivered_bytes`` are counted on
    the wire.
    """

    scenario: Scenario
    at_s: float
    end_ns: int
    look_s: float
    goes_on: bool
    delivered_bytes: float

    @property
    def begin_ns(self) -> int:
        return self.end_ns - round(self.scenario.duration_s * NS_PER_S)


@dataclass(frozen=True, slots=True)
class _Aside:
    """Traffic that was replaced by other traffic at ``until_s``: its newest moments, and its windows with
    their times.
    """

    moments: tuple[Moment, ...]
    regimes: tuple[tuple[float, Regime], ...]
    until_s: float

    def back(self, now_s: float) -> tuple[list[Moment], list[tuple[float, Regime]]]:
        """Its moments and windows with times shifted as if this traffic had never stopped."""
        away_s = now_s - self.until_s
        return (
            [replace(one, at_s=one.at_s + away_s) for one in self.moments],
            [(at_s + away_s, one) for at_s, one in self.regimes],
        )


@dataclass(frozen=True, slots=True)
class Extent:
    """How much of a window's end is the newest moment, and how much of it all candidates run.

    All candidates run the first ``look_s`` seconds of a moment of ``length_s``; None: as much as a round
    replays alone. Where it ``goes_on``, the leaders run for longer.
    """

    look_s: float | None
    length_s: float | None
    goes_on: bool = False

    def within(self, most_s: float) -> Extent:
        """No longer than that. What a round replays alone is at most twice ``REPLAY_S``."""
        alone_s = most_s if most_s < 2.0 * REPLAY_S else None
        look_s, length_s = (
            alone_s if one is None else min(one, most_s) for one in (self.look_s, self.length_s)
        )
        return replace(self, look_s=look_s, length_s=length_s)


@dataclass(frozen=True, slots=True)
class Judged:
    """What a round judges on: all candidates on ``moments``, the leaders then on ``long``, if there are any.

    Both begin with the newest. ``long`` is one scenario of the newest moments in a row, or each moment by
    itself. ``traffic_s`` is their duration together, in seconds.
    """

    moments: tuple[Scenario, ...]
    traffic_s: float
    long: tuple[Scenario, ...] = ()


class Moments:
    """At most ``count`` moments from the last ``over_s``, spread over them; ``moment_s`` seconds of each for
    all candidates, ``long_s`` for the leaders.

    Longer moments are fewer: a round replays ``count`` × ``moment_s`` seconds of traffic, or its newest
    moment alone. Use from one thread at a time.
    """

    def __init__(self, count: int, *, moment_s: float, long_s: float, over_s: float) -> None:
        self._count = count
        self._moment_s = moment_s
        self._long_s = long_s
        self._over_s = over_s
        self._kept: list[Moment] = []
        # Of every window looked at, with its time: those of the moments kept would miss what was thinned out.
        self._regimes: deque[tuple[float, Regime]] = deque(maxlen=max(2 * count, 64))
        self._newest: tuple[float, Regime] | None = None
        self._seen_until_ns = 0
        self._unlike = 0  # looks in a row, each at another window ...
        self._looked_at_ns = 0  # ... that ends then
        self._aside: list[_Aside] = []

    def extent(self, state: NetworkState, waiting: float | None) -> Extent:
        """How much of a window's end is the newest moment.

        Few reports need longer to show what there is, never-ending flows to settle. Where large messages do
        not wait for others, a long moment shows what becomes of them: ``waiting`` is their ``waiting_share``.
        Where they do, a moment shows how such messages begin and end together.
        """
        if endless_share(state.arrivals, state.duration_s) > 0.5:
            return Extent(None, None)
        reports_per_s = state.n_reports / max(state.duration_s, 1e-9)
        look_s = max(self._moment_s, _LEAST_REPORTS / max(reports_per_s, 1e-9))
        if waiting is not None and waiting > MOST_WAITING:
            look_s = max(look_s, _SHOWN_TIMES * _lasts_s(state.arrivals))
        look_s = min(look_s, REPLAY_S)
        begin_ns = state.window_end_ns - round(look_s * NS_PER_S)
        before = [one.end_ns for one in self._kept if one.end_ns <= begin_ns]
        if not before:
            look_s = REPLAY_S
        free_s = (state.window_end_ns - max(before)) / NS_PER_S if before else math.inf
        shown_s = state.duration_s - float(state.arrivals.start_s.min(initial=state.duration_s))
        long_s = min(self._long_s, free_s, shown_s)
        goes_on = self._long_s > 0.0 and waiting is not None and waiting <= MOST_WAITING
        return Extent(look_s, max(look_s, long_s) if goes_on else look_s, goes_on)

    def look(self, state: NetworkState, now_s: float) -> bool:
        """Whether a round should begin at once: several looks in a row show other traffic than before.

        A window of the same traffic tells how much windows differ, if it shows nothing of the one before. It
        counts once the next is like it too: one in which traffic changes would hide the change.
        """
        regime = Regime.of(state)
        if self._unlike_before(regime, now_s) is not None:
            self._unlike += state.window_end_ns != self._looked_at_ns
            self._newest = None
        else:
            self._unlike = 0
            if state.window_start_ns >= self._seen_until_ns:
                self._add(self._newest)
                self._newest = now_s, regime
                self._seen_until_ns = state.window_end_ns
        self._looked_at_ns = state.window_end_ns
        return self._unlike >= LOOKS_AGREE

    def saw(self, state: NetworkState, now_s: float) -> str | None:
        """Drops old moments; returns how traffic changed, and then uses earlier moments of such traffic."""
        self._kept = [one for one in self._kept if now_s - one.at_s <= self._over_s]
        regime = Regime.of(state)
        changed = self._unlike_before(regime, now_s)
        if changed is None:
            self._add(self._newest)
        elif (known_s := self._turned(regime, now_s)) is not None:
            changed = f"{changed}; such traffic was last seen {duration_text(now_s - known_s)} ago"
        self._add((now_s, regime))
        self._newest, self._unlike, self._seen_until_ns = None, 0, state.window_end_ns
        return changed

    def _unlike_before(self, regime: Regime, now_s: float) -> str | None:
        return regime.unlike([one for at_s, one in self._regimes if now_s - at_s <= self._over_s])

    def _add(self, seen: tuple[float, Regime] | None) -> None:
        if seen is not None:
            self._regimes.append(seen)

    def _turned(self, regime: Regime, now_s: float) -> float | None:
        """Sets aside what is known of the traffic until now; returns until when such as this was seen."""
        before = _Aside(tuple(self._kept[-ASIDE_MOMENTS:]), tuple(self._regimes), self._regimes[-1][0])
        known = [one for one in self._aside if now_s - one.until_s <= ASIDE_FOR * self._over_s]
        back = next((one for one in known if regime.unlike([seen for _, seen in one.regimes]) is None), None)
        self._kept, regimes = ([], []) if back is None else back.back(now_s)
        self._regimes.clear()
        self._regimes.extend(regimes)
        self._aside = [one for one in known if one is not back]
        if before.moments and len(before.regimes) >= LEAST_WINDOWS:
            self._aside = [before, *self._aside][:MOST_ASIDE]
        return None if back is None else back.until_s

    def to_judge(self, newest: Scenario, extent: Extent, state: NetworkState) -> Judged:
        """``newest``, of the window of ``state``, and earlier moments, on common ports.

        All monitor what ``newest`` monitors. Left out are moments whose declared ports are no longer as they
        were; rates of a discovered topology are estimates: the newest count.
        """
        this = _moment(newest, extent, state, 0.0)
        left_s = self._count * self._moment_s - this.look_s
        ports = _named(newest.ports)
        chosen = [this]
        for one in reversed(self._kept):
            fits = one.look_s <= left_s + 1e-9 and len(chosen) < self._count
            named = _named(one.scenario.ports)
            same = all(ports.get(name) == port for name, port in named.items())
            if fits and (same or not state.topology_declared) and one.end_ns <= this.begin_ns:
                ports = ports | {name: port for name, port in named.items() if name not in ports}
                chosen.append(one)
                left_s -= one.look_s
        # A window need not show every port of a discovered topology.
        every = tuple(ports.values())
        place = {name: at for at, name in enumerate(ports)}
        whole = [_on_ports(one.scenario, every, place, newest.monitored) for one in chosen]
        looks = tuple(scenario.until(one.look_s) for scenario, one in zip(whole, chosen, strict=True))
        n_long, long = self._long(chosen, whole)
        traffic_s = sum(one.duration_s / one.repeated for one in (*long, *looks[n_long:]))
        return Judged(looks, traffic_s, long)

    def _long(self, chosen: Sequence[Moment], whole: Sequence[Scenario]) -> tuple[int, tuple[Scenario, ...]]:
        """What the leaders run on: of how many moments, and these in a row, or where that would leave out too
        much, each for itself.

        Where a row is shorter than ``LONG_MOMENTS`` of its newest moment, its moments come again: elephants
        pile up for longer than that, whichever they are.
        """
        going_on = list(takewhile(lambda one: one.goes_on, chosen))
        ends_s = np.cumsum([one.scenario.duration_s for one in going_on])
        count = int(np.searchsorted(ends_s, LONG_MOMENTS * self._long_s * (1 - 1e-9)))
        going_on = going_on[: count + 1]
        begun = sum(begun_bytes(one.scenario) for one in going_on)
        if begun >= LEAST_BEGUN * sum(one.delivered_bytes for one in going_on):
            long: tuple[Scenario, ...] = (_row(whole[: len(going_on)], self._long_s),) if going_on else ()
        else:
            long = tuple(whole[: len(going_on)])
        worth_it = all(one.duration_s >= LEAST_LONG * chosen[0].look_s for one in long)
        return (len(going_on), long) if worth_it else (0, ())

    def keep(self, scenario: Scenario, extent: Extent, state: NetworkState, now_s: float) -> None:
        """Adds a round's newest moment, instead of one it overlaps; thins out where they are dense."""
        new = _moment(scenario, extent, state, now_s)
        self._kept = [one for one in self._kept if one.end_ns <= new.begin_ns]
        self._kept.append(new)
        if len(self._kept) > self._count:
            gaps = [
                (self._kept[place + 1].at_s - self._kept[place - 1].at_s, place)
                for place in range(1, len(self._kept) - 1)
            ]
            del self._kept[min(gaps)[1] if gaps else 0]


def _usual(apart: NDArray[np.float64]) -> float:
    """The largest, but for one in sixteen."""
    return float(np.sort(apart)[-1 - len(apart) // 16])


def _row(moments: Sequence[Scenario], long_s: float) -> Scenario:
    """These one after the other, again from the newest until they are long enough."""
    length_s = LONG_MOMENTS * min(moments[0].duration_s, long_s) * (1 - 1e-9)
    row = list(moments)
    while sum(one.duration_s for one in row) < length_s:
        row.append(row[-len(moments)])
    return in_a_row(row)


def _lasts_s(arrivals: FlowArrivals) -> float:
    """How long messages last, in the mean over their bytes."""
    return float(np.average(arrivals.last_s - arrivals.start_s, weights=arrivals.sent_bytes))


def _moment(scenario: Scenario, extent: Extent, state: NetworkState, at_s: float) -> Moment:
    length_s = scenario.duration_s
    return Moment(
        scenario,
        at_s,
        state.window_end_ns,
        min(extent.look_s or length_s, length_s),
        extent.goes_on,
        float(state.arrivals.sent_bytes.sum()) * length_s / state.duration_s,
    )


def _named(ports: Sequence[EgressPort]) -> dict[_Name, EgressPort]:
    """Ports by node, port and peer, parallel NICs numbered."""
    seen: Counter[tuple[str, str | None, str]] = Counter()
    found = {}
    for port in ports:
        name = (port.node, port.port, port.peer)
        found[*name, seen[name]] = port
        seen[name] += 1
    return found


def _on_ports(
    scenario: Scenario, ports: tuple[EgressPort, ...], place: Mapping[_Name, int], monitored: tuple[int, ...]
) -> Scenario:
    """The same flows on ``ports``, which hold the scenario's at ``place``."""
    new_index = np.array([place[name] for name in _named(scenario.ports)], dtype=np.int32)
    flows = replace(scenario.flows, path_ports=new_index[scenario.flows.path_ports])
    return replace(scenario, ports=ports, flows=flows, monitored=monitored)
