"""What files say of a fabric, and what a wrong one is told."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from service.tuning.fabric import Fabric, read_dcqcn, read_fabric, read_json
from settings.errors import InputError
from telemetry.errors import TopologyError
from twin.errors import ScenarioError
from twin.senders.dcqcn import PAPER, VENDOR


def test_dcqcn_is_a_preset_a_file_or_a_scenario(tmp_path: Path, example: Path) -> None:
    assert read_dcqcn("vendor") == VENDOR
    path = tmp_path / "dcqcn.json"
    path.write_text(json.dumps({"g": 0.5}), "utf-8")
    assert read_dcqcn(str(path)).gain == 0.5
    assert read_dcqcn(str(example / "scenario.json")).byte_counter_bytes is None
    with pytest.raises(InputError, match="paper, vendor"):
        read_dcqcn("quick")
    path.write_text('{"gain": 1}', "utf-8")
    with pytest.raises(ScenarioError, match="known keys"):
        read_dcqcn(str(path))


def test_a_scenario_file_tells_more_of_the_fabric_than_a_topology(example: Path) -> None:
    declared, fabric = read_fabric(example / "scenario.json", None)
    assert (fabric.mtu_payload_bytes, fabric.wire_overhead_bytes, fabric.pfc) == (1000, 48, True)
    assert fabric.dcqcn.byte_counter_bytes is None
    same, plain = read_fabric(example / "topology.json", None)
    assert same == declared
    assert plain.mtu_payload_bytes is None
    assert plain.dcqcn == PAPER
    assert read_fabric(example / "scenario.json", VENDOR)[1].dcqcn == VENDOR


def test_classes_of_nics_are_those_of_the_file_else_their_rates(example: Path, tmp_path: Path) -> None:
    document = json.loads((example / "scenario.json").read_text("utf-8"))
    first, second, *others = (host["name"] for host in document["topology"]["hosts"])
    assert read_fabric(example / "scenario.json", None)[1].nic_class == {}  # all of one rate

    def read(**more: object) -> Fabric:
        path = tmp_path / "classes.json"
        path.write_text(json.dumps(document | more), "utf-8")
        return read_fabric(path, None)[1]

    said = read(nic_classes={"disk": {"hosts": [first], "dcqcn": {"g": 0.25}}, "gpu": {"hosts": others}})
    assert said.nic_class == dict.fromkeys(others, "gpu") | {first: "disk", second: "gpu"}
    assert said.dcqcn_by_class == {"disk": replace(said.dcqcn, gain=0.25)}
    alone = read(nic_classes={"all": {"hosts": ["*"], "dcqcn": {"g": 0.25}}})
    assert set(alone.nic_class.values()) == set(alone.dcqcn_by_class) == {"all"}
    for link in document["topology"]["links"]:
        if first in (link["a"], link["b"]):
            link["rate_gbps"] = 10
    by_rate = read().nic_class
    assert by_rate[first] == "10G" != by_rate[second]
    bare = tmp_path / "topology.json"
    bare.write_text(json.dumps(document["topology"]), "utf-8")
    assert read_fabric(bare, None)[1].nic_class == by_rate


@pytest.mark.parametrize(
    ("changes", "kind", "says"),
    [
        ({"buffer_bytes": -1}, InputError, "buffer_bytes"),
        ({"buffer_bytes": float("nan")}, InputError, "finite"),
        ({"pfc": "yes"}, InputError, "pfc"),
        ({"monitored_ports": [{"switch": "tor1", "to": "x"}]}, ScenarioError, "monitored_ports[0]"),
        ({"dcqcn": {"g": "x"}}, ScenarioError, "dcqcn g"),
        ({"topology": []}, TopologyError, "JSON object"),
        (
            {"topology": {"hosts": [], "switches": [], "links": [{"a": "x", "b": "y"}]}},
            TopologyError,
            "rate_gbps",
        ),
    ],
)
def test_a_scenario_that_is_wrong_says_where(
    example: Path, tmp_path: Path, changes: dict[str, object], kind: type[Exception], says: str
) -> None:
    document = json.loads((example / "scenario.json").read_text("utf-8")) | changes
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(document), "utf-8")
    with pytest.raises(kind) as caught:
        read_fabric(path, None)
    assert says in str(caught.value)


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.json"):
        read_json(tmp_path / "none.json", "watermarks")
    (tmp_path / "broken.json").write_text("{", "utf-8")
    with pytest.raises(InputError, match=r"broken\.json"):
        read_json(tmp_path / "broken.json", "watermarks")
    with pytest.raises(InputError, match="directory"):
        read_json(tmp_path, "watermarks")
