"""The fingerprint table behaves like a dictionary, and without numbers like a set."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from telemetry.window import hash_table
from telemetry.window.hash_table import ABSENT, FingerprintTable, KeyTable, _step

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


def test_flows_chosen_to_meet_in_one_slot_are_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    walks = 0

    def step(hashed: NDArray[np.uint64]) -> NDArray[np.uint64]:
        nonlocal walks
        walks += 1
        return _step(hashed)

    monkeypatch.setattr(hash_table, "_step", step)
    crowd = (np.arange(8_000, dtype=np.uint64) << np.uint64(18)) | np.uint64(5)
    FingerprintTable(len(crowd)).add(crowd)
    assert walks < 200


def test_it_remembers_what_was_put_in_and_nothing_else() -> None:
    rng = np.random.default_rng(3)
    fingerprints = np.unique(rng.integers(1, 2**63, 50_000, dtype=np.uint64))
    rng.shuffle(fingerprints)
    kept, others = fingerprints[:30_000], fingerprints[30_000:]
    seen = FingerprintTable()
    for part in np.array_split(kept, 37):
        assert not seen.contains(part).any()
        seen.add(part)
        assert seen.contains(part).all()
    assert len(seen) == 30_000
    assert seen.contains(kept).all()
    assert not seen.contains(others).any()


def test_fingerprints_that_want_one_slot_all_find_room() -> None:
    crowd = (np.arange(1, 400, dtype=np.uint64)) << np.uint64(40)
    seen = FingerprintTable()
    seen.add(crowd)
    assert seen.contains(crowd).all()
    assert not seen.contains(crowd + np.uint64(1)).any()


def test_zero_is_a_fingerprint_too() -> None:
    seen = FingerprintTable()
    zero = np.zeros(1, np.uint64)
    assert not seen.contains(zero)[0]
    seen.add(zero)
    assert seen.contains(zero)[0]


def test_keys_that_come_again_among_others_have_their_fingerprints_made_once() -> None:
    asked: list[str] = []

    def fingerprint(key: str) -> int:
        asked.append(key)
        return len(key)

    table, shared = KeyTable(fingerprint), ("a", "bb", "ccc")
    for number in range(50):
        assert table.fingerprints(shared).tolist() == [1, 2, 3]
        assert table.fingerprints((str(number),)).tolist() == [len(str(number))]
    assert (asked.count("a"), len(asked)) == (1, 3 + 50)
    assert len(table._last._held) < 10
