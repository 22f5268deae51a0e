"""Counter samples in JSON (one object, an array, NDJSON; gzip of each); bad samples are left out."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import astuple

from telemetry.counters.model import MOST, Counters, CounterSample, SeriesKey
from telemetry.decode.body import DEFAULT_MAX_BODY_BYTES, unpacked
from telemetry.decode.json import WORDING as REPORT
from telemetry.decode.json import Name, Nanoseconds, QueueNumber
from telemetry.decode.records import (
    MOST_EXPLAINED,
    RecordType,
    Wording,
    not_explained,
    read_records,
    unread_keys,
)
from telemetry.errors import ReportError
from telemetry.report import ReportProblem

# SONiC keeps its counters as text.
_Count = Annotated[int, Meta(ge=0, le=MOST)] | Annotated[str, Meta(pattern=r"^[0-9]{1,19}\Z")]


class _Sample(Struct, gc=False):
    """The counters come last, in the order of ``Counters``."""

    switch: Name
    port: Name
    ts_ns: Nanoseconds
    queue: QueueNumber | None = None
    pfc_tx_frames: _Count | None = None
    pfc_rx_frames: _Count | None = None
    pfc_pause_ns: _Count | None = None
    ecn_marked_packets: _Count | None = None
    cnp_packets: _Count | None = None
    dropped_packets: _Count | None = None
    dropped_bytes: _Count | None = None
    wred_dropped_packets: _Count | None = None
    tx_packets: _Count | None = None
    tx_bytes: _Count | None = None


_SAMPLES = RecordType(_Sample)

WORDING = Wording(
    noun="sample",
    plural="counter samples",
    whole="a sample is a JSON object with switch, port, ts_ns and at least one counter",
    absent="send null for a counter the device does not give",
    rules=MappingProxyType(
        {
            "switch": "switch is a name (1 to 256 characters)",
            "port": "port is a name (1 to 256 characters)",
            "queue": f"{REPORT.rules['queue']} for the port as a whole",
            "ts_ns": REPORT.rules["ts_ns"],
        }
        | {
            name: f"{name} is a whole number from 0 to {MOST}, also as text, or null"
            for name in Counters._fields
        }
    ),
)


@dataclass(frozen=True, slots=True)
class DecodedCounters:
    """The valid samples of a body with their positions in it, the rejected ones, and keys of the first that
    no sample has.
    """

    samples: tuple[CounterSample, ...]
    positions: tuple[int, ...]
    errors: tuple[ReportProblem, ...]
    unread: tuple[str, ...]


def decode_counters(
    body: bytes, *, content_encoding: str | None = None, max_body_bytes: int = DEFAULT_MAX_BODY_BYTES
) -> DecodedCounters:
    """Counter samples from one object, an array or NDJSON, gzipped or not (``docs/telemetry/counters.md``).

    A sample that breaks a rule is reported in ``errors`` by its position (from 0; blank lines do not count),
    the others are kept. Raises ``DecodeError`` only for a body without any sample.
    """
    text = unpacked(body, content_encoding=content_encoding, max_body_bytes=max_body_bytes)
    samples: list[CounterSample] = []
    positions: list[int] = []
    wrong = 0

    def take(some: list[_Sample], their_positions: list[int]) -> list[ReportProblem]:
        nonlocal wrong
        problems: list[ReportProblem] = []
        for given, position in zip(some, their_positions, strict=True):
            try:
                samples.append(_sample(given))
                positions.append(position)
            except ReportError as error:
                at = f"sample {position} {error.where}"
                wrong += 1
                if wrong <= MOST_EXPLAINED:
                    said = str(ReportError(at, error.received, error.rule, error.remedy))
                else:
                    said = not_explained(at)
                problems.append(ReportProblem(position, said))
        return problems

    problems = read_records(text, _SAMPLES, WORDING, take)
    return DecodedCounters(tuple(samples), tuple(positions), tuple(problems), unread_keys(text, _SAMPLES))


def _sample(given: _Sample) -> CounterSample:
    switch, port, ts_ns, queue, *counts = astuple(given)
    counters = Counters._make([int(count) if type(count) is str else count for count in counts])
    return CounterSample(SeriesKey(switch, port, queue), ts_ns, counters)
