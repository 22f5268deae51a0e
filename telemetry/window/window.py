"""The sliding window: checks, de-duplicates and keeps batches of reports, and gives the ``NetworkState``.

Time is the reports' own; no clock is read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from telemetry.columns import take_rows
from telemetry.errors import ReportError, WindowError
from telemetry.network.assemble import Snapshot
from telemetry.network.messages import longest_gap_ns
from telemetry.report import MISSING_NS, HopSite, ReportBatch, ReportProblem
from telemetry.settings import NS_PER_HOUR, NS_PER_S, WindowSettings
from telemetry.state import FlowClass, NetworkState
from telemetry.topology import Topology
from telemetry.window.hash_table import ABSENT, GONE, LastAnswers
from telemetry.window.samples import NEVER_NS, Samples, SampleStore, merged_flow, thinned, used_numbers
from telemetry.window.tables import KnownFlows, KnownPaths, misplaced, path_fingerprints
from telemetry.window.timeline import Timeline, Verdict


@dataclass(frozen=True, slots=True)
class AddResult:
    """Result of one batch; ``accepted + rejected`` is its length, ``duplicates`` of which the window holds
    another count as accepted.

    ``errors`` has an entry per rejected report, by its position in the body as sent.
    """

    accepted: int
    rejected: int
    duplicates: int
    errors: tuple[ReportProblem, ...]


@dataclass(frozen=True, slots=True)
class WindowCounters:
    """Totals since the window was created.

    ``too_old`` reports are older than the window, ``skewed`` ones too far away in time, ``behind`` ones are
    accepted but lie further behind the window's end than a step that it follows at once. ``unknown_sites``
    name a switch or port that the declared topology lacks, ``overflowed`` have a path or queue for which
    there is no room. ``evicted`` flows were merged with others of their class to save room, ``thinned``
    reports are represented by others, ``negative_latencies`` are hops with egress before ingress.
    """

    accepted: int = 0
    rejected: int = 0
    duplicates: int = 0
    too_old: int = 0
    skewed: int = 0
    behind: int = 0
    unknown_sites: int = 0
    overflowed: int = 0
    evicted: int = 0
    thinned: int = 0
    negative_latencies: int = 0

    def behind_share_since(self, before: WindowCounters) -> float:
        """How many of the reports accepted since were ``behind``; repeats count as none, 0 without any."""
        new = (self.accepted - self.duplicates) - (before.accepted - before.duplicates)
        return (self.behind - before.behind) / new if new > 0 else 0.0


_EVICT_TO = 0.9
_TABLE_SIZE = 2  # flows in the table per flow that is needed, at most
_FEW_FLOWS = 1_024
_THIN_BACK = 0.25
_SWEPT_SHARE = 0.25  # of the reports, that leave between two searches for unused paths
_SPANS_S = ((365.25 * 86_400, "years"), (86_400, "days"), (3_600, "hours"), (60, "minutes"), (1.0, "s"))
_LARGER_UNITS = MappingProxyType({"microseconds": 1_000, "milliseconds": 1_000_000, "seconds": NS_PER_S})
_ABOUT_NOW_NS = NS_PER_HOUR
_SAME_UNIT = 0.01  # of the time since 1970: half a year
_MOST_NS = np.iinfo(np.int32).max
_LAST_NS = int(np.iinfo(np.int64).max)  # of any date, and of any span's end


class Window:
    """A sliding window of INT reports in bounded memory; not thread-safe.

    The result does not depend on the order of reports or on duplicates. The cost of ``add`` per report does
    not depend on the window's size.
    """

    def __init__(self, settings: WindowSettings | None = None, topology: Topology | None = None) -> None:
        self.settings = settings or WindowSettings()
        self._counters = WindowCounters()
        self._start_anew()
        self.set_topology(topology)

    def _start_anew(self) -> None:
        self._timeline = Timeline(self.settings)
        self._empty()

    def _empty(self) -> None:
        self._store = SampleStore()
        self._flows = KnownFlows()
        self._room_for_flows = _FEW_FLOWS
        self._paths = KnownPaths(self.settings.max_paths, self.settings.max_queues)
        self._merged_flows: dict[int, NDArray[np.int64]] = {}
        self._begun_ns = _LAST_NS
        self._level = 0
        self._left = 0  # reports, since unused paths were last dropped

    @property
    def topology(self) -> Topology | None:
        return self._topology

    @property
    def counters(self) -> WindowCounters:
        return self._counters

    @property
    def last_report_ns(self) -> int | None:
        """The newest accepted timestamp; None while the window is empty."""
        held = self._held()
        return None if held is None else held[1]

    @property
    def span_ns(self) -> tuple[int, int] | None:
        """Start and end (exclusive) of the time covered by reports; None while the window is empty."""
        held = self._held()
        return None if held is None else self._span(*held)

    def __len__(self) -> int:
        """Reports stored (fewer than accepted once old ones leave or many are thinned)."""
        return self._store.rows

    def set_topology(self, topology: Topology | None) -> None:
        """Declares or withdraws the topology; stored reports stay if all would be accepted now, else none."""
        self._topology = topology
        self._misplaced: LastAnswers[HopSite, dict[int, tuple[str, str]]] = LastAnswers(
            lambda sites: {} if topology is None else misplaced(sites, topology)
        )
        if topology is None or not self._store.rows:
            return
        self._sweep()
        if misplaced(self._paths.paths().things, topology):
            self._start_anew()

    def add(self, batch: ReportBatch, *, now_ns: int | None = None) -> AddResult:
        """Adds a batch: rejects invalid reports, drops duplicates, keeps the rest.

        The first reports set what time it is, unless they are of ``now_ns`` in another unit.
        """
        rejections: dict[int, ReportError] = {}
        duplicates = self._counters.duplicates
        rows = self._in_topology(batch, rejections)
        if now_ns is not None and self._timeline.end is None:
            rows = self._in_nanoseconds(batch, rows, now_ns, rejections)
        flow = self._flows.fingerprints(batch.flow_keys)
        site = self._paths.site_fingerprints(batch.sites)[batch.hop_site]
        rows, fingerprints, periods = self._new_rows(batch, rows, flow, site)
        verdicts, anew = self._timeline.judge(periods)
        kept = verdicts == Verdict.KEEP
        if anew:
            self._empty()
        elif self._timeline.end is not None:
            near = self._timeline.end - self.settings.max_jump_periods
            self._count(behind=int(np.count_nonzero(kept & (periods < near))))
        self._reject_by_time(batch, rows, verdicts, rejections)
        rows, fingerprints, periods = rows[kept], fingerprints[kept], periods[kept]
        if len(rows):
            path = self._paths_of(batch, rows, site)
            roomy = path != ABSENT
            self._reject_overflow(batch, rows[~roomy], rejections)
            self._keep(batch, rows[roomy], flow, path[roomy], fingerprints[roomy], periods[roomy])
        accepted = len(batch) - len(rejections)
        self._count(accepted=accepted, rejected=len(rejections))
        errors = tuple(
            ReportProblem(int(batch.index[row]), str(error)) for row, error in sorted(rejections.items())
        )
        return AddResult(accepted, len(rejections), self._counters.duplicates - duplicates, errors)

    def state(self) -> NetworkState:
        """The network as the window shows it now. Raises ``WindowError`` while the window is empty."""
        return self.snapshot().state()

    def snapshot(self) -> Snapshot:
        """A copy of the window, from which another thread or process can compute the state.

        Raises ``WindowError`` while the window is empty.
        """
        held = self._held()
        if held is None:
            rule = "it holds no report (none came, or another topology was declared)"
            raise WindowError("window", None, rule, "post INT reports and ask again")
        last, newest_ns = held
        first = last - self.settings.n_periods + 1
        merged = np.zeros(len(FlowClass), np.int64)
        for period, counts in self._merged_flows.items():
            if first <= period <= last:
                merged += counts
        return Snapshot(
            parts=self._store.between(first, last),
            flow_keys=self._flows.keys(),
            flow_fingerprint=self._flows.all_fingerprints.copy(),
            last_before_ns=self._flows.before_ns.copy(),
            path_sites=self._paths.paths(),
            merged_flows=merged,
            span_ns=self._span(last, newest_ns),
            settings=self.settings,
            topology=self._topology,
        )

    def _held(self) -> tuple[int, int] | None:
        """The newest non-empty period, and its newest timestamp."""
        end = self._timeline.end
        return None if end is None else self._store.newest(end)

    def _span(self, last: int, newest_ns: int) -> tuple[int, int]:
        settings = self.settings
        end_ns = min(newest_ns + 1, _LAST_NS)
        start_ns = settings.origin_ns + (last - settings.n_periods + 1) * settings.period_ns
        # A new window is as long as the time its reports cover; a single report gets a millisecond.
        shortest = min(settings.period_ns, NS_PER_S // 1000)
        return min(max(start_ns, self._begun_ns), end_ns - shortest), end_ns

    def _in_topology(self, batch: ReportBatch, rejections: dict[int, ReportError]) -> NDArray[np.int64]:
        """Rows whose hops are all in the declared topology."""
        rows = np.arange(len(batch))
        if self._topology is None or len(batch) == 0:
            return rows
        wrong = self._misplaced.on(batch.sites)
        if not wrong:
            return rows
        is_wrong = np.zeros(len(batch.sites), np.bool_)
        is_wrong[list(wrong)] = True
        bad_hops = is_wrong[batch.hop_site]
        bad_rows = np.logical_or.reduceat(bad_hops, batch.hop_offset[:-1])
        for row in np.flatnonzero(bad_rows).tolist():
            begin = int(batch.hop_offset[row])
            hop = int(np.argmax(bad_hops[begin : int(batch.hop_offset[row + 1])]))
            received, rule = wrong[int(batch.hop_site[begin + hop])]
            remedy = "correct the report or the topology; this report was left out"
            rejections[row] = ReportError(f"report {batch.index[row]} hops[{hop}]", received, rule, remedy)
        self._count(unknown_sites=len(rejections))
        return rows[~bad_rows]

    def _in_nanoseconds(
        self,
        batch: ReportBatch,
        rows: NDArray[np.int64],
        now_ns: int,
        rejections: dict[int, ReportError],
    ) -> NDArray[np.int64]:
        """Rows but those whose time is that of now in a larger unit: all senders may have it wrong alike."""
        ts_ns = batch.ts_ns[rows]
        kept = np.ones(len(rows), np.bool_)
        for unit, size_ns in _LARGER_UNITS.items():
            wrong = kept & (np.abs(ts_ns - now_ns // size_ns) <= _ABOUT_NOW_NS // size_ns)
            kept &= ~wrong
            for row, sent in zip(rows[wrong].tolist(), ts_ns[wrong].tolist(), strict=True):
                rejections[row] = ReportError(
                    f"report {batch.index[row]} ts_ns",
                    f"{sent}, which is the present time in {unit}",
                    "timestamps are nanoseconds since 1970",
                    "send ts_ns in nanoseconds since 1970",
                )
        self._count(skewed=int(np.count_nonzero(~kept)))
        return rows[kept]

    def _new_rows(
        self, batch: ReportBatch, rows: NDArray[np.int64], flow: NDArray[np.uint64], site: NDArray[np.uint64]
    ) -> tuple[NDArray[np.int64], NDArray[np.uint64], NDArray[np.int64]]:
        """Rows that are not duplicates within the batch or the window, with fingerprints and periods."""
        if len(rows) == 0:
            return rows, np.empty(0, np.uint64), np.empty(0, np.int64)
        every = batch.fingerprints(flow, site)
        _, first = np.unique(every[rows], return_index=True)
        rows_once = rows[np.sort(first)]
        fingerprints = every[rows_once]
        periods = (batch.ts_ns[rows_once] - self.settings.origin_ns) // self.settings.period_ns
        fresh = np.ones(len(rows_once), np.bool_)
        for period in self._store.known(np.unique(periods).tolist()):
            here = np.flatnonzero(periods == period)
            fresh[here] = ~self._store.seen(period, fingerprints[here])
        self._count(duplicates=len(rows) - int(np.count_nonzero(fresh)))
        return rows_once[fresh], fingerprints[fresh], periods[fresh]

    def _reject_by_time(
        self,
        batch: ReportBatch,
        rows: NDArray[np.int64],
        verdicts: NDArray[np.int8],
        rejections: dict[int, ReportError],
    ) -> None:
        wrong = verdicts != Verdict.KEEP
        for row, ts_ns, far in zip(
            rows[wrong].tolist(),
            batch.ts_ns[rows[wrong]].tolist(),
            (verdicts[wrong] == Verdict.FAR).tolist(),
            strict=True,
        ):
            rejections[row] = ReportError(
                f"report {batch.index[row]} ts_ns",
                f"{ts_ns}, {self._distance(ts_ns)}",
                "timestamps lie within reach of the window's other reports"
                if far
                else f"a report arrives within the window of {self.settings.length_ns / NS_PER_S:g} s",
                "send ts_ns in nanoseconds since 1970"
                if self._in_another_unit(ts_ns)
                else "correct the sink's clock; if it is right, the window follows once enough reports agree"
                if far
                else "correct the sink's clock, send reports sooner, or lengthen the window",
            )
        self._count(
            skewed=int(np.count_nonzero(verdicts == Verdict.FAR)),
            too_old=int(np.count_nonzero(verdicts == Verdict.TOO_OLD)),
        )

    def _distance(self, ts_ns: int) -> str:
        end_ns = self._end_ns
        if end_ns is None:
            return "away from most of its batch"
        away_s = (ts_ns - end_ns) / NS_PER_S
        size_s, unit = next(one for one in _SPANS_S if abs(away_s) >= 2 * one[0] or one[0] == 1.0)
        digits = 6 if size_s == 1.0 else 3
        return (
            f"{abs(away_s) / size_s:.{digits}g} {unit} {'after' if away_s > 0 else 'before'} the window's end"
        )

    @property
    def _end_ns(self) -> int | None:
        end, settings = self._timeline.end, self.settings
        return None if end is None else settings.origin_ns + (end + 1) * settings.period_ns

    def _in_another_unit(self, ts_ns: int) -> bool:
        """Whether it is a thousand, a million or a thousand million times less than the window's end."""
        ratio = (self._end_ns or 0) / max(ts_ns, 1)
        return any(abs(ratio / size_ns - 1) < _SAME_UNIT for size_ns in _LARGER_UNITS.values())

    def _paths_of(
        self, batch: ReportBatch, rows: NDArray[np.int64], site: NDArray[np.uint64]
    ) -> NDArray[np.int32]:
        """The path number of each row; ``ABSENT`` without room, though unused paths were dropped."""
        fingerprints = path_fingerprints(batch.hop_offset, site)[rows]
        offset, hops = take_rows(batch.hop_offset, rows)
        known, hop_site = self._paths, batch.hop_site[hops]
        path = known.numbers(fingerprints, batch.sites, offset, hop_site)
        # Where enough has left to pay for it: else a full window is gone through for each part of a body.
        if (path == ABSENT).any() and self._left and self._left >= _SWEPT_SHARE * self._store.rows:
            self._sweep()
            path = known.numbers(fingerprints, batch.sites, offset, hop_site)
        return path

    def _reject_overflow(
        self, batch: ReportBatch, rows: NDArray[np.int64], rejections: dict[int, ReportError]
    ) -> None:
        settings = self.settings
        full = "path" if len(self._paths) >= settings.max_paths else "queue"
        received = f"another {full} than those held"
        rule = f"a window holds {settings.max_paths} paths and {settings.max_queues} queues"
        remedy = f"raise max_{full}s, or look for a device that invents names; this report was left out"
        for row in rows.tolist():
            rejections[row] = ReportError(f"report {batch.index[row]} hops", received, rule, remedy)
        self._count(overflowed=len(rows))

    def _keep(
        self,
        batch: ReportBatch,
        rows: NDArray[np.int64],
        flow: NDArray[np.uint64],
        path: NDArray[np.int32],
        fingerprints: NDArray[np.uint64],
        periods: NDArray[np.int64],
    ) -> None:
        if len(rows) == 0:
            return
        held = self._store.rows
        used, place = np.unique(batch.flow[rows], return_inverse=True)
        number = self._flows.numbers(batch.flow_keys.take(used), flow[used])[place]
        offset, hops = take_rows(batch.hop_offset, rows)
        samples = Samples(
            ts_ns=batch.ts_ns[rows],
            fingerprint=fingerprints,
            flow=number,
            path=path,
            packet_bytes=batch.packet_bytes[rows].astype(np.int32),
            true_bytes=batch.packet_bytes[rows] / batch.sampling_rate[rows],
            stands_for=np.ones(len(rows), np.int32),
            hop_offset=offset,
            queue_bytes=batch.queue_bytes[hops],
            residence_ns=self._residence_ns(batch.ingress_ns[hops], batch.egress_ns[hops]),
            marked=batch.marked[hops],
        )
        self._begun_ns = min(self._begun_ns, int(samples.ts_ns.min()))
        gone = self._timeline.record(periods)
        for period in gone:
            self._expire(period)
        # A batch may have a period per report, most of them expired by its newest.
        past = np.isin(periods, gone)
        if past.any():
            passed = thinned(samples.take(np.flatnonzero(past)), self._level)
            self._flows.pass_by(passed.flow, passed.ts_ns)
        for period in np.unique(periods[~past]).tolist():
            here = periods == period
            own = samples if here.all() else samples.take(np.flatnonzero(here))
            part = thinned(own, self._level)
            self._store.append(period, part)
            self._flows.hold(part.flow)
        self._hold_to_limits()
        self._left += held + len(rows) - self._store.rows

    def _residence_ns(self, ingress_ns: NDArray[np.int64], egress_ns: NDArray[np.int64]) -> NDArray[np.int32]:
        """Time in each switch by its own clock; -1 where it is unknown or negative."""
        known = (ingress_ns != MISSING_NS) & (egress_ns != MISSING_NS)
        residence = egress_ns - ingress_ns
        self._count(negative_latencies=int(np.count_nonzero(known & (residence < 0))))
        return np.where(known & (residence >= 0), np.minimum(residence, _MOST_NS), -1).astype(np.int32)

    def _expire(self, period: int) -> None:
        for part in self._store.pop(period):
            self._flows.release(part.flow, part.ts_ns)
        self._merged_flows.pop(period, None)

    def _hold_to_limits(self) -> None:
        settings = self.settings
        if self._level and self._store.rows < _THIN_BACK * settings.max_reports:
            self._level -= 1
        while self._store.rows > settings.max_reports:
            self._level += 1
            before = self._store.rows
            self._store.thin(self._level)
            self._flows.recount(self._store)
            self._count(thinned=before - self._store.rows)
        most = settings.max_flows
        if len(self._flows) > most and np.count_nonzero(self._flows.held) > most:
            self._merge_smallest()
        if len(self._flows) > min(self._room_for_flows, _TABLE_SIZE * most):
            self._forget_flows()

    def _forget_flows(self) -> None:
        """Forgets flows silent for so long that their next packet begins a new message; all flows without
        samples where there are too many.
        """
        held = self._flows.held > 0
        begin_ns = self.settings.origin_ns + self._timeline.oldest * self.settings.period_ns
        kept = held | (self._flows.before_ns >= begin_ns - longest_gap_ns(self.settings))
        if np.count_nonzero(kept) > self.settings.max_flows:
            kept = held
        self._keep_flows(np.flatnonzero(kept))
        self._room_for_flows = max(_TABLE_SIZE * len(self._flows), _FEW_FLOWS)

    def _merge_smallest(self) -> None:
        """Merges the smallest flows (ties: the longest silent) by class; forgets those without samples."""
        settings, n = self.settings, len(self._flows)
        held_bytes, last_ns = np.zeros(n), np.full(n, NEVER_NS, np.int64)
        for part in self._store:
            live = part.flow >= 0
            held_bytes += np.bincount(part.flow[live], part.true_bytes[live], minlength=n)
            np.maximum.at(last_ns, part.flow[live], part.ts_ns[live])
        by_size = np.lexsort((last_ns, held_bytes))[::-1]
        room = max(int(_EVICT_TO * settings.max_flows), 1)
        gone = by_size[room:][held_bytes[by_size[room:]] > 0]
        large = held_bytes >= settings.elephant_bytes
        period = (last_ns[gone] - settings.origin_ns) // settings.period_ns
        for one in np.unique(period).tolist():
            counts = self._merged_flows.setdefault(one, np.zeros(len(FlowClass), np.int64))
            elephants = int(np.count_nonzero(large[gone[period == one]]))
            counts[FlowClass.ELEPHANT] += elephants
            counts[FlowClass.MOUSE] += int(np.count_nonzero(period == one)) - elephants
        self._keep_flows(np.sort(by_size[:room][held_bytes[by_size[:room]] > 0]), large)
        self._count(evicted=len(gone))

    def _keep_flows(self, kept: NDArray[np.int64], large: NDArray[np.bool_] | None = None) -> None:
        """Forgets all other flows; their samples go to one merged flow per class (``large``: elephants)."""
        renumbered = self._flows.keep(kept)
        if large is not None:
            merged = np.where(large, merged_flow(FlowClass.ELEPHANT), merged_flow(FlowClass.MOUSE))
            renumbered = np.where(renumbered == GONE, merged, renumbered).astype(np.int32)
        self._store.renumber(flow=renumbered)

    def _sweep(self) -> None:
        """Forgets paths and queues that no report in the window uses."""
        used = used_numbers((part.path for part in self._store), len(self._paths))
        self._store.renumber(path=self._paths.keep(np.flatnonzero(used)))
        self._left = 0

    def _count(self, **more: int) -> None:
        counters = self._counters
        self._counters = replace(
            counters, **{name: getattr(counters, name) + add for name, add in more.items()}
        )
