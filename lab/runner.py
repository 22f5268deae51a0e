"""Advances a fabric slice by slice in a thread of its own.

Only that thread touches the fabric: commands of other threads run between slices, in order, and ``view`` is
replaced after each slice.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, TypeVar

from lab.documents import FiguresDocument
from lab.figures import Stretch
from lab.p4_reports import IntReportWriter, IntSender, Portion
from lab.reports import COUNT_EVERY_S, CounterWriter, Poster, ReportWriter
from lab.setup import Feed
from settings.errors import ConflictError, UnavailableError, UnprocessableError
from twin.errors import ScenarioError
from twin.packet.fabric import Fabric
from twin.packet.results import PortReadings, Samples
from twin.senders.dcqcn import DcqcnParams
from twin.traffic.base import Traffic
from twin.watermark import Watermark

SLICE_WALL_S = 0.05
FIRST_SLICE_S = 10e-6
SHORTEST_SLICE_S = 1e-6
LONGEST_SLICE_S = 1e-3  # traffic may begin during a slice, and callers wait for its end
LATELY_S = 1e-3
STOP_S = 5.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class View:
    """The fabric between two slices. ``lately``: the newest complete millisecond, or the last advance."""

    now_s: float
    ended: bool
    flows_offered: int
    flows_completed: int
    reports_made: int
    watermarks: Mapping[int, Watermark]
    dcqcn: Mapping[int, DcqcnParams]  # by host
    ecmp_seeds: Mapping[str, int | None]
    links_down: frozenset[int]
    lately: FiguresDocument | None


@dataclass(frozen=True, slots=True)
class Binary:
    """Binary reports by UDP instead of JSON over HTTP."""

    writer: IntReportWriter
    sender: IntSender


@dataclass(slots=True)
class _Advance:
    until_s: float
    answer: Future[FiguresDocument]


@dataclass
class Runner:
    """Owns ``fabric`` for ``duration_s`` of simulated time.

    ``stepwise``: runs only on ``advance``; otherwise at ``pace`` simulated seconds per second (None: as fast
    as it can). ``start`` and ``stop`` once each; all other methods from any thread.
    """

    fabric: Fabric
    switch_ports: Collection[int]
    feed: Feed
    _: KW_ONLY
    writer: ReportWriter
    poster: Poster | None
    binary: Binary | None = None
    counters: CounterWriter | None = None
    duration_s: float
    stepwise: bool = False
    pace: float | None = None
    clock_s: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        outlets = (self.poster, None if self.binary is None else self.binary.sender)
        self._outlets = [outlet for outlet in outlets if outlet is not None]
        self._periods_counted = 0
        self._on_end: Callable[[], None] = lambda: None
        self._commands: deque[tuple[Callable[[], None], Future[Any]]] = deque()
        self._closed = False
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stopping = False
        self._paced_since_s: float | None = None
        self._advance: _Advance | None = None
        self._slice_s = FIRST_SLICE_S
        self._stretch = Stretch(self.fabric.measured())
        self._whole = Stretch(self.fabric.measured())
        self._since_mark = Stretch(self.fabric.measured())
        self._thread = threading.Thread(target=self._run, name="ecntwin-fabric", daemon=True)
        self.failure: Exception | None = None
        self.view = View(
            now_s=self.fabric.now_s,
            ended=False,
            flows_offered=0,
            flows_completed=0,
            reports_made=0,
            watermarks={port: self.fabric.watermark(port) for port in self.switch_ports},
            dcqcn={host: self.fabric.dcqcn(host) for host in range(len(self.fabric.hosts))},
            ecmp_seeds={name: self.fabric.ecmp_seed(name) for name in self.fabric.plan.switches},
            links_down=frozenset(),
            lately=None,
        )

    def on_end(self, callback: Callable[[], None]) -> None:
        """Calls ``callback`` from the runner's thread when it has finished or failed."""
        self._on_end = callback

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends after the current slice; pending commands and advances fail with ``UnavailableError``."""
        self.stop_soon()
        if self._thread.ident is not None:
            self._thread.join(STOP_S)  # does not wait for a running kernel compilation

    def stop_soon(self) -> None:
        """Like ``stop``, without waiting."""
        self._stopping = True
        self._wake.set()

    def woken(self) -> None:
        """Wakes the runner: an outlet has room again or has failed."""
        self._wake.set()

    def set_watermark(self, ports: Collection[int], watermark: Watermark) -> Future[None]:
        def act() -> None:
            self.fabric.set_watermark(ports, watermark)
            self._publish(watermarks={**self.view.watermarks, **dict.fromkeys(ports, watermark)})

        return self._ask(act)

    def set_dcqcn(self, host: int, change: Callable[[DcqcnParams], DcqcnParams]) -> Future[None]:
        """Replaces the parameters of a host's flows by what ``change`` makes of them."""

        def act() -> None:
            params = change(self.fabric.dcqcn(host))
            self.fabric.set_dcqcn([host], params)
            self._publish(dcqcn={**self.view.dcqcn, host: params})

        return self._ask(act)

    def set_ecmp_seed(self, switch: str, seed: int | None) -> Future[None]:
        def act() -> None:
            self.fabric.set_ecmp_seed(switch, seed)
            self._publish(ecmp_seeds={**self.view.ecmp_seeds, switch: seed})

        return self._ask(act)

    def read_ports(self, ports: Sequence[int]) -> Future[PortReadings]:
        """Totals, depths and peaks of these ports; reading resets the peaks."""
        return self._ask(lambda: self.fabric.read_ports(ports))

    def fail_link(self, port: int, reverse: int) -> Future[None]:
        """Cuts a cable in both directions."""

        def act() -> None:
            self.fabric.fail_link(port)
            self._publish(links_down=self.view.links_down | {port, reverse})

        return self._ask(act)

    def restore_link(self, port: int, reverse: int) -> Future[None]:
        def act() -> None:
            self.fabric.restore_link(port)
            self._publish(links_down=self.view.links_down - {port, reverse})

        return self._ask(act)

    def figures(self) -> Future[FiguresDocument]:
        """The whole run until now; unfinished flows count at their age."""
        return self._ask(lambda: self._whole.figures(self.fabric.measured(), self.fabric.under_way()))

    def mark(self) -> Future[FiguresDocument]:
        """Figures since the last mark, or the start; unfinished flows count at their age."""

        def act() -> FiguresDocument:
            measured = self.fabric.measured()
            found = self._since_mark.figures(measured, self.fabric.under_way())
            self._since_mark = Stretch(measured)
            return found

        return self._ask(act)

    def advance(self, until_s: float) -> Future[FiguresDocument]:
        """Runs until then; done once the reports of that stretch have been posted too.

        The future raises ``ConflictError`` without ``stepwise`` or during another advance, and
        ``UnprocessableError`` for a time in the past or after the end.
        """
        answer: Future[FiguresDocument] = Future()

        def begin() -> None:
            try:
                self._check_advance(until_s)
            except (ConflictError, UnprocessableError) as error:
                answer.set_exception(error)
                return
            self._stretch = Stretch(self.fabric.measured())
            self._advance = _Advance(until_s, answer)

        # Not cancellable: a fabric cannot go back.
        answer.set_running_or_notify_cancel()
        self._put(begin, answer)
        return answer

    def _check_advance(self, until_s: float) -> None:
        if not self.stepwise or self._advance is not None:
            raise ConflictError(
                "advance",
                None,
                "another one is under way"
                if self.stepwise
                else "only a lab started with --step can be advanced",
                "start it with --step" if not self.stepwise else "wait for the other's answer",
            )
        now_s = self.view.now_s
        if not now_s < until_s <= self.duration_s:
            raise UnprocessableError(
                "advance until_s",
                f"{until_s:g}",
                f"it is after now ({now_s:g}) and no later than the lab's duration ({self.duration_s:g})",
                "correct it",
            )

    def _ask(self, act: Callable[[], T]) -> Future[T]:
        answer: Future[T] = Future()

        def run() -> None:
            if not answer.set_running_or_notify_cancel():
                return
            try:
                answer.set_result(act())
            except Exception as error:
                answer.set_exception(error)

        self._put(run, answer)
        return answer

    def _put(self, command: Callable[[], None], answer: Future[Any]) -> None:
        with self._lock:  # no command may be queued after the last check
            if self._closed:
                _turn_away(answer)
                return
            self._commands.append((command, answer))
        self._wake.set()

    def _run(self) -> None:
        try:
            while True:
                self._wake.clear()  # before the checks, so that no wake-up is lost
                if self._stopping:
                    break
                while self._commands:
                    command, _ = self._commands.popleft()
                    command()
                for outlet in self._outlets:
                    if outlet.failure is not None:
                        raise outlet.failure
                wait_s = self._step()
                if wait_s is None:
                    break
                if wait_s > 0:
                    self._wake.wait(wait_s)
        except Exception as error:
            self.failure = error
        finally:
            with self._lock:
                self._closed = True
            left = [answer for _, answer in self._commands]
            for answer in [*left, *([self._advance.answer] if self._advance else [])]:
                _turn_away(answer)
            self._on_end()

    def _step(self) -> float | None:
        """Makes one step; returns how long to wait at most before the next, None at the end."""
        if not all(outlet.has_room for outlet in self._outlets):
            return 1.0
        now_s = self.view.now_s
        if self.stepwise:
            if self._advance is None:
                return 1.0
            if now_s >= self._advance.until_s:
                return self._finish_advance()
            self._slice(self._advance.until_s)
            return 0.0
        if now_s >= self.duration_s:
            return None if self._all_idle else 1.0
        may_s = self._paced(now_s)
        if may_s < SHORTEST_SLICE_S:
            assert self.pace is not None
            return min((SHORTEST_SLICE_S - may_s) / self.pace, 1.0)  # no thread waits for centuries
        self._slice(min(self.duration_s, now_s + may_s))
        return 0.0

    @property
    def _all_idle(self) -> bool:
        return all(outlet.idle for outlet in self._outlets)

    def _paced(self, now_s: float) -> float:
        """The simulated time that the pace allows now."""
        if self.pace is None:
            return math.inf
        wall_s = self.clock_s()
        if self._paced_since_s is None:
            self._paced_since_s = wall_s - now_s / self.pace
        return (wall_s - self._paced_since_s) * self.pace - now_s

    def _finish_advance(self) -> float:
        assert self._advance is not None
        if not self._all_idle:
            return 1.0
        answer, self._advance = self._advance.answer, None
        figures = self._stretch.figures(self.fabric.measured())
        self._publish(lately=figures)
        answer.set_result(figures)
        return 0.0

    def _slice(self, until_s: float) -> None:
        """One slice towards ``until_s``, sized to take about ``SLICE_WALL_S``: commands wait that long."""
        now_s = self.view.now_s
        if self._next_count_s <= now_s:  # the first slice
            self._count(now_s)
        if self.feed.next_s <= now_s:
            self._offer(self.feed.take())
        until_s = min(until_s, now_s + self._slice_s, self.feed.next_s, self._next_count_s)
        began_s = self.clock_s()
        happened = self.fabric.advance(until_s)
        made = self._report(happened.samples)
        ends_s = self.duration_s if self._advance is None else self._advance.until_s
        if until_s >= min(self._next_count_s, ends_s):
            self._count(until_s)
        took_s = self.clock_s() - began_s
        self._slice_s *= min(2.0, max(0.5, SLICE_WALL_S / max(took_s, 1e-6)))
        self._slice_s = min(max(self._slice_s, SHORTEST_SLICE_S), LONGEST_SLICE_S)
        self._stretch.add(happened.completions)
        self._whole.add(happened.completions)
        self._since_mark.add(happened.completions)
        self._publish(
            now_s=until_s,
            ended=until_s >= self.duration_s,
            flows_offered=self.feed.offered,
            flows_completed=self.view.flows_completed + len(happened.completions),
            reports_made=self.view.reports_made + made,
        )
        if not self.stepwise and until_s - self._stretch.begin_s >= LATELY_S:
            measured = self.fabric.measured()
            self._publish(lately=self._stretch.figures(measured))
            self._stretch = Stretch(measured)

    def _report(self, samples: Samples) -> int:
        """Queues the reports of these packets; returns their number."""
        if self.binary is not None:
            if len(samples):
                self.binary.sender.offer(Portion(self.binary.writer.datagrams(samples), len(samples)))
            return len(samples)
        made = 0
        for body in self.writer.bodies(samples):
            made += body.records
            if self.poster is not None:
                self.poster.offer(body)
        return made

    @property
    def _next_count_s(self) -> float:
        """Simulated time at which the port counters are due next."""
        if self.counters is None or self.poster is None:
            return math.inf
        return self._periods_counted * COUNT_EVERY_S

    def _count(self, now_s: float) -> None:
        """Queues the port counters: at the start, after each period, and at the end."""
        if self.counters is None or self.poster is None:
            return
        self.poster.offer(self.counters.body(self.fabric.measured()))
        if now_s >= self._next_count_s:
            self._periods_counted += 1

    def _offer(self, portion: Traffic) -> None:
        """Adds flows to the fabric; while cables are cut, flows without a path are dropped."""
        if not len(portion):
            return
        try:
            self.fabric.offer(portion)
            return
        except ScenarioError:
            if not self.view.links_down or len(portion.after):
                raise
        columns = (portion.src, portion.dst, portion.payload_bytes, portion.start_s)
        for row in range(len(portion)):
            with suppress(ScenarioError):
                self.fabric.offer(Traffic.independent(*(column[row : row + 1] for column in columns)))

    def _publish(self, **changes: Any) -> None:
        self.view = replace(self.view, **changes)


def _turn_away(answer: Future[Any]) -> None:
    if not answer.done():
        error = UnavailableError("lab", None, "a lab that stops does nothing more", "start it again")
        answer.set_exception(error)
