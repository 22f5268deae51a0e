"""Paraleon (ICNP 2024): annealing guided by which flows prevail, of watermarks and sender parameters alike.

As released it accepts everything, as it cools from 80 to 10 over utilities near 1: a biased walk that ends
with the best it saw. Paraleon+ is the later code. Both move one setting for the whole fabric. Of the ten
sender parameters the fabric's senders know seven, and none where ``FabricFacts.sets_senders`` is False.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import ClassVar

from bench.rivals.tuner import FabricFacts, Looks, Seen, Settings
from bench.rivals.tuners.probing import Prober, Search, accepted
from bench.rivals.tuners.utility import PLUS, RELEASED, ChangeOfTraffic, Weights, utility
from telemetry.topology import GBPS
from twin.senders.dcqcn import MICROSECOND, PRESETS, DcqcnParams
from twin.watermark import Watermark


@dataclass(frozen=True, slots=True)
class Parameter:
    """In Paraleon's units; ``throughput_up``: more of it favours throughput, else latency."""

    default: float
    step: float
    low: float
    high: float
    throughput_up: bool = True


# Their table; 0 is left out where it means nothing. Kmin and Kmax in KB.
SWITCH: Mapping[str, Parameter] = MappingProxyType(
    {"kmin": Parameter(400, 100, 10, 1600), "kmax": Parameter(1600, 400, 40, 6400)}
)
# Default as HPCC has it; step and range are ours.
PMAX: Mapping[str, Parameter] = MappingProxyType(
    {"pmax": Parameter(0.2, 0.1, 0.01, 1.0, throughput_up=False)}
)
SENDER: Mapping[str, Parameter] = MappingProxyType(
    {
        "time_reset": Parameter(300, 50, 1, 131_071, throughput_up=False),  # µs
        "ai": Parameter(5, 50, 1, 500),  # Mbit/s, as the next and min_rate
        "hai": Parameter(50, 100, 10, 5000),
        "min_rate": Parameter(1, 300, 1, 5000),
        "cnp_gap": Parameter(4, 16, 1, 4095),  # µs
        "g": Parameter(1019, 16, 1, 1019, throughput_up=False),  # /1024, the weight of the old α
        "initial_alpha": Parameter(1023, 16, 1, 1023, throughput_up=False),  # /1024
    }
)
Point = dict[str, float]


@dataclass(frozen=True, slots=True)
class Schedule:
    """From ``hot`` down to ``cold`` by ``cooling``, ``tries`` probes at each temperature."""

    hot: float
    cold: float
    cooling: float
    tries: int

    def temperatures(self) -> Sequence[float]:
        found, now = [], self.hot
        while now > self.cold:
            found += [now] * self.tries
            now *= self.cooling
        return found


class Paraleon(Prober):
    """As released: 130 probes of 1 ms."""

    looks: ClassVar[Looks] = Looks.FLOWS
    weights: ClassVar[Weights] = RELEASED
    schedule: ClassVar[Schedule] = Schedule(80.0, 10.0, 0.85, 10)
    switch: ClassVar[Mapping[str, Parameter]] = SWITCH
    moved_share: ClassVar[float] = 1.0

    def begin(self, facts: FabricFacts, seed: int) -> Settings:
        self._moves = {**self.switch, **(SENDER if facts.sets_senders else {})}
        self._traffic = ChangeOfTraffic(facts)
        self._stands: Point = {name: one.default for name, one in self._moves.items()}
        return super().begin(facts, seed)

    def first(self) -> Settings:
        return self._settings(self._stands)

    def starts(self, seen: Seen) -> bool:
        return self._traffic.after(seen)

    def worth(self, trial: Sequence[Seen]) -> float:
        return utility(self.facts, trial, self.weights, self._traffic.share)

    def search(self) -> Search:
        here = {name: one.default for name, one in self._moves.items()}
        here_worth = best_worth = yield self._settings(here)
        best = here
        self._begun()
        for temperature in self.schedule.temperatures()[1:]:
            there = self._neighbour(here)
            worth = yield self._settings(there)
            self._judged(worth - here_worth)
            if accepted(worth - here_worth, temperature, self.draws):
                here, here_worth = there, worth
            if worth > best_worth:
                best, best_worth = there, worth
        self._stands = best
        return self._settings(best)

    def _begun(self) -> None:
        """A search begins."""

    def _judged(self, gain: float) -> None:
        """A move gained this."""

    def _most_guided(self) -> float:
        """The highest probability of a step in favour of the flows that prevail."""
        return 0.8

    def _neighbour(self, here: Point) -> Point:
        share = self._traffic.share
        large = share >= 0.5
        guided = min(share if large else 1.0 - share, self._most_guided())
        chosen = self.draws.permutation(list(self._moves))[
            : max(1, round(self.moved_share * len(self._moves)))
        ]
        there = dict(here)
        for name in sorted(chosen.tolist()):
            one = self._moves[name]
            for_throughput = large if self.draws.random() < guided else not large
            sign = 1.0 if for_throughput == one.throughput_up else -1.0
            moved = here[name] + sign * one.step * self.draws.uniform(0.5, 1.0)
            there[name] = min(max(moved, one.low), one.high)
        return there

    def _settings(self, point: Point) -> Settings:
        kmin = round(point["kmin"] * 1e3)
        kmax = max(round(point["kmax"] * 1e3), kmin + 1_000)
        mark = Watermark(kmin, kmax, point.get("pmax", 0.2))
        return Settings.flat(self.facts, mark, _senders(point) if "ai" in point else None)


class ParaleonPlus(Paraleon):
    """The later code: Pmax too, 8 of 13 parameters a move, 72 probes that cool from 0.1 to 0.01."""

    weights: ClassVar[Weights] = PLUS
    schedule: ClassVar[Schedule] = Schedule(0.1, 0.01, 0.76, 8)
    switch: ClassVar[Mapping[str, Parameter]] = MappingProxyType({**SWITCH, **PMAX})
    moved_share: ClassVar[float] = 8 / 13

    def _begun(self) -> None:
        self._bad = 0.0

    def _judged(self, gain: float) -> None:
        self._bad += 0.15 * ((gain < 0) - self._bad)

    def _most_guided(self) -> float:
        return 0.7 - 0.2 * self._bad


def _senders(point: Point) -> DcqcnParams:
    return replace(
        PRESETS["vendor"],
        increase_timer_s=point["time_reset"] * MICROSECOND,
        ai_rate_bytes_per_s=point["ai"] * GBPS / 1e3,
        hai_rate_bytes_per_s=point["hai"] * GBPS / 1e3,
        min_rate_bytes_per_s=point["min_rate"] * GBPS / 1e3,
        cnp_interval_s=point["cnp_gap"] * MICROSECOND,
        gain=(1024 - point["g"]) / 1024,
        initial_alpha=point["initial_alpha"] / 1024,
    )
