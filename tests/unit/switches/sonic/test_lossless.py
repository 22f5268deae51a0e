"""What keeps ports of a SONiC switch lossless, from a real redis-server and through its gNMI server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from switches.device import Device, Tls
from switches.lossless import LosslessPort, LosslessPriority, ReadsLossless
from switches.sonic.gnmi_adapter import SonicGnmiAdapter
from switches.sonic.lossless import Tables, sonic_ports
from switches.sonic.redis_adapter import SonicAdapter
from tests.counterparts.polled.sonic_buffers import (
    HEADROOM_BYTES,
    POOL_BYTES,
    PROFILE,
    in_appl_db,
    sound_config,
)
from tests.counterparts.switches.gnmi_switch import GnmiSwitch
from tests.counterparts.switches.sonic_gnmi import SonicGnmi
from tests.counterparts.switches.sonic_switch import AZURE, SonicSwitch

SOUND = LosslessPriority(
    priority=3,
    queue=3,
    xoff_bytes=POOL_BYTES // 2 + 20_000,
    alpha=1.0,
    pool_bytes=POOL_BYTES,
    headroom_bytes=HEADROOM_BYTES,
)
UP = {"admin_status": "up"}
MakeAdapter = Callable[..., SonicAdapter]


@pytest.fixture
def sound(switch: SonicSwitch) -> Iterator[SonicSwitch]:
    switch.reset(sound_config(switch.ports))
    yield switch
    with switch.server.client(0) as application:
        application.flushdb()


def the_port(ports: tuple[LosslessPort, ...], name: str = "Ethernet0") -> LosslessPort:
    return next(one for one in ports if one.port == name)


def test_every_part_of_a_port_is_read(sound: SonicSwitch, adapter: MakeAdapter) -> None:
    reader = adapter()
    assert isinstance(reader, ReadsLossless)
    reading = reader.read_lossless()
    assert (reading.switch, reading.read_ns) == ("leaf1", 7)
    assert [one.port for one in reading.ports] == ["Ethernet0", "Ethernet4", "Ethernet8"]
    port = reading.ports[0]
    assert port.priorities == (SOUND,)
    assert (port.rate_gbps, port.mtu_bytes, port.cable_m) == (100.0, 9100, 5)
    assert port.watermarks == {**dict.fromkeys(range(8)), 3: AZURE, 4: AZURE}
    assert port.strict == {0: False, 1: False, 2: False, 3: False, 4: False, 5: False, 6: True}
    assert port.queue_of_dscp == {3: 3, 4: 4, 46: 5, 48: 6}


def test_only_ports_of_the_inventory_that_are_up_count(sound: SonicSwitch, adapter: MakeAdapter) -> None:
    sound.set_config({"PORT|Ethernet4": {"admin_status": "down"}})
    reading = adapter(ports=("Ethernet0", "Ethernet4")).read_lossless()
    assert [one.port for one in reading.ports] == ["Ethernet0"]


def test_a_port_is_down_that_is_not_configured_up() -> None:
    config = {"PORT": {"Ethernet0": {"speed": "100000"}, "Ethernet4": UP}}
    assert [one.port for one in sonic_ports(config, {}, lambda port: True)] == ["Ethernet4"]


def test_buffers_in_force_go_before_those_configured(sound: SonicSwitch, adapter: MakeAdapter) -> None:
    """A switch that computes its buffers has NULL for a profile in CONFIG_DB."""
    sound.set_config({"BUFFER_PG|Ethernet0|3-4": {"profile": "NULL"}})
    assert the_port(adapter().read_lossless().ports).priorities == (LosslessPriority(priority=3, queue=3),)
    rows = in_appl_db(sound_config(sound.ports))
    rows[f"BUFFER_PROFILE_TABLE:{PROFILE}"]["xoff"] = "60000"
    with sound.server.client(0) as application:
        for key, row in rows.items():
            application.hset(key, mapping=dict(row))
        application.sadd("BUFFER_PG_TABLE_KEY_SET", "Ethernet0:3-4")  # of its producers, and no row
    (found,) = the_port(adapter().read_lossless().ports).priorities
    assert (found.headroom_bytes, found.alpha) == (60_000, 1.0)


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        ({"static_th": "400000", "size": "0", "xoff": "50000"}, (400_000, None, 50_000)),
        ({"dynamic_th": "-3", "size": "1000", "xoff": "0", "pool": "p"}, (1_000 + 100_000, 0.125, 0)),
        ({"static_th": "400000", "size": "1000", "xoff": "50000", "pool": "shared"}, (401_000, None, 50_000)),
        ({"dynamic_th": "-3", "pool": "another"}, (None, 0.125, None)),
        ({"dynamic_th": "much", "xoff": "many"}, (None, None, None)),
    ],
)
def test_thresholds_are_fixed_dynamic_or_not_known(
    profile: dict[str, str], expected: tuple[int | None, float | None, int | None]
) -> None:
    config = {
        "PORT": {"Ethernet0": UP},
        "PORT_QOS_MAP": {"Ethernet0": {"pfc_enable": "3"}},
        "BUFFER_PG": {"Ethernet0|3": {"profile": "[BUFFER_PROFILE|old]"}},
        "BUFFER_PROFILE": {"old": profile},
        "BUFFER_POOL": {"p": {"size": "900000"}, "shared": {"size": "900000", "xoff": "300000"}},
    }
    (port,) = sonic_ports(config, {}, lambda port: True)
    (found,) = port.priorities
    assert (found.xoff_bytes, found.alpha, found.headroom_bytes) == expected


def test_a_port_without_maps_and_numbers_is_known_as_far_as_it_goes() -> None:
    config = {
        "PORT": {"Ethernet0": UP | {"speed": "fast", "mtu": "big"}},
        "PORT_QOS_MAP": {"Ethernet0": {"pfc_enable": "3,x", "dscp_to_tc_map": "gone"}},
        "CABLE_LENGTH": {"AZURE": {"Ethernet0": "None"}},
        "QUEUE": {"Ethernet0|3": {"wred_profile": "gone"}, "Ethernet0|4": {"wred_profile": "odd"}},
        "WRED_PROFILE": {"odd": {"wred_green_enable": "true", "ecn": "ecn_all", "green_max_threshold": "x"}},
    }
    (port,) = sonic_ports(config, {}, lambda port: True)
    known = dict.fromkeys(queue for queue in range(8) if queue not in (3, 4))
    assert port == LosslessPort(
        port="Ethernet0", priorities=(LosslessPriority(priority=3),), watermarks=known
    )


def test_queues_of_a_chassis_are_named_otherwise_and_not_known() -> None:
    config: Tables = {"PORT": {"Ethernet0": UP}, "QUEUE": {"host|asic0|Ethernet0|3": {}}}
    (port,) = sonic_ports(config, {}, lambda port: True)
    assert port.watermarks == {}


def test_the_queue_of_a_priority_follows_the_traffic_class_where_no_map_names_it() -> None:
    config = {
        "PORT": {"Ethernet0": UP},
        "PORT_QOS_MAP": {"global": {"tc_to_queue_map": "A"}, "Ethernet0": {"pfc_enable": "3"}},
        "TC_TO_QUEUE_MAP": {"A": {"3": "5"}},
    }
    (port,) = sonic_ports(config, {}, lambda port: True)
    assert port.priorities == (LosslessPriority(priority=3, queue=5),)


def test_one_row_may_have_the_maps_of_several_ports() -> None:
    """Its key is a list; references are in the form of images before 2022."""
    config = {
        "PORT": {"Ethernet0": UP, "Ethernet4": UP, "Ethernet8": UP},
        "PORT_QOS_MAP": {
            "Ethernet0,Ethernet4": {"pfc_enable": "3,4", "tc_to_queue_map": "[TC_TO_QUEUE_MAP|A]"}
        },
        "TC_TO_QUEUE_MAP": {"A": {"3": "3", "4": "4"}},
    }
    both = tuple(LosslessPriority(priority=one, queue=one) for one in (3, 4))
    ports = sonic_ports(config, {}, lambda port: True)
    assert [one.priorities for one in ports] == [both, both, ()]


def test_gnmi_shows_the_same(sound: SonicSwitch, adapter: MakeAdapter, tmp_path: Path) -> None:
    with sound.server.client(0) as application:
        for key, row in in_appl_db(sound_config(sound.ports)).items():
            application.hset(key, mapping=dict(row))
    model = SonicGnmi(sound)
    server = GnmiSwitch(model)
    device = Device(
        name="leaf1",
        platform="sonic-gnmi",
        address="127.0.0.1",
        port=server.port,
        tls=Tls(enabled=False),
        timeout_s=60.0,
    )
    try:
        with closing(SonicGnmiAdapter(device, clock_ns=lambda: 7)) as reader:
            assert reader.read_lossless() == adapter().read_lossless()
    finally:
        server.close()
        model.close()
