"""The dry-run adapter: it records a change, reads the record back, and never claims to have written."""

from __future__ import annotations

from itertools import count

import pytest

from switches.dryrun import DryRunAdapter
from switches.errors import ReadBackError, StageError
from twin.watermark import Watermark

OLD = Watermark(400_000, 1_600_000, 0.2)
NEW = Watermark(50_000, 200_000, 0.05)


def make(running: Watermark | None = OLD) -> DryRunAdapter:
    return DryRunAdapter("leaf1", running, clock_ns=count(1).__next__)


def test_staging_shows_the_difference_and_changes_nothing() -> None:
    adapter = make()
    change = adapter.stage(NEW)
    assert "-kmin_bytes: 400000" in change.diff
    assert "+kmin_bytes: 50000" in change.diff
    assert "leaf1" in change.diff
    assert adapter.records == ()


def test_applying_records_the_change_and_the_switch_runs_what_it_ran() -> None:
    adapter = make()
    change = adapter.stage(NEW)
    adapter.apply(change)
    assert adapter.verify(change).watermark == NEW
    assert adapter.read().watermark == OLD
    assert [(record.action, record.watermark) for record in adapter.records] == [("set", NEW)]
    assert not adapter.capabilities().writes


def test_rollback_records_the_way_back() -> None:
    adapter = make()
    change = adapter.stage(NEW)
    adapter.apply(change)
    adapter.rollback(change)
    assert adapter.records[-1].action == "undo"
    assert adapter.records[-1].watermark == OLD
    assert "+kmin_bytes: 400000" in adapter.records[-1].diff


def test_a_change_to_what_already_runs_has_an_empty_diff() -> None:
    assert make().stage(OLD).diff == ""


def test_an_unknown_running_value_is_shown_as_additions_only() -> None:
    adapter = make(None)
    change = adapter.stage(NEW)
    assert "+pmax: 0.05" in change.diff
    assert "\n-" not in change.diff.split("+++", 1)[1]
    adapter.apply(change)
    adapter.rollback(change)
    assert adapter.records[-1].watermark is None


def test_only_the_latest_staged_change_can_be_applied() -> None:
    adapter = make()
    first = adapter.stage(NEW)
    adapter.stage(OLD)
    with pytest.raises(StageError, match="stage it again"):
        adapter.apply(first)


def test_verifying_before_applying_is_a_read_back_error() -> None:
    adapter = make()
    change = adapter.stage(NEW)
    with pytest.raises(ReadBackError, match="no record"):
        adapter.verify(change)


def test_the_record_is_bounded() -> None:
    adapter = DryRunAdapter("leaf1", OLD, clock_ns=count(1).__next__, keep=3)
    for kmin in range(10):
        adapter.apply(adapter.stage(Watermark(kmin, 100, 0.5)))
    assert [record.watermark.kmin_bytes for record in adapter.records if record.watermark] == [7, 8, 9]
