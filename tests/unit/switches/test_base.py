"""What a reading says, and what a change makes of one: made, undone, in between, or somebody else's."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from switches.adapter import check_undo_allowed
from switches.base import QueueWatermark, Reading, StagedChange
from switches.errors import CapabilityError, ReadBackError
from twin.watermark import Watermark

OLD, NEW = Watermark(400_000, 1_600_000, 0.2), Watermark(50_000, 200_000, 0.05)
OTHER = Watermark(7, 9, 0.9)


def reading(*marks: Watermark | None) -> Reading:
    return Reading.of("leaf1", (QueueWatermark(f"e{n}", 3, mark) for n, mark in enumerate(marks)), 7)


def change(*before: Watermark | None, after: Watermark = NEW) -> StagedChange:
    queues = tuple(QueueWatermark(f"e{n}", 3, mark) for n, mark in enumerate(before))
    return StagedChange(id="r", switch="leaf1", asked=after, after=after, before=queues, diff="")


def test_a_reading_has_one_watermark_where_all_queues_run_it() -> None:
    assert reading(OLD, OLD).watermark == OLD
    assert reading(OLD, NEW).watermark is None
    assert reading(OLD, None).watermark is None
    assert reading(None, None).watermark is None
    assert reading().watermark is None


def test_the_usual_watermark_is_what_most_queues_run() -> None:
    assert reading(OLD, OLD, NEW).usual == OLD
    assert reading(OLD, NEW).usual == min(OLD, NEW)
    assert reading(None, None, NEW).usual == NEW
    assert reading(None).usual is None
    assert Reading("leaf1", OLD, 7).usual == OLD  # an adapter that cannot tell queues apart


def test_a_change_knows_what_ran_and_whether_it_changes_anything() -> None:
    assert (change(OLD, OLD).ran, change(OLD, OLD).changes) == (OLD, True)
    assert (change(OLD, NEW).ran, change(OLD, NEW).changes) == (None, True)
    assert (change(None).ran, change(None).changes) == (None, True)
    assert (change(NEW, NEW).ran, change(NEW, NEW).changes) == (NEW, False)


def test_a_change_about_no_queue_cannot_be() -> None:
    """It would be made in every reading."""
    with pytest.raises(CapabilityError, match="switch 'leaf1': a change is about at least one egress queue"):
        change()


MIX = Watermark(OLD.kmin_bytes, OLD.kmax_bytes, NEW.pmax)
LOWERED = Watermark(NEW.kmin_bytes, OLD.kmax_bytes, OLD.pmax)


@pytest.mark.parametrize(
    ("before", "now", "made", "undone", "explained"),
    [
        ((OLD, OLD), (NEW, NEW), True, False, True),
        ((OLD, OLD), (OLD, OLD), False, True, True),
        ((OLD, OLD), (NEW, OLD), False, False, True),  # one queue after the other
        ((OLD, OLD), (LOWERED, OLD), False, False, True),  # one value after the other
        ((OLD, OLD), (MIX, NEW), False, False, True),
        ((OLD, OLD), (OTHER, NEW), False, False, False),
        ((OLD, OLD), (Watermark(50_000, 1_600_000, 0.9), OLD), False, False, False),  # only its Pmax
        ((OLD, OLD), (OLD, None), False, False, False),  # somebody turned marking off
        ((OLD, None), (OLD, None), False, True, True),
        ((OLD, None), (NEW, NEW), True, False, True),
        ((OLD, None), (OLD, NEW), False, False, True),
        ((OLD, None), (OLD, OLD), False, False, False),  # it did not mark, and after is not what it runs
        ((OLD, NEW), (OLD, NEW), False, True, True),
        ((NEW, NEW), (NEW, NEW), True, True, True),  # nothing to change
    ],
)
def test_what_a_reading_says_of_a_change(
    before: tuple[Watermark | None, ...],
    now: tuple[Watermark | None, ...],
    made: bool,
    undone: bool,
    explained: bool,
) -> None:
    staged, found = change(*before), reading(*now)
    assert (staged.made_in(found), staged.undone_in(found), staged.explains(found)) == (
        made,
        undone,
        explained,
    )


def test_a_queue_that_is_not_read_is_neither_made_nor_explained() -> None:
    staged, found = change(OLD, OLD), reading(NEW)
    assert not staged.made_in(found)
    assert not staged.explains(found)


def test_a_queue_that_is_gone_keeps_no_other_from_being_undone() -> None:
    staged = change(OLD, OLD)
    assert staged.undone_in(reading(OLD))
    assert change(OLD, None).undone_in(reading(OLD))
    assert not staged.undone_in(reading(NEW))
    assert staged.explains_left(reading(NEW))
    assert not staged.explains_left(reading(OTHER))
    assert staged.left_in(reading(NEW)) == staged.before[:1]


def test_an_answer_without_any_of_its_queues_is_no_undo() -> None:
    staged = change(OLD, OLD)
    assert not staged.undone_in(reading())
    assert staged.left_in(reading()) == ()
    with pytest.raises(ReadBackError, match="an undo finds at least one of the queues that were set"):
        check_undo_allowed(staged, reading(), "switch 'leaf1'")


def test_queues_that_the_change_is_not_about_do_not_matter() -> None:
    staged = change(OLD)
    assert staged.made_in(reading(NEW, OTHER))
    assert staged.undone_in(reading(OLD, None))
    assert staged.explains(reading(OLD, OTHER))


def test_pmax_may_be_off_by_what_a_text_of_it_loses_and_nothing_else() -> None:
    staged = change(OLD)
    near = Watermark(NEW.kmin_bytes, NEW.kmax_bytes, NEW.pmax + 1e-12)
    assert staged.made_in(reading(near))
    assert staged.explains(reading(near))
    for off in (
        Watermark(NEW.kmin_bytes + 1, NEW.kmax_bytes, NEW.pmax),
        Watermark(NEW.kmin_bytes, NEW.kmax_bytes - 1, NEW.pmax),
        Watermark(NEW.kmin_bytes, NEW.kmax_bytes, NEW.pmax + 1e-6),
    ):
        assert not staged.made_in(reading(off))
        assert not staged.explains(reading(off))


marks = st.builds(
    lambda kmin, gap, pmax: Watermark(kmin, kmin + gap, pmax),
    st.integers(0, 10**6),
    st.integers(1, 10**6),
    st.sampled_from([0.01, 0.2, 1.0]),
)


@given(st.lists(st.none() | marks, min_size=1, max_size=4), marks, st.data())
def test_a_change_made_in_any_part_is_explained(
    before: list[Watermark | None], after: Watermark, data: st.DataObject
) -> None:
    staged = change(*before, after=after)
    now = [data.draw(st.sampled_from([mark, after])) for mark in before]
    assert staged.explains(reading(*now))
    assert staged.made_in(reading(*now)) == (now == [after] * len(now))
    assert staged.undone_in(reading(*now)) == (now == before)


@given(st.lists(st.none() | marks, min_size=1, max_size=4), marks)
def test_a_change_outlives_its_process(before: list[Watermark | None], after: Watermark) -> None:
    staged = change(*before, after=after)
    assert msgspec.json.decode(msgspec.json.encode(staged), type=StagedChange) == staged
