"""What every mapping of an inventory has in common; must not know a key."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Part(BaseModel):
    """A mapping of the file: unknown keys refused, no NaN or infinity. Any key may be null: not said."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, hide_input_in_errors=True)
