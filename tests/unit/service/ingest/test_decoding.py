"""A large body is decoded beside small ones, and beside datagrams."""

from __future__ import annotations

import asyncio
import gzip
import threading
from contextlib import closing

import pytest

from service.ingest.threads import SMALL_BYTES, DecodingThreads

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    "large",
    [
        bytes(SMALL_BYTES + 1),
        gzip.compress(bytes(SMALL_BYTES + 1)),
        gzip.compress(b"", 0) * 9 + b"x" * SMALL_BYTES,
    ],
    ids=["plain", "gzip", "no gzip behind gzip"],
)
async def test_nobody_waits_for_a_large_body(large: bytes) -> None:
    threads, released = DecodingThreads(), threading.Event()
    try:
        held = [asyncio.create_task(threads.run(released.wait, large)) for _ in range(5)]
        for small in (b"{}", gzip.compress(b"{}"), bytes(SMALL_BYTES), b"\x1f\x8b damaged"):
            assert await threads.run(lambda: "decoded", small) == "decoded"
        assert await threads.run(lambda: "decoded", None) == "decoded"
        assert not any(one.done() for one in held)
        released.set()
        assert await asyncio.gather(*held) == [True] * 5
    finally:
        released.set()
        threads.close()


async def test_what_a_decoder_raises_is_raised() -> None:
    with closing(DecodingThreads()) as threads, pytest.raises(ZeroDivisionError):
        await threads.run(lambda: 1 // 0, b"")
