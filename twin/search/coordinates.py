"""What may be set together: a watermark, other watermarks for ports of some roles, and what the NICs run.

Each coordinate is one number or choice of it, with the range that hardware takes. Ranges of NIC values are
those of NVIDIA's ConnectX parameters as two published tuners use them (Paraleon's released code; China
Unicom's co-tuning, table 1), without 0 for times, rates and steps; docs/twin/co-tuning.md lists them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, Protocol, get_args

from telemetry.topology import GBPS
from twin.errors import ParameterError, check_known
from twin.scenario import Scenario
from twin.senders.dcqcn import MICROSECOND, DcqcnParams
from twin.watermark import RoleWatermarks, Setting, Watermark, WatermarkBounds

What = Literal["watermark", "roles", "nic", "path"]
WHAT: tuple[What, ...] = get_args(What)

_FACTORS = (1 / 16, 1 / 4, 4.0, 16.0)  # of the present value, in a screening
_SPREAD = 0.5  # of the logarithm, of a draw near a leader
_FLIPS = 1.5  # a choice changes where a standard normal lies beyond: 13 % of the draws


@dataclass(frozen=True, slots=True)
class Settings:
    """One candidate: the watermark of most ports, those of other roles, and the DCQCN of senders.

    ``by_class``: what NICs of a class run instead of a value of ``senders``, as the class, the field of
    ``DcqcnParams`` and its value, sorted by the first two.
    """

    watermark: Watermark
    senders: DcqcnParams
    by_role: tuple[tuple[str, Watermark], ...] = ()
    by_class: tuple[tuple[str, str, Any], ...] = ()

    @property
    def marks(self) -> Setting:
        """What the engines take as the watermark."""
        return RoleWatermarks.of(self.watermark, dict(self.by_role))

    def of_class(self, nic_class: str) -> DcqcnParams:
        """What senders of that class run; of no class ("") ``senders``."""
        own = self.own_of(nic_class)
        return replace(self.senders, **own) if own else self.senders

    @property
    def dcqcn_by_class(self) -> tuple[tuple[str, DcqcnParams], ...]:
        """Classes that run something else than ``senders``."""
        every = ((name, self.of_class(name)) for name in sorted({one[0] for one in self.by_class}))
        return tuple((name, params) for name, params in every if params != self.senders)

    def own_of(self, nic_class: str) -> Mapping[str, Any]:
        """The values that a class has for itself, by field."""
        return {field: value for name, field, value in self.by_class if name == nic_class}

    def with_own(self, nic_class: str, field: str, value: Any) -> Settings:
        """These with that value for a class itself."""
        others = self.without_own(nic_class, field).by_class
        return replace(
            self, by_class=tuple(sorted((*others, (nic_class, field, value)), key=lambda one: one[:2]))
        )

    def without_own(self, nic_class: str, field: str) -> Settings:
        """These where a class runs that value as ``senders`` do."""
        return replace(self, by_class=tuple(one for one in self.by_class if one[:2] != (nic_class, field)))

    def of_role(self, role: str) -> Watermark:
        return dict(self.by_role).get(role, self.watermark)

    def with_role(self, role: str, watermark: Watermark) -> Settings:
        """These with that watermark for ports of that role."""
        others = dict(self.by_role) | {role: watermark}
        kept = {name: mark for name, mark in others.items() if mark != self.watermark}
        return replace(self, by_role=tuple(sorted(kept.items())))


class Coordinate(Protocol):
    """One thing that can be set by itself. ``kind`` is what an operator allows by ``tuning.what``."""

    @property
    def name(self) -> str: ...

    @property
    def unit(self) -> str: ...

    @property
    def kind(self) -> What: ...

    def value(self, settings: Settings) -> float | None:
        """What ``settings`` have, in ``unit``; None: off."""
        ...

    def taken_from(self, settings: Settings, other: Settings) -> Settings:
        """``settings`` with this one as ``other`` has it."""
        ...

    def tried(self, settings: Settings) -> list[Settings]:
        """``settings`` with other values of this one, each once, over the range that hardware takes."""
        ...

    def near(self, settings: Settings, normal: float) -> Settings:
        """``settings`` with this one moved a little, by a draw of the standard normal distribution."""
        ...


@dataclass(frozen=True, slots=True)
class SenderValue:
    """A whole number of a NIC, ``si`` of its field of ``DcqcnParams`` each, from ``low`` to ``high``: of NICs
    of ``nic_class``, or ("") of all that have none of their own.
    """

    name: str
    field: str
    unit: str
    si: float
    low: int
    high: int
    kind: What = "nic"
    nic_class: str = ""

    def value(self, settings: Settings) -> float:
        return float(getattr(settings.of_class(self.nic_class), self.field) / self.si)

    def taken_from(self, settings: Settings, other: Settings) -> Settings:
        return _taken(settings, other, self.field, self.nic_class)

    def tried(self, settings: Settings) -> list[Settings]:
        now = max(self.value(settings), self.low)
        found = dict.fromkeys(self._at(settings, factor * now) for factor in _FACTORS)
        return [one for one in found if one != settings]

    def near(self, settings: Settings, normal: float) -> Settings:
        return self._at(settings, max(self.value(settings), self.low) * math.exp(_SPREAD * normal))

    def _at(self, settings: Settings, value: float) -> Settings:
        whole = min(max(round(value), self.low), self.high)
        return _with(settings, self.field, whole * self.si, self.nic_class)


@dataclass(frozen=True, slots=True)
class SenderChoice:
    """A switch of a NIC: one of the ``choices`` of its field of ``DcqcnParams``; ``nic_class`` is as of
    ``SenderValue``.
    """

    name: str
    field: str
    unit: str
    choices: tuple[float | bool | None, ...]
    kind: What = "nic"
    nic_class: str = ""

    def value(self, settings: Settings) -> float | None:
        found = getattr(settings.of_class(self.nic_class), self.field)
        return None if found is None else float(found)

    def taken_from(self, settings: Settings, other: Settings) -> Settings:
        return _taken(settings, other, self.field, self.nic_class)

    def tried(self, settings: Settings) -> list[Settings]:
        now = getattr(settings.of_class(self.nic_class), self.field)
        others = [choice for choice in self.choices if choice != now]
        return [_with(settings, self.field, choice, self.nic_class) for choice in others]

    def near(self, settings: Settings, normal: float) -> Settings:
        return next(iter(self.tried(settings)), settings) if abs(normal) > _FLIPS else settings


def _with(settings: Settings, field: str, value: Any, nic_class: str) -> Settings:
    if not nic_class:
        return replace(settings, senders=replace(settings.senders, **{field: value}))
    if value == getattr(settings.senders, field):
        return settings.without_own(nic_class, field)
    return settings.with_own(nic_class, field, value)


def _taken(settings: Settings, other: Settings, field: str, nic_class: str) -> Settings:
    if not nic_class:
        return _with(settings, field, getattr(other.senders, field), "")
    own = other.own_of(nic_class)
    if field not in own:
        return settings.without_own(nic_class, field)
    # Also where ``senders`` have that value now: whatever they run next, the class keeps its own.
    return settings.with_own(nic_class, field, own[field])


@dataclass(frozen=True, slots=True)
class RoleThresholds:
    """Kmin of the ports of one role, in bytes; Kmax moves with it, Pmax stays."""

    role: str
    bounds: WatermarkBounds
    unit: str = "B"
    kind: What = "roles"

    @property
    def name(self) -> str:
        return f"Kmin {self.role}"

    def value(self, settings: Settings) -> float:
        return settings.of_role(self.role).kmin_bytes

    def taken_from(self, settings: Settings, other: Settings) -> Settings:
        own = dict(other.by_role).get(self.role, settings.watermark)
        return settings.with_role(self.role, own)

    def tried(self, settings: Settings) -> list[Settings]:
        return [found for factor in _FACTORS for found in self._scaled(settings, factor)]

    def near(self, settings: Settings, normal: float) -> Settings:
        return next(iter(self._scaled(settings, math.exp(_SPREAD * normal))), settings)

    def _scaled(self, settings: Settings, factor: float) -> list[Settings]:
        """None where the thresholds would leave the bounds."""
        now = settings.of_role(self.role)
        kmin, kmax = (max(1, round(factor * one / 1000)) * 1000 for one in (now.kmin_bytes, now.kmax_bytes))
        moved = Watermark(kmin, max(kmax, kmin + 1000), now.pmax)
        return [settings.with_role(self.role, moved)] if self.bounds.contains(moved) else []


_MBPS = GBPS / 1000
SENDERS: tuple[SenderValue | SenderChoice, ...] = (
    SenderValue("additive increase", "ai_rate_bytes_per_s", "Mbit/s", _MBPS, 1, 500),
    SenderValue("hyper increase", "hai_rate_bytes_per_s", "Mbit/s", _MBPS, 10, 5000),
    # At most Unicom's default: no mark brings an incast below its senders' number times this.
    SenderValue("lowest rate", "min_rate_bytes_per_s", "Mbit/s", _MBPS, 1, 100),
    SenderValue("alpha period", "alpha_timer_s", "µs", MICROSECOND, 1, 100),
    SenderValue("gain g", "gain", "/1024", 1 / 1024, 1, 1023),
    SenderValue("cut interval", "cnp_interval_s", "µs", MICROSECOND, 1, 100),
    SenderValue("increase period", "increase_timer_s", "µs", MICROSECOND, 1, 1500),
    SenderValue("fast recovery", "fast_recovery_steps", "steps", 1, 1, 31),
    SenderValue("first alpha", "initial_alpha", "/1024", 1 / 1024, 1, 1023),
    SenderChoice("byte counter", "byte_counter_bytes", "B", (None, 32_767)),
    SenderChoice("clamp of the target rate", "clamp_target_rate", "", (False, True)),
)


MOST_CLASSES = 4
"""Classes of NICs that are set by themselves; further ones run what all others do."""

SenderBounds = tuple[tuple[str, float, float], ...]
"""Fields of ``DcqcnParams``, with the least and the most that each is tried at, in its coordinate's unit."""


def senders_within(bounds: SenderBounds) -> tuple[SenderValue | SenderChoice, ...]:
    """All sender values, those of ``bounds`` in a narrower range than hardware takes.

    Raises ``ParameterError`` for a field that is not tried, and for bounds without a value that is.
    """
    found = {one.field: one for one in SENDERS}
    for field, low, high in bounds:
        check_known("search sender_bounds", field, found, "values of senders")
        found[field] = _within(next(one for one in SENDERS if one.field == field), low, high)
    return tuple(found.values())


def _within(one: SenderValue | SenderChoice, low: float, high: float) -> SenderValue | SenderChoice:
    if isinstance(one, SenderValue):
        least, most = max(one.low, math.ceil(low)), min(one.high, math.floor(high))
        if least <= most:
            return replace(one, low=least, high=most)
        tried = f"{one.low} to {one.high}"
    else:
        kept = tuple(choice for choice in one.choices if low <= float(choice or 0) <= high)
        if kept:
            return replace(one, choices=kept)
        tried = " or ".join(f"{float(choice or 0):g}" for choice in one.choices)
    where, unit = f"search sender_bounds {one.field}", f" {one.unit}".rstrip()
    rule = f"bounds hold a value that is tried, of {tried}{unit}"
    raise ParameterError(where, f"{low:g} to {high:g}", rule, "widen them")


def coordinates(
    what: Sequence[What], scenario: Scenario, bounds: WatermarkBounds, senders: SenderBounds = ()
) -> tuple[Coordinate, ...]:
    """All that may be set beside the watermark. Roles count where monitored ports have several; paths are no
    coordinate (``twin.paths``).
    """
    found: list[Coordinate] = []
    if "roles" in what:
        roles = sorted({role for port in scenario.monitored if (role := scenario.port_roles[port])})
        found += [RoleThresholds(role, bounds) for role in roles if len(roles) > 1]
    if "nic" in what:
        found += senders_within(senders)
    return tuple(found)


def running(
    watermark: Watermark, scenario: Scenario, by_role: tuple[tuple[str, Watermark], ...] = ()
) -> Settings:
    """That watermark with what the scenario's hosts run."""
    own = tuple(
        (name, one.name, getattr(params, one.name))
        for name, params in sorted(scenario.dcqcn_by_class.items())
        for one in sorted(fields(params), key=lambda one: one.name)
        if getattr(params, one.name) != getattr(scenario.dcqcn, one.name)
    )
    return Settings(watermark, scenario.dcqcn, by_role, own)


def classes_set(scenario: Scenario) -> tuple[str, ...]:
    """The classes of NICs that are set by themselves, those of most hosts that send DCQCN; none where all are
    alike.
    """
    sending = set(scenario.flows.src) - scenario.senders.keys()
    count = Counter(scenario.nic_class.get(host, "") for host in sending)
    if len(count) == 1 and not count.keys() & scenario.dcqcn_by_class.keys():
        return ()
    named = sorted(count.keys() - {""}, key=lambda name: (-count[name], name))
    return tuple(sorted(named[:MOST_CLASSES]))


def class_coordinates(
    what: Sequence[What], scenario: Scenario, senders: SenderBounds
) -> tuple[Coordinate, ...]:
    """Every value of NICs for each class by itself."""
    if "nic" not in what:
        return ()
    return tuple(
        replace(one, name=f"{one.name} of {name}", nic_class=name)
        for name in classes_set(scenario)
        for one in senders_within(senders)
    )
