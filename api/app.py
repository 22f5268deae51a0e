"""Makes the HTTP application; nothing is made by importing this module."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from prometheus_client import CollectorRegistry, ProcessCollector

from api.application import Application
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
from service.clocks import Clocks
from service.service import Service
from settings.errors import ApiError
from settings.model import Settings
from switches.registry import AdapterRegistry
from twin.search.problem import SearchSettings
from twin.workers.pool import Workers

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
