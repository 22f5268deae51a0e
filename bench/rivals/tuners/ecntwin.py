"""ecntwin itself, on what a collector sees: INT reports through telemetry, twin and gates to a watermark.

Each part is the service's own, with its defaults: sampled packets are written as the reports a lab posts,
decoded and kept in the window; a round (``service.tuning.round``) judges its moments of traffic; the store
says what stands, and the gate what may be set. What passes is set as by ``rollout.auto``. The bench adds:

- **Time.** A service runs a round each ``tuning.period_s``, 30 s, while traffic stays the same for minutes.
  Here phases last tens of milliseconds, so rounds run each ``round_every_s`` of simulated time on the last
  ``window_s`` of reports, or sooner where looks between them find other traffic. The service's clock runs as
  much faster, 30 s from round to round, so that moments are kept over ten rounds, telemetry is stale after
  two, and a change cools down for one. What telemetry's own clock measures, such as a moment or an idle gap,
  stays as it is.
- **Delay.** A round sees the reports that came before it began. It ends ``compute_s`` of simulated time later
  (0: what it takes is reported as CPU time alone), and no other begins before. ``FabricFacts.delay_s`` after
  that the switches run what it found. A window no longer than the time between rounds less both delays holds
  no report from before a change: the twin replays all of it under what runs now, and recommends nothing
  where that does not show the queues measured.
- **Rollout.** All switches are set at once: soak times are off, as in ``lab.demo.plan``, and with them the
  guards that take a change back, which is all that a round would use counters for. No critical alarm keeps
  the policy from approving.
- **Policy.** What counts is said as an operator says it, by ``search.weights``: as J does, large transfers
  and mice, half each (``J_WEIGHTS``), or the service's default, where bare packets count as well.
- **Where.** A round finds one watermark for all switches with a congested port, and that is set on every port
  of theirs; other switches keep what they run. Before it, ports of other rates run other thresholds: the
  service takes the watermark of most switches, and of most ports of each, for what all run.
- **NICs.** With ``what`` a round also says what senders should run (``twin.search.co_tuning``). The service
  leaves that to its operator; here its advice is followed wherever it is recommended and nothing holds a
  change back: senders and the watermark that goes with them are set at once, on every port.

CPU time includes that of the exporters, which write the reports. The search runs in this process, so that it
is counted; the answers do not depend on ``workers``.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Literal

from bench.rivals.tuner import FabricFacts, Looks, Seen, Settings, Tuner
from lab.reports import DATA_QUEUE, EPOCH_NS, ReportWriter
from service.domain import ask_of, gate_of, moments_of
from service.switches.adapters import Adapters
from service.switches.fleet import Fleet
from service.tuning.approvals import POLICY
from service.tuning.entry import Entry
from service.tuning.gate import PushGate
from service.tuning.recommendations import RecommendationStore, SavedRounds
from service.tuning.round import RoundResult, run_round
from settings.model import Settings as ServiceSettings
from switches.base import QueueWatermark, Reading
from switches.registry import AdapterRegistry
from telemetry.decode.json import decode
from telemetry.errors import TelemetryError
from telemetry.settings import NS_PER_S
from telemetry.window.window import Window
from twin.errors import TwinError
from twin.packet.plan import FabricPlan
from twin.search.coordinates import What
from twin.search.recommendation import CoTuning, VerdictKind
from twin.watermark import Watermark
from twin.workers.pool import InProcessWorkers, Workers

PERIOD_S = 1e-3
_SAME_TIME_S = 1e-9
J_WEIGHTS = "0.5,0.5,0"  # of bulk speed, mice and probe, as bench.rivals.judge weighs them

Approved = tuple[Entry, CoTuning | None]
"""What is to be set: the entry's watermark, or all of a co-tuning."""
Outcome = Literal["skipped", "failed", "kept", "held", "pushed"]


@dataclass(frozen=True, slots=True)
class Round:
    """A round that began at ``at_s`` of simulated time, and what came of it, with a sentence on why.

    ``result`` is None where it was skipped or failed.
    """

    at_s: float
    outcome: Outcome
    why: str
    result: RoundResult | None = None


class _Unsaved(SavedRounds):
    """A database that keeps nothing: what stands is in memory."""

    def __init__(self) -> None:
        pass

    def save(self, entry: Entry) -> None:
        pass

    def save_standing(self, entry: Entry) -> None:
        pass


class Ecntwin(Tuner):
    """The service in one process; times in simulated seconds.

    ``weights``, ``candidates`` and ``narrowed`` are the search's (None: the service's), ``what`` is tuned.
    ``rounds`` are those of the run under way or ended last.
    """

    looks: ClassVar[Looks] = Looks.FLOWS

    def __init__(
        self,
        *,
        round_every_s: float = 0.050,
        window_s: float = 0.045,
        compute_s: float = 0.0,
        weights: str | None = None,
        candidates: int | None = None,
        narrowed: int | None = None,
        what: tuple[What, ...] = ("watermark",),
        workers: Workers | None = None,
    ) -> None:
        self.round_every_s = round_every_s
        self.window_s = window_s
        self.compute_s = compute_s
        self._search = {
            name: value
            for name, value in (("weights", weights), ("candidates", candidates), ("narrowed", narrowed))
            if value is not None
        }
        self._what = what
        self._workers = workers or InProcessWorkers()
        self.rounds: list[Round] = []

    def begin(self, facts: FabricFacts, seed: int) -> Settings:
        self.exchanged_bytes = 0
        self.rounds = []
        self._facts = facts
        self._now_s = self._ended_s = self._looked_s = 0.0
        settings = self._settings(facts, seed)
        self._a_second = settings.tuning.period_s / self.round_every_s
        self._look_every_s = settings.tuning.look_every_s / self._a_second
        self._stale_after_s = settings.tuning.stale_after_s
        ask = ask_of(settings)
        self._ask = replace(ask, fabric=replace(ask.fabric, dcqcn=facts.dcqcn))
        self._writer = ReportWriter(
            FabricPlan(ports=facts.topology.ports, dcqcn=facts.dcqcn),
            {host.name: host.ip for host in facts.topology.hosts},
            sampling_rate=facts.sampling,
        )
        self._window = Window(replace(settings.telemetry.window(), origin_ns=EPOCH_NS), facts.topology)
        self._accepted_at_last_round = 0
        self._moments = moments_of(settings)
        self._gate = PushGate(gate_of(settings), clock_s=self._clock_s)
        self._store = RecommendationStore(settings.tuning.keep, _Unsaved(), clock_ns=self._clock_ns)
        self._fleet = Fleet(
            settings.incumbent, Adapters(settings.push, AdapterRegistry(), clock_ns=self._clock_ns)
        )
        self._asked = Settings(facts.incumbent)
        self._ready: tuple[float, Approved | None] | None = None
        self._rolling: tuple[float, Entry] | None = None
        return self._asked

    def act(self, seen: Seen) -> Settings:
        self._now_s = seen.end_s
        self._take(seen)
        if self._rolling is not None and self._now_s >= self._rolling[0] - _SAME_TIME_S:
            self._gate.watermark_changed(age_s=max(self._now_s - self._rolling[0], 0.0) * self._a_second)
            self._rolling = None
        if self._ready is None and self._due():
            self._ready = self._now_s + self.compute_s, self._round(seen.watermarks)
        if self._ready is not None and self._now_s >= self._ready[0] - _SAME_TIME_S:
            if (approved := self._ready[1]) is not None:
                self._roll_out(approved, seen.watermarks)
            self._ready = None
            self._ended_s = self._looked_s = self._now_s
        return self._asked

    def _due(self) -> bool:
        """As ``TuningLoop`` waits: a period after the last round, or less where looks find other traffic."""
        if self._now_s - self._ended_s >= self.round_every_s - _SAME_TIME_S:
            return True
        if self._now_s - self._looked_s < self._look_every_s - _SAME_TIME_S:
            return False
        self._looked_s = self._now_s
        if self._window.last_report_ns is None or self._now_s < self.window_s:
            return False
        return self._moments.look(self._window.state(), self._clock_s())

    def _settings(self, facts: FabricFacts, seed: int) -> ServiceSettings:
        """The service's; without its ``__init__``, which reads the environment."""
        usual = Reading.of("", self._queues(facts.incumbent, range(len(facts.queues))), 0).usual
        assert usual is not None, "every queue marks"
        return ServiceSettings.model_validate(
            {
                "telemetry": {"period_s": PERIOD_S, "n_periods": max(1, round(self.window_s / PERIOD_S))},
                "fabric": {
                    "mtu_payload_bytes": facts.sizes.mtu_payload_bytes,
                    "wire_overhead_bytes": facts.sizes.wire_overhead_bytes,
                    "buffer_bytes": round(facts.sizes.buffer_bytes),
                    "pfc": facts.sizes.pfc,
                },
                "incumbent": {
                    "default": {
                        "kmin_bytes": usual.kmin_bytes,
                        "kmax_bytes": usual.kmax_bytes,
                        "pmax": usual.pmax,
                    }
                },
                "tuning": {"what": [one for one in self._what if one != "nic" or facts.sets_senders]},
                "search": {"seed": seed, **self._search},
            }
        )

    def _clock_s(self) -> float:
        """The service's, which counts ``tuning.period_s`` between rounds."""
        return self._now_s * self._a_second

    def _clock_ns(self) -> int:
        return EPOCH_NS + round(self._clock_s() * NS_PER_S)

    def _take(self, seen: Seen) -> None:
        if seen.samples is None:
            return
        for body in self._writer.bodies(seen.samples):
            self.exchanged_bytes += len(body.content)
            self._window.add(decode(body.content).batch)

    def _queues(self, watermarks: tuple[Watermark, ...], rows: range | list[int]) -> list[QueueWatermark]:
        ports = self._facts.topology.ports
        return [
            QueueWatermark(str(ports[self._facts.queues[row]].port), DATA_QUEUE, watermarks[row])
            for row in rows
        ]

    def _read_switches(self, watermarks: tuple[Watermark, ...]) -> None:
        rows: defaultdict[str, list[int]] = defaultdict(list)
        for row, switch in enumerate(self._facts.switch):
            rows[switch].append(row)
        self._fleet.saw(rows)
        for switch, own in rows.items():
            self._fleet.note(Reading.of(switch, self._queues(watermarks, own), self._clock_ns()))

    def _round(self, watermarks: tuple[Watermark, ...]) -> Approved | None:
        """Runs a round as ``TuningLoop`` does; what policy approves, if anything."""
        note = partial(Round, self._now_s)
        last_ns = self._window.last_report_ns
        accepted = self._window.counters.accepted
        age_s = 0.0 if last_ns is None else (self._now_s - (last_ns - EPOCH_NS) / NS_PER_S) * self._a_second
        if last_ns is None or age_s > self._stale_after_s or accepted == self._accepted_at_last_round:
            self.rounds.append(note("skipped", "No report came since the last round, or not of late."))
            return None
        self._accepted_at_last_round = accepted
        self._read_switches(watermarks)
        running = dict(self._fleet.running())
        rolling = frozenset(() if self._rolling is None else (self._rolling[1].id,))
        try:
            state = self._window.state()
            changed = self._moments.saw(state, self._clock_s())
            standing = None if changed else self._store.standing(rolling)
            result = run_round(
                state,
                self._ask,
                self._fleet.incumbent,
                workers=self._workers,
                moments=self._moments,
                standing=standing,
            )
        except (TwinError, TelemetryError) as error:
            self.rounds.append(note("failed", str(error)))
            return None
        answer = result.recommendation
        if answer.verdict.kind is not VerdictKind.UNCALIBRATED:
            self._moments.keep(result.scenario, result.extent, state, self._clock_s())
        cleared = self._gate.round_ended(answer, result.residual_ratio, age_s=age_s)
        entry = self._store.add(
            result, self.compute_s * self._a_second, cleared, None, running, changed=changed, rolling=rolling
        )
        together = answer.co_tuning
        if together is not None and not together.recommended:
            together = None
        if together is None and (entry.status != "pending" or entry.staged is None):
            self.rounds.append(note("kept", answer.why, result))
            return None
        blocks = list(entry.holds)
        if self._rolling is not None:
            blocks.append("The last change is being rolled out.")
        if (cooling_s := self._gate.cooling_left_s()) > 0:
            blocks.append(f"The last change cools down for {cooling_s:.0f} s.")
        if blocks:
            self.rounds.append(note("held", " ".join(blocks), result))
            return None
        self.rounds.append(note("pushed", answer.why if together is None else together.sentence, result))
        if entry.status == "pending":
            entry = self._store.decide(entry, "approved", POLICY)
        return entry, together

    def _roll_out(self, approved: Approved, watermarks: tuple[Watermark, ...]) -> None:
        entry, together = approved
        if together is None:
            assert entry.staged is not None, "only such are approved"
            marks = tuple(
                entry.staged if switch in entry.switches else runs
                for switch, runs in zip(self._facts.switch, watermarks, strict=True)
            )
            self._asked = replace(self._asked, watermarks=marks)
        else:
            self._asked = Settings((together.watermark,) * len(watermarks), together.senders)
            self._ask = replace(self._ask, fabric=replace(self._ask.fabric, dcqcn=together.senders))
        self._rolling = self._now_s + self._facts.delay_s, entry
