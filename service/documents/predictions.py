"""Watermarks, predictions and trajectories as documents, and what-if requests and answers."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from service.documents.base import Document, Figure, RequestBody
from telemetry.topology import GBPS
from twin.engine import DEFAULT_ENGINE, EngineName
from twin.prediction import SIZE_CLASSES, Prediction, SolveStatus
from twin.search.recommendation import ScoredCandidate
from twin.search.score import ScoreName
from twin.search.trajectories import Trajectories
from twin.watermark import Watermark


class WatermarkDocument(Document):
    """(Kmin, Kmax, Pmax) of an egress queue."""

    kmin_bytes: int
    kmax_bytes: int
    pmax: float

    @classmethod
    def of(cls, watermark: Watermark) -> Self:
        return cls(kmin_bytes=watermark.kmin_bytes, kmax_bytes=watermark.kmax_bytes, pmax=watermark.pmax)


class WatermarkInput(BaseModel):
    """A watermark in a request; other keys are ignored, so results of a truth file can be sent."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    kmin_bytes: int | Annotated[float, Field(allow_inf_nan=False)]
    kmax_bytes: int | Annotated[float, Field(allow_inf_nan=False)]
    pmax: float

    def watermark(self) -> Watermark:
        """Raises ``WatermarkError``."""
        return Watermark(self.kmin_bytes, self.kmax_bytes, self.pmax)  # type: ignore[arg-type] # it checks


class SlowdownDocument(Document):
    """Completion time ÷ completion time alone on the path, over ``n`` flows; null where there are none."""

    n: int
    mean: Figure
    p99: Figure


class ProbeDocument(Document):
    """Slowdown of one full packet that crosses at a random moment; null where the engine has none."""

    n: int = 0
    p50: Figure = None
    p99: Figure = None


class GainDocument(Document):
    """The parts a gain is the sum of: bulk speed, small-message delay, pauses and losses, weighed."""

    bulk: Figure
    delay: Figure
    harm: Figure


class PredictionDocument(WatermarkDocument):
    """The twin's prediction for one watermark; all figures null where ``status`` is not ok.

    ``score`` is what decides (``score_is``): the gain over the incumbent, with its standard error, or the
    patent's normalised score, which is always beside it. ``paused_share`` is port time paused ÷ all port
    time, ``loss_share`` bytes lost ÷ bytes sent.
    """

    status: str
    status_detail: str
    queue_mean_bytes: Figure
    queue_p99_bytes: Figure
    queue_peak_bytes: Figure
    goodput_gbps: Figure
    marked_fraction: Figure
    loss_bytes: Figure
    pfc_pause_s: Figure
    slowdown: dict[str, SlowdownDocument]
    probe_slowdown: ProbeDocument = ProbeDocument()
    probe_by_path: dict[str, ProbeDocument] = Field(default_factory=dict)
    paused_share: Figure = None
    loss_share: Figure = None
    score: Figure
    score_error: Figure = None
    score_normalised: Figure = None
    gain: GainDocument | None = None

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


def prediction_fields(prediction: Prediction) -> dict[str, Any]:
    """The fields of a ``PredictionDocument`` except its scores."""
    found = prediction.slowdown
    probes = {
        name: ProbeDocument(n=one.n, p50=float(one.p50), p99=float(one.p99))
        for name, one in prediction.probe.items()
    }
    absent = SlowdownDocument(n=0, mean=None, p99=None)
    return {
        **WatermarkDocument.of(prediction.watermark).model_dump(),
        "status": prediction.status.code,
        "status_detail": "" if prediction.status is SolveStatus.OK else prediction.status.value,
        "queue_mean_bytes": float(prediction.queue_mean_bytes),
        "queue_p99_bytes": float(prediction.queue_p99_bytes),
        "queue_peak_bytes": float(prediction.queue_peak_bytes),
        "goodput_gbps": float(prediction.goodput_bytes_per_s) / GBPS,
        "marked_fraction": float(prediction.marked_fraction),
        "loss_bytes": float(prediction.loss_bytes),
        "pfc_pause_s": float(prediction.pfc_pause_s),
        "slowdown": {
            name: SlowdownDocument(
                n=int(found[name].n), mean=float(found[name].mean), p99=float(found[name].p99)
            )
            if name in found
            else absent
            for name in SIZE_CLASSES
        },
        "probe_slowdown": probes.pop("all", ProbeDocument()),
        "probe_by_path": probes,
        "paused_share": prediction.paused_share,
        "loss_share": prediction.loss_share,
    }


STEP_MEAN: Literal["mean of each step"] = "mean of each step"  # what a depth is


class QueueTrajectoryDocument(Document):
    """Predicted depths of one egress queue under the incumbent and under the recommended watermark."""

    switch: str
    port: str
    incumbent_bytes: list[int]
    recommended_bytes: list[int]


class TrajectoriesDocument(Document):
    """Depths of the deepest queues, the deepest first.

    Entry k of a list is the mean depth of the step from k × ``step_s``, the last one up to ``window_s``. From
    the round's engine and seed alone; the figures beside it are means over several seeds.
    """

    window_s: float
    step_s: float
    depth_is: Literal["mean of each step"]
    queues: list[QueueTrajectoryDocument]

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


class AskedQueueDocument(Document):
    """Predicted depths of one egress queue under the incumbent, if any, and each requested watermark."""

    switch: str
    port: str
    incumbent_bytes: list[int] | None
    results_bytes: list[list[int]]


class AskedTrajectoriesDocument(Document):
    """Depths as in a ``TrajectoriesDocument``; ``results_bytes`` has one list per result, in their order."""

    window_s: float
    step_s: float
    depth_is: Literal["mean of each step"]
    queues: list[AskedQueueDocument]

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
    """Watermarks to predict on ``scenario`` (with its flows inline under ``flows``), else on the current
    state.

    ``incumbent`` is predicted too; by default what the switches run, if on the current state. ``window_s``
    asks for less time: the end of the window, the beginning of a scenario. ``max_age_s`` reuses the last
    request's window while it is no older, so that answers compare. ``trajectories`` adds the deepest queues
    over time, for up to 8 watermarks.

    ``engine`` is ``replay`` (queues as fluid, flows one by one), ``fluid`` (equilibria of long flows) or
    ``packet`` (every packet: the most faithful, four to thirty times as long).
    """

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"watermarks": [{"kmin_bytes": 20000, "kmax_bytes": 200000, "pmax": 0.05}], "seed": 1}
            ]
        }
    )

    watermarks: Annotated[list[WatermarkInput], Field(min_length=1, max_length=MOST_WATERMARKS)]
    scenario: dict[str, Any] | None = None
    engine: EngineName = DEFAULT_ENGINE
    seed: int = Field(default=1, ge=0, strict=True)

    incumbent: WatermarkInput | None = None
    trajectories: bool = Field(default=False, strict=True)
    window_s: float | None = Field(default=None, ge=1e-4, strict=True)
    max_age_s: float = Field(default=0.0, ge=0, le=60, strict=True)

    @model_validator(mode="after")
    def _few_curves(self) -> Self:
        if self.trajectories and len(self.watermarks) > MOST_CURVES:
            raise ValueError(f"trajectories are of at most {MOST_CURVES} watermarks")
        return self


class WhatIfDocument(Document):
    """Predictions in the order of the watermarks, and of the incumbent they were scored with.

    ``score_is`` names the score; gains are over the incumbent, or over the first watermark where none was
    given. ``window_s`` is the simulated time, ``age_s`` the age of the window when the answer was ready; null
    on a scenario. ``notes`` say what a score leaves out and why there are no trajectories.
    """

    scenario: str
    engine: str
    seed: int
    version: str
    wall_s: float
    window_s: float
    age_s: float | None = None
    score_is: ScoreName
    incumbent: PredictionDocument | None
    results: list[PredictionDocument]
    trajectories: AskedTrajectoriesDocument | None
    notes: list[str]
