"""JSON bodies in every accepted form; bad reports do not affect good ones."""

from __future__ import annotations

import gzip
import json
import zlib
from typing import Any

import numpy as np
import pytest

from telemetry.decode import records
from telemetry.decode.json import decode
from telemetry.decode.pieces import BLOCK_BYTES
from telemetry.errors import DecodeError
from telemetry.report import MARK_UNKNOWN, MISSING_NS

GOOD: dict[str, Any] = {
    "ts_ns": 1_767_225_600_000_000_000,
    "flow": {"src": "10.0.0.1", "dst": "10.0.0.2", "sport": 10_000, "dport": 4791, "protocol": 17},
    "packet_bytes": 1048,
    "sampling_rate": 0.25,
    "hops": [
        {"switch": "a", "ingress_port": "1", "egress_port": "2", "queue": 3, "queue_bytes": 7.5},
        {"switch": "b", "ingress_port": "1", "egress_port": "2", "queue": 0, "ecn_marked": True},
    ],
}
TEXT = json.dumps(GOOD).encode()
SECOND = json.dumps(GOOD | {"ts_ns": GOOD["ts_ns"] + 1}).encode()


@pytest.mark.parametrize(
    ("body", "length"),
    [
        (TEXT, 1),
        (json.dumps(GOOD, indent=2).encode(), 1),
        (b"[" + TEXT + b"," + SECOND + b"]", 2),
        (b"  \n[" + TEXT + b"]\n", 1),
        (TEXT + b"\n" + SECOND + b"\n", 2),
        (TEXT + b"\r\n\r\n" + SECOND, 2),
        (b"\xef\xbb\xbf" + TEXT, 1),
        (b"[]", 0),
    ],
    ids=["object", "pretty object", "array", "padded array", "ndjson", "ndjson crlf", "bom", "empty array"],
)
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_every_form_of_body_decodes(body: bytes, length: int, pack: Any) -> None:
    decoded = decode(pack(body))
    assert decoded.errors == ()
    assert len(decoded.batch) == length


@pytest.mark.parametrize(
    "body", [b"%s", b"%s\n" + TEXT, b" [ %s," + TEXT + b"]"], ids=["one", "lines", "array"]
)
@pytest.mark.parametrize(
    ("changes", "unread"),
    [
        ({}, ()),
        (
            {"hops": [{"switch": "a", "queue_byte": 7}, {"queue_byte": 8, "ecn": 1}]},
            ("hops[].queue_byte", "hops[].ecn"),
        ),
        ({"flow": GOOD["flow"] | {"vlan": 3}, "vendor": {"hops": 1}}, ("vendor", "flow.vlan")),
        ({"queue_bytes": 7}, ("queue_bytes",)),  # it belongs to a hop
        ({"hops": 3}, ()),
        ({f"extra{n}": n for n in range(99)}, tuple(f"extra{n}" for n in range(10))),
        ({"e" * 99: 1}, ("e" * 59 + "\u2026",)),
    ],
    ids=["none", "of hops", "of the flow and beside it", "of another place", "no hops", "many", "long"],
)
def test_keys_that_no_report_has_are_told(
    body: bytes, changes: dict[str, Any], unread: tuple[str, ...]
) -> None:
    assert decode(body.replace(b"%s", json.dumps(GOOD | changes).encode())).unread == unread


def test_a_first_report_that_does_not_parse_tells_no_keys() -> None:
    decoded = decode(b'{"queue_byte": \n' + TEXT)
    assert (decoded.unread, len(decoded.errors), len(decoded.batch)) == ((), 1, 1)


def test_a_key_that_is_no_unicode_is_told_as_far_as_it_is() -> None:
    decoded = decode(b'{"\\ud800x": 1}\n' + TEXT)
    assert (decoded.unread, len(decoded.errors), len(decoded.batch)) == (("?x",), 1, 1)


def test_addresses_of_ipv6_are_as_in_binary_reports_however_spelt() -> None:
    ends = [("2001:DB8:0:0::1", "fe80::1%eth0"), ("2001:0db8::1", "fe80::1%eth0")]
    flows = [GOOD["flow"] | {"src": src, "dst": dst} for src, dst in ends]
    batch = decode(json.dumps([GOOD | {"flow": flow} for flow in flows]).encode()).batch
    assert [(key.src, key.dst) for key in batch.flow_keys] == [("2001:db8::1", "fe80::1%eth0")]


@pytest.mark.parametrize("spelt", ["::ffff:10.0.0.1", "0:0:0:0:0:FFFF:0a00:0001"])
def test_ipv4_written_as_ipv6_is_the_ipv4_host(spelt: str) -> None:
    (flow,) = decode(json.dumps(GOOD | {"flow": GOOD["flow"] | {"src": spelt}}).encode()).batch.flow_keys
    assert flow.src == "10.0.0.1"


def test_columns_hold_what_was_sent_and_say_what_was_not() -> None:
    batch = decode(TEXT).batch
    assert batch.flow_keys[batch.flow[0]] == ("10.0.0.1", "10.0.0.2", 10_000, 4791, 17)
    assert batch.packet_bytes[0] == 1048
    assert batch.sampling_rate[0] == 0.25
    assert batch.hop_offset.tolist() == [0, 2]
    assert [batch.sites[site].switch for site in batch.hop_site] == ["a", "b"]
    assert batch.queue_bytes[0] == 7.5
    assert np.isnan(batch.queue_bytes[1])
    assert batch.ingress_ns.tolist() == [MISSING_NS, MISSING_NS]
    assert batch.marked.tolist() == [MARK_UNKNOWN, 1]


def test_null_and_absent_hop_values_are_the_same() -> None:
    absent = decode(json.dumps(GOOD | {"hops": [{}]}).encode())
    nulls = dict.fromkeys(
        (
            *("switch", "ingress_port", "egress_port", "queue", "queue_bytes"),
            *("ingress_ts_ns", "egress_ts_ns", "ecn_marked"),
        )
    )
    null = decode(json.dumps(GOOD | {"hops": [nulls]}).encode())
    assert absent.errors == null.errors == ()
    assert absent.batch.sites == null.batch.sites == ((None, None, None, None),)


def test_one_flow_spelled_two_ways_is_one_flow() -> None:
    spaced = TEXT.replace(b'"src": ', b'"src" :  ')
    batch = decode(TEXT + b"\n" + spaced).batch
    assert len(batch.flow_keys) == 1
    assert batch.flow.tolist() == [0, 0]


def _without(key: str) -> dict[str, Any]:
    return {k: v for k, v in GOOD.items() if k != key}


def _hop(**changes: Any) -> dict[str, Any]:
    return GOOD | {"hops": [GOOD["hops"][0] | changes]}


def _flow(**changes: Any) -> dict[str, Any]:
    return GOOD | {"flow": GOOD["flow"] | changes}


@pytest.mark.parametrize(
    ("bad", "field", "received"),
    [
        (_without("ts_ns"), "ts_ns", None),
        (_without("flow"), "flow", None),
        (_without("hops"), "hops", None),
        (GOOD | {"ts_ns": -1}, "ts_ns", "-1"),
        (GOOD | {"ts_ns": 1.5}, "ts_ns", "1.5"),
        (GOOD | {"ts_ns": 2**70}, "ts_ns", str(2**70)),
        (GOOD | {"packet_bytes": 0}, "packet_bytes", "0"),
        (GOOD | {"packet_bytes": -3}, "packet_bytes", "-3"),
        (GOOD | {"packet_bytes": "big"}, "packet_bytes", "'big'"),
        (GOOD | {"sampling_rate": 0}, "sampling_rate", "0"),
        (GOOD | {"sampling_rate": 1e-320}, "sampling_rate", "1e-320"),
        (GOOD | {"sampling_rate": 1.5}, "sampling_rate", "1.5"),
        (GOOD | {"sampling_rate": None}, "sampling_rate", "null"),
        (GOOD | {"hops": []}, "hops", "an empty array"),
        (GOOD | {"hops": None}, "hops", "null"),
        (GOOD | {"hops": [{}] * 65}, "hops", "an array of 65"),
        (_hop(queue_bytes=-1), "hops[0].queue_bytes", "-1"),
        (_hop(queue=1.5), "hops[0].queue", "1.5"),
        (_hop(switch=""), "hops[0].switch", "''"),
        (_hop(ecn_marked=1), "hops[0].ecn_marked", "1"),
        (_flow(src=None), "flow src", "null"),
        (_flow(dport=65_536), "flow dport", "65536"),
        (_flow(protocol=True), "flow protocol", "true"),
        (GOOD | {"flow": "f"}, "flow", "'f'"),
        ([], "report 1", "an empty array"),
        (17, "report 1", "17"),
    ],
)
@pytest.mark.parametrize("form", ["array", "ndjson"])
def test_a_bad_report_is_named_and_the_others_kept(
    bad: Any, field: str, received: str | None, form: str
) -> None:
    texts = [TEXT, json.dumps(bad).encode(), SECOND]
    body = b"[" + b",".join(texts) + b"]" if form == "array" else b"\n".join(texts)
    decoded = decode(body)
    assert decoded.batch.index.tolist() == [0, 2]
    (problem,) = decoded.errors
    assert problem.index == 1
    where, said = problem.detail.split(": " if received is None else ": received ")
    assert where.startswith("report 1")
    assert field in where
    assert received is None or said.startswith(f"{received}; ")
    assert said.count("; ") >= 2


@pytest.mark.parametrize(
    ("bad", "rule"),
    [
        (_hop(queue=2**32 - 1), "queue is a whole number from 0 to 2147483647, or null"),
        (_hop(queue_bytes=1e308), "queue_bytes is a number of bytes from 0 to 9007199254740992, or null"),
        (_hop(egress_ts_ns=2**63), "egress_ts_ns is a whole number of nanoseconds from 0 to 92233"),
        (GOOD | {"ts_ns": 2**63}, "ts_ns is a whole number of nanoseconds from 0 to 9223372036854775807; "),
        (
            GOOD | {"packet_bytes": 999_999_999_999},
            "packet_bytes is a whole number of bytes from 1 to 2147483647",
        ),
        (_flow(src="x" * 257), "src is an address (1 to 256 characters)"),
    ],
)
def test_a_rule_has_the_bound_that_the_value_breaks(bad: Any, rule: str) -> None:
    (problem,) = decode(json.dumps(bad).encode()).errors
    assert f"; {rule}" in problem.detail


def test_nan_is_named_as_such() -> None:
    body = b"[" + TEXT + b"," + TEXT.replace(b"7.5", b"NaN") + b"," + SECOND + b"]"
    decoded = decode(body)
    assert decoded.batch.index.tolist() == [0, 2]
    assert "received NaN; JSON numbers are finite; send null" in decoded.errors[0].detail


def test_a_broken_line_is_named_by_line_and_the_others_kept() -> None:
    decoded = decode(TEXT + b"\n\n" + TEXT[:30] + b"\n" + SECOND)
    assert decoded.batch.index.tolist() == [0, 2]
    assert "report 1 (line 3)" in decoded.errors[0].detail


def test_a_body_of_which_nothing_is_json_is_refused_with_the_first_reason() -> None:
    with pytest.raises(DecodeError, match=r"report 0 \(line 1\): received \{bad \("):
        decode(b"{bad\n{worse")
    assert [problem.index for problem in decode(b'{bad\n{"ts_ns": 1}').errors] == [0, 1]


def test_a_truncated_array_keeps_what_is_whole_and_says_where_it_ends() -> None:
    decoded = decode(b"[" + TEXT + b"," + SECOND + b"," + TEXT[:40])
    assert decoded.batch.index.tolist() == [0, 1]
    (problem,) = decoded.errors
    assert problem.index == 2
    assert problem.detail.startswith("body byte ")


def test_text_after_the_array_and_stray_commas_are_named() -> None:
    decoded = decode(b"[" + TEXT + b",," + SECOND + b"] tail")
    assert decoded.batch.index.tolist() == [0, 2]
    assert [problem.index for problem in decoded.errors] == [1, 3]
    assert "'tail' after the array's end" in decoded.errors[1].detail


def test_text_that_is_not_utf8_costs_one_report() -> None:
    for place in (b"10.0.0.1", b'"a"'):
        decoded = decode(b"[" + TEXT.replace(place, place[:1] + b"\xff" + place[1:]) + b"," + SECOND + b"]")
        assert decoded.batch.index.tolist() == [1]
        assert decoded.errors[0].index == 0


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"  \n ",
        b"42",
        b"null",
        b'"text"',
        b"hello",
        b"[",
        b"[" * 100_000,
        b"[}",
        gzip.compress(b"", mtime=0),
    ],
)
def test_a_body_without_reports_is_a_decode_error(body: bytes) -> None:
    with pytest.raises(DecodeError):
        decode(body)


def test_a_gzip_bomb_is_refused_before_it_unfolds() -> None:
    with pytest.raises(DecodeError, match="more than 1000000 bytes"):
        decode(gzip.compress(b" " * 50_000_000), max_body_bytes=1_000_000)


def test_a_body_over_the_limit_is_refused() -> None:
    with pytest.raises(DecodeError, match="at most 10 bytes"):
        decode(TEXT, max_body_bytes=10)
    assert len(decode(TEXT, max_body_bytes=len(TEXT)).batch) == 1
    assert len(decode(gzip.compress(TEXT), max_body_bytes=len(TEXT)).batch) == 1


def test_damaged_gzip_is_refused() -> None:
    packed = gzip.compress(TEXT * 50)
    for body in (packed[:-20], packed[:4], b"\x1f\x8b" + b"x" * 40):
        with pytest.raises(DecodeError, match="gzip"):
            decode(body)


def test_reports_behind_a_gzip_stream_are_not_left_out_silently() -> None:
    packed = gzip.compress(TEXT)
    with pytest.raises(DecodeError, match="bytes behind a gzip stream that begin with"):
        decode(packed + b"\0\0" + SECOND)
    assert len(decode(packed + b"\0\0").batch) == 1


def test_concatenated_gzip_is_one_body() -> None:
    assert len(decode(gzip.compress(TEXT + b"\n") + gzip.compress(SECOND)).batch) == 2


def test_the_content_encoding_header() -> None:
    assert len(decode(gzip.compress(TEXT), content_encoding="GZIP").batch) == 1
    assert len(decode(TEXT, content_encoding="identity").batch) == 1
    with pytest.raises(DecodeError, match="gzip and identity"):
        decode(TEXT, content_encoding="br")
    with pytest.raises(DecodeError, match="1f8b"):
        decode(TEXT, content_encoding="gzip")


def test_taking_rows_keeps_their_hops() -> None:
    three_hops = json.dumps(GOOD | {"hops": [{"switch": name} for name in "xyz"]}).encode()
    batch = decode(b"[" + TEXT + b"," + three_hops + b"," + SECOND + b"]").batch
    taken = batch.take(np.array([2, 1]))
    assert taken.index.tolist() == [2, 1]
    assert taken.hop_count.tolist() == [2, 3]
    assert [taken.sites[site].switch for site in taken.hop_site] == ["a", "b", "x", "y", "z"]
    assert not taken.ts_ns.flags.writeable
    assert len(batch.take(batch.index == 1)) == 1


FAULTS = 5_000


@pytest.mark.parametrize("body", [b"[" + b"1," * FAULTS + TEXT + b"]", b"{}\n" * FAULTS + TEXT])
def test_a_body_of_faults_takes_no_room_without_end(body: bytes) -> None:
    found = decode(body)
    assert len(found.batch) == 0
    named = records.LEAST_PROBLEMS + len(body) // records.PROBLEM_BYTES
    assert [error.index for error in found.errors] == [*range(named + 1)]
    assert f"another after {named} that cannot be used" in found.errors[-1].detail


def test_lines_without_an_object_end_soon() -> None:
    with pytest.raises(DecodeError, match="one object a line"):
        decode(b"1\n" * FAULTS + TEXT)


def test_faults_do_not_end_a_body_of_reports() -> None:
    found = decode(b"\n".join([b"1", b"{}", TEXT] * 1_500))
    assert found.batch.index.tolist() == [*range(2, 4_500, 3)]
    assert len(found.errors) == 3_000
    assert "line 1): received 1; " in found.errors[0].detail
    assert "only the first 1000 are explained" in found.errors[-1].detail


def test_wrong_flows_are_explained_as_often_in_all_parts_of_a_body_as_other_faults() -> None:
    wrong = TEXT.replace(b'"dport": 4791', b'"dport": 70000')
    body = b"\n".join([wrong] * (2 * records.AT_ONCE_BYTES // len(wrong)))
    details = [error.detail for error in decode(body).errors]
    assert sum("dport is a whole number" in detail for detail in details) == records.MOST_EXPLAINED
    assert "only the first 1000 are explained" in details[-1]


@pytest.mark.parametrize("first", [b"[]", b"[1]", b"[", b'["', b"[{}]", b"[[[", b"]", b"[}", b"[1, 2"])
@pytest.mark.parametrize("times", [1, 20_000])
def test_a_first_line_that_begins_with_a_bracket_costs_itself_alone(first: bytes, times: int) -> None:
    found = decode(b"\n".join([first, *[TEXT, SECOND] * times]))
    assert found.batch.index.tolist() == [*range(1, 2 * times + 1)]
    assert [error.index for error in found.errors] == [0]
    assert "report 0 (line 1)" in found.errors[0].detail


def test_lines_after_an_array_are_read() -> None:
    found = decode(b"[" + TEXT + b"]\n" + SECOND + b"\n17\n" + TEXT)
    assert found.batch.index.tolist() == [0, 2, 4]
    assert [error.index for error in found.errors] == [1, 3]
    assert "after the array's end" in found.errors[0].detail
    assert "report 3 (line 3): received 17" in found.errors[1].detail
    found = decode(b"[" + TEXT + b",\n" + SECOND + b"\n]\n" + TEXT + b"\nbad\n" + TEXT)
    assert found.batch.index.tolist() == [0, 1, 3, 5]
    assert "report 4 (line 5)" in found.errors[1].detail


def test_objects_may_be_spread_over_lines() -> None:
    spread = json.dumps(GOOD, indent=1).encode()
    found = decode(b"\n".join([spread] * 3_000))
    assert len(spread) * 3_000 > BLOCK_BYTES
    assert (len(found.batch), found.errors) == (3_000, ())


def test_no_more_problems_are_told_than_may_be_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "MOST_PROBLEMS", 50)
    for bad in (b"{}", TEXT.replace(b'"protocol": 17', b'"protocol": -1')):
        body = b"\n".join([bad] * 40_000 + [TEXT])
        found = decode(body)
        assert 50 < len(found.errors) < 20_000
        assert len(found.batch) == 0
        assert "another after" in found.errors[-1].detail
        assert found.errors[-1].index == len(found.errors) - 1


def test_what_begins_before_a_break_and_is_whole_is_kept() -> None:
    found = decode(b"[\n" + TEXT + b",\n" + SECOND + b"\n")
    assert found.batch.index.tolist() == [0, 2]
    (problem,) = found.errors
    assert problem.index == 1
    assert "the end of the body inside the array" in problem.detail


def test_a_record_of_megabytes_is_not_decoded() -> None:
    long = TEXT.replace(b'"a"', b'"' + b"a" * records.MOST_RECORD_BYTES + b'"')
    for body in (b"[" + long + b"," + TEXT + b"]", long + b"\n" + TEXT):
        found = decode(body)
        assert found.batch.index.tolist() == [1]
        assert len(found.errors[0].detail) < 300
    assert "bytes; a report takes at most 1048576" in decode(long + b"\n" + TEXT).errors[0].detail


def test_gzip_members_of_nothing_cost_no_more_than_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    fed = 0

    class Counting:
        def __init__(self, bits: int) -> None:
            self._stream = make(bits)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._stream, name)

        def decompress(self, data: bytes, most: int) -> bytes:
            nonlocal fed
            fed += len(data)
            return self._stream.decompress(data, most)

    make = zlib.decompressobj
    monkeypatch.setattr(zlib, "decompressobj", Counting)
    empty = gzip.compress(b"", mtime=0)
    assert len(decode(empty * 2000 + b"\0" * 10 + gzip.compress(TEXT)).batch) == 1
    assert fed < 2000 * 1200
    with pytest.raises(DecodeError, match="gzip members"):
        decode(empty * 70_000)
