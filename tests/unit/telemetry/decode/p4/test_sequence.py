"""Sequence numbers that are missing, late, wrap or restart."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.decode.p4.sequence import Sender, SequenceCounts, SequenceGaps

ONE = Sender(node=1, hardware=0, version=2)
BITS = 22
TURN = 1 << BITS


def counts(*sequence: int, bits: int = BITS) -> SequenceCounts:
    gaps = SequenceGaps()
    for number in sequence:
        gaps.note(ONE, number, bits)
    return gaps.counts()[ONE]


@pytest.mark.parametrize(
    ("sequence", "expected"),
    [
        ((5,), SequenceCounts(1)),
        ((5, 6, 7), SequenceCounts(3)),
        ((5, 8), SequenceCounts(2, lost=2)),
        ((TURN - 2, TURN - 1, 0, 1), SequenceCounts(4)),
        ((TURN - 2, 1), SequenceCounts(2, lost=2)),
        ((5, 7, 6), SequenceCounts(3, late=1)),
        ((5, 6, 6), SequenceCounts(3)),
        ((0, TURN - 1), SequenceCounts(2)),
        ((5, 9, 9, 6, 6, 5), SequenceCounts(6, lost=2, late=1)),
        ((TURN - 1, 2, 2, 1, 1, 0), SequenceCounts(6, late=2)),
        ((5, 5_000, 3_977, 3_977), SequenceCounts(4, lost=4_993, late=1)),
        ((5, 7, 100_000, 0, 3, 2), SequenceCounts(6, lost=99_994, late=1, restarts=1)),
        ((100_000, 0, 1), SequenceCounts(3, restarts=1)),
        ((TURN - 100_000, 0, 1), SequenceCounts(3, restarts=1)),
        ((TURN - 100_000, 3, 4), SequenceCounts(3, restarts=1)),
        ((TURN - 100, 1_000), SequenceCounts(2, lost=1_099)),
    ],
)
def test_a_senders_count(sequence: tuple[int, ...], expected: SequenceCounts) -> None:
    assert counts(*sequence) == expected


def test_a_count_of_32_bits_goes_round_later() -> None:
    assert counts(TURN - 1, TURN, bits=32) == SequenceCounts(2)
    assert counts(2**32 - 1, 0, bits=32) == SequenceCounts(2)


def test_a_leap_is_no_gap_of_a_billion_datagrams() -> None:
    assert counts(5, 2**31, 6, bits=32) == SequenceCounts(3, restarts=2)
    assert counts(5, 5 + 2**21, bits=32) == SequenceCounts(2, lost=2**21 - 1)
    assert counts(5, 6 + 2**21, bits=32) == SequenceCounts(2, restarts=1)


def test_datagrams_that_come_twice_do_not_hide_those_that_are_lost() -> None:
    gaps, numbers = SequenceGaps(), np.repeat([5, 6, 12, 13, 14, 15, 16, 17, 18], 2)
    for begin in range(0, len(numbers), 6):
        some = numbers[begin : begin + 6]
        gaps.note_all([ONE], some, np.array([len(some)]), [BITS])
    assert gaps.counts()[ONE] == SequenceCounts(18, lost=5)


def test_each_unit_of_each_device_counts_for_itself() -> None:
    gaps = SequenceGaps()
    for sender in (ONE, ONE._replace(hardware=1), ONE._replace(node=2)):
        assert gaps.note(sender, 10, BITS) == SequenceCounts(1)
    assert gaps.note(ONE, 13, BITS) == SequenceCounts(1, lost=2)
    assert gaps.note(ONE, 12, BITS) == SequenceCounts(1, lost=-1, late=1)
    assert [count.lost for count in gaps.counts().values()].count(0) == 2


def test_the_sender_not_heard_for_longest_is_forgotten() -> None:
    gaps = SequenceGaps(max_senders=2)
    for node in (1, 2, 1, 3):
        gaps.note(ONE._replace(node=node), 0, BITS)
    assert {sender.node for sender in gaps.counts()} == {1, 3}
    assert len(gaps) == 2


_NUMBER = st.integers(0, 40) | st.integers(TURN - 3, TURN - 1) | st.integers(0, TURN - 1)
_SENDERS = [ONE, ONE._replace(node=2), Sender(-1, 0, 0, "192.0.2.1")]
_NUMBERS = st.lists(_NUMBER | st.integers(3, 6), min_size=1, max_size=12)


@given(st.lists(st.dictionaries(st.sampled_from(_SENDERS), _NUMBERS, min_size=1), min_size=1, max_size=5))
def test_many_at_once_are_counted_as_one_by_one(batches: list[dict[Sender, list[int]]]) -> None:
    together, alone = SequenceGaps(), SequenceGaps()
    for batch in batches:
        rose = together.note_all(
            list(batch),
            np.concatenate([np.array(numbers, np.int64) for numbers in batch.values()]),
            np.cumsum([len(numbers) for numbers in batch.values()]),
            [BITS if sender.version else 32 for sender in batch],
        )
        for sender, told in zip(batch, rose, strict=True):
            bits = BITS if sender.version else 32
            each = [alone.note(sender, number, bits) for number in batch[sender]]
            assert told == SequenceCounts(
                *(
                    sum(getattr(one, name) for one in each)
                    for name in ("received", "lost", "late", "restarts")
                )
            )
    assert together.counts() == alone.counts()


def test_senders_without_a_node_are_told_apart_by_where_they_sent_from() -> None:
    gaps = SequenceGaps()
    for source in ("192.0.2.1", "192.0.2.2"):
        gaps.note(Sender(-1, 0, 0, source), 7, 32)
    assert len(gaps) == 2
