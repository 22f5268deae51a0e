"""What the options of a lab make, and the sentences for those that make none."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lab.setup import LabOptions, LeafSpine, duration_of, ecmp_seeds_of, lab_parts, lab_plan
from settings.errors import InputError
from telemetry.errors import TopologyError
from telemetry.topology import leaf_spine
from tests.unit.lab.labs import SMALL, parts_of
from twin.errors import ParameterError, ScenarioError
from twin.packet.plan import FabricPlan
from twin.scenario_file import load_scenario
from twin.senders.artefact import sender_named
from twin.senders.dcqcn import PAPER, preset


def test_numbers_make_a_leaf_spine_fabric_with_its_defaults() -> None:
    parts = lab_parts(LabOptions(leaf_spine=SMALL, traffic="websearch:0.5", duration_s=0.01))
    assert parts.plan.switches == ("leaf1", "leaf2", "spine1", "spine2")
    assert len(parts.plan.hosts) == 8
    assert parts.addresses["h0"] == "10.0.0.1"
    assert (parts.plan.dcqcn, parts.plan.pfc, parts.plan.buffer_bytes) == (PAPER, True, 32_000_000)
    assert parts.duration_s == 0.01


def test_a_topology_file_takes_the_place_of_the_numbers(tmp_path: Path) -> None:
    path = tmp_path / "fabric.json"
    path.write_text(json.dumps(leaf_spine(1, 0, 3).to_json()), "utf-8")
    plan = parts_of(topology=path, dcqcn="vendor", pfc=False, buffer_bytes=9e6).plan
    assert plan.switches == ("leaf1",)
    assert (plan.dcqcn, plan.pfc, plan.buffer_bytes) == (preset("vendor"), False, 9e6)


def test_switches_may_have_ecmp_seeds() -> None:
    assert ecmp_seeds_of(["leaf1=7", "a=b=0"]) == {"leaf1": 7, "a=b": 0}
    assert parts_of(ecmp_seeds={"spine1": 3}).plan.ecmp_seeds == {"spine1": 3}
    for texts in (
        ["leaf1"],
        ["=7"],
        ["leaf1=-1"],
        ["leaf1=x"],
        [f"leaf1={'9' * 5_000}"],
        ["leaf1=1", "leaf1=1"],
    ):
        with pytest.raises(InputError, match="SWITCH=SEED"):
            ecmp_seeds_of(texts)
    with pytest.raises(ScenarioError, match="only switches have an ECMP seed"):
        parts_of(ecmp_seeds={"leaf9": 3})


def test_a_scenario_brings_its_fabric_its_flows_and_its_time(reference: Path) -> None:
    path = reference / "websearch-16-shallow.scenario.json"
    scenario = load_scenario(path)
    parts = lab_parts(LabOptions(scenario=path))
    assert parts.plan == FabricPlan.of(scenario)
    assert parts.duration_s == scenario.duration_s
    offered = []
    while parts.feed.next_s < scenario.duration_s:
        portion = parts.feed.take()
        offered += [
            (parts.plan.hosts[src], parts.plan.hosts[dst], size)
            for src, dst, size in zip(
                portion.src.tolist(), portion.dst.tolist(), portion.payload_bytes.tolist(), strict=True
            )
        ]
    flows = scenario.flows
    wanted = list(zip(flows.src, flows.dst, flows.payload_bytes.tolist(), strict=True))
    assert offered == wanted[: len(offered)]
    assert len(offered) >= (flows.start_s < scenario.duration_s).sum()


def test_hosts_of_a_class_run_what_the_scenario_says_of_it(reference: Path, tmp_path: Path) -> None:
    document = json.loads((reference / "websearch-16.scenario.json").read_text("utf-8"))
    first = document["topology"]["hosts"][0]["name"]
    classes = {"disk": {"hosts": [first], "dcqcn": {"g": 0.25}}}
    path = tmp_path / "classes.json"
    path.write_text(json.dumps(document | {"nic_classes": classes}), "utf-8")
    plan = lab_plan(LabOptions(scenario=path))[1]
    assert plan.dcqcn_by_host == {first: replace(plan.dcqcn, gain=0.25)}


def test_hosts_send_and_acknowledge_as_the_scenario_says(reference: Path, tmp_path: Path) -> None:
    document = json.loads((reference / "websearch-16.scenario.json").read_text("utf-8"))
    first = document["topology"]["hosts"][0]["name"]
    path = tmp_path / "scenario.json"
    path.write_text(json.dumps(document | {"senders": {first: "swift"}, "ack_wire_bytes": 0}), "utf-8")
    plan = lab_plan(LabOptions(scenario=path))[1]
    assert plan.senders == {first: sender_named("swift", where="test")}
    assert plan.ack_wire_bytes == 0


def test_other_traffic_may_run_on_a_scenario_s_fabric(reference: Path) -> None:
    path = reference / "websearch-16.scenario.json"
    parts = lab_parts(LabOptions(scenario=path, traffic="incast:8", duration_s=0.003))
    assert parts.duration_s == 0.003
    assert set(parts.feed.take().payload_bytes.tolist()) == {64_000.0}


def test_the_default_lab_can_carry_its_traffic() -> None:
    parts = lab_parts(LabOptions(duration_s=1.0))
    number = {name: index for index, name in enumerate(parts.plan.hosts)}
    leaf = np.empty(len(number), dtype=np.int64)
    up_bytes_per_s = 0.0
    for port in parts.plan.ports:
        if port.port is None:
            leaf[number[port.node]] = int(port.peer.removeprefix("leaf"))
        elif port.peer.startswith("spine"):
            up_bytes_per_s += port.rate_bytes_per_s
    across_bytes = 0.0
    while math.isfinite(parts.feed.next_s):
        portion = parts.feed.take()
        across_bytes += portion.payload_bytes[leaf[portion.src] != leaf[portion.dst]].sum()
    wire_bytes = across_bytes * parts.plan.packet_wire_bytes / parts.plan.mtu_payload_bytes
    assert 0.5 < wire_bytes / up_bytes_per_s < 0.8


def test_the_same_seed_makes_the_same_flows() -> None:
    one, same, other = (parts_of(seed=seed).feed.take().start_s.tolist() for seed in (1, 1, 2))
    assert one == same
    assert one != other


@pytest.mark.parametrize(
    ("options", "kind", "says"),
    [
        ({"topology": Path("a"), "scenario": Path("b")}, InputError, "give one of them"),
        ({"topology": Path("nowhere.json")}, InputError, "nowhere.json"),
        ({"leaf_spine": LeafSpine(leaves=0)}, TopologyError, "n_leaves"),
        ({"leaf_spine": LeafSpine(rate_gbps=-1)}, TopologyError, "rate_gbps"),
        ({"traffic": "carrier-pigeons"}, ParameterError, "carrier-pigeons"),
        ({"traffic": "websearch:9"}, ParameterError, "load"),
        ({"dcqcn": "nobody"}, InputError, "--dcqcn"),
        ({"buffer_bytes": 0.0}, ScenarioError, "buffer_bytes"),
    ],
)
def test_what_does_not_fit_together_is_said(
    options: dict[str, Any], kind: type[Exception], says: str
) -> None:
    with pytest.raises(kind, match=says):
        parts_of(**options)


@pytest.mark.parametrize("text", ["0", "-1ms", "inf", "soon", "", "nan"])
def test_a_duration_is_above_nought(text: str) -> None:
    with pytest.raises((InputError, ParameterError), match="duration"):
        duration_of(text)


def test_a_duration_has_a_unit_or_is_in_seconds() -> None:
    assert duration_of("200ms") == 0.2
    assert duration_of("3") == 3.0
