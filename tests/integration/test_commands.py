"""The commands on real files: one JSON document or one sentence, and the exit code that fits."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import socket
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from cli.main import app
from cli.output import run_to_exit_code, watermark_cells
from tests.unit.telemetry.network.uplinks import FABRIC, ON_TWO_OF_FOUR, over, recorded
from twin.watermark import Watermark

NUMBERS = ("queue_mean_bytes", "queue_p99_bytes", "queue_peak_bytes", "goodput_gbps", "marked_fraction")
INPUT = 2


class Command:
    """Runs a command in this process and holds it to the contract of ``--json``."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: object) -> tuple[int, str, str]:
        code = run_to_exit_code(app, [str(argument) for argument in arguments])
        out, err = self._capsys.readouterr()
        return code, out, err

    def json(self, *arguments: object) -> dict[str, Any]:
        code, out, err = self(*arguments, "--json")
        assert (code, err) == (0, "")

        def no_constant(name: str) -> None:
            raise AssertionError(f"{name} is not JSON")

        document: dict[str, Any] = json.loads(out, parse_constant=no_constant)
        return document

    def refused(self, *arguments: object) -> str:
        code, out, err = self(*arguments, "--json")
        assert (code, out) == (INPUT, ""), err
        assert err.count("\n") == 1
        assert "Traceback" not in err
        return err


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(capsys)


@pytest.fixture(scope="module")
def brief(example: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first quarter of the example's reports, for what does not depend on how much traffic there is."""
    cut = tmp_path_factory.mktemp("brief") / "reports.ndjson"
    with gzip.open(example / "reports.ndjson.gz") as whole:
        cut.write_bytes(b"".join(islice(whole, 8_000)))
    return cut


@pytest.fixture
def marks(tmp_path: Path) -> Path:
    path = tmp_path / "marks.json"
    path.write_text(
        json.dumps(
            [
                {"kmin_bytes": 5_000, "kmax_bytes": 50_000, "pmax": 0.1, "note": "x"},
                {"kmin_bytes": 1e6, "kmax_bytes": 4e6, "pmax": 1},
            ]
        ),
        "utf-8",
    )
    return path


def test_whatif_answers_in_the_order_asked(command: Command, reference: Path, marks: Path) -> None:
    scenario = reference / "published-2flow.scenario.json"
    found = command.json(
        "whatif", scenario, "--watermarks", marks, "--engine", "fluid", "--seed", 5, "--workers", 1
    )
    assert found.keys() == {"scenario", "engine", "seed", "version", "wall_s", "score_is", "results", "notes"}
    assert (found["engine"], found["seed"]) == ("fluid", 5)
    assert [(one["kmin_bytes"], one["kmax_bytes"], one["pmax"]) for one in found["results"]] == [
        (5_000, 50_000, 0.1),
        (1_000_000, 4_000_000, 1.0),
    ]
    for one in found["results"]:
        assert one["status"] == "ok"
        assert all(isinstance(one[name], float) for name in NUMBERS)
        assert one["slowdown"].keys() == {"all", "mice", "medium", "elephant"}
        assert isinstance(one["score"], float)


def test_watermarks_to_predict_are_given_one_by_one(command: Command, reference: Path, marks: Path) -> None:
    asked = ("whatif", reference / "published-2flow.scenario.json", "--engine", "fluid", "--workers", 1)
    inline = ("--watermark", "100KB,400KB,20%", "--watermark", "7000,9000,1")
    found = command.json(*asked, *inline, "--watermarks", marks)
    assert [(one["kmin_bytes"], one["kmax_bytes"], one["pmax"]) for one in found["results"]] == [
        (100_000, 400_000, 0.2),
        (7_000, 9_000, 1.0),
        (5_000, 50_000, 0.1),
        (1_000_000, 4_000_000, 1.0),
    ]
    assert "--watermark" in command.refused(*asked)
    assert "Kmin must be below" in command.refused(*asked, "--watermark", "9,3,1")


def test_a_truth_file_serves_as_watermarks(command: Command, reference: Path) -> None:
    scenario, truth = (reference / f"published-2flow.{kind}.json" for kind in ("scenario", "truth"))
    wanted = json.loads(truth.read_text("utf-8"))["results"]
    found = command.json("whatif", scenario, "--watermarks", truth, "--engine", "fluid", "--workers", 1)
    assert [one["kmin_bytes"] for one in found["results"]] == [one["kmin_bytes"] for one in wanted]


def test_packets_answer_whatif_too(command: Command, example: Path, tmp_path: Path, marks: Path) -> None:
    document = json.loads((example / "scenario.json").read_text("utf-8"))
    document |= {"duration_s": 5e-4, "window_s": [0, 5e-4]}
    del document["flows_csv"]
    document["flows"] = [
        {"src": "h0", "dst": "h2", "bytes": None, "start_s": 0.0},
        {"src": "h1", "dst": "h2", "bytes": None, "start_s": 0.0},
    ]
    scenario = tmp_path / "two.scenario.json"
    scenario.write_text(json.dumps(document), "utf-8")
    found = command.json("whatif", scenario, "--watermarks", marks, "--engine", "packet", "--workers", 1)
    assert found["engine"] == "packet"
    low, high = found["results"]
    assert low["status"] == high["status"] == "ok"
    assert 0 < low["queue_mean_bytes"] < high["queue_mean_bytes"]
    assert low["marked_fraction"] > high["marked_fraction"]


def test_the_kmin_floor_of_a_mixed_fleet_is_found(command: Command, tmp_path: Path) -> None:
    hosts = [f"h{number}" for number in range(4)]
    links = [
        {"a": host, "b": "s", "b_port": f"to-{host}", "rate_gbps": 10, "delay_us": 2.0} for host in hosts
    ]
    document = {
        "topology": {
            "hosts": [{"name": host} for host in hosts],
            "switches": [{"name": "s"}],
            "links": links,
        },
        "senders": {"h[12]": "swift"},
        "flows": [{"src": "h0", "dst": "h3", "bytes": 1_000, "start_s": 0.0}],
        "duration_s": 1e-3,
    }
    path = tmp_path / "mixed.scenario.json"
    path.write_text(json.dumps(document), "utf-8")
    asked = ("kmin-floor", path, "--watermark", "20KB,40KB,10%")
    found = command.json(*asked)
    assert found["receiver"] == "h3"
    assert [(one["n_flows"], one["n_dcqcn"]) for one in found["floors"]] == [(2, 1), (3, 1)]
    for one in found["floors"]:
        mark = one["watermark"]
        assert (mark["kmax_bytes"], mark["pmax"]) == (2 * mark["kmin_bytes"], 0.1)
        shares = {int(kmin): share for kmin, share in one["shares"].items()}
        assert shares[mark["kmin_bytes"]] >= 1.0
        assert all(share < 1.0 for kmin, share in shares.items() if kmin < mark["kmin_bytes"])
    [two, _] = found["floors"]
    code, out, _ = command(*asked, "--flows", 2)
    assert code == 0
    assert watermark_cells(Watermark(**two["watermark"]))[0] in out
    assert "received 4; from 2 to 3 hosts can send to 'h3'" in command.refused(*asked, "--flows", 4)
    assert "'h9'; it is a host of the fabric" in command.refused(*asked, "--receiver", "h9")
    del document["senders"]
    path.write_text(json.dumps(document), "utf-8")
    assert "a fleet has a Kmin floor where both kinds meet" in command.refused(*asked)


def test_whatif_prints_a_table_for_people(command: Command, reference: Path, marks: Path) -> None:
    scenario = reference / "published-2flow.scenario.json"
    code, out, err = command("whatif", scenario, "--watermarks", marks, "--engine", "fluid", "--workers", 1)
    assert code == 0
    assert "engine fluid" in out
    assert "50 KB" in out
    assert err.startswith("ecntwin: watermarks: 0 of 2\n")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[", "JSON"),
        ("[]", "at least one"),
        ("{}", "results"),
        ("3", "list"),
        ('[{"kmin_bytes": 5, "kmax_bytes": 5, "pmax": 0.1}]', "[0]"),
        ('[{"kmin_bytes": 5, "kmax_bytes": 50, "pmax": 0}]', "(0, 1]"),
        ('[{"kmin_bytes": 5, "kmax_bytes": 50, "pmax": 1.01}]', "(0, 1]"),
        ('[{"kmin_bytes": -5, "kmax_bytes": 50, "pmax": 0.1}]', "negative"),
        ('[{"kmin_bytes": NaN, "kmax_bytes": 50, "pmax": 0.1}]', "[0]"),
        ('[{"kmin_bytes": "5", "kmax_bytes": 50, "pmax": 0.1}]', "[0].kmin_bytes"),
        ('[{"kmin_bytes": 5, "kmax_bytes": 50}]', "[0].pmax"),
    ],
)
def test_watermarks_that_mean_nothing_are_one_sentence(
    command: Command, reference: Path, tmp_path: Path, text: str, says: str
) -> None:
    path = tmp_path / "w.json"
    path.write_text(text, "utf-8")
    assert says in command.refused(
        "whatif", reference / "published-2flow.scenario.json", "--watermarks", path
    )


def test_missing_files_are_one_sentence(
    command: Command, reference: Path, tmp_path: Path, marks: Path
) -> None:
    scenario = reference / "published-2flow.scenario.json"
    assert "none.json" in command.refused("whatif", tmp_path / "none.json", "--watermarks", marks)
    assert "none.json" in command.refused("whatif", scenario, "--watermarks", tmp_path / "none.json")
    shutil.copy(scenario, tmp_path / "alone.scenario.json")
    assert "flows" in command.refused("whatif", tmp_path / "alone.scenario.json", "--watermarks", marks)
    assert "'magic'" in command.refused("whatif", scenario, "--watermarks", marks, "--engine", "magic")


def test_whatif_predicts_on_reports_as_on_a_scenario(command: Command, example: Path, marks: Path) -> None:
    reports, told = example / "reports.ndjson.gz", example / "scenario.json"
    found = command.json(
        *("whatif", "--reports", reports, "--topology", told, "--watermarks", marks, "--workers", 0),
        *("--incumbent", "400000,1600000,0.2"),
    )
    assert found.keys() == {"scenario", "engine", "seed", "version", "wall_s", "score_is", "results", "notes"}
    low, high = found["results"]
    assert (low["kmin_bytes"], high["kmin_bytes"]) == (5_000, 1_000_000)
    assert 0 < low["queue_mean_bytes"] < high["queue_mean_bytes"]
    assert {"mice", "medium", "elephant"} <= low["slowdown"].keys()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ((), "a scenario file, or on --reports"),
        (("--reports", "reports.ndjson.gz"), "a scenario file, or on --reports"),
        (
            ("scenario.json", "--reports", "reports.ndjson.gz", "--topology", "topology.json"),
            "one of the two",
        ),
        (("scenario.json", "--dcqcn", "vendor"), "one of the two"),
        (("--reports", "none.gz", "--topology", "topology.json"), "none.gz"),
        (
            ("--reports", "reports.ndjson.gz", "--topology", "topology.json", "--incumbent", "9,3,1"),
            "Kmin must be below",
        ),
        (("--reports", "reports.ndjson.gz", "--topology", "topology.json", "--dcqcn", "quick"), "vendor"),
    ],
)
def test_a_wrong_source_of_whatif_is_one_sentence(
    command: Command, example: Path, marks: Path, given: tuple[str, ...], says: str
) -> None:
    files = [example / one if one.endswith(("json", "gz")) else one for one in given]
    assert says in command.refused("whatif", *files, "--watermarks", marks)


def test_tune_tells_how_far_it_is_and_fits_80_columns(
    command: Command, example: Path, brief: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    code, out, err = command(
        *("tune", "--reports", brief, "--topology", example / "scenario.json"),
        *("--candidates", 8, "--workers", 0, "--incumbent", "400KB,1.6MB,20%"),
    )
    assert code == 0
    assert "ecntwin: second opinion: 0 of" in err
    assert max(map(cell_len, out.splitlines())) <= 80
    assert "…" not in out
    candidates = out[out.index("Best of") : out.index("Second opinion")].splitlines()
    rows = [line for line in candidates if line.lstrip()[:1].isdigit()]
    assert rows
    assert all(line.rstrip().endswith("%") for line in rows)  # a line each: no value is folded
    assert re.search(r"^ packet +\S", out, re.MULTILINE)


def test_tune_answers_as_the_service_does(command: Command, example: Path) -> None:
    found = command.json(
        *("tune", "--reports", example / "reports.ndjson.gz", "--topology", example / "scenario.json"),
        *("--candidates", 8, "--seed", 2, "--workers", 0, "--incumbent", "400000,1600000,0.2"),
        "--no-second-opinion",
    )
    assert found["second_opinion"] is None
    assert {
        "recommendation",
        "incumbent",
        "improvement",
        "dominant_class",
        "flows",
        "candidates",
    } <= found.keys()
    assert (found["seed"], found["dominant_class"]) == (2, "elephant")
    assert (found["incumbent"]["kmin_bytes"], found["incumbent"]["kmax_bytes"]) == (400_000, 1_600_000)
    assert found["incumbent"]["queue_mean_bytes"] > 0
    assert sum(found["flows"].values()) == 884
    assert found["candidate_count"] == len(found["candidates"]) >= 8


def test_packets_review_what_the_replay_picks(command: Command, example: Path, brief: Path) -> None:
    found = command.json(
        *("tune", "--reports", brief, "--topology", example / "scenario.json"),
        *("--candidates", 8, "--workers", 2),
    )
    opinion = found["second_opinion"]
    assert (opinion["engine"], opinion["decided"], opinion["cut"]) == ("packet", True, False)
    assert len(opinion["candidates"]) == 5
    first = [one["first"] for one in opinion["candidates"]]
    assert first[0]["kmin_bytes"] == 400_000
    for one in opinion["candidates"]:
        assert one["second"]["status"] == "ok"
        ratio = one["second"]["queue_mean_bytes"] / one["first"]["queue_mean_bytes"]
        assert 0.7 < ratio < 1.4
    best = found["recommendation"] if found["changes"] else found["improvement"]["best"]
    assert best["kmin_bytes"] in {one["kmin_bytes"] for one in first}
    assert 0 <= opinion["disagreement_ratio"] < 0.5


def test_nics_are_tuned_beside_the_watermark_on_demand(command: Command, example: Path, brief: Path) -> None:
    tune = ("tune", "--reports", brief, "--topology", example / "scenario.json")
    tune = (*tune, "--candidates", 8, "--workers", 0, "--no-second-opinion")
    alone = command.json(*tune)
    assert alone["co_tuning"] is None
    code, out, err = command(*tune, "--what", "watermark,nic")
    assert code == 0
    assert "Set together" in out
    assert "Each value alone, over its range" in out
    assert re.search(r"cut interval +50 µs +\d", out)
    assert "better than now" in " ".join(out.split())
    assert "ecntwin: screening: 0 of" in err


def test_paths_of_elephants_that_collide_are_advised_on_demand(command: Command, tmp_path: Path) -> None:
    reports, topology = tmp_path / "reports.ndjson", tmp_path / "topology.json"
    reports.write_bytes(recorded(over(ON_TWO_OF_FOUR)))
    topology.write_text(json.dumps(FABRIC.to_json()))
    tune = ("tune", "--reports", reports, "--topology", topology, "--dcqcn", "vendor")
    tune = (*tune, "--candidates", 2, "--workers", 0, "--incumbent", "400KB,1.6MB,20%")
    assert command.json(*tune, "--no-second-opinion")["paths"] is None
    [fix] = command.json(*tune, "--what", "watermark,path")["paths"]["collisions"]
    assert fix["switch"] == "leaf1"
    assert [one["elephants"] for one in fix["ports"]] == [4, 4, 0, 0]
    assert fix["moved"]["advised"]
    assert fix["moved"]["second"]["engine"] == "packet"
    code, out, err = command(*tune, "--what", "watermark,path", "--no-second-opinion")
    assert code == 0
    assert "moving 4 of them would give elephants 2.0 ±" in " ".join(out.split())
    assert re.search(r"h0 → h8, UDP 1024 → 4791 +Ethernet8 +Ethernet1[01]", out)
    assert "Advice: ecntwin sets no paths." in out
    assert "ecntwin: paths: 0 of" in err


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"--what": "nic"}, "give such as watermark,nic"),
        ({"--what": "watermark,cables"}, "known things to tune are watermark, roles, nic, path"),
        ({"--incumbent": "5,3,0.1"}, "Kmin must be below"),
        ({"--incumbent": "5,3"}, "KMIN,KMAX,PMAX"),
        ({"--weights": "fast"}, "balanced"),
        ({"--dcqcn": "quick"}, "paper, vendor"),
        ({"--candidates": "1"}, "at least 2"),
        ({"--candidates": "many"}, "--candidates"),
        ({"--seed": "-1"}, "--seed"),
        ({"--reports": "none.gz"}, "none.gz"),
        ({"--topology": "none.json"}, "none.json"),
    ],
)
def test_a_wrong_option_of_tune_is_one_sentence(
    command: Command, example: Path, changed: dict[str, str], says: str
) -> None:
    options = {"--reports": example / "reports.ndjson.gz", "--topology": example / "topology.json"} | changed
    assert says in command.refused("tune", *(part for pair in options.items() for part in pair))


def test_reports_that_cannot_be_used_are_one_sentence(
    command: Command, example: Path, tmp_path: Path
) -> None:
    topology = example / "topology.json"
    for name, body in (("empty", b""), ("text", b"hello"), ("gzip", b"\x1f\x8bxx"), ("none", b"[]")):
        (tmp_path / name).write_bytes(body)
        command.refused("tune", "--reports", tmp_path / name, "--topology", topology)


def test_misspelt_keys_are_told_before_what_they_make_fail(
    command: Command, example: Path, tmp_path: Path
) -> None:
    reports = tmp_path / "reports.ndjson"
    with gzip.open(example / "reports.ndjson.gz", "rt") as lines:
        reports.write_text("".join(islice(lines, 500)).replace("queue_bytes", "queue_byte"), "utf-8")
    given = ("--reports", reports, "--topology", example / "topology.json")
    for name, *more in (
        ("tune", "--candidates", 2, "--workers", 0),
        ("whatif", "--watermark", "5KB,200KB,1%"),
    ):
        code, _, err = command(name, *given, *more)
        assert code == INPUT
        hint, error = err.splitlines()[-2:]
        assert "keys that were not read: hops[].queue_byte" in hint
        assert "none of them with a depth" in error


def test_reports_that_fit_no_declared_port_are_told(command: Command, example: Path, tmp_path: Path) -> None:
    document = json.loads((example / "topology.json").read_text("utf-8"))
    cut, other = tmp_path / "cut.json", tmp_path / "other.json"
    cut.write_text(json.dumps(document | {"links": document["links"][1:]}), "utf-8")
    other.write_text(json.dumps(document).replace("tor1", "tor9"), "utf-8")
    tune = ("tune", "--reports", example / "reports.ndjson.gz", "--candidates", 2, "--workers", 0)
    tune = (*tune, "--no-second-opinion")
    code, out, err = command(*tune, "--topology", cut, "--json")
    assert code == 0
    assert json.loads(out)["candidate_count"] >= 2
    assert "'Ethernet1'" in err
    assert err.splitlines()[-1].endswith("4780 of 31983 reports were left out")
    assert "none of them usable" in command.refused(*tune, "--topology", other)


def test_check_config_shows_every_setting_and_names_a_mistake(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(f"security: {{tokens: [{{name: a, sha256: {'b' * 64}, scopes: [read]}}]}}", "utf-8")
    shown = command.json("check-config", path)
    assert shown["server"]["port"] == 8080
    assert shown["security"]["tokens"][0]["sha256"] == "bbbbbbbb…"
    code, out, _ = command("check-config", "--config", path)
    assert code == 0
    assert "valid" in out.splitlines()[0]
    path.write_text("server: {host: 0.0.0.0}", "utf-8")
    assert "loopback only" in command.refused("check-config", path)
    path.write_text("storage: {url: mysql://db/ecntwin}", "utf-8")
    assert "a SQLite file or a PostgreSQL database" in command.refused("check-config", path)
    path.write_text("push: {adapter: telnet}", "utf-8")
    code, _, err = command("check-config", path)
    assert code != 0
    assert "dry-run" in err
    path.write_text("fabric: {topology: none.json}", "utf-8")
    assert "none.json" in command.refused("check-config", path)
    path.write_text("tuning: {advice: true, advice_file: learnt.json}", "utf-8")
    problem = (
        "advice learnt.json: there is no such file; run ecntwin advice train, or name another file in "
        "tuning.advice_file, or none."
    )
    assert command.json("check-config", path)["advice"] == {"problem": problem}
    code, out, _ = command("check-config", "--config", path)
    assert (code, out.splitlines()[-1]) == (0, f"# {problem}")
    (tmp_path / "learnt.json").write_text("{}", "utf-8")
    assert "advice learnt.json: Object missing required field" in command.refused("check-config", path)


def test_serve_refuses_what_check_config_refuses(command: Command) -> None:
    code, out, err = command("serve", "--host", "0.0.0.0")
    assert (code, out) == (INPUT, "")
    assert "loopback only" in err


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (
            "classes: {a: {platform: connectx, username: {env: U}}}\n"
            "hosts: {h1: {class: a, address: 192.0.2.1}, h2: {class: a, address: 192.0.2.1}}",
            "hosts.h2.address: received 192.0.2.1, h1's; each address belongs to one host",
        ),
        ("hosts: {h1: {sender: guesswork}}", "hosts.h1.sender: received 'guesswork'"),
        ("defaults: {int: {source: 192.0.2.9}}", "leaf1.int.node_id: source needs the node id"),
    ],
)
def test_a_mistake_anywhere_in_the_inventory_is_a_sentence(
    command: Command, tmp_path: Path, more: str, says: str
) -> None:
    inventory = f"switches: {{leaf1: {{platform: lab, address: 'http://127.0.0.1:9'}}}}\n{more}\n"
    (tmp_path / "inventory.yaml").write_text(inventory, "utf-8")
    config = tmp_path / "ecntwin.yaml"
    config.write_text("push: {inventory: inventory.yaml}", "utf-8")
    assert says in command.refused("check-config", config)
    code, out, err = command("serve", "--config", config)
    assert (code, out) == (INPUT, "")
    assert err.startswith("ecntwin: inventory inventory.yaml ")
    assert says in err


def test_a_canary_that_the_inventory_does_not_name_is_refused(command: Command, tmp_path: Path) -> None:
    """Another switch would go first."""
    inventory = "switches: {leaf1: {platform: lab, address: 'http://127.0.0.1:9'}}"
    (tmp_path / "inventory.yaml").write_text(inventory, "utf-8")
    config = tmp_path / "ecntwin.yaml"
    push = "push: {inventory: inventory.yaml, enabled: true}\nstorage: {url: 'sqlite:///ecntwin.db'}\n"
    config.write_text(f"{push}rollout: {{canary: [leaf1, leef2]}}", "utf-8")
    assert command("check-config", config)[0] == INPUT
    said = "rollout.canary: received leef2; a canary is a switch of the inventory; correct the name"
    with socket.create_server(("127.0.0.1", 0)) as taken:  # where it refused nothing, it would end at this
        _, _, err = command("serve", "--config", config, "--port", taken.getsockname()[1])
    assert said in err


def test_the_version_is_the_distributions(command: Command) -> None:
    code, out, _ = command("version")
    assert (code, out) == (0, f"ecntwin {command.json('version')['version']}\n")
    assert command("--version")[:2] == (code, out)
