"""Dependencies of routes: the service, a caller with a scope, no cross-site requests, cancelled work.

Large answers are built and serialised in a thread, so that the event loop stays free.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import Executor
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, Any, TypeVar, get_args, get_origin

from fastapi import Depends, Path, Query, Request, Response
from pydantic import BaseModel

from api.admission import caller_of
from api.origins import SAFE_METHODS, refuse_cross_site, refuse_foreign_names, refuse_foreign_origins
from service.auth.audit import Audit
from service.service import Service
from settings.errors import ForbiddenError, SettingsError, UnprocessableError
from settings.security import Caller, Scope, SecuritySettings
from settings.validation import is_loopback


@dataclass(frozen=True, slots=True)
class Requires:
    """A dependency that returns the caller if it holds ``scope``."""

    scope: Scope

    async def __call__(self, request: Request) -> Caller:
        """Raises a ``RequestError`` if the caller may not."""
        refuse_cross_site(request)
        caller = caller_of(request)
        if caller.kind == "local":
            refuse_foreign_names(request)
            refuse_foreign_origins(request)
        if self.scope not in caller.scopes:
            error = ForbiddenError(
                f"{request.method} {request.url.path}",
                f"token {caller.name!r} with scopes {', '.join(sorted(caller.scopes)) or 'none'}",
                f"this call needs the scope {self.scope}",
                "use a token that holds it",
            )
            audit: Audit | None = request.app.state.access.audit
            if (
                audit is not None
                and request.method not in SAFE_METHODS
                and self.scope in ("operate", "admin")
            ):
                audit.refused(caller, f"{request.method} call", request.url.path, error)
            raise error
        return caller


async def refuse_uninvited(request: Request) -> None:
    """Checks the caller before the request is validated: others learn nothing about its contents."""
    dependant = getattr(request.scope.get("route"), "dependant", None)
    for needed in [] if dependant is None else dependant.dependencies:
        if isinstance(needed.call, Requires):
            await needed.call(request)


def check_host(host: str, security: SecuritySettings, *, stored: bool = False) -> None:
    """Raises ``SettingsError`` if the service would listen beyond loopback without any token.

    ``stored``: the database holds tokens.
    """
    if security.tokens or security.oidc is not None or stored or is_loopback(host):
        return
    raise SettingsError(
        "server host",
        repr(host),
        "without a token the service listens on loopback only",
        "make one with ecntwin token create, or configure a token in security.tokens, or use 127.0.0.1",
    )


def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


ServiceDep = Annotated[Service, Depends(_service)]
RecommendationId = Annotated[
    str, Path(description="Id of a recommendation.", examples=["20261122T213049-12"])
]
RolloutId = Annotated[str, Path(description="Id of a rollout.")]
PostsTelemetry = Annotated[Caller, Depends(Requires("telemetry"))]
Reads = Annotated[Caller, Depends(Requires("read"))]
Operates = Annotated[Caller, Depends(Requires("operate"))]
Administers = Annotated[Caller, Depends(Requires("admin"))]


T = TypeVar("T")


async def unless_gone(request: Request, work: Coroutine[Any, Any, T]) -> T | None:
    """Runs ``work``; cancels it and returns None if the client disconnects. The body must have been read."""
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        for task in (working, leaving):
            task.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


Fields = Annotated[
    str | None,
    Query(
        description="Only these fields of the document, their names separated by commas, such as `id,status`;"
        " of documents in it `outer.inner`, such as `switches.progress`."
    ),
]


def fields_of(kind: type[BaseModel], names: str | None) -> dict[str, Any] | None:
    """The model's fields with these names, separated by commas, in the form of pydantic's ``include``; None:
    all.

    ``outer.inner`` is a field of the document, or of each document, in ``outer``. Raises
    ``UnprocessableError`` for an unknown name.
    """
    if names is None:
        return None
    wanted: dict[str, Any] = {}
    for name in names.split(","):
        outer, _, inner = name.partition(".")
        within = _documents_in(kind, outer) if inner else None
        if within is None:
            wanted[_field_of(kind, name)] = True
            continue
        of, is_list = within
        part = wanted.setdefault(_field_of(kind, outer), {"__all__": {}} if is_list else {})
        if part is not True:  # else the whole of ``outer`` is wanted
            (part["__all__"] if is_list else part)[_field_of(of, inner, f"{outer}.")] = True
    return wanted


def _field_of(kind: type[BaseModel], name: str, before: str = "") -> str:
    """The model's field of this name; ``before`` is the part of the query value in front of it."""
    known = _by_name(kind)
    if name not in known:
        near = get_close_matches(name, known, n=1)
        raise UnprocessableError(
            "query parameter 'fields'",
            repr(f"{before}{name}"[:80]),
            f"fields of this document are {', '.join(f'{before}{one}' for one in known)}",
            f"did you mean {before}{near[0]}?" if near else "leave it out",
        )
    return known[name]


def _by_name(kind: type[BaseModel]) -> dict[str, str]:
    return {info.serialization_alias or name: name for name, info in kind.model_fields.items()}


def _documents_in(kind: type[BaseModel], name: str) -> tuple[type[BaseModel], bool] | None:
    """The document class that a field holds, and whether it holds a list of them; None: neither."""
    field = _by_name(kind).get(name)
    annotation: Any = None if field is None else kind.model_fields[field].annotation
    for one in (annotation, *get_args(annotation)):
        is_list = get_origin(one) is list
        item = get_args(one)[0] if is_list else one
        if isinstance(item, type) and issubclass(item, BaseModel):
            return item, is_list
    return None


async def json_answer(
    thread: Executor, make: Callable[[], BaseModel], *, fields: str | None = None
) -> Response:
    """Builds the document with ``make`` in a thread; only ``fields`` of it are sent, as in ``Fields``."""

    def text() -> bytes:
        document = make()
        if fields is None:
            return written(document)
        return document.model_dump_json(by_alias=True, include=fields_of(type(document), fields)).encode()

    return Response(await made_in(thread, text), media_type="application/json")


async def made_in(thread: Executor, make: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(thread, make)


def written(document: BaseModel) -> bytes:
    """A document as JSON; its lists of documents come last, item by item, since pydantic holds the GIL."""
    lists = {
        name: value
        for name, value in document
        if isinstance(value, list) and value and isinstance(value[0], BaseModel)
    }
    parts = [document.model_dump_json(by_alias=True, exclude=set(lists)).removesuffix("}")]
    for name, value in lists.items():
        comma = "" if parts == ["{"] else ","
        parts.append(f'{comma}"{name}":{json_list(value)}')
    return "".join([*parts, "}"]).encode()


def json_list(documents: Iterable[BaseModel], fields: dict[str, Any] | None = None) -> str:
    """A JSON list of documents with only ``fields`` of each (as returned by ``fields_of``).

    They are serialised one by one, since pydantic holds the GIL.
    """
    return f"[{','.join(one.model_dump_json(by_alias=True, include=fields) for one in documents)}]"
