"""The service's FastAPI application, and the base it shares with the ingest process."""

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
    events,
    health,
    history,
    page,
    recommendations,
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
    """Problem documents, admission and security headers; its lifespan sets ``state.access``."""

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
            openapi_url=None,  # ``openapi.install`` adds it
            docs_url=None,  # FastAPI's loads its viewer from a CDN
            redoc_url=None,
            redirect_slashes=False,  # redirects would go to the Host that the client sends
            dependencies=[Depends(refuse_uninvited), Depends(refuse_unknown_parameters)],
        )
        self._hsts_s = settings.server.hsts_s
        self.state.settings = settings
        problems.install(self)
        openapi.install(self)
        self.add_middleware(Admission, allowed=refuse_uninvited, stalled_s=settings.server.client_timeout_s)

    def build_middleware_stack(self) -> ASGIApp:
        """Outermost, so that Starlette's own 500 has the headers too."""
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
        try:
            await service.start()
            yield
        except ApiError as error:  # of the start; requests' errors are answered
            app.state.failed = error
            raise
        finally:
            await service.stop()

    app = Application(settings, title="ecntwin", description=_DESCRIPTION, lifespan=lifespan)
    for routes in (
        telemetry,
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
    ):
        app.include_router(routes.router)
    app.mount("/assets", page.assets(), name="assets")
    app.mount("/docs/assets", page.reference_assets(), name="reference")
    return app


def _registry() -> CollectorRegistry:
    """A registry with the process's memory, CPU time and files (Linux)."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    return registry
