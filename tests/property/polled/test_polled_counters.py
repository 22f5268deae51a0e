"""Random rows and leaves of switches: counts are decoded, others reported, a missing counter is never 0."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from telemetry.counters.model import MOST, Counters, SeriesKey
from telemetry.counters.window import CounterWindow
from telemetry.decode.openconfig_counters import OpenConfigCounters
from telemetry.decode.sonic_counters import (
    GROUPS,
    QUEUE_CAPABILITIES,
    QUEUE_FIELDS,
    Counted,
    SonicRows,
    port_fields,
    queue_name,
    sonic_samples,
    wanted_names,
)

COUNT = st.integers(0, MOST)
VALUE = (
    st.none()
    | COUNT.map(str)
    | st.integers(-(2**70), 2**70).map(str)
    | st.text(max_size=8)
    | st.sampled_from(["18446744073709551615", "1e9", "0x10", "²", "1_000", " 1", "+1", "9" * 30])
    | st.integers()
    | st.floats()
    | st.booleans()
)
STATUS = st.none() | st.sampled_from(["enable", "disable", "", "true"])
SUPPORT = st.none() | st.sampled_from(["true", "false", "False", ""])
QUEUES = (3, 4, 200)
FIELDS = port_fields(QUEUES)
COUNTED = st.builds(
    Counted,
    st.fixed_dictionaries(dict.fromkeys(GROUPS, STATUS)),
    st.fixed_dictionaries(dict.fromkeys(QUEUE_CAPABILITIES, SUPPORT)),
    st.just({}),
    st.sampled_from([(), ("Ethernet0",)]),
)


def is_count(value: object) -> bool:
    """ASCII digits only, or a whole number, within the range of counters."""
    if isinstance(value, str):
        return value != "" and set(value) <= set("0123456789") and int(value) <= MOST
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST


@given(
    st.lists(VALUE, min_size=len(FIELDS), max_size=len(FIELDS)),
    st.lists(VALUE, max_size=len(QUEUE_FIELDS)),
    COUNTED,
)
def test_every_value_is_a_count_or_told_or_not_counted(
    port: list[Any], queue: list[Any], counted: Counted
) -> None:
    rows = SonicRows(5, {"Ethernet0": port}, {("Ethernet0", 3): queue})
    polled = sonic_samples("leaf1", QUEUES, rows, counted)
    invalid = counted.invalid()
    problems = "\n".join(polled.problems)
    for name, value in zip(QUEUE_FIELDS, queue, strict=False):
        told = f"Ethernet0 queue 3 {name}:" in problems
        assert told == (value is not None and name not in invalid and not is_count(value))
    by_key = {sample.key: sample.counters for sample in polled.samples}
    counters = by_key.get(SeriesKey("leaf1", "Ethernet0", 3), Counters())
    given_row = dict(zip(QUEUE_FIELDS, queue, strict=False))
    for name, count in (
        ("SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS", counters.ecn_marked_packets),
        ("SAI_QUEUE_STAT_DROPPED_PACKETS", counters.dropped_packets),
        ("SAI_QUEUE_STAT_BYTES", counters.tx_bytes),
    ):
        value = given_row.get(name)
        assert count == (int(value) if name not in invalid and is_count(value) else None)  # type: ignore[arg-type]
    for sample in polled.samples:
        assert any(value is not None for value in sample.counters)
        assert (sample.key.port, sample.ts_ns) == ("Ethernet0", 5)


STEPS = st.lists(st.tuples(st.integers(0, 10_000), st.sampled_from(["grow", "clear", "stop"])), max_size=30)


@given(STEPS)
def test_growth_is_never_more_than_was_counted_and_all_of_it_without_clears(
    steps: list[tuple[int, str]],
) -> None:
    steps = [*steps, (0, "grow")]  # tells what the last one was, if that went down
    window, shown, grown, cleared = CounterWindow(), 0, 0, False
    for number, (count, what) in enumerate(steps):
        if what == "clear":
            shown, cleared = 0, True
        shown += count
        grown += count if number else 0
        off = what == "stop"  # nobody reads the counter: its row stands, and must not be taken
        groups = {"QUEUE": "disable" if off else "enable"}
        row = ["0", str(shown), None, None, None, None]
        rows = SonicRows(number + 1, {}, {("Ethernet0", 3): row})
        window.add(sonic_samples("leaf1", (3,), rows, Counted(groups)).samples)
    found = window.increase(["leaf1"], 0, len(steps) + 1).counters.dropped_packets
    readings = [what != "stop" for _, what in steps]
    if sum(readings) < 2:
        assert found is None
        return
    assert found is not None
    assert found <= grown
    if not cleared:
        first, last = readings.index(True), len(readings) - 1 - readings[::-1].index(True)
        assert found == sum(count for count, _ in steps[first + 1 : last + 1])


@given(
    st.dictionaries(st.text(max_size=12), st.text(max_size=6)),
    st.dictionaries(
        st.text(max_size=8) | st.from_regex(r"Ethernet\d:\d", fullmatch=True), st.text(max_size=6)
    ),
)
def test_any_name_map_is_read(ports: dict[str, str], queues: dict[str, str]) -> None:
    names = wanted_names(ports, queues, queues, of=(3, 4), wants=lambda port: port.startswith("Ethernet"))
    assert all(ports[port] == oid and port.startswith("Ethernet") for port, oid in names.ports.items())
    for (port, queue), oid in names.queues.items():
        assert queue in (3, 4)
        assert oid in {value for name, value in queues.items() if queue_name(name) == (port, queue)}


NAMES = [
    *("qos", "openconfig-qos:interfaces", "interfaces", "interface", "interface-id", "name", "output"),
    *("queues", "queue", "state", "x:state", "counters", "dropped-pkts", "out-octets"),
]
LEAF = VALUE | st.lists(VALUE, max_size=2)
TREE = st.recursive(
    LEAF,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(NAMES),
            inner,
            max_size=5,
        )
    ),
    max_leaves=25,
)
ELEM = st.tuples(
    st.sampled_from(NAMES),
    st.dictionaries(st.sampled_from(["interface-id", "name"]), st.text(max_size=4), max_size=2),
)


@given(st.lists(st.tuples(st.lists(ELEM, max_size=8), TREE, st.integers(0, MOST)), max_size=4))
def test_no_tree_breaks_openconfig(given_values: list[Any]) -> None:
    counters = OpenConfigCounters("leaf1", {"3": 3}, lambda port: True)
    for path, value, ts_ns in given_values:
        counters.add(path, value, ts_ns)
    polled = counters.samples()
    for sample in polled.samples:
        assert sample.key.queue in (None, 3)
        of_port = (sample.counters.dropped_packets, sample.counters.tx_packets, sample.counters.tx_bytes)
        if sample.key.queue is None:  # nothing of a queue that nobody can name
            assert sample.counters == Counters(
                None, None, None, None, None, of_port[0], None, None, *of_port[1:]
            )
    assert counters.samples().samples == ()


@given(COUNT, st.sampled_from(["leaf", "container", "tree"]), st.booleans())
def test_a_count_arrives_however_the_answer_is_cut(count: int, cut: str, text: bool) -> None:
    value = str(count) if text else count
    counters = OpenConfigCounters("leaf1", {"RDMA": 3}, lambda port: True)
    steps: list[tuple[str, dict[str, str]]] = [
        ("openconfig-qos:qos", {}),
        ("interfaces", {}),
        ("interface", {"interface-id": "Ethernet1"}),
        ("output", {}),
        ("queues", {}),
        ("queue", {"name": "RDMA"}),
        ("state", {}),
    ]
    match cut:
        case "leaf":
            counters.add([*steps, ("dropped-pkts", {})], value, 7)
        case "container":
            counters.add(steps, {"dropped-pkts": value, "max-queue-len": "1"}, 7)
        case _:
            queue = {"name": "RDMA", "state": {"openconfig-qos:dropped-pkts": value}}
            port = {"interface-id": "Ethernet1", "output": {"queues": {"queue": [queue]}}}
            counters.add([], {"openconfig-qos:qos": {"interfaces": {"interface": [port]}}}, 7)
    (sample,) = counters.samples().samples
    assert sample.key == SeriesKey("leaf1", "Ethernet1", 3)
    assert (sample.ts_ns, sample.counters) == (7, Counters(dropped_packets=count))
