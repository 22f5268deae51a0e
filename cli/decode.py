"""``ecntwin decode``: prints the binary telemetry reports of a file as JSON INT reports."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, cast, get_args

import msgspec
import numpy as np
from numpy.typing import NDArray

from cli.output import say
from settings.errors import InputError
from settings.inventory import load_reporting
from settings.load import read_bytes
from settings.telemetry import TIME_UNITS
from telemetry.decode.capture import address_text, is_capture, udp_datagrams
from telemetry.decode.p4.assemble import NO_REASON, NO_VALUE, NOT_ROCE, NodesOf, P4Reports, ReportFlags
from telemetry.decode.p4.decoder import P4Decoder
from telemetry.decode.p4.devices import Devices, Occupancy, UnitProfile
from telemetry.decode.p4.packet import IntMarks
from telemetry.errors import DecodeError, ReportError
from telemetry.report import MARK_UNKNOWN, MISSING_NS, ReportProblem
from twin.errors import ParameterError
from twin.units import BYTES, quantity

STANDARD_INPUT = "-"
UNKNOWN = "unknown"
_AT_ONCE = 10_000
_MOST_HELD_BACK = 1_000


@dataclass(frozen=True, slots=True)
class DecodeOptions:
    hexadecimal: bool = False
    ports: tuple[int, ...] = ()
    int_ports: tuple[int, ...] = (5000,)
    int_dscps: tuple[int, ...] = ()
    occupancy: str = "bytes"
    time_unit: str = "ns"
    inventory: Path | None = None


@dataclass(frozen=True, slots=True)
class _Payload:
    """A payload, its time of receipt (None: unknown) and its name in messages."""

    data: bytes
    time_ns: int | None
    place: str
    source: str = ""


def decode(file: str, options: DecodeOptions) -> None:
    """Prints one JSON report per line, problems on standard error; ``DecodeError`` if there is no report."""
    default = _profile(options)
    devices = (
        Devices(default=default) if options.inventory is None else load_reporting(options.inventory, default)
    )
    marks = IntMarks(frozenset(options.int_ports), frozenset(options.int_dscps))
    data = sys.stdin.buffer.read() if file == STANDARD_INPUT else read_bytes(Path(file), "reports")
    found_problems: list[ReportProblem] = []
    payloads = _payloads(data, options, found_problems)
    decoders = {dated: P4Decoder(devices, marks, device_time=not dated) for dated in (True, False)}
    now_ns = time.time_ns()
    n_reports = n_problems = 0
    held_back: list[str] = []  # the error is one sentence where there is no report at all
    while True:
        block = list(islice(payloads, _AT_ONCE))
        said = [problem.detail for problem in found_problems]
        found_problems.clear()
        # In a capture every payload has a time, or (simple packet blocks) none has.
        dated = bool(block) and block[0].time_ns is not None
        times = np.array([now_ns if one.time_ns is None else one.time_ns for one in block], np.int64)
        reports = decoders[dated].decode([one.data for one in block], times, _nodes(block, devices))
        said += [
            problem.detail.replace(f"datagram {problem.index}", block[problem.index].place, 1)
            for problem in reports.problems
        ]
        for line in json_lines(reports):
            sys.stdout.buffer.write(line + b"\n")
        n_reports += len(reports)
        n_problems += len(said)
        held_back += said[: _MOST_HELD_BACK - len(held_back)] if not n_reports else said
        if n_reports:
            for problem in held_back:
                say(problem)
            held_back.clear()
        if not block:
            break
    sys.stdout.buffer.flush()
    if not n_reports:
        raise DecodeError(
            "standard input" if file == STANDARD_INPUT else file,
            f"no report, and {n_problems} that cannot be read, first {held_back[0]}"
            if held_back
            else "no report",
            "UDP payloads of telemetry reports: one as it is, a capture, or with --hex one a line",
            "see docs/telemetry/int-binary.md",
        )


def _nodes(payloads: Sequence[_Payload], devices: Devices) -> NodesOf:
    def of(asked: NDArray[np.int64]) -> NDArray[np.int64]:
        sources = [payloads[one].source for one in asked.tolist()]
        return np.array([devices.sources.get(source, NO_VALUE) for source in sources], np.int64)

    return of


def _payloads(data: bytes, options: DecodeOptions, problems: list[ReportProblem]) -> Iterator[_Payload]:
    if options.hexadecimal:
        return _hexadecimal(data, problems)
    if not is_capture(data):
        return iter([_Payload(data, None, "payload")] if data else [])
    return (
        _Payload(one.payload, one.time_ns, f"frame {one.frame} payload", address_text(one.source))
        for one in udp_datagrams(data, problems, options.ports)
    )


def _hexadecimal(data: bytes, problems: list[ReportProblem]) -> Iterator[_Payload]:
    for number, line in enumerate(data.splitlines(), 1):
        if not line.strip():
            continue
        try:
            yield _Payload(bytes.fromhex(line.decode("ascii")), None, f"line {number}")
        except ValueError:
            shown = repr(line[:40].decode("utf-8", "replace"))
            said = ReportError(f"line {number}", shown, "a line is pairs of hex digits", "send it in hex")
            problems.append(ReportProblem(number, str(said)))


def _profile(options: DecodeOptions) -> UnitProfile | None:
    if options.occupancy == UNKNOWN:
        return None
    kind, _, written = options.occupancy.partition(":")
    size = _size(written or "1")
    if kind not in get_args(Occupancy) or (kind == "bytes") == bool(written) or size is None:
        raise InputError(
            "--occupancy",
            repr(options.occupancy),
            "bytes, cells:SIZE, packets:SIZE (SIZE such as 80 or 1KB) or unknown",
            "take it from the device's documentation",
        )
    if options.time_unit not in TIME_UNITS:
        raise InputError(
            "--time", repr(options.time_unit), f"one of {', '.join(TIME_UNITS)}", "correct the option"
        )
    return UnitProfile(cast(Occupancy, kind), size, TIME_UNITS[options.time_unit])


_MOST_SIZE_BYTES = 10**9


def _size(text: str) -> int | None:
    """A size in bytes as people write it; None for anything else."""
    with suppress(ParameterError):
        value = quantity("--occupancy", text, BYTES)
        if value.is_integer() and 1 <= value < _MOST_SIZE_BYTES:
            return int(value)
    return None


def json_lines(reports: P4Reports) -> Iterator[bytes]:
    """One line per report, without its newline; missing values are left out.

    Additional fields: ``flags`` (why it was reported), ``drop_reason``, ``queue_pair`` and
    ``packet_sequence`` (RoCEv2); per hop ``queue_occupancy`` where its unit is unknown, and
    ``tx_utilisation`` (1 is full). Readers of the format ignore them.
    """
    encoder = msgspec.json.Encoder()
    batch = reports.batch
    hops = _hops(reports)
    offset = batch.hop_offset.tolist()
    keys = [key._asdict() for key in batch.flow_keys]
    flags = [[str(one.name).lower() for one in reversed(ReportFlags) if bits & one] for bits in range(16)]
    rows = zip(
        batch.ts_ns.tolist(),
        batch.flow.tolist(),
        batch.packet_bytes.tolist(),
        batch.sampling_rate.tolist(),
        reports.flags.tolist(),
        reports.drop_reason.tolist(),
        reports.queue_pair.tolist(),
        reports.packet_sequence.tolist(),
        strict=True,
    )
    for number, (ts_ns, flow, packet_bytes, rate, bits, reason, pair, sequence) in enumerate(rows):
        document: dict[str, Any] = {
            "ts_ns": ts_ns,
            "flow": keys[flow],
            "packet_bytes": packet_bytes,
            "sampling_rate": rate,
            "hops": hops[offset[number] : offset[number + 1]],
            "flags": flags[bits],
        }
        if reason != NO_REASON:
            document["drop_reason"] = reason
        if pair != NOT_ROCE:
            document |= {"queue_pair": pair, "packet_sequence": sequence}
        yield encoder.encode(document)


def _hops(reports: P4Reports) -> list[dict[str, Any]]:
    batch = reports.batch
    places = [
        {name: value for name, value in site._asdict().items() if value is not None} for site in batch.sites
    ]
    hops = []
    for site, depth, occupancy, begun, ended, mark, used in zip(
        batch.hop_site.tolist(),
        batch.queue_bytes.tolist(),
        reports.occupancy.tolist(),
        batch.ingress_ns.tolist(),
        batch.egress_ns.tolist(),
        batch.marked.tolist(),
        reports.tx_utilisation.tolist(),
        strict=True,
    ):
        hop = dict(places[site])
        if not math.isnan(depth):
            hop["queue_bytes"] = int(depth)
        elif occupancy != NO_VALUE:
            hop["queue_occupancy"] = occupancy
        if begun != MISSING_NS:
            hop["ingress_ts_ns"] = begun
        if ended != MISSING_NS:
            hop["egress_ts_ns"] = ended
        if mark != MARK_UNKNOWN:
            hop["ecn_marked"] = bool(mark)
        if not math.isnan(used):
            hop["tx_utilisation"] = used
        hops.append(hop)
    return hops
