"""HPCC's INT headers: bit layout, wrapping counts, good and bad records."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from telemetry.decode.hpcc import HEADER_BYTES, HpccHops, decode
from telemetry.errors import DecodeError
from telemetry.report import MARK_UNKNOWN, MISSING_NS
from telemetry.state import FlowKey
from telemetry.window.window import Window
from tests.counterparts.hpcc_headers import HpccHop, hpcc_header

FLOW = FlowKey("10.0.0.1", "10.0.0.2", 49152, 100, 17)
HOPS = [HpccHop(100, 5_000, 12_800, 8_000), HpccHop(400, 70_000, 1 << 30, 160)]
# Bit by bit from int-header.h: code 2, time 1, 2 units sent, 3 units waiting; then code 4 and all else 0.
BY_HAND = (2 | 1 << 3 | 2 << 27 | 3 << 47).to_bytes(8, "little") + (4).to_bytes(8, "little") + bytes(24)
BY_HAND += (2).to_bytes(2, "little")
PATH = [
    {"switch": "leaf1", "ingress_port": "Ethernet1", "egress_port": "Ethernet5", "queue": 3},
    {"switch": "spine1", "egress_port": "Ethernet2"},
]


def record(**changes: Any) -> dict[str, Any]:
    plain = {
        "ts_ns": 1000,
        "flow": FLOW._asdict(),
        "packet_bytes": 1048,
        "sampling_rate": 0.5,
        "header": hpcc_header(HOPS).hex(),
        "path": PATH,
    }
    return {name: value for name, value in (plain | changes).items() if value is not ...}


def body(*records: dict[str, Any]) -> bytes:
    return "\n".join(json.dumps(one) for one in records).encode()


def test_the_bits_are_where_the_authors_put_them() -> None:
    hops = HpccHops.read(BY_HAND)
    assert len(BY_HAND) == HEADER_BYTES
    assert hops.queue_units.tolist() == [3, 0]
    assert hpcc_header([HpccHop(100, 1, 256, 240), HpccHop(400, 0, 0, 0)]) == BY_HAND


def test_a_record_is_a_report() -> None:
    decoded = decode(body(record()))
    batch = decoded.batch
    assert decoded.errors == ()
    assert list(batch.flow_keys) == [FLOW]
    assert batch.ts_ns.tolist() == [1000]
    assert (batch.packet_bytes.tolist(), batch.sampling_rate.tolist()) == ([1048], [0.5])
    assert [batch.sites[site] for site in batch.hop_site] == [
        ("leaf1", "Ethernet1", "Ethernet5", 3),
        ("spine1", None, "Ethernet2", None),
    ]
    assert batch.queue_bytes.tolist() == [8_000.0, 160.0]
    assert set(batch.ingress_ns.tolist()) == set(batch.egress_ns.tolist()) == {MISSING_NS}
    assert set(batch.marked.tolist()) == {MARK_UNKNOWN}
    assert Window().add(batch).accepted == 1


@pytest.mark.parametrize("form", [body(record(), record()), json.dumps([record(), record()]).encode()])
@pytest.mark.parametrize("packed", [False, True])
def test_every_shape_of_body(form: bytes, packed: bool) -> None:
    assert len(decode(gzip.compress(form) if packed else form).batch) == 2


def test_addresses_of_ipv6_are_as_in_binary_reports_however_spelt() -> None:
    (flow,) = decode(body(record(flow=FLOW._replace(src="2001:DB8:0::1")._asdict()))).batch.flow_keys
    assert flow.src == "2001:db8::1"


def test_units_are_as_large_as_the_fabric_says() -> None:
    header = hpcc_header(HOPS, multi=4).hex()
    assert decode(body(record(header=header, multi=4))).batch.queue_bytes.tolist() == [8_000.0, 0.0]


def test_without_a_path_hops_have_no_names() -> None:
    batch = decode(body(record(path=None), record(path=...))).batch
    assert batch.hop_count.tolist() == [2, 2]
    assert batch.sites == ((None, None, None, None),)


def test_of_more_than_five_hops_the_last_five_are_left() -> None:
    hops = [HpccHop(100, 0, 0, 80 * number) for number in range(1, 8)]
    path = [{"switch": str(number)} for number in range(1, 8)]
    batch = decode(body(record(header=hpcc_header(hops).hex(), path=path))).batch
    assert [batch.sites[site].switch for site in batch.hop_site] == ["3", "4", "5", "6", "7"]
    assert batch.queue_bytes.tolist() == [80.0 * number for number in range(3, 8)]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"header": ...}, "header: header"),
        ({"header": "00"}, "in hex"),
        ({"header": hpcc_header(HOPS).hex() + "\n"}, "in hex"),
        ({"header": bytes(42).hex()}, "a count of 0 hops"),
        ({"path": PATH[:1]}, "1 places for 2 hops"),
        ({"path": []}, "1 to 64 places"),
        ({"multi": 0}, "from 1 to"),
        ({"path": [{"switch": ""}, {}]}, "switch is a name"),
        ({"flow": {"src": "a"}}, "flow.dst: "),
    ],
)
def test_a_bad_record_costs_only_itself(changes: dict[str, Any], said: str) -> None:
    decoded = decode(body(record(), record(**changes), record()))
    assert decoded.batch.index.tolist() == [0, 2]
    (problem,) = decoded.errors
    assert problem.index == 1
    assert said in problem.detail


def test_a_body_of_nothing_is_an_error() -> None:
    with pytest.raises(DecodeError, match="HPCC records"):
        decode(b"hello")
    assert len(decode(b"[]").batch) == 0


def test_the_example_of_the_page_is_a_record() -> None:
    page = (Path(__file__).parents[4] / "docs" / "telemetry" / "int-hpcc.md").read_text(encoding="utf-8")
    example = re.search(r"^```json\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert example is not None
    decoded = decode(example[1].encode())
    assert decoded.errors == ()
    assert decoded.batch.queue_bytes.tolist() == [52_000.0, 0.0]
