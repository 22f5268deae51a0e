"""A FastAPI application as every server of this package is one: problems, callers and headers; no routes.

Makes the HTTP application; nothing is made by importing this module.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from fastapi import Depends, FastAPI
from prometheus_client import CollectorRegistry, ProcessCollector
from starlette.types import ASGIApp

from api import openapi, problems
from api.admission import Admission, SecurityHeaders
from api.deps import refuse_uninvited
from api.problems import refuse_unknown_parameters
from api.routes import (
    alarms,
    audit,
    datagrams,
    events,
    health,
    history,
    page,
    recommendations,
    reference,
    revisions,
    rollouts,
    state,
    switches,
    telemetry,
    topology,
    whatif,
)
from service.events import Clocks
from service.service import Service
from settings.errors import ApiError
from settings.model import Settings
from settings.version import ecntwin_version
from switches.registry import AdapterRegistry
from twin.search.problem import SearchSettings
from twin.workers.pool import Workers


class Application(FastAPI):
    """Whoever starts it sets ``state.access``. Every answer has the security headers."""

    def __init__(
        self,
        settings: Settings,
        *,
        title: str,
        description: str = "",
        lifespan: Callable[[Any], AbstractAsyncContextManager[None]],
    ) -> None:
        super().__init__(
            title=title,
            description=description,
            version=ecntwin_version(),
            lifespan=lifespan,
            openapi_url=None,  # ``openapi.install`` has one
            docs_url=None,  # FastAPI's own loads its viewer from elsewhere
            redoc_url=None,
            redirect_slashes=False,  # its redirects lead to whatever host a client names
            dependencies=[Depends(refuse_uninvited), Depends(refuse_unknown_parameters)],
        )
        self._hsts_s = settings.server.hsts_s
        self.state.settings = settings
        problems.install(self)
        openapi.install(self)
        self.add_middleware(Admission, allowed=refuse_uninvited, stalled_s=settings.server.client_timeout_s)

    def build_middleware_stack(self) -> ASGIApp:
        """Around all of it: what answers where all else failed is in there too."""
        return SecurityHeaders(super().build_middleware_stack(), hsts_s=self._hsts_s)


_DESCRIPTION = """
INT reports in, ECN watermarks out. Errors are RFC 9457 problem documents that say where, what was received,
the rule and the remedy. Bearer tokens hold the scopes `telemetry`, `read`, `operate`, `admin`; without a
configured token the service listens on loopback only and asks for none.
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
    """The application over its own service, which lives from start-up to shut-down.

    Whatever touches the world may be given: metric registry, clocks, worker pool, adapter kinds; ``search``
    replaces what the settings say of the search's budget.
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
        try:
            await service.start()
            yield
        except ApiError as error:  # of the start: a request's own never come this far
            app.state.failed = error
            raise
        finally:
            await service.stop()

    app = Application(settings, title="ecntwin", description=_DESCRIPTION, lifespan=lifespan)
    for routes in (
        telemetry,
        datagrams,
        topology,
        state,
        recommendations,
        revisions,
        rollouts,
        whatif,
        switches,
        alarms,
        audit,
        events,
        history,
        health,
        page,
        reference,
    ):
        app.include_router(routes.router)
    app.mount("/assets", page.assets(), name="assets")
    app.mount("/docs/assets", reference.assets(), name="reference")
    return app


def _registry() -> CollectorRegistry:
    """A new one, with what this process itself takes: memory, processor time, files (Linux)."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    return registry
