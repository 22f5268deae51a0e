"""Counters over gNMI, from real gRPC servers: streamed, asked for, cut off, refused."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from service.polling.gnmi import openconfig_source
from service.polling.poller import CounterSource, NoCountersError, PollSchedule
from service.polling.sonic_gnmi import sonic_gnmi_source
from switches.device import Device, Secret, Tls
from switches.errors import AccessError, UnreachableError
from telemetry.counters.model import Counters, SeriesKey
from telemetry.decode.body import Polled
from tests.counterparts.certificates import Authority
from tests.counterparts.one_loop import one_loop
from tests.counterparts.polled.openconfig_counters import OpenConfigCounting
from tests.counterparts.polled.sonic_counters import CountersDb
from tests.counterparts.switches.gnmi_switch import GnmiSwitch, ServerTls
from tests.counterparts.switches.sonic_gnmi import SonicGnmi
from tests.counterparts.switches.sonic_switch import SonicSwitch

__all__ = ["one_loop"]

pytestmark = pytest.mark.anyio

EVERY_S = 1.5  # half of it is how long a burst may take: a slow machine is to send all of it in that
PATIENCE_S = 60.0
Follow = Callable[..., CounterSource]


@pytest.fixture
async def turns() -> AsyncIterator[PollSchedule]:
    with ThreadPoolExecutor(4) as threads:
        yield PollSchedule(EVERY_S, threads, asyncio.Semaphore(4))


@pytest.fixture
async def follow(turns: PollSchedule) -> AsyncIterator[Follow]:
    """Follows a server of either platform."""
    made: list[CounterSource] = []

    def following(platform: str, port: int, **said: Any) -> CounterSource:
        described: dict[str, Any] = {"tls": Tls(enabled=False), "timeout_s": 30.0} | said
        device = Device(name="leaf1", platform=platform, address="127.0.0.1", port=port, **described)
        maker = sonic_gnmi_source if platform == "sonic-gnmi" else openconfig_source
        made.append(maker(device, turns, first_after_s=0.0))
        return made[-1]

    yield following
    for source in made:
        await source.close()


class Sonic:
    """A SONiC switch with counters behind its gNMI server."""

    def __init__(self, folder: Path) -> None:
        self.switch = SonicSwitch(folder, ports=("Ethernet0", "Ethernet4"))
        self.db = CountersDb(self.switch.server)
        self.gnmi = SonicGnmi(self.switch)
        self.server = GnmiSwitch(self.gnmi)

    def close(self) -> None:
        self.server.close()
        self.gnmi.close()
        self.db.close()
        self.switch.close()


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sonic]:
    made = Sonic(tmp_path_factory.mktemp("sonic"))
    yield made
    made.close()


@pytest.fixture
def sonic(started: Sonic) -> Sonic:
    started.db.begin(["Ethernet0", "Ethernet4"])
    started.server.streams = True
    return started


@pytest.fixture
def openconfig() -> Iterator[tuple[OpenConfigCounting, GnmiSwitch]]:
    counting = OpenConfigCounting()
    server = GnmiSwitch(counting)
    yield counting, server
    server.close()


def found(polled: Polled, port: str, queue: int | None = 3) -> Counters:
    (sample,) = [one for one in polled.samples if one.key == SeriesKey("leaf1", port, queue)]
    return sample.counters


async def several(source: CounterSource) -> None:
    """So many that none is on its way from before."""
    for _ in range(8):
        await source.next_counters()


async def until(
    source: CounterSource,
    holds: Callable[[dict[tuple[str, int | None], Counters]], object],
    *,
    despite: type[Exception] | tuple[()] = (),
) -> Polled:
    """What comes once that holds of it, by port and queue: where it takes long, a burst comes in parts."""
    polled = Polled(())
    try:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    polled = await source.next_counters()
                except despite:
                    continue
                if holds({(one.key.port, one.key.queue): one.counters for one in polled.samples}):
                    return polled
    except TimeoutError:
        raise AssertionError(polled) from None


def whole(counters: dict[tuple[str, int | None], Counters]) -> bool:
    """Two ports, and a queue of each."""
    return len(counters) == 4


async def test_sonic_streams_the_rows_that_are_wanted(sonic: Sonic, follow: Follow) -> None:
    sonic.db.grow("Ethernet0", SAI_PORT_STAT_PFC_3_TX_PKTS=7, SAI_PORT_STAT_PFC_3_RX_PAUSE_DURATION_US=3)
    sonic.db.grow("Ethernet0:3", SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS=5)
    subscribed = sonic.server.subscribed
    source = follow("sonic-gnmi", sonic.server.port)
    first = await until(
        source, lambda all_of: whole(all_of) and all_of["Ethernet0", 3][:4] == (7, 0, 3_000, 5)
    )
    assert {sample.key for sample in first.samples} == {
        SeriesKey("leaf1", port, queue) for port in ("Ethernet0", "Ethernet4") for queue in (None, 3)
    }
    sonic.db.grow("Ethernet0:3", SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS=5)
    second = await until(
        source, lambda all_of: whole(all_of) and all_of["Ethernet0", 3].ecn_marked_packets == 10
    )
    assert min(one.ts_ns for one in second.samples) > max(one.ts_ns for one in first.samples)
    assert sonic.server.subscribed == subscribed + 1


async def test_sonic_that_will_not_stream_is_asked(
    sonic: Sonic, follow: Follow, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ecntwin.counters")
    sonic.server.streams = False
    source = follow("sonic-gnmi", sonic.server.port)
    for count in (0, 4):
        polled = await source.next_counters()
        assert found(polled, "Ethernet4").tx_packets == count
        assert len(polled.samples) == 4
        sonic.db.grow("Ethernet4:3", SAI_QUEUE_STAT_PACKETS=4)
    said = [record.getMessage() for record in caplog.records if record.name == "ecntwin.counters"]
    assert [line.split(":")[0] for line in said] == [
        "switch leaf1 will not stream its counters, and is polled"
    ]


async def test_what_sonic_does_not_count_is_unknown_over_gnmi_too(sonic: Sonic, follow: Follow) -> None:
    sonic.db.support("WRED_ECN_QUEUE_ECN_MARKED_PKT_COUNTER", False)
    sonic.db.unwatch("Ethernet4")
    try:
        polled = await until(follow("sonic-gnmi", sonic.server.port), whole)
    finally:
        sonic.db.support("WRED_ECN_QUEUE_ECN_MARKED_PKT_COUNTER", True)
    assert found(polled, "Ethernet0").ecn_marked_packets is None
    assert found(polled, "Ethernet0").pfc_pause_ns == 0
    assert found(polled, "Ethernet4").pfc_pause_ns is None
    assert "its chip cannot" in polled.notes[0]


async def test_sonic_with_other_names_is_subscribed_anew(
    sonic: Sonic, follow: Follow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.polling.gnmi.RESUBSCRIBE_CHECK_S", 0.0)
    source = follow("sonic-gnmi", sonic.server.port, timeout_s=2.0)
    await until(source, whole, despite=UnreachableError)
    sonic.db.begin(["Ethernet0", "Ethernet2"])
    sonic.db.grow("Ethernet2:3", SAI_QUEUE_STAT_PACKETS=6)
    await until(
        source,
        lambda all_of: ("Ethernet2", 3) in all_of and all_of["Ethernet2", 3].tx_packets == 6,
        despite=UnreachableError,
    )
    sonic.db.begin([])
    with pytest.raises(NoCountersError):
        await until(source, lambda all_of: False, despite=UnreachableError)


@pytest.mark.parametrize("answers", ["leaves", "containers", "json"])
@pytest.mark.parametrize("streams", [True, False])
async def test_openconfig_however_it_cuts_its_answers(
    openconfig: tuple[OpenConfigCounting, GnmiSwitch], follow: Follow, answers: str, streams: bool
) -> None:
    counting, server = openconfig
    counting.answers, server.streams = answers, streams
    counting.grow("Ethernet1", "3", ecn_marked_pkts=3, dropped_pkts=2, dropped_octets=9, transmit_octets=8)
    counting.grow_port("Ethernet1", out_discards=5, out_octets=70)
    source = follow("openconfig", server.port)
    zero = Counters(tx_packets=0, tx_bytes=0, dropped_packets=0)
    expected = {
        ("Ethernet1", None): Counters(dropped_packets=5, tx_packets=0, tx_bytes=70),
        ("Ethernet1", 3): Counters(
            ecn_marked_packets=3, dropped_packets=2, dropped_bytes=9, tx_packets=0, tx_bytes=8
        ),
        ("Ethernet2", None): zero,
        ("Ethernet2", 3): zero._replace(ecn_marked_packets=0, dropped_bytes=0),
    }
    polled = await until(source, lambda all_of: all_of == expected)
    assert "PFC" in polled.notes[0]
    counting.grow("Ethernet1", "3", ecn_marked_pkts=3)
    await until(source, lambda all_of: whole(all_of) and all_of["Ethernet1", 3].ecn_marked_packets == 6)


async def test_openconfig_queues_go_by_the_names_of_the_inventory(follow: Follow) -> None:
    server = GnmiSwitch(OpenConfigCounting(queues=("RDMA", "3")))
    source = follow("openconfig", server.port, options={"queue_names": {3: "RDMA"}}, ports=("*2",))
    await until(source, lambda all_of: all_of.keys() == {("Ethernet2", None), ("Ethernet2", 3)})
    server.close()


@pytest.mark.parametrize("value", [-1, 2**64 - 1, "many", 1.5, True, ["1"], {"a": 1}])
async def test_a_value_that_is_no_count_costs_itself_only(
    openconfig: tuple[OpenConfigCounting, GnmiSwitch], follow: Follow, value: Any
) -> None:
    counting, server = openconfig
    counting.answers = "containers"
    counting.put("Ethernet1", "3", "dropped-pkts", value)
    left = Counters(ecn_marked_packets=0, dropped_bytes=0, tx_packets=0, tx_bytes=0)
    polled = await until(
        follow("openconfig", server.port), lambda all_of: whole(all_of) and all_of["Ethernet1", 3] == left
    )
    (problem,) = polled.problems
    assert problem.startswith("Ethernet1 queue 3 dropped-pkts: received ")


async def test_a_stream_that_is_cut_is_begun_anew(
    openconfig: tuple[OpenConfigCounting, GnmiSwitch], follow: Follow
) -> None:
    _, server = openconfig
    source = follow("openconfig", server.port)
    await until(source, whole)
    server.cut()
    with pytest.raises(UnreachableError):
        await several(source)
    await until(source, whole)
    assert server.subscribed == 2


async def test_a_server_that_goes_away_and_comes_back(
    openconfig: tuple[OpenConfigCounting, GnmiSwitch], follow: Follow
) -> None:
    _, server = openconfig
    source = follow("openconfig", server.port)
    await source.next_counters()
    server.close()
    for _ in range(2):
        with pytest.raises(UnreachableError):
            await several(source)


async def test_a_stream_that_falls_silent_is_given_up(
    openconfig: tuple[OpenConfigCounting, GnmiSwitch], follow: Follow
) -> None:
    _, server = openconfig
    source = follow("openconfig", server.port, timeout_s=0.2)
    await until(source, whole, despite=UnreachableError)
    with server.silent(), pytest.raises(UnreachableError, match="nothing for"):
        await several(source)
    await until(source, whole, despite=UnreachableError)


async def test_credentials_that_are_wrong(follow: Follow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ECNTWIN_TEST_USER", "reader")
    monkeypatch.setenv("ECNTWIN_TEST_PASSWORD", "wrong-one")
    server = GnmiSwitch(OpenConfigCounting(), credentials=("reader", "right"))
    secrets = {
        "username": Secret(env="ECNTWIN_TEST_USER"),
        "password": Secret(env="ECNTWIN_TEST_PASSWORD"),
    }
    source = follow("openconfig", server.port, **secrets)
    with pytest.raises(AccessError) as refused:
        await source.next_counters()
    assert "wrong-one" not in str(refused.value)
    monkeypatch.setenv("ECNTWIN_TEST_PASSWORD", "right")
    await until(source, whole)
    server.close()


async def test_over_tls_a_certificate_is_checked(follow: Follow, tmp_path: Path) -> None:
    authority = Authority("fabric")
    signed = authority.signed("127.0.0.1")
    server = GnmiSwitch(OpenConfigCounting(), tls=ServerTls(signed.key, signed.certificate))
    for name, one in (("ours", authority), ("other", Authority("stranger"))):
        (tmp_path / f"{name}.pem").write_bytes(one.certificate)
    with pytest.raises(UnreachableError):
        await follow("openconfig", server.port, tls=Tls(ca_file=tmp_path / "other.pem")).next_counters()
    good = follow("openconfig", server.port, tls=Tls(ca_file=tmp_path / "ours.pem"))
    await until(good, whole)
    server.close()


@pytest.mark.parametrize("streams", [True, False])
async def test_a_switch_without_any_counters(follow: Follow, streams: bool) -> None:
    server = GnmiSwitch(OpenConfigCounting(ports=("Management0",)))
    server.streams = streams
    with pytest.raises(NoCountersError):
        await follow("openconfig", server.port, ports=("Ethernet*",), timeout_s=0.5).next_counters()
    server.close()
