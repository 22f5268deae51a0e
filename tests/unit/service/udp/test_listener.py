"""Datagrams over real sockets of loopback into a window: none lost, or each one counted."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from service.events import Broadcaster, Clocks
from service.ingest.threads import DecodingThreads, IngestLimits
from service.ingest.window_owner import WindowOwner
from service.metrics import Metrics
from service.udp import listener, sockets
from service.udp.listener import UdpListener
from service.udp.sockets import MOST_DATAGRAM_BYTES, RecvmsgReader
from settings.errors import SettingsError
from settings.telemetry import UdpSettings
from telemetry.settings import WindowSettings
from tests.unit.service.udp.sending import Decoding, Held, datagram, send

pytestmark = pytest.mark.anyio
PATIENCE_S = 60.0


@dataclass
class Listening:
    udp: UdpListener
    window: WindowOwner
    registry: CollectorRegistry
    decoding: Decoding

    async def until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < deadline, self.udp.counts
            await asyncio.sleep(0.005)

    def metric(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)


@asynccontextmanager
async def listened(
    decoding: Decoding | None = None, *, shared: bool = False, **settings: Any
) -> AsyncIterator[Listening]:
    before, registry = set(threading.enumerate()), CollectorRegistry()
    metrics = Metrics(registry, version="0")
    threads = DecodingThreads()
    window = WindowOwner(
        WindowSettings(),
        None,
        IngestLimits(1 << 20, 10, 60.0),
        decoding=threads,
        metrics=metrics,
        events=Broadcaster(),
        clocks=Clocks(),
    )
    decoding = decoding or Decoding()
    udp = UdpListener(
        UdpSettings(**({"ports": 0} | settings)),
        decode=decoding.decode,
        sink=window,
        metrics=metrics.udp,
        shared=shared,
    )
    try:
        udp.start()
        yield Listening(udp, window, registry, decoding)
    finally:
        if isinstance(decoding, Held):
            decoding.go.set()
        await udp.stop()
        window.close()
        threads.close()
    begun = set(threading.enumerate()) - before
    assert "ecntwin-udp" not in {thread.name for thread in begun}


@pytest.fixture(params=["recvmmsg", "recvmsg"])
def each_reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "recvmsg":
        monkeypatch.setattr(listener, "reader", RecvmsgReader)


@pytest.mark.usefixtures("each_reader")
async def test_thousands_arrive_in_the_window_each_once() -> None:
    async with listened() as one:
        before_ns = time.time_ns()
        for end in range(
            200, 20_001, 200
        ):  # as many as any kernel's buffer holds, should nobody read meanwhile
            send([datagram(number) for number in range(end - 200, end)], one.udp.addresses[0])
            await one.until(lambda sent=end: one.udp.taken == sent)
        assert sorted(one.decoding.numbers) == list(range(20_000))
        assert one.udp.counts.received == 20_000
        assert one.udp.dropped == one.udp.tally().waiting == 0
        assert one.window.accepted == 20_000
        assert one.decoding.sources == {"127.0.0.1"}
        assert before_ns <= min(one.decoding.received_ns) <= max(one.decoding.received_ns) <= time.time_ns()
    assert one.metric("ecntwin_udp_datagrams_received_total") == 20_000
    assert one.metric("ecntwin_reports_accepted_total") == 20_000
    assert one.metric("ecntwin_udp_datagrams_dropped_total", where="kernel") == 0


@pytest.mark.usefixtures("each_reader")
async def test_what_may_not_be_sent_or_is_too_long_is_counted_and_left_out() -> None:
    async with listened(allow=["127.0.0.2/32"]) as one:
        to = one.udp.addresses[0]
        send([datagram(1)] * 3, to)
        send([datagram(2), bytes(MOST_DATAGRAM_BYTES + 1), datagram(3)], to, host="127.0.0.2")
        await one.until(lambda: one.udp.counts.received == 6 and one.udp.taken == 2)
        assert (one.udp.counts.refused, one.udp.counts.truncated, one.udp.dropped) == (3, 1, 4)
        assert one.decoding.sources == {"127.0.0.2"}
        assert sorted(one.decoding.numbers) == [2, 3]
    assert one.metric("ecntwin_udp_datagrams_dropped_total", where="refused") == 3
    assert one.metric("ecntwin_udp_datagrams_dropped_total", where="truncated") == 1


@pytest.mark.usefixtures("each_reader")
async def test_a_datagram_as_long_as_may_be_and_an_empty_one_cost_no_other() -> None:
    async with listened() as one:
        longest = datagram(1) + bytes(MOST_DATAGRAM_BYTES - len(datagram(1)))
        send([b"", longest, datagram(2)], one.udp.addresses[0])
        await one.until(lambda: one.udp.taken == 3)
        assert one.udp.dropped == 0
        assert sorted(one.decoding.numbers) == [1, 2]
        assert one.window.accepted >= 1


@pytest.mark.usefixtures("each_reader")
async def test_over_ipv6_and_on_a_socket_for_both() -> None:
    async with listened(host="::1") as one:
        assert one.udp.addresses[0].startswith("[::1]:")
        send([datagram(n) for n in range(10)], one.udp.addresses[0], host="::1")
        await one.until(lambda: one.udp.taken == 10)
        assert one.decoding.sources == {"::1"}
    async with listened(host="::", allow=["127.0.0.1/32"]) as one:
        port = one.udp.addresses[0].rpartition(":")[2]
        send([datagram(1)], f"127.0.0.1:{port}")
        send([datagram(1)], f"[::1]:{port}", host="::1")
        await one.until(lambda: one.udp.taken + one.udp.counts.refused == 2)
        assert one.decoding.sources == {"127.0.0.1"}


async def test_a_queue_that_is_full_drops_the_newest_and_counts_them() -> None:
    held = Held()
    async with listened(held, queue_datagrams=100, sockets=1) as one:
        send([datagram(0)], one.udp.addresses[0])
        await asyncio.to_thread(held.begun.wait, PATIENCE_S)  # the window is busy from now on
        for end in (101, 301, 501):  # no more at once than any kernel's buffer holds
            send([datagram(number) for number in range(max(1, end - 200), end)], one.udp.addresses[0])
            await one.until(lambda sent=end: one.udp.counts.received == sent)
        assert one.udp.tally().waiting == 100
        assert one.metric("ecntwin_udp_queue_datagrams") == 100
        held.go.set()
        await one.until(lambda: one.udp.taken == 101)
        assert sorted(held.numbers) == list(range(101))
        assert one.udp.counts.queue == one.udp.dropped == 400
    assert one.metric("ecntwin_udp_datagrams_dropped_total", where="queue") == 400


@pytest.mark.skipif(not hasattr(socket, "SO_INCOMING_CPU"), reason="only Linux tells what its kernel dropped")
async def test_what_the_kernel_drops_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = threading.Event()
    whole = sockets.RecvmmsgReader.read

    def late(self: Any, *given: Any) -> Any:
        assert reading.wait(PATIENCE_S)
        return whole(self, *given)

    monkeypatch.setattr(sockets.RecvmmsgReader, "read", late)
    async with listened(receive_buffer_bytes=4_096, sockets=1) as one:
        send([datagram(number) for number in range(2_000)], one.udp.addresses[0])
        reading.set()
        await one.until(lambda: one.udp.counts.received + one.udp.counts.kernel == 2_000)
        assert one.udp.counts.kernel > 0
        kernel = one.udp.counts.kernel
    assert one.metric("ecntwin_udp_datagrams_dropped_total", where="kernel") == kernel


async def test_it_stops_while_datagrams_pour_in_and_the_window_is_busy() -> None:
    held, stop = Held(), threading.Event()

    def pour(to: str) -> None:
        while not stop.is_set():
            send([datagram(1)] * 50, to)

    async with listened(held, queue_datagrams=1_000) as one:
        pouring = asyncio.create_task(asyncio.to_thread(pour, one.udp.addresses[0]))
        await asyncio.to_thread(held.begun.wait, PATIENCE_S)
        await one.until(lambda: one.udp.tally().waiting >= 1_000)
    stop.set()
    await pouring
    port = int(one.udp.addresses[0].rpartition(":")[2])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", port))  # the port is free again


async def test_garbage_is_named_and_the_rest_kept() -> None:
    async with listened() as one:
        send([b"\xf0\xff", datagram(4), bytes(7)], one.udp.addresses[0])
        await one.until(lambda: one.udp.taken == 3)
        assert one.window.accepted == 1
        assert one.metric("ecntwin_reports_rejected_total", reason="malformed") == 2


async def test_what_decoding_raises_ends_nothing() -> None:
    class Failing(Decoding):
        def decode(self, *given: Any) -> Any:
            if not self.numbers:
                self.numbers.append(-1)
                raise ZeroDivisionError
            return super().decode(*given)

    async with listened(Failing()) as one:
        send([datagram(1)], one.udp.addresses[0])
        await one.until(lambda: one.udp.taken == 1)
        send([datagram(2)], one.udp.addresses[0])
        await one.until(lambda: one.window.accepted == 1)


@pytest.mark.parametrize("sockets", [1, 3])
async def test_a_port_in_use_is_said_in_a_sentence(sockets: int) -> None:
    async with listened(sockets=2) as one:
        port = int(one.udp.addresses[0].rpartition(":")[2])
        with pytest.raises(SettingsError, match="in use") as caught:
            async with listened(ports=[0, port], sockets=sockets):
                pass
        assert str(port) in caught.value.received
        assert "ss -lunp" in caught.value.remedy


async def test_a_port_that_the_system_chooses_is_shared_with_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """For who would share, the system may choose one that another process of the same user shares."""
    would_share: list[int] = []

    class Watched(socket.socket):
        def bind(self, address: Any) -> None:
            would_share.append(self.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT))
            super().bind(address)

    monkeypatch.setattr(sockets.socket, "socket", Watched)
    async with listened(sockets=3):
        assert would_share == [0, 1, 1]


async def test_processes_that_say_so_share_a_port() -> None:
    async with listened(shared=True, sockets=1) as one:
        port = int(one.udp.addresses[0].rpartition(":")[2])
        async with listened(shared=True, sockets=1, ports=port) as other:
            for number in range(200):
                send([datagram(number)], one.udp.addresses[0])  # each from a port of its own
            await one.until(lambda: one.udp.taken + other.udp.taken == 200)
            assert min(one.udp.taken, other.udp.taken) > 0


async def test_a_host_of_another_machine_is_said_in_a_sentence() -> None:
    with pytest.raises(SettingsError, match="address of this machine"):
        async with listened(host="192.0.2.1", allow=["192.0.2.0/24"]):
            pass


async def test_several_ports_are_listened_on() -> None:
    async with listened(ports=[0, 0]) as one:
        assert len(one.udp.addresses) == 2
        for number, to in enumerate(one.udp.addresses):
            send([datagram(number)], to)
        await one.until(lambda: one.udp.taken == 2)
        assert sorted(one.decoding.numbers) == [0, 1]


@pytest.mark.parametrize("granted", [16, 1 << 30])
async def test_what_the_kernel_granted_is_logged(
    granted: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.udp.sockets.granted_bytes", lambda made, wanted: granted)
    with caplog.at_level("INFO", logger="ecntwin.udp"):
        async with listened():
            pass
    assert ("net.core.rmem_max" in caplog.text) == (granted == 16)
    assert "receiving telemetry reports over UDP at 127.0.0.1:" in caplog.text
