"""An HTTP transport with one deadline for a whole call.

httpx bounds each wait by itself: a peer that sends a byte now and then could hold a call for hours.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterable
from typing import Any

import httpcore
import httpx


class Deadline:
    """The end of the current call."""

    def __init__(self, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._monotonic_s = monotonic_s
        self._until_s = 0.0

    def within(self, seconds: float) -> None:
        """Starts a call."""
        self._until_s = self._monotonic_s() + seconds

    @property
    def over(self) -> bool:
        return self._monotonic_s() > self._until_s

    def left_s(self, timeout: float | None, late: type[Exception]) -> float:
        """What is left of a wait of ``timeout``; raises ``late`` at the deadline."""
        left_s = self._until_s - self._monotonic_s()
        if left_s <= 0:
            raise late("the call's time is over")
        return left_s if timeout is None else min(left_s, timeout)


class BoundedTransport(httpx.HTTPTransport):
    """httpx's transport, over connections that wait no longer than the call has left."""

    def __init__(self, deadline: Deadline, *, verify: ssl.SSLContext | bool, keep_alive: int) -> None:
        super().__init__(verify=verify, trust_env=False)
        self._pool = httpcore.ConnectionPool(
            ssl_context=verify if isinstance(verify, ssl.SSLContext) else None,
            max_keepalive_connections=keep_alive,
            network_backend=_Network(deadline),
        )


class _Network(httpcore.NetworkBackend):
    def __init__(self, deadline: Deadline) -> None:
        self._deadline = deadline
        self._network = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        left_s = self._deadline.left_s(timeout, httpcore.ConnectTimeout)
        return _Stream(
            self._network.connect_tcp(host, port, left_s, local_address, socket_options), self._deadline
        )


class _Stream(httpcore.NetworkStream):
    def __init__(self, stream: httpcore.NetworkStream, deadline: Deadline) -> None:
        self._stream = stream
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, self._deadline.left_s(timeout, httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, self._deadline.left_s(timeout, httpcore.WriteTimeout))

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        left_s = self._deadline.left_s(timeout, httpcore.ConnectTimeout)
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, left_s), self._deadline)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)

    def close(self) -> None:
        self._stream.close()
