"""The fingerprint set against Python's own."""

from __future__ import annotations

import numpy as np

from telemetry.window.hash_table import FingerprintTable


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
