"""Lets merged reports go on also while no others come; must not know what a report is."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from service.ingest.p4_reports import BinaryReports
from telemetry.decode.decoded import Decoded

_log = logging.getLogger("ecntwin.postcards")


class PostcardRelease:
    """Asks ``binary`` every ``every_s`` seconds for what has waited long enough, and hands it to ``ingest``;
    None where nothing is merged. ``start`` and ``stop`` on one event loop.
    """

    def __init__(
        self,
        binary: BinaryReports,
        ingest: Callable[[Callable[[], Decoded]], Awaitable[object]],
        *,
        every_s: float | None,
        wall_ns: Callable[[], int],
    ) -> None:
        self._binary = binary
        self._ingest = ingest
        self._every_s = every_s
        self._wall_ns = wall_ns
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to ask, where there is anything to ask for."""
        if self._every_s is not None:
            self._task = asyncio.create_task(self._run(self._every_s), name="postcards")

    async def stop(self) -> None:
        """Asks no more; what waits then is lost."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self, every_s: float) -> None:
        while True:
            await asyncio.sleep(every_s)
            if self._binary.pending:
                try:
                    await self._ingest(partial(self._binary.due, self._wall_ns()))
                except Exception:  # nobody would miss the task
                    _log.exception("merged reports were left out; tried again with the next")
