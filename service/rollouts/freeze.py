"""Whether operators let switches be set at all; a value."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class Freeze:
    """``by`` whom and when (seconds since 1970) it was last changed; None for never. ``unknown`` says why it
    is not known what was decided before the service started; until it is, all is as while frozen.
    """

    frozen: bool = False
    by: str | None = None
    at_s: float | None = None
    unknown: str | None = None

    @classmethod
    def of(cls, document: str, at_s: float) -> Self:
        """As the journal holds it."""
        found = json.loads(document)
        return cls(bool(found["frozen"]), str(found["by"]), at_s)
