"""Changes of pattern at given times, as one traffic; must import nothing but errors and this package."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from twin.errors import ParameterError
from twin.traffic.base import Traffic
from twin.traffic.checks import check_not_negative, inside
from twin.traffic.pattern import Hosts, Pattern, Seed, check_duration, generator_of


@dataclass(frozen=True)
class Phase:
    """A pattern from ``at_s`` until ``until_s``; None: until the next phase that begins later, or the end."""

    at_s: float
    pattern: Pattern
    until_s: float | None = None

    def __post_init__(self) -> None:
        check_not_negative("phase at_s", self.at_s)
        if self.until_s is not None:
            check_not_negative("phase until_s", self.until_s)
            if self.until_s <= self.at_s:
                raise ParameterError(
                    "phase until_s",
                    str(self.until_s),
                    f"it is after at_s ({self.at_s})",
                    "correct one of them",
                )


@dataclass(frozen=True)
class Phases:
    """Patterns one after the other or at once: a pattern too, so phases may hold phases.

    Each phase draws from a stream of its own, so that another added behind leaves it as it was. A flow that
    has begun is not stopped by the end of its phase, nor is a collective's later step.
    """

    phases: tuple[Phase, ...]

    def __post_init__(self) -> None:
        if not self.phases:
            raise ParameterError("traffic", "no phase", "there is something to send", "give at least one")

    def spans(self, duration_s: float) -> Sequence[tuple[float, float]]:
        """When each phase begins and ends within ``duration_s``; both the same for one that is cut away."""
        begins = sorted({phase.at_s for phase in self.phases})
        spans = []
        for phase in self.phases:
            later = (begin for begin in begins if begin > phase.at_s)
            end = next(later, duration_s) if phase.until_s is None else phase.until_s
            spans.append((min(phase.at_s, duration_s), min(end, duration_s)))
        return spans

    def traffic(self, hosts: Hosts, *, duration_s: float, seed: Seed) -> Traffic:
        """The flows of all phases."""
        check_duration(duration_s)
        streams = generator_of(seed).spawn(len(self.phases))
        parts = []
        for number, (phase, (begin, end)) in enumerate(zip(self.phases, self.spans(duration_s), strict=True)):
            if end == begin:
                continue
            try:
                part = phase.pattern.traffic(hosts, duration_s=end - begin, seed=streams[number])
            except ParameterError as refused:
                raise inside(f"traffic[{number}]", refused) from None
            parts.append(part.shifted(begin))
        return Traffic.merged(*parts)
