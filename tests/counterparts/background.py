"""An event loop in a thread, for counterparts that serve many switches at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

AnswerT = TypeVar("AnswerT")


class Background:
    """Runs coroutines until it is closed."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="counterparts", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, AnswerT], patience_s: float = 60.0) -> AnswerT:
        """What it returns; from any other thread."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(patience_s)

    def close(self) -> None:
        """Ends the thread; what still runs is cancelled."""
        self.run(self._cancel())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    async def _cancel(self) -> None:
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        await asyncio.gather(*(ended(task) for task in tasks))


async def ended(task: asyncio.Task[Any]) -> None:
    """Cancels a task until it ends: a client may take a cancelled wait for a connection that broke."""
    while not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=0.1)
    if not task.cancelled():
        task.exception()
