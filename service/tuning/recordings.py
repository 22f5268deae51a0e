"""Recordings and options that commands read from files and arguments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from service.tuning.round import Ask
from settings.errors import InputError
from settings.load import read_bytes
from telemetry.decode.json import decode
from telemetry.errors import DecodeError
from telemetry.report import ReportProblem
from telemetry.settings import WindowSettings
from telemetry.state import NetworkState
from telemetry.topology import Topology
from telemetry.window.window import Window
from twin.errors import WatermarkError
from twin.units import BYTES, SHARE, quantity
from twin.watermark import Watermark

MOST_FILE_BYTES = 4 << 30


@dataclass(frozen=True, slots=True)
class Recording:
    """A file of reports as one window; ``problems`` are of the reports left out, ``unread`` keys of the first
    that no report has.
    """

    state: NetworkState
    accepted: int
    rejected: int
    problems: tuple[ReportProblem, ...]
    unread: tuple[str, ...]


def parse_watermark(given: str, option: str) -> Watermark:
    """``KMIN,KMAX,PMAX``, such as ``400KB,1.6MB,20%``; raises ``InputError``."""
    parts = given.split(",")
    try:
        kmin, kmax, pmax = (
            quantity(option, part, units) for part, units in zip(parts, (BYTES, BYTES, SHARE), strict=True)
        )
    except ValueError as error:
        raise InputError(
            option,
            repr(given),
            "it is KMIN,KMAX,PMAX: two sizes and a probability",
            "give such as 400KB,1.6MB,20% or 400000,1600000,0.2",
        ) from error
    try:
        return Watermark(kmin, kmax, pmax)  # type: ignore[arg-type] # it checks
    except WatermarkError as error:
        raise InputError(f"{option} {error.where}", error.received, error.rule, error.remedy) from error


def read_recording(reports: Path, topology: Topology | None) -> Recording:
    """All reports of a file in one window. Raises ``WindowError`` and ``InputError``."""
    try:
        decoded = decode(read_bytes(reports, "reports"), max_body_bytes=MOST_FILE_BYTES)
    except DecodeError as error:
        raise InputError(f"reports {reports.name}", error.received, error.rule, error.remedy) from error
    if decoded.errors and len(decoded.batch) == 0:
        raise _none_usable(reports, decoded.errors)
    window = Window(WindowSettings.covering(decoded.batch), topology)
    added = window.add(decoded.batch)
    problems = tuple(sorted([*decoded.errors, *added.errors]))
    if added.accepted == 0 and problems:
        raise _none_usable(reports, problems)
    rejected = len(decoded.errors) + added.rejected
    return Recording(window.state(), added.accepted, rejected, problems, decoded.unread)


def _none_usable(reports: Path, problems: Sequence[ReportProblem]) -> InputError:
    return InputError(
        f"reports {reports.name}",
        f"{len(problems)} reports, none of them usable; the first because {problems[0].detail}",
        "a round needs usable reports",
        "correct the exporter or the topology",
    )


def with_candidates(ask: Ask, candidates: int) -> Ask:
    """The search settings for ``candidates`` in the first draw, and at most a quarter as many more in the
    second.
    """
    narrowed = min(ask.search.narrowed, candidates // 4)
    return replace(ask, search=replace(ask.search, candidates=candidates, narrowed=narrowed))
