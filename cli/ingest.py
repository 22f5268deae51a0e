"""``ecntwin ingest``: settings, checks, a socket that others may share, then uvicorn until told to stop."""

from __future__ import annotations

import logging
import os
import socket
from pathlib import Path

from api.certificates import ServerTls
from api.deps import check_host
from api.ingest_app import create_ingest_app
from api.listening import ListeningServer
from cli.bearer import checked_token
from cli.serving import prepare
from service.ingest.process import IngestProcess
from settings.addresses import server_url
from settings.errors import InputError, SettingsError
from settings.load import load_settings, override
from settings.logging import configure_logging
from settings.variables import TOKEN_VARIABLE

_BACKLOG = 2048

_log = logging.getLogger("ecntwin.ingest")


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
        _log.info("ingest running on %s://%s:%d (passing on to %s)", scheme, at, port_number, to)
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
