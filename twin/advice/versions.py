"""The versions of an artefact: numbered files beside the one that the service reads."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from twin.advice.artefact import SHIPPED, Learnt, read
from twin.errors import ParameterError

SHIPPED_VERSION = 0


@dataclass(frozen=True, slots=True)
class Version:
    """``in_use``: the file that the service reads is the same."""

    number: int
    file: Path
    learnt: Learnt
    in_use: bool


def listed(file: Path) -> list[Version]:
    """The versions beside ``file``, the oldest first; raises ``ParameterError`` where one cannot be read."""
    now = file.read_bytes() if file.is_file() else None
    return [Version(number, one, read(one), one.read_bytes() == now) for number, one in _numbered(file)]


def in_use(file: Path) -> int | None:
    """The number of the version that ``file`` is the same as, 0 for what comes with ecntwin; None where it is
    none of them. Raises ``OSError``.
    """
    now = file.read_bytes()
    if now == SHIPPED.read_bytes():
        return SHIPPED_VERSION
    return next((number for number, one in reversed(_numbered(file)) if one.read_bytes() == now), None)


def add(file: Path, learnt: Learnt) -> int:
    """Writes it as the newest version and as the one in use, and returns its number. A file that is no
    version becomes one first, so that there is a way back to it.
    """
    known = listed(file)
    number = known[-1].number + 1 if known else SHIPPED_VERSION + 1
    before = next((one.number for one in reversed(known) if one.in_use), SHIPPED_VERSION)
    if file.is_file() and before == SHIPPED_VERSION and file.read_bytes() != SHIPPED.read_bytes():
        _write(_beside(file, number), file.read_bytes())
        before, number = number, number + 1
    provenance: dict[str, Any] = {"version": number, "before": before, **learnt.provenance}
    body = msgspec.json.encode(msgspec.structs.replace(learnt, provenance=provenance)) + b"\n"
    _write(_beside(file, number), body)
    _write(file, body)
    return number


def back(file: Path) -> int:
    """Puts the version in use when the current one was made in its place again, and returns its number; 0 is
    what comes with ecntwin. Raises ``ParameterError`` where there is none.
    """
    where = f"advice {file.name}"
    current = next((one for one in reversed(listed(file)) if one.in_use), None)
    if current is None:
        rule, remedy = "it is none of the versions beside it", "name the file of one in tuning.advice_file"
        raise ParameterError(where, None, rule, remedy)
    before = current.learnt.provenance.get("before")
    if not isinstance(before, int):
        rule, remedy = "it replaced no other version", "name another file in tuning.advice_file, or none"
        raise ParameterError(where, f"version {current.number}", rule, remedy)
    source = SHIPPED if before == SHIPPED_VERSION else _beside(file, before)
    read(source)  # one that is gone or damaged is not put in use
    _write(file, source.read_bytes())
    return before


def _numbered(file: Path) -> list[tuple[int, Path]]:
    form = re.compile(re.escape(file.stem) + r"-(\d+)" + re.escape(file.suffix))
    found = ((match, one) for one in file.parent.glob("*") if (match := form.fullmatch(one.name)))
    return sorted((int(match[1]), one) for match, one in found)


def _beside(file: Path, number: int) -> Path:
    return file.with_name(f"{file.stem}-{number}{file.suffix}")


def _write(file: Path, body: bytes) -> None:
    """All of it or nothing, also where the machine stops; raises ``ParameterError``."""
    part = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with part.open("wb") as out:
            out.write(body)
            out.flush()
            os.fsync(out.fileno())
        part.replace(file)
    except OSError as error:
        part.unlink(missing_ok=True)
        rule, remedy = f"it cannot be written ({error.strerror})", "make its folder writable"
        raise ParameterError(f"advice {file.name}", None, rule, remedy) from error
