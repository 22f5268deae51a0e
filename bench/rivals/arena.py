"""Runs one tuner on one scenario: steps the packet fabric, shows what the budget shows, applies settings."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from bench.rivals.judge import SLICE_S, Judge, Judged, Slices, halves
from bench.rivals.observe import Budget, Meter, Observer
from bench.rivals.scenarios import Scenario
from bench.rivals.tuner import FabricFacts, Looks, Settings, Tuner
from lab.setup import Feed
from twin.errors import ParameterError
from twin.packet.fabric import Fabric
from twin.watermark import Watermark

_SAME_TIME_S = 1e-12


@dataclass(frozen=True, slots=True)
class Change:
    """Another watermark on a queue (a row of ``FabricFacts.queues``)."""

    at_s: float
    queue: int
    before: Watermark
    after: Watermark


@dataclass(frozen=True, slots=True)
class Played:
    """A run as the judge saw it, ``phases`` and their ``settled`` halves in order; CPU in seconds."""

    phases: tuple[Judged, ...]
    settled: tuple[Judged, ...]
    slices: Slices
    changes: tuple[Change, ...]
    sender_changes: int
    completions: int
    goodput_bytes_per_s: float
    queue_p99_bytes: float
    queue_std_bytes: float
    decisions: int
    decide_cpu_s: float
    slowest_decision_s: float
    exchanged_bytes: int


def facts_of(scenario: Scenario, budget: Budget) -> FabricFacts:
    """What a tuner is told beforehand."""
    return FabricFacts(
        topology=scenario.topology,
        sizes=scenario.plan,
        dcqcn=scenario.plan.dcqcn,
        queues=scenario.plan.switch_ports,
        interval_s=budget.interval_s,
        delay_s=budget.delay_s,
        sampling=budget.sampling or 1.0,
        incumbent=scenario.incumbent,
    )


def play(scenario: Scenario, tuner: Tuner, seed: int, budget: Budget) -> Played:
    """Runs ``tuner`` over the whole scenario.

    The packets depend on scenario, seed and settings alone: neither on the budget nor on how a tuner looks.
    Raises ``ParameterError`` for settings that do not fit the fabric.
    """
    return _Run(scenario, tuner, seed, budget).to_the_end()


class _Run:
    def __init__(self, scenario: Scenario, tuner: Tuner, seed: int, budget: Budget) -> None:
        self._scenario, self._tuner, self._budget = scenario, tuner, budget
        self._facts = facts_of(scenario, budget)
        self._observer = Observer(self._facts, budget, tuner.looks)
        traffic = scenario.traffic(seed)
        self._feed = Feed(traffic)
        self._judge = Judge(scenario, traffic)
        plan = scenario.plan
        self._fabric = Fabric(
            plan, watermark=scenario.incumbent[0], seed=seed, sampling_rate=self._observer.sampling_rate
        )
        self._running = list(scenario.incumbent)
        self._dcqcn = plan.dcqcn
        for queue, mark in enumerate(self._running):
            self._fabric.set_watermark([self._facts.queues[queue]], mark)
        self._meter = Meter(self._fabric)
        self._cut = scenario.cables_cut(seed)
        self._cables: deque[tuple[float, Callable[[int], None]]] = deque()
        if (cut := scenario.cut) is not None:
            self._cables.append((cut.at_s, self._fabric.fail_link))
            self._cables.append((cut.until_s, self._fabric.restore_link))
        self._due: deque[tuple[float, Settings, bool]] = deque()
        self._exploring = False
        self._changes: list[Change] = []
        self._sender_changes = self._completions = self._decisions = 0
        self._decide_s = self._slowest_s = 0.0
        self._delivered_bytes = 0.0
        self._apply(self._decided(partial(tuner.begin, self._facts, seed)))
        self._exploring = tuner.exploring

    def to_the_end(self) -> Played:
        blind = self._tuner.looks is Looks.NOTHING
        step_s = SLICE_S if blind else min(self._budget.interval_s, SLICE_S)
        steps = round(self._scenario.duration_s / step_s)
        looks_every = max(1, round(self._budget.interval_s / step_s))
        spans = [*self._scenario.spans_s, *halves(self._scenario.spans_s)]
        edges = {round(edge / step_s) for span in spans for edge in span}
        self._note_persistent(0 in edges)
        for number in range(1, steps + 1):
            # Rounded, so that steps of 0.1 and 1 ms meet at the same moment and not a bit before it.
            self._advance(round(number * step_s, 9))
            reading = self._meter.read()
            self._delivered_bytes += reading.delivered_bytes
            self._judge.read(reading, step_s, exploring=self._exploring)
            self._note_persistent(number in edges)
            if not blind and number % looks_every == 0 and number < steps:
                seen = self._observer.seen(reading, tuple(self._running), self._dcqcn)
                settings = self._decided(partial(self._tuner.act, seen))
                self._decisions += 1
                due_s = self._fabric.now_s + self._budget.delay_s
                self._due.append((due_s, settings, self._tuner.exploring))
        self._judge.completed(self._fabric.under_way())
        spans_s = self._scenario.spans_s
        return Played(
            phases=tuple(self._judge.span(*span) for span in spans_s),
            settled=tuple(self._judge.span(*span) for span in halves(spans_s)),
            slices=self._judge.slices(),
            changes=tuple(self._changes),
            sender_changes=self._sender_changes,
            completions=self._completions,
            goodput_bytes_per_s=self._delivered_bytes / self._scenario.duration_s,
            queue_p99_bytes=self._judge.queue_p99_bytes,
            queue_std_bytes=self._judge.queue_std_bytes,
            decisions=self._decisions,
            decide_cpu_s=self._decide_s,
            slowest_decision_s=self._slowest_s,
            exchanged_bytes=self._tuner.exchanged_bytes,
        )

    def _advance(self, until_s: float) -> None:
        fabric = self._fabric
        while fabric.now_s < until_s:
            while self._due and self._due[0][0] <= fabric.now_s + _SAME_TIME_S:
                _, settings, self._exploring = self._due.popleft()
                self._apply(settings)
            while self._cables and self._cables[0][0] <= fabric.now_s + _SAME_TIME_S:
                _, act = self._cables.popleft()
                for port in self._cut:
                    act(port)
            if self._feed.next_s <= fabric.now_s:
                fabric.offer(self._feed.take())
            stops = [until_s, self._feed.next_s]
            stops += [self._due[0][0]] if self._due else []
            stops += [self._cables[0][0]] if self._cables else []
            results = fabric.advance(max(min(stops), fabric.now_s))
            self._completions += len(results.completions)
            self._judge.completed(results.completions)
            self._observer.saw(results.samples)

    def _decided(self, decide: Callable[[], Settings]) -> Settings:
        begun_s = time.process_time()
        settings = decide()
        took_s = time.process_time() - begun_s
        self._decide_s += took_s
        self._slowest_s = max(self._slowest_s, took_s)
        if len(settings.watermarks) != len(self._running):
            where = f"settings of {type(self._tuner).__name__}"
            rule = f"the fabric has {len(self._running)} queues"
            raise ParameterError(where, f"{len(settings.watermarks)} watermarks", rule, "give one a queue")
        return settings

    def _apply(self, settings: Settings) -> None:
        asked: dict[Watermark, list[int]] = {}
        for queue, (before, after) in enumerate(zip(self._running, settings.watermarks, strict=True)):
            if before != after:
                asked.setdefault(after, []).append(self._facts.queues[queue])
                self._changes.append(Change(self._fabric.now_s, queue, before, after))
                self._running[queue] = after
        for mark, ports in asked.items():
            self._fabric.set_watermark(ports, mark)
        if asked:
            self._judge.changed(self._fabric.now_s, sum(map(len, asked.values())))
        if settings.dcqcn is not None and settings.dcqcn != self._dcqcn:
            self._fabric.set_dcqcn(range(len(self._fabric.hosts)), settings.dcqcn)
            self._dcqcn = settings.dcqcn
            self._sender_changes += 1

    def _note_persistent(self, at_an_edge: bool) -> None:
        numbers = self._judge.persistent_flows
        if at_an_edge and len(numbers):
            bytes_of = self._fabric.acknowledged_bytes()
            got = np.zeros(len(numbers))
            there = numbers < len(bytes_of)
            got[there] = bytes_of[numbers[there]]
            self._judge.persistent(self._fabric.now_s, got)
