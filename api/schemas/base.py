"""What every document shares: frozen, no unknown keys, and null where a figure is not a number."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict


class Document(BaseModel):
    """One JSON object of the interface."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def _finite(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value


Figure = Annotated[float | None, BeforeValidator(_finite)]
"""A number, or null where it is NaN or infinite: JSON has neither."""


def timestamp(ns: int) -> str:
    """Nanoseconds since 1970 as RFC 3339 in UTC, to the millisecond."""
    return datetime.fromtimestamp(ns / 1e9, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
