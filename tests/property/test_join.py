"""A batch in parts has the same reports, and each part only its own flows and sites."""

from __future__ import annotations

import json
from dataclasses import fields, replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from telemetry.decode.json import decode
from telemetry.report import HopSite, ReportBatch, joined, parted

HOST, SWITCHES = st.integers(0, 5), st.lists(st.integers(0, 9), min_size=1, max_size=6)
REPORTS = st.lists(st.tuples(HOST, HOST, SWITCHES), min_size=1, max_size=30)


@given(REPORTS, st.integers(1, 40))
def test_parts_joined_are_the_batch(given_: list[tuple[int, int, list[int]]], hops: int) -> None:
    texts = [
        {
            "ts_ns": number,
            "flow": {"src": f"h{src}", "dst": f"h{dst}", "sport": 1, "dport": 2, "protocol": 17},
            "packet_bytes": 1 + number,
            "sampling_rate": 0.5,
            "hops": [{"switch": f"s{place}", "queue_bytes": place} for place in places],
        }
        for number, (src, dst, places) in enumerate(given_)
    ]
    whole = decode(json.dumps(texts).encode()).batch
    parts = list(parted(whole, hops))
    for part in parts:
        assert set(part.flow.tolist()) == set(range(len(part.flow_keys)))
        assert set(part.hop_site.tolist()) == set(range(len(part.sites)))
        assert len(part) == 1 or part.hop_offset[-1] <= hops + 6
    again = joined(parts)
    assert [again.flow_keys[n] for n in again.flow] == [whole.flow_keys[n] for n in whole.flow]
    assert [again.sites[n] for n in again.hop_site] == [whole.sites[n] for n in whole.hop_site]
    for column in fields(whole):
        if column.name not in ("flow", "flow_keys", "hop_site", "sites"):
            assert np.array_equal(getattr(again, column.name), getattr(whole, column.name)), column.name


class Asked(HopSite):
    """Counts how often its place is looked up."""

    times = 0

    def __hash__(self) -> int:
        Asked.times += 1
        return super().__hash__()


def test_a_table_of_sites_that_all_parts_share_is_gone_through_once() -> None:
    sites = tuple(Asked(f"s{number}", None, None, None) for number in range(100))
    flow = {"src": "a", "dst": "b", "sport": 1, "dport": 2, "protocol": 17}
    report = {"ts_ns": 1, "flow": flow, "packet_bytes": 1, "sampling_rate": 1, "hops": [{"switch": "s0"}]}
    part: ReportBatch = replace(decode(json.dumps(report).encode()).batch, sites=sites)
    assert len(joined([part] * 50).sites) == 100
    assert Asked.times == 100
