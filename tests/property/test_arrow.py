"""Arrow and JSON give the same reports, encoding round-trips, and no bytes crash the decoder."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from telemetry.decode.arrow import decode
from telemetry.decode.json import decode as decode_json
from telemetry.encode.arrow import encode
from telemetry.errors import DecodeError
from telemetry.report import ReportBatch, joined
from tests.counterparts.arrow_bodies import stream, table

NAMES = st.sampled_from(["tor1", "tor2", "å", "x" * 256]) | st.text(min_size=1, max_size=4)
TIMES = st.integers(0, 2**63 - 1)
LENGTHS = st.floats(0, 2**53) | st.integers(0, 2**40).map(float)
BAD_NAMES = st.sampled_from(["", "x" * 257])


def fields(**kinds: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(kinds)


def reports(*, bad: bool) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Reports; with ``bad`` each value may break its rule."""

    def one(good: st.SearchStrategy[Any], wrong: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        return st.integers(0, 20).flatmap(lambda draw: wrong if bad and draw == 0 else good)

    negative = st.integers(-(2**63), -1)
    hop = fields(
        switch=one(st.none() | NAMES, BAD_NAMES),
        ingress_port=st.none() | NAMES,
        egress_port=one(st.none() | NAMES, BAD_NAMES),
        queue=one(st.none() | st.integers(0, 2**31 - 1), negative | st.just(2**31)),
        queue_bytes=one(st.none() | LENGTHS, st.just(-1.0)),
        ingress_ts_ns=one(st.none() | TIMES, negative),
        egress_ts_ns=st.none() | TIMES,
        ecn_marked=st.none() | st.booleans(),
    )
    flow = fields(
        src=one(NAMES, BAD_NAMES | st.none()),
        dst=NAMES,
        sport=one(st.integers(0, 65_535), st.just(65_536)),
        dport=st.integers(0, 65_535),
        protocol=one(st.integers(0, 255), st.just(256)),
    )
    report = fields(
        ts_ns=one(TIMES, negative | st.none()),
        flow=flow,
        packet_bytes=one(st.integers(1, 2**31 - 1), st.just(0)),
        sampling_rate=one(st.floats(1e-9, 1), st.sampled_from([0.0, 5e-324, 1.5])),
        hops=one(st.lists(hop, min_size=1, max_size=3), st.just([]) | st.none()),
    )
    return st.lists(report, max_size=6)


def by_json(given: list[dict[str, Any]]) -> tuple[ReportBatch, list[int]]:
    decoded = decode_json(json.dumps(given).encode())
    return decoded.batch, [problem.index for problem in decoded.errors]


def assert_same(one: ReportBatch, other: ReportBatch, *, index: bool = True) -> None:
    assert one.flow_keys == other.flow_keys
    assert one.sites == other.sites
    columns = [name for name in ReportBatch.__slots__ if isinstance(getattr(one, name), np.ndarray)]
    for name in columns:
        if index or name != "index":
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
            assert getattr(one, name).dtype == getattr(other, name).dtype


@given(reports(bad=True), st.integers(1, 4), st.booleans(), st.booleans())
def test_arrow_tells_what_json_does(
    given_reports: list[dict[str, Any]], rows_a_batch: int, large: bool, by_dictionary: bool
) -> None:
    name = pa.dictionary(pa.int8(), pa.string()) if by_dictionary else pa.string()
    body = stream(
        table(
            given_reports,
            columns={"src": name, "dst": name},
            hop={"switch": name, "egress_port": name},
            large=large,
        ),
        rows_a_batch=rows_a_batch,
    )
    expected, wrong = by_json(given_reports)
    found = decode(body)
    assert [problem.index for problem in found.errors] == wrong
    assert_same(found.batch, expected)


@given(reports(bad=False))
def test_what_is_written_is_what_is_read(given_reports: list[dict[str, Any]]) -> None:
    batch, _ = by_json(given_reports)
    assert_same(decode(encode(batch)).batch, batch)


@given(reports(bad=False), reports(bad=False))
def test_batches_joined_are_the_reports_of_both(
    first: list[dict[str, Any]], second: list[dict[str, Any]]
) -> None:
    together, _ = by_json(first + second)
    assert_same(joined([by_json(first)[0], by_json(second)[0]]), together, index=False)


@given(reports(bad=False), st.data())
def test_damaged_streams_are_refused_or_read(
    given_reports: list[dict[str, Any]], data: st.DataObject
) -> None:
    compression = data.draw(st.sampled_from([None, "lz4", "zstd"]))
    name = pa.dictionary(pa.int32(), pa.string())
    body = bytearray(stream(table(given_reports, columns={"src": name}), compression=compression))
    for _ in range(data.draw(st.integers(1, 6))):
        place = data.draw(st.integers(0, len(body) - 1))
        body[place] = data.draw(st.integers(0, 255))
    whole = bytes(body[: data.draw(st.just(len(body)) | st.integers(0, len(body)))])
    try:
        found = decode(whole, max_body_bytes=1 << 20)
    except DecodeError:
        return
    batch = found.batch
    assert len(batch) + len(found.errors) <= len(whole)
    assert (batch.packet_bytes > 0).all()
    assert ((batch.sampling_rate > 0) & (batch.sampling_rate <= 1)).all()
    assert (batch.hop_count >= 1).all()
    for column, keys in ((batch.flow, batch.flow_keys), (batch.hop_site, batch.sites)):
        assert ((column >= 0) & (column < max(len(keys), 1))).all()


@given(st.binary(max_size=300))
def test_bytes_never_break_it(body: bytes) -> None:
    for given_bytes in (body, b"\xff\xff\xff\xff" + body):
        with contextlib.suppress(DecodeError):
            assert len(decode(given_bytes, max_body_bytes=1 << 20).batch) == 0
