"""The decoder never raises anything but ``DecodeError``, and loses exactly the bad reports."""

from __future__ import annotations

import gzip
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from telemetry.decode.json import Decoded, decode
from telemetry.errors import DecodeError

NAMES = st.text(min_size=1, max_size=8)
NANOSECONDS = st.integers(0, 2**63 - 1)


def maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


HOPS = st.fixed_dictionaries(
    {},
    optional={
        "switch": maybe(NAMES),
        "ingress_port": maybe(NAMES),
        "egress_port": maybe(NAMES),
        "queue": maybe(st.integers(0, 2**31 - 1)),
        "queue_bytes": maybe(st.integers(0, 2**40) | st.floats(0, 2.0**40)),
        "ingress_ts_ns": maybe(NANOSECONDS),
        "egress_ts_ns": maybe(NANOSECONDS),
        "ecn_marked": maybe(st.booleans()),
    },
)
REPORTS = st.fixed_dictionaries(
    {
        "ts_ns": NANOSECONDS,
        "flow": st.fixed_dictionaries(
            {
                "src": NAMES,
                "dst": NAMES,
                "sport": st.integers(0, 65_535),
                "dport": st.integers(0, 65_535),
                "protocol": st.integers(0, 255),
            }
        ),
        "packet_bytes": st.integers(1, 65_535),
        "sampling_rate": st.floats(1e-9, 1),
        "hops": st.lists(HOPS, min_size=1, max_size=4),
    }
)
FIELDS = ["ts_ns", "flow", "packet_bytes", "sampling_rate", "hops"]
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*FIELDS, "x"]), inner, max_size=3)
    ),
    max_leaves=8,
)


def tried(body: bytes) -> Decoded | None:
    try:
        return decode(body, max_body_bytes=1_000_000)
    except DecodeError:
        return None


def is_json(text: bytes) -> bool:
    """Whether it is without the numbers that only Python writes: Infinity and NaN."""
    constants: list[str] = []
    json.loads(text, parse_constant=constants.append)
    return not constants


@given(st.binary(max_size=300))
def test_bytes_never_break_it(body: bytes) -> None:
    tried(body)
    tried(b"[" + body + b"]")
    tried(b"{" + body + b"\n{}")
    tried(gzip.compress(body))


@given(ANY_JSON)
def test_json_that_is_not_reports_never_breaks_it(value: Any) -> None:
    for body in (json.dumps(value), json.dumps([value, value]), json.dumps(value) + "\n{}"):
        decoded = tried(body.encode())
        if decoded is not None:
            assert len(decoded.batch) == 0


@given(st.lists(REPORTS, min_size=1, max_size=3), st.data())
def test_damage_never_breaks_it(reports: list[Any], data: st.DataObject) -> None:
    body = bytearray(json.dumps(reports).encode())
    for place in data.draw(st.lists(st.integers(0, len(body) - 1), min_size=1, max_size=4)):
        body[place] = data.draw(st.integers(0, 255))
    tried(bytes(body))
    tried(bytes(body[: data.draw(st.integers(0, len(body)))]))


@given(st.lists(st.tuples(REPORTS, st.booleans(), st.sampled_from(FIELDS), ANY_JSON), min_size=1, max_size=5))
def test_the_bad_are_named_and_the_good_are_kept(rows: list[tuple[dict[str, Any], bool, str, Any]]) -> None:
    texts, good = [], []
    for index, (report, sound, field, value) in enumerate(rows):
        wrong = {"value": value} if field == "flow" else [value, -1]  # right for no field
        texts.append(json.dumps(report if sound else report | {field: wrong}).encode())
        if sound:
            good.append(index)
    for body in (b"[" + b",".join(texts) + b"]", b"\n".join(texts)):
        try:
            decoded = decode(body)
        except DecodeError:  # nothing in it can be read
            assert not any(map(is_json, texts))
            continue
        assert decoded.batch.index.tolist() == good
        assert [problem.index for problem in decoded.errors] == [n for n in range(len(rows)) if n not in good]


@given(st.lists(REPORTS, min_size=1, max_size=5))
def test_what_goes_in_comes_out(reports: list[dict[str, Any]]) -> None:
    batch = decode(json.dumps(reports).encode()).batch
    assert len(batch) == len(reports)
    for row, report in enumerate(reports):
        assert batch.ts_ns[row] == report["ts_ns"]
        assert batch.packet_bytes[row] == report["packet_bytes"]
        assert batch.sampling_rate[row] == report["sampling_rate"]
        assert batch.flow_keys[batch.flow[row]]._asdict() == report["flow"]
        begin, end = batch.hop_offset[row : row + 2].tolist()
        assert end - begin == len(report["hops"])
        for hop, sent in zip(range(begin, end), report["hops"], strict=True):
            site = batch.sites[batch.hop_site[hop]]
            assert site == (*map(sent.get, ("switch", "ingress_port", "egress_port", "queue")),)
            depth = sent.get("queue_bytes")
            assert batch.queue_bytes[hop] == depth if depth is not None else batch.queue_bytes[hop] != depth
            egress_ns, marked = sent.get("egress_ts_ns"), sent.get("ecn_marked")
            assert batch.egress_ns[hop] == (-1 if egress_ns is None else egress_ns)
            assert batch.marked[hop] == (-1 if marked is None else marked)
