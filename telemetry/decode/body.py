"""Request bodies: gzip unpacked in bounded memory and time, and the results that decoders return."""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass

from telemetry.counters.model import MOST, CounterSample
from telemetry.errors import DecodeError, OversizeError
from telemetry.report import ReportBatch, ReportProblem

DEFAULT_MAX_BODY_BYTES = 64 << 20
MAX_NAME_LENGTH = 256
MOST_GZIP_RATIO = 128
"""Limit of unpacked ÷ packed bytes; telemetry has about 20 (``examples/websearch-16``)."""
LEAST_GZIP_LIMIT_BYTES = 4 << 20
"""Every gzip body may unpack to this much, whatever its ratio."""

_GZIP_MAGIC = b"\x1f\x8b"
_UTF8_BOM = b"\xef\xbb\xbf"
_READ_BYTES, _LEAST_READ_BYTES = 1 << 20, 1 << 10
_MOST_MEMBERS = 65_536
_PADDING = re.compile(rb"\0*")
_GZIP_WINDOW_BITS = 31


def unpacked(body: bytes, *, content_encoding: str | None, max_body_bytes: int) -> bytes:
    """The body without gzip (recognised by its first bytes) and byte-order mark.

    Raises ``DecodeError`` for an unknown ``content_encoding`` or a damaged gzip stream, ``OversizeError`` for
    more than ``max_body_bytes`` before or after unpacking or more than ``MOST_GZIP_RATIO`` times the body;
    unpacking stops at these limits.
    """
    coding = (content_encoding or "identity").strip().lower()
    if coding not in ("gzip", "x-gzip", "identity"):
        received, remedy = f"content-encoding {content_encoding!r}", "send the reports as they are or gzipped"
        raise DecodeError("body", received, "gzip and identity are supported", remedy)
    _check_size(len(body), max_body_bytes, "a body")
    if body[:2] == _GZIP_MAGIC:
        most = max(MOST_GZIP_RATIO * len(body), LEAST_GZIP_LIMIT_BYTES)
        what = f"a gzip body of {len(body)} bytes" if most < max_body_bytes else "a body"
        body = _gunzip(body, min(most, max_body_bytes), what)
    elif coding != "identity":
        received = f"content-encoding {content_encoding} but first bytes {body[:2].hex() or 'none'}"
        rule = "a gzip stream starts with 1f8b"
        raise DecodeError("body", received, rule, "compress the body or drop the header")
    return body.removeprefix(_UTF8_BOM)


def holds_at_most(body: bytes, size: int) -> bool:
    """Whether the body is at most ``size`` bytes, packed and (as far as it is intact) unpacked."""
    try:
        unpacked(body, content_encoding=None, max_body_bytes=size)
    except OversizeError:
        return False
    except DecodeError:  # damaged
        pass
    return True


def _check_size(size: int, limit: int, what: str) -> None:
    if size > limit:
        rule = f"{what} holds at most {limit} bytes unpacked"
        raise OversizeError("body", f"more than {limit} bytes", rule, "send smaller batches")


def _gunzip(body: bytes, limit: int, what: str) -> bytes:
    parts: list[bytes] = []
    size = at = 0
    for _ in range(_MOST_MEMBERS):
        stream = zlib.decompressobj(_GZIP_WINDOW_BITS)
        # Start small: the bytes behind a member are copied, which adds up over many small members.
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
                received = f"a gzip stream that breaks ({error})"
                raise DecodeError("body", received, "a gzip body is whole", "send it again") from error
            rest = stream.unconsumed_tail
            if at_end and not part and not rest and not stream.eof:
                received = "a gzip stream that ends early"
                raise DecodeError("body", received, "a gzip body is whole", "send it again, untruncated")
            size += len(part)
            _check_size(size, limit, what)
            parts.append(part)
        # gzip files may be concatenated, with zero padding after a member.
        at -= len(stream.unused_data)
        if (padding := _PADDING.match(body, at)) is not None:
            at = padding.end()
        if at == len(body):
            return b"".join(parts)
        if body[at : at + 2] != _GZIP_MAGIC:
            received = (
                f"{len(body) - at} bytes behind a gzip stream that begin with {body[at : at + 2].hex()}"
            )
            rule = "only zeros or another gzip stream, which begins with 1f8b, may follow"
            raise DecodeError("body", received, rule, "compress all of the body, or none of it")
    received = f"more than {_MOST_MEMBERS} gzip members"
    raise DecodeError("body", received, f"a gzip body has at most {_MOST_MEMBERS}", "compress it as one")


@dataclass(frozen=True, slots=True)
class Decoded:
    """The valid reports of a body, and the rejected ones by position. ``aside`` counts further valid reports:
    of dropped packets, and postcards waiting to be merged (negative where more leave the queue than enter).
    ``accepted_before``: some of the batch are paths whose postcards came, and were accepted, with others.
    ``unread``: keys of the first record that no record has.
    """

    batch: ReportBatch
    errors: tuple[ReportProblem, ...]
    aside: int = 0
    accepted_before: bool = False
    unread: tuple[str, ...] = ()


_LONGEST = 40
_FITS = len(str(MOST))


@dataclass(frozen=True, slots=True)
class Polled:
    """One poll of a switch: ``problems`` are values left out, the rest of their row kept; ``notes`` say what
    the switch does not count, why, and how to change that, with the same text in every poll.
    """

    samples: tuple[CounterSample, ...]
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def count_of(value: object) -> int:
    """A counter given as a whole number or as decimal text.

    Raises ``ValueError`` for anything else, and beyond ``MOST``: some devices write all ones (2⁶⁴ − 1) for a
    counter that they lack.
    """
    if type(value) is str and len(value) < _FITS and value.isdecimal() and value.isascii():
        return int(value)  # the usual case
    if isinstance(value, str):
        if not (value.isascii() and value.isdecimal()) or len(value) > _LONGEST:
            raise ValueError(f"{value[:_LONGEST]!r}, which is not a whole number")
        count = int(value)
    elif isinstance(value, int) and not isinstance(value, bool):
        count = value
    else:
        raise ValueError(f"{str(value)[:_LONGEST]!r}, which is not a whole number")
    if not 0 <= count <= MOST:
        raise ValueError(f"{count}, which is not from 0 to {MOST}")
    return count
