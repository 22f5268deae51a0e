"""``ecntwin topology`` on a fabric of several platforms: the file, the differences, and what goes wrong."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from cli.main import app
from cli.output import run_to_exit_code
from service.domain import load_topology
from telemetry.topology import topology_from_json
from tests.counterparts.polled.lldp import Agent, OpenConfigLldp, Row, eos_shows, lay_sonic
from tests.counterparts.redis_server import RedisServer
from tests.counterparts.switches.eos_switch import EosSwitch
from tests.counterparts.switches.gnmi_switch import GnmiSwitch
from tests.counterparts.switches.http_switch import PASSWORD, USER
from twin.watermark import Watermark

LEAF1 = Agent(
    "leaf1",
    (
        Row("Ethernet0", "h1", "00:00:00:00:01:01", "ens1f0", chassis="00:00:00:00:01:01"),
        Row("Ethernet4", "spine1.dc.example", "Ethernet1/1", gbps=400),
    ),
)
LEAF2 = Agent(
    "leaf2",
    (Row("Ethernet0", "h2", "ens1f0"), Row("Ethernet4", "spine1.dc.example", "Ethernet2/1", gbps=400)),
)
SPINE1 = Agent(
    "spine1.dc.example",
    (
        Row("Ethernet1/1", "leaf1", "etp1", "Ethernet4", gbps=400),
        Row("Ethernet2/1", "leaf2", "Ethernet4", gbps=400),
    ),
)
LINKS = [
    "h1 ens1f0 leaf1 Ethernet0 100.0 1.0",
    "h2 ens1f0 leaf2 Ethernet0 100.0 1.0",
    "leaf1 Ethernet4 spine1 Ethernet1/1 400.0 1.0",
    "leaf2 Ethernet4 spine1 Ethernet2/1 400.0 1.0",
]
DELAYS = (
    "ecntwin: LLDP has no propagation delays: 4 links have 1 µs; give another with --delay-us, "
    "or declare them"
)


@dataclass
class Fabric:
    """leaf1 is SONiC, leaf2 OpenConfig over gNMI, spine1 EOS."""

    sonic: RedisServer
    gnmi: GnmiSwitch
    eos: EosSwitch

    def lay(self, leaf1: Agent = LEAF1, leaf2: Agent = LEAF2, spine1: Agent = SPINE1) -> None:
        lay_sonic(self.sonic, leaf1)
        self.gnmi.personality = OpenConfigLldp(leaf2)
        self.eos.shows = eos_shows(spine1)

    def switches(self) -> dict[str, dict[str, Any]]:
        found = {
            "leaf1": {"platform": "sonic", "address": "127.0.0.1", "port": self.sonic.port},
            "leaf2": {
                "platform": "openconfig",
                "address": "127.0.0.1",
                "port": self.gnmi.port,
                "tls": {"enabled": False},
            },
            "spine1": {
                "platform": "eos",
                "address": self.eos.url,
                "username": {"env": "SWITCH_USER"},
                "password": {"env": "SWITCH_PASSWORD"},
            },
        }
        return {name: {"timeout_s": 60} | one for name, one in found.items()}


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fabric]:
    eos, gnmi = EosSwitch(Watermark(1_000, 2_000, 0.1)), GnmiSwitch(OpenConfigLldp(LEAF2))
    sonic = RedisServer(tmp_path_factory.mktemp("redis"))
    yield Fabric(sonic, gnmi, eos)
    for server in (sonic, gnmi, eos):
        server.close()


@pytest.fixture
def fabric(started: Fabric, no_settings: None, monkeypatch: pytest.MonkeyPatch) -> Fabric:
    monkeypatch.setenv("SWITCH_USER", USER)
    monkeypatch.setenv("SWITCH_PASSWORD", PASSWORD)
    started.lay()
    return started


class Command:
    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys

    def __call__(self, switches: dict[str, Any], *arguments: object) -> tuple[int, str, list[str]]:
        """Its exit code, and what it said."""
        inventory = self.written("inventory.yaml", {"switches": switches})
        given = ["topology", "--inventory", inventory, *arguments]
        code = run_to_exit_code(app, [str(argument) for argument in given])
        out, err = self._capsys.readouterr()
        assert PASSWORD not in out + err
        assert "Traceback" not in err
        return code, out, err.splitlines()

    def written(self, name: str, document: object) -> Path:
        path = self.folder / name
        path.write_text(json.dumps(document), "utf-8")
        return path


@pytest.fixture
def command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(tmp_path, capsys)


def links(document: dict[str, Any]) -> list[str]:
    keys = ("a", "a_port", "b", "b_port", "rate_gbps", "delay_us")
    return [" ".join(str(one[key]) for key in keys if key in one) for one in document["links"]]


def test_the_file_is_a_topology_of_what_all_platforms_see(fabric: Fabric, command: Command) -> None:
    code, out, said = command(fabric.switches())
    assert code == 0
    assert links(json.loads(out)) == LINKS
    path = command.folder / "fabric.json"
    path.write_text(out, "utf-8")
    found = load_topology(path)
    assert found is not None
    assert found.roles == {"leaf1": "leaf", "leaf2": "leaf", "spine1": "spine"}
    assert [host.name for host in found.hosts] == ["h1", "h2"]
    assert said == [
        "ecntwin: reading neighbours: 0 of 3",
        "ecntwin: 3 of 3 switches read: 4 links, 2 hosts, 0 differences",
        DELAYS,
    ]
    assert not fabric.eos.unexpected


def test_what_it_printed_compares_without_a_difference(fabric: Fabric, command: Command) -> None:
    _, out, _ = command(fabric.switches(), "--delay-us", "0.5")
    path = command.written("fabric.json", json.loads(out))
    code, again, said = command(fabric.switches(), "--declared", path)
    assert code == 0
    assert again == out
    assert said[1:] == ["ecntwin: 3 of 3 switches read: 4 links, 2 hosts, 0 differences"]


def test_cabling_that_contradicts_the_declaration_is_told(fabric: Fabric, command: Command) -> None:
    _, out, _ = command(fabric.switches())
    declared = json.loads(out)
    declared["links"][2]["b_port"], declared["links"][3]["b_port"] = "Ethernet2/1", "Ethernet1/1"
    declared["links"].pop(0)
    code, out, said = command(fabric.switches(), "--declared", command.written("declared.json", declared))
    assert code == 0
    assert links(json.loads(out)) == LINKS
    assert said[2:] == [
        "ecntwin: LLDP sees h1:ens1f0 <-> leaf1:Ethernet0, which is not declared; it is added",
        "ecntwin: leaf1:Ethernet4 <-> spine1:Ethernet2/1 and leaf2:Ethernet4 <-> spine1:Ethernet1/1 are "
        "declared, LLDP sees leaf1:Ethernet4 <-> spine1:Ethernet1/1; the latter is taken",
        "ecntwin: leaf2:Ethernet4 <-> spine1:Ethernet1/1 and leaf1:Ethernet4 <-> spine1:Ethernet2/1 are "
        "declared, LLDP sees leaf2:Ethernet4 <-> spine1:Ethernet2/1; the latter is taken",
        DELAYS.replace("4 links have", "3 links have"),
    ]


def test_what_int_showed_gives_addresses(fabric: Fabric, command: Command) -> None:
    shown = {
        "hosts": [{"name": "10.0.0.1", "ip": "10.0.0.1"}],
        "switches": [{"name": "leaf1"}],
        "links": [
            {"a": "10.0.0.1", "b": "leaf1", "b_port": "Ethernet0", "rate_gbps": 100, "delay_us": 1},
        ],
    }
    answer = command.written("answer.json", {"declared": None, "discovered": shown})
    _, out, said = command(fabric.switches(), "--declared", answer, "--discovered", answer)
    assert topology_from_json(json.loads(out)).hosts[0].ip == "10.0.0.1"
    assert said[-1] == DELAYS


def test_a_switch_that_does_not_answer_is_told_and_the_rest_goes_on(fabric: Fabric, command: Command) -> None:
    with socket.socket() as kept:
        kept.bind(("127.0.0.1", 0))
        switches = fabric.switches()
        switches["spine1"]["address"] = f"http://127.0.0.1:{kept.getsockname()[1]}"
        code, out, said = command(switches)
    assert code == 1
    assert links(json.loads(out)) == LINKS
    assert said[1] == "ecntwin: 2 of 3 switches read: 4 links, 2 hosts, 0 differences"
    assert said[2].startswith("ecntwin: switch 'spine1' (eos at http://127.0.0.1:")
    assert "a switch takes connections at the address of the inventory" in said[2]


def test_a_platform_without_neighbours_is_told_and_no_failure(fabric: Fabric, command: Command) -> None:
    other = {"platform": "webhook", "address": "https://hooks.example"}
    code, out, said = command(fabric.switches() | {"leaf9": other})
    assert code == 0
    assert {"name": "leaf9"} in json.loads(out)["switches"]
    assert "received platform webhook; neighbours are read from eos, netconf," in said[2]
    code, out, _ = command({"leaf9": other})
    assert code == 1
    assert json.loads(out)["links"] == []


def test_malformed_rows_and_a_name_of_two_switches_cost_only_themselves(
    fabric: Fabric, command: Command
) -> None:
    fabric.lay(leaf2=replace(LEAF2, system="leaf1"))
    with fabric.sonic.client(0) as application:
        application.set("LLDP_ENTRY_TABLE:Ethernet8", "no hash")
    spine = replace(SPINE1, rows=(SPINE1.rows[0], replace(SPINE1.rows[1], system="leaf1")))
    fabric.eos.shows = eos_shows(spine)
    code, out, said = command(fabric.switches())
    assert code == 0
    assert links(json.loads(out)) == LINKS  # as the leaves see the spine
    assert said[2:5] == [
        "ecntwin: leaf1: LLDP_ENTRY_TABLE Ethernet8: received 'no hash'; a row has fields; it was left out",
        "ecntwin: spine1:Ethernet1/1 leads to leaf1: that is a name of leaf1 and of leaf2; it is left out; "
        "correct the name",
        "ecntwin: spine1:Ethernet2/1 leads to leaf1: that is a name of leaf1 and of leaf2; it is left out; "
        "correct the name",
    ]


def test_json_is_one_document_with_the_differences(fabric: Fabric, command: Command) -> None:
    fabric.lay(spine1=replace(SPINE1, rows=SPINE1.rows[:1]))
    code, out, said = command(fabric.switches(), "--json")
    assert (code, said) == (0, [])
    document = json.loads(out)
    assert links(document["topology"]) == LINKS[:3]
    assert [one["read"] for one in document["switches"]] == [True] * 3
    assert document["differences"] == [
        {
            "kind": "contradiction",
            "nodes": ["leaf2", "spine1"],
            "sentence": "leaf2:Ethernet4: a frame of spine1 names port Ethernet2/1, which spine1 does not "
            "have; it is left out",
        }
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "--declared: received declared.json: Expecting"),
        ('{"hosts": []}', "declared.json switches: this key is missing"),
        ("[]", "declared.json: received list; it must be a JSON object"),
    ],
)
def test_a_declaration_that_cannot_be_used_is_bad_input(
    fabric: Fabric, command: Command, text: str, says: str
) -> None:
    path = command.folder / "declared.json"
    path.write_text(text, "utf-8")
    code, out, said = command(fabric.switches(), "--declared", path)
    assert (code, out) == (2, "")
    assert says in said[0]


def test_an_inventory_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_to_exit_code(app, ["topology"]) == 2
    assert "topology: no inventory; it says where the switches are" in capsys.readouterr().err
