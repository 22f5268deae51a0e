"""Counters of a SONiC switch over a real redis-server: what is read, what is not believed, and what fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from service.polling.poller import NoCountersError
from service.polling.sonic import SonicReader
from switches.device import Device, Secret, Tls
from switches.errors import AccessError, InventoryError, RefusedError, UnreachableError
from telemetry.counters.model import Counters, SeriesKey
from telemetry.decode.body import Polled
from tests.counterparts.certificates import Authority
from tests.counterparts.polled.sonic_counters import CountersDb
from tests.counterparts.redis_server import RedisServer

Describe = Callable[..., Device]
MARKED = "SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS"


@pytest.fixture
def reader(describe: Describe) -> Iterator[SonicReader]:
    made = SonicReader(describe())
    yield made
    made.close()


def found(polled: Polled, port: str = "Ethernet0", queue: int | None = 3) -> Counters:
    (sample,) = [one for one in polled.samples if one.key == SeriesKey("leaf1", port, queue)]
    return sample.counters


def test_a_look_gives_ports_and_the_queues_that_are_wanted(counters: CountersDb, reader: SonicReader) -> None:
    counters.grow(
        "Ethernet0",
        SAI_PORT_STAT_PFC_3_TX_PKTS=7,
        SAI_PORT_STAT_PFC_3_RX_PKTS=9,
        SAI_PORT_STAT_PFC_4_TX_PKTS=1,
        SAI_PORT_STAT_PFC_3_RX_PAUSE_DURATION_US=250,
        SAI_PORT_STAT_IF_OUT_DISCARDS=2,
        SAI_PORT_STAT_IF_OUT_OCTETS=10_000,
        SAI_PORT_STAT_IF_OUT_UCAST_PKTS=8,
        SAI_PORT_STAT_IF_OUT_NON_UCAST_PKTS=2,
    )
    counters.grow(
        "Ethernet0:3",
        SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS=5,
        SAI_QUEUE_STAT_DROPPED_PACKETS=3,
        SAI_QUEUE_STAT_DROPPED_BYTES=3_000,
        SAI_QUEUE_STAT_WRED_DROPPED_PACKETS=1,
        SAI_QUEUE_STAT_PACKETS=6,
        SAI_QUEUE_STAT_BYTES=6_000,
    )
    before_ns = counters.time_ns()
    polled = reader.read()
    assert {sample.key for sample in polled.samples} == {
        SeriesKey("leaf1", port, queue) for port in ("Ethernet0", "Ethernet4") for queue in (None, 3, 4)
    }
    assert found(polled) == Counters(
        pfc_tx_frames=7,
        pfc_rx_frames=9,
        pfc_pause_ns=250_000,
        ecn_marked_packets=5,
        dropped_packets=3,
        dropped_bytes=3_000,
        wred_dropped_packets=1,
        tx_packets=6,
        tx_bytes=6_000,
    )
    assert found(polled, queue=None) == Counters(
        dropped_packets=2, wred_dropped_packets=0, tx_packets=10, tx_bytes=10_000
    )
    assert found(polled, queue=4).pfc_tx_frames == 1
    (ts_ns,) = {sample.ts_ns for sample in polled.samples}
    assert before_ns <= ts_ns <= counters.time_ns()
    assert (polled.problems, polled.notes) == ((), ())


def test_only_ports_that_the_inventory_wants_are_looked_at(counters: CountersDb, describe: Describe) -> None:
    reader = SonicReader(describe(ports=("*4",), queues=(3,)))
    assert {sample.key[1:] for sample in reader.read().samples} == {("Ethernet4", None), ("Ethernet4", 3)}
    reader.close()


def test_what_the_chip_does_not_count_is_unknown_and_never_zero(
    counters: CountersDb, reader: SonicReader
) -> None:
    counters.support("WRED_ECN_QUEUE_ECN_MARKED_PKT_COUNTER", False)
    polled = reader.read()
    assert found(polled).ecn_marked_packets is None
    assert found(polled).wred_dropped_packets == 0
    (note,) = polled.notes
    assert "its chip cannot" in note


def test_what_nobody_reads_stands_still_and_is_unknown(counters: CountersDb, reader: SonicReader) -> None:
    assert found(reader.read()).ecn_marked_packets == 0
    counters.group("WRED_ECN_QUEUE", "disable")
    polled = reader.read()
    assert (found(polled).ecn_marked_packets, found(polled).wred_dropped_packets) == (None, None)
    assert found(polled).dropped_packets == 0
    assert "'counterpoll wredqueue enable'" in polled.notes[0]
    counters.group("PORT", "disable")
    polled = reader.read()
    assert (found(polled).pfc_tx_frames, found(polled).pfc_pause_ns) == (None, 0)
    assert found(polled, queue=None) == Counters(wred_dropped_packets=0)


def test_how_long_a_port_paused_is_known_where_the_watchdog_looks(
    counters: CountersDb, reader: SonicReader
) -> None:
    counters.unwatch("Ethernet0")
    polled = reader.read()
    assert found(polled).pfc_pause_ns is None
    assert found(polled, "Ethernet4").pfc_pause_ns == 0
    counters.drop_fields("Ethernet4", "SAI_PORT_STAT_PFC_3_RX_PAUSE_DURATION_US")
    counters.set_row("Ethernet4", EST_PORT_STAT_PFC_3_RX_PAUSE_DURATION_US="12")
    assert found(reader.read(), "Ethernet4").pfc_pause_ns == 12_000


def test_fields_that_are_not_there_are_unknown(counters: CountersDb, reader: SonicReader) -> None:
    counters.group("WRED_ECN_QUEUE", None)
    for port in ("Ethernet0", "Ethernet4"):
        for queue in (3, 4):
            counters.drop_fields(f"{port}:{queue}", MARKED, "SAI_QUEUE_STAT_WRED_DROPPED_PACKETS")
    polled = reader.read()
    assert found(polled).ecn_marked_packets is None
    assert "counterpoll wredqueue enable" in polled.notes[0]


@pytest.mark.parametrize(
    "value", ["", "-1", "1.5", "1e15", "abc", "１２", "18446744073709551615", "9" * 5_000]
)
def test_a_value_that_is_no_count_costs_itself_only(
    counters: CountersDb, reader: SonicReader, value: str
) -> None:
    counters.set_row("Ethernet0:3", **{MARKED: value, "SAI_QUEUE_STAT_PACKETS": 4})
    polled = reader.read()
    assert (found(polled).ecn_marked_packets, found(polled).tx_packets) == (None, 4)
    assert len(polled.samples) == 6
    (problem,) = polled.problems
    assert problem.startswith(f"Ethernet0 queue 3 {MARKED}: received ")
    assert len(problem) < 200


def test_a_row_that_is_none_costs_itself_only(counters: CountersDb, reader: SonicReader) -> None:
    counters.spoil("Ethernet0:3")
    polled = reader.read()
    assert found(polled) == Counters(pfc_tx_frames=0, pfc_rx_frames=0, pfc_pause_ns=0)
    assert found(polled, "Ethernet4").tx_packets == 0


@pytest.mark.parametrize("name", ["COUNTERS_PORT_NAME_MAP", "COUNTERS_QUEUE_NAME_MAP"])
def test_a_name_map_that_is_none_is_told(
    server: RedisServer, counters: CountersDb, describe: Describe, name: str
) -> None:
    with redis.Redis(port=server.port, db=2, protocol=2) as client:
        client.delete(name)
        client.set(name, "what is this")
    reader = SonicReader(describe())
    with pytest.raises(RefusedError, match=f"{name}: WRONGTYPE"):
        reader.read()
    reader.close()


def test_names_that_change_are_followed(counters: CountersDb, reader: SonicReader) -> None:
    counters.grow("Ethernet0:3", SAI_QUEUE_STAT_PACKETS=100)
    assert found(reader.read()).tx_packets == 100
    counters.begin(["Ethernet0", "Ethernet2", "Ethernet4"])  # broken out: other objects for all
    counters.grow("Ethernet2:3", SAI_QUEUE_STAT_PACKETS=5)
    polled = reader.read()
    assert found(polled).tx_packets == 0
    assert found(polled, "Ethernet2").tx_packets == 5
    counters.begin(["Ethernet4"])
    assert {sample.key.port for sample in reader.read().samples} == {"Ethernet4"}


def test_a_switch_that_starts_has_no_counters_yet(counters: CountersDb, reader: SonicReader) -> None:
    counters.begin([])
    with pytest.raises(NoCountersError, match="COUNTERS_PORT_NAME_MAP"):
        reader.read()
    counters.begin(["Ethernet0"])
    assert found(reader.read()).tx_packets == 0


def test_a_chassis_counts_drops_where_packets_enter(counters: CountersDb, reader: SonicReader) -> None:
    counters.voqs(["lc1|asic0|Ethernet0:3", "lc2|asic0|Ethernet8:3"])
    counters.grow("lc2|asic0|Ethernet8:3", SAI_QUEUE_STAT_DROPPED_PACKETS=6, SAI_QUEUE_STAT_PACKETS=50)
    polled = reader.read()
    assert found(polled, "lc2|asic0|Ethernet8") == Counters(dropped_packets=6)
    assert found(polled, "lc1|asic0|Ethernet0") == Counters(dropped_packets=0)


def test_over_a_socket_too(counters: CountersDb, server: RedisServer, describe: Describe) -> None:
    reader = SonicReader(describe(address=f"unix:{server.socket}", port=None))
    assert len(reader.read().samples) == 6
    reader.close()


def test_redis_gone_and_back(tmp_path: Path) -> None:
    server = RedisServer(tmp_path)
    db = CountersDb(server)
    reader = SonicReader(Device(name="leaf1", platform="sonic", address="127.0.0.1", port=server.port))
    assert len(reader.read().samples) == 4
    db.close()
    server.close()
    for _ in range(2):
        with pytest.raises(UnreachableError, match="no connection to redis"):
            reader.read()
    again = RedisServer(tmp_path, port=server.port)
    back = CountersDb(again)
    assert len(reader.read().samples) == 4
    reader.close()
    back.close()
    again.close()


def test_a_redis_that_was_restarted_between_two_looks_is_not_missed(tmp_path: Path) -> None:
    first = RedisServer(tmp_path)
    CountersDb(first).close()
    reader = SonicReader(Device(name="leaf1", platform="sonic", address="127.0.0.1", port=first.port))
    assert len(reader.read().samples) == 4
    first.close()
    again = RedisServer(tmp_path, port=first.port)
    CountersDb(again).close()
    assert len(reader.read().samples) == 4
    reader.close()
    again.close()


def test_credentials_that_are_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = RedisServer(tmp_path, password="right")
    db = CountersDb(server)
    device = Device(
        name="leaf1",
        platform="sonic",
        address="127.0.0.1",
        port=server.port,
        password=Secret(env="ECNTWIN_TEST_PASSWORD"),
    )
    reader = SonicReader(device)
    monkeypatch.setenv("ECNTWIN_TEST_PASSWORD", "wrong-one")
    with pytest.raises(AccessError) as refused:
        reader.read()
    assert "wrong-one" not in str(refused.value)
    monkeypatch.setenv("ECNTWIN_TEST_PASSWORD", "right")
    assert len(reader.read().samples) == 4  # a secret that was rotated is seen
    reader.close()
    db.close()
    server.close()


def test_rights_that_lack_a_command(counters: CountersDb, server: RedisServer, describe: Describe) -> None:
    with server.client(0) as client:
        client.execute_command("ACL", "SETUSER", "default", "-time")
        try:
            reader = SonicReader(describe())
            with pytest.raises(AccessError, match="time"):
                reader.read()
            reader.close()
        finally:
            client.execute_command("ACL", "SETUSER", "default", "+time")


def test_over_tls_a_certificate_is_checked(tmp_path: Path) -> None:
    authority, stranger = Authority("fabric"), Authority("stranger")
    server = RedisServer(tmp_path, signed=authority.signed("127.0.0.1"))
    db = CountersDb(server)
    for name, one in (("ours", authority), ("other", stranger)):
        (tmp_path / f"{name}.pem").write_bytes(one.certificate)

    def reader(tls: Tls) -> SonicReader:
        device = Device(name="leaf1", platform="sonic", address="127.0.0.1", port=server.port, tls=tls)
        return SonicReader(device)

    good = reader(Tls(enabled=True, ca_file=tmp_path / "ours.pem"))
    assert len(good.read().samples) == 4
    good.close()
    for bad in (Tls(enabled=True, ca_file=tmp_path / "other.pem"), Tls(enabled=False)):
        with pytest.raises(UnreachableError):
            reader(bad).read()
    db.close()
    server.close()


def test_a_database_that_is_not_there(counters: CountersDb, describe: Describe) -> None:
    reader = SonicReader(describe(options={"state_db": 99}))
    with pytest.raises(RefusedError, match="out of range"):
        reader.read()
    reader.close()


def test_an_address_that_names_no_redis(describe: Describe) -> None:
    with pytest.raises(InventoryError, match="address"):
        SonicReader(describe(address="http://leaf1"))
