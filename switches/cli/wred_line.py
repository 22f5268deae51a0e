"""What EOS and NX-OS share: Kmin, Kmax and Pmax of a queue are one line of an indented configuration."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import msgspec

from switches.adapter import DeviceAdapter, check_apply_allowed, recorded, staged
from switches.base import QueueWatermark, Reading, StagedChange
from switches.device import Device
from switches.errors import CapabilityError
from switches.transport.http import needs_password
from switches.units import DeviceWatermark, WatermarkUnits, from_device, named_unit_bytes, to_device
from twin.watermark import Watermark

Section: TypeAlias = "dict[str, Section]"


def sections(text: str) -> Section:
    """A configuration nested by indentation; repeated lines are merged, comments and blanks dropped."""
    root: Section = {}
    above: list[tuple[int, Section]] = [(-1, root)]
    for line in text.splitlines():
        words = " ".join(line.split())
        if not words or words.startswith("!"):
            continue
        indent = len(line) - len(line.lstrip())
        while above[-1][0] >= indent:
            above.pop()
        above.append((indent, above[-1][1].setdefault(words, {})))
    return root


def below(section: Mapping[str, Section], starts: str) -> Iterable[tuple[str, Section]]:
    """For each line that begins with ``start``: its rest, and the lines nested below it."""
    for line, inner in section.items():
        if line.startswith(starts):
            yield line.removeprefix(starts).strip(), inner


@dataclass(frozen=True, slots=True)
class Grammar:
    """``starts`` begins every line that may hold a watermark; ``line`` matches one that does.

    Its groups are kmin, kmin_unit, kmax, kmax_unit, pmax (percent), weight, and ecn where a line may also
    drop without marking. ``template`` writes one, in one of ``units``, thresholds from 1 to ``highest``.
    """

    starts: str
    line: re.Pattern[str]
    template: str
    units: tuple[str, ...]
    highest: int


@dataclass(frozen=True, slots=True)
class Spot:
    """The place of a queue's line in the configuration: the lines above it, and its watermark now."""

    path: tuple[str, ...]
    place: str
    queue: int
    line: str | None
    watermark: Watermark | None
    weight: int = 0

    @property
    def running(self) -> QueueWatermark:
        return QueueWatermark(self.place, self.queue, self.watermark)


class _Line(msgspec.Struct, frozen=True):
    """A spot as recorded, from which another process can restore it."""

    path: list[str]
    place: str
    queue: int
    line: str | None


class _Record(msgspec.Struct, frozen=True):
    lines: list[_Line]


class WredLineAdapter(DeviceAdapter):
    """One switch whose watermarks are lines of ``grammar``."""

    def __init__(
        self, device: Device, grammar: Grammar, *, kilo_bytes: int, clock_ns: Callable[[], int]
    ) -> None:
        needs_password(device)
        super().__init__(device, clock_ns)
        self._grammar = grammar
        self._kilo_bytes = kilo_bytes
        name = device.units.thresholds or "bytes"
        if name not in grammar.units:
            raise device.wrong_unit(", ".join(grammar.units))
        size = Fraction(self._unit_bytes(device.where, name))
        self._units = WatermarkUnits(name=name, unit_bytes=size, lowest=1, highest=grammar.highest)

    @abstractmethod
    def _spots(self) -> list[Spot]:
        """Where the watermarks of the wanted ports are configured."""

    @abstractmethod
    def _make(self, change: StagedChange, spots: list[Spot]) -> None:
        """Writes the lines returned by ``_lines_of``."""

    def read(self) -> Reading:
        return self._now(self._spots())

    def stage(self, watermark: Watermark, change_id: str) -> StagedChange:
        spots = self._spots()
        rounded = to_device(watermark, self._units)
        undo = _Record([_Line(list(one.path), one.place, one.queue, one.line) for one in spots])
        return staged(change_id, self._now(spots), watermark, rounded, msgspec.to_builtins(undo))

    def apply(self, change: StagedChange) -> None:
        spots = self._spots()
        now = self._now(spots)
        if not change.made_in(now):
            check_apply_allowed(change, now, self._device.where)
            self._make(change, spots)

    def _now(self, spots: Iterable[Spot]) -> Reading:
        return self._reading(one.running for one in spots)

    def _spot(self, path: tuple[str, ...], place: str, queue: int, lines: Iterable[str]) -> Spot:
        """The watermark in the lines below ``path``; raises ``CapabilityError`` where they give none that can
        be read.
        """
        found = [line for line in lines if line.startswith(self._grammar.starts)]
        if not found:
            return Spot(path, place, queue, None, None)
        where = f"{self._device.where} {place} queue {queue}"
        match = self._grammar.line.fullmatch(found[0])
        if len(found) > 1 or match is None:
            rule = "one line gives both thresholds with their unit, and the probability"
            remedy = "set one so by hand once; it is changed from here after that"
            raise CapabilityError(where, "; ".join(repr(line) for line in found), rule, remedy)
        said = match.groupdict()
        weight = int(said["weight"] or 0)
        if not said.get("ecn", True) or int(said["pmax"]) == 0:
            return Spot(path, place, queue, found[0], None, weight)
        marks = DeviceWatermark(
            int(said["kmin"]) * self._unit_bytes(where, said["kmin_unit"]),
            int(said["kmax"]) * self._unit_bytes(where, said["kmax_unit"]),
            int(said["pmax"]),
        )
        return Spot(path, place, queue, found[0], from_device(marks, WatermarkUnits()), weight)

    def _unit_bytes(self, where: str, name: str) -> int:
        cell_bytes = self._device.units.cell_bytes
        return named_unit_bytes(where, name, cell_bytes=cell_bytes, kilo_bytes=self._kilo_bytes)

    def _lines_of(self, change: StagedChange, spots: Iterable[Spot]) -> list[tuple[tuple[str, ...], str]]:
        """The line to write for each queue of the change, with its place; the weight stays."""
        asked = to_device(change.after, self._units).device
        wanted = {(queue.port, queue.queue) for queue in change.before}
        values = {"kmin": asked.kmin, "kmax": asked.kmax, "unit": self._units.name, "pmax": asked.pmax}
        return [
            (one.path, self._grammar.template.format(**values, weight=one.weight))
            for one in spots
            if (one.place, one.queue) in wanted
        ]


def undoing(change: StagedChange, spots: Iterable[Spot], where: str) -> list[tuple[tuple[str, ...], str]]:
    """The line for each queue that lacks its old one, with its place: the old line, or ``no`` and the new
    one.
    """
    now = {(one.place, one.queue): one.line for one in spots}
    found = []
    for was in recorded(change, _Record, where).lines:
        today = now.get((was.place, was.queue))
        if was.line != today:
            found.append((tuple(was.path), f"no {today}" if was.line is None else was.line))
    return found
