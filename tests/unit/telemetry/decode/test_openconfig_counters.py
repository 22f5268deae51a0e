"""OpenConfig counters: assignment to ports and queues, and readings sent in parts."""

from __future__ import annotations

from typing import Any

from telemetry.counters.model import Counters, SeriesKey
from telemetry.counters.window import CounterWindow
from telemetry.decode.openconfig_counters import OpenConfigCounters

PORT: list[tuple[str, dict[str, str]]] = [
    ("interfaces", {}),
    ("interface", {"name": "Ethernet1"}),
    ("state", {}),
    ("counters", {}),
]


def counters() -> OpenConfigCounters:
    return OpenConfigCounters("leaf1", {"RDMA": 3}, lambda port: port != "Management0")


def queue(**said: Any) -> dict[str, Any]:
    entry = {"name": "RDMA", "state": {"dropped-pkts": "4"}} | said
    port = {"interface-id": "Ethernet1", "output": {"queues": {"queue": [entry]}}}
    return {"openconfig-qos:interfaces": {"interface": [port]}}


def test_a_queue_without_a_name_is_nobodys() -> None:
    found = counters()
    found.add([("qos", {})], queue(name=None), 5)
    assert found.samples().samples == ()


def test_a_queue_of_another_name_and_a_port_that_is_not_wanted_are_passed_over() -> None:
    found = counters()
    found.add([("qos", {})], queue(name="BULK"), 5)
    found.add([*PORT[:1], ("interface", {"name": "Management0"}), *PORT[2:]], {"out-octets": "1"}, 5)
    assert found.samples().samples == ()


def test_input_queues_and_subinterfaces_are_something_else() -> None:
    found = counters()
    entry = {"name": "RDMA", "state": {"dropped-pkts": "4"}}
    port = {"interface-id": "Ethernet1", "input": {"queues": {"queue": [entry]}}}
    found.add([("qos", {}), ("interfaces", {})], {"interface": [port]}, 5)
    inner = {"subinterface": [{"index": 0, "state": {"counters": {"out-octets": "9"}}}]}
    found.add([("interfaces", {})], {"interface": [{"name": "Ethernet1", "subinterfaces": inner}]}, 5)
    assert found.samples().samples == ()


def test_the_rest_of_a_reading_is_a_later_one_to_the_window() -> None:
    found, window = counters(), CounterWindow()
    for ts_ns, octets in ((100, 7), (200, 9)):
        found.add([*PORT, ("out-octets", {})], octets, ts_ns)
        assert window.add(found.samples().samples).accepted == 1
        found.add([*PORT, ("out-discards", {})], 1, ts_ns)
        (late,) = found.samples().samples
        assert (late.ts_ns, late.counters) == (ts_ns + 1, Counters(dropped_packets=1))
        assert window.add([late]).accepted == 1
    grown = window.increase(["leaf1"], 0, 300)
    assert (grown.counters.tx_bytes, grown.counters.dropped_packets) == (2, 0)


def test_a_reading_that_comes_again_is_told_once() -> None:
    found = counters()
    for octets in (7, 9):  # a clock that stands still: nobody knows in what time it grew
        for leaf in ("out-octets", "out-pkts"):
            found.add([*PORT, (leaf, {})], octets, 100)
            samples = found.samples().samples
            assert bool(samples) == (octets == 7)
    found.add([*PORT, ("out-discards", {})], 1, 100)
    (rest,) = found.samples().samples
    assert (rest.ts_ns, rest.counters) == (102, Counters(dropped_packets=1))
    found.add([*PORT, ("out-octets", {})], 11, 90)  # set back: told as it is
    (back,) = found.samples().samples
    assert back.ts_ns == 90


def test_leaves_of_one_reading_are_one_sample_at_its_newest_time() -> None:
    found = counters()
    for ts_ns, leaf in ((100, "out-octets"), (103, "out-pkts"), (101, "out-discards")):
        found.add([*PORT, (leaf, {})], "5", ts_ns)
    (sample,) = found.samples().samples
    assert sample.key == SeriesKey("leaf1", "Ethernet1", None)
    assert (sample.ts_ns, sample.counters) == (103, Counters(dropped_packets=5, tx_packets=5, tx_bytes=5))


def test_what_it_does_not_count_is_noted() -> None:
    found = counters()
    found.add([("qos", {})], queue(), 5)
    assert [note.split(":")[0] for note in found.samples().notes] == [
        "it gives no count of PFC frames",
        "it gives no count of marked packets (ecn-marked-pkts)",
    ]
    found.add([("qos", {})], queue(state={"ecn-marked-pkts": 2}), 6)
    assert len(found.samples().notes) == 1


def test_names_without_end_are_forgotten_and_those_in_use_are_not() -> None:
    found = counters()
    for call in range(200):
        found.add([*PORT, ("out-octets", {})], call, 100 + call)
        found.add([*PORT[:1], ("interface", {"name": f"vlan-{call}"}), *PORT[2:]], {"out-octets": 1}, 5)
        assert len(found.samples().samples) == 2
    assert len(found._last) < 20
    found.add([*PORT, ("out-octets", {})], 199, 299)
    assert found.samples().samples == ()  # a repetition
