"""Staged changes of one form for every platform, and reading back what a platform recorded in one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from switches.base import Reading, StagedChange
from switches.changes import watermark_diff
from switches.errors import InventoryError
from switches.units import Rounded
from twin.watermark import Watermark

RecordT = TypeVar("RecordT")


def staged(
    change_id: str,
    running: Reading,
    asked: Watermark,
    rounded: Rounded,
    undo: Mapping[str, Any] | None = None,
) -> StagedChange:
    """The change of ``running`` to what the switch holds of ``asked``."""
    return StagedChange(
        id=change_id,
        switch=running.switch,
        asked=asked,
        after=rounded.watermark,
        before=running.queues,
        diff=watermark_diff(running.switch, running.queues, rounded.watermark, rounded.notes),
        notes=rounded.notes,
        undo=undo or {},
    )


def recorded(change: StagedChange, kind: type[RecordT], where: str) -> RecordT:
    """A staged change's ``undo`` as its platform's record; raises ``InventoryError`` for one of another."""
    try:
        return msgspec.convert(change.undo, kind)
    except msgspec.ValidationError as error:
        raise InventoryError(
            where,
            f"a change staged in another way ({error})",
            "a switch keeps its platform while a change is under way",
            "put the inventory back as it was, or put the switch back by hand",
        ) from error
