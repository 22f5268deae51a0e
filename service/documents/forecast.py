"""Forecasts of ports as documents."""

from __future__ import annotations

from typing import Self

from service.documents.base import Document, Figure, PortName, SwitchName, Time, timestamp
from telemetry.forecast import Forecast
from telemetry.settings import NS_PER_S


class ForecastPathDocument(Document):
    """A forecast step by step; all lists have one length."""

    at: list[Time]
    """Start of each step."""
    throughput_bytes_per_s: list[Figure]
    """Bytes sent a second, as forecast."""
    low_bytes_per_s: list[Figure]
    """Lower end of the band that held 95 % of what came in the past."""
    high_bytes_per_s: list[Figure]
    """Its upper end."""
    error_bytes_per_s: list[Figure]
    """Mean absolute error that forecasts so far ahead had in the past."""


class PortForecastDocument(Document):
    """What a port will send at its busiest step within the horizon, by its own history."""

    switch: SwitchName
    """The switch."""
    port: PortName
    """The port."""
    why: str | None
    """Why there is no forecast of it, in a sentence; its other figures are null then."""
    method: str | None
    """The method that erred least on this port's past."""
    now_bytes_per_s: Figure
    """Bytes sent a second in the last step of the history that was measured."""
    then_bytes_per_s: Figure
    """Bytes sent a second in the busiest step within the horizon."""
    then_at: Time | None
    """Start of that step."""
    error_bytes_per_s: Figure
    """Mean absolute error that forecasts so far ahead had in the past."""
    low_bytes_per_s: Figure
    """Lower end, at that step, of the band that held 95 % of what came in the past."""
    high_bytes_per_s: Figure
    """Its upper end."""
    rate_bytes_per_s: Figure
    """The port's rate, which bounds all of these; null where it is not known."""
    utilisation: Figure
    """`then_bytes_per_s` ÷ `rate_bytes_per_s`."""
    path: ForecastPathDocument | None
    """Every step, where one port was asked for."""

    @classmethod
    def without(cls, switch: str, port: str, why: str) -> Self:
        rest = dict.fromkeys(cls.model_fields.keys() - {"switch", "port", "why"})
        return cls(switch=switch, port=port, why=why, **rest)

    @classmethod
    def of(
        cls,
        switch: str,
        port: str,
        found: Forecast,
        *,
        rate: float | None,
        from_ns: int,
        step_s: int,
        path: bool,
    ) -> Self:
        """``from_ns``: the begin of its first step."""
        at = [timestamp(from_ns + step * step_s * NS_PER_S) for step in range(len(found.values))]
        busiest = int(found.values.argmax())
        then = float(found.values[busiest])
        return cls(
            switch=switch,
            port=port,
            why=None,
            method=found.method,
            now_bytes_per_s=found.now,
            then_bytes_per_s=then,
            then_at=at[busiest],
            error_bytes_per_s=float(found.errors[busiest]),
            low_bytes_per_s=float(found.low[busiest]),
            high_bytes_per_s=float(found.high[busiest]),
            rate_bytes_per_s=rate,
            utilisation=then / rate if rate else None,
            path=ForecastPathDocument(
                at=at,
                throughput_bytes_per_s=found.values.tolist(),
                low_bytes_per_s=found.low.tolist(),
                high_bytes_per_s=found.high.tolist(),
                error_bytes_per_s=found.errors.tolist(),
            )
            if path
            else None,
        )

    @property
    def fullness(self) -> tuple[float, float]:
        """Sort key: by utilisation, where that is unknown by bytes, and without a forecast last."""
        known = (self.utilisation, self.then_bytes_per_s)
        first, second = (-1.0 if one is None else one for one in known)
        return first, second


class ForecastDocument(Document):
    """What ports will send, by their own history."""

    horizon_s: float
    """How far ahead, in seconds."""
    step_s: int | None
    """Length of a step of the history and of the forecast, in seconds; null without one."""
    until: Time
    """End of the history that it is made of."""
    why: str | None
    """Why there is no forecast at all, in a sentence; else null."""
    ports: list[PortForecastDocument]
    """The one asked for, else those that will be fullest first."""
    total: int
    """How many ports there are in all."""
    next: str | None
    """What to pass as `after` for more of them; null where there are none."""
