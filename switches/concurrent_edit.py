"""Whether somebody else has set a switch meanwhile; must not ask one."""

from __future__ import annotations

from switches.base import Reading, StagedChange
from switches.errors import ConcurrentEditError


def check_nobody_else(change: StagedChange, now: Reading, where: str) -> None:
    """Before setting: raises ``ConcurrentEditError`` where ``now`` shows what nobody here set."""
    if not change.explains(now):
        raise ConcurrentEditError(
            where,
            _shown(now),
            f"since it was staged, only this change may set it (it ran {change.ran or 'several'})",
            "find out who set it; what runs now is the start of the next recommendation",
        )


def left_alone(change: StagedChange, now: Reading, where: str) -> None:
    """Before undoing: raises ``ConcurrentEditError`` where undoing would overwrite somebody else's values."""
    if not change.explains(now):
        raise ConcurrentEditError(
            where,
            _shown(now),
            f"an undo takes back {change.after} only, and leaves what somebody else has set",
            f"set {change.ran or 'what it ran'} by hand, if that is wanted",
        )


def _shown(now: Reading) -> str:
    return str(now.watermark) if now.watermark is not None else "queues that differ"
