"""What EOS and NX-OS share: Kmin, Kmax and Pmax of a queue are one line of an indented configuration."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated, ClassVar

import msgspec

from switches.adapter import (
    DeviceAdapter,
    check_apply_allowed,
    check_undo_allowed,
    left_to_others,
    recorded,
    set_by_others,
    shortened,
    staged,
)
from switches.base import QueueWatermark, Reading, StagedChange
from switches.cli.policies import Line, Policies, Section
from switches.device import Device
from switches.errors import CapabilityError, InventoryError
from switches.transport.http import needs_password
from switches.units import DeviceWatermark, WatermarkUnits, from_device, named_unit_bytes, to_device
from twin.watermark import Watermark

Bytes = Annotated[int, msgspec.Meta(ge=1)]


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
    """For each line that begins with ``starts``: its rest, and the lines nested below it."""
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
    """The place of a queue's line in the configuration: the lines above it (none: it has no place), and its
    watermark now. ``policy`` is the one it stands in, where that matters.
    """

    path: tuple[str, ...]
    place: str
    queue: int
    line: str | None
    watermark: Watermark | None
    weight: int = 0
    policy: str | None = None

    @property
    def running(self) -> QueueWatermark:
        return QueueWatermark(self.place, self.queue, self.watermark)


class _Line(msgspec.Struct, frozen=True):
    """A spot as recorded, from which another process can restore it."""

    path: list[str]
    place: str
    queue: int
    line: str | None


class _Record(msgspec.Struct, frozen=True, omit_defaults=True):
    """``bound`` is the policy that each port of a role names itself."""

    lines: list[_Line]
    bound: dict[str, str | None] = {}


@dataclass(frozen=True, slots=True)
class Found:
    """The places of the wanted queues' lines, and the policies of the switch."""

    spots: list[Spot]
    policies: Policies


class WredLineAdapter(DeviceAdapter):
    """One switch whose watermarks are lines of ``grammar``. ``later``: a call may take effect after it."""

    later: ClassVar[bool] = False

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
    def _configured(self) -> tuple[Section, Policies]:
        """The running configuration as far as it is shown, and the policies in it."""

    @abstractmethod
    def _shared(self, running: Section, policies: Policies) -> list[Spot]:
        """The places of the inventory's queues where no role is set: each by the name of what holds it."""

    @abstractmethod
    def _queues(self, heading: str, place: str, section: Section, queues: Collection[int]) -> Iterable[Spot]:
        """The places of these queues' lines in the section of that heading."""

    def _in_policies(self, policies: Policies, names: Iterable[str]) -> list[Spot]:
        """The places of the inventory's queues in these policies, each by the name of its policy."""
        return [
            found
            for name in names
            for found in self._queues(
                policies.heading + name, name, policies.named.get(name, {}), self._device.queues
            )
        ]

    def _found(self) -> Found:
        """Where the watermarks of the inventory's queues are configured."""
        running, policies = self._configured()
        if self._device.role is None:
            return Found(self._shared(running, policies), policies)
        return Found(self._by_port(running, policies, self._role_ports, self._device.queues), policies)

    def _found_since(self, change: StagedChange) -> Found:
        """Where the change's queues are configured now, and no others: as its record has them, whatever else
        the ports have been given since. A policy or port that is gone is left out; in one that is there a
        queue without a section has no line.

        Raises ``CapabilityError`` for a line that cannot be read.
        """
        record = recorded(change, _Record, self._device.where)
        running, policies = self._configured()
        if record.bound:
            ports = [
                port
                for port, named in record.bound.items()
                if f"interface {port}" in running or self._is_there(port, named, policies)
            ]
            queues = sorted({line.queue for line in record.lines})
            return Found(self._by_port(running, policies, ports, queues), policies)
        return Found(
            [
                self._spot(tuple(line.path), line.place, line.queue, _lines_at(running, line.path))
                for line in record.lines
                if line.path[0] in running
            ],
            policies,
        )

    def _is_there(self, port: str, named: str | None, policies: Policies) -> bool:
        """Whether a port of a role is on the switch without a section; it ``named`` that policy itself."""
        return False

    @abstractmethod
    def _make(self, change: StagedChange, found: Found) -> None:
        """Writes the lines returned by ``_lines_of``."""

    def read(self) -> Reading:
        return self._now(self._found())

    def stage(self, watermark: Watermark, change_id: str) -> StagedChange:
        found = self._found()
        for one in found.spots:
            if not one.path:
                where = f"{self._device.where} {one.place} queue {one.queue}"
                rule = "the watermark of a port is in the policy applied to it"
                remedy = "apply one that has the queue, or correct queues and ports of the inventory"
                raise CapabilityError(where, "no place for a watermark", rule, remedy)
        rounded = to_device(watermark, self._units)
        left = [
            f"{shortened(ports)}: {found.policies.heading}{own}, a copy of {policy}."
            for policy, own, ports in self._leaving(found)
        ]
        undo = _Record(
            [_Line(list(one.path), one.place, one.queue, one.line) for one in found.spots],
            {port: found.policies.bound.get(port) for port in self._role_ports},
        )
        return staged(
            change_id,
            self._now(found),
            watermark,
            replace(rounded, notes=(*rounded.notes, *left)),
            msgspec.to_builtins(undo),
        )

    def apply(self, change: StagedChange) -> None:
        found = self._found()
        if not change.made_in(self._now(found)):
            check_apply_allowed(change, self._attached(change, found), self._device.where)
            self._make(change, found)

    @property
    def _role_ports(self) -> tuple[str, ...]:
        return self._device.ports if self._device.role is not None else ()

    def _now(self, found: Found) -> Reading:
        return self._reading(one.running for one in found.spots)

    def _seen(self, change: StagedChange) -> Reading:
        return self._now(self._found_since(change))

    def _by_port(
        self, running: Section, policies: Policies, ports: Iterable[str], queues: Collection[int]
    ) -> list[Spot]:
        """The queues of a role's ports, each by the name of its port."""
        spots: list[Spot] = []
        for port in ports:
            policy = policies.of(port) or ""
            placed = self._queues(policies.heading + policy, port, policies.named.get(policy, {}), queues)
            spots += [replace(one, policy=policy) for one in placed] or [
                Spot((), port, queue, None, None) for queue in queues
            ]
        return spots

    def _leaving(self, found: Found) -> Iterable[tuple[str, str, list[str]]]:
        """Each policy that ports of the role leave, the one they get, and these ports."""
        if self._device.role is None:
            return
        ports = set(self._role_ports)
        for policy in sorted({one.policy for one in found.spots if one.policy is not None}):
            own = found.policies.own(self._device.role, policy, ports)
            if own != policy:
                yield policy, own, sorted({one.place for one in found.spots if one.policy == policy})

    def _attached(self, change: StagedChange, found: Found) -> Reading:
        """What runs, or will: a port between its old policy and the new one runs what it did before."""
        if not found.policies.detached:
            return self._now(found)
        bound = recorded(change, _Record, self._device.where).bound
        before = {(one.port, one.queue): one for one in change.before}
        return self._reading(
            one.running
            if bound.get(one.place) is None or one.place in found.policies.bound
            else before.get((one.place, one.queue), one.running)
            for one in found.spots
        )

    def _spot(self, path: tuple[str, ...], place: str, queue: int, lines: Iterable[str]) -> Spot:
        """The watermark in the lines below ``path``; raises ``CapabilityError`` where they give none that can
        be read.
        """
        found = [line for line in lines if line.startswith(self._grammar.starts)]
        if not found:
            return Spot(path, place, queue, None, None)
        try:
            return self._read_in(path, place, queue, found)
        except InventoryError as error:  # segments without their size
            raise CapabilityError(error.where, repr(found[0]), error.rule, error.remedy) from error

    def _read_in(self, path: tuple[str, ...], place: str, queue: int, found: list[str]) -> Spot:
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
        return Spot(path, place, queue, found[0], from_device(marks, WatermarkUnits(), where), weight)

    def _unit_bytes(self, where: str, name: str) -> int:
        cell_bytes = self._device.units.cell_bytes
        return named_unit_bytes(where, name, cell_bytes=cell_bytes, kilo_bytes=self._kilo_bytes)

    def _lines_of(self, change: StagedChange, found: Found) -> list[Line]:
        """The line to write for each queue of the change, with its place; the weight stays.

        Where ports of a role leave a policy, the copy comes first, and they are bound to it last.
        """
        asked = to_device(change.after, self._units).device
        wanted = {(queue.port, queue.queue) for queue in change.before}
        values = {"kmin": asked.kmin, "kmax": asked.kmax, "unit": self._units.name, "pmax": asked.pmax}
        spots = [one for one in self._placed(change, found) if (one.place, one.queue) in wanted]
        policies, headings = found.policies, dict[str, str]()
        copies, binds = list[Line](), list[Line]()
        for policy, own, ports in self._leaving(Found(spots, policies)):
            headings[policies.heading + policy] = policies.heading + own
            if not policies.users(own):
                copies += policies.copied(policy, own)
            binds += [line for port in ports for line in policies.rebound(port, own)]
        lines = [
            (
                (headings.get(one.path[0], one.path[0]), *one.path[1:]),
                self._grammar.template.format(**values, weight=one.weight),
            )
            for one in spots
        ]
        return [*copies, *dict.fromkeys(lines), *binds]

    def _placed(self, change: StagedChange, found: Found) -> list[Spot]:
        """The places; of a port between its old policy and the new one, the place that it had."""
        record = recorded(change, _Record, self._device.where)
        was = {(line.place, line.queue): tuple(line.path) for line in record.lines}
        return [
            one
            if one.path or (one.place, one.queue) not in was
            else replace(one, path=was[one.place, one.queue], policy=record.bound.get(one.place))
            for one in found.spots
        ]

    def _undoing(self, change: StagedChange) -> list[Line]:
        """The lines that restore what each queue ran; raises ``ConcurrentEditError`` if others set it since.

        So they have where the policies that were edited are gone, and there are others. A queue that lacks
        its old line gets it, or ``no`` and the new one. Ports of a role are bound to their old policies.
        Policies of the role without a port go; one that others have given to their ports stays, with the old
        lines.
        """
        with set_by_others():
            found = self._found_since(change)
        where, policies = self._device.where, found.policies
        record = recorded(change, _Record, where)
        bound, lines = dict[str, str | None](), list[Line]()
        edited, shared = record.lines[0].path[0], not record.bound
        if shared and not found.spots and policies.named and edited.startswith(policies.heading):
            raise left_to_others(where, f"other policies, and no {edited}")
        if not change.undone_in(self._now(found)):
            check_undo_allowed(change, self._attached(change, found), where)
            now = {(one.place, one.queue): one for one in found.spots}
            # Of those that are there; one with its lines on the interface was bound to nothing by the change.
            ports = {was.place for was in record.lines if was.path[0].startswith(policies.heading)}
            ports &= {one.place for one in found.spots}
            bound = {port: policy for port, policy in record.bound.items() if port in ports}
            for was in record.lines:
                spot = now.get((was.place, was.queue))
                if spot is None or was.line == spot.line:
                    continue
                place = tuple(was.path)
                if was.place in bound and policies.bound.get(was.place) != bound[was.place]:
                    if not policies.outlasts(spot.policy, self._device.role, bound):
                        continue
                    place = (policies.heading + str(spot.policy), *place[1:])
                lines.append((place, f"no {spot.line}" if was.line is None else was.line))
            lines += [line for port, policy in bound.items() for line in policies.rebound(port, policy)]
        elif self.later and shared and change.changes:
            # The change may still be on its way: the old lines go after it.
            there = {(one.place, one.queue) for one in found.spots if one.line is not None}
            olds = ((tuple(was.path), was.line) for was in record.lines if (was.place, was.queue) in there)
            lines = [(path, line) for path, line in olds if line is not None]
        if self._device.role is not None:
            lines += policies.spare(self._device.role, bound)
        return list(dict.fromkeys(lines))


def _lines_at(running: Section, path: Iterable[str]) -> Section:
    for line in path:
        running = running.get(line, {})
    return running
