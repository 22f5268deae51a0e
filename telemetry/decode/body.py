"""From a request body to plain bytes and to the pieces that should each be a report; knows no field of a
report.

Imports only the standard library and ``telemetry.errors``.
"""

from __future__ import annotations

import io
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from telemetry.errors import DecodeError, OversizeError

MOST_ELEMENTS = 1_000_000
"""Of an array that has to be taken apart: of a few bytes each, they would take a hundred times their room."""

_GZIP_MAGIC = b"\x1f\x8b"
_UTF8_BOM = b"\xef\xbb\xbf"
_READ_BYTES, _LEAST_READ_BYTES = 1 << 20, 1 << 10
_MOST_MEMBERS = 65_536
_PADDING = re.compile(rb"\0*")
_GZIP_WINDOW_BITS = 31
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+"|["\[\]{},]', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Piece:
    """One part of a body that should be a report: its bytes, and where it stands in words a sender
    understands.
    """

    text: bytes
    place: str


@dataclass(frozen=True, slots=True)
class BrokenArray:
    """What could be saved of a JSON array: whole elements, and the sentence parts of what ended it early."""

    pieces: list[Piece]
    break_place: str | None
    break_received: str


def unpacked(body: bytes, *, content_encoding: str | None, max_body_bytes: int) -> bytes:
    """The body without its gzip coat (recognised by its first bytes, whatever the header says) and byte-order
    mark.

    Raises ``DecodeError`` for an unknown ``content_encoding``, a damaged gzip stream, or more than
    ``max_body_bytes`` before or after unpacking (never unpacks further than that, so a bomb costs nothing).
    """
    coding = (content_encoding or "identity").strip().lower()
    if coding not in ("gzip", "x-gzip", "identity"):
        raise DecodeError(
            "body",
            f"content-encoding {content_encoding!r}",
            "gzip and identity are understood",
            "send the reports as they are or gzipped",
        )
    _check_size(len(body), max_body_bytes)
    if body[:2] == _GZIP_MAGIC:
        body = _gunzip(body, max_body_bytes)
    elif coding != "identity":
        raise DecodeError(
            "body",
            f"content-encoding {content_encoding} but first bytes {body[:2].hex() or 'none'}",
            "a gzip stream starts with 1f8b",
            "compress the body or drop the header",
        )
    return body.removeprefix(_UTF8_BOM)


def _check_size(size: int, limit: int) -> None:
    if size > limit:
        raise OversizeError(
            "body",
            f"more than {limit} bytes",
            f"a body holds at most {limit} bytes unpacked",
            "send smaller batches",
        )


def _gunzip(body: bytes, limit: int) -> bytes:
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
            _check_size(size, limit)
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


def line_pieces(text: bytes) -> Iterator[Piece]:
    """The non-blank lines of newline-delimited JSON."""
    for number, line in enumerate(io.BytesIO(text), 1):
        if piece := line.strip():
            yield Piece(piece, f"line {number}")


def array_pieces(text: bytes) -> BrokenArray:
    """The elements of a JSON array whose syntax is broken somewhere, cut at its top-level commas.

    Elements before, between and after broken ones are kept as long as brackets and quotes still pair up;
    where they no longer do, or there are more than ``MOST_ELEMENTS``, ``break_place`` says so and the rest of
    the body is given up.
    """
    start = text.index(b"[") + 1
    pieces: list[Piece] = []
    depth: list[int] = []
    for token in _TOKEN.finditer(text, start):
        sign = token.group()
        if sign in b"{[" and len(sign) == 1:
            depth.append(sign[0])
        elif sign == b",":
            if not depth:
                pieces.append(Piece(text[start : token.start()].strip(), f"byte {start}"))
                start = token.end()
                if len(pieces) == MOST_ELEMENTS:
                    return BrokenArray(pieces, f"byte {start}", f"more than {MOST_ELEMENTS} elements")
        elif sign in (b"}", b"]"):
            if not depth and sign == b"]":
                last = text[start : token.start()].strip()
                if last or pieces:
                    pieces.append(Piece(last, f"byte {start}"))
                rest = text[token.end() :].strip()
                if rest:
                    return BrokenArray(pieces, f"byte {token.end()}", f"{_shown(rest)} after the array's end")
                return BrokenArray(pieces, None, "")
            if not depth or depth.pop() != (b"{"[0] if sign == b"}" else b"["[0]):
                return BrokenArray(pieces, f"byte {token.start()}", f"{sign.decode()!r} that closes nothing")
        elif sign == b'"':
            return BrokenArray(pieces, f"byte {token.start()}", "a string without its closing quote")
    return BrokenArray(pieces, f"byte {len(text)}", "the end of the body inside the array")


def _shown(text: bytes, limit: int = 40) -> str:
    cut = text[:limit].decode("utf-8", "replace")
    return repr(cut + ("…" if len(text) > limit else ""))
