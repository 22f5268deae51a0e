"""Base classes of JSON documents: frozen, no unknown keys, null where a figure is not a number."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    model_validator,
)

from telemetry.settings import NS_PER_DAY, NS_PER_S

MOST_KEYS = 100


class Document(BaseModel):
    """One JSON object of the interface; the text under a field describes it in OpenAPI."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)

    @classmethod
    def from_attributes(cls, source: object, **given: Any) -> Self:
        """With the fields ``given``, and the others from the attributes of ``source`` of the same names."""
        others = {name: getattr(source, name) for name in cls.model_fields if name not in given}
        return cls(**others, **given)


class RequestBody(BaseModel):
    """An object in a request. A key that is not known is an error: it may be a misspelt precondition. All
    errors are listed, so the number of keys is limited.
    """

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    @model_validator(mode="before")
    @classmethod
    def _has_few_keys(cls, given: object) -> object:
        if isinstance(given, dict) and len(given) > MOST_KEYS:
            raise ValueError(f"it is an object of at most {MOST_KEYS} keys")
        return given


def _finite(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value


Figure = Annotated[float | None, BeforeValidator(_finite)]
"""A number, or null where it is NaN or infinite: JSON has neither."""


Time = Annotated[str, Field(examples=["2026-11-22T21:30:49.123Z"])]
"""As ``timestamp`` writes it."""

SwitchName = Annotated[str, Field(examples=["leaf1"])]
PortName = Annotated[str, Field(examples=["Ethernet8"])]


def timestamp(ns: int) -> str:
    """Nanoseconds since 1970 as RFC 3339 in UTC, to the millisecond."""
    return datetime.fromtimestamp(ns / 1e9, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def list_text(names: Iterable[str], most: int = 5) -> str:
    """The first names and how many more there are."""
    listed = list(names)
    more = len(listed) - most
    return ", ".join(listed[:most]) + (f" and {more} more" if more > 0 else "")


_YEARS = (1971, 2200)  # in any zone


def _in_reach(at: datetime) -> datetime:
    first, last = _YEARS
    if not first <= at.year <= last:
        raise ValueError(f"times lie from {first} to {last}")
    return at


GivenTime = Annotated[AwareDatetime, AfterValidator(_in_reach)]
"""A time in a request, RFC 3339 with its zone."""


def nanoseconds(at: datetime) -> int:
    """Nanoseconds since 1970."""
    since = at.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return since.days * NS_PER_DAY + since.seconds * NS_PER_S + since.microseconds * 1_000
