"""What waits to be delivered, and the thread that does it; must not know what it is, nor to whom it goes."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

Item = TypeVar("Item")

STOP_S = 3.0


class Outbox(ABC, Generic[Item]):
    """Delivers what it is offered, one after the other. ``start`` and ``stop`` once each.

    ``failure`` is what ended it, if anything but ``stop`` did.
    """

    def __init__(self, thread_name: str) -> None:
        self._told: Callable[[], None] = lambda: None
        self._waiting: deque[Item] = deque()
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=thread_name, daemon=True)
        self.failure: Exception | None = None

    @property
    @abstractmethod
    def has_room(self) -> bool:
        """Whether more may be offered."""

    @property
    def idle(self) -> bool:
        """Whether everything offered has been delivered."""
        return not self._waiting

    def on_room(self, told: Callable[[], None]) -> None:
        """Have ``told`` called, from this thread, after each delivery, and where delivering ends."""
        self._told = told

    def offer(self, item: Item) -> None:
        """Puts it behind the others; there should be room for it."""
        with self._changed:
            self._waiting.append(item)
            self._changed.notify_all()

    def start(self) -> None:
        """Begins to deliver."""
        self._thread.start()

    def stop(self) -> None:
        """Ends at once; what has not been delivered is left."""
        self._stopping.set()
        with self._changed:
            self._changed.notify_all()
        if self._thread.ident is not None:
            self._thread.join(STOP_S)  # a service that hangs is not waited for
        if not self._thread.is_alive():
            self._close()

    @abstractmethod
    def _deliver(self, item: Item) -> bool:
        """Delivers it, however long that takes; False where it was stopped before."""

    @abstractmethod
    def _close(self) -> None:
        """Lets go of connections."""

    def _run(self) -> None:
        try:
            while (item := self._next()) is not None and self._deliver(item):
                with self._changed:
                    self._waiting.popleft()
                self._told()
        except Exception as error:
            self.failure = error
            self._told()

    def _next(self) -> Item | None:
        with self._changed:
            self._changed.wait_for(lambda: bool(self._waiting) or self._stopping.is_set())
            return None if self._stopping.is_set() else self._waiting[0]
