"""What the commands that serve share: how they end, and how their threads take turns."""

from __future__ import annotations

import signal
import sys
from contextlib import suppress
from types import FrameType

import typer

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
