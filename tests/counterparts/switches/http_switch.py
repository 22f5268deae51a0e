"""A switch's HTTP server on loopback: one platform's stand-in answers, this one listens, counts and disturbs.

Whatever a platform does not expect is recorded in ``unexpected``: a test that leaves anything there failed.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import SHUT_RDWR, socket
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest

from switches.device import Secret

USER = "ecntwin"
PASSWORD = "the-switch's-own"


@dataclass(frozen=True)
class Asked:
    """One request: ``path`` as it was sent, still quoted."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any

    @property
    def names(self) -> list[str]:
        """The parts of the path, unquoted."""
        return [unquote(part) for part in self.path.strip("/").split("/")]


@dataclass(frozen=True)
class Reply:
    """``changes``: it is the answer to a change, which a switch may make and never confirm."""

    status: int = 200
    body: Any = field(default_factory=dict)
    changes: bool = False
    headers: dict[str, str] = field(default_factory=dict)


class HttpSwitch(ABC):
    """Listens on a free port of 127.0.0.1 until it is closed."""

    def __init__(self, *, tls: ssl.SSLContext | None = None) -> None:
        self.asked: list[Asked] = []
        self.unexpected: list[str] = []
        self._losing = False
        self._silent = False
        self._released = threading.Event()
        self._lock = threading.Lock()
        self._open: set[socket] = set()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self._scheme = "http" if tls is None else "https"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return self._server.server_address[1]

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self.port}"

    def close(self) -> None:
        self._released.set()
        self._server.shutdown()
        for connection in list(self._open):
            with suppress(OSError):
                connection.shutdown(SHUT_RDWR)
        self._server.server_close()
        self._thread.join()

    @abstractmethod
    def answer(self, asked: Asked) -> Reply:
        """What the platform answers. Anything it does not expect goes through ``surprised``."""

    def allowed(self, asked: Asked) -> bool:
        """Whether the credentials are right."""
        return asked.headers.get("authorization") == _basic(USER, PASSWORD)

    def surprised(self, asked: Asked, why: str, status: int = 400) -> Reply:
        self.unexpected.append(f"{asked.method} {asked.path} {asked.query} {asked.body}: {why}")
        return Reply(status, {"message": why})

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Takes connections and requests, and answers nothing; what was asked is not done either."""
        self._silent = True
        self._released.clear()
        try:
            yield
        finally:
            self._silent = False
            self._released.set()

    @contextmanager
    def losing_replies(self) -> Iterator[None]:
        """Makes changes, and ends the connection before it says so."""
        self._losing = True
        try:
            yield
        finally:
            self._losing = False

    def handle(self, asked: Asked) -> Reply | None:
        """None: no answer at all."""
        if self._silent:
            self._released.wait()
            return None
        with self._lock:
            self.asked.append(asked)
            if not self.allowed(asked):
                return Reply(401, {"message": "Unauthorized"}, headers={"WWW-Authenticate": "Basic"})
            reply = self.answer(asked)
            return None if reply.changes and self._losing else reply


def named_credentials(environment: pytest.MonkeyPatch) -> dict[str, Secret]:
    """The right ones, in the environment, as a device names them."""
    environment.setenv("ECNTWIN_TEST_USER", USER)
    environment.setenv("ECNTWIN_TEST_PASSWORD", PASSWORD)
    return {
        "username": Secret(env="ECNTWIN_TEST_USER"),
        "password": Secret(env="ECNTWIN_TEST_PASSWORD"),
    }


def _basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def _handler(switch: HttpSwitch) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 2**16  # head and body of an answer leave together

        def setup(self) -> None:
            super().setup()
            switch._open.add(self.connection)

        def finish(self) -> None:
            switch._open.discard(self.connection)
            with suppress(OSError, ValueError):
                super().finish()

        def log_message(self, *_: object) -> None:
            """Quiet."""

        def handle_one_request(self) -> None:
            try:
                super().handle_one_request()
            except OSError:  # the other side has gone
                self.close_connection = True

        def _respond(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            try:
                body = json.loads(raw) if raw else None
            except ValueError:
                body = raw
            split = urlsplit(self.path)
            reply = switch.handle(
                Asked(
                    self.command,
                    split.path,
                    dict(parse_qsl(split.query)),
                    {name.lower(): value for name, value in self.headers.items()},
                    body,
                )
            )
            if reply is None:
                self.close_connection = True
                return
            sent = json.dumps(reply.body).encode()
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = _respond  # noqa: N815 -- http.server's names

    return Handler
