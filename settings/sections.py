"""The settings of alarms, and the rules they make; must not measure anything.

Each kind has two thresholds: from the first on it is a warning, from the second on critical; None: it never
is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Self

from pydantic import Field, model_validator

from settings.settings_section import Section
from telemetry.alarms.board import Rule

_SECONDS = frozenset({"telemetry_silent", "switch_silent", "unreachable"})

_IT_IS = Rule(warning=1.0, critical=None, hold_s=0.0, clear_s=0.0)
_YES_OR_NO = {
    "drifted": _IT_IS,
    "untuned": _IT_IS,
    "rollout_stalled": Rule(warning=None, critical=1.0, hold_s=0.0, clear_s=0.0),
    "storage": Rule(warning=None, critical=1.0, hold_s=0.0, clear_s=0.0),
}
"""Kinds that are there or not, and need no settings."""


class AlarmSettings(Section):
    """When something is an alarm ([docs/alarms.md](alarms.md) says why at these thresholds).

    Every ``every_s`` seconds everything is looked at. A value at or over ``..._warning`` or ``..._critical``
    for ``hold_s`` seconds is one (none: never), until it has been below ``clear_ratio`` (above 0, to 1) of
    that for ``clear_s`` seconds. What is not measured any more stays for ``forget_s`` seconds. The last
    ``keep`` that ended are remembered. ``lossless_queues`` are the numbers of the queues that PFC protects;
    none: all.

    Shares are from 0 to 1: of the time a port is paused, of reports rejected, of datagrams lost. Rates are a
    second: PFC frames a port sent, packets a lossless queue dropped, datagrams dropped on the way in. Silence
    and switches out of reach count seconds. ``ecn_off`` counts how often over Kmax a queue is that marks
    nothing, ``clock_offset`` seconds between a sink's clock and this one.
    """

    every_s: float = Field(default=5.0, gt=0)
    hold_s: float = Field(default=10.0, ge=0)
    clear_s: float = Field(default=30.0, ge=0)
    clear_ratio: float = Field(default=0.5, gt=0, le=1)
    forget_s: float = Field(default=600.0, ge=0)
    keep: int = Field(default=200, ge=0)
    lossless_queues: tuple[Annotated[int, Field(ge=0)], ...] = (3, 4)
    pfc_storm_warning: float | None = Field(default=0.05, gt=0)
    pfc_storm_critical: float | None = Field(default=0.25, gt=0)
    pfc_frames_warning: float | None = Field(default=1_000.0, gt=0)
    pfc_frames_critical: float | None = Field(default=10_000.0, gt=0)
    lossless_loss_warning: float | None = Field(default=0.01, gt=0)
    lossless_loss_critical: float | None = Field(default=100.0, gt=0)
    ecn_off_warning: float | None = Field(default=1.0, gt=0)
    ecn_off_critical: float | None = Field(default=2.0, gt=0)
    clock_skew_warning: float | None = Field(default=0.01, gt=0)
    clock_skew_critical: float | None = Field(default=0.5, gt=0)
    clock_backwards_warning: float | None = Field(default=0.001, gt=0)
    clock_backwards_critical: float | None = Field(default=None, gt=0)
    clock_offset_warning: float | None = Field(default=5.0, gt=0)
    clock_offset_critical: float | None = Field(default=None, gt=0)
    telemetry_silent_warning: float | None = Field(default=30.0, gt=0)
    telemetry_silent_critical: float | None = Field(default=120.0, gt=0)
    switch_silent_warning: float | None = Field(default=60.0, gt=0)
    switch_silent_critical: float | None = Field(default=None, gt=0)
    sequence_gaps_warning: float | None = Field(default=0.001, gt=0)
    sequence_gaps_critical: float | None = Field(default=0.05, gt=0)
    ingest_drops_warning: float | None = Field(default=1.0, gt=0)
    ingest_drops_critical: float | None = Field(default=10_000.0, gt=0)
    reports_rejected_warning: float | None = Field(default=0.01, gt=0)
    reports_rejected_critical: float | None = Field(default=0.5, gt=0)
    unreachable_warning: float | None = Field(default=30.0, gt=0)
    unreachable_critical: float | None = Field(default=300.0, gt=0)

    @model_validator(mode="after")
    def _are_rules(self) -> Self:
        self.rules()
        return self

    def rules(self) -> dict[str, Rule]:
        """The rule of each kind; those without thresholds of their own are there or not."""
        found = {}
        for name in type(self).model_fields:
            kind, _, level = name.rpartition("_")
            if level != "warning":
                continue
            warning, critical = getattr(self, name), getattr(self, f"{kind}_critical")
            if warning is not None and critical is not None and warning > critical:
                raise ValueError(
                    f"{name} {warning:g} is above {kind}_critical {critical:g}: what is critical is a "
                    "warning at least; lower the first or raise the second"
                )
            # What is counted in seconds has lasted long enough by itself.
            hold_s = 0.0 if kind in _SECONDS else self.hold_s
            found[kind] = Rule(
                warning=warning,
                critical=critical,
                hold_s=hold_s,
                clear_s=self.clear_s,
                clear_ratio=self.clear_ratio,
            )
        held = replace(_IT_IS, hold_s=self.hold_s)  # one poll in between may fail
        grew = replace(_IT_IS, clear_s=self.clear_s)  # what is lost comes in bursts
        return found | _YES_OR_NO | {"counter_source": held, "history_lost": grew}
