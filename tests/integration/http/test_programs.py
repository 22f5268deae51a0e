"""What programs rely on: readiness, request ids, entity tags, compression, pages, filters."""

from __future__ import annotations

import asyncio
import logging
import math
import re
from typing import Any
from urllib.parse import quote

import pytest

from api.answers import RequestFormatter
from tests.integration.service import Running, Wanted, manual, report, running, traffic

pytestmark = pytest.mark.anyio


async def test_a_silent_network_leaves_the_service_ready_and_without_advice() -> None:
    async with running() as here:
        ready = await here.client.get("/readyz")
        assert (ready.status_code, ready.json()["ready"], ready.json()["reasons"]) == (200, True, [])
        standing = (await here.client.get("/v1/readiness")).json()
        assert (standing["ready"], standing["advice"], standing["measured"]) == (False, None, False)
        assert "No INT report" in standing["reasons"][0]
        await here.post_reports([report(0, packet_bytes=0), report(1, packet_bytes=0)])
        (reason,) = (await here.client.get("/v1/readiness")).json()["reasons"]
        assert reason.startswith("All 2 INT reports that came were rejected: they cannot be read; look at ")
        await here.post_reports(traffic())
        found = (await here.client.post("/v1/tune")).json()
        standing = (await here.client.get("/v1/readiness")).json()
        assert (standing["ready"], standing["advice"], standing["reasons"]) == (True, found["id"], [])
        here.hand.now_s += 61
        assert (await here.client.get("/readyz")).status_code == 200
        assert not (await here.client.get("/v1/readiness")).json()["ready"]


async def test_a_database_that_is_away_at_the_start_leaves_the_service_ready() -> None:
    away = manual(storage={"url": "postgresql://nobody@127.0.0.1:1/none"})
    async with running(Wanted(settings=away)) as here:
        ready = await here.client.get("/readyz")
        assert (ready.status_code, ready.json()["storage"]["state"]) == (200, "failing")


async def test_a_service_that_stops_is_not_ready() -> None:
    async with running() as here:
        here.service.stop_soon()
        await asyncio.sleep(0)  # the stop begins in the next turn of the event loop
        ready = await here.client.get("/readyz")
        assert (ready.status_code, ready.json()["ready"]) == (503, False)
        assert ready.json()["reasons"] == ["The service is stopping."]


async def test_a_request_is_named_by_its_caller_or_here() -> None:
    async with running() as here:
        named = await here.client.get("/healthz", headers={"X-Request-ID": "probe-7.a_b"})
        assert named.headers["x-request-id"] == "probe-7.a_b"
        made = [(await here.client.get("/healthz")).headers["x-request-id"] for _ in range(2)]
        assert made[0] != made[1]
        for unusable in ("x" * 65, "two words", "a;b"):
            answer = await here.client.get("/v1/nothing", headers={"X-Request-ID": unusable})
            assert re.fullmatch("[0-9a-f]{32}", answer.headers["x-request-id"])
            assert answer.json()["request_id"] == answer.headers["x-request-id"]


async def test_answers_are_counted_and_timed_by_the_class_of_their_status() -> None:
    async with running() as here:

        def counted(status: str) -> float:
            return here.metric("ecntwin_http_request_duration_seconds_count", status=status)

        before = [counted(status) for status in ("2xx", "4xx")]
        await here.client.get("/healthz")
        await here.client.get("/v1/nothing")
        await here.client.get("/v1/flows?limit=nonsense")
        after = [counted(status) for status in ("2xx", "4xx")]
        assert (after[0] - before[0], after[1] - before[1]) == (1, 2)


async def test_lines_of_the_log_name_the_request_they_are_of() -> None:
    lines: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(self.format(record))

    handler = Kept()
    handler.setFormatter(RequestFormatter("%(message)s"))
    logging.getLogger("ecntwin").addHandler(handler)
    try:
        async with running() as here:
            here.service.revisions.listed = None  # type: ignore[assignment]  # a bug, as any may be
            answer = await here.client.get("/v1/revisions", headers={"X-Request-ID": "who"})
            assert (answer.status_code, answer.json()["request_id"]) == (500, "who")
            logging.getLogger("ecntwin").error("outside of requests")
    finally:
        logging.getLogger("ecntwin").removeHandler(handler)
    assert "GET /v1/revisions failed: TypeError [request who]" in lines
    assert "outside of requests" in lines


def test_names_from_outside_begin_no_line_of_the_log() -> None:
    record = logging.LogRecord("x", logging.INFO, "", 1, "switch %s", ("a\nINFO\x1b[31m\x9b\tb",), None)
    assert RequestFormatter("%(message)s").format(record) == "switch a\\x0aINFO\\x1b[31m\\x9b\tb"


async def tag_of(here: Running, path: str) -> str:
    return (await here.client.get(path)).headers["etag"]


async def test_a_document_that_is_known_is_not_sent_again() -> None:
    async with running() as here:
        tag = await tag_of(here, "/v1/freeze")
        assert await tag_of(here, "/v1/freeze") == tag
        for known in (tag, tag.removeprefix("W/"), f'"other", {tag}', "*"):
            same = await here.client.get("/v1/freeze", headers={"If-None-Match": known})
            assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag)
            assert "content-type" not in same.headers
        assert (await here.client.put("/v1/freeze", json={"frozen": True})).status_code == 200
        other = await here.client.get("/v1/freeze", headers={"If-None-Match": tag})
        assert (other.status_code, other.json()["frozen"]) == (200, True)
        assert other.headers["etag"] != tag


async def test_only_documents_are_tagged() -> None:
    async with running() as here:
        for path in ("/healthz", "/metrics", "/v1/nothing"):
            assert "etag" not in (await here.client.get(path, headers={"If-None-Match": "*"})).headers
        posted = await here.client.post("/v1/telemetry/int", json=[], headers={"If-None-Match": "*"})
        assert (posted.status_code, "etag" in posted.headers) == (202, False)


@pytest.mark.parametrize(
    "path", ["/openapi.json", "/v1/recommendations/current", "/assets/page.js", "/metrics"]
)
async def test_large_answers_are_compressed_where_that_is_understood(path: str) -> None:
    async with running() as here:
        await here.post_reports(traffic())
        await here.client.post("/v1/tune")
        packed = await here.client.get(path, headers={"Accept-Encoding": "gzip"})
        plain = await here.client.get(path, headers={"Accept-Encoding": "identity"})
        assert packed.headers["content-encoding"] == "gzip"
        assert "content-encoding" not in plain.headers
        if path != "/metrics":  # which count these calls
            assert packed.content == plain.content
            assert packed.headers["etag"] == plain.headers["etag"]
        assert packed.headers["vary"] == plain.headers["vary"] == "Accept-Encoding"
        assert packed.num_bytes_downloaded < len(packed.content) / 2 or path == "/assets/page.js"


async def test_fonts_and_small_answers_are_sent_as_they_are() -> None:
    async with running() as here:
        for path in ("/healthz", "/assets/ibm-plex-sans-latin-wght-normal.woff2"):
            answer = await here.client.get(path, headers={"Accept-Encoding": "gzip"})
            assert "content-encoding" not in answer.headers


async def paged(here: Running, path: str, items: str, cursor: str) -> list[list[Any]]:
    """Every page of a list, each begun at the ``next`` of the one before."""
    pages: list[list[Any]] = []
    following: str | int | None = None
    while not pages or following is not None:
        query = "" if following is None else f"&{cursor}={quote(str(following))}"
        document = await here.get(f"{path}{query}")
        pages.append(document[items])
        following = document["next"]
    return pages


async def test_flows_are_listed_page_by_page_and_by_place() -> None:
    async with running() as here:
        await here.post_reports(traffic())
        found = (await here.client.get("/v1/flows?limit=10000")).json()
        assert (len(found["flows"]), found["next"]) == (found["total"], None)
        pages = await paged(here, "/v1/flows?limit=1", "flows", "after")
        assert [flow for page in pages for flow in page] == found["flows"]
        assert len(pages) == found["total"] > 1
        for key, keeps in (("host", "dst_host"), ("switch", None)):
            wanted = found["flows"][0][keeps] if keeps else found["flows"][0]["path"][0].partition("/")[0]
            chosen = (await here.client.get("/v1/flows", params={key: wanted})).json()["flows"]
            assert chosen == [
                flow
                for flow in found["flows"]
                if (
                    wanted in (flow["src_host"], flow["dst_host"])
                    if keeps
                    else any(place.startswith(f"{wanted}/") for place in flow["path"])
                )
            ]
            assert (await here.client.get("/v1/flows", params={key: "none"})).json()["total"] == 0
        assert (await here.client.get("/v1/flows?after=x")).status_code == 422
        gone = (await here.client.get("/v1/flows", params={"after": "1e+30_of_before"})).json()
        assert gone["flows"] == found["flows"], "a page goes on at the bytes of a flow that is gone"


async def test_the_state_of_one_switch_has_its_queues_only() -> None:
    async with running() as here:
        await here.post_reports(traffic())
        every = (await here.client.get("/v1/state")).json()
        name = every["queues"][0]["switch"]
        one = (await here.client.get("/v1/state", params={"switch": name})).json()
        assert one["queues"] == [queue for queue in every["queues"] if queue["switch"] == name]
        none = (await here.client.get("/v1/state?switch=none&fields=queue_count,queues")).json()
        assert none == {"queue_count": 0, "queues": []}


async def test_recommendations_come_slim_and_page_by_page() -> None:
    async with running() as here:
        await here.post_reports(traffic())
        made = []
        for _ in range(2):
            here.hand.now_s += 1
            made.append((await here.client.post("/v1/tune")).json())
        slim = (await here.client.get("/v1/recommendations/current?candidates=false")).json()
        assert slim == made[-1] | {"candidates": [], "trajectories": None}
        some = (await here.client.get("/v1/recommendations/current?fields=id,lambda")).json()
        assert some == {"id": made[-1]["id"], "lambda": made[-1]["lambda"]}
        listed = (await here.client.get("/v1/recommendations?fields=id")).json()
        pages = await paged(here, "/v1/recommendations?limit=1&fields=id", "recommendations", "before")
        assert [one for page in pages for one in page] == listed["recommendations"]
        wrong = await here.client.get("/v1/recommendations/current?fields=id,candidate")
        assert (wrong.status_code, wrong.json()["remedy"]) == (422, "did you mean candidates?")


async def test_metrics_tell_of_the_recommendation_in_force() -> None:
    async with running() as here:

        def told(name: str) -> float:
            value = here.metric(f"ecntwin_recommendation_{name}")
            assert value is not None
            return value

        await here.client.get("/metrics")
        assert math.isnan(told("kmin_bytes"))
        await here.post_reports(traffic())
        found = (await here.client.post("/v1/tune")).json()
        here.hand.now_s += 90
        await here.client.get("/metrics")
        assert told("kmin_bytes") == found["recommendation"]["kmin_bytes"]
        assert told("gain_ratio") == found["recommendation"]["score"]
        assert told("age_seconds") == pytest.approx(90)
        assert told("pending") == (found["status"] == "pending")


async def test_changes_and_revisions_come_page_by_page() -> None:
    async with running() as here:
        names: list[str] = []
        for name in ("a", "b", "c"):
            names.append(name)
            hosts = [{"name": "h1"}, {"name": "h2"}]
            links = [
                {"a": host["name"], "b": name, "b_port": f"p{n}", "rate_gbps": 100, "delay_us": 1}
                for n, host in enumerate(hosts)
            ]
            declared = await here.client.put(
                "/v1/topology",
                json={"hosts": hosts, "switches": [{"name": one} for one in names], "links": links},
            )
            assert declared.status_code == 200, declared.text
        for path, items in (("/v1/audit", "entries"), ("/v1/revisions", "revisions")):
            pages = await paged(here, f"{path}?limit=1", items, "before")
            numbers = [one["number"] for page in pages for one in page]
            assert len(numbers) == 3
            assert numbers == sorted(numbers, reverse=True)
        switches = (await here.client.get("/v1/switches?limit=1")).json()
        assert [one["name"] for one in switches] == ["a"]
        named = (await here.client.get("/v1/switches?fields=name,drifted")).json()
        assert [sorted(one) for one in named] == [["drifted", "name"]] * len(named) != []
        assert (await here.client.get("/v1/switches?fields=nam")).status_code == 422
        others = (await here.client.get("/v1/switches?after=a")).json()
        assert [one["name"] for one in others] == ["b", "c"]
