"""HPCC headers: written values are read back in the units and widths of the wire."""

from __future__ import annotations

import contextlib
import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from telemetry.decode.hpcc import HpccHops, decode
from telemetry.errors import DecodeError
from tests.counterparts.hpcc_headers import LINE_RATES_GBPS, HpccHop, hpcc_header

HOPS = st.lists(
    st.builds(
        HpccHop,
        st.sampled_from(LINE_RATES_GBPS),
        st.integers(0, 2**63),
        st.integers(0, 2**63),
        st.integers(0, 2**40),
    ),
    max_size=9,
)


@given(st.lists(HOPS, max_size=5), st.integers(1, 64))
def test_what_is_written_is_what_is_read(headers: list[list[HpccHop]], multi: int) -> None:
    read = HpccHops.read(b"".join(hpcc_header(hops, multi=multi) for hops in headers))
    assert read.passed.tolist() == [len(hops) for hops in headers]
    left = [hop for hops in headers for hop in hops[-5:]]
    assert np.diff(read.offset).tolist() == [len(hops[-5:]) for hops in headers]
    assert read.queue_units.tolist() == [hop.queue_bytes // (80 * multi) % 2**17 for hop in left]


@given(
    st.lists(
        st.tuples(st.integers(0, 2**40), st.integers(0, 2**40), st.binary(min_size=42, max_size=42)),
        max_size=6,
    )
)
def test_any_bytes_are_hops_or_named(records: list[tuple[int, int, bytes]]) -> None:
    flow = {"src": "a", "dst": "b", "sport": 1, "dport": 2, "protocol": 17}
    lines = [
        {
            "ts_ns": ts_ns,
            "flow": flow,
            "packet_bytes": 1 + size % 9000,
            "sampling_rate": 1,
            "header": raw.hex(),
        }
        for ts_ns, size, raw in records
    ]
    decoded = decode(json.dumps(lines).encode())
    assert len(decoded.batch) + len(decoded.errors) == len(records)
    assert (decoded.batch.hop_count <= 5).all()
    assert (decoded.batch.queue_bytes <= 80 * (2**17 - 1)).all()


SOUND = {
    "ts_ns": 7,
    "flow": {"src": "a", "dst": "b", "sport": 1, "dport": 2, "protocol": 17},
    "packet_bytes": 1048,
    "sampling_rate": 0.5,
    "header": hpcc_header([HpccHop(100, 1, 2, 3)] * 2).hex(),
    "multi": 1,
    "path": [{"switch": "s1", "egress_port": "p", "queue": 3}, {}],
}


@given(st.data())
def test_damage_never_breaks_it(data: st.DataObject) -> None:
    body = bytearray(json.dumps([SOUND, SOUND]).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(body) - 1))
        body[place : place + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
    with contextlib.suppress(DecodeError):
        batch = decode(bytes(body)).batch
        assert ((batch.hop_count >= 1) & (batch.hop_count <= 5)).all()
        assert (batch.packet_bytes > 0).all()


@given(st.binary(max_size=300))
def test_bytes_never_break_it(body: bytes) -> None:
    for given_bytes in (body, b"{" + body, b"[{" + body):
        with contextlib.suppress(DecodeError):
            assert len(decode(given_bytes).batch) == 0
