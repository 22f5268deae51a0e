"""``ecntwin check-fabric``, and the same check in the running service, on SONiC with a real redis."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.main import app
from cli.output import run_to_exit_code
from telemetry.topology import leaf_spine
from tests.counterparts.one_loop import one_loop
from tests.counterparts.polled.sonic_buffers import PROFILE, Rows, sound_config
from tests.counterparts.redis_server import RedisServer
from tests.integration.service import PATIENCE_S, Running, Wanted, manual, running
from twin.watermark import Watermark

__all__ = ["one_loop"]

MARK = Watermark(400_000, 1_600_000, 0.2)
PORTS = {"leaf1": ("Ethernet0", "Ethernet1", "Ethernet2"), "spine1": ("Ethernet0",)}
CONFIG_DB = 4
LOOK_S = 0.02

Change = Callable[[Rows], object]


class Switches:
    """leaf1 with two hosts and spine1, cabled as ``topology.json`` beside ``inventory.yaml`` says."""

    def __init__(self, folder: Path, servers: dict[str, RedisServer]) -> None:
        self.inventory, self.topology = folder / "inventory.yaml", folder / "topology.json"
        self.servers = servers
        self.entries: dict[str, Any] = {
            name: {"platform": "sonic", "address": "127.0.0.1", "port": server.port, "timeout_s": PATIENCE_S}
            for name, server in servers.items()
        }
        fabric = leaf_spine(1, 1, 2)
        self.topology.write_text(json.dumps(fabric.to_json()), "utf-8")
        self.lay()
        self.write()

    def lay(self, **changes: Change) -> None:
        """A sound configuration, with what a change makes of a switch's rows."""
        for name, server in self.servers.items():
            rows = sound_config(PORTS[name], MARK)
            changes.get(name, dict)(rows)
            with server.client(CONFIG_DB) as config:
                config.flushdb()
                for key, row in rows.items():
                    if row:
                        config.hset(key, mapping=dict(row))

    def write(self, **others: Any) -> None:
        self.inventory.write_text(yaml.safe_dump({"switches": self.entries, **others}), "utf-8")


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, RedisServer]]:
    made = {name: RedisServer(tmp_path_factory.mktemp(name)) for name in PORTS}
    yield made
    for server in made.values():
        server.close()


@pytest.fixture
def switches(tmp_path: Path, servers: dict[str, RedisServer]) -> Switches:
    return Switches(tmp_path, servers)


@pytest.fixture
def command(
    switches: Switches,
    no_settings: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Callable[..., tuple[int, str, str]]:
    monkeypatch.setenv("COLUMNS", "200")
    files = ["--inventory", str(switches.inventory), "--topology", str(switches.topology)]

    def run(*more: str) -> tuple[int, str, str]:
        code = run_to_exit_code(app, ["check-fabric", *files, *more])
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        return code, out, err

    return run


def pfc_off(rows: Rows) -> None:
    rows["PORT_QOS_MAP|Ethernet2"]["pfc_enable"] = ""


def small_headroom(rows: Rows) -> None:
    rows[f"BUFFER_PROFILE|{PROFILE}"] |= {"xoff": "9000", "dynamic_th": "-4"}


def test_a_sound_fabric_ends_with_0(command: Callable[..., tuple[int, str, str]]) -> None:
    code, out, err = command()
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == "2 of 2 switches read: 0 findings"
    assert (
        "? the fabric: what NICs run is not known; not checked: nic_priority, cnp_queue, unequal_nics" in out
    )


def test_faults_are_a_table_by_rule(switches: Switches, command: Callable[..., tuple[int, str, str]]) -> None:
    switches.lay(leaf1=pfc_off, spine1=small_headroom)
    code, out, err = command()
    assert (code, err) == (1, "")
    assert out.splitlines()[0] == "2 of 2 switches read: 3 findings"
    rows = [line.split() for line in out.splitlines()]
    assert ["pfc_one_side", "error", "leaf1", "Ethernet2"] in [row[:4] for row in rows]
    assert ["kmax_above_xoff", "error", "spine1", "Ethernet0"] in [row[:4] for row in rows]
    assert ["headroom", "error", "spine1", "Ethernet0"] in [row[:4] for row in rows]


def test_one_document_says_the_same(switches: Switches, command: Callable[..., tuple[int, str, str]]) -> None:
    switches.lay(leaf1=pfc_off)
    switches.write(templates={"t": {"pfc": [3]}}, profiles={"p": {"template": "t"}})
    switches.entries["leaf1"]["profile"] = "p"
    switches.write(templates={"t": {"pfc": [3]}}, profiles={"p": {"template": "t"}})
    code, out, _ = command("--json")
    document = json.loads(out)
    assert (code, document["switches"], document["unread"]) == (1, 2, [])
    assert document["findings"] == [
        {
            "rule": "pfc_one_side",
            "severity": "error",
            "node": "leaf1",
            "where": "leaf1 Ethernet2 (to spine1 Ethernet0)",
            "found": "PFC of priority 3 is off, and on at the other end",
            "demands": "PFC of a priority is on at both ends of a cable, or at neither",
            "remedy": "turn it on here, or off there",
        },
        {
            "rule": "drift",
            "severity": "warning",
            "node": "leaf1",
            "where": "leaf1 Ethernet2",
            "found": "PFC is off, and template t has on for 3",
            "demands": "what runs is what the template says",
            "remedy": "set it back, or correct the template",
        },
    ]


def test_a_platform_that_offers_nothing_is_said_and_no_failure(
    switches: Switches, command: Callable[..., tuple[int, str, str]]
) -> None:
    switches.entries["old"] = {"platform": "dry-run"}
    switches.write()
    code, out, _ = command()
    assert code == 0
    assert out.splitlines()[0] == "2 of 3 switches read: 0 findings"
    assert (
        "? switch 'old' (dry-run): received platform dry-run; its adapter does not read PFC and buffers"
        in out
    )
    switches.entries = {"old": {"platform": "dry-run"}}
    switches.write()
    code, out, _ = command()
    assert (code, out.splitlines()[0]) == (1, "0 of 1 switch read: 0 findings")


def test_devices_that_do_not_answer_end_with_1_and_the_others_are_checked(
    switches: Switches, command: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    switches.entries["spine1"]["address"] = f"unix:{tmp_path}/nowhere"
    key, user = tmp_path / "key", tmp_path / "user"
    key.touch()
    user.write_text("nobody")
    host = {"platform": "connectx", "address": "127.0.0.1", "port": 1, "username": {"file": str(user)}}
    host |= {"known_hosts": str(key), "key_file": str(key)}
    switches.write(hosts={"gpu1": host})
    switches.lay(leaf1=small_headroom)
    code, out, _ = command("--json", "--timeout", "60")
    document = json.loads(out)
    assert code == 1
    assert {one["rule"] for one in document["findings"]} == {"kmax_above_xoff", "headroom"}
    assert [one["node"] for one in document["unread"]] == ["spine1", "gpu1"]


@pytest.mark.parametrize(
    ("entries", "says"),
    [
        ({"leaf1": {"platform": "sonic"}}, "address"),
        ({"leaf1": {"platform": "sonik", "address": "127.0.0.1"}}, "did you mean sonic?"),
        ({"leaf1": {"platform": "dry-run", "template": "t"}}, "known templates are none"),
    ],
)
def test_an_entry_that_cannot_be_used_ends_with_2(
    switches: Switches, command: Callable[..., tuple[int, str, str]], entries: dict[str, Any], says: str
) -> None:
    switches.entries = entries
    switches.write()
    code, out, err = command()
    assert (code, out) == (2, "")
    assert says in err


def test_a_topology_that_is_none_ends_with_2(
    switches: Switches, command: Callable[..., tuple[int, str, str]]
) -> None:
    switches.topology.write_text("{", "utf-8")
    code, _, err = command()
    assert code == 2
    assert err.startswith("ecntwin: --topology: received topology.json")


@pytest.fixture
async def here(switches: Switches) -> AsyncIterator[Running]:
    async with running(wanted(switches)) as started:
        yield started


def wanted(switches: Switches, **lossless: Any) -> Wanted:
    telemetry = {"counters": {"poll": False}, "lossless": lossless}
    fabric = {"topology": switches.topology}
    return Wanted(settings=manual(push={"inventory": switches.inventory}, telemetry=telemetry, fabric=fabric))


async def alarms(here: Running) -> list[dict[str, Any]]:
    await here.service.alarms.check()
    found = (await here.client.get("/v1/alarms")).json()["alarms"]
    return [one for one in found if one["kind"] == "lossless"]


async def metrics(here: Running) -> dict[str, str]:
    text = (await here.client.get("/metrics")).text
    return dict(
        line.removeprefix("ecntwin_lossless_findings").split()
        for line in text.splitlines()
        if line.startswith("ecntwin_lossless_findings{")
    )


@pytest.mark.anyio
async def test_nothing_is_read_unless_it_is_wanted(here: Running) -> None:
    await here.service.lossless.run_forever()
    found = await here.get("/v1/lossless")
    assert (found["read_at"], found["switches"], found["findings"], found["unread"]) == (None, 0, [], [])
    (said,) = found["unchecked"]
    assert said.startswith("nothing is read, and no rule is checked")
    assert await alarms(here) == []
    assert (await metrics(here))['{rule="headroom"}'] == "NaN"


@pytest.mark.anyio
async def test_findings_are_an_answer_an_alarm_a_switch_and_a_metric(
    here: Running, switches: Switches
) -> None:
    await here.service.lossless.read()
    assert ((await here.get("/v1/lossless"))["switches"], (await here.get("/v1/lossless"))["findings"]) == (
        2,
        [],
    )
    assert await alarms(here) == []
    switches.lay(leaf1=pfc_off, spine1=small_headroom)
    await here.service.lossless.read()
    assert [one["rule"] for one in (await here.get("/v1/lossless"))["findings"]] == [
        "pfc_one_side",
        "kmax_above_xoff",
        "headroom",
    ]
    found = {one["subject"]: one for one in await alarms(here)}
    assert set(found) == {"leaf1", "spine1"}
    assert found["leaf1"]["level"] == "warning"
    assert found["leaf1"]["sentence"].startswith(
        "leaf1 Ethernet2 (to spine1 Ethernet0): PFC of priority 3 is off"
    )
    assert found["spine1"]["sentence"].endswith("; and 1 more on spine1")
    counted = await metrics(here)
    assert (counted['{rule="headroom"}'], counted['{rule="drift"}']) == ("1.0", "0.0")
    switches.lay()
    await here.service.lossless.read()
    assert await alarms(here) == []
    assert (await metrics(here))['{rule="headroom"}'] == "0.0"


@pytest.mark.anyio
async def test_findings_come_page_by_page_of_one_reading(here: Running, switches: Switches) -> None:
    switches.lay(spine1=small_headroom)
    switches.servers["leaf1"].close()
    await here.service.lossless.read()
    whole = await here.get("/v1/lossless")
    assert whole["findings"]
    assert len(whole["unread"]) == 1
    pages = [await here.get("/v1/lossless?limit=1")]
    while pages[-1]["next"] is not None:
        pages.append(await here.get(f"/v1/lossless?limit=1&after={pages[-1]['next']}"))
    for name in ("findings", "unchecked", "unread"):
        assert [one for page in pages for one in page[name]] == whole[name]
    assert {sum(len(page[name]) for name in ("findings", "unchecked", "unread")) for page in pages} == {1}
    switches.servers["leaf1"].restart()
    refused = await here.client.get("/v1/lossless?after=1_1")
    assert refused.status_code == 404
    assert "read again since" in refused.text


@pytest.mark.anyio
async def test_what_was_read_while_a_rollout_began_is_dropped(
    here: Running, switches: Switches, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = iter([False, True])
    monkeypatch.setattr(here.service.lossless, "_busy", lambda: next(begun))
    switches.lay(spine1=small_headroom)
    await here.service.lossless.read()
    assert (await here.get("/v1/lossless"))["read_at"] is None
    assert await alarms(here) == []


@pytest.mark.anyio
async def test_an_alarm_stays_while_its_switch_cannot_be_read(here: Running, switches: Switches) -> None:
    switches.lay(spine1=small_headroom)
    await here.service.lossless.read()
    (before,) = await alarms(here)
    switches.servers["spine1"].close()
    await here.service.lossless.read()
    assert [one["node"] for one in (await here.get("/v1/lossless"))["unread"]] == ["spine1"]
    assert [one["sentence"] for one in await alarms(here)] == [before["sentence"]]
    switches.servers["spine1"].restart()
    switches.lay()
    await here.service.lossless.read()
    assert await alarms(here) == []


@pytest.mark.anyio
async def test_nothing_is_read_during_a_rollout(here: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(here.service.rollouts), "active", property(lambda rollouts: 1))
    await here.service.lossless.read()
    assert (await here.get("/v1/lossless"))["read_at"] is None


@pytest.mark.anyio
async def test_the_service_reads_by_itself_where_it_is_wanted(switches: Switches) -> None:
    async with running(wanted(switches, read=True, every_s=3600)) as here:
        for _ in range(round(PATIENCE_S / LOOK_S)):
            if (await here.get("/v1/lossless"))["read_at"] is not None:
                break
            await asyncio.sleep(LOOK_S)
        assert (await here.get("/v1/lossless"))["switches"] == 2
