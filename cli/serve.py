"""What the commands that serve share: how they end, and how their threads take turns.

``ecntwin ingest``: settings, checks, a socket that others may share, then uvicorn until told to stop.

``ecntwin serve``: settings, checks, then uvicorn until it is told to stop.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import FrameType

import typer
from fastapi import FastAPI

from api.app import create_app
from api.certificates import ServerTls
from api.deps import check_host
from api.ingest_app import create_ingest_app
from api.server import ListeningServer
from cli.client import checked_token
from service.adapter_check import check_inventory
from service.auth.tokens import holds_tokens
from service.domain import load_topology
from service.ingest.process import IngestProcess
from settings.errors import InputError, SettingsError, UnavailableError
from settings.inventory import load_inventory
from settings.load import load_settings, override, with_storage
from settings.logging import configure_logging
from settings.model import Settings
from settings.validation import TOKEN_VARIABLE, server_url
from store.database import Database
from switches.errors import InventoryError
from switches.registry import AdapterRegistry

SWITCH_INTERVAL_S = 0.001
"""How long a thread that computes keeps the others waiting. Python's own 5 ms would be most of what a body
costs: the event loop has to be let in for each piece of it, while another thread decodes the one before.
"""


def prepare() -> None:
    """Before uvicorn runs in this process."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    _take_all_files()
    # uvicorn raises the signal again once it has stopped: to whoever asked, that is a service that is done.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _done)


def _take_all_files() -> None:
    """Every connection is a file: many systems start programs with 1024 of those they may have."""
    if sys.platform != "win32":
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        with suppress(ValueError, OSError):  # the kernel's own limit may be lower
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _done(number: int, frame: FrameType | None) -> None:
    raise typer.Exit(0)


_BACKLOG = 2048

_ingest_log = logging.getLogger("ecntwin.ingest")


def ingest(to: str, config: Path | None, host: str | None, port: int | None, *, share_port: bool) -> None:
    """Takes and passes on until SIGINT or SIGTERM, then exits 0.

    Raises ``ApiError`` before anything is opened, and for a port that cannot be had.
    """
    settings = override(load_settings(config), host=host, port=port)
    check_host(settings.server.host, settings.security)
    tls = ServerTls.of(settings.server)
    token = checked_token(os.environ.get(TOKEN_VARIABLE))
    process = IngestProcess(settings, _url(to), token=token, shared=share_port)
    configure_logging(settings.log.level)
    prepare()
    app = create_ingest_app(settings, process)
    logging.getLogger("uvicorn.error").addFilter(lambda record: not hasattr(app.state, "failed"))
    with _listening(settings.server.host, settings.server.port, share_port=share_port) as listener:
        at = f"[{settings.server.host}]" if listener.family == socket.AF_INET6 else settings.server.host
        scheme = "http" if tls is None else "https"
        port_number = listener.getsockname()[1]
        _ingest_log.info("ingest running on %s://%s:%d (passing on to %s)", scheme, at, port_number, to)
        try:
            ListeningServer(app, settings.server, tls).run(sockets=[listener])
        finally:
            if (failed := getattr(app.state, "failed", None)) is not None:
                raise failed


def _url(text: str) -> str:
    try:
        return server_url(text)
    except ValueError as error:
        raise InputError("--to", repr(text), str(error), "give such as http://127.0.0.1:8080") from None


def _listening(host: str, port: int, *, share_port: bool) -> socket.socket:
    """A listening socket; with ``share_port`` one of several at that port, between which the kernel deals out
    connections. Raises ``SettingsError``.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise _no_port(host, port, error) from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if share_port:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise _no_port(host, port, error) from error
    return listener


def _no_port(host: str, port: int, error: OSError) -> SettingsError:
    said = (error.strerror or str(error)).lower()
    return SettingsError(
        "server host and port",
        f"{host} port {port} ({said})",
        "the address is this machine's and the port free, or shared by all its users",
        "choose another, or give each process --share-port",
    )


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
