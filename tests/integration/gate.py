"""Workers that hold every round until a test lets it through."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from tests.integration.service import PATIENCE_S
from twin.workers.pool import InProcessWorkers, Job

T = TypeVar("T")


class Gate(InProcessWorkers):
    """``entered`` is set once a round waits; set ``open`` to let it, and all after it, through."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.open = threading.Event()
        self.closed = False

    def run(self, tasks: Sequence[Job[T]], done: Callable[[int, T], None]) -> None:
        self.entered.set()
        assert self.open.wait(PATIENCE_S)
        super().run(tasks, done)

    def close(self) -> None:
        self.closed = True
        super().close()
