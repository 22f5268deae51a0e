"""Flow keys and paths in columns behave like sequences."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from telemetry.columns import GrowingArray, Ragged
from telemetry.report import FlowKeys
from telemetry.state import FlowKey

HOST = st.sampled_from(["10.0.0.1", "10.0.0.2", "fd00::1"])
KEYS = st.builds(
    FlowKey, HOST, HOST, st.integers(0, 65_535), st.sampled_from([80, 4791]), st.sampled_from([6, 17])
)
HOSTS_PRINTED = {"10.0.0.1": 11, "10.0.0.2": 12, "fd00::1": 13}


def fingerprints(keys: FlowKeys) -> list[int]:
    return keys.fingerprints(np.array([HOSTS_PRINTED[host] for host in keys.hosts], np.uint64)).tolist()


@given(st.lists(KEYS, max_size=20), st.lists(KEYS, max_size=20))
def test_flow_keys_are_what_went_in(some: list[FlowKey], others: list[FlowKey]) -> None:
    keys = FlowKeys.of(some)
    assert list(keys) == some
    assert [keys[place] for place in range(len(keys))] == some
    assert keys == some
    assert keys[1:3] == some[1:3]
    assert (keys == FlowKeys.of(others)) == (some == others)
    # A fingerprint belongs to the key, wherever it stands and however hosts are numbered.
    both = fingerprints(FlowKeys.of([*others, *some]))
    assert both == fingerprints(FlowKeys.of(others)) + fingerprints(keys)
    assert len(set(both)) == len({*some, *others})


@given(st.lists(st.lists(st.sampled_from("abc"), max_size=4).map(tuple), max_size=12))
def test_ragged_sequences_are_what_went_in(rows: list[tuple[str, ...]]) -> None:
    letters = [letter for row in rows for letter in row]
    offset = np.concatenate(([0], np.cumsum([len(row) for row in rows]))).astype(np.int64)
    ragged = Ragged(("a", "b", "c"), offset, np.array(["abc".index(one) for one in letters], np.int32))
    assert list(ragged) == rows
    assert ragged == rows
    assert ragged[::2] == rows[::2]
    assert ragged.counts.tolist() == [len(row) for row in rows]
    if rows:
        assert ragged[-1] == rows[-1]


@given(st.lists(st.lists(st.integers(-5, 5), max_size=600), max_size=5))
def test_a_column_grows(parts: list[list[int]]) -> None:
    column = GrowingArray(np.int32)
    for part in parts:
        column.extend(np.array(part, np.int32))
    whole = [number for part in parts for number in part]
    assert column.values.tolist() == whole
    assert len(column) == len(whole)
    column.replace(column.values[:1])
    column.extend(np.array([7]))
    assert column.values.tolist() == [*whole[:1], 7]
