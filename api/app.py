"""The service's FastAPI application, the base it shares with the ingest process, and its OpenAPI document."""

from __future__ import annotations

import http
import json
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cache
from types import MappingProxyType
from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Response
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from prometheus_client import CollectorRegistry, ProcessCollector
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import BaseRoute
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from api import problems
from api.admission import Admission
from api.answers import REQUEST_ID, TAGGED, EntityTags, RequestIds, RequestTimes, SecurityHeaders
from api.deps import refuse_uninvited
from api.problems import MEDIA_TYPE, refuse_unknown_parameters
from api.routes import (
    alarms,
    audit,
    events,
    health,
    history,
    lossless,
    network,
    nics,
    page,
    recommendations,
    revisions,
    rollouts,
    switches,
    telemetry,
    whatif,
)
from service.events import Clocks
from service.ingest.process import IngestProcess
from service.service import Service
from settings.errors import ApiError, RequestError
from settings.model import Settings
from settings.version import ecntwin_version
from switches.registry import AdapterRegistry
from twin.search.problem import SearchSettings
from twin.workers.pool import Workers

_OPEN = frozenset({"/healthz", "/readyz"})
_BEARER = "bearer"

_LEAST_PACKED_BYTES = 1_024
_GZIP_LEVEL = 5  # of our JSON 6 takes half again as long for 2 % less, 9 four times for 3 to 5 %

# Besides those that follow from a call's parameters, body and path.
_MORE: Mapping[tuple[str, str], tuple[int, ...]] = {
    ("post", "/v1/telemetry/int"): (415,),
    ("post", "/v1/telemetry/counters"): (415,),
    ("get", "/v1/state"): (409,),
    ("get", "/v1/state/queues"): (409,),
    ("get", "/v1/fabric"): (409,),
    ("get", "/v1/fabric/{name}"): (409,),
    ("get", "/v1/flows"): (409,),
    ("post", "/v1/tune"): (409, 422, 503),
    ("post", "/v1/whatif"): (409, 503),
    ("get", "/v1/recommendations/current"): (404,),
    ("post", "/v1/recommendations/{recommendation_id}/approve"): (412, 428),
    ("get", "/v1/recommendations"): (404,),
    ("get", "/v1/recommendations/{recommendation_id}"): (503,),
    ("put", "/v1/topology"): (503,),
    ("get", "/v1/revisions"): (503,),
    ("get", "/v1/revisions/{number}"): (503,),
    ("get", "/v1/switches/{name}/hash"): (502,),
    ("post", "/v1/switches/{name}/hash"): (502,),
    ("get", "/v1/rollouts"): (404,),
    ("get", "/v1/alarms"): (404,),
    ("get", "/v1/nics"): (404,),
    ("get", "/v1/lossless"): (404,),
    ("put", "/v1/freeze"): (503,),
    ("get", "/v1/events"): (503,),
    ("get", "/v1/audit"): (503,),
    ("post", "/v1/alarms/silences"): (409, 503),
    ("get", "/v1/history/queues"): (503,),
    ("get", "/v1/history/forecast"): (404, 503),
    ("get", "/v1/history/residuals"): (503,),
    ("get", "/v1/history/advice"): (503,),
    ("get", "/v1/history/gains"): (503,),
    ("get", "/v1/history/alarms"): (503,),
    ("get", "/v1/recommendations/{recommendation_id}/outcome"): (503,),
}

_MEANS = {kind.status: (kind.__doc__ or "").splitlines()[0] for kind in RequestError.__subclasses__()}
_MEANS[502] = "A switch refused, or did not answer."
_TAGS = {
    "telemetry": "What switches and hosts report comes in here: INT reports and counters.",
    "topology": "The fabric as declared and as discovered, and earlier versions of it.",
    "state": "The network now: the last seconds of telemetry.",
    "recommendations": "Rounds, what they recommend and why, and the operator's decisions.",
    "rollouts": "How far changes have come on the switches, taking them back, and the stop switch.",
    "twin": "Predictions for watermarks of your own.",
    "switches": "What each switch runs, and what was set from here.",
    "nics": "What the NICs of hosts run, which the twin takes senders to run.",
    "alarms": "What is wrong now.",
    "access": "Who asked for which change.",
    "events": "Everything as it happens.",
    "history": "What was: queues, errors of the twin, gains, alarms, outcomes.",
    "health": "For probes, load balancers and Prometheus.",
}
_RETRY_AFTER = {
    "Retry-After": {
        "description": "After so many seconds it may be asked again.",
        "schema": {"type": "integer", "minimum": 1},
    }
}


def _text(description: str, *examples: str) -> dict[str, Any]:
    return {"type": "string", "description": description} | ({"examples": [*examples]} if examples else {})


_PARTS = {
    "where": _text("What is wrong: a field, a parameter, a resource.", "rollout '7'"),
    "received": {
        "type": ["string", "null"],
        "description": "What was received there; null where that was nothing, or says nothing.",
    },
    "rule": _text("What holds there.", "not found"),
    "remedy": _text("What to do.", "list them at /v1/rollouts"),
}
_ETAG = {"ETag": {"description": "Names this version of the document.", "schema": {"type": "string"}}}
_IF_NONE_MATCH = {
    "name": "If-None-Match",
    "in": "header",
    "required": False,
    "description": "Entity tags of documents that the caller has: 304 where this one is among them.",
    "schema": {"type": "string"},
}
_REQUEST_ID = {
    "name": REQUEST_ID,
    "in": "header",
    "required": False,
    "description": "Names the request in the answer, in problem documents and in the log; made where it is "
    "missing. Letters, digits, dot, dash and underscore, 64 at most.",
    "schema": {"type": "string"},
}
_PROBLEM = {
    "type": "object",
    "description": "What went wrong (RFC 9457), and the four parts of every error here.",
    "required": ["type", "title", "status", "detail", "where", "received", "rule", "remedy", "instance"],
    "properties": {
        "type": _text("The kind of problem, for programs.", "urn:ecntwin:problem:not-found"),
        "title": _text("The phrase of its status.", "Not Found"),
        "detail": _text("The four parts as one sentence."),
        "instance": _text("Path of the request.", "/v1/rollouts/7"),
        "request_id": _text("Id of the request, as in `X-Request-ID` and the log."),
        "status": {"type": "integer", "minimum": 400, "maximum": 599, "description": "The HTTP status."},
        **_PARTS,
        "notes": {
            "type": "array",
            "items": {"type": "string"},
            "description": "More sentences, where there are any.",
        },
        "errors": {
            "type": "array",
            "description": "The first mistakes of a body or query, where it has several.",
            "items": {
                "type": "object",
                "required": ["where", "received", "rule", "remedy"],
                "properties": _PARTS,
                "additionalProperties": False,
            },
        },
        "error_count": {"type": "integer", "minimum": 1, "description": "How many mistakes there are."},
    },
    "additionalProperties": False,
}


def _install_openapi(app: FastAPI) -> None:
    """Completes the OpenAPI document with error responses and bearer tokens, and replaces its route.

    The error statuses of a call follow from its parameters, body and path, and from the table ``_MORE``.
    """

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            made = get_openapi(
                title=app.title,
                version=app.version,
                description=app.description,
                routes=app.routes,
                tags=app.openapi_tags,
                servers=[{"url": "/", "description": "The service that answers this."}],
            )
            app.openapi_schema = _completed(made)
        return app.openapi_schema

    @cache
    def written() -> bytes:
        return json.dumps(document()).encode()

    def answer() -> Response:  # in a thread: the document takes half a second to make
        return Response(written(), media_type="application/json")

    app.openapi = document  # type: ignore[method-assign]  # FastAPI's documented way to change it
    # FastAPI's own route would serialise it for each call: milliseconds of the event loop.
    app.add_api_route("/openapi.json", answer, methods=["GET", "HEAD"], include_in_schema=False)


def _completed(document: dict[str, Any]) -> dict[str, Any]:
    components = document["components"]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            answers = operation["responses"]
            answers.pop("422", None)  # FastAPI's own response, which is never sent
            for answer in answers.values():
                if answer["description"] == "Successful Response":  # FastAPI's
                    answer["description"] = _said_of(answer, components["schemas"])
            for status in sorted(set(_statuses(method, path, operation))):
                answers.setdefault(str(status), _answer(status))
            if (
                method == "get"
                and path.startswith(TAGGED)
                and "application/json" in answers["200"]["content"]
            ):
                answers["200"].setdefault("headers", {}).update(_ETAG)
                answers["304"] = {"description": "Not Modified. The document is the one of `If-None-Match`."}
                operation.setdefault("parameters", []).append(_IF_NONE_MATCH)
            operation.setdefault("parameters", []).append(_REQUEST_ID)
            if path not in _OPEN:
                operation["security"] = [{_BEARER: []}]
    components["securitySchemes"] = {
        _BEARER: {
            "type": "http",
            "scheme": "bearer",
            "description": "Asked for where one is configured; else the service listens on loopback only.",
        }
    }
    schemas = components["schemas"]
    schemas["Problem"] = _PROBLEM
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    return document


def _said_of(answer: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    """The first paragraph of the description of the document that a response holds."""
    named: str = answer["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
    said: str = schemas[named]["description"]
    return " ".join(said.partition("\n\n")[0].split())


def _statuses(method: str, path: str, operation: Mapping[str, Any]) -> Iterator[int]:
    if path not in _OPEN:
        yield from (401, 403, 429)
    if "requestBody" in operation:
        yield from (400, 408, 413, 422)
    if operation.get("parameters"):
        yield 422
    if re.search(r"\{\w+\}", path):
        yield 404
        if method != "get":
            yield from (409, 503)
    yield from _MORE.get((method, path), ())


def _answer(status: int) -> dict[str, Any]:
    described: dict[str, Any] = {
        "description": f"{http.HTTPStatus(status).phrase}. {_MEANS[status]}",
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    if status in (429, 503):
        described["headers"] = _RETRY_AFTER
    return described


def _operation_id(route: APIRoute) -> str:
    return route.name


_CHECKED_FIRST = [Depends(refuse_uninvited), Depends(refuse_unknown_parameters)]


class Application(FastAPI):
    """Problem documents, admission and security headers; its lifespan sets ``state.access``."""

    def __init__(
        self,
        settings: Settings,
        *,
        title: str,
        description: str = "",
        tags: Mapping[str, str] = MappingProxyType({}),
        lifespan: Callable[[Any], AbstractAsyncContextManager[None]],
    ) -> None:
        super().__init__(
            title=title,
            description=description,
            version=ecntwin_version(),
            lifespan=lifespan,
            openapi_url=None,  # ``_install_openapi`` adds it
            docs_url=None,  # FastAPI's loads its viewer from a CDN
            redoc_url=None,
            openapi_tags=[{"name": name, "description": text} for name, text in tags.items()],
            generate_unique_id_function=_operation_id,
            redirect_slashes=False,  # redirects would go to the Host that the client sends
            dependencies=_CHECKED_FIRST,
        )
        self._hsts_s = settings.server.hsts_s
        self.state.settings = settings
        problems.install(self)
        _install_openapi(self)
        self.add_middleware(EntityTags)
        self.add_middleware(GZipMiddleware, minimum_size=_LEAST_PACKED_BYTES, compresslevel=_GZIP_LEVEL)
        self.add_middleware(Admission, allowed=refuse_uninvited, stalled_s=settings.server.client_timeout_s)

    def build_middleware_stack(self) -> ASGIApp:
        """Outermost, so that Starlette's own 500 has the headers too."""
        headed = SecurityHeaders(super().build_middleware_stack(), hsts_s=self._hsts_s)
        return RequestTimes(RequestIds(headed))


@asynccontextmanager
async def started(app: FastAPI, work: Service | IngestProcess) -> AsyncIterator[None]:
    """Runs the service inside the block; ``app.state.failed`` says why it could not start."""
    try:
        await work.start()
        yield
    except ApiError as error:  # an error at start-up; errors of requests are answered
        app.state.failed = error
        raise
    finally:
        await work.stop()


_DESCRIPTION = """
INT reports in, ECN watermarks out. Errors are RFC 9457 problem documents that say where, what was received,
the rule and the remedy. Bearer tokens hold the scopes `telemetry`, `read`, `operate`, `admin`; without a
configured token the service listens on loopback only and asks for none. Lists come page by page: pass
`next` as `before` or `after`. Every answer names its request (`X-Request-ID`), and every document its
version (`ETag`).
"""


def create_app(
    settings: Settings,
    *,
    registry: CollectorRegistry | None = None,
    clocks: Clocks | None = None,
    workers: Workers | None = None,
    adapters: AdapterRegistry | None = None,
    search: SearchSettings | None = None,
) -> FastAPI:
    """The application and its service, which runs from start-up to shut-down.

    Tests replace the metric registry, clocks, worker pool, adapters, and the search settings.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service = Service(
            settings,
            registry=registry or _registry(),
            clocks=clocks or Clocks(),
            workers=workers,
            adapters=adapters,
            search=search,
        )
        app.state.service = service
        app.state.access = service.access
        async with started(app, service):
            yield

    app = Application(settings, title="ecntwin", description=_DESCRIPTION, tags=_TAGS, lifespan=lifespan)
    app.router.routes.extend(_routes())
    app.mount("/assets", StaticFiles(directory=page.dashboard()), name="assets")
    app.mount("/docs/assets", StaticFiles(directory=page.reference()), name="reference")
    return app


@cache
def _routes() -> Sequence[BaseRoute]:
    """The routes of a service. Made once: FastAPI resolves their parameters at their first call."""
    router = APIRouter(dependencies=_CHECKED_FIRST, generate_unique_id_function=_operation_id)
    for routes in (
        telemetry,
        network,
        recommendations,
        revisions,
        rollouts,
        whatif,
        switches,
        nics,
        lossless,
        alarms,
        audit,
        events,
        history,
        health,
        page,
    ):
        router.include_router(routes.router)
    return router.routes


def _registry() -> CollectorRegistry:
    """A registry with the process's memory, CPU time and files (Linux)."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    return registry
