"""Criteria of an acceptance, and what a run that fails one of them points to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lab.acceptance.collectives import line_rate, offered_loads
from lab.acceptance.documents import CheckDocument, CollectiveDocument, Criterion
from lab.acceptance.links import even_loads, port_text, shared_groups, unlike_others
from lab.acceptance.run import ECN_OFF, Outcome
from telemetry.topology import Topology
from twin.errors import check_not_negative
from twin.packet.plan import FabricPlan
from twin.units import bytes_text, duration_text, percent_text
from twin.watermark import Watermark

ENOUGH_MESSAGES = 100  # of a port: chance then moves its load by a tenth
_FULL = 0.9  # of a rate


@dataclass(frozen=True, slots=True, kw_only=True)
class Criteria:
    """Bus bandwidth at least that share of the line rate; at most that share of packets lost; at most that
    share of the time paused, of any port; the slowest rank's time a byte at most that share above the
    median's; the load of each of the ports that share it at most that share from their mean.

    Raises ``ParameterError`` for one below 0.
    """

    bus_bandwidth: float = 0.4
    loss: float = 0.0
    paused: float = 0.02
    slowest_rank: float = 0.25
    ecmp_spread: float = 0.25

    def __post_init__(self) -> None:
        for one in fields(self):
            check_not_negative(f"criterion {one.name}", getattr(self, one.name))


@dataclass(frozen=True)
class Judge:
    """Judges runs on one fabric. ``watermarks`` are of its switch ports."""

    topology: Topology
    plan: FabricPlan
    watermarks: Mapping[int, Watermark]
    criteria: Criteria

    def document(self, outcomes: Sequence[Outcome]) -> CollectiveDocument:
        """The checks on runs of one collective under several seeds, each under its worst."""
        by_seed = [list(self._checks(one)) for one in outcomes]
        worst = [max(of_one, key=_badness) for of_one in zip(*by_seed, strict=True)]
        collective = outcomes[0].collective
        return CollectiveDocument(
            name=collective.name,
            messages=len(collective.traffic),
            took_s=max(one.took_s for one in outcomes),
            ideal_s=collective.ideal_s,
            links_allow=None if collective.bus_bytes is None else self._allowed(outcomes[0])[0],
            passed=all(one.passed is not False for one in worst),
            checks=worst,
        )

    @cached_property
    def oddities(self) -> list[str]:
        return unlike_others(self.topology)

    @cached_property
    def _rates(self) -> NDArray[np.float64]:
        return np.array([port.rate_bytes_per_s for port in self.plan.ports])

    @property
    def _overhead(self) -> float:
        return self.plan.wire_overhead_bytes / self.plan.mtu_payload_bytes

    @cached_property
    def _groups(self) -> list[tuple[int, ...]]:
        return shared_groups(self.topology)

    def _checks(self, run: Outcome) -> Iterator[CheckDocument]:
        yield self._completes(run)
        yield self._bus_bandwidth(run)
        yield self._loss(run)
        yield self._paused(run)
        yield self._slowest(run)
        yield self._spread(run)

    def _check(
        self, run: Outcome, criterion: Criterion, value: float | None, limit: float, finding: str = ""
    ) -> CheckDocument:
        """``finding`` is for a value that fails."""
        met = value is None or (value >= limit if criterion in AT_LEAST else value <= limit)
        return CheckDocument(
            criterion=criterion,
            value=value,
            limit=limit,
            passed=None if value is None else met,
            seed=run.seed,
            finding=None if met else finding,
        )

    def _completes(self, run: Outcome) -> CheckDocument:
        total = len(run.collective.traffic)
        missing = np.bincount(run.collective.traffic.src, minlength=len(run.delivered)) - run.delivered
        finding = (
            f"{total - run.n_delivered} of {total} messages were not delivered within "
            f"{duration_text(run.limit_s)}, most of them from {self.plan.hosts[int(missing.argmax())]}. "
            f"{self._limited_by(run)}"
        )
        return self._check(run, "completes", run.n_delivered / total, 1.0, finding)

    def _bus_bandwidth(self, run: Outcome) -> CheckDocument:
        limit, bus = self.criteria.bus_bandwidth, run.collective.bus_bytes
        if bus is None or run.n_delivered < len(run.collective.traffic):
            return self._check(run, "bus_bandwidth", None, limit)
        share = bus / run.took_s / line_rate(self.plan)
        return self._check(run, "bus_bandwidth", share, limit, self._limited_by(run))

    def _limited_by(self, run: Outcome) -> str:
        """The links, the fullest port or the senders; and links unlike others."""
        busy = run.measured.sent_bytes / self._rates / max(run.measured.now_s, 1e-9)
        fullest = int(busy.argmax())
        said = [f"{self._name(fullest)} was busiest, {percent_text(busy[fullest])} of the time"]
        if run.collective.bus_bytes is not None:
            allowed, tightest = self._allowed(run)
            if allowed * (1.0 + self._overhead) < _FULL:
                limit = f"the links allow {percent_text(allowed)} of the line rate"
                said.insert(0, f"{limit}, as {self._name(tightest)} carries most for its rate")
        if busy[fullest] < _FULL and (cnps := run.measured.cnps):
            said.append(f"{cnps} CNPs slowed the senders: the watermark and DCQCN decide how much")
        return _sentences(*said, *self.oddities)

    def _allowed(self, run: Outcome) -> tuple[float, int]:
        """The bus bandwidth that links allow where ECMP spreads evenly, as a share of the line rate, and the
        port that limits it.
        """
        busy_s = (1.0 + self._overhead) * offered_loads(self.topology, run.collective) / self._rates
        tightest = int(busy_s.argmax())
        bus = run.collective.bus_bytes or 0.0
        return float(bus / busy_s[tightest] / line_rate(self.plan)), tightest

    def _name(self, port: int) -> str:
        return port_text(self.plan.ports[port])

    def _loss(self, run: Outcome) -> CheckDocument:
        lost = run.measured.dropped_packets
        port = int(lost.argmax())
        finding = _sentences(
            f"{int(lost.sum())} packets were lost, {int(lost[port])} of them at {self._name(port)}",
            f"PFC is {'on' if self.plan.pfc else 'off'}",
            self._marking(run, port),
        )
        share = float(lost.sum()) / max(run.measured.injected_packets, 1)
        return self._check(run, "loss", share, self.criteria.loss, finding)

    def _paused(self, run: Outcome) -> CheckDocument:
        share = run.measured.paused_s / max(run.measured.now_s, 1e-9)
        port = int(share.argmax())
        said = [f"{self._name(port)} was paused {percent_text(share[port])} of the time"]
        if beyond := self.topology.ports_of[self.plan.ports[port].peer]:
            said.append(self._marking(run, max(beyond, key=lambda own: float(run.peaks_bytes[own]))))
        return self._check(run, "paused", float(share[port]), self.criteria.paused, _sentences(*said))

    def _marking(self, run: Outcome, port: int) -> str:
        """How deep a queue became, and why its watermark did not keep it shallow."""
        mark, peak = self.watermarks.get(port, ECN_OFF), float(run.peaks_bytes[port])
        said = f"the queue of {self._name(port)} reached {bytes_text(peak)}"
        if mark == ECN_OFF:
            return f"{said}, and ECN is off there: set a watermark"
        kmax = f"its Kmax of {bytes_text(mark.kmax_bytes)}"
        if peak < mark.kmax_bytes:
            return (
                f"{said}, less than {kmax}: the buffer runs short before all packets are marked; lower both"
            )
        return f"{said}, beyond {kmax}: lower Kmin and Kmax, or look at DCQCN of the senders"

    def _slowest(self, run: Outcome) -> CheckDocument:
        limit, times = self.criteria.slowest_rank, run.s_per_byte
        if run.collective.bus_bytes is None or not np.isfinite(times).any():
            return self._check(run, "slowest_rank", None, limit)
        rank = int(np.nanargmax(times))
        ratio = float(times[rank] / np.nanmedian(times))
        leaf = self.plan.ports[self.plan.nics[rank][0]].peer
        finding = _sentences(
            f"messages of {self.plan.hosts[rank]} took {ratio:.2g} times as long as those of the median rank"
            f": look at its NIC and cable, and at the links of {leaf}",
            *self.oddities,
        )
        return self._check(run, "slowest_rank", ratio - 1.0, limit, finding)

    def _spread(self, run: Outcome) -> CheckDocument:
        limit, worst, finding = self.criteria.ecmp_spread, None, ""
        traffic = run.collective.traffic
        messages = even_loads(self.topology, traffic, np.ones(len(traffic)))
        alike = run.collective.bus_bytes is not None  # messages of one size
        for group in map(list, self._groups if alike else ()):
            sent = run.measured.sent_bytes[group]
            if messages[group].sum() < ENOUGH_MESSAGES * len(group):
                continue
            shares = sent / sent.mean()
            off = int(np.abs(shares - 1.0).argmax())
            if worst is None or abs(shares[off] - 1.0) > worst:
                worst = float(abs(shares[off] - 1.0))
                node = self.plan.ports[group[off]].node
                finding = _sentences(
                    f"{self._name(group[off])} carried {percent_text(shares[off])} of the mean of the "
                    f"{len(group)} such ports of {node}: look at its hash, and at the links beyond",
                    *self.oddities,
                )
        return self._check(run, "ecmp_spread", worst, limit, finding)


AT_LEAST = ("completes", "bus_bandwidth")


def _badness(check: CheckDocument) -> tuple[bool, float]:
    if check.value is None:
        return False, -np.inf
    return check.passed is False, -check.value if check.criterion in AT_LEAST else check.value


def _sentences(*parts: str) -> str:
    """Capitals for words, not for names of switches."""
    words = ("the ", "messages ")
    return " ".join(f"{part[0].upper() + part[1:] if part.startswith(words) else part}." for part in parts)
