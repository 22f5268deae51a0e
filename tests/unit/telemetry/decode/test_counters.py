"""Counters in JSON: every form of body, numbers as text, bad samples by index."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from telemetry.counters.model import MOST, Counters, SeriesKey
from telemetry.decode.counters import decode_counters
from telemetry.errors import DecodeError

GOOD: dict[str, Any] = {"switch": "leaf1", "port": "Ethernet0", "queue": 3, "ts_ns": 7, "tx_bytes": 5}
TEXT = json.dumps(GOOD).encode()


def test_every_field_comes_back() -> None:
    counts = {name: 10 + place for place, name in enumerate(Counters._fields)}
    (sample,) = decode_counters(json.dumps(GOOD | counts).encode()).samples
    assert sample.key == SeriesKey("leaf1", "Ethernet0", 3)
    assert sample.ts_ns == 7
    assert sample.counters._asdict() == counts


@pytest.mark.parametrize(
    "body", [TEXT, b"[" + TEXT + b"]", TEXT + b"\n", json.dumps(GOOD, indent=2).encode()]
)
@pytest.mark.parametrize("packed", [False, True])
def test_every_shape_of_body(body: bytes, packed: bool) -> None:
    decoded = decode_counters(gzip.compress(body) if packed else body)
    assert [sample.counters for sample in decoded.samples] == [Counters(tx_bytes=5)]
    assert (decoded.positions, decoded.errors) == ((0,), ())


def test_counts_may_be_text_and_absent_or_null_is_not_given() -> None:
    body = {
        "switch": "a",
        "port": "1",
        "ts_ns": 1,
        "tx_bytes": str(MOST),
        "dropped_packets": None,
        "cnp_packets": "007",
    }
    (sample,) = decode_counters(json.dumps(body).encode()).samples
    assert sample.key.queue is None
    assert sample.counters == Counters(tx_bytes=MOST, cnp_packets=7)


@pytest.mark.parametrize(
    ("changes", "field", "received"),
    [
        ({"switch": ""}, "switch", "''"),
        ({"port": None}, "port", "null"),
        ({"port": "x" * 257}, "port", "'xxx"),
        ({"queue": -1}, "queue", "-1"),
        ({"queue": "3"}, "queue", "'3'"),
        ({"ts_ns": "7"}, "ts_ns", "'7'"),
        ({"ts_ns": 2**63}, "ts_ns", str(2**63)),
        ({"tx_bytes": -1}, "tx_bytes", "-1"),
        ({"tx_bytes": "-1"}, "tx_bytes", "'-1'"),
        ({"tx_bytes": 1.5}, "tx_bytes", "1.5"),
        ({"tx_bytes": True}, "tx_bytes", "true"),
        ({"tx_bytes": "1\n"}, "tx_bytes", "'1\\n'"),
        ({"tx_bytes": "٣"}, "tx_bytes", "'٣'"),
        ({"tx_bytes": 2**63}, "tx_bytes", str(2**63)),
        ({"tx_bytes": str(2**63)}, "tx_bytes", str(2**63)),
        ({"tx_bytes": None}, "counters", "none"),
    ],
)
@pytest.mark.parametrize("form", ["array", "ndjson"])
def test_a_bad_sample_is_named_and_the_others_kept(
    changes: dict[str, Any], field: str, received: str, form: str
) -> None:
    texts = [TEXT, json.dumps(GOOD | changes).encode(), TEXT]
    decoded = decode_counters(b"[" + b",".join(texts) + b"]" if form == "array" else b"\n".join(texts))
    assert decoded.positions == (0, 2)
    (problem,) = decoded.errors
    assert problem.index == 1
    where, said = problem.detail.split(": received ")
    assert where.startswith("sample 1")
    assert where.endswith(field)
    assert said.startswith(received)
    assert said.endswith("this sample was left out")


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"queue": 2**31}, "queue is a whole number from 0 to 2147483647, or null for the port as a whole"),
        ({"ts_ns": 2**63}, "ts_ns is a whole number of nanoseconds from 0 to 9223372036854775807"),
    ],
)
def test_a_rule_has_the_bound_that_the_value_breaks(changes: dict[str, Any], rule: str) -> None:
    (problem,) = decode_counters(json.dumps(GOOD | changes).encode()).errors
    assert f"; {rule}; " in problem.detail


@pytest.mark.parametrize("missing", ["switch", "port", "ts_ns"])
def test_whose_and_when_must_be_said(missing: str) -> None:
    lacking = {name: value for name, value in GOOD.items() if name != missing}
    (problem,) = decode_counters(json.dumps([lacking]).encode()).errors
    assert f"sample 0 {missing}: {missing} is a" in problem.detail
    assert ", and is missing; correct the exporter" in problem.detail


@pytest.mark.parametrize("body", [b"", b" \n", b"42", b"hello", b"[", b"\x1f\x8bbroken"])
def test_a_body_without_samples_is_a_decode_error(body: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_counters(body)


def test_a_body_over_the_limit_is_refused() -> None:
    with pytest.raises(DecodeError, match="at most 10 bytes"):
        decode_counters(TEXT, max_body_bytes=10)
