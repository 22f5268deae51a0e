"""What a rollout wants done next, one step on one switch each, or a look at telemetry; values only."""

from __future__ import annotations

from dataclasses import dataclass

from switches.base import StagedChange
from twin.watermark import Watermark


@dataclass(frozen=True, slots=True)
class Stage:
    """Work out a switch's change."""

    switch: str
    target: Watermark


@dataclass(frozen=True, slots=True)
class _WithChange:
    switch: str
    change: StagedChange


class Apply(_WithChange):
    """Set a switch; ``Applying`` is journaled first."""

    __slots__ = ()


class Verify(_WithChange):
    """Read a switch back."""

    __slots__ = ()


class Confirm(_WithChange):
    """Let a switch keep its change."""

    __slots__ = ()


class Undo(_WithChange):
    """Return a switch to what it ran before."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Check:
    """Read these switches, which are set, once more: each must still run its change."""

    changes: tuple[StagedChange, ...]


@dataclass(frozen=True, slots=True)
class Watch:
    """Look at telemetry of these switches from ``since_s`` on, and say what it sees."""

    switches: tuple[str, ...]
    since_s: float


SwitchAction = Stage | Apply | Verify | Confirm | Undo
Action = SwitchAction | Check | Watch
