"""Logging of long-running commands: to standard error, one line each."""

from __future__ import annotations

import logging


def configure_logging(level: str) -> None:
    """Sets the level (``debug``, ``info``, ...) and format of every logger of this process."""
    logging.basicConfig(
        level=level.upper(), format="%(asctime)s %(levelname)-7s %(name)s: %(message)s", force=True
    )
    quiet_libraries()


def quiet_libraries() -> None:
    """Silences request and header logs of httpx (with session cookies), and those of Alembic."""
    for name in ("httpx", "httpcore", "alembic"):
        logging.getLogger(name).setLevel(logging.WARNING)
