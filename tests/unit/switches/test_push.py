"""Pushing to several switches: staged everywhere first, and all undone where one fails."""

from __future__ import annotations

import pytest

from switches.base import Reading, StagedChange
from switches.dryrun import DryRunAdapter
from switches.errors import ReadBackError, StageError, SwitchError
from switches.push import push
from twin.watermark import Watermark

OLD = Watermark(400_000, 1_600_000, 0.2)
NEW = Watermark(50_000, 200_000, 0.05)


class Forgetful(DryRunAdapter):
    """Applies, then reads back something else, as a switch with a half-written profile does."""

    def verify(self, change: StagedChange) -> Reading:
        raise ReadBackError(self.switch, str(OLD), f"it must run {change.after}", "look at the switch")


class Stubborn(DryRunAdapter):
    """Cannot be undone."""

    def rollback(self, change: StagedChange) -> None:
        raise StageError(self.switch, "an undo", "it does not undo", "undo by hand")


class Refusing(DryRunAdapter):
    """Does not even stage."""

    def stage(self, watermark: Watermark) -> StagedChange:
        raise SwitchError(self.switch, str(watermark), "it takes nothing", "leave it")


def test_every_switch_is_applied_and_read_back() -> None:
    adapters = [DryRunAdapter(name, OLD, clock_ns=lambda: 7) for name in ("a", "b")]
    done = push(adapters, NEW)
    assert [item.change.switch for item in done] == ["a", "b"]
    assert all(item.read_back.watermark == NEW for item in done)


def test_a_failed_read_back_undoes_every_switch_touched() -> None:
    first = DryRunAdapter("a", OLD, clock_ns=lambda: 7)
    second = Forgetful("b", OLD, clock_ns=lambda: 7)
    third = DryRunAdapter("c", OLD, clock_ns=lambda: 7)
    with pytest.raises(ReadBackError):
        push([first, second, third], NEW)
    assert [record.action for record in first.records] == ["set", "undo"]
    assert [record.action for record in second.records] == ["set", "undo"]
    assert third.records == ()


def test_nothing_is_applied_where_one_switch_refuses_to_stage() -> None:
    first = DryRunAdapter("a", OLD, clock_ns=lambda: 7)
    with pytest.raises(SwitchError, match="takes nothing"):
        push([first, Refusing("b", OLD, clock_ns=lambda: 7)], NEW)
    assert first.records == ()


def test_what_could_not_be_undone_is_noted_on_the_first_error() -> None:
    with pytest.raises(ReadBackError) as caught:
        push([Stubborn("a", OLD, clock_ns=lambda: 7), Forgetful("b", OLD, clock_ns=lambda: 7)], NEW)
    assert any("undo by hand" in note for note in caught.value.__notes__)
