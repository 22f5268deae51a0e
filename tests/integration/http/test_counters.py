"""Counters over HTTP: the good kept, the bad told by index, and how much they grew."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from tests.integration.service import EPOCH_NS, Running, Wanted, all_taken, manual, running

pytestmark = pytest.mark.anyio

PATH = "/v1/telemetry/counters"
S = 1_000_000_000


def sample(at_s: int, **changes: Any) -> dict[str, Any]:
    return {
        "switch": "leaf1",
        "port": "Ethernet0",
        "queue": 3,
        "ts_ns": EPOCH_NS + at_s * S,
        "pfc_rx_frames": 10 * at_s,
        "dropped_packets": str(at_s),
    } | changes


BATCH = [sample(at) for at in range(5)]
ARRAY = json.dumps(BATCH).encode()
NDJSON = "\n".join(map(json.dumps, BATCH)).encode()


async def post(here: Running, samples: list[dict[str, Any]]) -> dict[str, Any]:
    return await here.post(PATH, samples, status=202)


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (ARRAY, {"Content-Type": "application/json"}),
        (NDJSON, {"Content-Type": "application/x-ndjson"}),
        (gzip.compress(NDJSON, mtime=0), {"Content-Encoding": "gzip"}),
        (gzip.compress(ARRAY, mtime=0), {"Content-Type": "application/gzip"}),
    ],
)
async def test_every_shape_of_body_is_taken(here: Running, body: bytes, headers: dict[str, str]) -> None:
    assert here.service.counters.age_s() is None
    answer = await here.post(PATH, status=202, content=body, headers=headers)
    assert answer == all_taken(5)
    assert here.metric("ecntwin_switch_samples_accepted_total") == 5
    assert here.metric("ecntwin_reports_accepted_total") == 0
    here.hand.now_s += 7.0
    assert here.service.counters.age_s() == 7.0


async def test_what_was_posted_is_what_a_guard_reads(here: Running) -> None:
    counters = here.service.counters
    assert await counters.newest_ns() is None
    assert (await here.client.post(PATH, json=sample(0))).json()["accepted"] == 1
    await post(here, BATCH[1:])
    assert await counters.newest_ns(["leaf1"]) == EPOCH_NS + 4 * S
    found = await counters.increase(["leaf1"], EPOCH_NS + S, EPOCH_NS + 4 * S)
    assert (found.counters.pfc_rx_frames, found.counters.dropped_packets) == (30, 3)
    assert found.counters.pfc_pause_ns is None
    assert found.covered_s == 3.0


async def test_bad_and_late_samples_are_told_by_index_and_by_reason(here: Running) -> None:
    document = await post(
        here, [sample(3), sample(4, dropped_packets=-1), sample(2), sample(5), sample(6, port=None)]
    )
    assert (document["accepted"], document["rejected"], document["error_count"]) == (2, 3, 3)
    assert [error["index"] for error in document["errors"]] == [1, 2, 4]
    assert "dropped_packets: received -1" in document["errors"][0]["detail"]
    assert here.metric("ecntwin_switch_samples_rejected_total", reason="malformed") == 2
    assert here.metric("ecntwin_switch_samples_rejected_total", reason="late") == 1
    assert here.metric("ecntwin_switch_samples_rejected_total", reason="no_room") == 0


async def test_the_list_of_errors_is_bounded_and_counted() -> None:
    async with running(Wanted(settings=manual(server={"max_errors_listed": 2}))) as here:
        document = await post(here, [sample(0, queue=-1)] * 5 + [sample(1)])
        assert (document["accepted"], document["rejected"], len(document["errors"])) == (1, 5, 2)


@pytest.mark.parametrize("body", [b"", b"hello", b"[1, 2", b"{bad", b"\x1f\x8bbroken"])
async def test_a_body_without_samples_is_a_400(here: Running, body: bytes) -> None:
    answer = await here.post(PATH, status=400, content=body)
    assert {"where", "received", "rule", "remedy"} <= answer.keys()
    assert (await post(here, [sample(0)]))["accepted"] == 1


@pytest.mark.parametrize(
    "headers", [{"Content-Type": "application/octet-stream"}, {"Content-Encoding": "br"}]
)
async def test_other_types_and_encodings_are_a_415(here: Running, headers: dict[str, str]) -> None:
    answer = await here.post(PATH, status=415, content=NDJSON, headers=headers)
    assert next(iter(headers)) in answer["where"]


async def test_a_bomb_is_a_413() -> None:
    small = manual(server={"max_body_bytes": 5_000, "max_decoded_bytes": 20_000})
    async with running(Wanted(settings=small)) as here:
        answer = await here.client.post(PATH, content=gzip.compress(b" " * 1_000_000))
        assert answer.status_code == 413, answer.text
