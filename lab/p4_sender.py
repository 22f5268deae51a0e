"""Sends binary reports by UDP, paced, in a thread of its own.

With a ``Taker``, a portion is done once the service's counters show that it was taken or dropped.
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import httpx
import msgspec

from lab.poster import FIRST_PAUSE_S, LONGEST_PAUSE_S, TIMEOUT_S, Outbox, PostError
from settings.errors import InputError
from settings.tls import client_context

UDP_PATH = "/v1/telemetry/udp"
ROOM_DATAGRAMS = 4_096
BURST_DATAGRAMS = 32
PAUSE_S = 0.001  # after each burst: some 30 000 datagrams a second, 250 000 reports
POLL_S = 0.002
SILENT_FOR_S = 2.0  # datagrams that have not arrived by then are lost

_log = logging.getLogger("ecntwin.lab")


@dataclass(frozen=True, slots=True)
class Sent:
    """Datagrams and reports sent; ``lost``: None without a ``Taker``; ``waits_for``: why sending waits."""

    datagrams: int = 0
    reports: int = 0
    lost: int | None = None
    waits_for: str | None = None


class _Answer(msgspec.Struct, frozen=True):
    addresses: Sequence[str]
    received: int
    taken: int
    dropped: Mapping[str, int]

    @property
    def came(self) -> int:
        """Datagrams that reached the service's machine."""
        return self.received + self.dropped.get("kernel", 0)

    @property
    def done(self) -> bool:
        """Whether the service has processed all of them."""
        return self.taken + sum(self.dropped.values()) >= self.came


@dataclass(frozen=True, slots=True)
class Portion:
    """Datagrams of one slice, and how many reports they hold."""

    datagrams: Sequence[bytes]
    reports: int


class Taker:
    """Polls the service at ``url`` for its UDP counters."""

    def __init__(
        self, url: str, *, token: str | None = None, transport: httpx.BaseTransport | None = None
    ) -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._url = url.rstrip("/")
        self._client = httpx.Client(
            headers=headers,
            timeout=TIMEOUT_S,
            transport=transport,
            verify=client_context(url),
            trust_env=False,
        )

    def ask(self) -> _Answer:
        """Raises ``ConnectionError`` if the service is away, ``PostError`` if it takes no datagrams."""
        try:
            answer = self._client.get(self._url + UDP_PATH)
        except httpx.HTTPError as error:
            raise ConnectionError(str(error) or type(error).__name__) from None
        if answer.is_server_error:
            raise ConnectionError(f"it answers {answer.status_code}")
        try:
            found = msgspec.json.decode(answer.content, type=_Answer) if answer.is_success else None
        except ValueError:
            found = None
        if found is None or not found.addresses:
            said = "no address" if found else " ".join(answer.text[:300].split()) or "no text"
            raise PostError(
                f"service at {self._url}",
                f"{answer.status_code} to GET {UDP_PATH}: {said}",
                "a service that takes binary reports shows its addresses to callers with the scope telemetry",
                "set telemetry.udp.ports of the service, or correct --post-to, or the token",
            )
        return found

    def close(self) -> None:
        self._client.close()


class IntSender(Outbox[Portion]):
    """Sends to ``host`` and ``port``; with a ``taker``, waits until each portion is taken or lost."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        taker: Taker | None = None,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__("ecntwin-int-sender")
        self._name = f"{host}:{port}"
        self._socket = _connected(host, port)
        self._taker = taker
        self._clock_s = clock_s
        self.counts = Sent(lost=None if taker is None else 0)

    @property
    def has_room(self) -> bool:
        return sum(len(portion.datagrams) for portion in list(self._waiting)) < ROOM_DATAGRAMS

    def _close(self) -> None:
        self._socket.close()
        if self._taker is not None:
            self._taker.close()

    def _deliver(self, portion: Portion) -> bool:
        before = self._asked()
        for number, datagram in enumerate(portion.datagrams, 1):
            if not self._sent(datagram):
                return False
            if number % BURST_DATAGRAMS == 0:
                self._stopping.wait(PAUSE_S)
        self.counts = replace(
            self.counts,
            datagrams=self.counts.datagrams + len(portion.datagrams),
            reports=self.counts.reports + portion.reports,
        )
        if before is not None:
            self._wait_until_taken(before, len(portion.datagrams))
        return not self._stopping.is_set()

    def _sent(self, datagram: bytes) -> bool:
        """Sends one datagram; retries while the host reports (ICMP) that the port is closed."""
        for _ in self._attempts():
            try:
                self._socket.send(datagram)
            except OSError as error:
                self._waits(f"no receiver at {self._name} ({error.strerror or error})")
            else:
                self._goes_on()
                return True
        return False

    def _attempts(self) -> Iterator[None]:
        """Until stopped, with growing pauses in between."""
        pause_s = FIRST_PAUSE_S
        while not self._stopping.is_set():
            yield
            self._stopping.wait(pause_s)
            pause_s = min(2.0 * pause_s, LONGEST_PAUSE_S)

    def _asked(self) -> _Answer | None:
        """The service's counters, retried until it answers; None without a taker or when stopping."""
        if self._taker is None:
            return None
        for _ in self._attempts():
            try:
                answer = self._taker.ask()
            except ConnectionError as error:
                self._waits(f"the service does not answer ({error})")
            else:
                self._goes_on()
                return answer
        return None

    def _wait_until_taken(self, before: _Answer, sent: int) -> None:
        """Waits until the service has processed ``sent`` more datagrams.

        If no more arrive for ``SILENT_FOR_S``, the missing ones are counted as lost.
        """
        came, since_s = -1, self._clock_s()
        while (now := self._asked()) is not None:
            if now.came < before.came:  # the service was restarted
                before = _Answer(now.addresses, 0, 0, {})
            if now.came != came:
                came, since_s = now.came, self._clock_s()
            silent = self._clock_s() - since_s >= SILENT_FOR_S
            if now.done and (silent or now.came - before.came >= sent):
                break
            self._stopping.wait(POLL_S)
        else:
            return
        lost = max(sent - (now.taken - before.taken), 0)
        if lost:
            _log.warning("%d of %d datagrams were lost: the window lacks their reports", lost, sent)
            self.counts = replace(self.counts, lost=(self.counts.lost or 0) + lost)

    def _waits(self, reason: str) -> None:
        if self.counts.waits_for is None:
            _log.warning("reports wait: %s", reason)
        self.counts = replace(self.counts, waits_for=reason)

    def _goes_on(self) -> None:
        if self.counts.waits_for is not None:
            _log.warning("reports are sent again")
            self.counts = replace(self.counts, waits_for=None)


def _connected(host: str, port: int) -> socket.socket:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
        family, _, _, _, address = found[0]
        made = socket.socket(family, socket.SOCK_DGRAM)
        made.connect(address)
    except OSError as error:
        raise InputError(
            "--int-udp",
            f"{host}:{port}: {error.strerror or error}",
            "it is where datagrams can be sent",
            "give such as 127.0.0.1:32766",
        ) from error
    return made
