"""Reads a body's JSON records (one object, an array, NDJSON), and explains each rejected one.

Records are decoded a mebibyte at a time in one call, and one by one only where one of them is invalid. So the
work grows with the body's bytes alone, and no single call blocks other threads for long.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import msgspec
from msgspec import Raw, Struct

from telemetry.decode.pieces import ArrayCut, Break, Pieces, first_byte, lines
from telemetry.errors import DecodeError, ReportError
from telemetry.report import ReportProblem

_PLACE = re.compile(r" - at `(?:key in )?\$(?P<path>.*)`$")
_STEP = re.compile(r"\.(?P<key>[^.\[]+)|\[(?P<index>\d+)\]")
_MISSING = re.compile(r"missing required field `(?P<field>[^`]+)`")
_NOT_A_NUMBER = re.compile(rb"[:\[,]\s*(-?(?:NaN|Infinity|nan|inf))\b")
_SHOWN_LENGTH = 60
_MOST_SEARCHED_BYTES = 1 << 16  # of a record, for its wrong value or its keys
_MOST_UNREAD = 10


@dataclass(frozen=True, slots=True)
class Wording:
    """A format's words in messages: a record's ``noun`` and ``plural``, what a ``whole`` one is, what to send
    for ``absent`` values, and the rule of each field.
    """

    noun: str
    plural: str
    whole: str
    absent: str
    rules: Mapping[str, str]


def explained(at: str, text: bytes, message: str, *, field: str, wording: Wording) -> ReportError:
    """The error of a record that is JSON but breaks a rule.

    ``message`` is msgspec's, which gives the path inside ``text``; ``field`` is the field that ``text`` is
    (``""`` for a whole record).
    """
    place = _PLACE.search(message)
    path = place["path"] if place else ""
    missing = _MISSING.search(message)
    field = missing["field"] if missing else (_last_key(path) or field)
    where = at + _shown_path(f"{path}.{field}" if missing else path)
    if missing:
        received = None
    elif message.startswith("Number out of range"):
        received = "a number too large to hold"
    elif len(text) > _MOST_SEARCHED_BYTES:
        received = f"a {wording.noun} of {len(text)} bytes"
    else:
        received = shown(_value_at(text, path))
    rule = wording.rules.get(field, wording.whole) + (", and is missing" if missing else "")
    return ReportError(where, received, rule, f"correct the exporter; this {wording.noun} was left out")


def broken_json(at: str, text: bytes, message: str, wording: Wording) -> ReportError:
    """The error of a record whose JSON does not parse."""
    not_a_number = _NOT_A_NUMBER.search(text)
    if not_a_number:
        remedy = f"{wording.absent}; this {wording.noun} was left out"
        return ReportError(at, not_a_number[1].decode(), "JSON numbers are finite", remedy)
    if not text:
        return ReportError(at, None, f"a {wording.noun} is a JSON object", "remove the stray comma")
    reason = message.removeprefix("JSON is malformed: ")
    received = f"{_shown_text(text.decode('utf-8', 'replace'))} ({reason})"
    rule = f"a {wording.noun} is one whole JSON object in UTF-8"
    return ReportError(at, received, rule, "send it again, unbroken")


def _last_key(path: str) -> str | None:
    keys = [step["key"] for step in _STEP.finditer(path) if step["key"]]
    return keys[-1] if keys else None


def _shown_path(path: str) -> str:
    return f" {path.removeprefix('.')}" if path else ""


def _value_at(text: bytes, path: str) -> object:
    try:
        value: object = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return text.decode("utf-8", "replace")
    for step in _STEP.finditer(path):
        if step["key"] is not None and isinstance(value, dict) and step["key"] in value:
            value = value[step["key"]]
        elif step["index"] is not None and isinstance(value, list) and int(step["index"]) < len(value):
            value = value[int(step["index"])]
        else:
            return value
    return value


def shown(value: object) -> str:
    """A value as in JSON, shortened."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list) and not value:
        return f"an empty {'object' if isinstance(value, dict) else 'array'}"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return f"an array of {len(value)}"
    return _shown_text(repr(value))


def _shown_text(text: str) -> str:
    return text if len(text) <= _SHOWN_LENGTH else text[: _SHOWN_LENGTH - 1] + "…"


UNREADABLE = (ValueError, RecursionError)
"""msgspec's errors are ValueErrors; so is the one for text that is not UTF-8."""

MOST_RECORD_BYTES = 1 << 20
"""Many times the longest valid record."""

AT_ONCE_BYTES = 4 << 20
"""Limit of one decode call, during which no other thread runs: some 30 ms."""

LEAST_PROBLEMS, PROBLEM_BYTES, MOST_PROBLEMS = 1_000, 64, 100_000
"""Problems reported per body: the least, plus one for every ``PROBLEM_BYTES`` of it, up to the most."""

MOST_EXPLAINED = 1_000
"""Problems explained per body; of the others only the place is reported, which is much cheaper."""

T = TypeVar("T", bound=Struct)


class RecordType(Generic[T]):
    """Decoders of a record type; ``keys`` of a record (``""``) and, by their own, of objects ``inner`` to it.

    Create them at import: msgspec (0.22) builds a type's fields on first use and exposes them half built, so
    two threads at once would crash the process.
    """

    def __init__(self, record: type[T], **inner: type[Struct]) -> None:
        self.one = msgspec.json.Decoder(record)
        self.all = msgspec.json.Decoder(list[record])  # type: ignore[valid-type]
        types: dict[str, type[Struct]] = {"": record, **inner}
        self.keys = {name: frozenset(one.__struct_fields__) for name, one in types.items()}


@dataclass(frozen=True, slots=True)
class Records(Generic[T]):
    """Consecutive records of a body: the valid ones, their positions in it (from 0; blank lines do not
    count), and the problems of the others.
    """

    valid: list[T] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    problems: list[ReportProblem] = field(default_factory=list)


def read_records(
    text: bytes,
    kind: RecordType[T],
    wording: Wording,
    take: Callable[[list[T], list[int]], list[ReportProblem]],
) -> list[ReportProblem]:
    """Passes the valid records of a body to ``take``, some at a time with their positions; returns the
    problems of the others and those that ``take`` found, in order.

    Raises ``DecodeError`` at the end of a body without any record, or of which none can be read.
    """
    problems: list[ReportProblem] = []
    for some in _read(text, kind, wording):
        problems += sorted([*some.problems, *take(some.valid, some.positions)])
        if len(problems) > MOST_PROBLEMS + 1:  # the last may say that the rest was skipped
            last = problems[-1].index
            said = too_many(f"{wording.noun} {last + 1}", len(problems), wording)
            problems.append(ReportProblem(last + 1, said))
            break
    return problems


def unread_keys(text: bytes, kind: RecordType[T]) -> tuple[str, ...]:
    """Keys of a body's first record that its type does not have, such as ``hops[].queue_byte``: without a
    word, a misspelt one would be taken for a value that the device does not give.
    """
    begin = first_byte(text)
    if text[begin : begin + 1] == b"[":
        begin = first_byte(text, begin + 1)
    try:
        record, _ = json.JSONDecoder().raw_decode(
            text[begin : begin + _MOST_SEARCHED_BYTES].decode("utf-8", "replace")
        )
    except UNREADABLE:
        return ()
    found: dict[str, None] = {}
    for name, keys in kind.keys.items():
        value = record.get(name) if name and isinstance(record, dict) else record
        path = f"{name}[]." if isinstance(value, list) else f"{name}." if name else ""
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, dict):
                # Python's decoder lets through halves of surrogate pairs, which no answer could hold.
                named = (key.encode("utf-8", "replace").decode() for key in one if key not in keys)
                found |= dict.fromkeys(f"{path}{_shown_text(key)}" for key in named)
    return tuple(found)[:_MOST_UNREAD]


def _read(text: bytes, kind: RecordType[T], wording: Wording) -> Iterator[Records[T]]:
    reading = _Reading(text, kind, wording)
    begin = first_byte(text)
    first = text[begin : begin + 1]
    if first == b"[":
        yield from reading.array()
    else:
        yield from reading.lines()
    if reading.found or reading.readable:
        return
    if (broken := reading.broken) is not None:
        raise DecodeError(broken.where, broken.received, broken.rule, broken.remedy)
    if first != b"[":
        received = repr(text[begin : begin + 40].decode("utf-8", "replace")) if first else "nothing"
        rule = f"{wording.plural} are a JSON object, an array of objects, or one object a line"
        raise DecodeError("body", received, rule, f"see the format of {wording.plural}")


def not_explained(at: str) -> str:
    """The problem of a record after ``MOST_EXPLAINED`` others."""
    return f"{at}: cannot be used either; only the first {MOST_EXPLAINED} are explained"


def too_many(at: str, named: int, wording: Wording) -> str:
    """The problem of the record after the last one that is reported."""
    received, rule = f"another after {named} that cannot be used", f"a body holds {wording.plural}"
    remedy = f"correct the exporter; this {wording.noun} and those after it were not read"
    return str(ReportError(at, received, rule, remedy))


class _Reading(Generic[T]):
    """One pass over a body. ``found`` counts valid records, ``readable`` others that begin like one and are
    JSON as far as they were read; ``broken`` is the first that begins like one and is not JSON.
    """

    def __init__(self, text: bytes, kind: RecordType[T], wording: Wording, *, number: int = 0) -> None:
        self._text = text
        self._kind = kind
        self._wording = wording
        self._number = number  # of the next record
        self._named = 0
        self._most_problems = min(LEAST_PROBLEMS + len(text) // PROBLEM_BYTES, MOST_PROBLEMS)
        self.found = self.readable = 0
        self.broken: ReportError | None = None

    def lines(self, start: int = 0) -> Iterator[Records[T]]:
        """A record per line, from byte ``start`` on; records of a small body may span lines too."""
        if start == 0:
            if (whole := self._whole(self._kind.one.decode_lines)) is not None:
                yield whole
                return
            if self._is_one_value():
                records: Records[T] = Records()
                self._take(self._text, records)
                yield records
                return
        line = 1 + self._text.count(b"\n", 0, start)
        yield from self._pieces(lines(self._text, start, line), self._kind.one.decode_lines)

    def array(self) -> Iterator[Records[T]]:
        """The elements of an array.

        Where it breaks or ends before the body does, the rest is read as lines; where it held no record, the
        whole body is, because the first line of NDJSON may begin with a bracket too.
        """
        if (whole := self._whole(self._kind.all.decode)) is not None:
            yield whole
            return
        cut = ArrayCut(self._text)
        without = yield from self._once_found(self._pieces(cut, self._elements))
        if self._ended or cut.broken is None:
            yield from without
        elif self.found:
            yield self._note(cut.broken)
            yield from self._lines_if_any(cut.broken.rest, self._number)
        elif not (yield from self._lines_if_any(0, 0)):
            yield from without
            yield self._note(cut.broken)

    def _lines_if_any(self, start: int, number: int) -> Generator[Records[T], None, bool]:
        """Yields the lines from byte ``start`` on if any is a record; returns whether one is."""
        reading = _Reading(self._text, self._kind, self._wording, number=number)
        yield from reading._once_found(reading.lines(start))
        return reading.found > 0

    def _once_found(self, parts: Iterator[Records[T]]) -> Generator[Records[T], None, list[Records[T]]]:
        """Yields parts once a valid record was found; returns those held back to the end."""
        without: list[Records[T]] = []
        for records in parts:
            without.append(records)
            if self.found:
                yield from without
                without.clear()
        return without

    def _pieces(self, cut: Iterable[Pieces], decode: Callable[[bytes], list[T]]) -> Iterator[Records[T]]:
        for pieces in cut:
            if len(pieces):
                yield self._together(pieces, decode) or self._each(pieces)
            if self._ended:
                return

    @property
    def _ended(self) -> bool:
        """Whether the limit of problems is reached."""
        return self._named > self._most_problems

    def _whole(self, decode: Callable[[bytes], list[T]]) -> Records[T] | None:
        """The whole body in one call, if it is small and valid; else None."""
        if len(self._text) > AT_ONCE_BYTES:
            return None
        try:
            return self._valid(decode(self._text))
        except UNREADABLE:
            return None

    def _is_one_value(self) -> bool:
        """Whether the body is one JSON value, which may span lines."""
        if len(self._text) > MOST_RECORD_BYTES:
            return False
        try:
            msgspec.json.decode(self._text, type=Raw)
        except UNREADABLE:
            return False
        return True

    def _elements(self, text: bytes) -> list[T]:
        return self._kind.all.decode(b"[%b]" % text)

    def _together(self, pieces: Pieces, decode: Callable[[bytes], list[T]]) -> Records[T] | None:
        """All pieces in one call; None where that is not possible."""
        begin, end = int(pieces.start[0]), int(pieces.stop[-1])
        if end - begin > AT_ONCE_BYTES:
            return None
        try:
            valid = decode(self._text[begin:end])
        except UNREADABLE:
            return None
        # An array piece may be empty ("[1,,2]"), which is not a record.
        return self._valid(valid) if pieces.line is not None or len(valid) == len(pieces) else None

    def _valid(self, records: list[T]) -> Records[T]:
        begin = self._number
        self._number += len(records)
        self.found += len(records)
        return Records(records, list(range(begin, self._number)))

    def _each(self, pieces: Pieces) -> Records[T]:
        records: Records[T] = Records()
        word, numbers = ("byte", pieces.start) if pieces.line is None else ("line", pieces.line)
        for start, stop, number in zip(
            pieces.start.tolist(), pieces.stop.tolist(), numbers.tolist(), strict=True
        ):
            text = self._text[start:stop].strip()
            if not text and pieces.line is not None:
                continue
            self._take(text, records, word, number)
            if self._ended:
                break
        return records

    def _take(self, text: bytes, records: Records[T], word: str = "", place: int = 0) -> None:
        """Reads one piece of the body, which begins at byte or line ``place``."""
        position = self._number
        self._number += 1
        begun = text.startswith(b"{")
        long = len(text) > MOST_RECORD_BYTES
        wrong: ValueError | RecursionError | None = None
        if not long and (begun or self._named < MOST_EXPLAINED):
            try:
                records.valid.append(self._kind.one.decode(text))
            except UNREADABLE as error:
                wrong = error
            else:
                records.positions.append(position)
                self.found += 1
                return
        at = f"{self._wording.noun} {position}"
        # The position identifies an element; the byte helps only where brackets may be wrong.
        if word == "line" or (word and not isinstance(wrong, msgspec.ValidationError)):
            at += f" ({word} {place})"
        records.problems.append(ReportProblem(position, self._said(at, text, wrong)))
        self._named += 1
        if begun and (wrong is None or isinstance(wrong, msgspec.ValidationError)):
            self.readable += 1
        elif begun and self.broken is None:
            self.broken = broken_json(at, text, str(wrong), self._wording)

    def _said(self, at: str, text: bytes, wrong: Exception | None) -> str:
        wording = self._wording
        if self._named == self._most_problems:
            return too_many(at, self._named, wording)
        if self._named >= MOST_EXPLAINED:
            return not_explained(at)
        if isinstance(wrong, msgspec.ValidationError):
            return str(explained(at, text, str(wrong), field="", wording=wording))
        if wrong is not None:
            return str(broken_json(at, text, str(wrong), wording))
        rule = f"a {wording.noun} takes at most {MOST_RECORD_BYTES}"
        return str(ReportError(at, f"{len(text)} bytes", rule, "correct the exporter"))

    def _note(self, broken: Break) -> Records[T]:
        """The problem of a broken array; raises ``DecodeError`` where nothing in it began like a record."""
        at, noun, rule = f"body byte {broken.at}", self._wording.noun, "a JSON array is [object, object, ...]"
        if not self.found and not self.readable:
            remedy = f"send whole JSON; nothing before the break was a {noun}"
            raise DecodeError(at, broken.received, rule, remedy)
        remedy = f"send whole JSON; {noun}s before it are kept, and after it those on lines of their own"
        error = ReportError(at, broken.received, rule, remedy)
        self._number += 1
        return Records(problems=[ReportProblem(self._number - 1, str(error))])
