"""Watermarks, predictions and trajectories as documents, and what-if requests and answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from service.documents.base import Document, Figure, PortName, RequestBody, SwitchName
from telemetry.topology import GBPS
from twin.engine import DEFAULT_ENGINE, EngineName
from twin.prediction import SIZE_CLASSES, Prediction, Probe, Slowdown, SolveStatus
from twin.search.recommendation import ScoredCandidate
from twin.search.score import ScoreName
from twin.search.trajectories import Trajectories
from twin.watermark import Watermark


class WatermarkDocument(Document):
    """(Kmin, Kmax, Pmax) of an egress queue."""

    kmin_bytes: Annotated[int, Field(examples=[20_000])]
    """Queue depth from which packets are marked, in bytes."""
    kmax_bytes: Annotated[int, Field(examples=[200_000])]
    """Queue depth from which every packet is marked, in bytes."""
    pmax: float
    """Probability of a mark just below Kmax, from 0 to 1."""

    @classmethod
    def of(cls, watermark: Watermark) -> Self:
        return cls.from_attributes(watermark)


def watermark_document(watermark: Watermark | None) -> WatermarkDocument | None:
    """None where the watermark is unknown."""
    return None if watermark is None else WatermarkDocument.of(watermark)


class RoleWatermarkDocument(WatermarkDocument):
    """The watermark of ports of one role."""

    role: str
    """The role, such as `leaf-up-400G`."""


def role_watermarks(by_role: Iterable[tuple[str, Watermark]]) -> list[RoleWatermarkDocument]:
    return [RoleWatermarkDocument.from_attributes(mark, role=role) for role, mark in by_role]


class WatermarkInput(BaseModel):
    """A watermark in a request; other keys are ignored, so results of a truth file can be sent."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, use_attribute_docstrings=True)

    kmin_bytes: int | Annotated[float, Field(allow_inf_nan=False)]
    """Queue depth from which packets are marked, in bytes: a whole number, from 0 to Kmax."""
    kmax_bytes: int | Annotated[float, Field(allow_inf_nan=False)]
    """Queue depth from which every packet is marked, in bytes: a whole number."""
    pmax: float
    """Probability of a mark just below Kmax, from 0 to 1."""

    def watermark(self) -> Watermark:
        """Raises ``WatermarkError``."""
        return Watermark(self.kmin_bytes, self.kmax_bytes, self.pmax)  # type: ignore[arg-type] # it checks


class SlowdownDocument(Document):
    """Completion time ÷ completion time alone on the path."""

    n: int
    """Flows counted."""
    mean: Figure
    """Mean; null without flows."""
    p99: Figure
    """99th percentile; null without flows."""


class ProbeDocument(Document):
    """Slowdown of one full packet that crosses at a random moment."""

    n: int = 0
    """Samples; 0 where the engine has none."""
    p50: Figure = None
    """Median; null where the engine has none."""
    p99: Figure = None
    """99th percentile; null where the engine has none."""

    @classmethod
    def of(cls, probe: Probe | None) -> Self:
        return cls() if probe is None else cls(n=probe.n, p50=float(probe.p50), p99=float(probe.p99))


class GainDocument(Document):
    """The parts a gain is the sum of, weighed, in logarithms of completion times."""

    bulk: Figure
    """Of the speed of large transfers."""
    delay: Figure
    """Of the delay of small messages."""
    harm: Figure
    """Of pauses and losses; negative where they grow."""


class PredictionDocument(WatermarkDocument):
    """The twin's prediction for one watermark; all figures null where ``status`` is not ok."""

    status: str
    """How the run ended: `ok`, `diverged`, `budget`."""
    status_detail: str
    """Why there are no figures, in a sentence; empty where `status` is ok."""
    queue_mean_bytes: Figure
    """Mean depth of the bottleneck queues, in bytes."""
    queue_p99_bytes: Figure
    """99th percentile of their depth, in bytes."""
    queue_peak_bytes: Figure
    """Largest depth, in bytes."""
    goodput_gbps: Figure
    """Payload delivered, in Gbit/s."""
    marked_fraction: Figure
    """Share of packets marked, from 0 to 1."""
    loss_bytes: Figure
    """Bytes lost in the window."""
    pfc_pause_s: Figure
    """Time that ports were paused, summed over ports, in seconds."""
    slowdown: dict[str, SlowdownDocument]
    """Slowdown of flows by size: `all`, `mice` (under 100 KB), `medium`, `elephant` (1 MB and more)."""
    probe_slowdown: ProbeDocument = ProbeDocument()
    """Slowdown of one packet, over all paths."""
    probe_by_path: dict[str, ProbeDocument] = Field(default_factory=dict)
    """The same by length of the path."""
    paused_share: Figure = None
    """Port time paused ÷ all port time, from 0 to 1."""
    loss_share: Figure = None
    """Bytes lost ÷ bytes sent, from 0 to 1."""
    score: Figure
    """What decides: the gain over the incumbent, or the normalised score, as `score_is` says; null for a run
    that failed.
    """
    score_error: Figure = None
    """Standard error of a gain; null for a normalised score."""
    score_normalised: Figure = None
    """The patent's normalised score, comparable within one round only."""
    gain: GainDocument | None = None
    """The parts of the gain; null where it was not worked out."""

    @classmethod
    def predicted(cls, prediction: Prediction, scored: ScoredCandidate | None) -> Self:
        return cls(**prediction_fields(prediction), **score_fields(scored))


def score_fields(scored: ScoredCandidate | None) -> dict[str, Any]:
    """The scores of a ``PredictionDocument``; null for a watermark that was not a candidate."""
    names = ("score", "score_error", "score_normalised")
    return {
        **{name: None if scored is None else getattr(scored, name) for name in names},
        "gain": None if scored is None or scored.gain is None else GainDocument(**scored.gain),
    }


def slowdown_documents(found: Mapping[str, Slowdown]) -> dict[str, SlowdownDocument]:
    """Every size class; those without flows count 0."""
    absent = SlowdownDocument(n=0, mean=None, p99=None)
    known = {
        name: SlowdownDocument(n=int(one.n), mean=float(one.mean), p99=float(one.p99))
        for name, one in found.items()
    }
    return {name: known.get(name, absent) for name in SIZE_CLASSES}


_AS_PREDICTED = (
    *("queue_mean_bytes", "queue_p99_bytes", "queue_peak_bytes"),
    *("marked_fraction", "loss_bytes", "pfc_pause_s"),
)


def prediction_fields(prediction: Prediction) -> dict[str, Any]:
    """The fields of a ``PredictionDocument`` except its scores."""
    probes = {name: ProbeDocument.of(one) for name, one in prediction.probe.items()}
    return {
        **WatermarkDocument.of(prediction.watermark.usual).model_dump(),
        "status": prediction.status.code,
        "status_detail": "" if prediction.status is SolveStatus.OK else prediction.status.value,
        **{name: float(getattr(prediction, name)) for name in _AS_PREDICTED},
        "goodput_gbps": float(prediction.goodput_bytes_per_s) / GBPS,
        "slowdown": slowdown_documents(prediction.slowdown),
        "probe_slowdown": probes.pop("all", ProbeDocument()),
        "probe_by_path": probes,
        "paused_share": prediction.paused_share,
        "loss_share": prediction.loss_share,
    }


STEP_MEAN: Literal["mean of each step"] = "mean of each step"  # what a depth is


class _Curve(Document):
    switch: SwitchName
    """The switch."""
    port: PortName
    """The port."""


class _Curves(Document):
    window_s: float
    """Time simulated, in seconds."""
    step_s: float
    """Length of a step, in seconds: entry k is of the step from k × `step_s`."""
    depth_is: Literal["mean of each step"]
    """What a depth is."""


class QueueTrajectoryDocument(_Curve):
    """Predicted depths of one egress queue over time."""

    incumbent_bytes: list[int]
    """Mean depth of each step under what runs, in bytes."""
    recommended_bytes: list[int]
    """The same under what is recommended."""


class TrajectoriesDocument(_Curves):
    """Depths of the deepest queues over time.

    From the round's engine and seed alone; the figures beside it are means over several seeds.
    """

    queues: list[QueueTrajectoryDocument]
    """The deepest first, 8 at most."""

    @classmethod
    def of(cls, found: Trajectories) -> Self:
        """``found`` has two runs: the incumbent's, then the recommended watermark's."""
        incumbent, recommended = found.depth_bytes
        return cls(
            window_s=found.window_s,
            step_s=found.step_s,
            depth_is=STEP_MEAN,
            queues=[
                QueueTrajectoryDocument(
                    switch=switch, port=port, incumbent_bytes=list(old), recommended_bytes=list(new)
                )
                for (switch, port), old, new in zip(found.queues, incumbent, recommended, strict=True)
            ],
        )


class AskedQueueDocument(_Curve):
    """Predicted depths of one egress queue over time."""

    incumbent_bytes: list[int] | None
    """Mean depth of each step under the incumbent, in bytes; null without one."""
    results_bytes: list[list[int]]
    """A list per result, in their order: the mean depth of each step, in bytes."""


class AskedTrajectoriesDocument(_Curves):
    """Depths of the deepest queues over time."""

    queues: list[AskedQueueDocument]
    """The deepest first, 8 at most."""

    @classmethod
    def of(cls, found: Trajectories, *, incumbent: bool) -> Self:
        """``incumbent``: the first run of ``found`` is the incumbent's."""
        runs = [[list(queue) for queue in run] for run in found.depth_bytes]
        asked = runs[1:] if incumbent else runs
        return cls(
            window_s=found.window_s,
            step_s=found.step_s,
            depth_is=STEP_MEAN,
            queues=[
                AskedQueueDocument(
                    switch=switch,
                    port=port,
                    incumbent_bytes=runs[0][row] if incumbent else None,
                    results_bytes=[run[row] for run in asked],
                )
                for row, (switch, port) in enumerate(found.queues)
            ],
        )


MOST_WATERMARKS = 1_000
# Over all watermarks of one request to the packet engine: minutes of a core.
MOST_PACKET_HOPS = 2_000_000_000
MOST_CURVES = 8  # watermarks of a request with trajectories


class WhatIfRequest(RequestBody, Document):
    """Watermarks to predict, on the current state or on a scenario."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"watermarks": [{"kmin_bytes": 20000, "kmax_bytes": 200000, "pmax": 0.05}], "seed": 1}
            ]
        }
    )

    watermarks: Annotated[list[WatermarkInput], Field(min_length=1, max_length=MOST_WATERMARKS)]
    """What to predict, one result each; with `trajectories` at most 8."""
    scenario: dict[str, Any] | None = None
    """A scenario with its flows inline under `flows`; null: the current state of the network."""
    engine: EngineName = DEFAULT_ENGINE
    """`replay` (queues as fluid, flows one by one), `fluid` (equilibria of long flows), or `packet` (every
    packet: the most faithful, four to thirty times as long).
    """
    seed: int = Field(default=1, ge=0, lt=1 << 63, strict=True)
    """The same seed, window and watermark give the same prediction."""

    incumbent: WatermarkInput | None = None
    """What gains are relative to, predicted too; null: what the switches run, on a scenario the first
    watermark.
    """
    trajectories: bool = Field(default=False, strict=True)
    """Whether to add the deepest queues over time."""
    window_s: float | None = Field(default=None, ge=1e-4, strict=True)
    """Asks for less time, in seconds: the end of the window, the beginning of a scenario; null: all of it."""
    max_age_s: float = Field(default=0.0, ge=0, le=60, strict=True)
    """Answers on the last request's window while it is no older than so many seconds, so that answers
    compare.
    """

    @model_validator(mode="after")
    def _few_curves(self) -> Self:
        if self.trajectories and len(self.watermarks) > MOST_CURVES:
            raise ValueError(f"trajectories are of at most {MOST_CURVES} watermarks")
        return self


class WhatIfDocument(Document):
    """Predictions in the order of the watermarks."""

    scenario: str
    """Name of the scenario, or of the state."""
    engine: str
    """Engine that predicted."""
    seed: int
    """Seed of the runs."""
    version: str
    """Version of ecntwin."""
    wall_s: float
    """Time the answer took, in seconds."""
    window_s: float
    """Time simulated, in seconds."""
    age_s: float | None = None
    """Age of the window when the answer was ready, in seconds; null on a scenario."""
    score_is: ScoreName
    """Which score decides: gains are over the incumbent, or over the first watermark where none was given."""
    incumbent: PredictionDocument | None
    """Prediction of what gains are relative to; null where there is none."""
    results: list[PredictionDocument]
    """One per watermark, in their order."""
    trajectories: AskedTrajectoriesDocument | None
    """The deepest queues over time; null unless asked for, or where `notes` says why."""
    notes: list[str]
    """Sentences on what runs apart from the incumbent, what a score leaves out, and why there are no
    trajectories.
    """
