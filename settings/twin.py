"""Settings of the twin: fabric, senders, watermarks, search and rounds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from nics.parameters import ONE, PARAMETERS, check_values
from settings.validation import Section
from switches.errors import CapabilityError
from twin.engine import DEFAULT_SECOND_ENGINE, SecondEngineName
from twin.errors import ParameterError
from twin.scenario import FabricSizes
from twin.scenario_file import dcqcn_from_json
from twin.search.coordinates import SENDERS, SenderBounds, What, senders_within
from twin.search.gain import HARM_PRICE, Policy, policy_named
from twin.search.problem import SearchSettings
from twin.search.push_gate import GateSettings
from twin.search.score import ScoreName
from twin.search.vendor_table import DEFAULT_WATERMARK
from twin.senders.dcqcn import DcqcnParams, preset
from twin.watermark import Watermark, WatermarkBounds

_SCHEDULER = re.compile(r"(tcp|tls)://(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):(\d{1,5})")

_SEARCH = SearchSettings()
_BOUNDS = WatermarkBounds()
_GATE = GateSettings()


class WatermarkSettings(Section):
    """One (Kmin, Kmax, Pmax)."""

    kmin_bytes: int
    kmax_bytes: int
    pmax: float

    @model_validator(mode="after")
    def _is_a_watermark(self) -> Self:
        self.watermark()
        return self

    def watermark(self) -> Watermark:
        return Watermark(self.kmin_bytes, self.kmax_bytes, self.pmax)


class BoundsSettings(Section):
    """The hard bounds no candidate leaves."""

    kmin_low_bytes: int = _BOUNDS.kmin_low_bytes
    kmin_high_bytes: int = _BOUNDS.kmin_high_bytes
    kmax_low_bytes: int = _BOUNDS.kmax_low_bytes
    kmax_high_bytes: int = _BOUNDS.kmax_high_bytes
    pmax_low: float = _BOUNDS.pmax_low
    pmax_high: float = _BOUNDS.pmax_high

    @model_validator(mode="after")
    def _are_bounds(self) -> Self:
        self.bounds()
        return self

    def bounds(self) -> WatermarkBounds:
        return WatermarkBounds(**self.model_dump())


class DcqcnSettings(Section):
    """What the senders run, where NICs are not read: a preset's name, or ``parameters`` with a scenario's
    ``dcqcn`` keys.
    """

    preset: str = "paper"
    parameters: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _are_parameters(self) -> Self:
        if self.parameters is not None and "preset" in self.model_fields_set:
            raise ValueError("give either preset or parameters, not both")
        self.params()
        return self

    def params(self) -> DcqcnParams:
        if self.parameters is not None:
            return dcqcn_from_json(self.parameters, where="dcqcn parameters")
        return preset(self.preset)


class FabricSettings(Section):
    """Sizes of packets and buffers, PFC, and the declared topology's file.

    ``mtu_payload_bytes`` None derives it from the largest packets reported.
    """

    topology: Path | None = None
    mtu_payload_bytes: int | None = Field(default=None, gt=0)
    wire_overhead_bytes: int = Field(default=FabricSizes.wire_overhead_bytes, ge=0)
    buffer_bytes: int = Field(default=int(FabricSizes.buffer_bytes), gt=0)
    pfc: bool = FabricSizes.pfc


class IncumbentSettings(Section):
    """Watermarks that switches run until an adapter has read them: one for all, and exceptions by switch."""

    default: WatermarkSettings = WatermarkSettings(**asdict(DEFAULT_WATERMARK))
    switches: dict[str, WatermarkSettings] = Field(default_factory=dict)


class SearchSection(Section):
    """What a round spends: candidates, worker processes (None: one a core), seed, and the operator's weights.

    ``base`` is what the first draws are biased around; None takes the incumbent. At least two workers: a
    round in the service's own process would keep it from answering. ``niceness`` is by how much they give way
    to reports that come in (0: not at all, 19: as far as can be).

    ``score`` decides: ``gain`` over what runs now, or the patent's ``normalised``. ``weights`` are a policy
    (balanced, throughput, latency), two numbers such as ``0.7,0.3`` for bulk speed and small-message delay,
    or three such as ``0.5,0.5,0`` for bulk speed, mice and bare packets; ``harm_price`` is what a share of
    port time paused, or of bytes lost, costs in gain.

    ``second_opinion`` names the engine that reviews the incumbent and the ``second_opinion_candidates`` best,
    and on which the round decides; none or false asks nobody. It runs under ``second_opinion_seeds`` seeds,
    each for as much of the window as ``second_opinion_packet_hops`` allow. Engines that differ by more than
    ``second_opinion_margin`` (0.25: a quarter) are said to disagree.

    ``backend`` ``dask`` runs rounds on the cluster whose scheduler is at ``dask_scheduler``, such as
    ``tcp://scheduler:8786``; at ``tls://`` it is shown ``dask_certificate`` with its ``dask_key``, and held
    against ``dask_ca``. What it is asked must be answered within ``dask_timeout_s``, and once in
    ``dask_silence_s`` a batch of candidates must come back. With ``dask_fallback`` rounds run in processes
    here while the cluster does not answer. ``workers`` and ``niceness`` are of processes here. See
    docs/operate/scaling.md.
    """

    backend: Literal["processes", "dask"] = "processes"
    dask_scheduler: str | None = None
    dask_ca: Path | None = None
    dask_certificate: Path | None = None
    dask_key: Path | None = None
    dask_timeout_s: float = Field(default=10.0, gt=0)
    dask_silence_s: float = Field(default=300.0, gt=0)
    dask_fallback: bool = False
    candidates: int = Field(default=_SEARCH.candidates, ge=2, le=100_000)
    narrowed: int = Field(default=_SEARCH.narrowed, ge=0, le=100_000)
    workers: int | None = Field(default=None, ge=2)
    niceness: int = Field(default=19, ge=0, le=19)
    seed: int = Field(default=1, ge=0, lt=1 << 63)
    score: ScoreName = _SEARCH.score
    weights: str = "balanced"
    harm_price: float = Field(default=HARM_PRICE, ge=0, allow_inf_nan=False)
    base: WatermarkSettings | None = None
    second_opinion: SecondEngineName | None = DEFAULT_SECOND_ENGINE
    second_opinion_candidates: int = Field(default=_SEARCH.second_candidates, ge=1, le=1_000)
    second_opinion_seeds: int = Field(default=_SEARCH.second_seeds, ge=1, le=100)
    second_opinion_packet_hops: int = Field(default=_SEARCH.second_packet_hops, ge=1)
    second_opinion_margin: float = Field(default=_SEARCH.second_margin, ge=0)

    @field_validator("dask_scheduler")
    @classmethod
    def _is_the_address_of_a_scheduler(cls, text: str | None) -> str | None:
        found = None if text is None else _SCHEDULER.fullmatch(text)
        if text is not None and (found is None or not 0 < int(found[3]) <= 65_535):
            raise ValueError("it is tcp://host:port, or tls://host:port")
        return text

    @model_validator(mode="after")
    def _the_cluster_can_be_found(self) -> Self:
        if self.backend == "dask" and self.dask_scheduler is None:
            raise ValueError("backend dask needs dask_scheduler, such as tcp://127.0.0.1:8786")
        files = (self.dask_ca, self.dask_certificate, self.dask_key)
        tls = self.dask_scheduler is not None and self.dask_scheduler.startswith("tls:")
        if tls and None in files:
            raise ValueError("a scheduler at tls:// needs dask_ca, dask_certificate and dask_key")
        if not tls and any(files):
            raise ValueError("dask_ca, dask_certificate and dask_key go with a scheduler at tls://")
        return self

    @field_validator("second_opinion", mode="before")
    @classmethod
    def _on_or_off(cls, given: object) -> object:
        """On and off in YAML's and the environment's spellings, beside the engine's name."""
        word = str(given).lower()
        if word in ("false", "no", "off", "none", "null", ""):
            return None
        return DEFAULT_SECOND_ENGINE if word in ("true", "yes", "on") else given

    @model_validator(mode="after")
    def _known_weights(self) -> Self:
        self.policy()
        return self

    def policy(self) -> Policy:
        return policy_named(self.weights, self.harm_price)


class TuningSettings(Section):
    """When rounds run, what makes a new recommendation, and what holds one back.

    A round begins every ``period_s``, or sooner: every ``look_every_s`` traffic is compared with what was
    seen before, and where two looks in a row find other traffic, a round begins at once (not where
    ``look_every_s`` is ``period_s`` or more).

    ``margin`` is the predicted gain over the incumbent that a change must surely exceed (0.03: three
    percent). A push waits ``cool_down_s`` after the last, needs the twin's queue within a factor
    ``residual_limit`` of the measured one and the engines within ``disagreement_limit`` of each other (1: a
    factor of two; None: any), and moves no value by more than the factor ``max_step`` (None: any).

    Candidates are judged over ``moments`` windows of ``moment_s`` seconds (longer where few reports arrive)
    from the last ``moments_over_s``, as long as traffic stays the same; 1: over the newest window alone. The
    best then run on the newest in a row, up to ``long_moment_s`` of each and four times as much together,
    which decides: what a watermark costs elephants shows in full only as they pile up. Not where most large
    messages wait for others and reports do not tell for which (docs/twin/twin.md).
    A round takes about ``budget_s`` on two cores: where all of a fabric of 128 hosts or more would take
    longer, candidates are compared on slices of it, and only the best on the whole.

    ``what`` is tuned: beside the ``watermark``, thresholds of ports by their ``roles``, and what NICs run
    (``nic``). Both come with a recommendation, and take up to as long again; an approval sets the watermark,
    and NICs where it says so. ``nic_bounds`` narrow what is tried of a NIC value, by the driver's names and
    in its units (docs/nics/connectx.md), such as ``rpg_ai_rate: [5, 400]``. With ``path`` a round says where
    elephants share a port that carries ``collision_ratio`` times the mean of its equal-cost ports, and what
    other paths would do (docs/twin/paths.md); nothing sets paths.

    With ``advice``, every look also says in a moment what a round would most likely choose; it is often far
    from that still (docs/twin/advice.md), and nothing sets it. ``advice_file`` is learnt from other traffic
    than what comes with ecntwin, such as the service's own (ecntwin advice train); it is read again when it
    changes.
    """

    enabled: bool = True
    period_s: float = Field(default=30.0, gt=0)
    look_every_s: float = Field(default=5.0, gt=0)
    stale_after_s: float = Field(default=60.0, gt=0)
    margin: float = Field(default=_SEARCH.margin, ge=0)
    cool_down_s: float = Field(default=_GATE.cool_down_s, ge=0)
    residual_limit: float = Field(default=_GATE.residual_limit, gt=1)
    disagreement_limit: float | None = Field(default=_GATE.disagreement_limit, gt=0)
    max_step: float | None = Field(default=None, gt=1)
    moments: int = Field(default=8, ge=1, le=64)
    moment_s: float = Field(default=0.01, gt=0, le=1)
    long_moment_s: float = Field(default=0.1, ge=0, le=1)
    moments_over_s: float = Field(default=300.0, gt=0)
    budget_s: float = Field(default=_SEARCH.budget_s, gt=0)
    what: tuple[What, ...] = _SEARCH.what
    nic_bounds: dict[str, tuple[int, int]] = Field(default_factory=dict)
    collision_ratio: float = Field(default=_SEARCH.collision_ratio, gt=1)
    advice: bool = False
    advice_file: Path | None = None
    keep: int = Field(default=100, ge=1)

    @field_validator("what")
    @classmethod
    def _holds_the_watermark(cls, what: tuple[What, ...]) -> tuple[What, ...]:
        if "watermark" not in what:
            raise ValueError("the watermark is always tuned; give it with what is tuned beside it")
        return tuple(dict.fromkeys(what))

    @field_validator("nic_bounds")
    @classmethod
    def _are_bounds_of_values_that_are_tried(
        cls, given: dict[str, tuple[int, int]]
    ) -> dict[str, tuple[int, int]]:
        fields = [one.field for one in SENDERS]
        known = [name for name, one in PARAMETERS.items() if one.field in fields]
        for name, (low, high) in given.items():
            if name not in known:
                raise ValueError(f"{name} is no NIC value that is tuned; those are {', '.join(known)}")
            if low > high:
                raise ValueError(f"{name} has bounds {low} to {high}; the lower one is first")
            try:
                check_values({name: low}, "bounds of")
                check_values({name: high}, "bounds of")
                senders_within(_sender_bounds({name: (low, high)}))
            except CapabilityError as error:
                raise ValueError(str(error)) from None
            except ParameterError as error:
                raise ValueError(f"{name} has bounds {low} to {high}; {error.rule}") from None
        return given

    def sender_bounds(self) -> SenderBounds:
        return _sender_bounds(self.nic_bounds)


def _sender_bounds(of_nics: Mapping[str, tuple[int, int]]) -> SenderBounds:
    """Bounds by the driver's names as bounds of the twin's: ``dce_tcp_g`` is the weight of the old α."""
    return tuple(
        (str(PARAMETERS[name].field), ONE - high, ONE - low)
        if name == "dce_tcp_g"
        else (str(PARAMETERS[name].field), low, high)
        for name, (low, high) in of_nics.items()
    )
