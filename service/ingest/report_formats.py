"""Which decoder reads a posted body, by its media type; must not know the window."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Annotated

from fastapi import Query, Request
from pydantic import Field

from service.ingest.formats import decode_body
from service.ingest.p4_reports import BinaryReports
from settings.errors import UnsupportedMediaError
from telemetry.decode.decoded import Decoded
from telemetry.decode.hpcc import decode as decode_hpcc
from telemetry.decode.json import decode as decode_json

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

Ports = Annotated[tuple[Annotated[int, Field(ge=0, le=65_535)], ...], Query()]
"""Ports of UDP, in a call's query."""


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


def media_type_of(request: Request) -> str:
    """What the sender says its body is; empty where it says nothing."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def encoding_of(request: Request) -> str | None:
    """How the sender packed its body; raises ``UnsupportedMediaError`` for an encoding not understood."""
    encoding = request.headers.get("content-encoding", "").strip().lower()
    check_encoding(encoding)
    return encoding or None


def check_encoding(encoding: str) -> None:
    """Raises ``UnsupportedMediaError`` for an encoding not understood."""
    if encoding not in ENCODINGS:
        raise UnsupportedMediaError(
            "Content-Encoding", repr(encoding), "gzip and identity are understood", "send one of them"
        )
