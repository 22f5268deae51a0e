"""The decoder of a posted body, by its media type; binary INT reports come as one UDP payload or a capture.

No binary report begins as a gzip stream or a capture does: 1f8b would be v1.0 with next protocol 4, 0a0d0d0a
v0.5 with next protocol 10 (both end at 2), and the pcap magics begin with 4, 10 and 13, which are no version.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from service.ingest.p4_reports import BinaryReports, renamed
from service.ingest.threads import ReportDecoder
from settings.errors import UnsupportedMediaError
from telemetry.decode.body import Decoded, unpacked
from telemetry.decode.capture import Datagram, address_text, is_capture, udp_datagrams
from telemetry.decode.hpcc import decode as decode_hpcc
from telemetry.decode.json import decode as decode_json
from telemetry.errors import DecodeError, OversizeError
from telemetry.report import ReportProblem

MOST_DATAGRAMS = 1_000_000
MOST_PAYLOAD_BYTES = 64 << 20


def decode_body(
    reports: BinaryReports,
    body: bytes,
    *,
    content_encoding: str | None,
    max_body_bytes: int,
    wall_ns: Callable[[], int],
    ports: Collection[int] = (),
) -> Decoded:
    """Decodes one payload or a capture, gzipped or not; of a capture the datagrams to ``ports`` (none: all).

    A payload is dated by ``wall_ns``, a capture's by their capture times. Errors of a capture are by frame
    number. Raises ``DecodeError`` for a body that is empty, too large, no whole gzip stream, or a capture
    without such a datagram or with too many.
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
    for one in udp_datagrams(data, problems, ports):
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
            "a capture must contain UDP datagrams with telemetry reports",
            "check what was captured, and the port",
        )
    now_ns = wall_ns()
    decoded = reports.decode_capture(
        [one.payload for one in found],
        np.array([now_ns if one.time_ns is None else one.time_ns for one in found], np.int64),
        _texts([one.source for one in found]),
    )
    for problem in decoded.errors:
        frame = found[problem.index].frame
        problems.append(renamed(problem, frame, f"frame {frame} payload"))
    frames = np.array([one.frame for one in found], np.int64)
    batch = replace(decoded.batch, index=frames[decoded.batch.index])
    return replace(decoded, batch=batch, errors=tuple(sorted(problems)))


def _texts(addresses: Sequence[bytes]) -> list[str]:
    known = {raw: address_text(raw) for raw in set(addresses)}
    return [known[raw] for raw in addresses]


# curl sends the form media type where a script forgot the header; the decoder checks the bytes anyway.
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
    """Formats of posted INT reports. ``wall_ns`` dates reports that carry no time."""

    def __init__(self, binary: BinaryReports, *, max_decoded_bytes: int, wall_ns: Callable[[], int]) -> None:
        self._binary = binary
        self._max_decoded_bytes = max_decoded_bytes
        self._wall_ns = wall_ns

    def decoder(
        self, media_type: str, encoding: str | None, body: bytes, ports: Collection[int] = ()
    ) -> ReportDecoder:
        """The decoder of ``body``; of a capture, of the datagrams to ``ports`` (none: all).

        Raises ``UnsupportedMediaError`` for an unknown media type.
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
    # pyarrow takes 0.2 s to import, and most commands never need it.
    from telemetry.decode.arrow import decode

    return decode(body, content_encoding=content_encoding, max_body_bytes=max_body_bytes)


def check_media_type(media_type: str, what: str, *others: str) -> None:
    """Raises ``UnsupportedMediaError`` unless it is JSON; ``others`` are named as accepted too."""
    if media_type not in JSON_TYPES:
        raise UnsupportedMediaError(
            "Content-Type",
            repr(media_type),
            f"{what} come as {', '.join(('application/json', 'application/x-ndjson', *others))}",
            "convert them",
        )


def check_encoding(encoding: str) -> None:
    if encoding not in ENCODINGS:
        raise UnsupportedMediaError(
            "Content-Encoding", repr(encoding), "gzip and identity are supported", "send one of them"
        )
