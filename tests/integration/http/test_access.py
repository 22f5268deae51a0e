"""Who may call what, and the ways in that a browser must not open."""

from __future__ import annotations

import re
import threading
from collections.abc import AsyncIterator
from hashlib import sha256
from typing import Any

import httpx
import pytest
from fastapi.openapi.utils import get_openapi

from tests.integration.service import TOPOLOGY, Running, Wanted, manual, report, running

pytestmark = pytest.mark.anyio

SCOPES = ("telemetry", "read", "operate", "admin")
CALLS = {
    ("POST", "/v1/telemetry/int"): "telemetry",
    ("POST", "/v1/telemetry/counters"): "telemetry",
    ("GET", "/v1/telemetry/udp"): "telemetry",
    ("GET", "/v1/topology"): "read",
    ("PUT", "/v1/topology"): "admin",
    ("GET", "/v1/revisions"): "admin",
    ("GET", "/v1/revisions/x"): "admin",
    ("GET", "/v1/state"): "read",
    ("GET", "/v1/flows"): "read",
    ("POST", "/v1/tune"): "operate",
    ("GET", "/v1/advice"): "read",
    ("GET", "/v1/recommendations"): "read",
    ("GET", "/v1/recommendations/current"): "read",
    ("GET", "/v1/recommendations/x"): "read",
    ("POST", "/v1/recommendations/x/approve"): "operate",
    ("POST", "/v1/recommendations/x/reject"): "operate",
    ("POST", "/v1/whatif"): "read",
    ("GET", "/v1/state/queues"): "read",
    ("GET", "/v1/fabric"): "read",
    ("GET", "/v1/nics"): "read",
    ("GET", "/v1/lossless"): "read",
    ("GET", "/v1/fabric/x"): "read",
    ("GET", "/v1/switches"): "read",
    ("GET", "/v1/switches/x"): "read",
    ("POST", "/v1/switches/x/adopt"): "operate",
    ("GET", "/v1/switches/x/hash"): "read",
    ("POST", "/v1/switches/x/hash"): "operate",
    ("GET", "/v1/rollouts"): "read",
    ("GET", "/v1/rollouts/x"): "read",
    ("POST", "/v1/rollouts/x/rollback"): "operate",
    ("POST", "/v1/rollouts/x/give-up"): "operate",
    ("GET", "/v1/freeze"): "read",
    ("PUT", "/v1/freeze"): "operate",
    ("GET", "/v1/alarms"): "read",
    ("POST", "/v1/alarms/x/ack"): "operate",
    ("DELETE", "/v1/alarms/x/ack"): "operate",
    ("GET", "/v1/alarms/silences"): "read",
    ("POST", "/v1/alarms/silences"): "operate",
    ("DELETE", "/v1/alarms/silences/x"): "operate",
    ("GET", "/v1/audit"): "admin",
    ("GET", "/v1/history/queues"): "read",
    ("GET", "/v1/condition"): "read",
    ("GET", "/v1/history/forecast"): "read",
    ("GET", "/v1/history/residuals"): "read",
    ("GET", "/v1/history/advice"): "read",
    ("GET", "/v1/history/gains"): "read",
    ("GET", "/v1/history/alarms"): "read",
    ("GET", "/v1/recommendations/x/outcome"): "read",
    ("GET", "/v1/events"): "read",
    ("GET", "/v1/readiness"): "read",
    ("GET", "/metrics"): "read",
}
OPEN = {"/", "/healthz", "/readyz", "/docs", "/openapi.json", "/assets/page.js"}
TOKENS = [
    {"name": scope, "sha256": sha256(scope.encode()).hexdigest(), "scopes": [scope]} for scope in SCOPES
]


@pytest.fixture(scope="module")
async def guarded() -> AsyncIterator[Running]:
    """No call of these tests changes it."""
    async with running(
        Wanted(settings=manual(security={"tokens": TOKENS, "failures_per_min": 1_000_000}))
    ) as started:
        yield started


@pytest.fixture(scope="module")
async def unguarded() -> AsyncIterator[Running]:
    """No call of these tests changes it."""
    async with running() as started:
        yield started


def test_the_table_of_calls_is_complete() -> None:
    from api.app import create_app

    paths = create_app(manual()).openapi()["paths"]
    listed = {
        (method.upper(), re.sub(r"\{\w+\}", "x", path))
        for path, methods in paths.items()
        for method in methods
    }
    assert listed == CALLS.keys() | {("GET", "/healthz"), ("GET", "/readyz")}


@pytest.mark.parametrize(("call", "needed"), CALLS.items())
async def test_each_call_asks_for_its_scope(guarded: Running, call: tuple[str, str], needed: str) -> None:
    method, path = call
    nobody = await guarded.client.request(method, path)
    assert nobody.status_code == 401
    assert nobody.headers["www-authenticate"] == "Bearer"
    for scope in SCOPES:
        if scope == needed and path == "/v1/events":
            continue  # an endless answer; the end-to-end test reads it
        answer = await guarded.client.request(method, path, headers={"Authorization": f"Bearer {scope}"})
        assert (answer.status_code == 403) == (scope != needed), answer.text
        if scope != needed:
            assert f"scope {needed}" in answer.json()["rule"]


@pytest.mark.parametrize("path", sorted(OPEN))
async def test_the_page_health_and_docs_are_open(guarded: Running, path: str) -> None:
    assert (await guarded.client.get(path)).status_code in (200, 503)


async def test_a_token_with_several_scopes_does_several_things() -> None:
    both = [{"name": "both", "sha256": sha256(b"b").hexdigest(), "scopes": ["telemetry", "admin"]}]
    async with running(Wanted(settings=manual(security={"tokens": both}))) as here:
        here.client.headers["Authorization"] = "Bearer b"
        assert (await here.client.put("/v1/topology", json=TOPOLOGY)).status_code == 200
        assert (await here.post_reports([report(0)]))["accepted"] == 1


HEADERS = {
    "content-security-policy": "default-src 'self'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "permissions-policy": "camera=()",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/", 200),
        ("/assets/icon.svg", 200),
        ("/docs", 200),
        ("/docs/assets/reference.js", 200),
        ("/openapi.json", 200),
        ("/healthz", 200),
        ("/v1/topology", 401),
        ("/v1/nothing", 404),
        ("/nothing", 404),
        ("/assets/nothing", 404),
    ],
)
async def test_every_answer_has_the_security_headers(guarded: Running, path: str, status: int) -> None:
    answer = await guarded.client.get(path)
    assert answer.status_code == status
    for name, value in HEADERS.items():
        assert answer.headers[name].startswith(value)
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert "strict-transport-security" not in answer.headers, "this is not TLS"
    kept = "no-store" if path.startswith("/v1") else "no-cache"
    assert answer.headers["cache-control"] == kept


async def test_over_tls_browsers_are_told_to_stay_there(guarded: Running) -> None:
    answer = await guarded.client.get("https://127.0.0.1/healthz")
    assert answer.headers["strict-transport-security"] == "max-age=31536000"
    async with running(Wanted(settings=manual(server={"hsts_s": 0}))) as here:
        plain = await here.client.get("https://127.0.0.1/healthz")
        assert "strict-transport-security" not in plain.headers


async def test_the_reference_loads_nothing_from_elsewhere(guarded: Running) -> None:
    page = await guarded.client.get("/docs")
    assert "http" not in page.text
    for name in re.findall(r'(?:src|href)="([^"]+)"', page.text):
        assert (await guarded.client.get(name)).status_code == 200
    assert "<script>" not in page.text
    assert "style=" not in page.text


async def test_a_decision_carries_the_name_of_the_token(guarded: Running) -> None:
    answer = await guarded.client.post(
        "/v1/recommendations/x/approve", headers={"Authorization": "Bearer read"}
    )
    assert "token 'read' with scopes read" in answer.json()["received"]


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_another_sites_page_may_not_act(unguarded: Running, site: str) -> None:
    answer = await unguarded.client.post("/v1/tune", headers={"Sec-Fetch-Site": site})
    assert answer.status_code == 403
    own = {"Sec-Fetch-Site": "same-origin"}
    assert (await unguarded.client.post("/v1/tune", headers=own)).status_code == 409


@pytest.mark.parametrize("origin", ["http://evil.example", "http://127.0.0.1:9999", "null"])
async def test_nor_may_it_where_the_browser_tells_its_origin_alone(unguarded: Running, origin: str) -> None:
    assert (await unguarded.client.post("/v1/tune", headers={"Origin": origin})).status_code == 403
    own = {"Origin": "http://127.0.0.1"}
    assert (await unguarded.client.post("/v1/tune", headers=own)).status_code == 409


@pytest.mark.parametrize(("call", "needed"), CALLS.items())
async def test_who_may_not_call_is_told_nothing_of_the_calls_parameters(
    guarded: Running, call: tuple[str, str], needed: str
) -> None:
    method, path = call
    other = "operate" if needed == "read" else "read"
    for authorization, status in (("", 401), ("Bearer nobody", 401), (f"Bearer {other}", 403)):
        headers = {"Authorization": authorization, "Content-Type": "application/json"}
        for query in ("?nothing=1", "?limit=x&most=x&span_s=x&since=x&port=x"):
            told = await guarded.client.request(method, path + query, headers=headers)
            assert told.status_code == status, told.text
        for body in (b"{", b"[1]", b'{"frozen": 1, "x": 2}'):
            told = await guarded.client.request(method, path, headers=headers, content=body)
            assert told.status_code == status, told.text


async def test_no_answer_leads_to_the_host_that_a_client_names(guarded: Running) -> None:
    reader = {"Authorization": "Bearer read"}
    for path in ("/v1/freeze/", "/v1/switches/", "/healthz/", "/docs/", "/assets", "/docs/assets"):
        answer = await guarded.client.get(path, headers=reader | {"Host": "evil.example"})
        assert answer.status_code == (200 if path == "/docs/" else 404)
        assert "location" not in answer.headers
        assert "evil" not in answer.text
    lost = await guarded.client.get("/v1/freeze/", headers=reader)
    assert lost.json()["remedy"] == "leave out the slash at its end"


HOSTS = {
    "127.0.0.1": 200,
    "127.0.0.1:8080": 200,
    "localhost": 200,
    "LOCALHOST:1": 200,
    "[::1]": 200,
    "[::1]:8080": 200,
    "127.9.9.9": 200,
    "": 403,
    "rebound.example": 403,
    "127.0.0.1@evil.example": 403,
    "evil.example@127.0.0.1": 403,
    "127.0.0.1.evil.example": 403,
    "127.0.0.1/evil.example": 403,
    "127.0.0.1#evil.example": 403,
    "127.0.0.1,evil.example": 403,
    "127.0.0.1:": 403,
    "127.0.0.1:8080:1": 403,
    "127.0.0.1:x": 403,
    "[127.0.0.1]": 403,
    "[::1": 403,
    "::1": 403,
    "localhost.": 403,
    "[::1%25lo]": 403,
    "2130706433": 403,
    "0x7f.1": 403,
}


@pytest.mark.parametrize(("host", "status"), HOSTS.items())
async def test_without_tokens_only_loopback_names_are_answered(
    unguarded: Running, host: str, status: int
) -> None:
    answer = await unguarded.client.get("/v1/topology", headers={"Host": host})
    assert answer.status_code == status
    assert status == 200 or repr(host) in answer.json()["detail"]


async def test_without_tokens_one_host_is_named_and_probes_need_name_none() -> None:
    async with running() as here:
        twice = [("Host", "127.0.0.1"), ("Host", "evil.example")]
        request = httpx.Request("GET", "http://127.0.0.1/v1/topology", headers=twice)
        assert (await here.client.send(request)).status_code == 403
        for path, status in (("/v1/topology", 403), ("/healthz", 200)):
            probe = httpx.Request("GET", f"http://127.0.0.1{path}")
            del probe.headers["Host"]
            assert (await here.client.send(probe)).status_code == status


async def test_without_tokens_a_foreign_host_name_is_refused() -> None:
    async with running() as here:
        answer = await here.client.get("/v1/topology", headers={"Host": "rebound.example"})
        assert answer.status_code == 403
        assert answer.headers["content-type"] == "application/problem+json"
        for host in ("localhost:8080", "127.0.0.1", "[::1]:8080"):
            assert (await here.client.get("/v1/topology", headers={"Host": host})).status_code == 200


async def test_paths_and_methods_nobody_serves_are_problems() -> None:
    async with running() as here:
        lost = await here.client.get("/v1/nothing")
        assert lost.status_code == 404
        assert "/docs" in lost.json()["rule"]
        wrong = await here.client.delete("/v1/state")
        assert wrong.status_code == 405
        assert wrong.headers["Allow"] == "GET"
        assert "GET" in wrong.json()["rule"]
        for answer in (lost, wrong):
            assert answer.headers["content-type"] == "application/problem+json"


async def test_the_openapi_document_is_made_when_asked_for_and_not_on_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made_in: list[int] = []

    def noted(**said: Any) -> dict[str, Any]:
        made_in.append(threading.get_ident())
        return get_openapi(**said)

    monkeypatch.setattr("api.app.get_openapi", noted)
    async with running() as here:
        assert made_in == []
        assert (await here.client.get("/openapi.json")).status_code == 200
    assert len(made_in) == 1
    assert threading.get_ident() not in made_in


async def test_an_unknown_query_parameter_is_told_those_that_are_documented() -> None:
    async with running() as here:
        told = {call: await here.client.request(*call, params="y=1") for call in CALLS if "/v1/" in call[1]}
        assert here.app.openapi_schema is None  # to make it takes the event loop half a second
        documented = {
            re.sub(r"{\w+}", "x", path): calls for path, calls in here.app.openapi()["paths"].items()
        }
        for (method, path), answer in told.items():
            parameters = documented[path][method.lower()].get("parameters", ())
            known = sorted(one["name"] for one in parameters if one["in"] == "query")
            assert answer.status_code == 422, (method, path)
            assert answer.json()["rule"] == (
                f"not known; known here are {', '.join(known)}"
                if known
                else "this call takes no query parameters"
            )


async def test_an_error_of_our_own_is_a_500_without_a_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running() as here:

        def explode() -> None:
            raise RuntimeError("secret detail")

        monkeypatch.setattr(here.service.store, "current", explode)
        answer = await here.client.get("/v1/recommendations/current")
        assert answer.status_code == 500
        assert answer.headers["content-type"] == "application/problem+json"
        assert "secret detail" not in answer.text
        assert "Traceback" not in answer.text
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert (await here.client.get("/healthz")).json()["status"] == "ok"


async def test_the_page_loads_nothing_from_elsewhere() -> None:
    async with running() as here:
        page = await here.client.get("/")
        assert "default-src 'self'" in page.headers["content-security-policy"]
        assert "https://" not in page.text
        loaded = re.findall(r'<(?:script|link)\b[^>]*\b(?:src|href)="([^"]+)"', page.text)
        assert any(name.endswith(".js") for name in loaded)
        for name in loaded:
            assert ":" not in name
            assert (await here.client.get(f"/{name.lstrip('/')}")).status_code == 200
