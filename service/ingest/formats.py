"""A posted body of binary INT reports: one UDP payload, or a capture of many; must not know the window.

No report begins as a gzip stream or a capture does: 1f8b is v1.0 of next protocol 4, where 2 is the last;
0a0d0d0a is v0.5 of next protocol 10, where 2 is the last; the pcap magics begin with 4, 10 and 13, which are
no version.

Which decoder reads a posted body, by its media type; must not know the window.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from service.ingest.p4_reports import BinaryReports
from settings.errors import UnsupportedMediaError
from telemetry.decode.body import Decoded, unpacked
from telemetry.decode.capture import Datagram, address_text, is_capture, udp_datagrams
from telemetry.decode.hpcc import decode as decode_hpcc
from telemetry.decode.json import decode as decode_json
from telemetry.errors import DecodeError, OversizeError
from telemetry.report import ReportProblem, joined

MOST_DATAGRAMS = 1_000_000
MOST_PAYLOAD_BYTES = 64 << 20
DATAGRAMS_AT_ONCE = 1_024


def decode_body(
    reports: BinaryReports,
    body: bytes,
    *,
    content_encoding: str | None,
    max_body_bytes: int,
    wall_ns: Callable[[], int],
    ports: Collection[int] = (),
) -> Decoded:
    """The reports of a body, gzipped or not; of a capture those that went to one of ``ports`` (none: to any).

    A payload was received now, by ``wall_ns``; those of a capture when they were captured. Errors are by the
    number of a capture's frame. Raises ``DecodeError`` for a body that is empty, too large, no whole gzip
    stream, or a capture without such a datagram or with too many.
    """
    data = unpacked(body, content_encoding=content_encoding, max_body_bytes=max_body_bytes)
    if not data:
        raise DecodeError(
            "body", "nothing", "one UDP payload, or a pcap or pcapng file", "send what the collector received"
        )
    if not is_capture(data):
        return reports.decode([data], wall_ns())
    problems: list[ReportProblem] = []
    found: list[Datagram] = []
    held_bytes = 0
    for one in udp_datagrams(data, problems):
        if not ports or one.port in ports:
            found.append(one)
            held_bytes += len(one.payload)
            if len(found) > MOST_DATAGRAMS or held_bytes > MOST_PAYLOAD_BYTES:
                raise OversizeError(
                    "capture",
                    f"more than {len(found) - 1} datagrams with {held_bytes - len(one.payload)} bytes",
                    f"a capture holds at most {MOST_DATAGRAMS} with {MOST_PAYLOAD_BYTES} bytes",
                    "cut it in parts (editcap -c 100000), and send them one after the other",
                )
    if not found:
        wanted = f" to port {', '.join(map(str, sorted(ports)))}" if ports else ""
        raise DecodeError(
            "capture",
            problems[0].detail if problems else f"no UDP datagram{wanted}",
            "a capture holds the datagrams of reports",
            "look at what was captured, and at the port",
        )
    now_ns = wall_ns()
    # Some at a time, as live datagrams wait for them; those that are merged are needed together.
    at_once = len(found) if reports.merges else DATAGRAMS_AT_ONCE
    parts = [
        _by_frame(reports, found[begin : begin + at_once], now_ns) for begin in range(0, len(found), at_once)
    ]
    problems += [problem for part in parts for problem in part.errors]
    return Decoded(
        joined([part.batch for part in parts]), tuple(sorted(problems)), sum(part.aside for part in parts)
    )


def _by_frame(reports: BinaryReports, some: Sequence[Datagram], now_ns: int) -> Decoded:
    """The reports of some datagrams of a capture; positions are numbers of frames."""
    decoded = reports.decode_capture(
        [one.payload for one in some],
        np.array([now_ns if one.time_ns is None else one.time_ns for one in some], np.int64),
        _texts([one.source for one in some]),
    )
    frame = np.array([one.frame for one in some], np.int64)
    told = [
        ReportProblem(
            some[problem.index].frame,
            problem.detail.replace(
                f"datagram {problem.index}", f"frame {some[problem.index].frame} payload", 1
            ),
        )
        for problem in decoded.errors
    ]
    batch = decoded.batch
    if not reports.merges:
        batch = replace(batch, index=frame[batch.index])
    return replace(decoded, batch=batch, errors=tuple(told))


def _texts(addresses: Sequence[bytes]) -> list[str]:
    known = {raw: address_text(raw) for raw in set(addresses)}
    return [known[raw] for raw in addresses]


# curl sends the form type where a script forgot the header; the decoder looks at the bytes anyway.
JSON_TYPES = frozenset(
    {
        "",
        "application/gzip",
        "application/json",
        "application/jsonl",
        "application/ndjson",
        "application/x-gzip",
        "application/x-ndjson",
        "application/x-www-form-urlencoded",
        "text/plain",
    }
)
ARROW_TYPE = "application/vnd.apache.arrow.stream"
BINARY_TYPE = "application/octet-stream"
HPCC_TYPE = "application/vnd.ecntwin.hpcc+json"
ENCODINGS = frozenset({"", "gzip", "identity", "x-gzip"})


class ReportFormats:
    """The formats in which INT reports may be posted. ``wall_ns`` dates those that bring no time."""

    def __init__(self, binary: BinaryReports, *, max_decoded_bytes: int, wall_ns: Callable[[], int]) -> None:
        self._binary = binary
        self._max_decoded_bytes = max_decoded_bytes
        self._wall_ns = wall_ns

    def decoder(
        self, media_type: str, encoding: str | None, body: bytes, ports: Collection[int] = ()
    ) -> Callable[[], Decoded]:
        """What decodes the body when it is called; raises ``UnsupportedMediaError`` for an unknown type.

        ``ports``: of a capture only what went there (none: anywhere).
        """
        decode: Callable[..., Decoded]
        if media_type == ARROW_TYPE:
            decode = _decode_arrow
        elif media_type == BINARY_TYPE:
            decode = partial(decode_body, self._binary, wall_ns=self._wall_ns, ports=ports)
        elif media_type == HPCC_TYPE:
            decode = decode_hpcc
        else:
            check_media_type(media_type, "INT reports", ARROW_TYPE, BINARY_TYPE, HPCC_TYPE)
            decode = decode_json
        return partial(decode, body, content_encoding=encoding, max_body_bytes=self._max_decoded_bytes)


def _decode_arrow(body: bytes, *, content_encoding: str | None, max_body_bytes: int) -> Decoded:
    # Here and not above: pyarrow takes a fifth of a second to import, which most commands never need.
    from telemetry.decode.arrow import decode

    return decode(body, content_encoding=content_encoding, max_body_bytes=max_body_bytes)


def check_media_type(media_type: str, what: str, *others: str) -> None:
    """Raises ``UnsupportedMediaError`` for what is no JSON; ``others`` would have been taken too."""
    if media_type not in JSON_TYPES:
        raise UnsupportedMediaError(
            "Content-Type",
            repr(media_type),
            f"{what} come as {', '.join(('application/json', 'application/x-ndjson', *others))}",
            "convert them",
        )


def check_encoding(encoding: str) -> None:
    """Raises ``UnsupportedMediaError`` for an encoding not understood."""
    if encoding not in ENCODINGS:
        raise UnsupportedMediaError(
            "Content-Encoding", repr(encoding), "gzip and identity are understood", "send one of them"
        )
