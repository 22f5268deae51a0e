"""How commands that run for long log: to standard error, a line each."""

from __future__ import annotations

import logging


def configure_logging(level: str) -> None:
    """Sets the level (``debug``, ``info``, ...) and the form of every logger of this process."""
    logging.basicConfig(
        level=level.upper(), format="%(asctime)s %(levelname)-7s %(name)s: %(message)s", force=True
    )
    quiet_libraries()


def quiet_libraries() -> None:
    """HTTP's tell of every request, and below of every header, a switch's session cookie included; Alembic's
    of what it finds at every start, where the service says itself what it did.
    """
    for name in ("httpx", "httpcore", "alembic"):
        logging.getLogger(name).setLevel(logging.WARNING)
