"""Ports of 127.0.0.1 for counterparts that are told theirs before they listen, and that come back at them."""

from __future__ import annotations

import random
import socket

# Below the ports that outgoing connections are given: none of them takes one while its server is away, nor
# does a connection to it reach itself.
_FIRST, _LAST = 10_000, 32_000
_draw = random.SystemRandom()


def free_port() -> int:
    """One at which nobody listens now; another may take it before it is used, so begin anew then."""
    while True:
        port = _draw.randrange(_FIRST, _LAST)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
