"""A body's JSON records (one object, an array, NDJSON), each sound or named; knows no field of them.

Imports only msgspec, ``telemetry.errors``, ``telemetry.report`` and its neighbours ``body`` and ``problem``.
The body is decoded in one call where every record is sound; only a body with a bad one is taken apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec
from msgspec import Raw

from telemetry.decode.body import Piece, array_pieces, line_pieces
from telemetry.decode.problem import Wording, broken_json, explained
from telemetry.errors import DecodeError, ReportError
from telemetry.report import ReportProblem

UNREADABLE = (ValueError, RecursionError)
"""msgspec's own errors are ValueErrors; so is the one it lets through for text that is not UTF-8."""

MOST_PROBLEMS = 100_000
"""Of one body: a problem takes more room than what it is about."""

_MOST_RAW = 8_000_000

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
    """The sound records of a body, their positions in it (None: 0, 1, 2, ...), and the problems of the
    rest.
    """

    sound: list[T]
    positions: list[int] | None
    problems: list[ReportProblem]

    @classmethod
    def read(cls, text: bytes, kind: Kind[T], wording: Wording) -> Records[T]:
        """Records of that kind; raises ``DecodeError`` where the body holds none at all."""
        first = text[:4096].lstrip()[:1] or text.lstrip()[:1]
        if first == b"[":
            try:
                return cls(kind.all.decode(text), None, [])
            except UNREADABLE:
                return _salvaged_array(text, kind, wording)
        if first == b"{":
            try:
                return cls(kind.one.decode_lines(text), None, [])
            except UNREADABLE:
                return _each(_object_pieces(text), kind, wording)
        if not any(piece.text.startswith(b"{") for piece in line_pieces(text)):
            received = repr(text.lstrip()[:40].decode("utf-8", "replace")) if first else "nothing"
            raise DecodeError(
                "body",
                received,
                f"{wording.plural} are a JSON object, an array of objects, or one object a line",
                f"see the format of {wording.plural}",
            )
        return _each(line_pieces(text), kind, wording)


def _object_pieces(text: bytes) -> Iterable[Piece]:
    # A lone object may be spread over lines; only when it is not one object are the lines the records.
    try:
        msgspec.json.decode(text, type=Raw)
    except UNREADABLE:
        return line_pieces(text)
    return [Piece(text, "")]


def _salvaged_array(text: bytes, kind: Kind[T], wording: Wording) -> Records[T]:
    try:
        raws = msgspec.json.decode(text, type=list[Raw]) if text.count(b",") < _MOST_RAW else None
    except UNREADABLE:
        raws = None
    if raws is None:
        found = array_pieces(text)
        records = _each(found.pieces, kind, wording)
        if found.break_place is not None:
            if not records.sound and not any(piece.text.startswith(b"{") for piece in found.pieces):
                raise DecodeError(
                    f"body {found.break_place}",
                    found.break_received,
                    "a JSON array is [object, object, ...]",
                    f"send whole JSON; nothing before the break was a {wording.noun}",
                )
            error = ReportError(
                f"body {found.break_place}",
                found.break_received,
                "a JSON array is [object, object, ...]",
                f"send whole JSON; {wording.noun}s before the break are kept, the rest is lost",
            )
            records.problems.append(ReportProblem(len(found.pieces), str(error)))
        return records
    return _each((Piece(bytes(raw), "") for raw in raws), kind, wording)


def _each(pieces: Iterable[Piece], kind: Kind[T], wording: Wording) -> Records[T]:
    sound: list[T] = []
    positions: list[int] = []
    problems: list[ReportProblem] = []
    for position, piece in enumerate(pieces):
        at = f"{wording.noun} {position}" + (f" ({piece.place})" if piece.place else "")
        if len(problems) == MOST_PROBLEMS:
            said = ReportError(
                at,
                f"it after {MOST_PROBLEMS} that cannot be used",
                f"a body holds {wording.plural}",
                f"correct the exporter; this {wording.noun} and what follows were not looked at",
            )
            problems.append(ReportProblem(position, str(said)))
            break
        try:
            sound.append(kind.one.decode(piece.text))
            positions.append(position)
        except msgspec.ValidationError as error:
            said = explained(at, piece.text, str(error), field="", wording=wording)
            problems.append(ReportProblem(position, str(said)))
        except UNREADABLE as error:
            said = broken_json(at, piece.text, str(error), wording)
            problems.append(ReportProblem(position, str(said)))
    return Records(sound, positions, problems)
