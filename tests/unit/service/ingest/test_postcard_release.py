"""Merged reports go on whatever became of those before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import pytest

from service.documents.telemetry import IngestDocument
from service.ingest.p4_reports import BinaryReports, PostcardFlusher
from telemetry.decode.body import Decoded
from telemetry.report import ReportBatch

pytestmark = pytest.mark.anyio


class Waiting:
    pending = 1

    def due(self, now_ns: int) -> Decoded:
        return Decoded(ReportBatch.empty(), ())


async def test_what_fails_once_is_asked_for_again() -> None:
    calls = 0
    again = asyncio.Event()

    class Sink:
        async def ingest(self, decode: Callable[[], Decoded], *, body: bytes | None = None) -> IngestDocument:
            nonlocal calls
            calls += 1
            if calls == 1:
                raise ZeroDivisionError
            again.set()
            return IngestDocument.of(0, 0, malformed=(), listed=0)

    release = PostcardFlusher(cast(BinaryReports, Waiting()), Sink(), every_s=0.001, wall_ns=lambda: 0)
    release.start()
    async with asyncio.timeout(60):
        await again.wait()
    await release.stop()
