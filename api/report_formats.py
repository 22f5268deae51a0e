"""Which decoder reads a posted body, by its media type; must not know the window."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from api.errors import UnsupportedMediaError
from telemetry.decode.decoded import Decoded
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
ENCODINGS = frozenset({"", "gzip", "identity", "x-gzip"})


class ReportFormats:
    """The formats in which INT reports may be posted."""

    def __init__(self, *, max_decoded_bytes: int) -> None:
        self._max_decoded_bytes = max_decoded_bytes

    def decoder(self, media_type: str, encoding: str | None, body: bytes) -> Callable[[], Decoded]:
        """What decodes the body when it is called; raises ``UnsupportedMediaError`` for an unknown type."""
        check_media_type(media_type, "INT reports")
        return partial(decode_json, body, content_encoding=encoding, max_body_bytes=self._max_decoded_bytes)


def check_media_type(media_type: str, what: str) -> None:
    """Raises ``UnsupportedMediaError`` for what is no JSON."""
    if media_type not in JSON_TYPES:
        raise UnsupportedMediaError(
            "Content-Type",
            repr(media_type),
            f"{what} come as application/json or application/x-ndjson",
            "convert them",
        )


def check_encoding(encoding: str) -> None:
    """Raises ``UnsupportedMediaError`` for an encoding not understood."""
    if encoding not in ENCODINGS:
        raise UnsupportedMediaError(
            "Content-Encoding", repr(encoding), "gzip and identity are understood", "send one of them"
        )
