"""The lab's INT reports and counters as JSON (``docs/telemetry/int-report.md``, ``counters.md``).

They are posted to a service, one body after the other, in a thread of its own. An unreachable service is
retried with growing pauses, or after its Retry-After: nothing is dropped, and the runner waits for room. A
refusal ends the posting, except a 404 for counters: older services have none.
"""

from __future__ import annotations

import gzip
import logging
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise, repeat
from typing import Generic, TypeVar

import httpx
import msgspec
import numpy as np
from msgspec import Raw, Struct
from numpy.typing import NDArray

from settings.errors import PASSING, ApiError, retry_after_s
from settings.tls import client_options
from settings.validation import TOKEN_VARIABLE
from twin.packet.plan import FabricPlan
from twin.packet.results import Measured, Samples

EPOCH_NS = 1_767_225_600_000_000_000  # 2026-01-01: simulated time 0
DATA_QUEUE = 3
REPORTS_A_BODY = 5_000
REPORTS_PATH = "/v1/telemetry/int"
COUNTERS_PATH = "/v1/telemetry/counters"
COUNT_EVERY_S = 1e-3

ROCE_PORT = 4791  # UDP destination port of RoCEv2 (InfiniBand Architecture Specification, annex A17)
_UDP = 17
FIRST_SOURCE_PORT = 1_024
SOURCE_PORTS = 65_536 - FIRST_SOURCE_PORT

STOP_S = 3.0
ROOM_BODIES = 4
TIMEOUT_S = 30.0
FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 2.0

_log = logging.getLogger("ecntwin.lab")

Item = TypeVar("Item")


class _Hop(Struct, gc=False):
    switch: str
    ingress_port: str
    egress_port: str
    queue: int
    queue_bytes: int
    ingress_ts_ns: int
    egress_ts_ns: int
    ecn_marked: bool


class _Flow(Struct, gc=False):
    src: str
    dst: str
    sport: int
    dport: int
    protocol: int


class _Report(Struct, gc=False):
    ts_ns: int
    flow: Raw
    packet_bytes: int
    sampling_rate: float
    hops: list[_Hop]


@dataclass(frozen=True, slots=True)
class Body:
    """NDJSON of ``records`` reports or counter samples, for ``path`` of the service."""

    content: bytes
    records: int
    path: str = REPORTS_PATH


class ReportWriter:
    """Encodes sampled packets. ``addresses``: hosts' by name; a host without one reports its name."""

    def __init__(
        self,
        plan: FabricPlan,
        addresses: Mapping[str, str | None],
        *,
        sampling_rate: float,
        epoch_ns: int = EPOCH_NS,
        reports_a_body: int = REPORTS_A_BODY,
    ) -> None:
        self._switch = np.array([port.node for port in plan.ports], dtype=object)
        self._port = np.array([port.port for port in plan.ports], dtype=object)
        self._address = [addresses.get(name) or name for name in plan.hosts]
        self._sampling_rate = sampling_rate
        self._epoch_ns = epoch_ns
        self._reports_a_body = reports_a_body
        self._encoder = msgspec.json.Encoder()

    def bodies(self, samples: Samples) -> Iterator[Body]:
        """The reports in order, up to ``reports_a_body`` each."""
        if not len(samples):
            return
        reports = self._reports(samples)
        for begin in range(0, len(reports), self._reports_a_body):
            part = reports[begin : begin + self._reports_a_body]
            yield Body(self._encoder.encode_lines(part), len(part))

    def _reports(self, samples: Samples) -> list[_Report]:
        hops = list(
            map(
                _Hop,
                self._switch[samples.port].tolist(),
                self._port[samples.ingress_port].tolist(),
                self._port[samples.port].tolist(),
                repeat(DATA_QUEUE),
                np.rint(samples.queue_bytes).astype(np.int64).tolist(),
                self._ns(samples.ingress_s),
                self._ns(samples.egress_s),
                samples.marked.tolist(),
            )
        )
        return list(
            map(
                _Report,
                self._ns(samples.delivered_s),
                self._flows(samples),
                samples.wire_bytes.tolist(),
                repeat(self._sampling_rate),
                [hops[begin:end] for begin, end in pairwise(samples.hop_offset.tolist())],
            )
        )

    def _ns(self, seconds: np.ndarray) -> list[int]:
        nanoseconds: list[int] = (self._epoch_ns + np.rint(seconds * 1e9).astype(np.int64)).tolist()
        return nanoseconds

    def _flows(self, samples: Samples) -> list[Raw]:
        """The five-tuple of each sample; each flow's is encoded once."""
        numbers, first, which = np.unique(samples.flow, return_index=True, return_inverse=True)
        written = [
            Raw(
                self._encoder.encode(
                    _Flow(
                        self._address[src],
                        self._address[dst],
                        FIRST_SOURCE_PORT + number % SOURCE_PORTS,
                        ROCE_PORT,
                        _UDP,
                    )
                )
            )
            for number, src, dst in zip(
                numbers.tolist(), samples.src[first].tolist(), samples.dst[first].tolist(), strict=True
            )
        ]
        return [written[place] for place in which.tolist()]


class _Port(Struct, gc=False):
    switch: str
    port: str
    ts_ns: int
    tx_bytes: int


class _Queue(Struct, gc=False):
    switch: str
    port: str
    queue: int
    ts_ns: int
    pfc_tx_frames: int
    pfc_rx_frames: int
    pfc_pause_ns: int
    ecn_marked_packets: int
    dropped_packets: int
    dropped_bytes: int
    tx_packets: int


class CounterWriter:
    """Encodes counters: transmitted bytes of each switch port, and the counters of its data queue.

    A pause counts once, when it stops a port: as ``pfc_rx_frames`` there, as ``pfc_tx_frames`` at its peer.
    """

    def __init__(self, plan: FabricPlan, *, epoch_ns: int = EPOCH_NS) -> None:
        self._ports = np.array(plan.switch_ports, dtype=np.int64)
        self._peers = np.array([plan.reverse[port] for port in plan.switch_ports], dtype=np.int64)
        self._names = [(plan.ports[port].node, str(plan.ports[port].port)) for port in plan.switch_ports]
        self._epoch_ns = epoch_ns
        self._encoder = msgspec.json.Encoder()

    def body(self, measured: Measured) -> Body:
        ts_ns = self._epoch_ns + round(measured.now_s * 1e9)
        columns = zip(
            self._names,
            self._whole(measured.sent_bytes),
            measured.pauses[self._peers].tolist(),
            measured.pauses[self._ports].tolist(),
            self._whole(measured.paused_s * 1e9),
            measured.marked_packets[self._ports].tolist(),
            measured.dropped_packets[self._ports].tolist(),
            self._whole(measured.dropped_wire_bytes),
            measured.sent_packets[self._ports].tolist(),
            strict=True,
        )
        samples: list[_Port | _Queue] = []
        for (switch, port), sent_bytes, *counts in columns:
            samples.append(_Port(switch, port, ts_ns, sent_bytes))
            samples.append(_Queue(switch, port, DATA_QUEUE, ts_ns, *counts))
        return Body(self._encoder.encode_lines(samples), len(samples), COUNTERS_PATH)

    def _whole(self, values: NDArray[np.float64]) -> list[int]:
        whole: list[int] = np.rint(values[self._ports]).astype(np.int64).tolist()
        return whole


class Outbox(ABC, Generic[Item]):
    """A queue that a thread delivers in order; call ``start`` and ``stop`` once each. ``failure``: why it
    ended early.
    """

    def __init__(self, thread_name: str) -> None:
        self._on_room: Callable[[], None] = lambda: None
        self._waiting: deque[Item] = deque()
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=thread_name, daemon=True)
        self.failure: Exception | None = None

    @property
    @abstractmethod
    def has_room(self) -> bool:
        """Whether ``offer`` may be called."""

    @property
    def idle(self) -> bool:
        return not self._waiting

    def on_room(self, callback: Callable[[], None]) -> None:
        """Calls ``callback`` from this thread after each delivery and at a failure."""
        self._on_room = callback

    def offer(self, item: Item) -> None:
        """Appends an item; check ``has_room`` before."""
        with self._changed:
            self._waiting.append(item)
            self._changed.notify_all()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends at once; waiting items are not delivered."""
        self._stopping.set()
        with self._changed:
            self._changed.notify_all()
        if self._thread.ident is not None:
            self._thread.join(STOP_S)  # a hanging service must not delay the end
        if not self._thread.is_alive():
            self._close()

    @abstractmethod
    def _deliver(self, item: Item) -> bool:
        """Delivers one item, however long that takes; False if stopped before."""

    @abstractmethod
    def _close(self) -> None: ...

    def _run(self) -> None:
        try:
            while (item := self._next()) is not None and self._deliver(item):
                with self._changed:
                    self._waiting.popleft()
                self._on_room()
        except Exception as error:
            self.failure = error
            self._on_room()

    def _next(self) -> Item | None:
        with self._changed:
            self._changed.wait_for(lambda: bool(self._waiting) or self._stopping.is_set())
            return None if self._stopping.is_set() else self._waiting[0]


class PostError(ApiError):
    """The service refuses what is posted for good."""


@dataclass(frozen=True, slots=True)
class Posted:
    """Counts of reports and counter samples; ``waits_for``: why posting waits now."""

    posted: int = 0
    accepted: int = 0
    rejected: int = 0
    samples_accepted: int = 0
    samples_rejected: int = 0
    retries: int = 0
    waits_for: str | None = None


class _Rejected(Struct):
    detail: str


class _Answer(Struct):
    accepted: int
    rejected: int
    errors: list[_Rejected] = []


class _Problem(Struct):
    detail: str


def _said(answer: httpx.Response) -> str:
    """The sentence of a problem document; of anything else, its beginning."""
    try:
        text = msgspec.json.decode(answer.content, type=_Problem).detail
    except ValueError:
        text = answer.text
    return " ".join(text[:300].split()) or "no text"


class Poster(Outbox[Body]):
    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        compressed: bool = False,
        transport: httpx.BaseTransport | None = None,
        first_pause_s: float = FIRST_PAUSE_S,
    ) -> None:
        super().__init__("ecntwin-poster")
        headers = {"Content-Type": "application/x-ndjson"}
        if compressed:
            headers["Content-Encoding"] = "gzip"
        self._url = url.rstrip("/")
        self._compressed = compressed
        options = client_options(url, token, **headers)
        self._client = httpx.Client(timeout=TIMEOUT_S, transport=transport, **options)
        self._first_pause_s = first_pause_s
        self._retry_after_s = 0.0
        self._takes_counters = True
        self._rejecting = set[str]()  # paths of which it was said
        self.counts = Posted()

    @property
    def has_room(self) -> bool:
        return len(self._waiting) < ROOM_BODIES

    def _close(self) -> None:
        self._client.close()

    def _deliver(self, body: Body) -> bool:
        if body.path == COUNTERS_PATH and not self._takes_counters:
            return True
        content = gzip.compress(body.content, 1) if self._compressed else body.content
        pause_s = self._first_pause_s
        while not self._stopping.is_set():
            reason = self._tried(content, body)
            if reason is None:
                return True
            if self.counts.waits_for is None:
                _log.warning("reports and counters wait: %s", reason)
            self.counts = replace(self.counts, retries=self.counts.retries + 1, waits_for=reason)
            self._stopping.wait(max(pause_s, self._retry_after_s))
            pause_s = min(2.0 * pause_s, LONGEST_PAUSE_S)
        return False

    def _tried(self, content: bytes, body: Body) -> str | None:
        """None once it is taken or counters are unknown there, else the reason to retry."""
        try:
            answer = self._client.post(self._url + body.path, content=content)
        except httpx.HTTPError as error:
            self._retry_after_s = 0.0
            return f"the service at {self._url} does not answer ({str(error) or type(error).__name__})"
        self._retry_after_s = retry_after_s(answer.headers)
        if answer.is_server_error or answer.status_code in PASSING:
            return f"the service at {self._url} answers {answer.status_code}"
        if body.path == COUNTERS_PATH and answer.status_code == httpx.codes.NOT_FOUND:
            _log.warning("the service at %s takes no counters: only reports are posted", self._url)
            self._takes_counters = False
            return None
        try:
            taken = msgspec.json.decode(answer.content, type=_Answer) if answer.is_success else None
        except ValueError:
            taken = None
        if taken is None:
            said = _said(answer)
            raise PostError(
                f"service at {self._url}",
                f"{answer.status_code} to POST {body.path}: {said}",
                "posting takes a token with the scope telemetry",
                "raise server.max_body_bytes of the service"
                if answer.status_code == httpx.codes.REQUEST_ENTITY_TOO_LARGE
                else f"correct --post-to, or the token in {TOKEN_VARIABLE}",
            )
        if self.counts.waits_for is not None:
            _log.warning("reports and counters are accepted again")
            self._takes_counters = True  # it may have been replaced by a newer one
        self.counts = self._counted(body, taken)
        if not taken.errors:
            self._rejecting.discard(body.path)
        elif body.path not in self._rejecting:
            self._rejecting.add(body.path)
            what = "counter samples" if body.path == COUNTERS_PATH else "reports"
            first = taken.errors[0].detail
            _log.warning("the service rejects %d of %d %s: %s", taken.rejected, body.records, what, first)
        return None

    def _counted(self, body: Body, taken: _Answer) -> Posted:
        counts = replace(self.counts, waits_for=None)
        if body.path == COUNTERS_PATH:
            return replace(
                counts,
                samples_accepted=counts.samples_accepted + taken.accepted,
                samples_rejected=counts.samples_rejected + taken.rejected,
            )
        return replace(
            counts,
            posted=counts.posted + body.records,
            accepted=counts.accepted + taken.accepted,
            rejected=counts.rejected + taken.rejected,
        )
