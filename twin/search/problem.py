"""The input of a tuning round: the problem, and the search's budget and policy."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import get_args

import numpy as np

from telemetry.network.collisions import COLLISION_RATIO
from twin.engine import DEFAULT_ENGINE, DEFAULT_SECOND_ENGINE
from twin.errors import ParameterError, check_above_zero, check_known, check_not_negative
from twin.prediction import ELEPHANT_FROM_BYTES
from twin.scenario import Scenario
from twin.search.candidates import lambda_for
from twin.search.coordinates import WHAT, SenderBounds, What, senders_within
from twin.search.gain import POLICIES, Policy
from twin.search.score import NEAR_TIE, WEIGHT_PRESETS, ScoreName, Weights
from twin.watermark import RoleWatermarks, Setting, Watermark, WatermarkBounds


@dataclass(frozen=True, kw_only=True)
class TuningProblem:
    """A scenario, the watermark that runs on it now, and the base the draws are biased around.

    ``earlier`` are other moments of the same fabric's traffic, the newest first, with the same ports and
    monitored ports: candidates are judged over all of them. ``long`` are longer stretches of traffic, the
    newest first: the leaders run on these too, and they decide. ``standing`` is what was recommended before:
    it stays the answer until another is surely better by the margin.
    ``by_role`` are roles whose ports run another watermark than the incumbent, sorted: engines run the
    incumbent so (``as_run``), every candidate on all ports. ``dominant_class`` is the label of the class that
    carries most bytes: ``elephant``, ``potential_elephant``, ``mouse``.
    ``notes`` are passed on with the recommendation. ``unlike``: why the scenario is not like the network, so
    that nothing can be recommended.
    Raises ``ParameterError`` for an unknown class, or an earlier moment of other ports.
    """

    scenario: Scenario
    incumbent: Watermark
    base: Watermark
    dominant_class: str
    earlier: tuple[Scenario, ...] = ()
    long: tuple[Scenario, ...] = ()
    standing: Watermark | None = None
    by_role: tuple[tuple[str, Watermark], ...] = ()
    notes: tuple[str, ...] = ()
    unlike: str | None = None

    def __post_init__(self) -> None:
        lambda_for(self.dominant_class)
        for moment in (*self.earlier, *self.long):
            if (moment.ports, moment.monitored) != (self.scenario.ports, self.scenario.monitored):
                received = f"{len(moment.ports)} ports, {len(moment.monitored)} monitored"
                rule = "moments are of one fabric, with the same ports and monitored ports"
                remedy = "leave out moments from before the topology changed"
                raise ParameterError("earlier moment", received, rule, remedy)

    def as_run(self, watermark: Watermark) -> Setting:
        """What engines run for it: for the incumbent what ports of each role run."""
        return RoleWatermarks.of(watermark, dict(self.by_role)) if watermark == self.incumbent else watermark

    @property
    def moments(self) -> tuple[Scenario, ...]:
        """All moments of traffic, the newest first."""
        return (self.scenario, *self.earlier)

    @property
    def lambda_(self) -> float:
        return lambda_for(self.dominant_class)


@dataclass(frozen=True, kw_only=True)
class SearchSettings:
    """The budget and policy of a round.

    ``candidates`` watermarks (incumbent, base and vendor rows included) run on ``fractions`` of the traffic
    (of the window, or of several moments), the last being 1; after each but the last the better share
    ``keep`` goes on. ``narrowed`` more are drawn around the ``neighbourhoods`` best and run in full, then the
    ``leaders`` best under ``seeds`` different seeds, and under up to ``most_seeds`` while several may be the
    best; several moments share those seeds. ``engine`` is a name of ``twin.engine`` or ``module:Class``; a
    worker gets ``batch`` candidates at a time.

    ``score`` decides: the gain over the incumbent under ``policy``, or the patent's min-max score under
    ``weights``, where scores within ``near_tie`` are equal. A recommendation must gain more than ``margin``.

    Then ``second_engine`` (None: none) runs the incumbent and ``second_candidates`` of the best under
    ``second_seeds`` seeds, for as much of the window as ``second_packet_hops`` a run allow, and the decision
    is based on that. Engines that differ by more than ``second_margin`` (0.25: a quarter) disagree.

    ``budget_s`` is about how long a round may take on two cores: where it needs more, it looks at slices of a
    fabric (``looks``). The estimate is from the traffic, so that any machine gives the same answer.

    ``what`` may be set: beside the watermark the thresholds of port roles, and what NICs run (``co_tuning``),
    within ``sender_bounds``.
    With ``path``, paths of elephants are looked at where a port carries ``collision_ratio`` times the mean of
    its equal-cost ports (``twin.paths``). Raises ``ParameterError`` for a value out of range.
    """

    candidates: int = 256
    narrowed: int = 64
    neighbourhoods: int = 6
    fractions: tuple[float, ...] = (0.4, 1.0)
    keep: float = 0.375
    leaders: int = 8
    seeds: int = 4
    most_seeds: int = 8
    batch: int = 16
    margin: float = 0.03
    score: ScoreName = "gain"
    policy: Policy = POLICIES["balanced"]
    near_tie: float = NEAR_TIE
    weights: Weights = WEIGHT_PRESETS["balanced"]
    bounds: WatermarkBounds = field(default_factory=WatermarkBounds)
    sigma: float = 1.2
    pmax_factor: float = 10.0
    engine: str = DEFAULT_ENGINE
    max_parts: int = 8
    second_engine: str | None = DEFAULT_SECOND_ENGINE
    second_candidates: int = 4
    second_seeds: int = 1
    second_packet_hops: int = 20_000_000
    second_margin: float = 0.25
    budget_s: float = 60.0
    what: tuple[What, ...] = ("watermark",)
    sender_bounds: SenderBounds = ()
    collision_ratio: float = COLLISION_RATIO

    def __post_init__(self) -> None:
        least = {
            "candidates": 2,
            "neighbourhoods": 1,
            "leaders": 1,
            "seeds": 1,
            "most_seeds": 1,
            "batch": 1,
            "max_parts": 1,
            "narrowed": 0,
            "second_candidates": 1,
            "second_seeds": 1,
            "second_packet_hops": 1,
        }
        for name, low in least.items():
            value = getattr(self, name)
            if not value >= low:
                rule, remedy = f"it is at least {low}", f"give {low} or more"
                raise ParameterError(f"search {name}", str(value), rule, remedy)
        check_known("score", self.score, get_args(ScoreName), "scores")
        for one in self.what:
            check_known("search what", one, WHAT, "things to tune")
        senders_within(self.sender_bounds)
        for name in ("margin", "near_tie", "second_margin"):
            check_not_negative(f"search {name}", getattr(self, name))
        check_above_zero("search budget_s", self.budget_s)
        if not self.collision_ratio > 1.0:
            rule = "the fullest port carries at least the mean"
            received = str(self.collision_ratio)
            raise ParameterError("search collision_ratio", received, rule, "give such as 1.5")
        if not 0 < self.keep <= 1:
            received = str(self.keep)
            raise ParameterError("search keep", received, "a share lies in (0, 1]", "give such as 0.375")
        if not self.fractions or self.fractions[-1] != 1.0 or not all(np.diff((0.0, *self.fractions)) > 0):
            raise ParameterError(
                "search fractions", str(self.fractions), "they rise from above 0 to 1", "give such as 0.4, 1"
            )

    def for_the_incumbent_alone(self) -> SearchSettings:
        """As few runs as give the incumbent's figures, where nothing else will be recommended."""
        return replace(self, candidates=2, narrowed=0, leaders=1, seeds=1, second_engine=None)


def persistent_share(scenario: Scenario) -> float | None:
    """Never-ending flows as a share of those and the finite elephants, by number; None without either."""
    payload = scenario.flows.payload_bytes
    persistent = int(np.count_nonzero(np.isinf(payload)))
    elephants = int(np.count_nonzero(np.isfinite(payload) & (payload >= ELEPHANT_FROM_BYTES)))
    return persistent / (persistent + elephants) if persistent + elephants else None
