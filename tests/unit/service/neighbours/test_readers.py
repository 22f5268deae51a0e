"""Each platform's neighbours from its own server, or one that speaks its protocol."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from service.neighbours.reader import Seen, read_neighbours
from switches.device import Device, Secret, Tls
from telemetry.neighbours.model import Neighbour, Port, SwitchNeighbours
from tests.counterparts.dripping import dripping
from tests.counterparts.polled.lldp import (
    Agent,
    OpenConfigLldp,
    Row,
    eos_shows,
    lay_sonic,
    netconf_switch,
    nxos_shows,
)
from tests.counterparts.redis_server import RedisServer
from tests.counterparts.switches.eos_switch import EosSwitch
from tests.counterparts.switches.gnmi_switch import GnmiSwitch
from tests.counterparts.switches.http_switch import named_credentials
from tests.counterparts.switches.nxos_switch import NxosSwitch
from tests.counterparts.switches.sonic_gnmi import SonicGnmi
from tests.counterparts.switches.sonic_switch import SonicSwitch
from tests.counterparts.switches.ssh_server import LOOPBACK, Account
from twin.watermark import Watermark

MARK = Watermark(100_000, 400_000, 0.1)
AGENT = Agent(
    "leaf1.dc.example",
    (
        Row("Ethernet1/1", "h1", "ens1f0", gbps=25),
        Row("Ethernet1/2", "spine1.dc.example", "Ethernet1/7", "to leaf1", gbps=400),
    ),
)
SEES = (
    Neighbour("Ethernet1/1", "h1", "00:00:00:00:00:99", "ens1f0"),
    Neighbour("Ethernet1/2", "spine1.dc.example", "00:00:00:00:00:99", "Ethernet1/7", "to leaf1"),
)
RATES = {"Ethernet1/1": 25.0, "Ethernet1/2": 400.0}


def read(platform: str, **described: Any) -> Seen:
    device = Device(name="leaf1", platform=platform, **{"timeout_s": 60.0} | described)
    return read_neighbours({"leaf1": device})["leaf1"]


def sound(seen: Seen, *, names: tuple[str, ...] = ("leaf1.dc.example",)) -> SwitchNeighbours:
    assert seen.failure is None
    assert seen.neighbours is not None
    found = seen.neighbours
    assert found.neighbours == SEES
    assert {name: port.rate_gbps for name, port in found.ports.items()} == RATES
    assert found.names == names
    assert found.problems == ()
    return found


@pytest.fixture
def sonic(tmp_path: Path) -> Iterator[RedisServer]:
    with closing(RedisServer(tmp_path / "redis")) as server:
        yield server


def test_sonic_over_redis(sonic: RedisServer) -> None:
    lay_sonic(sonic, AGENT, aliases={"Ethernet1/1": "etp1"})
    found = sound(read("sonic", address="127.0.0.1", port=sonic.port))
    assert found.ports["Ethernet1/1"] == Port(25.0, ("etp1",))
    assert found.chassis == "00:00:00:00:00:01"


def test_a_malformed_row_of_sonic_costs_only_itself(sonic: RedisServer) -> None:
    lay_sonic(sonic, AGENT)
    with sonic.client(0) as application:
        application.set("LLDP_ENTRY_TABLE:Ethernet9", "text")
        application.hset("LLDP_ENTRY_TABLE:Ethernet10", mapping={"lldp_rem_port_id": "x"})
    found = read("sonic", address="127.0.0.1", port=sonic.port).neighbours
    assert found is not None
    assert found.neighbours == SEES
    assert found.problems == (
        "Ethernet10: a neighbour without system name and chassis id; one of them names it; it was left out",
        "LLDP_ENTRY_TABLE Ethernet9: received 'no hash'; a row has fields; it was left out",
    )


def test_sonic_over_gnmi(sonic: RedisServer, tmp_path: Path) -> None:
    switch = SonicSwitch(tmp_path, server=sonic)
    lay_sonic(sonic, AGENT)
    tables = SonicGnmi(switch)
    server = GnmiSwitch(tables)
    try:
        seen = read("sonic-gnmi", address="127.0.0.1", port=server.port, tls=Tls(enabled=False))
        sound(seen, names=())  # a table without keys is none of its virtual tables
    finally:
        server.close()
        tables.close()
        switch.close()


@pytest.mark.parametrize("answers", ["leaves", "containers", "json"])
def test_openconfig_over_gnmi(answers: str) -> None:
    switch = OpenConfigLldp(AGENT)
    switch.answers = answers
    with closing(GnmiSwitch(switch)) as server:
        found = sound(read("openconfig", address="127.0.0.1", port=server.port, tls=Tls(enabled=False)))
        assert found.chassis == "00:00:00:00:00:01"


def test_openconfig_over_netconf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NETCONF_USER", "ecn")
    monkeypatch.setenv("NETCONF_PASSWORD", "right-password")
    server = netconf_switch(AGENT, Account("ecn", "right-password"))
    known = tmp_path / "known_hosts"
    known.write_text(server.ssh.known_hosts(), "utf-8")
    try:
        seen = read(
            "netconf",
            address=LOOPBACK,
            port=server.ssh.port,
            username=Secret(env="NETCONF_USER"),
            password=Secret(env="NETCONF_PASSWORD"),
            options={"known_hosts": str(known)},
        )
        sound(seen)
    finally:
        server.close()


def test_eos_over_eapi(monkeypatch: pytest.MonkeyPatch) -> None:
    server = EosSwitch(MARK)
    server.shows = eos_shows(AGENT)
    try:
        found = read("eos", address=server.url, **named_credentials(monkeypatch))
        sound(found, names=("leaf1.dc.example", "leaf1"))
        assert not server.unexpected
    finally:
        server.close()


def test_nxos_over_nxapi(monkeypatch: pytest.MonkeyPatch) -> None:
    server = NxosSwitch(MARK)
    server.shows = nxos_shows(AGENT)
    credentials = named_credentials(monkeypatch)
    try:
        sound(read("nxos", address=server.url, **credentials))
        server.shows["show lldp neighbors detail"] = None
        none = read("nxos", address=server.url, **credentials).neighbours
        assert none is not None
        assert none.neighbours == ()
        assert not server.unexpected
    finally:
        server.close()


def test_a_platform_that_offers_none_says_so() -> None:
    seen = read("webhook", address="https://hooks.example")
    assert str(seen.failure) == (
        "switch 'leaf1' (webhook at https://hooks.example): received platform webhook; neighbours are read "
        "from eos, netconf, nxos, openconfig, sonic, sonic-gnmi; declare its links, or let the switches "
        "around it show them"
    )


def test_an_answer_of_sonic_that_never_ends_is_none() -> None:
    with dripping(b"*100000\r\n:1", every_s=0.02, byte=b"1") as port:
        seen = read("sonic", address="127.0.0.1", port=port, timeout_s=0.3)
    assert "no answer to the commands within" in str(seen.failure)


def test_a_refusal_and_a_wrong_option_are_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(EosSwitch(MARK)) as server:
        seen = read("eos", address=server.url, **named_credentials(monkeypatch))
        assert "the switch takes the commands" in str(seen.failure)
    assert "options of sonic are" in str(read("sonic", address="127.0.0.1", options={"x": 1}).failure)
