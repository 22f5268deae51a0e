"""What uvicorn is told by the settings of a server, TLS and proxies too; must not know what it serves."""

from __future__ import annotations

import gc
import socket
import time
from functools import partial
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from api.certificates import ServerTls
from api.server import PatientProtocol
from settings.model import ServerSettings

KEEP_ALIVE_S = 75
"""How long an idle connection may be used again. Longer than clients and proxies keep theirs (httpx: 5 s,
nginx: 60 s): else a request now and then meets a connection that is just being ended, and has no answer.
"""

RENEWED_EVERY_TICKS = 600  # of uvicorn's, ten a second


class ListeningServer(uvicorn.Server):
    """Listens as the settings say, and takes up certificates that are replaced while it runs."""

    def __init__(self, app: ASGIApp, server: ServerSettings, tls: ServerTls | None) -> None:
        super().__init__(uvicorn.Config(app, **options(server, tls)))
        self._tls = tls

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """What is there by now stays there: no collection of garbage looks at it again, which takes 0.2 s."""
        await super().startup(sockets)
        gc.collect()
        gc.freeze()

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second."""
        if self._tls is not None and counter % RENEWED_EVERY_TICKS == 0:
            self._tls.renew()
            self._tls.warn(time.time())
        return await super().on_tick(counter)


def options(server: ServerSettings, tls: ServerTls | None) -> dict[str, Any]:
    """uvicorn's arguments."""
    return {
        "http": partial(
            PatientProtocol,
            client_timeout_s=server.client_timeout_s,
            max_head_bytes=server.max_head_bytes,
            max_header_fields=server.max_header_fields,
        ),
        "ws": "none",
        "host": server.host,
        "port": server.port,
        "access_log": server.access_log,
        "log_config": None,
        "server_header": False,
        "timeout_keep_alive": KEEP_ALIVE_S,
        "timeout_graceful_shutdown": server.shutdown_grace_s,
        # Else anybody on this machine could say where a call came from.
        "proxy_headers": bool(server.trusted_proxies),
        "forwarded_allow_ips": list(server.trusted_proxies),
    } | ({} if tls is None else {"ssl_context_factory": lambda *_: tls.context})
