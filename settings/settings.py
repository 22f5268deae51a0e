"""The settings of what is remembered of queues; must not write any."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from settings.settings_section import Section
from settings.steps import DAY_S, Steps

Length = Annotated[int, Field(ge=2, le=86_400)]
Days = Annotated[float, Field(gt=0, le=36_500)]


class HistorySettings(Section):
    """How long what queues did is remembered: the part of ``StorageSettings`` that says so."""

    history_step_s: int | None = Field(default=10, ge=1, le=3_600)
    history_keep_days: Days = 1.0
    history_coarser: dict[Length, Days] = Field(default={60: 14.0, 600: 400.0})

    @model_validator(mode="after")
    def _are_steps(self) -> Self:
        before_s, before_days = self.history_step_s, self.history_keep_days
        for step_s, days in sorted(self.history_coarser.items()) if before_s else ():
            if before_s and (step_s <= before_s or step_s % before_s):
                raise ValueError(
                    f"history_coarser {step_s} is not made of whole steps of {before_s} s; give multiples, "
                    "such as 10, 60 and 600"
                )
            if days < before_days:
                raise ValueError(
                    f"history_coarser keeps {step_s} s for {days:g} days and the finer {before_s} s for "
                    f"{before_days:g}; keep the coarser for as long at least"
                )
            before_s, before_days = step_s, days
        return self

    def steps(self) -> Steps | None:
        """The same for whoever writes them; None: none are written."""
        if self.history_step_s is None:
            return None
        given = {self.history_step_s: self.history_keep_days, **self.history_coarser}
        return Steps({step_s: given[step_s] * DAY_S for step_s in sorted(given)})
