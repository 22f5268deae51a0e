"""``ecntwin accept``: exit codes, the table, the document, and what it reads from switches."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.main import app
from cli.output import run_to_exit_code
from telemetry.topology import Topology, leaf_spine, topology_from_json
from tests.counterparts.switches.webhook_switch import NAME, TOKEN, WebhookSwitch
from twin.watermark import Watermark

SHORT = ("--duration", "1ms")
Accept = Callable[..., tuple[int, str, str]]


@pytest.fixture
def accept(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Accept:
    """Writes a topology and runs the command on it."""
    monkeypatch.setenv("COLUMNS", "200")

    def run(topology: Topology, *arguments: object) -> tuple[int, str, str]:
        path = tmp_path / "fabric.json"
        path.write_text(json.dumps(topology.to_json()), "utf-8")
        code = run_to_exit_code(app, ["accept", "--topology", str(path), *map(str, arguments)])
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        return code, out, err

    return run


def test_a_good_fabric_passes_with_a_table(accept: Accept) -> None:
    code, out, err = accept(leaf_spine(2, 2, 2), *SHORT, "--seeds", 2)
    assert code == 0, out
    assert [line.split()[0] for line in out.splitlines() if line.endswith("passes ")] == [
        *("ring", "all-to-all", "incast", "storage")
    ]
    assert out.endswith("The fabric passes.\n")
    assert "4 hosts, 4 collectives, 2 seeds: about 1 s on one core" in err


def test_a_fabric_that_fails_exits_1_and_says_where(accept: Accept) -> None:
    code, out, err = accept(leaf_spine(2, 2, 2), *SHORT, "--watermark", "off", "--json")
    assert (code, err) == (1, "")
    document = json.loads(out)
    assert (document["passed"], document["watermark"], document["hosts"]) == (False, None, 4)
    (finding,) = (
        check["finding"]
        for one in document["collectives"]
        for check in one["checks"]
        if check["passed"] is False
    )
    assert "ECN is off there" in finding
    code, out, _ = accept(leaf_spine(2, 2, 2), *SHORT, "--watermark", "off")
    assert code == 1
    assert "✗ incast, paused " in out
    assert finding in out
    assert out.endswith("The fabric fails: 1 of 4 collectives failed.\n")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--watermark", "5,4,0.1"], "Kmin must be below Kmax"),
        (["--watermark", "off", "--inventory", "a.yaml"], "drop one"),
        (["--paused", "-1"], "criterion paused"),
        (["--duration", "0"], "--duration"),
        (["--duration", "1ns"], "in which no message begins"),
        (["--duration", "9000s"], "at most 20000000 are made at once; give a shorter duration"),
        (["--dcqcn", "nobody"], "--dcqcn"),
        (["--inventory", "nowhere.yaml"], "nowhere.yaml"),
    ],
)
def test_a_mistake_is_a_sentence(accept: Accept, arguments: list[str], says: str) -> None:
    code, out, err = accept(leaf_spine(2, 2, 2), *arguments)
    assert (code, out) == (2, ""), err
    assert says in err
    assert err.count("\n") == 1


def test_one_host_alone_is_refused(accept: Accept) -> None:
    pair = leaf_spine(1, 0, 2)
    code, out, err = accept(Topology(pair.hosts[:1], pair.switches, pair.links[:1]))
    assert (code, out) == (2, "")
    assert err.count("\n") == 1


def test_switches_of_an_inventory_are_read(
    accept: Accept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_TOKEN", TOKEN)
    star = leaf_spine(1, 0, 4).to_json()
    renamed = json.loads(json.dumps(star).replace('"leaf1"', json.dumps(NAME)).replace("Ethernet", "eth"))
    server = WebhookSwitch(Watermark(100_000, 400_000, 0.1))
    server.queues["eth1", 3] = None
    try:
        switch = {"platform": "webhook", "address": server.url, "token": {"env": "HOOK_TOKEN"}}
        inventory = tmp_path / "switches.yaml"
        said = {"switches": {NAME: switch | {"ports": ["eth*"]}}}
        inventory.write_text(json.dumps(said), "utf-8")
        code, out, err = accept(topology_from_json(renamed), *SHORT, "--inventory", inventory, "--json")
        assert err == ""
        document = json.loads(out)
        assert document["watermark"] == {"kmin_bytes": 100_000, "kmax_bytes": 400_000, "pmax": 0.1}
        assert (document["other_ports"], code) == (1, 1)  # eth1 does not mark
        hosts = {f"h{number}": {"sender": "swift"} for number in (*range(4), 99)}
        inventory.write_text(json.dumps(said | {"hosts": hosts}), "utf-8")
        _, out, _ = accept(topology_from_json(renamed), *SHORT, "--inventory", inventory, "--json")
        sent, before = (one["collectives"][2]["took_s"] for one in (json.loads(out), document))
        assert sent < 0.8 * before  # the incast, as no mark slows them
        code, out, err = accept(leaf_spine(1, 0, 4), *SHORT, "--inventory", inventory)
        assert (code, out) == (2, "")
        assert "no switch 'leaf1'" in err
    finally:
        server.close()
