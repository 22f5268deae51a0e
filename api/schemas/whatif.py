"""What ``whatif`` reads and writes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from api.schemas.base import Document
from api.schemas.predictions import PredictionDocument, WatermarkInput

MOST_WATERMARKS = 1_000
# Over all watermarks of one request to the packet engine: minutes of a core.
MOST_PACKET_HOPS = 2_000_000_000


class WhatIfRequest(Document):
    """Watermarks to predict on ``scenario`` (its flows inline under ``flows``), or else on the state now.

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
    seed: int = Field(default=1, ge=0)


class WhatIfDocument(Document):
    """Predictions in the order the watermarks were given."""

    scenario: str
    engine: str
    seed: int
    version: str
    wall_s: float
    results: list[PredictionDocument]
