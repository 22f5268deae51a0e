"""``ecntwin serve`` and ``ecntwin ingest``: checks settings, listens, and runs uvicorn until a signal."""

from __future__ import annotations

import logging
import signal
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import FrameType

import typer
from fastapi import FastAPI

from api.answers import RequestFormatter
from api.app import create_app
from api.certificates import ServerTls
from api.deps import check_host
from api.ingest_app import create_ingest_app
from api.server import ListeningServer, listening
from cli.client import bearer_token, checked_url
from cli.output import configure_logging
from service.auth.tokens import holds_tokens
from service.domain import inventory_of, load_topology, reporting_of
from service.ingest.process import IngestProcess
from service.switches.adapter_check import check_inventory
from settings.errors import UnavailableError
from settings.load import load_settings, override, with_storage
from settings.model import Settings
from store.database import Database
from switches.errors import InventoryError
from switches.registry import AdapterRegistry

SWITCH_INTERVAL_S = 0.001
"""Python's thread switch interval. Its default of 5 ms would dominate the cost of a body: the event loop must
run for each piece received while another thread decodes the one before.
"""


def prepare() -> None:
    """Sets thread switching, the file limit and signal handlers before uvicorn runs."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    _raise_file_limit()
    # uvicorn raises the signal again once it has stopped: that is exit code 0.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _done)


def _raise_file_limit() -> None:
    """Every connection needs a file descriptor, and the usual soft limit is 1024."""
    if sys.platform != "win32":
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        with suppress(ValueError, OSError):  # the kernel's limit may be lower
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _done(number: int, frame: FrameType | None) -> None:
    raise typer.Exit(0)


_ingest_log = logging.getLogger("ecntwin.ingest")


def ingest(to: str, config: Path | None, host: str | None, port: int | None, *, share_port: bool) -> None:
    """Receives and forwards reports until SIGINT or SIGTERM, then exits 0.

    Raises ``ApiError`` for bad settings before anything is opened, and if the port is not available.
    """
    settings = override(load_settings(config), host=host, port=port)
    check_host(settings.server.host, settings.security)
    tls = ServerTls.of(settings.server)
    process = IngestProcess(settings, checked_url(to, "--to"), token=bearer_token(), shared=share_port)
    configure_logging(settings.log.level, RequestFormatter)
    prepare()
    app = create_ingest_app(settings, process)
    with listening(settings.server.host, settings.server.port, share_port=share_port) as listener:
        at = f"[{settings.server.host}]" if listener.family == socket.AF_INET6 else settings.server.host
        scheme = "http" if tls is None else "https"
        port_number = listener.getsockname()[1]
        _ingest_log.info("ingest running on %s://%s:%d (passing on to %s)", scheme, at, port_number, to)
        _run(ListeningServer(app, settings.server, tls), app, [listener])


def _run(server: ListeningServer, app: FastAPI, sockets: list[socket.socket] | None = None) -> None:
    """Until a signal; a failed start is raised, and reported without uvicorn's traceback."""
    logging.getLogger("uvicorn.error").addFilter(lambda record: not hasattr(app.state, "failed"))
    try:
        server.run(sockets)
    finally:
        if (failed := getattr(app.state, "failed", None)) is not None:
            raise failed


_log = logging.getLogger("ecntwin.serve")


def serve(config: Path | None, host: str | None, port: int | None) -> None:
    """Serves until SIGINT or SIGTERM, then exits 0.

    Raises ``SettingsError`` before anything is opened, and ``ApiError`` if the journal cannot be restored.
    """
    settings = with_storage(override(load_settings(config), host=host, port=port))
    stored = holds_tokens(settings.storage.database)
    check_host(settings.server.host, settings.security, stored=stored)
    tls = ServerTls.of(settings.server)
    load_topology(settings.fabric.topology)
    _check_inventory(settings)
    listening(settings.server.host, settings.server.port).close()  # uvicorn would find out last
    configure_logging(settings.log.level, RequestFormatter)
    _check_storage(settings)
    if not settings.security.tokens and settings.security.oidc is None and not stored:
        _log.warning("no token is configured: anyone on this machine may call, and only this machine")
    prepare()
    app = create_app(settings)
    _run(_Server(app, settings, tls), app)


def _check_storage(settings: Settings) -> None:
    """Raises ``SettingsError`` for permanent faults; an unreachable database is only logged."""
    database = Database(settings.storage.database)
    try:
        database.open()
    except UnavailableError as error:
        _log.error("%s: the service starts without it", error)
    finally:
        database.close()


def _check_inventory(settings: Settings) -> None:
    """Raises ``SettingsError``, or ``InventoryError`` with the first problem and the number of others."""
    registry = AdapterRegistry.with_installed()
    registry.check_usual(settings.push.adapter)
    inventory = inventory_of(settings)
    if inventory is None:
        return
    devices = inventory.devices()
    reporting_of(settings, inventory)
    inventory.hosts()
    inventory.senders()
    canary = settings.rollout.canary if settings.push.enabled else ()
    problems = check_inventory(devices, registry, clock_ns=time.time_ns, canary=canary)
    if problems:
        first, others = problems[0], len(problems) - 1
        more = f" ({others} more: ecntwin check-config lists them)" if others else ""
        raise InventoryError(first.where, first.received, first.rule, first.remedy + more)


class _Server(ListeningServer):
    """Stops the service before connections are drained: event streams would never end."""

    def __init__(self, app: FastAPI, settings: Settings, tls: ServerTls | None) -> None:
        super().__init__(app, settings.server, tls)
        self._app = app

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Runs inside a signal handler, so it only schedules the stop."""
        service = getattr(self._app.state, "service", None)
        if service is not None:
            service.stop_soon()
        super().handle_exit(sig, frame)
