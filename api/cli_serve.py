"""``ecntwin serve``: settings, checks, then uvicorn until it is told to stop."""

from __future__ import annotations

import logging
from pathlib import Path

import uvicorn

from api.app import create_app
from api.security import check_host
from api.service import load_topology
from api.settings import Settings
from api.settings_source import load_settings, override
from switches.registry import AdapterRegistry

_log = logging.getLogger("ecntwin.serve")


def serve(config: Path | None, host: str | None, port: int | None) -> None:
    """Serves until SIGINT or SIGTERM. Raises ``SettingsError`` before anything is opened."""
    settings = override(load_settings(config), host=host, port=port)
    check_host(settings.server.host, settings.security)
    load_topology(settings.fabric.topology)
    AdapterRegistry.with_installed().factory(settings.push.adapter)
    _configure_logging(settings)
    if not settings.security.tokens:
        _log.warning("no token is configured: anyone on this machine may call, and only this machine")
    uvicorn.Server(_configuration(settings)).run()


def _configuration(settings: Settings) -> uvicorn.Config:
    return uvicorn.Config(
        create_app(settings),
        host=settings.server.host,
        port=settings.server.port,
        access_log=settings.server.access_log,
        log_config=None,
        server_header=False,
        timeout_graceful_shutdown=settings.server.shutdown_grace_s,
    )


def _configure_logging(settings: Settings) -> None:
    logging.basicConfig(
        level=settings.log.level.upper(),
        format="%(asctime)s %(levelname)-7s %(name)s: %(message)s",
        force=True,
    )
