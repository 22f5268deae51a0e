"""Takes one watermark to several switches, or undoes it on all of them; must not know any adapter kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from switches.base import Reading, StagedChange, SwitchAdapter
from switches.errors import SwitchError
from twin.watermark import Watermark


@dataclass(frozen=True, slots=True)
class Pushed:
    """One switch's part of a push: the change and what was read back after it."""

    change: StagedChange
    read_back: Reading


def push(adapters: Sequence[SwitchAdapter], watermark: Watermark) -> tuple[Pushed, ...]:
    """Stages everywhere before touching anything, then applies and verifies one switch after the other.

    A failure undoes the switches already changed, newest first, and raises the ``SwitchError`` that
    caused it, with whatever could not be undone as notes.
    """
    staged = [(adapter, adapter.stage(watermark)) for adapter in adapters]
    touched: list[tuple[SwitchAdapter, StagedChange]] = []
    done: list[Pushed] = []
    try:
        for adapter, change in staged:
            touched.append((adapter, change))
            adapter.apply(change)
            done.append(Pushed(change, adapter.verify(change)))
    except SwitchError as error:
        for adapter, change in reversed(touched):
            try:
                adapter.rollback(change)
            except SwitchError as also:
                error.add_note(f"not undone: {also}")
        raise
    return tuple(done)
