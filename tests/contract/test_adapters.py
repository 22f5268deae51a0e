"""One contract for every adapter, held against the platform's counterpart: what a rollout relies on."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import msgspec
import pytest

from switches.base import StagedChange, SwitchAdapter
from switches.errors import (
    AccessError,
    CapabilityError,
    ConcurrentEditError,
    GoneError,
    InventoryError,
    ReadBackError,
    SwitchError,
    UnreachableError,
)
from tests.contract.rig import ELSEWHERE, OTHER, SHARED, Rig
from twin.watermark import Watermark

LOWER = Watermark(50_000, 200_000, 0.05)  # its Kmax lies below the first Kmin
HIGHER = Watermark(2_000_000, 8_000_000, 0.5)  # its Kmin lies above the first Kmax
AWKWARD = Watermark(123_457, 654_321, 0.0333)


def as_another_process_reads_it(change: StagedChange) -> StagedChange:
    return msgspec.json.decode(msgspec.json.encode(change), type=StagedChange)


def made(adapter: SwitchAdapter, watermark: Watermark, change_id: str = "r1-a") -> StagedChange:
    change = adapter.stage(watermark, change_id)
    adapter.apply(change)
    adapter.verify(change)
    adapter.confirm(change)
    return change


def runs(rig: Rig, watermark: Watermark) -> bool:
    return set(rig.hardware().values()) == {watermark}


def test_a_reading_is_what_the_hardware_runs(rig: Rig) -> None:
    reading = rig.adapter().read()
    assert {(queue.port, queue.queue): queue.watermark for queue in reading.queues} == rig.hardware()
    assert len(reading.queues) >= 2
    assert reading.watermark == rig.first
    rig.somebody_sets(OTHER, only_first=True)
    assert rig.adapter().read().watermark in (None, OTHER)  # one profile for all may know no first


def test_staging_touches_nothing_and_shows_the_change(rig: Rig) -> None:
    bystanders = rig.bystanders()
    change = rig.adapter().stage(LOWER, "r1-a")
    assert change.changes
    assert change.ran == rig.first
    assert f"-kmin_bytes: {rig.first.kmin_bytes}" in change.diff
    assert f"+kmin_bytes: {change.after.kmin_bytes}" in change.diff
    assert runs(rig, rig.first)
    assert rig.bystanders() == bystanders


def test_a_change_about_no_queue_cannot_be_staged(rig: Rig) -> None:
    """It would be made at once, verified at once, and set nothing."""
    with pytest.raises((CapabilityError, InventoryError)):
        rig.adapter(ports=("no-such-port",)).stage(LOWER, "r1-a")


def test_a_change_staged_for_another_platform_is_a_switch_error_at_most(rig: Rig) -> None:
    change = rig.adapter().stage(LOWER, "r1-a")
    foreign = replace(change, undo={"of": "another platform"})
    with suppress(SwitchError):  # those that record nothing make it
        rig.adapter().apply(foreign)
    rig.adapter().apply(change)
    with suppress(SwitchError):
        rig.adapter().rollback(foreign)
    rig.adapter().rollback(change)
    assert runs(rig, rig.first)


def test_a_staged_change_outlives_its_process(rig: Rig) -> None:
    change = rig.adapter().stage(LOWER, "r1-a")
    assert as_another_process_reads_it(change) == change


@pytest.mark.parametrize("watermark", [LOWER, HIGHER, AWKWARD], ids=["lower", "higher", "awkward"])
def test_a_change_is_made_read_back_and_undone(rig: Rig, watermark: Watermark) -> None:
    before, bystanders = rig.hardware(), rig.bystanders()
    change = made(rig.adapter(), watermark)
    assert set(rig.hardware().values()) == {change.after}
    reading = rig.adapter().read()
    assert reading.watermark == change.after
    assert rig.bystanders() == bystanders
    rig.adapter().rollback(as_another_process_reads_it(change))
    assert rig.hardware() == before
    assert rig.bystanders() == bystanders
    assert all(kmin <= kmax for kmin, kmax in rig.history())


def test_rounding_is_toward_safety_and_said(rig: Rig) -> None:
    change = rig.adapter().stage(AWKWARD, "r1-a")
    assert change.asked == AWKWARD
    assert change.after.kmin_bytes <= AWKWARD.kmin_bytes
    assert change.after.kmax_bytes <= AWKWARD.kmax_bytes
    assert change.after.pmax >= AWKWARD.pmax
    if change.after != AWKWARD:
        assert change.notes
        assert all(note in change.diff for note in change.notes)
    assert rig.adapter().stage(change.after, "r1-b").after == change.after


def test_nothing_to_change_is_no_diff(rig: Rig) -> None:
    change = made(rig.adapter(), rig.first)
    assert not change.changes
    assert change.diff == ""
    assert runs(rig, rig.first)


def test_every_step_may_run_again_in_another_process(rig: Rig) -> None:
    change = rig.adapter().stage(LOWER, "r1-a")
    for _ in range(2):
        rig.adapter().apply(change)
    for _ in range(2):
        rig.adapter().verify(change)
    for _ in range(2):
        rig.adapter().confirm(change)
    rig.adapter().apply(change)
    assert runs(rig, change.after)
    for _ in range(2):
        rig.adapter().rollback(change)
    assert runs(rig, rig.first)


def test_a_change_that_was_never_made_is_undone_by_doing_nothing(rig: Rig) -> None:
    change = rig.adapter().stage(LOWER, "r1-a")
    rig.adapter().rollback(change)
    assert runs(rig, rig.first)
    assert made(rig.adapter(), HIGHER, "r2-a").ran == rig.first


def test_an_unconfirmed_change_can_be_undone_at_once(rig: Rig) -> None:
    adapter = rig.adapter()
    change = adapter.stage(LOWER, "r1-a")
    adapter.apply(change)
    rig.adapter().rollback(change)
    assert runs(rig, rig.first)
    again = made(rig.adapter(), HIGHER, "r2-a")
    assert runs(rig, again.after)


def test_queues_that_differed_are_put_back_one_by_one(rig: Rig) -> None:
    rig.somebody_sets(OTHER, only_first=True)
    before, bystanders = rig.hardware(), rig.bystanders()
    change = made(rig.adapter(), LOWER)
    assert set(rig.hardware().values()) == {change.after}
    rig.adapter().rollback(change)
    assert rig.hardware() == before
    assert rig.bystanders() == bystanders


def test_wrong_credentials_are_refused_and_not_repeated(rig: Rig) -> None:
    adapter = rig.refused()
    if adapter is None:
        pytest.skip("this platform's interface knows no credentials")
    with pytest.raises(AccessError) as refused:
        adapter.read()
    assert "wrong-password" not in str(refused.value)
    with pytest.raises(AccessError):
        adapter.stage(LOWER, "r1-a")
    assert runs(rig, rig.first)


def test_a_silent_switch_is_unreachable_and_comes_back(rig: Rig) -> None:
    change = rig.adapter().stage(LOWER, "r1-a")
    adapter = rig.adapter(timeout_s=0.4)
    with suppress(UnreachableError):
        adapter.read()  # connected, where its time sufficed for that
    with rig.silent():
        with pytest.raises(UnreachableError):
            adapter.read()
        with pytest.raises(UnreachableError):
            adapter.apply(change)
        with pytest.raises(UnreachableError):
            adapter.rollback(change)
    patient = rig.adapter()
    patient.rollback(change)
    assert runs(rig, rig.first)
    made(patient, HIGHER, "r2-a")


def test_a_lost_reply_is_found_out_by_asking_again(rig: Rig) -> None:
    change = rig.adapter().stage(LOWER, "r1-a")
    with rig.losing_replies(), suppress(UnreachableError):
        rig.adapter().apply(change)
    adapter = rig.adapter()
    adapter.apply(change)
    adapter.verify(change)
    adapter.confirm(change)
    assert runs(rig, change.after)
    with rig.losing_replies(), suppress(UnreachableError):
        rig.adapter().rollback(change)
    rig.adapter().rollback(change)
    assert runs(rig, rig.first)


def test_a_change_made_in_part_is_seen_and_undone(rig: Rig) -> None:
    partly = rig.applying_half()
    if partly is None:
        pytest.skip("this platform makes a change whole or not at all")
    adapter = rig.adapter(settle_s=0.5)
    change = adapter.stage(LOWER, "r1-a")
    with partly:
        with pytest.raises(SwitchError):  # noqa: PT012 # some platforms tell at once, some on reading back
            adapter.apply(change)
            adapter.verify(change)
        assert not runs(rig, change.after)
    rig.adapter().rollback(change)
    assert runs(rig, rig.first)
    assert all(kmin <= kmax for kmin, kmax in rig.history())


def test_a_change_that_does_not_take_is_a_read_back_error(rig: Rig) -> None:
    adapter = rig.adapter(settle_s=0.5)
    change = adapter.stage(LOWER, "r1-a")
    with rig.ignoring():
        adapter.apply(change)
        with pytest.raises(ReadBackError):
            adapter.verify(change)
    rig.adapter().rollback(change)
    assert runs(rig, rig.first)


def test_the_devices_own_timer_takes_an_unconfirmed_change_back(rig: Rig) -> None:
    adapter = rig.adapter()
    if not adapter.capabilities().dead_man:
        pytest.skip("this platform reverts nothing by itself")
    change = adapter.stage(LOWER, "r1-a")
    adapter.apply(change)
    adapter.verify(change)
    rig.expire()
    assert runs(rig, rig.first)
    with pytest.raises(ReadBackError):
        rig.adapter(settle_s=0.5).verify(change)
    rig.adapter().rollback(change)  # finds nothing to do
    assert runs(rig, rig.first)
    rig.adapter().apply(change)
    rig.adapter().confirm(change)
    rig.expire()
    assert runs(rig, change.after)


def test_somebody_elses_setting_is_never_overwritten(rig: Rig) -> None:
    change = rig.adapter().stage(LOWER, "r1-a")
    rig.somebody_sets(OTHER)
    with pytest.raises(ConcurrentEditError):
        rig.adapter().apply(change)
    assert runs(rig, OTHER)


def test_an_undo_leaves_what_somebody_else_has_set_since(rig: Rig) -> None:
    change = made(rig.adapter(), LOWER)
    rig.somebody_sets(OTHER)
    with pytest.raises(ReadBackError):
        rig.adapter(settle_s=0.5).verify(change)
    with pytest.raises(ConcurrentEditError):
        rig.adapter().rollback(change)
    assert runs(rig, OTHER)


@pytest.mark.parametrize("event", ELSEWHERE)
def test_an_undo_puts_its_queues_back_whatever_happens_to_others(rig: Rig, event: str) -> None:
    happens = rig.elsewhere().get(event)
    if happens is None:
        pytest.skip("this cannot be on this platform, or leaves nothing to undo")
    narrow = rig.narrow if event == SHARED else {}
    before = rig.hardware()
    change = made(rig.adapter(**narrow), LOWER)
    gone = happens() or set()
    for _ in range(2):
        rig.adapter(**narrow).rollback(as_another_process_reads_it(change))
    after = rig.hardware()
    left = {place: mark for place, mark in before.items() if place[0] not in gone}
    assert left
    assert {place: after[place] for place in left} == left
    assert gone.isdisjoint(port for (port, _), mark in after.items() if mark is not None)


def test_an_undo_is_tried_again_until_the_switch_shows_its_queues(rig: Rig) -> None:
    before = rig.hardware()
    change = made(rig.adapter(), LOWER)
    starting = rig.starting()
    if starting is None:
        pytest.skip("this platform always shows its queues")
    with starting:
        for _ in range(2):
            with pytest.raises(GoneError, match="received none of them"):
                rig.adapter().rollback(as_another_process_reads_it(change))
    rig.adapter().rollback(as_another_process_reads_it(change))
    assert rig.hardware() == before


def test_an_undo_does_not_depend_on_the_inventory(rig: Rig) -> None:
    """A port was taken out of it since."""
    before = rig.hardware()
    change = made(rig.adapter(), LOWER)
    try:
        narrower = rig.adapter(ports=(change.before[0].port,))
    except InventoryError:
        pytest.skip("this platform's queues are those of no port")
    narrower.rollback(as_another_process_reads_it(change))
    assert rig.hardware() == before


def test_an_undo_leaves_values_that_are_no_watermark(rig: Rig) -> None:
    change = made(rig.adapter(), LOWER)
    if not rig.somebody_sets_no_watermark():
        pytest.skip("this platform has only values that are one")
    bystanders = rig.bystanders()
    with pytest.raises(ConcurrentEditError):
        rig.adapter().rollback(change)
    assert rig.bystanders() == bystanders


def test_an_adapter_may_be_closed_and_used_again(rig: Rig) -> None:
    adapter = rig.adapter()
    adapter.read()
    adapter.close()
    assert adapter.read().watermark == rig.first
    adapter.close()
