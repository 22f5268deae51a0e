"""Watermarks and what the twin predicts for them, in the shape ``ecntwin whatif`` writes."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field

from service.documents.base import Document, Figure
from twin.dcqcn import GBPS
from twin.result import SIZE_CLASSES, Prediction, SolveStatus
from twin.watermark import Watermark


class WatermarkDocument(Document):
    """(Kmin, Kmax, Pmax) of an egress queue."""

    kmin_bytes: int
    kmax_bytes: int
    pmax: float

    @classmethod
    def of(cls, watermark: Watermark) -> Self:
        """The document of a watermark."""
        return cls(kmin_bytes=watermark.kmin_bytes, kmax_bytes=watermark.kmax_bytes, pmax=watermark.pmax)


class WatermarkInput(BaseModel):
    """A watermark a caller gives; other keys are ignored, so a truth file's results serve."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    kmin_bytes: int | Annotated[float, Field(allow_inf_nan=False)]
    kmax_bytes: int | Annotated[float, Field(allow_inf_nan=False)]
    pmax: float

    def watermark(self) -> Watermark:
        """The same for the domain; raises ``WatermarkError``."""
        return Watermark(self.kmin_bytes, self.kmax_bytes, self.pmax)  # type: ignore[arg-type] # it checks


class SlowdownDocument(Document):
    """Completion time ÷ completion time alone on the path, over ``n`` flows; null where there are none."""

    n: int
    mean: Figure
    p99: Figure


class PredictionDocument(WatermarkDocument):
    """What the twin says of one watermark; every figure null where ``status`` is not ok."""

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
    score: Figure

    @classmethod
    def predicted(cls, prediction: Prediction, score: float | None) -> Self:
        """The document of a prediction and its score."""
        return cls(**prediction_fields(prediction), score=score)


def prediction_fields(prediction: Prediction) -> dict[str, Any]:
    """The fields of a ``PredictionDocument`` but its score."""
    watermark = prediction.watermark
    found = prediction.slowdown
    absent = SlowdownDocument(n=0, mean=None, p99=None)
    return {
        "kmin_bytes": watermark.kmin_bytes,
        "kmax_bytes": watermark.kmax_bytes,
        "pmax": watermark.pmax,
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
    }
