"""Arrow streams: accepted types, rejected rows, and hostile streams."""

from __future__ import annotations

import contextlib
import gzip
import json
import struct
import tracemalloc
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from telemetry.decode import arrow as arrow_module
from telemetry.decode.arrow import decode
from telemetry.decode.arrow_stream import MOST_BATCHES
from telemetry.decode.json import decode as decode_json
from telemetry.encode.arrow import encode
from telemetry.errors import DecodeError, OversizeError
from telemetry.report import MARK_UNKNOWN, MISSING_NS, HopSite, ReportBatch, joined
from telemetry.state import FlowKey
from tests.counterparts.arrow_bodies import HOP_TYPES, stream, table

DICTIONARY = pa.dictionary(pa.uint8(), pa.large_string())
HOP = {"switch": "a", "ingress_port": "1", "egress_port": "2", "queue": 3, "queue_bytes": 7.5}
GOOD: dict[str, Any] = {
    "ts_ns": 1_767_225_600_000_000_000,
    "flow": {"src": "10.0.0.1", "dst": "10.0.0.2", "sport": 10_000, "dport": 4791, "protocol": 17},
    "packet_bytes": 1048,
    "sampling_rate": 0.25,
    "hops": [HOP, {"switch": "b", "ingress_ts_ns": 5, "egress_ts_ns": 9, "ecn_marked": True}],
}


def report(**changes: Any) -> dict[str, Any]:
    return GOOD | changes


def by_json(reports: list[dict[str, Any]]) -> ReportBatch:
    decoded = decode_json(json.dumps(reports).encode())
    assert not decoded.errors
    return decoded.batch


def same(one: ReportBatch, other: ReportBatch) -> None:
    for name in ReportBatch.__slots__:
        left, right = getattr(one, name), getattr(other, name)
        if isinstance(left, np.ndarray):
            assert left.dtype == right.dtype, name
            np.testing.assert_array_equal(left, right, err_msg=name)
        else:
            assert left == right, name


REPORTS = [report(), report(ts_ns=1, flow=GOOD["flow"] | {"sport": 1}), report(hops=[HOP]), report(hops=[{}])]


@pytest.mark.parametrize(
    "given",
    [
        table(REPORTS),
        table(REPORTS, large=True),
        table(REPORTS, columns={"src": DICTIONARY, "dst": DICTIONARY}, hop={"switch": DICTIONARY}),
        table(REPORTS, columns={"src": pa.large_string(), "sport": pa.uint16(), "protocol": pa.uint8()}),
        table(REPORTS, columns={"packet_bytes": pa.uint64(), "sampling_rate": pa.float32()}),
        table(REPORTS, hop={"queue": pa.uint8(), "queue_bytes": pa.float32(), "ingress_ts_ns": pa.uint64()}),
        table(REPORTS)
        .append_column("colour", [["red"] * 4])
        .select(["hops", "colour", *table([]).column_names[-2::-1]]),
    ],
    ids=[
        "plain",
        "large list",
        "dictionaries",
        "narrow",
        "wide",
        "narrow hops",
        "other order, unknown column",
    ],
)
def test_every_accepted_shape_decodes_to_what_json_does(given: pa.Table) -> None:
    decoded = decode(stream(given))
    assert decoded.errors == ()
    same(decoded.batch, by_json(REPORTS))


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
@pytest.mark.parametrize("rows_a_batch", [1, 3, None])
def test_batches_and_compression_change_nothing(compression: str | None, rows_a_batch: int | None) -> None:
    given = table(REPORTS, columns={"src": DICTIONARY}, hop={"switch": DICTIONARY})
    body = stream(given, rows_a_batch=rows_a_batch, compression=compression)
    same(decode(body).batch, by_json(REPORTS))
    same(decode(gzip.compress(body), content_encoding="gzip").batch, by_json(REPORTS))


def test_an_empty_stream_holds_no_reports() -> None:
    assert len(decode(stream(table([]))).batch) == 0


def test_values_that_hops_do_not_have_may_be_no_columns_or_null_ones() -> None:
    given = table([report(hops=[{}])])
    hop = pa.struct([("queue", pa.null()), ("switch", pa.null())])
    hops = pa.array([[{"queue": None, "switch": None}]], pa.list_(hop))
    decoded = decode(stream(given.drop_columns("hops").append_column("hops", hops)))
    assert decoded.batch.sites == (HopSite(None, None, None, None),)
    assert np.isnan(decoded.batch.queue_bytes).all()
    assert decoded.batch.marked.tolist() == [MARK_UNKNOWN]
    assert decoded.batch.ingress_ns.tolist() == [MISSING_NS]


def test_addresses_of_ipv6_are_as_in_binary_reports_however_spelt() -> None:
    flows = [GOOD["flow"] | {"dst": dst} for dst in ("2001:DB8:0::1", "2001:0db8::1")]
    batch = decode(stream(table([report(flow=flow) for flow in flows]))).batch
    assert [key.dst for key in batch.flow_keys] == ["2001:db8::1"] * 2
    assert batch.flow_keys.hosts == ("10.0.0.1", "2001:db8::1")


def test_a_dictionary_may_repeat_itself_and_hold_null() -> None:
    src = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 3]), pa.array(["x", "x", None, "y"]))
    given = table([report()] * 4).drop_columns("src").append_column("src", src)
    decoded = decode(stream(given))
    assert [key.src for key in decoded.batch.flow_keys] == ["x", "y"]
    assert decoded.batch.flow.tolist() == [0, 0, 1]
    assert [problem.index for problem in decoded.errors] == [2]


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (report(ts_ns=None), "report 1 ts_ns: received null; ts_ns is a whole number"),
        (report(ts_ns=-1), "report 1 ts_ns: received -1"),
        (report(flow=GOOD["flow"] | {"src": ""}), "report 1 src: received ''; src is an address"),
        (report(flow=GOOD["flow"] | {"dst": None}), "report 1 dst: received null"),
        (report(flow=GOOD["flow"] | {"sport": 65_536}), "report 1 sport: received 65536"),
        (report(flow=GOOD["flow"] | {"protocol": -1}), "report 1 protocol: received -1"),
        (report(packet_bytes=0), "report 1 packet_bytes: received 0"),
        (report(packet_bytes=2**31), "report 1 packet_bytes: received 2147483648"),
        (report(sampling_rate=0.0), "report 1 sampling_rate: received 0.0"),
        (report(sampling_rate=1e-320), "report 1 sampling_rate: received 1e-320"),
        (report(sampling_rate=float("nan")), "report 1 sampling_rate: received nan"),
        (report(sampling_rate=1.01), "report 1 sampling_rate: received 1.01"),
        (report(hops=None), "report 1 hops: received null; hops is an array of 1 to 64"),
        (report(hops=[]), "report 1 hops: received an empty array"),
        (report(hops=[HOP] * 65), "report 1 hops: received an array of 65"),
        (report(hops=[HOP, None]), "report 1 hops[1]: received null"),
        (report(hops=[HOP, {"switch": ""}]), "report 1 hops[1].switch: received ''; switch is a name"),
        (report(hops=[{"switch": "x" * 257}]), "report 1 hops[0].switch: received 'xxxx"),
        (report(hops=[{"queue": -1}]), "report 1 hops[0].queue: received -1"),
        (report(hops=[{"queue_bytes": -0.5}]), "report 1 hops[0].queue_bytes: received -0.5"),
        (report(hops=[{"queue_bytes": float("inf")}]), "report 1 hops[0].queue_bytes: received inf"),
        (report(hops=[{"egress_ts_ns": -7}]), "report 1 hops[0].egress_ts_ns: received -7"),
    ],
    ids=lambda given: given.split(":")[0][9:] if isinstance(given, str) else "",
)
def test_a_bad_row_is_left_out_and_named_and_the_others_are_kept(bad: dict[str, Any], said: str) -> None:
    decoded = decode(stream(table([REPORTS[0], bad, REPORTS[2]])))
    assert [problem.index for problem in decoded.errors] == [1]
    assert decoded.errors[0].detail.startswith(said)
    assert decoded.errors[0].detail.endswith("this report was left out")
    assert decoded.batch.index.tolist() == [0, 2]
    assert decoded.batch.hop_count.tolist() == [2, 1]
    same(decoded.batch.take(np.array([0])), by_json(REPORTS[:1]).take(np.array([0])))


def test_rows_are_numbered_through_all_batches() -> None:
    body = stream(table([report(), report(ts_ns=-1)] * 3), rows_a_batch=2)
    decoded = decode(body)
    assert [problem.index for problem in decoded.errors] == [1, 3, 5]
    assert decoded.batch.index.tolist() == [0, 2, 4]


def test_a_null_list_with_elements_behind_it_is_left_out_with_them() -> None:
    hops = table([report(hops=[{"switch": "a"}]), report(hops=[{"switch": ""}])]).column("hops").chunk(0)
    hidden = pa.ListArray.from_arrays(
        pa.array([0, 1, 2], pa.int32()), hops.values, mask=pa.array([False, True])
    )
    given = table([report(), report()]).drop_columns("hops").append_column("hops", hidden)
    decoded = decode(stream(given))
    assert [problem.index for problem in decoded.errors] == [1]
    assert decoded.batch.sites == (HopSite("a", None, None, None),)


@pytest.mark.parametrize(
    ("given", "where"),
    [
        (table(REPORTS).drop_columns("ts_ns"), "schema ts_ns: received no such columns"),
        (table(REPORTS, columns={"sport": pa.float64()}), "schema sport: received type double"),
        (table(REPORTS, columns={"src": pa.binary()}), "schema src: received type binary"),
        (table(REPORTS, hop={"switch": pa.string_view()}), "hops.switch: received type string_view"),
        (table([], hop={"ecn_marked": pa.int8()}), "schema hops.ecn_marked: received type int8"),
        (
            table(REPORTS).drop_columns("hops").append_column("hops", [[1] * 4]),
            "schema hops: received type int64",
        ),
        (table(REPORTS).append_column("src", [["x"] * 4]), "schema src: received 2 such columns"),
    ],
    ids=["missing", "float port", "binary", "views", "mark as number", "hops no list", "twice"],
)
def test_another_schema_is_no_stream_of_reports(given: pa.Table, where: str) -> None:
    with pytest.raises(DecodeError, match=where):
        decode(stream(given))


@pytest.mark.parametrize("body", [b"", b"{}", b"ARROW1\0\0", bytes(64), b"\xff" * 64])
def test_what_is_no_stream_is_refused(body: bytes) -> None:
    with pytest.raises(DecodeError, match="a broken or partial Arrow IPC stream"):
        decode(body)


def test_names_that_are_no_text_are_those_of_other_columns() -> None:
    body = stream(table([report()]))
    batch = decode(body.replace(b"ecn_marked", b"\x80cn_marked")).batch
    assert batch.marked.tolist() == [MARK_UNKNOWN] * 2
    assert len(decode(body).batch) == len(batch) == 1
    with pytest.raises(DecodeError, match="packet_bytes"):
        decode(body.replace(b"packet_bytes", b"\x80acket_bytes"))


def test_a_stream_cut_anywhere_is_refused_or_holds_whole_batches() -> None:
    body = stream(table(REPORTS), rows_a_batch=2)
    for length in range(len(body)):
        with contextlib.suppress(DecodeError):
            assert len(decode(body[:length]).batch) in (0, 2, 4)


def test_an_index_outside_its_dictionary_is_refused() -> None:
    src = pa.DictionaryArray.from_arrays(pa.array([0, 100], pa.int32()), pa.array(["x"]), safe=False)
    given = table([report(), report()]).drop_columns("src").append_column("src", src)
    with pytest.raises(DecodeError, match="a broken or partial Arrow IPC stream"):
        decode(stream(given))


@pytest.mark.parametrize("offsets", [(0, -5, 5), (0, 6, 5), (0, 3, 1_000_000), (-3, 3, 5)])
def test_offsets_that_lead_astray_are_refused(offsets: tuple[int, int, int]) -> None:
    body = stream(table([report(hops=[HOP] * 3), report(hops=[HOP] * 2)]))
    sound = struct.pack("<3i", 0, 3, 5)
    assert body.count(sound) == 1
    with pytest.raises(DecodeError, match="a broken or partial Arrow IPC stream"):
        decode(body.replace(sound, struct.pack("<3i", *offsets)))


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_what_would_unpack_to_more_than_is_allowed_is_refused_before_it_does(compression: str) -> None:
    body = stream(table([report()] * 20_000), compression=compression)
    assert len(body) < 1_000_000
    with pytest.raises(OversizeError, match="at most 1000000 bytes unpacked"):
        decode(body, max_body_bytes=1_000_000)


def test_a_claim_of_endless_unpacked_bytes_is_refused() -> None:
    body = stream(table([report()] * 1000), compression="zstd")
    # Buffers that are compressed begin with their unpacked size; that of ts_ns is the only one of 8000.
    assert body.count(struct.pack("<q", 8000)) >= 1
    with pytest.raises(OversizeError):
        decode(body.replace(struct.pack("<q", 8000), struct.pack("<q", 2**60)))


def test_columns_of_nulls_alone_cost_memory_too() -> None:
    nothing = pa.nulls(2_000_000, pa.null())
    hops = pa.ListArray.from_arrays(
        pa.array([0, 2_000_000], pa.int32()), pa.StructArray.from_arrays([nothing], ["queue"])
    )
    given = table([report()]).drop_columns("hops").append_column("hops", hops)
    with pytest.raises(OversizeError, match="bytes decoded"):
        decode(stream(given), max_body_bytes=1 << 20)


def test_a_dictionary_sent_once_and_used_by_many_batches_is_counted_by_use() -> None:
    src = pa.DictionaryArray.from_arrays(pa.array([0] * 1000), pa.array([f"host-{i}" for i in range(9000)]))
    given = table([report()] * 1000).drop_columns("src").append_column("src", src)
    body = stream(given, rows_a_batch=2)
    assert len(body) < 2_000_000
    with pytest.raises(OversizeError, match="fewer and larger record batches"):
        decode(body, max_body_bytes=4_000_000)


def test_a_stream_of_countless_batches_is_refused() -> None:
    body = stream(table([report()] * (MOST_BATCHES + 1)), rows_a_batch=1)
    with pytest.raises(OversizeError, match="write larger batches"):
        decode(body)


def test_encoding_leaves_out_keys_that_no_report_uses() -> None:
    batch = by_json(REPORTS).take(np.array([1]))
    decoded = decode(encode(batch))
    assert decoded.batch.flow_keys == (FlowKey("10.0.0.1", "10.0.0.2", 1, 4791, 17),)
    assert len(decoded.batch.sites) == 2


def test_no_reports_are_written_and_read_too() -> None:
    assert len(decode(encode(ReportBatch.empty())).batch) == 0
    assert len(joined([])) == 0


LONG_NAME = "x" * 2_000_000


def test_a_long_text_that_every_row_has_is_told_in_short() -> None:
    """A dictionary holds it once: copied for each row the sentences would take as much again, row by row."""
    given = table([report(flow=GOOD["flow"] | {"src": LONG_NAME})] * 500, columns={"src": DICTIONARY})
    tracemalloc.start()
    found = decode(stream(given))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(found.errors) == 500
    assert found.errors[0].detail.startswith("report 0 src: received 'xxx")
    assert peak < 3 * len(LONG_NAME)


def test_after_many_problems_the_rest_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_module, "MOST_PROBLEMS", 3)
    bad = report(flow=GOOD["flow"] | {"protocol": 999})
    reports = [bad, report(), bad, report(hops=[{"queue": -1}]), report(), bad, report()]
    for rows_a_batch in (1, 7):
        found = decode(
            stream(table([*reports, *[bad] * 5000]), rows_a_batch=rows_a_batch if rows_a_batch > 1 else 5)
        )
        assert found.batch.index.tolist() == [1, 4]
        assert [problem.index for problem in found.errors] == [0, 2, 3, 5]
        assert "were not read" in found.errors[-1].detail


def test_small_batches_are_decoded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    begin = arrow_module._Rows.__init__
    monkeypatch.setattr(
        arrow_module._Rows,
        "__init__",
        lambda rows, records, first: made.append(records.num_rows) or begin(rows, records, first),
    )
    reports = [report(ts_ns=number, flow=GOOD["flow"] | {"src": f"h{number}"}) for number in range(500)]
    given = table(reports, columns={"src": pa.dictionary(pa.int32(), pa.string())})
    same(decode(stream(given, rows_a_batch=1)).batch, by_json(reports))
    assert made == [500]


def of_own_dictionaries(count: int, texts: int) -> bytes:
    """A stream of batches of one row, each with a dictionary of its own, whose indices are of 8 bits."""
    sink, writer = pa.BufferOutputStream(), None
    for number in range(count):
        records = table([report()], columns={"src": pa.string()}).to_batches()[0]
        names = pa.array([f"{number}-{text}" for text in range(texts)])
        src = pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), names)
        records = records.set_column(1, "src", src)
        writer = writer or pa.ipc.new_stream(sink, records.schema)
        writer.write_batch(records)
    writer.close()
    written: bytes = sink.getvalue().to_pybytes()
    return written


def test_small_batches_that_cannot_be_joined() -> None:
    assert len(decode(of_own_dictionaries(60, 100)).batch) == 60
    with pytest.raises(OversizeError, match="65 small record batches that cannot be joined"):
        decode(of_own_dictionaries(65, 100))


def test_a_dictionary_that_is_used_for_next_to_nothing_again_and_again() -> None:
    reports = [report(flow=GOOD["flow"] | {"src": f"host {number}"}) for number in range(20_000)]
    given = table(reports, columns={"src": pa.dictionary(pa.int32(), pa.string())})
    few = given.slice(0, 200)  # with the dictionary of all
    with pytest.raises(OversizeError, match="counted once per batch, are at most 32 MiB larger"):
        decode(stream(few, rows_a_batch=1))
    assert len(decode(stream(few, rows_a_batch=20)).batch) == 200


def test_views_are_not_taken_even_where_they_are_not_read() -> None:
    views = pa.struct([*HOP_TYPES.items(), ("note", pa.list_(pa.string_view()))])
    given = table([report()])
    with pytest.raises(DecodeError, match="hops has no views"):
        decode(stream(given.set_column(8, "hops", given["hops"].cast(pa.list_(views)))))
