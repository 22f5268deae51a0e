"""``ecntwin nics`` and what ``check-config`` says of hosts, on an inventory with a real sshd."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.main import app
from cli.output import run_to_exit_code
from tests.unit.nics.sshd import Sshd, find
from tests.unit.nics.sysfs import Sysfs


@pytest.fixture(autouse=True)
def _environment(no_settings: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def sshd(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sshd]:
    server = Sshd(find(), ("127.0.0.1", "127.0.0.2"))
    monkeypatch.setenv("TEST_HOST_USER", server.user)
    yield server
    server.close()


class Commands:
    """Writes an inventory, and runs a command on it."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.path = folder / "inventory.yaml"
        self._capsys = capsys

    def hosts(self, **hosts: dict[str, Any]) -> None:
        switches = {"leaf1": {"platform": "dry-run"}}
        self.path.write_text(yaml.safe_dump({"switches": switches, "hosts": hosts}), "utf-8")

    def __call__(self, *arguments: object) -> tuple[int, str, str]:
        code = run_to_exit_code(app, [str(argument) for argument in arguments])
        out, err = self._capsys.readouterr()
        assert "Traceback" not in out + err
        return code, out, err


@pytest.fixture
def commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Commands:
    return Commands(tmp_path, capsys)


def gpu1(sshd: Sshd) -> dict[str, Any]:
    """A host with two NICs, of which the second runs another R_AI."""
    sysfs = Sysfs(sshd.folder / "sys")
    sysfs.add("ens1")
    sysfs.add("ens2")
    sysfs.write("ens2", "rpg_ai_rate", 50)
    sshd.give_to_account(sysfs.folder)
    return {
        "platform": "connectx",
        "address": sshd.addresses[0],
        "port": sshd.port,
        "username": {"env": "TEST_HOST_USER"},
        "key_file": str(sshd.key_file),
        "known_hosts": str(sshd.known_hosts),
        "timeout_s": 60,
        "sysfs": str(sysfs.folder),
    }


def row(out: str, *begin: str) -> list[str]:
    (found,) = [line.split() for line in out.splitlines() if line.split()[: len(begin)] == list(begin)]
    return found


def test_what_each_nic_runs_is_shown(commands: Commands, sshd: Sshd) -> None:
    commands.hosts(gpu1=gpu1(sshd))
    code, out, err = commands("nics", "--inventory", commands.path)
    assert (code, err) == (0, "")
    assert "1 of 1 host answered" in out
    assert row(out, "gpu1", "ens1")[2:12] == ["–", "3", "1019", "5", "50", "300", "32767", "1", "4", "1"]
    assert "≠ gpu1/ens2 runs rpg_ai_rate 50 (most 5 Mbit/s)" in out
    assert row(out, "host")[5:13] == ["/1024", "Mbit/s", "Mbit/s", "µs", "bytes", "steps", "µs", "µs"]


def test_the_table_fits_a_narrow_terminal(
    commands: Commands, sshd: Sshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    commands.hosts(gpu1=gpu1(sshd))
    _, out, _ = commands("nics", "--inventory", commands.path)
    assert row(out, "gpu1", "ens1") == ["gpu1", "ens1", "1019", "5", "50", "300", "32767", "1", "4", "1"]
    assert "…" not in out


def test_nics_are_compared_within_their_class_which_is_shown_where_there_are_several(
    commands: Commands, sshd: Sshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "90")
    here, other = gpu1(sshd), Sysfs(sshd.folder / "other")
    other.add("ens1")
    other.write("ens1", "rpg_ai_rate", 400)
    sshd.give_to_account(other.folder)
    document = {
        "switches": {"leaf1": {"platform": "dry-run"}},
        "classes": {"gpu": {}, "disk": {"sysfs": str(other.folder)}},
        "hosts": {
            "gpu1": here | {"class": "gpu"},
            "disk1": {key: value for key, value in here.items() if key != "sysfs"}
            | {"class": "disk", "address": sshd.addresses[1]},
        },
    }
    commands.path.write_text(yaml.safe_dump(document), "utf-8")
    code, out, err = commands("nics", "--inventory", commands.path)
    assert (code, err) == (0, "")
    assert row(out, "gpu1", "ens1")[2:5] == ["gpu", "1019", "5"]
    assert row(out, "disk1", "ens1")[2:5] == ["disk", "1019", "400"]
    assert "≠ gpu1/ens2 runs rpg_ai_rate 50 (most of its class 5 Mbit/s)" in out
    assert "≠ disk1" not in out


def test_nics_of_a_host_that_run_the_same_share_a_line(commands: Commands, sshd: Sshd) -> None:
    here = gpu1(sshd)
    sysfs = Path(here["sysfs"])
    (sysfs / "class/net/ens2/ecn/roce_rp/rpg_ai_rate").write_text("5\n")
    commands.hosts(gpu1=here)
    _, out, _ = commands("nics", "--inventory", commands.path)
    assert row(out, "gpu1", "ens1,", "ens2")
    assert "≠" not in out


def test_one_document_says_the_same(commands: Commands, sshd: Sshd) -> None:
    commands.hosts(gpu1=gpu1(sshd))
    code, out, _ = commands("nics", "--inventory", commands.path, "--json")
    document = json.loads(out)
    assert (code, document["answered"]) == (0, 1)
    (host,) = document["hosts"]
    assert [nic["values"]["rpg_ai_rate"] for nic in host["nics"]] == [5, 50]
    assert host["read_at"].endswith("Z")


def test_a_host_that_does_not_answer_is_told_and_the_others_shown(commands: Commands, sshd: Sshd) -> None:
    here = gpu1(sshd)
    commands.hosts(gpu1=here, gpu2=here | {"port": 1})
    code, out, _ = commands("nics", "--inventory", commands.path)
    assert code == 1
    assert "1 of 2 hosts answered" in out
    assert row(out, "gpu1", "ens1")
    assert "no answer" in " ".join(row(out, "gpu2"))
    assert "Connection refused" in out


def test_a_driver_too_old_is_told(commands: Commands, sshd: Sshd) -> None:
    here = gpu1(sshd)
    (Path(here["sysfs"]) / "class/net/ens1/ecn/roce_rp/dce_tcp_g").unlink()
    commands.hosts(gpu1=here)
    code, out, _ = commands("nics", "--inventory", commands.path)
    assert code == 1
    assert "no file of dce_tcp_g" in out


def test_what_the_twin_makes_nothing_of_is_told_once(commands: Commands, sshd: Sshd) -> None:
    sysfs = Sysfs(sshd.folder / "broadcom")
    for nic, pci, rate in (("ens1", "0000:3b:00.0", 4), ("ens2", "0000:3c:00.0", 9)):
        sysfs.add(nic, driver="bnxt_en")
        values = sysfs.folder / "kernel" / "debug" / "bnxt_re" / pci / "cc_config"
        values.mkdir(parents=True)
        (values / "init_cr").write_text(f"{rate}\n")
    here = gpu1(sshd) | {"platform": "broadcom", "sysfs": str(sysfs.folder)}
    sshd.give_to_account(sysfs.folder)
    commands.hosts(gpu1=here)
    code, out, err = commands("nics", "--inventory", commands.path)
    assert (code, err) == (0, "")
    assert out.count("Broadcom's congestion control is not DCQCN") == 1
    assert "≠ gpu1/ens2 runs init_cr 9 (most 4)" in out


def test_an_entry_that_cannot_be_used_is_bad_input(commands: Commands) -> None:
    commands.hosts(gpu1={"platform": "connectx"}, gpu2={"platform": "bnxt"})
    code, _, err = commands("nics", "--inventory", commands.path)
    assert code == 2
    assert "host 'gpu1' (connectx): a host is found by its address" in err
    assert "known platforms of NICs are broadcom, connectx" in err


def test_an_inventory_without_hosts_is_bad_input(commands: Commands) -> None:
    commands.hosts()
    code, _, err = commands("nics", "--inventory", commands.path)
    assert code == 2
    assert "no hosts in inventory.yaml; NICs are those of its hosts" in err


def test_check_config_counts_and_checks_hosts(commands: Commands, sshd: Sshd) -> None:
    here = gpu1(sshd)
    commands.hosts(gpu1=here, gpu2=here | {"port": 1, "username": {"env": "NOBODY_SET_THIS"}})
    config = commands.path.with_name("ecntwin.yaml")
    config.write_text("push: {inventory: inventory.yaml}\n")
    code, out, err = commands("check-config", config)
    assert code == 2
    assert "1 switch (1 dry-run), 2 hosts (2 connectx); 1 problem" in out
    assert "username: there is nothing in $NOBODY_SET_THIS" in err
    code, out, _ = commands("check-config", config, "--json")
    assert json.loads(out)["inventory"]["hosts"] == {"connectx": 2}
