"""The threads in which telemetry is decoded, so that a body keeps none waiting that is smaller."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from telemetry.decode.body import holds_at_most

SMALL_BYTES = 128 << 10
"""Unpacked; to decode it takes some 3 ms, and 40 ms at the worst."""

T = TypeVar("T")


class _LargeError(Exception):
    """A body is small as it came, and large unpacked."""


class DecodingThreads:
    """Three kinds of threads: for small bodies, for all others, and for datagrams.

    Large bodies are decoded one after the other: two at once would take no less time on the interpreter's one
    lock, and twice the memory.
    """

    def __init__(self) -> None:
        self._small = ThreadPoolExecutor(2, thread_name_prefix="ecntwin-decode")
        self._large = ThreadPoolExecutor(1, thread_name_prefix="ecntwin-decode-large")
        self._datagrams = ThreadPoolExecutor(1, thread_name_prefix="ecntwin-datagrams")

    async def of_body(self, body: bytes, decode: Callable[[], T]) -> T:
        """What ``decode`` gives, which decodes that body; raises what it raises."""

        def unless_large() -> T:
            if not holds_at_most(body, SMALL_BYTES):
                raise _LargeError
            return decode()

        if len(body) <= SMALL_BYTES:
            with suppress(_LargeError):
                return await _run(self._small, unless_large)
        return await _run(self._large, decode)

    async def of_datagrams(self, decode: Callable[[], T]) -> T:
        """The same for what came without a body, one after the other."""
        return await _run(self._datagrams, decode)

    def close(self) -> None:
        """Ends the threads once what they have begun is done."""
        for threads in (self._small, self._large, self._datagrams):
            threads.shutdown(wait=True, cancel_futures=True)


async def _run(threads: Executor, function: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(threads, function)
