"""Random bytes on the port: reports, or problems with a byte's offset, and no other outcome.

``make fuzz`` runs these for ten minutes with other seeds; ECNTWIN_FUZZ_EXAMPLES is the number of inputs per
run.
"""

from __future__ import annotations

import os
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from telemetry.decode.p4.assemble import P4Reports
from telemetry.decode.p4.decoder import P4Decoder
from telemetry.decode.p4.devices import Devices, UnitProfile
from telemetry.decode.p4.packet import IntMarks
from telemetry.decode.p4.postcards import PostcardMerger
from telemetry.report import joined
from telemetry.window.window import Window
from tests.counterparts.p4_reports import PAYLOADS
from tests.oracles.p4_one_by_one import decode_one_by_one
from tests.property.test_decode_p4 import assert_the_same

EXAMPLES = int(os.environ.get("ECNTWIN_FUZZ_EXAMPLES", "200"))
BYTES = Devices(default=UnitProfile())
MARKS = IntMarks(frozenset({5000, 0}), frozenset({0, 26}))
PLACE = re.compile(r"datagram (\d+) byte (\d+): received ")


def decoded(payloads: list[bytes]) -> P4Reports:
    """Decodes, and checks what holds for every input."""
    reports = P4Decoder(BYTES, MARKS).decode(payloads, 1)
    alone = decode_one_by_one(payloads, 1, BYTES, MARKS)
    assert_the_same(reports, alone)
    for problem in reports.problems:
        place = PLACE.match(problem.detail)
        assert place is not None
        assert int(place[1]) == problem.index
        assert int(place[2]) <= len(payloads[problem.index])
    said = {*reports.batch.index.tolist(), *(problem.index for problem in reports.problems)}
    assert said == set(range(len(payloads)))
    # No report is smaller than four bytes: memory is bounded by what came.
    assert 4 * len(reports) <= sum(map(len, payloads))
    assert (reports.batch.packet_bytes > 0).all()
    Window().add(reports.delivered())
    merger = PostcardMerger()
    paths = joined([some for some in (merger.merged(reports, 1), merger.flush()) if len(some)])
    assert paths.packet_bytes.sum() <= reports.delivered().packet_bytes.sum()
    assert paths.hop_count.sum() + merger.counts.surplus == reports.delivered().hop_count.sum()
    Window().add(paths)
    return reports


@settings(max_examples=EXAMPLES)
@given(st.lists(st.binary(max_size=120), max_size=12))
def test_random_bytes(payloads: list[bytes]) -> None:
    decoded(payloads)


@settings(max_examples=EXAMPLES)
@given(st.sampled_from(sorted(PAYLOADS)), st.binary(max_size=100), st.integers(1, 12))
def test_random_bytes_behind_a_sound_header(name: str, tail: bytes, copies: int) -> None:
    for kept in (1, 4, 8, 12, 20, 48):
        decoded([PAYLOADS[name][:kept] + tail] * copies)


@settings(max_examples=EXAMPLES)
@given(
    st.sampled_from(sorted(PAYLOADS)),
    st.lists(st.tuples(st.integers(0, 95), st.integers(0, 255)), min_size=1, max_size=5),
    st.integers(1, 12),
)
def test_vectors_with_changed_bytes(name: str, changes: list[tuple[int, int]], copies: int) -> None:
    changed = bytearray(PAYLOADS[name])
    for place, value in changes:
        changed[place % len(changed)] = value
    decoded([bytes(changed), PAYLOADS[name]] * copies)


@pytest.mark.parametrize("name", sorted(PAYLOADS))
def test_vectors_cut_at_every_length(name: str) -> None:
    payloads = [PAYLOADS[name][:length] for length in range(len(PAYLOADS[name]))]
    reports = decoded(payloads + payloads)
    assert reports.problems


def test_a_datagram_of_nothing_but_the_smallest_reports() -> None:
    payload = PAYLOADS["A"][:8] + b"\x00\x00\x00\x00" * 16_000
    for copies in (1, 3):
        reports = decoded([payload] * copies)
        assert len(reports) == 512 * copies
        assert [problem.index for problem in reports.problems] == list(range(copies))
        assert "more after 512 reports" in reports.problems[0].detail
