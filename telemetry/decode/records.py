"""Why a record was left out, in the sender's words: field, value, rule, remedy; imports no decoder.

A body's JSON records (one object, an array, NDJSON), each sound or named with what is wrong with it.

Decoded a mebibyte at a time, in one call where every record of it is sound, and one by one only where one is
not. So the work for a body grows with its bytes alone, whatever they are, and no single call keeps other
threads waiting for long.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import msgspec
from msgspec import Raw

from telemetry.decode.pieces import ArrayCut, Break, Pieces, first_byte, lines
from telemetry.errors import DecodeError, ReportError
from telemetry.report import ReportProblem

_PLACE = re.compile(r" - at `(?:key in )?\$(?P<path>.*)`$")
_STEP = re.compile(r"\.(?P<key>[^.\[]+)|\[(?P<index>\d+)\]")
_MISSING = re.compile(r"missing required field `(?P<field>[^`]+)`")
_NOT_A_NUMBER = re.compile(rb"[:\[,]\s*(-?(?:NaN|Infinity|nan|inf))\b")
_SHOWN_LENGTH = 60
_MOST_LOOKED_INTO_BYTES = 1 << 16  # of a record, for the value that is wrong


@dataclass(frozen=True, slots=True)
class Wording:
    """What a format's sentences are made of: a record's ``noun``, ``plural`` with its kind, what a ``whole``
    one is, what to send for a value that is ``absent``, and the rule of each field.
    """

    noun: str
    plural: str
    whole: str
    absent: str
    rules: Mapping[str, str]


def explained(at: str, text: bytes, message: str, *, field: str, wording: Wording) -> ReportError:
    """The sentence for a record that is JSON but breaks a rule.

    ``message`` is msgspec's, which names the place inside ``text``; ``field`` is what ``text`` is as a whole
    (``""`` for a record).
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
    elif len(text) > _MOST_LOOKED_INTO_BYTES:
        received = f"a {wording.noun} of {len(text)} bytes"
    else:
        received = shown(_value_at(text, path))
    rule = wording.rules.get(field, wording.whole)
    return ReportError(where, received, rule, f"correct the exporter; this {wording.noun} was left out")


def broken_json(at: str, text: bytes, message: str, wording: Wording) -> ReportError:
    """The sentence for a record whose JSON does not parse."""
    strange = _NOT_A_NUMBER.search(text)
    if strange:
        return ReportError(
            at,
            strange[1].decode(),
            "JSON numbers are finite",
            f"{wording.absent}; this {wording.noun} was left out",
        )
    if not text:
        return ReportError(at, None, f"a {wording.noun} is a JSON object", "remove the stray comma")
    reason = message.removeprefix("JSON is malformed: ")
    return ReportError(
        at,
        f"{_shown_text(text.decode('utf-8', 'replace'))} ({reason})",
        f"a {wording.noun} is one whole JSON object in UTF-8",
        "send it again, unbroken",
    )


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
    """A value as the sender would recognise it, cut short."""
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
"""msgspec's own errors are ValueErrors; so is the one it lets through for text that is not UTF-8."""

MOST_RECORD_BYTES = 1 << 20
"""Of one record: many times what the longest sound one takes."""

AT_ONCE_BYTES = 4 << 20
"""Decoded in one call, during which no other thread runs: some 30 ms."""

LEAST_PROBLEMS, PROBLEM_BYTES, MOST_PROBLEMS = 1_000, 64, 100_000
"""How many problems of a body are named: so many, and one more for every so many bytes of it, to a limit."""

MOST_EXPLAINED = 1_000
"""Of a body's problems; of the others only the place is told, which takes next to no time."""

T = TypeVar("T")


class Kind(Generic[T]):
    """A msgspec type that records are decoded to; made with its module, before there are threads.

    msgspec (0.22) reads a type's fields when it is first decoded to, and shows them to other threads half
    read: two bodies at once would end the process.
    """

    def __init__(self, record: type[T]) -> None:
        self.one = msgspec.json.Decoder(record)
        self.all = msgspec.json.Decoder(list[record])  # type: ignore[valid-type]


@dataclass(frozen=True, slots=True)
class Records(Generic[T]):
    """Some neighbouring records of a body: the sound ones, their positions in it (from 0; blank lines do not
    count), and the problems of the rest.
    """

    sound: list[T] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    problems: list[ReportProblem] = field(default_factory=list)


def read_records(
    text: bytes,
    kind: Kind[T],
    wording: Wording,
    take: Callable[[list[T], list[int]], list[ReportProblem]],
) -> list[ReportProblem]:
    """Hands the sound records of a body to ``take``, some at a time and with their positions; gives the
    problems of the others in order, and those that ``take`` found.

    Raises ``DecodeError`` at the end where the body held no record at all.
    """
    problems: list[ReportProblem] = []
    for some in _read(text, kind, wording):
        problems += sorted([*some.problems, *take(some.sound, some.positions)])
        if len(problems) > MOST_PROBLEMS + 1:  # one more may say that it has ended
            last = problems[-1].index
            said = too_many(f"{wording.noun} {last + 1}", len(problems), wording)
            problems.append(ReportProblem(last + 1, said))
            break
    return problems


def _read(text: bytes, kind: Kind[T], wording: Wording) -> Iterator[Records[T]]:
    reading = _Reading(text, kind, wording)
    begin = first_byte(text)
    first = text[begin : begin + 1]
    if first == b"[":
        yield from reading.array()
    else:
        yield from reading.lines()
        if not reading.found and not reading.objects:
            received = repr(text[begin : begin + 40].decode("utf-8", "replace")) if first else "nothing"
            raise DecodeError(
                "body",
                received,
                f"{wording.plural} are a JSON object, an array of objects, or one object a line",
                f"see the format of {wording.plural}",
            )


def not_explained(at: str) -> str:
    """What is said of a problem after ``MOST_EXPLAINED`` others."""
    return f"{at}: cannot be used either; why is told of the first {MOST_EXPLAINED}"


def too_many(at: str, named: int, wording: Wording) -> str:
    """What is said of the record after so many problems."""
    error = ReportError(
        at,
        f"another after {named} that cannot be used",
        f"a body holds {wording.plural}",
        f"correct the exporter; this {wording.noun} and what follows were not looked at",
    )
    return str(error)


class _Reading(Generic[T]):
    """One way through a body. ``found`` counts the sound records, ``objects`` what else begins as one."""

    def __init__(self, text: bytes, kind: Kind[T], wording: Wording, *, number: int = 0) -> None:
        self._text = text
        self._kind = kind
        self._wording = wording
        self._number = number  # of the next record
        self._named = 0
        self._most_problems = min(LEAST_PROBLEMS + len(text) // PROBLEM_BYTES, MOST_PROBLEMS)
        self.found = self.objects = 0

    def lines(self, start: int = 0) -> Iterator[Records[T]]:
        """A record a line, from byte ``start`` on; a small body may have them in other lines too."""
        if start == 0:
            if (whole := self._whole(self._kind.one.decode_lines)) is not None:
                yield whole
                return
            if self._is_one_value():
                yield self._one_value()
                return
        line = 1 + self._text.count(b"\n", 0, start)
        yield from self._pieces(lines(self._text, start, line), self._kind.one.decode_lines)

    def array(self) -> Iterator[Records[T]]:
        """The elements of an array.

        Where it breaks, or ends before the body does, what is left is read as lines; where it held no record,
        all of it is, for a line of newline-delimited JSON may begin with a bracket too.
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
        """What follows byte ``start`` as lines, if there is a record among them; whether there is."""
        reading = _Reading(self._text, self._kind, self._wording, number=number)
        yield from reading._once_found(reading.lines(start))
        return reading.found > 0

    def _once_found(self, parts: Iterator[Records[T]]) -> Generator[Records[T], None, list[Records[T]]]:
        """The parts, held back until there is a sound record; what was held back to the end."""
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
        """Whether there are so many problems that nothing more is looked at."""
        return self._named > self._most_problems

    def _whole(self, decode: Callable[[bytes], list[T]]) -> Records[T] | None:
        """All of a body that is small enough to be decoded in one call, if it is sound."""
        if len(self._text) > AT_ONCE_BYTES:
            return None
        try:
            return self._sound(decode(self._text))
        except UNREADABLE:
            return None

    def _is_one_value(self) -> bool:
        """Whether the body is one JSON value, which may be spread over lines."""
        if len(self._text) > MOST_RECORD_BYTES:
            return False
        try:
            msgspec.json.decode(self._text, type=Raw)
        except UNREADABLE:
            return False
        return True

    def _one_value(self) -> Records[T]:
        records: Records[T] = Records()
        self._take(self._text, records)
        return records

    def _elements(self, text: bytes) -> list[T]:
        return self._kind.all.decode(b"[%b]" % text)

    def _together(self, pieces: Pieces, decode: Callable[[bytes], list[T]]) -> Records[T] | None:
        """All of them, decoded in one call; None where that cannot be."""
        begin, end = int(pieces.start[0]), int(pieces.stop[-1])
        if end - begin > AT_ONCE_BYTES:
            return None
        try:
            sound = decode(self._text[begin:end])
        except UNREADABLE:
            return None
        # Between two commas there may be nothing, which is no record either.
        return self._sound(sound) if pieces.line is not None or len(sound) == len(pieces) else None

    def _sound(self, records: list[T]) -> Records[T]:
        begin = self._number
        self._number += len(records)
        self.found += len(records)
        return Records(records, list(range(begin, self._number)))

    def _each(self, pieces: Pieces) -> Records[T]:
        """Each of them by itself."""
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
        """Takes one piece of the body in, which stands at that byte or line."""
        position = self._number
        self._number += 1
        begun = text.startswith(b"{")
        long = len(text) > MOST_RECORD_BYTES
        wrong: ValueError | RecursionError | None = None
        if not long and (begun or self._named < MOST_EXPLAINED):
            try:
                records.sound.append(self._kind.one.decode(text))
            except UNREADABLE as error:
                wrong = error
            else:
                records.positions.append(position)
                self.found += 1
                return
        self.objects += begun
        at = f"{self._wording.noun} {position}"
        # The position finds a whole element; only where brackets may be wrong is a byte more of use.
        if word == "line" or (word and not isinstance(wrong, msgspec.ValidationError)):
            at += f" ({word} {place})"
        records.problems.append(ReportProblem(position, self._said(at, text, wrong)))
        self._named += 1

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
        return str(
            ReportError(
                at,
                f"{len(text)} bytes",
                f"a {wording.noun} takes at most {MOST_RECORD_BYTES}",
                "correct the exporter",
            )
        )

    def _note(self, broken: Break) -> Records[T]:
        """What ended an array; raises ``DecodeError`` where nothing before that was like a record."""
        wording = self._wording
        if not self.found and not self.objects:
            raise DecodeError(
                f"body byte {broken.at}",
                broken.received,
                "a JSON array is [object, object, ...]",
                f"send whole JSON; nothing before the break was a {wording.noun}",
            )
        error = ReportError(
            f"body byte {broken.at}",
            broken.received,
            "a JSON array is [object, object, ...]",
            f"send whole JSON; {wording.noun}s before it are kept, and after it those on lines of their own",
        )
        self._number += 1
        return Records(problems=[ReportProblem(self._number - 1, str(error))])
