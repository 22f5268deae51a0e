"""Random binary bodies: a decode error or an answer, and good reports are never lost."""

from __future__ import annotations

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from service.ingest import formats
from service.ingest.formats import decode_body
from service.ingest.p4_reports import BinaryReports
from service.metrics import BinaryMetrics
from settings.telemetry import IntSettings
from telemetry.decode.body import Decoded
from telemetry.decode.capture import is_capture
from telemetry.decode.p4.devices import Devices
from telemetry.errors import DecodeError, OversizeError
from tests.counterparts.captures import pcap, pcapng, udp
from tests.counterparts.p4_reports import PAYLOADS

MAGICS = (
    b"\x1f\x8b",
    b"\x0a\x0d\x0d\x0a",
    b"\xd4\xc3\xb2\xa1",
    b"\xa1\xb2\xc3\xd4",
    b"\x4d\x3c\xb2\xa1",
    b"\xa1\xb2\x3c\x4d",
)
GOOD = st.sampled_from(sorted(PAYLOADS.values()))


def decoded(body: bytes, *, merge: bool = False) -> Decoded:
    settings = IntSettings(merge_postcards_s=0.02 if merge else None)
    reports = BinaryReports(settings, Devices(), metrics=BinaryMetrics(CollectorRegistry()))
    return decode_body(
        reports, body, content_encoding=None, max_body_bytes=1 << 20, wall_ns=lambda: 1_700_000_000 * 10**9
    )


def alone(payload: bytes) -> tuple[int, int]:
    """Number of reports and errors of a single payload."""
    reports = BinaryReports(IntSettings(), Devices(), metrics=BinaryMetrics(CollectorRegistry()))
    found = reports.decode([payload], 0)
    return len(found.batch) + found.aside, len(found.errors)


@given(st.binary(max_size=200) | st.tuples(st.sampled_from(MAGICS), st.binary(max_size=200)).map(b"".join))
def test_anything_is_an_answer_or_a_decode_error(body: bytes) -> None:
    try:
        found = decoded(body)
    except DecodeError:
        return
    assert len(found.batch) + found.aside + len(found.errors) > 0


@pytest.mark.parametrize("magic", MAGICS)
def test_no_payload_of_reports_begins_as_a_file_does(magic: bytes) -> None:
    """A payload with these first bytes holds no report, whatever follows."""
    for rest in (bytes(60), b"\xff" * 60, *PAYLOADS.values()):
        reports, errors = alone(magic + rest[len(magic) :])
        assert (reports, errors) == (0, 1)


@given(st.lists(GOOD | st.binary(max_size=80), min_size=1, max_size=8), st.booleans(), st.booleans())
def test_a_bad_payload_of_a_capture_costs_itself_alone(
    payloads: list[bytes], newer: bool, packed: bool
) -> None:
    body = (pcapng if newer else pcap)([udp(payload) for payload in payloads])
    found = decoded(gzip.compress(body) if packed else body)
    each = [alone(payload) for payload in payloads]
    assert len(found.batch) + found.aside == sum(reports for reports, _ in each)
    assert {problem.index for problem in found.errors} == {
        frame for frame, (_, errors) in enumerate(each) if errors
    }


@given(st.lists(GOOD, min_size=1, max_size=8), st.binary(max_size=40))
def test_what_comes_before_the_damage_of_a_capture_is_kept(payloads: list[bytes], junk: bytes) -> None:
    found = decoded(pcap([udp(payload) for payload in payloads]) + b"\xff" * 16 + junk)
    assert len(found.batch) + found.aside == sum(alone(payload)[0] for payload in payloads)


@given(st.lists(GOOD | st.binary(max_size=80), min_size=1, max_size=8))
def test_merging_loses_no_report(payloads: list[bytes]) -> None:
    plain, merged = (
        decoded(pcap([udp(payload) for payload in payloads]), merge=merge) for merge in (False, True)
    )
    assert len(merged.batch) + merged.aside == len(plain.batch) + plain.aside
    assert merged.errors == plain.errors


@given(GOOD)
def test_a_payload_is_never_taken_for_a_capture(payload: bytes) -> None:
    assert not is_capture(payload)
    assert len(decoded(payload).batch) + decoded(payload).aside == alone(payload)[0]


@pytest.mark.parametrize(("name", "most"), [("MOST_DATAGRAMS", 3), ("MOST_PAYLOAD_BYTES", 200)])
def test_a_capture_of_more_than_can_be_held_decoded_is_refused(
    name: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, name, most)
    sent = [udp(PAYLOADS["B"])] * 4
    assert len(decoded(pcap(sent[:3])).batch) == 3
    with pytest.raises(OversizeError, match=f"at most .*{most} .*editcap"):
        decoded(pcap(sent))
