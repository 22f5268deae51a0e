"""Traffic keeps its columns, its order and what waits for what; what no fabric could carry is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.unit.twin.traffic.making import Row, flows_of, waiting_flows, waiting_traffic
from twin.errors import ParameterError
from twin.traffic.base import Traffic

ROWS: list[Row] = [(0, 1, 5.0, 0.0), (1, 2, 6.0, 0.0), (2, 0, 7.0, 1.0)]


def columns(**changes: Any) -> dict[str, Any]:
    good: dict[str, Any] = {
        "src": [0, 1, 2],
        "dst": [1, 2, 0],
        "payload_bytes": [5.0, 6.0, 7.0],
        "start_s": [0.0, 0.0, 1.0],
        "after_offset": [0, 0, 1, 3],
        "after": [0, 1, 0],
        "gap_s": [0.0, 0.0, 1e-3],
    }
    return {name: np.array(values) for name, values in (good | changes).items()}


def test_columns_have_the_promised_types_and_cannot_be_written() -> None:
    given = columns()
    traffic = Traffic(**given)
    assert {name: getattr(traffic, name).dtype.name for name in given} == {
        "src": "int32",
        "dst": "int32",
        "payload_bytes": "float64",
        "start_s": "float64",
        "after_offset": "int64",
        "after": "int64",
        "gap_s": "float64",
    }
    with pytest.raises(ValueError, match="read-only"):
        traffic.start_s[0] = 3.0
    given["start_s"][0] = -1.0  # the caller's own array stays the caller's
    assert traffic.start_s[0] == 0.0


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"dst": [1, 1, 0]}, "row 1 dst: received 1; a flow joins two different hosts"),
        ({"src": [0, -1, 2]}, "row 1 src: received -1; hosts are numbered from 0"),
        ({"src": [0.0, 1.0, 2.0]}, "src: received float64 values; it holds whole numbers"),
        ({"src": [0, 1, 2**40]}, "src: received 1099511627776; it must fit int32"),
        ({"payload_bytes": [5.0, 0.0, 7.0]}, "row 1 payload_bytes: received 0.0"),
        ({"payload_bytes": [5.0, math.nan, 7.0]}, "row 1 payload_bytes: received nan"),
        ({"payload_bytes": [math.inf, 1.0, 7.0]}, "row 1 after: received row 0, which never ends"),
        ({"payload_bytes": ["a", "b", "c"]}, "payload_bytes: received <U1 values; it holds numbers"),
        ({"start_s": [0.0, 2.0, 1.0]}, "row 2 start_s: received 1.0; rows are in order of start_s"),
        ({"start_s": [-1.0, 0.0, 1.0]}, "row 0 start_s: received -1.0; it is finite and 0 or more"),
        ({"start_s": [0.0, 0.0, math.inf]}, "row 2 start_s: received inf"),
        ({"gap_s": [0.0, -1e-6, 0.0]}, "row 1 gap_s: received -1e-06"),
        ({"gap_s": [0.0, 0.0]}, "gap_s: received 2 entries; there are 3 flows"),
        ({"gap_s": [[0.0, 0.0, 0.0]]}, r"gap_s: received an array of shape \(1, 3\)"),
        ({"after": [0, 1, 2]}, "row 2 after: received row 2; a flow waits only for earlier rows"),
        ({"after": [1, 1, 0]}, "row 1 after: received row 1"),
        ({"after": [0, 1, -1]}, "row 2 after: received row -1"),
        ({"after_offset": [0, 0, 1, 2]}, "after_offset: received 4 entries from 0 to 2"),
        ({"after_offset": [0, 2, 1, 3]}, "after_offset: received 4 entries from 0 to 3; it rises from 0"),
        ({"after_offset": [0, 3]}, "after_offset: received 2 entries"),
        ({"after_offset": np.empty(0, dtype=np.int64)}, "after_offset: received 0 entries from nothing"),
    ],
)
def test_what_no_fabric_could_carry_is_refused_in_a_sentence(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ParameterError, match=f"traffic {says}"):
        Traffic(**columns(**changes))


def test_independent_flows_come_in_order_of_start_and_ties_as_given() -> None:
    traffic = Traffic.independent([3, 1, 2, 0], [0, 0, 0, 1], [30, 10, 20, math.inf], [2, 1, 2, 0.5])
    assert flows_of(traffic) == [(0, 1, math.inf, 0.5), (1, 0, 10, 1), (3, 0, 30, 2), (2, 0, 20, 2)]
    assert traffic.awaited == [[], [], [], []]
    assert not traffic.gap_s.any()


def test_one_size_or_start_serves_all_independent_flows() -> None:
    assert flows_of(Traffic.independent([0, 1], [1, 0], 9, 0.25)) == [(0, 1, 9, 0.25), (1, 0, 9, 0.25)]


def test_independent_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(ParameterError, match="dst: received 1 entries; there are 2 flows"):
        Traffic.independent([0, 1], [2], 9, 0.0)


def test_merging_nothing_is_no_traffic() -> None:
    assert len(Traffic.merged()) == 0
    assert len(Traffic.merged(Traffic.merged(), Traffic.merged())) == 0


def test_merged_parts_interleave_and_still_wait_for_the_same_flows() -> None:
    waiting = waiting_traffic(ROWS, [[], [0], [1, 0]], [0.0, 0.0, 1e-3])
    early, late = Traffic.independent([4], [5], 1, 0.0), Traffic.independent([6, 6], [7, 7], 2, [0.5, 2.0])
    merged = Traffic.merged(waiting, early, late)
    assert merged.src.tolist() == [0, 1, 4, 6, 2, 6]
    assert merged.awaited == [[], [0], [], [], [1, 0], []]
    assert merged.gap_s.tolist() == [0, 0, 0, 0, 1e-3, 0]
    again = Traffic.merged(early, waiting)  # where starts are equal, the earlier part comes first
    assert again.src.tolist() == [4, 0, 1, 2]
    assert again.awaited == [[], [], [1], [2, 1]]


def test_shifting_moves_starts_and_nothing_else() -> None:
    waiting = waiting_traffic(ROWS, [[], [0], [1, 0]], [0.0, 0.0, 1e-3])
    later = waiting.shifted(0.5)
    assert later.start_s.tolist() == [0.5, 0.5, 1.5]
    assert waiting_flows(later.shifted(-0.5)) == waiting_flows(waiting)
    with pytest.raises(ParameterError, match="start_s"):
        waiting.shifted(-0.5)
    with pytest.raises(ParameterError, match="a shift is finite"):
        waiting.shifted(math.nan)


def test_between_takes_the_begin_and_leaves_the_end() -> None:
    traffic = Traffic.independent([0] * 4, [1] * 4, 1, [0.0, 1.0, 1.5, 2.0])
    assert traffic.between(1.0, 2.0).start_s.tolist() == [1.0, 1.5]
    assert len(traffic.between(2.0, 1.0)) == 0
    assert len(traffic.between(5.0, 6.0)) == 0


def test_between_counts_what_it_leaves_out_as_delivered() -> None:
    rows: list[Row] = [(0, 1, 5.0, 0.0), (1, 2, 6.0, 1.0), (2, 0, 7.0, 1.0)]
    kept = waiting_traffic(rows, [[], [0], [1, 0]], [0.0, 0.0, 1e-3]).between(1.0, 2.0)
    assert waiting_flows(kept) == [(rows[1], 0.0, []), (rows[2], 1e-3, [rows[1]])]
