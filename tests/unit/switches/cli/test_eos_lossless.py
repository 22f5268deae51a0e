"""What keeps ports of an Arista lossless, from its running configuration."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from switches.cli.eos import EosAdapter
from switches.device import Device, Secret
from switches.lossless import LosslessPort, LosslessPriority, ReadsLossless
from tests.counterparts.switches.eos_switch import PROFILE, EosSwitch, line_of
from twin.watermark import Watermark

FIRST = Watermark(400_000, 1_600_000, 0.2)
OTHER = Watermark(700_000, 900_000, 0.9)
PORT = "interface Ethernet1/1"


@pytest.fixture
def switch() -> Iterator[EosSwitch]:
    server = EosSwitch(FIRST)
    yield server
    server.close()
    assert server.unexpected == []


def read(switch: EosSwitch, credentials: dict[str, Secret], **fields: object) -> dict[str, LosslessPort]:
    device = Device(name="leaf1", platform="eos", address=switch.url, timeout_s=60.0, **fields, **credentials)
    with closing(EosAdapter(device, clock_ns=lambda: 7)) as adapter:
        assert isinstance(adapter, ReadsLossless)
        reading = adapter.read_lossless()
    assert (reading.switch, reading.read_ns) == ("leaf1", 7)
    return {port.port: port for port in reading.ports}


def test_pfc_and_marking_come_with_the_profile(switch: EosSwitch, credentials: dict[str, Secret]) -> None:
    switch.running[f"qos profile {PROFILE}"]["uc-tx-queue 6"] = {"priority strict": {}}
    switch.running[f"qos profile {PROFILE}"]["uc-tx-queue 3"]["no priority"] = {}
    found = read(switch, credentials)
    assert set(found) == {"Ethernet1/1", "Ethernet2/1", "Ethernet49/1"}
    port = found["Ethernet1/1"]
    assert port.priorities == (LosslessPriority(priority=3, queue=3),)
    other = Watermark(1_000, 2_000, 0.01)
    assert port.watermarks == {**dict.fromkeys(range(8)), 0: other, 3: FIRST, 4: FIRST}
    assert port.strict == {3: False, 6: True}
    assert (port.mtu_bytes, port.rate_gbps, port.cable_m) == (9214, None, None)
    assert (port.queue_of_dscp[26], port.queue_of_dscp[48], port.queue_of_dscp[0]) == (3, 6, 1)
    assert found["Ethernet49/1"].priorities == ()
    assert found["Ethernet49/1"].queue_of_dscp == {}


def test_lines_of_the_port_go_before_those_of_its_profile(
    switch: EosSwitch, credentials: dict[str, Secret]
) -> None:
    switch.running[PORT] |= {
        "priority-flow-control priority 4 no-drop": {},
        "uc-tx-queue 3": {"random-detect ecn count": {}},
        "uc-tx-queue 4": {line_of(OTHER): {}},
    }
    port = read(switch, credentials)["Ethernet1/1"]
    assert [one.priority for one in port.priorities] == [3, 4]
    assert (port.watermarks[3], port.watermarks[4]) == (FIRST, OTHER)
    switch.running[PORT]["priority-flow-control priority 3 drop"] = {}
    assert [one.priority for one in read(switch, credentials)["Ethernet1/1"].priorities] == [4]
    switch.running[PORT]["no priority-flow-control"] = {}
    assert read(switch, credentials)["Ethernet1/1"].priorities == ()


def test_pfc_may_be_off_on_all_ports(switch: EosSwitch, credentials: dict[str, Secret]) -> None:
    switch.running["priority-flow-control all off"] = {}
    assert not any(port.priorities for port in read(switch, credentials).values())


def test_only_wanted_ports_that_are_up_count_and_pfc_needs_to_be_on(
    switch: EosSwitch, credentials: dict[str, Secret]
) -> None:
    switch.running["interface Ethernet2/1"]["shutdown"] = {}
    switch.running["interface Ethernet3/1"] = {"priority-flow-control priority 3 no-drop": {}}
    found = read(switch, credentials, ports=("Ethernet?/1",))
    assert set(found) == {"Ethernet1/1", "Ethernet3/1"}
    assert found["Ethernet3/1"].priorities == ()


def test_maps_move_classes_to_queues(switch: EosSwitch, credentials: dict[str, Secret]) -> None:
    switch.running |= {
        "qos map dscp 26 27 to traffic-class 5": {},
        "qos map traffic-class 5 to tx-queue 4": {},
        "qos map traffic-class 3 to uc-tx-queue 2": {},
        "qos map traffic-class 3 to dscp 26": {},
        "qos random-detect ecn allow non-ect": {},
    }
    port = read(switch, credentials)["Ethernet1/1"]
    assert port.priorities == (LosslessPriority(priority=3, queue=2),)
    assert (port.queue_of_dscp[26], port.queue_of_dscp[27], port.queue_of_dscp[24]) == (4, 4, 2)
    assert port.watermarks[5] is None


def test_a_long_map_of_a_form_that_is_not_known_is_passed_over(
    switch: EosSwitch, credentials: dict[str, Secret]
) -> None:
    dscps = " ".join(str(dscp) for dscp in range(60))
    switch.running[f"qos map dscp {dscps} to traffic-class 4 drop-precedence 2"] = {}
    assert read(switch, credentials)["Ethernet1/1"].queue_of_dscp == {}


@pytest.mark.parametrize("unit", ["milliseconds", "segments"])
def test_what_cannot_be_told_is_not_known(
    switch: EosSwitch, credentials: dict[str, Secret], unit: str
) -> None:
    switch.running |= {
        "qos map cos 3 to traffic-class 4": {},
        "qos random-detect ecn of-the-whole-chip": {},
    }
    odd = f"random-detect ecn minimum-threshold 1 {unit} maximum-threshold 2 {unit}"
    switch.running[f"qos profile {PROFILE}"]["uc-tx-queue 4"] = {f"{odd} max-mark-probability 9": {}}
    port = read(switch, credentials)["Ethernet1/1"]
    assert port.priorities == (LosslessPriority(priority=3),)
    assert port.watermarks == {0: Watermark(1_000, 2_000, 0.01), 3: FIRST}
    assert port.queue_of_dscp == {}
