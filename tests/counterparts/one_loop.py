"""One event loop for all tests of a file that use ``grpc.aio``.

Its poller, one for the process, hands what is left of a call to the loop that the call was made on, whichever
loop happens to run then; if that loop was closed with its test, the error is the next test's.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress

import grpc
import pytest


@pytest.fixture(scope="module", autouse=True)
async def one_loop(anyio_backend: str) -> AsyncIterator[None]:
    yield
    # Completions come in order: after those of this call none of an earlier one is left.
    async with grpc.aio.insecure_channel("127.0.0.1:9") as channel:
        with suppress(grpc.RpcError):
            await channel.unary_unary("/nothing/at-all")(b"", timeout=60)
