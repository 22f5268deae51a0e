"""The scenario file format: what it says, and every mistake as a sentence that names its place."""

from __future__ import annotations

import copy
import gzip
import json
import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from twin.errors import ScenarioError, TwinError
from twin.scenario_file import SCHEMA, dcqcn_from_json, dcqcn_to_json, load_scenario, scenario_from_json
from twin.senders.dcqcn import PAPER, PRESETS

GBPS = 125e6
DOCUMENT: dict[str, Any] = {
    "schema": SCHEMA,
    "name": "two-leaves",
    "topology": {
        "hosts": [{"name": name} for name in ("a", "b", "c")],
        "switches": [{"name": "left"}, {"name": "right"}, {"name": "up"}, {"name": "down"}],
        "links": [
            {"a": "a", "b": "left", "b_port": "1", "rate_gbps": 100, "delay_us": 1},
            {"a": "b", "b": "left", "b_port": "2", "rate_gbps": 25, "delay_us": 1},
            {"a": "c", "b": "right", "b_port": "1", "rate_gbps": 100, "delay_us": 1},
            *(
                {
                    "a": leaf, "a_port": f"to-{spine}", "b": spine, "b_port": f"to-{leaf}",
                    "rate_gbps": 100, "delay_us": 2,
                }
                for leaf in ("left", "right")
                for spine in ("up", "down")
            ),
        ],
    },
    "routing": "ecmp",
    "mtu_payload_bytes": 1000,
    "wire_overhead_bytes": 48,
    "buffer_bytes": 4_000_000,
    "pfc": False,
    "dcqcn": {"rai_gbps": 0.05, "byte_counter_bytes": None, "feedback_delay_us": 40, "g": 0.0625},
    "flows": [
        {"src": "a", "dst": "c", "bytes": 2_000, "start_s": 0.001},
        {"src": "b", "dst": "c", "bytes": None, "start_s": 0, "start_rate_gbps": 400},
        {"src": "c", "dst": "a", "bytes": "7", "start_s": "0.0005", "start_rate_gbps": ""},
    ],
    "duration_s": 0.01,
    "window_s": [0.001, 0.01],
    "monitored_ports": [{"switch": "right", "to": "c"}],
}  # fmt: skip

Change = Callable[[dict[str, Any]], Any]


def read(document: dict[str, Any], directory: Path = Path()) -> Any:
    return scenario_from_json(document, directory=directory, where="mine.json")


def changed(**values: Any) -> dict[str, Any]:
    return copy.deepcopy(DOCUMENT) | values


def test_senders_go_by_patterns_of_hosts_and_the_last_one_counts() -> None:
    scenario = read(changed(senders={"*": "swift", "[bc]": "dcqcn", "c": "rtt-rule"}))
    assert {host: sender.name for host, sender in scenario.senders.items()} == {"a": "swift", "c": "rtt-rule"}
    assert read(DOCUMENT).senders == {}


@pytest.mark.parametrize(
    ("senders", "says"),
    [
        (["swift"], "mine.json senders: received list; it is a JSON object of host names and senders"),
        ({"d*": "swift"}, "mine.json senders d*: received no host; each pattern matches a host"),
        ({"a": "bbr"}, "mine.json senders a: received 'bbr'; known senders are dcqcn, rtt-rule, swift"),
        ({"a": None}, "mine.json senders a: received 'None'; known senders are"),
    ],
)
def test_a_mistake_in_senders_is_a_sentence(senders: object, says: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        read(changed(senders=senders))
    assert says in str(caught.value)


def test_classes_of_nics_go_by_patterns_of_hosts() -> None:
    classes = {"storage": {"hosts": ["c"], "dcqcn": {"g": 0.25}}, "training": {"hosts": ["a*", "b"]}}
    scenario = read(changed(dcqcn={"rai_gbps": 1}, nic_classes=classes))
    assert scenario.nic_class == {"a": "training", "b": "training", "c": "storage"}
    assert scenario.dcqcn_by_class == {"storage": replace(scenario.dcqcn, gain=0.25)}
    assert scenario.dcqcn_by_host == {"c": scenario.dcqcn_of("c")}
    assert scenario.dcqcn_of("a") == scenario.dcqcn


@pytest.mark.parametrize(
    ("classes", "says"),
    [
        (["storage"], "mine.json nic_classes: received list; it is a JSON object of classes"),
        ({"disk": {"hosts": ["d*"]}}, "mine.json nic_classes disk hosts d*: received no host; each pattern"),
        ({"disk": {"host": ["a"]}}, 'nic_classes disk: received {"host": ["a"]}; a class has hosts, and'),
        ({"disk": {"hosts": "a"}}, 'nic_classes disk hosts: received "a"; a class names its hosts'),
        ({"disk": {"dcqcn": {}}}, "nic_classes disk hosts: received null; a class names its hosts"),
        ({"x": {"hosts": ["a"]}, "y": {"hosts": ["*"]}}, "y hosts: received 'a', of x too; a host is of one"),
        ({"x": {"hosts": ["a"], "dcqcn": {"G": 1}}}, "nic_classes x dcqcn G: received 1; known keys are"),
    ],
)
def test_a_mistake_in_classes_of_nics_is_a_sentence(classes: object, says: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        read(changed(nic_classes=classes))
    assert says in str(caught.value)


def test_everything_said_is_read() -> None:
    scenario = read(DOCUMENT)
    assert scenario.name == "two-leaves"
    assert (scenario.packet_wire_bytes, scenario.buffer_bytes, scenario.pfc) == (1048, 4e6, False)
    assert (scenario.duration_s, scenario.window_s) == (0.01, (0.001, 0.01))
    [monitored] = scenario.monitored
    assert (scenario.ports[monitored].node, scenario.ports[monitored].peer) == ("right", "c")
    params = scenario.dcqcn
    assert params.ai_rate_bytes_per_s == 0.05 * GBPS
    assert params.byte_counter_bytes is None
    assert params.feedback_delay_s == pytest.approx(40e-6)
    assert params.gain == 0.0625
    assert params.increase_timer_s == PAPER.increase_timer_s


def test_flows_are_in_order_of_their_start() -> None:
    flows = read(DOCUMENT).flows
    assert flows.src == ("b", "c", "a")
    assert flows.start_s.tolist() == [0.0, 0.0005, 0.001]
    assert flows.payload_bytes.tolist() == [math.inf, 7.0, 2000.0]
    # Line rate where none is given, and never more.
    assert flows.start_rate_bytes_per_s.tolist() == [25 * GBPS, 100 * GBPS, 100 * GBPS]


def test_a_flow_keeps_one_of_the_equal_paths() -> None:
    rows = [{"src": "a", "dst": "c", "bytes": 1, "start_s": 0} for _ in range(64)]
    scenario = read(changed(flows=rows))
    spines = [scenario.ports[scenario.flows.path(one)[1]].peer for one in range(64)]
    assert {spines.count(spine) > 10 for spine in ("up", "down")} == {True}
    again = read(changed(flows=rows))
    assert np.array_equal(scenario.flows.path_ports, again.flows.path_ports)
    for one in range(64):
        path = [scenario.ports[port] for port in scenario.flows.path(one)]
        assert path[0].node == "a"
        assert path[-1].peer == "c"
        assert all(port.peer == following.node for port, following in pairwise(path))


def test_what_is_left_out_takes_the_format_s_defaults() -> None:
    document = {key: DOCUMENT[key] for key in ("topology", "flows", "duration_s")}
    scenario = read(document)
    assert scenario.name == "mine.json"
    assert scenario.dcqcn == PAPER
    assert scenario.window_s == (0.0, 0.01)
    assert (scenario.packet_wire_bytes, scenario.ack_wire_bytes) == (1048, 60)
    assert (scenario.buffer_bytes, scenario.pfc) == (32e6, True)
    # Every switch port is monitored.
    assert {scenario.ports[port].node for port in scenario.monitored} == {"left", "right", "up", "down"}
    assert len(scenario.monitored) == 11


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "schema": ({"schema": "ecntwin-scenario/9"}, f"mine.json schema.*reads {SCHEMA}"),
    "routing": ({"routing": "ospf"}, "only ecmp"),
    "topology missing": ({"topology": None}, "mine.json topology"),
    "duration missing": ({"duration_s": None}, "mine.json duration_s: it must be a finite number"),
    "duration NaN": ({"duration_s": math.nan}, "finite number"),
    "duration of words": ({"duration_s": "soon"}, "finite number"),
    "duration negative": ({"duration_s": -1.0}, "above 0"),
    "window of one": ({"window_s": [1]}, "a window is"),
    "window of words": ({"window_s": "ab"}, "a window is"),
    "window backwards": ({"window_s": [0.01, 0.001]}, "window_s"),
    "packet of a half": ({"mtu_payload_bytes": 1000.5}, "whole number"),
    "pfc of words": ({"pfc": "yes"}, "true or false"),
    "buffer negative": ({"buffer_bytes": -1}, "buffer_bytes"),
    "dcqcn a list": ({"dcqcn": []}, "JSON object"),
    "dcqcn unknown key": ({"dcqcn": {"gain": 0.1}}, "dcqcn gain.*known keys are.*g,"),
    "dcqcn out of range": ({"dcqcn": {"g": 2}}, "gain"),
    "dcqcn of words": ({"dcqcn": {"rai_gbps": "fast"}}, "rai_gbps.*finite"),
    "dcqcn half a step": ({"dcqcn": {"fast_recovery_steps": 2.5}}, "fast_recovery_steps.*whole number"),
    "dcqcn too many steps": ({"dcqcn": {"fast_recovery_steps": 1e30}}, "fast_recovery_steps.*at most"),
    "packets beyond 32 bits": ({"mtu_payload_bytes": 3e9, "buffer_bytes": 1e10}, "mtu_payload.*at most"),
    "dcqcn beyond all numbers": ({"dcqcn": {"rai_gbps": 10**400}}, "rai_gbps.*finite"),
    "dcqcn clamp": ({"dcqcn": {"clamp_target_rate": 1}}, "true or false"),
    "name that no output encodes": ({"name": "a\ud800"}, r"mine.json name: received 'a\\ud800'; .*printable"),
    "key misspelt": ({"nic_clases": {}}, "mine.json: received key 'nic_cl.*did you mean nic_classes"),
    "key cut short": ({"ack": 60}, "received key 'ack'; .*; did you mean ack_wire_bytes"),
    "flow without the key bytes": (
        {"flows": [{"src": "a", "dst": "c", "byte": 1, "start_s": 0}]},
        "flows row 1: received key 'byte'.*did you mean bytes",
    ),
    "flows an object": ({"flows": {}}, "array of objects"),
    "no flows": ({"flows": []}, "at least one flow"),
    "flow from nowhere": (
        {"flows": [{"src": "z", "dst": "a", "bytes": 1, "start_s": 0}]},
        "mine.json flows row 1.*'z'",
    ),
    "flow to itself": ({"flows": [{"src": "a", "dst": "a", "bytes": 1, "start_s": 0}]}, "row 1.*itself"),
    "flow without bytes": ({"flows": [{"src": "a", "dst": "c", "bytes": 0, "start_s": 0}]}, "row 1 bytes"),
    "flow before time": ({"flows": [{"src": "a", "dst": "c", "bytes": 1, "start_s": -1}]}, "row 1 start_s"),
    "flow without start": ({"flows": [{"src": "a", "dst": "c", "bytes": 1}]}, "start_s: it must be a finite"),
    "flow at no rate": (
        {"flows": [{"src": "a", "dst": "c", "bytes": 1, "start_s": 0, "start_rate_gbps": 0}]},
        "start_rate_gbps",
    ),
    "monitored a word": ({"monitored_ports": "all"}, "it must be an array"),
    "monitored nothing": ({"monitored_ports": []}, "name at least one port"),
    "monitored no object": ({"monitored_ports": ["right"]}, r"monitored_ports\[0\]"),
    "monitored no link": ({"monitored_ports": [{"switch": "left", "to": "c"}]}, "'left' to 'c'"),
    "monitored a NIC": ({"monitored_ports": [{"switch": "c", "to": "right"}]}, "'c' to 'right'; .*a switch"),
}  # fmt: skip


@pytest.mark.parametrize(("values", "says"), MISTAKES.values(), ids=MISTAKES)
def test_every_mistake_is_a_sentence(values: dict[str, Any], says: str) -> None:
    with pytest.raises(TwinError, match=says) as raised:
        read(changed(**values))
    assert raised.value.rule
    assert raised.value.remedy


def test_no_path_between_two_hosts_is_said() -> None:
    document = changed()
    document["topology"]["links"] = document["topology"]["links"][:3]
    document["monitored_ports"] = None
    with pytest.raises(ScenarioError, match="no path"):
        read(document)


def test_a_monitored_port_named_twice_counts_once() -> None:
    named = {"monitored_ports": [{"switch": "right", "to": "c"}] * 2}
    assert read(changed(**named)).monitored == read(DOCUMENT).monitored


def written(tmp_path: Path, flows: bytes, name: str = "flows.csv") -> Path:
    (tmp_path / name).write_bytes(flows)
    document = {key: value for key, value in DOCUMENT.items() if key != "flows"} | {"flows_csv": name}
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(document), "utf-8")
    return path


CSV = b"src,dst,bytes,start_s,start_rate_gbps\na,c,2000,0.001,\nb,c,,0,400\nc,a,7,0.0005,\n"


@pytest.mark.parametrize(
    "squeeze",
    [bytes, gzip.compress, lambda body: b"\xef\xbb\xbf" + body],
    ids=["plain", "gzip", "spreadsheet"],
)
def test_flows_lie_beside_the_scenario(tmp_path: Path, squeeze: Callable[[bytes], bytes]) -> None:
    scenario = load_scenario(written(tmp_path, squeeze(CSV)))
    inline = read(DOCUMENT)
    assert scenario.flows.src == inline.flows.src
    assert np.array_equal(scenario.flows.payload_bytes, inline.flows.payload_bytes)
    assert np.array_equal(scenario.flows.path_ports, inline.flows.path_ports)


@pytest.mark.parametrize(
    ("flows", "says"),
    [
        (b"src,dst,bytes\na,c,1\n", "add start_s"),
        (b"", "columns none"),
        (b"src,dst,bytes,start_s\na,c,many,0\n", "flows.csv row 1 bytes"),
        (b"\xff\xfe\x00", "readable CSV"),
        (gzip.compress(CSV, mtime=0)[:-12], "readable CSV"),
        (gzip.compress(CSV, mtime=0)[:10] + b"\xff" * 30, "readable CSV"),
        (b"src,dst,bytes,start_s\n" + b"a" * 200_000 + b",c,1,0\n", "readable CSV"),
        (b"src,dst,bytes,start_s\n", "at least one flow"),
    ],
)
def test_a_broken_flows_file_is_a_sentence(tmp_path: Path, flows: bytes, says: str) -> None:
    with pytest.raises(ScenarioError, match=says):
        load_scenario(written(tmp_path, flows))


def test_a_rate_beyond_all_numbers_is_a_sentence() -> None:
    document = changed()
    document["topology"]["links"][0]["rate_gbps"] = 10**400
    with pytest.raises(ScenarioError, match="rate_gbps inf"):
        read(document)


def test_a_missing_flows_file_is_named(tmp_path: Path) -> None:
    path = written(tmp_path, CSV)
    (tmp_path / "flows.csv").unlink()
    with pytest.raises(ScenarioError, match=r"flows_csv: received 'flows.csv'; the file must exist"):
        load_scenario(path)


@pytest.mark.parametrize("name", ["../flows.csv", "/etc/passwd", "", None, 5])
def test_only_a_file_beside_the_scenario_is_read(tmp_path: Path, name: object) -> None:
    document = {key: value for key, value in DOCUMENT.items() if key != "flows"} | {"flows_csv": name}
    with pytest.raises(ScenarioError, match="flows_csv"):
        read(document, tmp_path)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"{", "broken JSON"),
        (b"[]", "a scenario is a JSON object"),
        (b"\xff", "broken JSON"),
        (b"[" * 200_000, "broken JSON"),
        (None, "must exist"),
    ],
)
def test_a_broken_scenario_file_is_a_sentence(tmp_path: Path, body: bytes | None, says: str) -> None:
    path = tmp_path / "mine.json"
    if body is not None:
        path.write_bytes(body)
    with pytest.raises(ScenarioError, match=says):
        load_scenario(path)


@pytest.mark.parametrize(
    "name",
    ["websearch-16", "websearch-16-shallow", "incast-64", "steady-64", "parking-lot", "published-2flow"],
)
def test_the_reference_problems_are_read(reference: Path, name: str) -> None:
    scenario = load_scenario(reference / f"{name}.scenario.json")
    assert scenario.name == name
    assert np.all(np.diff(scenario.flows.start_s) >= 0)
    assert np.all(scenario.alone_s > 0)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def is_read_or_refused(reading: Callable[[], object]) -> bool:
    """Anything but a ``TwinError`` escapes, and fails the test."""
    try:
        reading()
    except TwinError as error:
        return bool(error.rule and error.remedy)
    return True


@given(st.sampled_from(sorted(DOCUMENT)), json_values)
def test_whatever_stands_at_a_key_is_read_or_refused_in_a_sentence(key: str, value: Any) -> None:
    assert is_read_or_refused(lambda: read(changed(**{key: value})))


DCQCN_KEYS = (
    "g",
    "rai_gbps",
    "byte_counter_bytes",
    "feedback_delay_us",
    "fast_recovery_steps",
    "initial_alpha",
)


@given(st.dictionaries(st.sampled_from(DCQCN_KEYS), json_values))
@example({"rai_gbps": 10**400})
def test_whatever_stands_in_dcqcn_is_read_or_refused_in_a_sentence(document: dict[str, Any]) -> None:
    assert is_read_or_refused(lambda: dcqcn_from_json(document))


@pytest.mark.parametrize("name", PRESETS)
def test_parameters_are_written_as_they_are_read(name: str) -> None:
    written = dcqcn_to_json(PRESETS[name])
    assert dcqcn_to_json(dcqcn_from_json(written)) == written
    assert written["rai_gbps"] == {"paper": 0.04, "vendor": 0.005}[name]
    given = {"g": 0.25, "byte_counter_bytes": None, "feedback_delay_us": 3}
    assert dcqcn_to_json(dcqcn_from_json(given, missing=PRESETS[name])) == written | given


FLOW_KEYS = ("src", "dst", "bytes", "start_s", "start_rate_gbps")


@given(st.sampled_from(FLOW_KEYS), json_values)
def test_whatever_stands_in_a_flow_is_read_or_refused_in_a_sentence(key: str, value: Any) -> None:
    row = DOCUMENT["flows"][0] | {key: value}
    assert is_read_or_refused(lambda: read(changed(flows=[row])))
