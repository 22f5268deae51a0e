"""Splits JSON bodies into records: lines of NDJSON, or elements of an array.

The cuts are found with numpy, a block at a time: time and memory do not depend on the content, and other
threads run meanwhile. Pieces are not validated here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

BLOCK_BYTES = 1 << 20

_QUOTE, _BACKSLASH, _NEWLINE = b'"'[0], b"\\"[0], b"\n"[0]


class _Sign(IntEnum):
    OPEN, CLOSE, COMMA, QUOTE, BACKSLASH = range(1, 6)


_SIGN_OF = np.zeros(256, np.uint8)
for _characters, _sign in (
    (b"[{", _Sign.OPEN),
    (b"]}", _Sign.CLOSE),
    (b",", _Sign.COMMA),
    (b'"', _Sign.QUOTE),
    (b"\\", _Sign.BACKSLASH),
):
    _SIGN_OF[list(_characters)] = _sign


@dataclass(frozen=True, slots=True)
class Pieces:
    """Consecutive parts ``text[start[n]:stop[n]]`` of a body: what is between the commas of an array, or
    non-empty lines with their numbers (``line``, from 1).
    """

    start: NDArray[np.int64]
    stop: NDArray[np.int64]
    line: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True, slots=True)
class Break:
    """Where an array ended before the body did: the byte, what is there, and the first byte not split."""

    at: int
    received: str
    rest: int


def lines(text: bytes, start: int = 0, line: int = 1) -> Iterator[Pieces]:
    """The lines from byte ``start`` (the beginning of line number ``line``), about a block at a time."""
    view = np.frombuffer(text, np.uint8)
    while start < len(text):
        end = text.find(b"\n", min(start + BLOCK_BYTES, len(text)))
        end = len(text) if end < 0 else end
        breaks = start + np.flatnonzero(view[start:end] == _NEWLINE)
        begins, ends = np.append(start, breaks + 1), np.append(breaks, end)
        full = np.flatnonzero(ends > begins)
        yield Pieces(begins[full], ends[full], line + full)
        start, line = end + 1, line + len(begins)


def first_byte(text: bytes, start: int = 0) -> int:
    """Index of the first non-space byte from ``start`` on; the text's length without one."""
    for at in range(start, len(text), BLOCK_BYTES):
        if rest := text[at : at + BLOCK_BYTES].lstrip():
            return min(at + BLOCK_BYTES, len(text)) - len(rest)
    return len(text)


class ArrayCut:
    """The elements of the JSON array that begins with the body's first bracket, some at a time.

    After the (single) iteration ``broken`` says where the array broke; None: it ended with its closing
    bracket and nothing behind. Brackets are paired whatever their kind.
    """

    def __init__(self, text: bytes) -> None:
        self._text = text
        self.broken: Break | None = None

    def __iter__(self) -> Iterator[Pieces]:
        text, view = self._text, np.frombuffer(self._text, np.uint8)
        at = start = text.index(b"[") + 1
        depth, quoted, quote_at, some = 0, False, 0, False
        while at < len(text):
            end = _whole_escapes(text, at, min(at + BLOCK_BYTES, len(text)))
            place, sign = _unescaped(_SIGN_OF[view[at:end]])
            quote = sign == _Sign.QUOTE
            inside = (np.cumsum(quote) + quoted) % 2 == 1
            if len(place):
                quoted = bool(inside[-1])
            if quoted and quote.any():
                quote_at = at + int(place[np.flatnonzero(quote)[-1]])
            plain = ~inside & ~quote
            place, sign = at + place[plain], sign[plain]
            level = depth + np.cumsum((sign == _Sign.OPEN).astype(np.int64) - (sign == _Sign.CLOSE))
            below = np.flatnonzero(level < 0)
            last = int(below[0]) if len(below) else None
            comma = place[:last][(sign[:last] == _Sign.COMMA) & (level[:last] == 0)]
            if len(comma):
                yield Pieces(np.append(start, comma[:-1] + 1), comma)
                start, some = int(comma[-1]) + 1, True
            if last is not None:
                yield from self._ended(start, int(place[last]), some=some)
                return
            depth = int(level[-1]) if len(level) else depth
            at = end
        if quoted:
            self.broken = Break(quote_at, "a string without its closing quote", start)
        else:
            self.broken = Break(len(text), "the end of the body inside the array", start)

    def _ended(self, start: int, end: int, *, some: bool) -> Iterator[Pieces]:
        """The last element, where the bracket at ``end`` closes the array."""
        text = self._text
        if text[end] == b"}"[0]:
            self.broken = Break(end, "an unmatched '}'", start)
            return
        if some or text[start:end].strip():
            yield Pieces(np.array([start]), np.array([end]))
        after = first_byte(text, end + 1)
        if after < len(text):
            received = f"{_shown(text[after : after + 100])} after the array's end"
            self.broken = Break(end + 1, received, end + 1)


def _whole_escapes(text: bytes, start: int, end: int) -> int:
    """``end``, or the byte after it where ``text[start:end]`` would split an escape sequence."""
    backslashes = end - start - len(text[start:end].rstrip(b"\\"))
    return end + 1 if backslashes % 2 and end < len(text) else end


def _unescaped(signs: NDArray[np.uint8]) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Places and kinds of signs, without backslashes and escaped quotes."""
    place = np.flatnonzero(signs)
    sign = signs[place]
    backslash = sign == _Sign.BACKSLASH
    if not backslash.any():
        return place, sign
    follows = np.append(False, np.diff(place) == 1)  # directly behind the sign before it
    begins = backslash & ~(follows & np.append(False, backslash[:-1]))
    number = np.arange(len(place))
    run = number - np.maximum.accumulate(np.where(begins, number, 0))  # of backslashes, from 0
    escapes = backslash & (run % 2 == 0)
    kept = ~backslash & ~(follows & np.append(False, escapes[:-1]) & (sign == _Sign.QUOTE))
    return place[kept], sign[kept]


def _shown(text: bytes, limit: int = 40) -> str:
    cut = text[:limit].decode("utf-8", "replace")
    return repr(cut + ("…" if len(text) > limit else ""))
