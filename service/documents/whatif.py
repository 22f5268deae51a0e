"""What ``whatif`` reads and writes."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from service.documents.base import Asked, Document
from service.documents.predictions import PredictionDocument, WatermarkInput
from service.documents.trajectories import AskedTrajectoriesDocument

MOST_WATERMARKS = 1_000
# Over all watermarks of one request to the packet engine: minutes of a core.
MOST_PACKET_HOPS = 2_000_000_000
MOST_CURVES = 8  # watermarks of a request with trajectories


class WhatIfRequest(Asked, Document):
    """Watermarks to predict on ``scenario`` (its flows inline under ``flows``), or else on the state now.

    Beside them ``incumbent`` is predicted, by default what the switches run where it is on the state now.
    ``window_s`` asks for less time: the end of the window, the beginning of a scenario. ``max_age_s`` lets an
    answer be about the window that the last one was about while that is no older, so that answers compare.
    ``trajectories`` adds the deepest queues over time, for up to 8 watermarks.

    ``engine`` is ``replay`` (queues as fluid, flows one by one), ``fluid`` (equilibria of long flows) or
    ``packet`` (every packet: the most faithful, a hundred times as long).
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
    engine: Literal["replay", "fluid", "packet"] = "replay"
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
    """Predictions in the order the watermarks were given, and of the incumbent they were scored beside.

    ``window_s`` is how much time was simulated, ``age_s`` how old the window was when the answer was ready;
    null on a scenario. ``notes`` say why there are no trajectories.
    """

    scenario: str
    engine: str
    seed: int
    version: str
    wall_s: float
    window_s: float
    age_s: float | None = None
    incumbent: PredictionDocument | None
    results: list[PredictionDocument]
    trajectories: AskedTrajectoriesDocument | None
    notes: list[str]
