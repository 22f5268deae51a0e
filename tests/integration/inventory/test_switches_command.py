"""``ecntwin switches`` and ``check-config`` on an inventory, with a switch that answers over HTTP."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.main import app
from cli.output import run_to_exit_code
from switches.hashing.nvue import NvueHash
from tests.counterparts.switches.http_switch import PASSWORD, USER
from tests.counterparts.switches.nvue_switch import NvueSwitch
from tests.counterparts.switches.webhook_switch import NAME, TOKEN, WebhookSwitch
from twin.watermark import Watermark

MARK = Watermark(100_000, 400_000, 0.1)
RUNS = {"kmin_bytes": 100_000, "kmax_bytes": 400_000, "pmax": 0.1}


@pytest.fixture(autouse=True)
def _environment(no_settings: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_TOKEN", TOKEN)


@pytest.fixture
def hook() -> Iterator[WebhookSwitch]:
    server = WebhookSwitch(MARK)
    yield server
    server.close()


@pytest.fixture
def gone() -> Iterator[str]:
    """A URL at which nobody listens, and nobody else will while the test runs."""
    with socket.socket() as kept:
        kept.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{kept.getsockname()[1]}"


class Commands:
    """Writes settings and an inventory, runs a command on them, and looks for secrets in what it says."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys

    def inventory(self, switches: dict[str, Any], **more: Any) -> Path:
        path = self.folder / "switches.yaml"
        path.write_text(json.dumps({"switches": switches} | more), "utf-8")
        return path

    def settings(self, **sections: Any) -> Path:
        path = self.folder / "ecntwin.yaml"
        path.write_text(json.dumps({"push": {"inventory": "switches.yaml"}} | sections), "utf-8")
        return path

    def __call__(self, *arguments: object) -> tuple[int, str, str]:
        code = run_to_exit_code(app, [str(argument) for argument in arguments])
        out, err = self._capsys.readouterr()
        assert TOKEN not in out + err
        assert "Traceback" not in out + err
        return code, out, err


@pytest.fixture
def commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Commands:
    return Commands(tmp_path, capsys)


def hooked(url: str, **more: Any) -> dict[str, Any]:
    usual = {"platform": "webhook", "address": url, "token": {"env": "HOOK_TOKEN"}, "ports": ["eth*"]}
    return usual | {"timeout_s": 60} | more


def test_all_that_answer_are_shown(commands: Commands, hook: WebhookSwitch) -> None:
    path = commands.inventory({NAME: hooked(hook.url), "spine1": {"platform": "dry-run"}})
    code, out, err = commands("switches", "--inventory", path)
    assert (code, err) == (0, "")
    assert "2 of 2 switches answered" in out
    (line,) = [line for line in out.splitlines() if line.split()[:1] == [NAME.split()[0]]]
    assert "100 KB 400 KB 10 % 3 –" in " ".join(line.split())
    assert "what the server says the switch runs" in out
    assert not hook.unexpected


def test_one_document_says_the_same(commands: Commands, hook: WebhookSwitch) -> None:
    hook.queues["eth1", 3] = None
    commands.inventory({NAME: hooked(hook.url), "spine1": {"platform": "dry-run"}})
    config = commands.settings(incumbent={"switches": {NAME: RUNS, "spine1": RUNS}})
    code, out, err = commands("switches", "--config", config, "--json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert document["path"] == str(commands.folder / "switches.yaml")
    assert document["answered"] == 2
    leaf, spine = document["switches"]
    assert (leaf["name"], leaf["platform"], leaf["reachable"], leaf["drifted"]) == (
        NAME,
        "webhook",
        True,
        True,
    )
    assert leaf["running"] == leaf["expected"] == RUNS
    assert [queue["watermark"] for queue in leaf["queues"]] == [RUNS, None, RUNS]
    assert leaf["read_at"].endswith("Z")
    assert (spine["running"], spine["queues"], spine["drifted"]) == (RUNS, [], False)


def test_what_differs_from_the_settings_is_said(commands: Commands, hook: WebhookSwitch) -> None:
    commands.inventory({NAME: hooked(hook.url)})
    config = commands.settings(incumbent={"default": RUNS | {"kmin_bytes": 90_000}})
    code, out, _ = commands("switches", "--config", config)
    assert code == 0
    assert f"switch {NAME!r} runs Kmin 100 KB, Kmax 400 KB, Pmax 10 %; the settings say Kmin 90 KB" in out


def test_one_that_does_not_answer_keeps_no_other_from_it(
    commands: Commands, hook: WebhookSwitch, gone: str
) -> None:
    path = commands.inventory(
        {
            NAME: hooked(hook.url),
            "leaf8": hooked(gone),
            "leaf9": hooked(hook.url, token={"env": "NOT_THERE"}),
            "leaf10": hooked(hook.url),
        }
    )
    code, out, err = commands("switches", "--inventory", path)
    assert (code, err) == (1, "")
    assert "1 of 4 switches answered" in out
    assert f"✗ switch 'leaf8' (webhook at {gone}): no connection" in out
    assert "nothing in $NOT_THERE" in out
    assert "no such switch" in out
    code, out, _ = commands("switches", "--inventory", path, "--json")
    assert code == 1
    assert [one["reachable"] for one in json.loads(out)["switches"]] == [True, False, False, False]


def test_a_switch_that_is_silent_is_waited_for_so_long(commands: Commands, hook: WebhookSwitch) -> None:
    path = commands.inventory({NAME: hooked(hook.url, timeout_s=500)})
    with hook.silent():
        code, out, _ = commands("switches", "--inventory", path, "--timeout", "0.2")
    assert code == 1
    assert "within 0.2 s" in out


def test_an_inventory_that_cannot_be_used_is_exit_2(commands: Commands) -> None:
    path = commands.inventory({"a": {"platform": "dryrun"}, "b": {"platform": "lab"}})
    code, out, err = commands("switches", "--inventory", path)
    assert (code, out) == (2, "")
    assert "did you mean dry-run?" in err
    assert "switch 'b'" in err
    path.write_text("switches: {a: {platform: dry-run, pasword: x}}", "utf-8")
    code, out, err = commands("switches", "--inventory", path)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "did you mean password?" in err
    code, _, err = commands("switches")
    assert code == 2
    assert "--inventory FILE" in err


def test_check_config_looks_at_the_inventory_too(commands: Commands, hook: WebhookSwitch) -> None:
    commands.inventory({NAME: hooked(hook.url), "b": {"platform": "dry-run"}})
    config = commands.settings()
    code, out, _ = commands("check-config", config)
    assert code == 0
    assert "valid" in out.splitlines()[0]
    assert "2 switches (1 dry-run, 1 webhook); all can be used" in out
    assert hook.asked == []
    code, out, _ = commands("check-config", config, "--json")
    found = json.loads(out)["inventory"]
    assert code == 0
    assert (found["platforms"], found["problems"]) == ({"dry-run": 1, "webhook": 1}, [])


def test_check_config_tells_every_problem_and_no_secret(
    commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOOK_TOKEN")
    commands.inventory({"a": hooked("http://h"), "b": hooked("http://h"), "c": {"platform": "sonik"}})
    database = "postgresql://me:hunter2@db/x"
    config = commands.settings(
        push={"inventory": "switches.yaml", "enabled": True},
        storage={"url": database},
        rollout={"canary": ["a", "z"]},
    )
    code, out, err = commands("check-config", config)
    assert code == 2
    assert "problems" in out.splitlines()[0]
    assert "hunter2" not in out
    assert "me:***@db/x" in out
    assert "✗" not in out
    lines = err.splitlines()
    assert len(lines) == 3
    assert "did you mean sonic?" in lines[0]
    assert "$HOOK_TOKEN" in lines[1]
    assert "rollout.canary: z" in lines[2]
    code, out, _ = commands("check-config", config, "--json")
    assert code == 2
    assert len(json.loads(out)["inventory"]["problems"]) == 4
    assert "hunter2" not in out


def test_check_config_refuses_an_inventory_that_is_not_there(commands: Commands) -> None:
    code, out, err = commands("check-config", commands.settings())
    assert (code, out) == (2, "")
    assert "switches.yaml" in err


def test_what_switches_hash_by_is_shown(commands: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVUE_USER", USER)
    monkeypatch.setenv("NVUE_PASSWORD", PASSWORD)
    switch = NvueSwitch(MARK)
    try:
        switch.applied["system"]["forwarding"]["hash-seed"] = 50
        nvue = {
            "platform": "nvue",
            "address": switch.url,
            "username": {"env": "NVUE_USER"},
            "password": {"env": "NVUE_PASSWORD"},
            "timeout_s": 60,
        }
        path = commands.inventory({"leaf1": nvue, "leaf2": nvue, "spine1": {"platform": "dry-run"}})
        code, out, err = commands("switches", "--inventory", path, "--json")
        assert (code, err) == (0, "")
        leaf1, _, spine = json.loads(out)["switches"]
        assert leaf1["hash"] == {
            "setting": "system forwarding hash-seed",
            "value": "50",
            "choices": [],
            "fields": ["source-ip", "source-port"],
            "by_hand": "nv set system forwarding hash-seed, from 0 to 4294967295, and nv config apply",
            "fixed": None,
            "notes": list(NvueHash.notes),
        }
        assert spine["hash"] is None
        code, out, err = commands("switches", "--inventory", path)
        assert (code, err) == (0, "")
        shown = " ".join(out.split())
        assert "leaf1, leaf2 system forwarding hash-seed 50 0 to 4294967295 source-ip, source-port" in shown
        assert switch.unexpected == []
    finally:
        switch.close()
