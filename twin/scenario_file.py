"""Reads the scenario file format ``ecntwin-scenario/1`` and its flows table."""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from telemetry.columns import fingerprint_of
from telemetry.errors import TopologyError
from telemetry.topology import GBPS, Host, Topology, topology_from_json
from twin.errors import ScenarioError
from twin.scenario import Flows, Scenario
from twin.senders.artefact import sender_named
from twin.senders.dcqcn import MICROSECOND, PAPER, DcqcnParams
from twin.senders.rtt import RttSender

SCHEMA = "ecntwin-scenario/1"
FLOW_COLUMNS = ("src", "dst", "bytes", "start_s")
_FLOW_KEYS = (*FLOW_COLUMNS, "start_rate_gbps")
_KEYS = (
    "schema", "name", "description", "topology", "routing", "mtu_payload_bytes", "wire_overhead_bytes",
    "ack_wire_bytes", "buffer_bytes", "pfc", "dcqcn", "senders", "nic_classes", "flows_csv", "flows",
    "duration_s", "window_s", "monitored_ports",
)  # fmt: skip
_MAX_FLOWS_FILE_BYTES = 1_000_000_000
_MOST_WHOLE = 1_000_000_000  # a packet's payload and overhead together fit 32 bits

_RATE_KEYS = {
    "rai_gbps": "ai_rate_bytes_per_s",
    "rhai_gbps": "hai_rate_bytes_per_s",
    "min_rate_gbps": "min_rate_bytes_per_s",
}
_TIME_KEYS = {
    "cnp_interval_us": "cnp_interval_s",
    "alpha_timer_us": "alpha_timer_s",
    "increase_timer_us": "increase_timer_s",
    "feedback_delay_us": "feedback_delay_s",
}
_PLAIN_KEYS = {"g": "gain", "byte_counter_bytes": "byte_counter_bytes", "initial_alpha": "initial_alpha"}


def load_scenario(path: Path) -> Scenario:
    """The scenario in a JSON file, with flows from the file that it names; raises ``ScenarioError``."""
    document = _load_json(path)
    if not isinstance(document, Mapping):
        rule = "a scenario is a JSON object"
        raise ScenarioError(str(path), type(document).__name__, rule, "see the format")
    return scenario_from_json(document, directory=path.parent, where=path.name)


def scenario_from_json(document: Mapping[str, Any], *, directory: Path, where: str = "scenario") -> Scenario:
    """The scenario of a parsed document, whose ``flows`` are inline or in the file ``flows_csv`` of
    ``directory``. Raises ``ScenarioError``.
    """
    check_keys(document, where=where)
    schema = document.get("schema", SCHEMA)
    if schema != SCHEMA:
        rule = f"this version reads {SCHEMA}"
        raise ScenarioError(f"{where} schema", repr(schema), rule, "convert the file")
    routing = document.get("routing", "ecmp")
    if routing != "ecmp":
        raise ScenarioError(f"{where} routing", repr(routing), "only ecmp is known", "set routing to ecmp")
    name = str(document.get("name", where))
    if "name" in document and not name.isprintable():  # also lone surrogates, which no output can encode
        raise ScenarioError(f"{where} name", ascii(name), "it has printable characters only", "change it")
    try:
        topology = topology_from_json(document.get("topology"), where=f"{where} topology")
    except TopologyError as error:
        raise ScenarioError(error.where, error.received, error.rule, error.remedy) from error
    rows, flows_at = _flow_rows(document, directory, where)
    duration_s = _number(document, "duration_s", where)
    window = document.get("window_s", [0.0, duration_s])
    if not isinstance(window, Sequence) or isinstance(window, str) or len(window) != 2:
        raise ScenarioError(f"{where} window_s", repr(window), "a window is [begin, end]", "give two numbers")
    begin, end = (_as_number(value, f"{where} window_s") for value in window)
    dcqcn = dcqcn_from_json(document.get("dcqcn"), where=f"{where} dcqcn")
    nic_class, by_class = classes_from_json(
        document.get("nic_classes"), topology.hosts, dcqcn, where=f"{where} nic_classes"
    )
    return Scenario(
        name=name,
        ports=topology.ports,
        flows=flows_from_rows(topology, rows, where=flows_at),
        monitored=monitored_ports(document, topology, where),
        dcqcn=dcqcn,
        senders=senders_from_json(document.get("senders"), topology.hosts, where=f"{where} senders"),
        nic_class=nic_class,
        dcqcn_by_class=by_class,
        mtu_payload_bytes=_whole(document, "mtu_payload_bytes", where),
        wire_overhead_bytes=_whole(document, "wire_overhead_bytes", where),
        ack_wire_bytes=_whole(document, "ack_wire_bytes", where),
        buffer_bytes=_number(document, "buffer_bytes", where, default=Scenario.buffer_bytes),
        pfc=_as_boolean(document.get("pfc", Scenario.pfc), f"{where} pfc"),
        duration_s=duration_s,
        window_s=(begin, end),
    )


def check_keys(document: Mapping[str, Any], known: Sequence[str] = _KEYS, *, where: str) -> None:
    """Raises ``ScenarioError`` for a key that seems to be a misspelt one of a scenario, or of a part with the
    keys ``known``: it would be a default in silence. Others, such as notes of who made it, are not read.
    """
    missing = [key for key in known if key not in document]
    for key in map(str, document):
        near = get_close_matches(key, missing, n=1, cutoff=0.8)
        near = near or [one for one in missing if one.startswith(f"{key}_") or key.startswith(f"{one}_")]
        if key not in known and near:
            raise ScenarioError(
                where, f"key {key!r}", f"keys are {', '.join(known)}", f"did you mean {near[0]}?"
            )


def dcqcn_from_json(document: object, *, where: str = "dcqcn", missing: DcqcnParams = PAPER) -> DcqcnParams:
    """The ``dcqcn`` object of a scenario; missing keys take the value of ``missing``, unknown are refused."""
    if document is None:
        return missing
    if not isinstance(document, Mapping):
        raise ScenarioError(where, type(document).__name__, "it must be a JSON object", "give the parameters")
    values: dict[str, Any] = {}
    for key, value in document.items():
        at = f"{where} {key}"
        if key in _RATE_KEYS:
            values[_RATE_KEYS[key]] = _as_number(value, at) * GBPS
        elif key in _TIME_KEYS:
            nullable = key == "feedback_delay_us" and value is None
            values[_TIME_KEYS[key]] = None if nullable else _as_number(value, at) * MICROSECOND
        elif key in _PLAIN_KEYS:
            nullable = key == "byte_counter_bytes" and value is None
            values[_PLAIN_KEYS[key]] = None if nullable else _as_number(value, at)
        elif key == "fast_recovery_steps":
            values[key] = _as_whole(value, at)
        elif key == "clamp_target_rate":
            values[key] = _as_boolean(value, at)
        else:
            known = ", ".join(
                sorted([*_RATE_KEYS, *_TIME_KEYS, *_PLAIN_KEYS, "fast_recovery_steps", "clamp_target_rate"])
            )
            raise ScenarioError(at, repr(value), f"known keys are {known}", "remove or rename it")
    return replace(missing, **values)


def senders_from_json(document: object, hosts: Iterable[Host], *, where: str) -> dict[str, RttSender]:
    """The ``senders`` object of a scenario: patterns of host names, and the sender of each by name.

    The last pattern that a host matches counts. Raises ``ScenarioError`` for a pattern that no host matches.
    """
    if document is None:
        return {}
    if not isinstance(document, Mapping):
        rule = "it is a JSON object of host names and senders"
        raise ScenarioError(where, type(document).__name__, rule, 'give such as {"gpu*": "swift"}')
    found: dict[str, RttSender | None] = {}
    names = [host.name for host in hosts]
    for pattern, said in document.items():
        sender = sender_named(str(said), where=f"{where} {pattern}")
        found |= dict.fromkeys(_matching(pattern, names, f"{where} {pattern}"), sender)
    return {name: sender for name, sender in found.items() if sender is not None}


def classes_from_json(
    document: object, hosts: Iterable[Host], dcqcn: DcqcnParams, *, where: str
) -> tuple[dict[str, str], dict[str, DcqcnParams]]:
    """The ``nic_classes`` object of a scenario: the class of each host that one names, and the DCQCN of those
    that have their own, whose missing keys take the value of ``dcqcn``.

    Raises ``ScenarioError`` for a pattern that no host matches, and a host in two classes.
    """
    if document is None:
        return {}, {}
    if not isinstance(document, Mapping):
        rule = "it is a JSON object of classes"
        remedy = 'give such as {"storage": {"hosts": ["disk*"], "dcqcn": {}}}'
        raise ScenarioError(where, type(document).__name__, rule, remedy)
    class_of: dict[str, str] = {}
    by_class: dict[str, DcqcnParams] = {}
    names = [host.name for host in hosts]
    for nic_class, said in document.items():
        at = f"{where} {nic_class}"
        if not isinstance(said, Mapping) or said.keys() - {"hosts", "dcqcn"}:
            rule = "a class has hosts, and perhaps dcqcn, and nothing else"
            raise ScenarioError(at, json.dumps(said), rule, "correct it")
        patterns = said.get("hosts")
        if not isinstance(patterns, list) or not patterns:
            rule = "a class names its hosts"
            raise ScenarioError(f"{at} hosts", json.dumps(patterns), rule, 'give such as ["disk*"]')
        for pattern in patterns:
            for name in _matching(str(pattern), names, f"{at} hosts {pattern}"):
                if class_of.setdefault(name, nic_class) != nic_class:
                    received = f"{name!r}, of {class_of[name]} too"
                    raise ScenarioError(
                        f"{at} hosts", received, "a host is of one class", "correct a pattern"
                    )
        if "dcqcn" in said:
            by_class[nic_class] = dcqcn_from_json(said["dcqcn"], where=f"{at} dcqcn", missing=dcqcn)
    return class_of, by_class


def _matching(pattern: str, names: Iterable[str], where: str) -> list[str]:
    found = [name for name in names if fnmatchcase(name, pattern)]
    if not found:
        rule = "each pattern matches a host of the topology"
        raise ScenarioError(where, "no host", rule, "correct the pattern")
    return found


def dcqcn_to_json(params: DcqcnParams) -> dict[str, float | None]:
    """All keys of a scenario's ``dcqcn`` object; rates and times to 12 digits, as people wrote them."""
    units = dict.fromkeys(_RATE_KEYS, GBPS) | dict.fromkeys(_TIME_KEYS, MICROSECOND)
    whole = {"fast_recovery_steps": "fast_recovery_steps", "clamp_target_rate": "clamp_target_rate"}
    found: dict[str, float | None] = {}
    for key, name in (_RATE_KEYS | _TIME_KEYS | _PLAIN_KEYS | whole).items():
        value = getattr(params, name)
        found[key] = float(f"{value / units[key]:.12g}") if key in units and value is not None else value
    return found


def flows_from_rows(topology: Topology, rows: Iterable[Mapping[str, Any]], *, where: str = "flows") -> Flows:
    """Routes flow rows (``src``, ``dst``, ``bytes``, ``start_s``, optional ``start_rate_gbps``); sorts them.

    A flow with empty ``bytes`` never ends, one with empty ``start_rate_gbps`` starts at line rate. The
    equal-cost path is chosen by a hash of the flow's ends and its position.
    """
    parsed: list[tuple[float, int, str, str, float, float, tuple[int, ...]]] = []
    for number, row in enumerate(rows):
        at = f"{where} row {number + 1}"
        src, dst = str(row.get("src") or ""), str(row.get("dst") or "")
        size = _optional_number(row.get("bytes"), f"{at} bytes")
        start = _as_number(row.get("start_s"), f"{at} start_s")
        rate = _optional_number(row.get("start_rate_gbps"), f"{at} start_rate_gbps")
        if size is not None and size <= 0:
            rule = "a flow has bytes to send"
            raise ScenarioError(f"{at} bytes", str(size), rule, "give more than 0, or nothing")
        if start < 0:
            rule = "a flow starts at 0 or later"
            raise ScenarioError(f"{at} start_s", str(start), rule, "correct the start")
        if rate is not None and rate <= 0:
            rule = "a rate is above 0"
            raise ScenarioError(f"{at} start_rate_gbps", str(rate), rule, "give Gbit/s, or nothing")
        try:
            path = topology.path(src, dst, fingerprint_of((src, dst, number)))
        except TopologyError as error:
            raise ScenarioError(f"{at}: {error.where}", error.received, error.rule, error.remedy) from error
        line_rate = topology.ports[path[0]].rate_bytes_per_s
        begin_rate = line_rate if rate is None else min(rate * GBPS, line_rate)
        parsed.append((start, number, src, dst, math.inf if size is None else size, begin_rate, path))
    parsed.sort(key=lambda flow: (flow[0], flow[1]))
    return Flows(
        src=tuple(flow[2] for flow in parsed),
        dst=tuple(flow[3] for flow in parsed),
        payload_bytes=np.array([flow[4] for flow in parsed], dtype=np.float64),
        start_s=np.array([flow[0] for flow in parsed], dtype=np.float64),
        start_rate_bytes_per_s=np.array([flow[5] for flow in parsed], dtype=np.float64),
        path_offset=np.cumsum([0, *(len(flow[6]) for flow in parsed)]).astype(np.int32),
        path_ports=np.array([port for flow in parsed for port in flow[6]], dtype=np.int32),
    )


def _flow_rows(
    document: Mapping[str, Any], directory: Path, where: str
) -> tuple[list[Mapping[str, Any]], str]:
    if "flows" in document:
        rows = document["flows"]
        if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
            rule = "it must be an array of objects"
            raise ScenarioError(f"{where} flows", type(rows).__name__, rule, "correct it")
        for number, row in enumerate(rows):
            check_keys(row, _FLOW_KEYS, where=f"{where} flows row {number + 1}")
        return rows, f"{where} flows"
    name = document.get("flows_csv")
    if not isinstance(name, str) or not name:
        rule = "a scenario names its flows file"
        raise ScenarioError(f"{where} flows_csv", repr(name), rule, "add it, or flows inline")
    if Path(name).name != name:
        rule = "it lies beside the scenario"
        raise ScenarioError(f"{where} flows_csv", repr(name), rule, "give its bare file name")
    path = directory / name
    try:
        body = path.read_bytes()
        if body[:2] == b"\x1f\x8b":
            with gzip.open(io.BytesIO(body)) as opened:
                body = opened.read(_MAX_FLOWS_FILE_BYTES + 1)
            if len(body) > _MAX_FLOWS_FILE_BYTES:
                raise EOFError("unpacked it is over 1 GB, which is not read")
        text = body.decode("utf-8-sig")  # spreadsheets begin theirs with a mark of the byte order
        reader = csv.DictReader(io.StringIO(text))
        rows = list(reader)
    except FileNotFoundError:
        rule = "the file must exist beside the scenario"
        raise ScenarioError(f"{where} flows_csv", repr(name), rule, "put it there") from None
    except (OSError, EOFError, UnicodeDecodeError, zlib.error, csv.Error) as error:
        rule = "it is readable CSV, gzip allowed"
        raise ScenarioError(f"{where} flows_csv", f"{name!r} ({error})", rule, "replace the file") from error
    missing = [column for column in FLOW_COLUMNS if column not in (reader.fieldnames or [])]
    if missing:
        rule = f"the header must name {', '.join(FLOW_COLUMNS)}"
        remedy = f"add {', '.join(missing)}"
        raise ScenarioError(name, f"columns {', '.join(reader.fieldnames or []) or 'none'}", rule, remedy)
    return rows, name


def monitored_ports(document: Mapping[str, Any], topology: Topology, where: str) -> tuple[int, ...]:
    """The document's ``monitored_ports`` as indices of the topology's ports: all of switches where it names
    none. One named twice counts once. Raises ``ScenarioError``.
    """
    listed = document.get("monitored_ports")
    if listed is None:
        return tuple(index for index, port in enumerate(topology.ports) if port.port is not None)
    if not isinstance(listed, list):
        rule = "it must be an array"
        raise ScenarioError(f"{where} monitored_ports", repr(listed), rule, "list switch and to")
    found: list[int] = []
    for number, entry in enumerate(listed):
        at = f"{where} monitored_ports[{number}]"
        if not isinstance(entry, Mapping):
            raise ScenarioError(at, repr(entry), "it must be an object with switch and to", "correct it")
        wanted = (entry.get("switch"), entry.get("to"))
        matches = [
            index
            for index, port in enumerate(topology.ports)
            if port.port is not None and (port.node, port.peer) == wanted
        ]
        if not matches:
            rule = "it must name a switch and a node that it is linked to"
            raise ScenarioError(at, f"{wanted[0]!r} to {wanted[1]!r}", rule, "correct the names")
        found.extend(matches)
    return tuple(dict.fromkeys(found))


def _load_json(path: Path) -> object:
    try:
        body = path.read_bytes()
    except OSError as error:
        rule = "the file must exist and be readable"
        raise ScenarioError(str(path), error.strerror or str(error), rule, "check the path") from error
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        rule = "a scenario is one JSON object"
        raise ScenarioError(str(path), f"broken JSON ({error})", rule, "correct it") from error


def _number(document: Mapping[str, Any], key: str, where: str, default: float | None = None) -> float:
    if key not in document and default is not None:
        return default
    return _as_number(document.get(key), f"{where} {key}")


def _whole(document: Mapping[str, Any], key: str, where: str) -> int:
    return _as_whole(document.get(key, getattr(Scenario, key)), f"{where} {key}")


def _as_boolean(value: object, at: str) -> bool:
    if not isinstance(value, bool):
        raise ScenarioError(at, repr(value), "it must be true or false", "correct it")
    return value


def _as_whole(value: object, at: str) -> int:
    number = _as_number(value, at)
    if number != int(number):
        raise ScenarioError(at, str(number), "it must be a whole number", "round it")
    if abs(number) > _MOST_WHOLE:
        raise ScenarioError(at, str(number), f"it must be at most {_MOST_WHOLE}", "lower it")
    return int(number)


def _optional_number(value: object, at: str) -> float | None:
    return None if value is None or value == "" else _as_number(value, at)


def _as_number(value: object, at: str) -> float:
    try:
        number = (
            float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else math.nan
        )
    except (ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        received = None if value is None or value == "" else repr(value)
        raise ScenarioError(at, received, "it must be a finite number", "correct it")
    return number
