"""An ingest process: what it takes, what it passes on, and what it does when the service does not take it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client import CollectorRegistry

from api.ingest_app import create_ingest_app
from service.ingest import forwarder
from service.ingest.process import IngestProcess
from settings.errors import SettingsError
from settings.model import Settings
from telemetry.decode.arrow import decode
from telemetry.decode.p4.decoder import P4Decoder
from telemetry.decode.p4.devices import Devices, UnitProfile
from telemetry.report import ReportBatch
from tests.counterparts.arrow_bodies import stream, table
from tests.integration.service import PATIENCE_S, all_taken, manual, report, running, traffic
from tests.unit.service.udp.sending import datagram, send

pytestmark = pytest.mark.anyio

SERVICE = "http://127.0.0.1:8080"
"""Nobody is asked there: the transport answers."""


@dataclass
class Answering:
    """A service that answers with these by turns and then takes everything, in a test's own time."""

    answers: list[httpx.Response | Exception] = field(default_factory=list)
    requests: list[httpx.Request] = field(default_factory=list)
    taken: list[list[int]] = field(default_factory=list)
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    go: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        self.asked.set()
        await self.go.wait()
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, Exception):
            raise answer
        if answer is not None and not answer.is_success:
            return answer
        times = decode(request.content).batch.ts_ns.tolist()
        self.taken.append(times)
        return answer or httpx.Response(202, json={"accepted": len(times), "rejected": 0, "errors": []})


@dataclass
class Here:
    client: httpx.AsyncClient
    process: IngestProcess
    registry: CollectorRegistry

    def metric(self, name: str) -> float | None:
        return self.registry.get_sample_value(name)

    async def post(self, reports: list[dict[str, Any]]) -> httpx.Response:
        return await self.client.post("/v1/telemetry/int", content=json.dumps(reports))


@asynccontextmanager
async def taking(
    transport: httpx.AsyncBaseTransport, *, token: str | None = None, settings: Settings | None = None
) -> AsyncIterator[Here]:
    registry = CollectorRegistry()
    settings = settings or manual()
    process = IngestProcess(settings, SERVICE, token=token, registry=registry, transport=transport)
    app = create_ingest_app(settings, process)
    async with app.router.lifespan_context(app):
        client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1")
        async with client:
            yield Here(client, process, registry)


async def test_reports_of_every_shape_reach_the_service_as_if_posted_there() -> None:
    async with running() as service:
        async with taking(service.client._transport) as here:
            for content, kind in (
                (json.dumps(traffic(30)).encode(), "application/json"),
                (stream(table(traffic(30, first=30))), "application/vnd.apache.arrow.stream"),
            ):
                answer = await here.client.post(
                    "/v1/telemetry/int", content=content, headers={"Content-Type": kind}
                )
                assert answer.json() == all_taken(30)
        async with running() as other:
            await other.post_reports(traffic(60))
            for path in ("/v1/flows", "/v1/state"):
                assert (await other.client.get(path)).json() == (await service.client.get(path)).json()


async def test_what_is_wrong_with_a_report_is_told_at_once() -> None:
    service = Answering()
    async with taking(httpx.MockTransport(service)) as here:
        answer = await here.post([report(0), report(1, packet_bytes=0)])
        assert answer.status_code == 202
        assert (answer.json()["accepted"], answer.json()["rejected"]) == (1, 1)
        assert "packet_bytes" in answer.json()["errors"][0]["detail"]
        refused = await here.client.post("/v1/telemetry/int", content=b"hello")
        assert refused.status_code == 400
        service.go.set()
    assert here.metric("ecntwin_ingest_reports_decoded_total") == 1
    assert here.metric("ecntwin_ingest_reports_malformed_total") == 1
    assert here.metric("ecntwin_ingest_bodies_malformed_total") == 1


async def test_what_is_left_out_there_is_counted() -> None:
    said = {"accepted": 1, "rejected": 2, "errors": [{"index": 0, "detail": "too late"}], "error_count": 2}
    service = Answering([httpx.Response(202, json=said)])
    service.go.set()
    async with taking(httpx.MockTransport(service), token="secret") as here:
        await here.post(traffic(3))
    assert here.metric("ecntwin_ingest_reports_forwarded_total") == 3
    assert here.metric("ecntwin_ingest_reports_left_out_total") == 2
    assert service.requests[0].headers["authorization"] == "Bearer secret"
    assert str(service.requests[0].url) == f"{SERVICE}/v1/telemetry/int"


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(429),
        httpx.Response(503),
        httpx.Response(500),
        httpx.Response(401),
        httpx.Response(308, headers={"Location": "https://127.0.0.1/"}),
        httpx.ConnectError("gone"),
    ],
    ids=["busy", "unavailable", "failed once", "token unknown", "elsewhere", "away"],
)
async def test_what_is_not_taken_is_tried_again_and_told(answer: httpx.Response | Exception) -> None:
    service = Answering([answer])
    async with taking(httpx.MockTransport(service)) as here:
        assert (await here.client.get("/readyz")).json() == {"ready": True, "reasons": []}
        await here.post(traffic(3))
        service.go.set()
        async with asyncio.timeout(PATIENCE_S):
            while len(service.requests) < 2:
                service.asked.clear()
                await service.asked.wait()
    assert [len(times) for times in service.taken] == [3]
    assert here.metric("ecntwin_ingest_forward_retries_total") == 1


async def test_a_service_that_is_away_is_a_reason_not_to_be_ready() -> None:
    service = Answering([httpx.ConnectError("refused")])
    async with taking(httpx.MockTransport(service)) as here:
        await here.post(traffic(3))
        here.process.forwarder.waits_for = "the service does not answer"
        answer = await here.client.get("/readyz")
        assert (answer.status_code, answer.json()["ready"]) == (503, False)
        assert "does not answer" in answer.json()["reasons"][0]
        assert (await here.client.get("/healthz")).status_code == 200
        service.go.set()


async def test_a_body_too_large_there_goes_in_halves() -> None:
    service = Answering([httpx.Response(413)])
    service.go.set()
    async with taking(httpx.MockTransport(service)) as here:
        await here.post(traffic(5))
    assert [len(times) for times in service.taken] == [2, 3]
    assert here.metric("ecntwin_ingest_reports_forwarded_total") == 5


async def test_a_refusal_for_good_is_counted_and_the_rest_goes_on() -> None:
    service = Answering([httpx.Response(415, text="no Arrow here")])
    async with taking(httpx.MockTransport(service)) as here:
        await here.post(traffic(3))
        await service.asked.wait()
        await here.post(traffic(2, first=3))
        service.go.set()
    assert [len(times) for times in service.taken] == [2]
    assert here.metric("ecntwin_ingest_reports_left_out_total") == 3


async def test_reports_over_which_the_service_fails_do_not_hold_up_all_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(forwarder, "LONGEST_PAUSE_S", 0.0)
    service = Answering([httpx.Response(500, text="no idea") for _ in range(forwarder.MOST_FAILURES)])
    async with taking(httpx.MockTransport(service)) as here:
        await here.post(traffic(3))
        await service.asked.wait()
        await here.post(traffic(2, first=3))
        service.go.set()
    assert [len(times) for times in service.taken] == [2]
    assert here.metric("ecntwin_ingest_reports_left_out_total") == 3
    assert here.metric("ecntwin_ingest_pending_bytes") == 0


async def test_failures_between_which_the_service_is_away_drop_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(forwarder, "LONGEST_PAUSE_S", 0.0)
    failures = [httpx.Response(500) for _ in range(forwarder.MOST_FAILURES)]
    service = Answering([*failures[1:], httpx.Response(503), *failures[:1]])
    service.go.set()
    async with taking(httpx.MockTransport(service)) as here:
        await here.post(traffic(3))
    assert [len(times) for times in service.taken] == [3]
    assert here.metric("ecntwin_ingest_reports_left_out_total") == 0


async def test_memory_is_bounded_while_the_service_is_away() -> None:
    service = Answering()
    settings = manual(server={"max_pending_bytes": 30_000})
    async with taking(httpx.MockTransport(service), settings=settings) as here:
        answers = [await here.post(traffic(30, first=30 * number)) for number in range(12)]
        statuses = [answer.status_code for answer in answers]
        assert statuses[0] == 202
        assert statuses[-1] == 429
        assert "see at /readyz here why the service takes none" in answers[-1].json()["remedy"]
        taken = statuses.count(202)
        assert here.metric("ecntwin_ingest_pending_bytes") <= 30_000
        service.go.set()
    assert sum(map(len, service.taken)) == 30 * taken
    assert here.metric("ecntwin_ingest_pending_bytes") == 0


async def test_datagrams_are_decoded_and_passed_on() -> None:
    service = Answering()
    service.go.set()
    listening = {"udp": {"ports": 0}, "int": {"default_units": {"occupancy": "bytes"}}}
    async with taking(httpx.MockTransport(service), settings=manual(telemetry=listening)) as here:
        send([datagram(number) for number in range(100)], here.process.udp_addresses[0])
        async with asyncio.timeout(PATIENCE_S):
            while here.metric("ecntwin_ingest_reports_decoded_total") != 100:
                service.asked.clear()
                await service.asked.wait()
    assert sum(map(len, service.taken)) == 100
    assert here.metric("ecntwin_udp_datagrams_received_total") == 100
    assert here.registry.get_sample_value("ecntwin_int_datagrams_total", {"switch": "7"}) == 100


async def test_datagrams_wait_for_room_and_then_go_on() -> None:
    service = Answering()
    settings = manual(server={"max_pending_bytes": 1})
    async with taking(httpx.MockTransport(service), settings=settings) as here:
        decoding = here.process.formats.decoder("", None, json.dumps(traffic(3)).encode())
        await here.process.ingest(decoding)
        second = asyncio.create_task(here.process.ingest(decoding))
        await service.asked.wait()
        assert not second.done()
        service.go.set()
        await second
    assert sum(map(len, service.taken)) == 6


POSTCARDS = {"int": {"merge_postcards_s": 1, "default_units": {"occupancy": "bytes"}}}


def test_a_batch_takes_the_room_of_the_sites_it_names_not_of_all_that_its_decoder_knows() -> None:
    decoder = P4Decoder(Devices(default=UnitProfile()))

    def batch(nodes: range) -> ReportBatch:
        return decoder.decode([datagram(1, node=node) for node in nodes], 0).batch

    few = forwarder.held_bytes(batch(range(1, 3)))
    for _ in range(10):  # until the table is stable
        batch(range(1, 1_001))
    assert len(batch(range(1, 3)).sites) == 1_000
    assert forwarder.held_bytes(batch(range(1, 3))) == few


async def test_datagrams_that_wait_for_room_at_the_end_are_passed_on() -> None:
    service = Answering()
    async with taking(httpx.MockTransport(service), settings=manual(server={"max_pending_bytes": 1})) as here:
        decoding = here.process.formats.decoder("", None, json.dumps(traffic(3)).encode())
        await here.process.ingest(decoding)
        second = asyncio.create_task(here.process.forwarder.offer(decoding().batch, wait=True))
        await service.asked.wait()
        assert not second.done()
        second.cancel()
        await asyncio.wait({second})
        service.go.set()
    assert sum(map(len, service.taken)) == 6


async def test_postcards_that_still_wait_at_the_end_are_passed_on() -> None:
    service = Answering()
    service.go.set()
    async with taking(httpx.MockTransport(service), settings=manual(telemetry=POSTCARDS)) as here:
        answer = await here.client.post(
            "/v1/telemetry/int", content=datagram(1), headers={"Content-Type": "application/octet-stream"}
        )
        assert (answer.status_code, answer.json()["accepted"]) == (202, 1)
    assert sum(map(len, service.taken)) == 1
    assert here.metric("ecntwin_ingest_reports_decoded_total") == 1


def test_postcards_of_bridges_are_put_in_order_by_the_topology_of_the_settings(tmp_path: Path) -> None:
    declared = tmp_path / "topology.json"
    link = {"a": "7", "a_port": "2", "b": "8", "b_port": "1", "rate_gbps": 100, "delay_us": 1}
    declared.write_text(
        json.dumps({"hosts": [], "switches": [{"name": "7"}, {"name": "8"}], "links": [link]})
    )
    settings = manual(telemetry=POSTCARDS, fabric={"topology": str(declared)})
    reports = IngestProcess(settings, SERVICE)._binary
    reports.decode([datagram(1, node=8), datagram(1, node=7)], 0)
    path = reports.flush()
    assert [path.sites[site].switch for site in path.hop_site.tolist()] == ["7", "8"]


def test_postcards_are_not_spread_over_processes_which_would_count_each_packet_once_a_process() -> None:
    settings = manual(telemetry={"int": {"merge_postcards_s": 0.01}})
    with pytest.raises(SettingsError, match="receive postcards in one process"):
        IngestProcess(settings, SERVICE, shared=True)


async def test_paths_of_postcards_accepted_before_are_not_lost_with_a_body_for_which_there_is_no_room() -> (
    None
):
    service = Answering()
    settings = manual(server={"max_pending_bytes": 1}, telemetry=POSTCARDS)
    async with taking(httpx.MockTransport(service), settings=settings) as here:
        await here.process.ingest(here.process.formats.decoder("", None, json.dumps(traffic(3)).encode()))
        reports = here.process._binary
        assert reports.decode([datagram(1)], 0).aside == 1
        # Two seconds later that one is due.
        await here.process.ingest(partial(reports.decode, [datagram(2)], 2_000_000_000), body=b"another")
        service.go.set()
    assert sum(map(len, service.taken)) == 3 + 2
    assert here.metric("ecntwin_ingest_pending_bytes") == 0


async def test_what_waits_at_the_end_is_told_where_it_cannot_be_passed_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    service = Answering()
    settings = manual(server={"shutdown_grace_s": 0})
    async with taking(httpx.MockTransport(service), settings=settings) as here:
        await here.post(traffic(3))
        await service.asked.wait()
    assert "3 reports were not passed on" in caplog.text
