"""From a request body to its plain bytes, in bounded room and time.

What every decoder of INT reports gives back; imports only ``telemetry.report``.

What one look at a switch's own counters gave; imports only ``telemetry.counters``.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass

from telemetry.counters.model import MOST, CounterSample
from telemetry.errors import DecodeError, OversizeError
from telemetry.report import ReportBatch, ReportProblem

MOST_GZIP_RATIO = 128
"""Bytes that one of a gzip body may unpack to; telemetry comes to 20 or so (``examples/websearch-16``)."""

LEAST_GZIP_LIMIT_BYTES = 4 << 20
"""What every gzip body may unpack to."""

_GZIP_MAGIC = b"\x1f\x8b"
_UTF8_BOM = b"\xef\xbb\xbf"
_READ_BYTES, _LEAST_READ_BYTES = 1 << 20, 1 << 10
_MOST_MEMBERS = 65_536
_PADDING = re.compile(rb"\0*")
_GZIP_WINDOW_BITS = 31


def unpacked(body: bytes, *, content_encoding: str | None, max_body_bytes: int) -> bytes:
    """The body without its gzip coat (recognised by its first bytes, whatever the header says) and byte-order
    mark.

    Raises ``DecodeError`` for an unknown ``content_encoding``, a damaged gzip stream, or more than
    ``max_body_bytes`` before or after unpacking, or more than ``MOST_GZIP_RATIO`` times the body (never
    unpacks further than that, so a bomb costs nothing).
    """
    coding = (content_encoding or "identity").strip().lower()
    if coding not in ("gzip", "x-gzip", "identity"):
        raise DecodeError(
            "body",
            f"content-encoding {content_encoding!r}",
            "gzip and identity are understood",
            "send the reports as they are or gzipped",
        )
    _check_size(len(body), max_body_bytes, "a body")
    if body[:2] == _GZIP_MAGIC:
        most = max(MOST_GZIP_RATIO * len(body), LEAST_GZIP_LIMIT_BYTES)
        what = f"a gzip body of {len(body)} bytes" if most < max_body_bytes else "a body"
        body = _gunzip(body, min(most, max_body_bytes), what)
    elif coding != "identity":
        raise DecodeError(
            "body",
            f"content-encoding {content_encoding} but first bytes {body[:2].hex() or 'none'}",
            "a gzip stream starts with 1f8b",
            "compress the body or drop the header",
        )
    return body.removeprefix(_UTF8_BOM)


def holds_at_most(body: bytes, size: int) -> bool:
    """Whether the body is no larger than that, as it came and unpacked as far as it can be."""
    try:
        unpacked(body, content_encoding=None, max_body_bytes=size)
    except OversizeError:
        return False
    except DecodeError:  # damaged
        pass
    return True


def _check_size(size: int, limit: int, what: str) -> None:
    if size > limit:
        raise OversizeError(
            "body",
            f"more than {limit} bytes",
            f"{what} holds at most {limit} bytes unpacked",
            "send smaller batches",
        )


def _gunzip(body: bytes, limit: int, what: str) -> bytes:
    parts: list[bytes] = []
    size = at = 0
    for _ in range(_MOST_MEMBERS):
        stream = zlib.decompressobj(_GZIP_WINDOW_BITS)
        # What a member leaves unread is copied: so a small one is not given more than it has by far.
        read_bytes = _LEAST_READ_BYTES
        rest = b""
        while not stream.eof:
            if not rest:
                rest = body[at : at + read_bytes]
                at += len(rest)
                read_bytes = min(2 * read_bytes, _READ_BYTES)
            at_end = at == len(body)
            try:
                part = stream.decompress(rest, min(_READ_BYTES, limit - size + 1))
            except zlib.error as error:
                raise DecodeError(
                    "body", f"a gzip stream that breaks ({error})", "a gzip body is whole", "send it again"
                ) from error
            rest = stream.unconsumed_tail
            if at_end and not part and not rest and not stream.eof:
                raise DecodeError(
                    "body",
                    "a gzip stream that ends early",
                    "a gzip body is whole",
                    "send it again, untruncated",
                )
            size += len(part)
            _check_size(size, limit, what)
            parts.append(part)
        # gzip files may be concatenated; zero padding after a member is legal and means nothing.
        at -= len(stream.unused_data)
        if (padding := _PADDING.match(body, at)) is not None:
            at = padding.end()
        if body[at : at + 2] != _GZIP_MAGIC:
            return b"".join(parts)
    raise DecodeError(
        "body",
        f"more than {_MOST_MEMBERS} gzip members",
        f"a gzip body has at most {_MOST_MEMBERS}",
        "compress it as one",
    )


@dataclass(frozen=True, slots=True)
class Decoded:
    """The sound reports of a body, and the others by position. ``aside`` is how many more sound ones there
    were than the batch has: of packets that were dropped, and such that wait to be merged (below 0 where
    more come from waiting).
    """

    batch: ReportBatch
    errors: tuple[ReportProblem, ...]
    aside: int = 0


_LONGEST = 40
_FITS = len(str(MOST))


@dataclass(frozen=True, slots=True)
class Polled:
    """``samples`` as the window takes them. ``problems`` are values that were left out, in sentences, the
    rest of their row kept. ``notes`` say what the switch does not count, why, and how that is changed; they
    are the same from look to look until something changes.
    """

    samples: tuple[CounterSample, ...]
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def count_of(value: object) -> int:
    """A counter as devices write it: a whole number, or one as decimal text.

    Raises ``ValueError`` for anything else and for one beyond ``MOST``: some devices write all ones (2⁶⁴ − 1)
    for a counter that they do not have.
    """
    if type(value) is str and len(value) < _FITS and value.isdecimal() and value.isascii():
        return int(value)  # nearly all
    if isinstance(value, str):
        if not (value.isascii() and value.isdecimal()) or len(value) > _LONGEST:
            raise ValueError(f"{value[:_LONGEST]!r}, which is no whole number")
        count = int(value)
    elif isinstance(value, int) and not isinstance(value, bool):
        count = value
    else:
        raise ValueError(f"{str(value)[:_LONGEST]!r}, which is no whole number")
    if not 0 <= count <= MOST:
        raise ValueError(f"{count}, which is not from 0 to {MOST}")
    return count
