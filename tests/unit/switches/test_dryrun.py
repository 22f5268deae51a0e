"""The dry-run adapter: it records a change, reads the record back, and never claims to have written."""

from __future__ import annotations

from itertools import count

from switches.device import Device
from switches.dryrun import WHOLE, DryRunAdapter
from tests.unit.switches.labs import Lab
from twin.watermark import Watermark

OLD = Watermark(400_000, 1_600_000, 0.2)
NEW = Watermark(50_000, 200_000, 0.05)
LEAF1 = Device(name="leaf1", platform="dry-run", running=OLD)
STRANGER = Device(name="leaf1", platform="dry-run")


def make(device: Device = LEAF1) -> DryRunAdapter:
    return DryRunAdapter(device, clock_ns=count(1).__next__)


def test_staging_shows_the_difference_and_changes_nothing() -> None:
    adapter = make()
    change = adapter.stage(NEW, "r1")
    assert "-kmin_bytes: 400000" in change.diff
    assert "+kmin_bytes: 50000" in change.diff
    assert "leaf1" in change.diff
    assert (change.id, change.asked, change.after, change.ran) == ("r1", NEW, NEW, OLD)
    assert [(queue.port, queue.queue) for queue in change.before] == [(WHOLE, 3)]
    assert adapter.records == ()


def test_applying_records_the_change_and_the_switch_runs_what_it_ran() -> None:
    adapter = make()
    change = adapter.stage(NEW, "r1")
    adapter.apply(change)
    assert adapter.verify(change).watermark == NEW
    adapter.confirm(change)
    assert adapter.read().watermark == OLD
    assert [(record.action, record.watermark) for record in adapter.records] == [("set", NEW)]
    assert not adapter.capabilities().writes


def test_rollback_records_the_way_back() -> None:
    adapter = make()
    change = adapter.stage(NEW, "r1")
    adapter.apply(change)
    adapter.rollback(change)
    assert adapter.records[-1].action == "undo"
    assert adapter.records[-1].watermark == OLD
    assert "+kmin_bytes: 400000" in adapter.records[-1].diff


def test_a_change_to_what_already_runs_has_an_empty_diff() -> None:
    assert make().stage(OLD, "r1").diff == ""


def test_an_unknown_running_value_is_undone_to_nothing_known() -> None:
    adapter = make(STRANGER)
    assert adapter.read().watermark is None
    change = adapter.stage(NEW, "r1")
    assert "+pmax: 0.05" in change.diff
    assert "-kmin_bytes" not in change.diff
    adapter.apply(change)
    adapter.rollback(change)
    assert (adapter.records[-1].watermark, adapter.records[-1].diff) == (None, "")


def test_over_a_switch_it_stages_as_that_does_and_sets_nothing() -> None:
    lab = Lab(leaf1=("a", "b"))
    lab.ports["leaf1"]["b"] = NEW
    adapter = DryRunAdapter(LEAF1, clock_ns=count(1).__next__, over=lab.adapter())
    assert adapter.read().queues == lab.adapter().read().queues
    change = adapter.stage(Watermark(1, 2, 0.5), "r1")
    assert change == lab.adapter().stage(Watermark(1, 2, 0.5), "r1")
    adapter.apply(change)
    assert adapter.verify(change).watermark == change.after
    adapter.confirm(change)
    adapter.rollback(change)
    adapter.close()
    assert not any(call.startswith("PUT") for call in lab.calls)
    assert lab.ports["leaf1"] == {"a": OLD, "b": NEW}
    assert [record.action for record in adapter.records] == ["set", "undo"]
    capabilities = adapter.capabilities()
    assert (capabilities.kind, capabilities.writes) == ("lab", False)


def test_the_record_is_bounded() -> None:
    adapter = DryRunAdapter(LEAF1, clock_ns=count(1).__next__, keep=3)
    for kmin in range(10):
        adapter.apply(adapter.stage(Watermark(kmin, 100, 0.5), f"r{kmin}"))
    assert [record.watermark.kmin_bytes for record in adapter.records if record.watermark] == [7, 8, 9]
