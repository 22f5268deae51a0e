"""The table of numbers answers like a dictionary."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from telemetry.window.hash_table import ABSENT, FingerprintTable

FINGERPRINTS = st.lists(st.integers(0, 2**64 - 1), max_size=3000, unique=True)


@given(st.lists(FINGERPRINTS, max_size=4))
def test_it_is_a_dictionary(batches: list[list[int]]) -> None:
    table, known = FingerprintTable(numbers=True), dict[int, int]()
    for batch in batches:
        new = [one for one in batch if max(one, 1) not in known]
        new = [one for place, one in enumerate(new) if max(one, 1) not in {max(o, 1) for o in new[:place]}]
        numbers = np.arange(len(known), len(known) + len(new), dtype=np.int32)
        table.add(np.array(new, np.uint64), numbers)
        known |= zip([max(one, 1) for one in new], numbers.tolist(), strict=True)
        asked = [*batch, 5, 2**63]
        expected = [known.get(max(one, 1), ABSENT) for one in asked]
        assert table.find(np.array(asked, np.uint64)).tolist() == expected


def test_those_that_want_one_slot_all_find_a_place() -> None:
    crowd = np.arange(1, 1_200, dtype=np.uint64) << np.uint64(40)
    table = FingerprintTable(numbers=True)
    table.add(crowd, np.arange(len(crowd), dtype=np.int32))
    assert np.array_equal(table.find(crowd), np.arange(len(crowd)))
    assert (table.find(crowd + np.uint64(1)) == ABSENT).all()
