"""``ecntwin serve``: settings, checks, then uvicorn until it is told to stop."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from types import FrameType

from fastapi import FastAPI

from api.app import create_app
from api.certificates import ServerTls
from api.deps import check_host
from api.listening import ListeningServer
from cli.serving import prepare
from service.adapter_check import check_inventory
from service.auth.kept import holds_tokens
from service.domain import load_topology
from settings.errors import UnavailableError
from settings.inventory import load_inventory
from settings.load import load_settings, override
from settings.logging import configure_logging
from settings.model import Settings
from settings.state_folder import with_storage
from store.database import Database
from switches.errors import InventoryError
from switches.registry import AdapterRegistry

_log = logging.getLogger("ecntwin.serve")


def serve(config: Path | None, host: str | None, port: int | None) -> None:
    """Serves until SIGINT or SIGTERM, then exits 0.

    Raises ``SettingsError`` before anything is opened, and ``ApiError`` where the journal cannot be taken up.
    """
    settings = with_storage(override(load_settings(config), host=host, port=port))
    stored = holds_tokens(settings.storage.database)
    check_host(settings.server.host, settings.security, stored=stored)
    tls = ServerTls.of(settings.server)
    load_topology(settings.fabric.topology)
    _check_switches(settings)
    configure_logging(settings.log.level)
    _check_storage(settings)
    if not settings.security.tokens and settings.security.oidc is None and not stored:
        _log.warning("no token is configured: anyone on this machine may call, and only this machine")
    prepare()
    app = create_app(settings)
    app.openapi()  # worked out once: else the first call with a query would keep all others waiting
    # What keeps the service from starting is told in a sentence, by whoever tells all errors.
    logging.getLogger("uvicorn.error").addFilter(lambda record: not hasattr(app.state, "failed"))
    try:
        _Server(app, settings, tls).run()
    finally:
        if (failed := getattr(app.state, "failed", None)) is not None:
            raise failed


def _check_storage(settings: Settings) -> None:
    """Raises ``SettingsError`` for what no waiting mends; what is away now may come back, says the log."""
    database = Database(settings.storage.database)
    try:
        database.open()
    except UnavailableError as error:
        _log.error("%s: the service starts without it", error)
    finally:
        database.close()


def _check_switches(settings: Settings) -> None:
    """Raises ``InventoryError`` for what is wrong with it: the first mistake, and how many there are."""
    registry = AdapterRegistry.with_installed()
    registry.factory(settings.push.adapter)
    if settings.push.inventory is None:
        return
    problems = check_inventory(load_inventory(settings.push.inventory), registry, clock_ns=time.time_ns)
    if problems:
        first, others = problems[0], len(problems) - 1
        more = f" ({others} more: ecntwin check-config lists them)" if others else ""
        raise InventoryError(first.where, first.received, first.rule, first.remedy + more)


class _Server(ListeningServer):
    """Tells the service that it stops before waiting for connections: event streams never end."""

    def __init__(self, app: FastAPI, settings: Settings, tls: ServerTls | None) -> None:
        super().__init__(app, settings.server, tls)
        self._app = app

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Runs where a signal arrives, so it only leaves a note on the event loop."""
        service = getattr(self._app.state, "service", None)
        if service is not None:
            service.stop_soon()
        super().handle_exit(sig, frame)
