"""Reports over HTTP: the good kept, the bad told by index, nothing that stops the service."""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.counterparts.arrow_bodies import stream, table
from tests.counterparts.hpcc_headers import HpccHop, hpcc_header
from tests.integration.service import TOPOLOGY, Running, Wanted, all_taken, manual, report, running, traffic

pytestmark = pytest.mark.anyio

NDJSON = "\n".join(json.dumps(one) for one in traffic(30)).encode()
ARROW = {"Content-Type": "application/vnd.apache.arrow.stream"}
ARRAY = json.dumps(traffic(30)).encode()


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (ARRAY, {"Content-Type": "application/json"}),
        (NDJSON, {"Content-Type": "application/x-ndjson; charset=utf-8"}),
        (
            gzip.compress(NDJSON, mtime=0),
            {"Content-Type": "application/x-ndjson", "Content-Encoding": "gzip"},
        ),
        (gzip.compress(ARRAY, mtime=0), {"Content-Type": "application/json"}),
        (NDJSON, {}),
    ],
)
async def test_every_shape_of_body_is_taken(here: Running, body: bytes, headers: dict[str, str]) -> None:
    answer = await here.post("/v1/telemetry/int", status=202, content=body, headers=headers)
    assert answer == all_taken(30)
    assert here.metric("ecntwin_reports_accepted_total") == 30


async def test_reports_that_are_held_already_are_told(here: Running) -> None:
    await here.post_reports(traffic(30))
    assert (await here.post_reports(traffic(30)))["duplicates"] == 30
    assert (await here.post_reports(traffic(31)))["duplicates"] == 30


async def test_an_arrow_stream_is_taken_and_gives_the_state_that_json_does(here: Running) -> None:
    reports = traffic(30)
    body = stream(table(reports))
    again: dict[str, str] = {"Content-Encoding": "gzip"}
    for content, headers, held in ((body, {}, 0), (gzip.compress(body), again, 30)):
        answer = await here.post("/v1/telemetry/int", status=202, content=content, headers=ARROW | headers)
        assert answer == all_taken(30, duplicates=held)
    by_arrow = await here.client.get("/v1/flows")
    async with running() as other:
        await other.post_reports(reports)
        assert (await other.client.get("/v1/flows")).json() == by_arrow.json()


async def test_a_bad_row_of_an_arrow_stream_is_told_and_a_broken_stream_refused(here: Running) -> None:
    body = stream(table([report(0), report(1, packet_bytes=0), report(2)]))
    answer = await here.client.post("/v1/telemetry/int", content=body, headers=ARROW)
    assert (answer.json()["accepted"], answer.json()["errors"][0]["index"]) == (2, 1)
    assert "packet_bytes: received 0" in answer.json()["errors"][0]["detail"]
    answer = await here.post("/v1/telemetry/int", status=400, content=body[:-200], headers=ARROW)
    assert "a broken or partial Arrow IPC stream" in answer["detail"]


async def test_headers_of_hpcc_are_reports(here: Running) -> None:
    hops = [HpccHop(100, number, 0, 8_000 * number) for number in (1, 2)]
    wanted = ("ts_ns", "flow", "packet_bytes", "sampling_rate")
    records = [
        {name: one[name] for name in wanted} | {"header": hpcc_header(hops).hex()} for one in traffic(30)
    ]
    answer = await here.post(
        "/v1/telemetry/int",
        status=202,
        content=json.dumps([*records, {**records[0], "header": "00"}]),
        headers={"Content-Type": "application/vnd.ecntwin.hpcc+json"},
    )
    assert (answer["accepted"], answer["errors"][0]["index"]) == (30, 30)
    flows = (await here.client.get("/v1/flows")).json()
    assert flows["total"] > 0


async def test_one_report_alone_is_a_batch_of_one(here: Running) -> None:
    answer = await here.client.post("/v1/telemetry/int", json=report(0))
    assert answer.json()["accepted"] == 1


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"sampling_rate": 0}, "sampling_rate"),
        ({"sampling_rate": 1.5}, "sampling_rate"),
        ({"packet_bytes": -5}, "packet_bytes"),
        ({"packet_bytes": "big"}, "packet_bytes"),
        ({"ts_ns": None}, "ts_ns"),
        ({"flow": {"src": "10.0.0.1"}}, "flow"),
        ({"hops": []}, "hops"),
        ({"hops": [{"switch": "leaf1", "queue_bytes": -1}]}, "queue_bytes"),
        ({"ts_ns": report(0)["ts_ns"] + 10 * 365 * 86_400 * 10**9}, "ts_ns"),
    ],
)
async def test_a_bad_report_is_told_by_its_index_and_the_others_are_kept(
    here: Running, changes: dict[str, Any], says: str
) -> None:
    document = await here.post_reports([report(0), report(1), report(2) | changes, report(3)])
    assert (document["accepted"], document["rejected"], document["error_count"]) == (3, 1, 1)
    assert document["errors"][0]["index"] == 2
    assert says in document["errors"][0]["detail"]


async def test_misspelt_keys_are_told_and_logged_once(
    here: Running, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = report(0) | {"hops": [{"switch": "leaf1", "egress_port": "Ethernet0", "queue_byte": 3}]}
    for _ in range(2):
        document = await here.post_reports([wrong, report(1)])
        assert (document["accepted"], document["unread"]) == (2, ["hops[].queue_byte"])
    sample = {"switch": "leaf1", "port": "Ethernet0", "ts_ns": report(0)["ts_ns"], "tx_bytes": 3, "drops": 1}
    answer = await here.client.post("/v1/telemetry/counters", json=[sample])
    assert answer.json()["unread"] == ["drops"]
    said = [one.message for one in caplog.records if one.name == "ecntwin.telemetry"]
    assert said == [
        f"JSON records have keys that were not read: {key}; is one misspelt?"
        for key in ("hops[].queue_byte", "drops")
    ]


async def test_nan_in_a_report_loses_only_that_report(here: Running) -> None:
    lines = [json.dumps(report(0)), json.dumps(report(1)).replace("1048", "NaN"), json.dumps(report(2))]
    answer = await here.client.post("/v1/telemetry/int", content="\n".join(lines))
    assert answer.json()["accepted"] == 2
    assert "NaN" in answer.json()["errors"][0]["detail"]


@pytest.mark.parametrize("place", ["switch", "egress_port"])
async def test_a_hop_the_declared_topology_lacks_is_told(here: Running, place: str) -> None:
    assert (await here.client.put("/v1/topology", json=TOPOLOGY)).status_code == 200
    stray = report(1)
    stray["hops"][0][place] = "nowhere"
    document = await here.post_reports([report(0), stray])
    assert (document["accepted"], document["rejected"]) == (1, 1)
    assert "nowhere" in document["errors"][0]["detail"]
    assert here.metric("ecntwin_reports_rejected_total", reason="unknown_place") == 1


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"   ",
        b"hello",
        b"123",
        b"null",
        b"[1, 2",
        b"{bad",
        b"[{bad}]",
        b"{bad\n{worse",
        b"\x1f\x8bbroken",
        b"\xff\xfe",
    ],
)
async def test_a_body_without_reports_is_a_400(here: Running, body: bytes) -> None:
    answer = await here.client.post("/v1/telemetry/int", content=body)
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"
    assert {
        "type",
        "title",
        "status",
        "detail",
        "where",
        "received",
        "rule",
        "remedy",
    } <= answer.json().keys()
    assert here.metric("ecntwin_report_bodies_refused_total") == 1
    assert (await here.post_reports([report(0)]))["accepted"] == 1


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": "image/png"},
        {"Content-Encoding": "br"},
        {"Content-Encoding": "gzip, gzip"},
    ],
)
async def test_other_types_and_encodings_are_a_415(here: Running, headers: dict[str, str]) -> None:
    answer = await here.post("/v1/telemetry/int", status=415, content=NDJSON, headers=headers)
    assert next(iter(headers)) in answer["where"]


async def chunks() -> AsyncIterator[bytes]:
    for _ in range(10):
        yield b" " * 1_000


async def test_a_body_over_the_limit_is_a_413_whether_declared_or_not() -> None:
    small = manual(server={"max_body_bytes": 5_000, "max_decoded_bytes": 20_000})
    async with running(Wanted(settings=small)) as here:
        bomb = gzip.compress(b" " * 1_000_000)
        assert len(bomb) < 5_000
        for body in (b" " * 6_000, chunks(), bomb):
            answer = await here.post("/v1/telemetry/int", status=413, content=body)
            assert "smaller batches" in answer["remedy"]
        assert (await here.post_reports([report(0)]))["accepted"] == 1


async def test_the_list_of_errors_is_bounded_and_counted() -> None:
    async with running(Wanted(settings=manual(server={"max_errors_listed": 3}))) as here:
        document = await here.post_reports([report(n, sampling_rate=2) for n in range(10)] + [report(11)])
        assert (document["accepted"], document["rejected"], document["error_count"]) == (1, 10, 10)
        assert [entry["index"] for entry in document["errors"]] == [0, 1, 2]


async def test_reports_are_told_to_listeners(here: Running) -> None:
    with here.service.events.listen() as queue:
        await here.post_reports([report(0), report(1, sampling_rate=7)])
        heard = [queue.get_nowait() for _ in range(queue.qsize())]
        told = [dict(event.data) for event in heard if event is not None and event.kind == "reports"]
        assert told == [{"accepted": 1, "rejected": 1}]
