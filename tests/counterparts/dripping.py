"""A peer that never says it all: once asked, it sends a byte now and then, and goes on for long."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from socket import create_server, socket

_LONGEST_S = 120.0


@contextmanager
def dripping(beginning: bytes, *, every_s: float, byte: bytes = b"x") -> Iterator[int]:
    """Its port on 127.0.0.1, while inside. It ends connections after a while: no test hangs, it fails."""
    over = threading.Event()

    def drip(peer: socket) -> None:
        with peer, suppress(OSError):
            peer.recv(1)  # unasked, it would be a connection that no redis client takes
            peer.sendall(beginning)
            for _ in range(int(_LONGEST_S / every_s)):
                if over.wait(every_s):
                    return
                peer.sendall(byte)

    def serve() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=drip, args=(listening.accept()[0],), daemon=True).start()

    with create_server(("127.0.0.1", 0)) as listening:
        serving = threading.Thread(target=serve, daemon=True)
        serving.start()
        try:
            yield listening.getsockname()[1]
        finally:
            over.set()
            listening.shutdown(2)  # wakes the thread that accepts
            serving.join()
