"""Settings of the conditions that an operator puts on links."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from settings.validation import Section
from telemetry.alarms import Rule
from telemetry.links import FIGURES, FORECAST, FigureName, LinkCondition
from twin.errors import ParameterError
from twin.units import BYTES, NO_UNIT, SHARE, quantity

_UNITS = {"share": SHARE, "bytes": BYTES, "per_second": NO_UNIT}

Pattern = Annotated[str, Field(min_length=1, max_length=200)]


class LinkConditionSettings(Section):
    """One condition; ``over`` and ``under`` may be texts with a unit, such as ``80%`` or ``400KB``."""

    name: str = Field(min_length=1, max_length=32)
    figure: FigureName
    over: float | str | None = None
    under: float | str | None = None
    for_s: float = Field(default=60.0, ge=0)
    level: Literal["warning", "critical"] = "warning"
    clear_ratio: float = Field(default=0.9, gt=0, le=1)
    ports: tuple[Pattern, ...] = ()
    roles: tuple[Pattern, ...] = ()
    queues: tuple[Annotated[int, Field(ge=0)], ...] = ()
    ahead_s: float = Field(default=3_600.0, ge=60, le=86_400)
    remedy: str | None = Field(default=None, min_length=1, max_length=500)

    @field_validator("name")
    @classmethod
    def _can_be_typed(cls, given: str) -> str:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9 _.-]*", given):
            raise ValueError("a name has letters, digits, spaces, and _ . - but not at its beginning")
        return given

    @field_validator("ports")
    @classmethod
    def _name_switch_and_port(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        for pattern in given:
            if ":" not in pattern:
                raise ValueError(f"{pattern!r} is no pattern of switch:port, such as leaf*:Ethernet5*")
        return given

    @model_validator(mode="after")
    def _has_one_bound(self) -> Self:
        self.bound()
        forecast = self.figure == FORECAST
        if "ahead_s" in self.model_fields_set and not forecast:
            raise ParameterError("ahead_s", f"{self.ahead_s:g}", f"only {FORECAST} looks ahead", "remove it")
        if self.queues and forecast:
            raise ParameterError("queues", None, f"{FORECAST} is of a whole port", "remove them")
        return self

    def bound(self) -> float:
        """``over`` or ``under`` as a number. Raises ``ParameterError`` where the figure cannot reach it."""
        if (self.over is None) == (self.under is None):
            received = "neither" if self.over is None else "both"
            raise ParameterError("over and under", received, "a condition has one bound", "give one of them")
        where, given = ("over", self.over) if self.under is None else ("under", self.under)
        unit = FIGURES[self.figure].unit
        bound = quantity(where, given, _UNITS[unit])
        if not 0 < bound < float("inf"):
            raise ParameterError(where, f"{given}", "a bound is above 0, and finite", "correct it")
        if unit == "share" and bound > 1:
            rule = f"{self.figure} is a share from 0 to 1"
            raise ParameterError(where, f"{given}", rule, f"write {bound / 100:g} or {bound:g}%")
        return bound

    def condition(self, *, clear_s: float) -> LinkCondition:
        bound = self.bound()
        return LinkCondition(
            name=self.name,
            figure=self.figure,
            rule=Rule(
                warning=bound if self.level == "warning" else None,
                critical=bound if self.level == "critical" else None,
                hold_s=self.for_s,
                clear_s=clear_s,
                clear_ratio=self.clear_ratio,
                below=self.under is not None,
            ),
            ports=self.ports,
            roles=self.roles,
            queues=frozenset(self.queues),
            ahead_s=self.ahead_s if self.figure == FORECAST else None,
        )
