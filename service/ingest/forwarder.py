"""Forwards decoded reports to the service as large Arrow streams, retried until the service takes them.

Queued batches share one ``ByteBudget`` with the bodies still to be decoded.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from http import HTTPStatus

import httpx
import msgspec
import numpy as np

from service.ingest.intake import ByteBudget
from service.metrics import ForwardMetrics
from settings.errors import PASSING, retry_after_s
from settings.tls import client_options
from telemetry.encode.arrow import MEDIA_TYPE, encode
from telemetry.report import ReportBatch, joined

PATH = "/v1/telemetry/int"
MOST_REPORTS = 50_000
TIMEOUT_S = 60.0
FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 2.0
MOST_FAILURES = 10
"""Responses of status 500 to one body, in a row, over about as many seconds, before it is dropped.

The body may be the cause, and all others wait behind it.
"""
# Approximate bytes in memory of a report, a hop, and a flow or site.
_REPORT_BYTES, _HOP_BYTES, _KEY_BYTES = 44, 33, 64
# A wrong token or address is soon corrected, so these are retried: no report is dropped.
_RETRIABLE = PASSING | {
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.NOT_FOUND,
    HTTPStatus.METHOD_NOT_ALLOWED,
}

_log = logging.getLogger("ecntwin.ingest")


class _ReportError(msgspec.Struct):
    index: int
    detail: str


class _Answer(msgspec.Struct):
    accepted: int
    rejected: int
    errors: list[_ReportError] = []


def held_bytes(batch: ReportBatch) -> int:
    # A decoder of datagrams has one table of all sites, which its batches share.
    keys = len(batch.flow_keys) + int(np.count_nonzero(np.bincount(batch.hop_site)))
    return _REPORT_BYTES * len(batch) + _HOP_BYTES * len(batch.hop_site) + _KEY_BYTES * keys


class Forwarder:
    """Posts batches to the service at ``url``, one post at a time. ``start`` and ``stop`` once each."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None,
        budget: ByteBudget,
        metrics: ForwardMetrics,
        transport: httpx.AsyncBaseTransport | None,
    ) -> None:
        self._url = url.rstrip("/")
        options = client_options(url, token, **{"Content-Type": MEDIA_TYPE})
        self._client = httpx.AsyncClient(timeout=TIMEOUT_S, transport=transport, **options)
        self._budget = budget
        self._metrics = metrics
        self._waiting: deque[tuple[ReportBatch, int]] = deque()
        self._waiting_bytes = self._waiting_reports = 0
        self._changed = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None
        self.waits_for: str | None = None
        """Why reports cannot be forwarded now; None where they can."""

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="forwarder")

    async def stop(self, grace_s: float) -> None:
        """Stops once the queue is empty, or after ``grace_s``."""
        try:
            async with asyncio.timeout(grace_s), self._changed:
                await self._changed.wait_for(lambda: not self._waiting_bytes)
        except TimeoutError:
            reason = self.waits_for or "the time for it was over"
            _log.error("%d reports were not passed on: %s", self._waiting_reports, reason)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._client.aclose()

    async def offer(self, batch: ReportBatch, *, wait: bool = False, beyond: bool = False) -> None:
        """Queues a batch; one that does not fit raises ``BusyError``, waits (``wait``), or is queued all the
        same (``beyond``).
        """
        size = held_bytes(batch)
        async with self._changed:
            if wait:
                try:
                    await self._changed.wait_for(lambda: self._budget.fits(size, own=self._bodies_bytes))
                except asyncio.CancelledError:  # at the end: these reports were accepted, too
                    self._queue(batch, size, beyond=True)
                    raise
            self._queue(batch, size, beyond=beyond)

    def _queue(self, batch: ReportBatch, size: int, *, beyond: bool) -> None:
        self._budget.hold(size, own=self._bodies_bytes, beyond=beyond)
        self._waiting_bytes += size
        self._waiting_reports += len(batch)
        self._waiting.append((batch, size))
        self._changed.notify_all()

    @property
    def _bodies_bytes(self) -> int:
        """Budget held by bodies rather than batches; an offered batch is still counted in its body."""
        return self._budget.held_bytes - self._waiting_bytes

    async def _run(self) -> None:
        while True:
            async with self._changed:
                await self._changed.wait_for(lambda: bool(self._waiting))
            batches, size = self._next()
            try:
                await self._post(await asyncio.to_thread(joined, batches))
            except Exception:
                self._metrics.left_out.inc(sum(map(len, batches)))
                _log.exception("%d reports were left out", sum(map(len, batches)))
            finally:
                self._budget.free(size)
                self._waiting_bytes -= size
                self._waiting_reports -= sum(map(len, batches))
            async with self._changed:
                self._changed.notify_all()

    def _next(self) -> tuple[list[ReportBatch], int]:
        """Dequeues the batches to post at once, of at most ``MOST_REPORTS`` unless the first is larger."""
        batches: list[ReportBatch] = []
        reports = held = 0
        while self._waiting and (not batches or reports + len(self._waiting[0][0]) <= MOST_REPORTS):
            batch, size = self._waiting.popleft()
            batches.append(batch)
            reports += len(batch)
            held += size
        return batches, held

    async def _post(self, batch: ReportBatch) -> None:
        """Posts until the service takes it; in halves after a 413."""
        body = await asyncio.to_thread(encode, batch)
        pause_s = FIRST_PAUSE_S
        failures = 0
        while True:
            answer, reason, asked_s = await self._attempt(body)
            failed = answer is not None and answer.status_code == HTTPStatus.INTERNAL_SERVER_ERROR
            failures = failures + 1 if failed else 0
            if answer is not None and (reason is None or failures == MOST_FAILURES):
                break
            if self.waits_for is None:
                _log.warning("reports wait: %s", reason)
            self.waits_for = reason
            self._metrics.retries.inc()
            await asyncio.sleep(max(pause_s, asked_s))
            pause_s = min(2.0 * pause_s, LONGEST_PAUSE_S)
        if self.waits_for is not None:
            if answer.is_success:
                _log.info("the service accepts reports again")
            self.waits_for = None
        if answer.status_code == HTTPStatus.REQUEST_ENTITY_TOO_LARGE and len(batch) > 1:
            half = len(batch) // 2
            await self._post(batch.take(np.arange(half)))
            await self._post(batch.take(np.arange(half, len(batch))))
            return
        self._count(answer, batch)

    async def _attempt(self, body: bytes) -> tuple[httpx.Response | None, str | None, float]:
        """The response, if any; why to retry, if so; and the response's ``Retry-After`` in seconds."""
        try:
            answer = await self._client.post(self._url + PATH, content=body)
        except httpx.HTTPError as error:
            said = str(error) or type(error).__name__
            return None, f"the service at {self._url} does not answer ({said})", 0.0
        if answer.is_server_error or answer.is_redirect or answer.status_code in _RETRIABLE:
            said = " ".join(answer.text[:200].split()) or answer.headers.get("location", "")
            reason = f"the service at {self._url} answers {answer.status_code}: {said}"
            return answer, reason, retry_after_s(answer.headers)
        return answer, None, 0.0

    def _count(self, answer: httpx.Response, batch: ReportBatch) -> None:
        self._metrics.forwarded.inc(len(batch))
        try:
            taken = msgspec.json.decode(answer.content, type=_Answer) if answer.is_success else None
        except ValueError:
            taken = None
        if taken is None:
            self._metrics.left_out.inc(len(batch))
            said = " ".join(answer.text[:300].split())
            _log.error("%d reports were refused: %d %s", len(batch), answer.status_code, said)
        elif taken.rejected:
            self._metrics.left_out.inc(taken.rejected)
            first = taken.errors[0].detail if taken.errors else "no reason"
            _log.warning("the service rejected %d of %d reports: %s", taken.rejected, len(batch), first)
