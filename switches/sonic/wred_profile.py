"""Rows of WRED_PROFILE as watermarks.

The fields are those of sonic-wred-profile.yang in sonic-buildimage: revision 2021-04-01, and the marking
thresholds apart from dropping (``ecn_green_min_threshold``) of revision 2026-06-23, which not all images have
yet. orchagent rejects a whole row for one unknown field (sonic-swss, orchagent/qosorch.cpp,
``WredMapHandler::convertFieldValuesToAttributes``): a row gets no field it did not have, except those of
2021.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from switches.errors import CapabilityError
from switches.units import DeviceWatermark, WatermarkUnits, from_device
from twin.watermark import Watermark

Row = Mapping[str, str]

UNITS = WatermarkUnits()  # orchagent reads thresholds with stoi: above int32 it throws
OWN = "ECNTWIN_"
_COLOURS = ("green", "yellow", "red")
_LONGEST_LABEL = 8  # a name has 32 characters at most


class MarkFields(NamedTuple):
    """The three fields of one colour's marking."""

    kmin: str
    kmax: str
    pmax: str


def _drop(colour: str) -> MarkFields:
    return MarkFields(f"{colour}_min_threshold", f"{colour}_max_threshold", f"{colour}_drop_probability")


def _mark(colour: str) -> MarkFields:
    return MarkFields(
        f"ecn_{colour}_min_threshold", f"ecn_{colour}_max_threshold", f"ecn_{colour}_mark_probability"
    )


KNOWN_FIELDS = frozenset({"ecn", *(f"wred_{colour}_enable" for colour in _COLOURS)}).union(
    *map(_drop, _COLOURS), *map(_mark, _COLOURS)
)

_ECN_COLOURS = {
    "ecn_none": frozenset[str](),
    "ecn_green": frozenset({"green"}),
    "ecn_yellow": frozenset({"yellow"}),
    "ecn_red": frozenset({"red"}),
    "ecn_green_yellow": frozenset({"green", "yellow"}),
    "ecn_green_red": frozenset({"green", "red"}),
    "ecn_yellow_red": frozenset({"yellow", "red"}),
    "ecn_all": frozenset({"green", "yellow", "red"}),
}
_ECN_NAMES = {colours: name for name, colours in _ECN_COLOURS.items()}


def mark_fields(row: Row, colour: str = "green") -> MarkFields:
    """That colour's fields: thresholds of its own where the row has any, else WRED's."""
    own = _mark(colour)
    return own if any(name in row for name in own) else _drop(colour)


def watermark_in(row: Row, where: str) -> Watermark | None:
    """Green packets' watermark; None where they are not marked.

    Raises ``CapabilityError`` for values that are no marking curve.
    """
    enabled = row.get("wred_green_enable", "false") == "true"
    if not enabled or "green" not in _ECN_COLOURS.get(row.get("ecn", "ecn_none"), frozenset()):
        return None
    fields = zip(mark_fields(row), _drop("green"), ("0", "0", "100"), strict=True)
    kmin, kmax, pmax = (row.get(own, row.get(wred, default)) for own, wred, default in fields)
    try:
        device = DeviceWatermark(int(kmin), int(kmax), int(pmax))
    except ValueError:
        received = f"thresholds {kmin!r} and {kmax!r}, probability {pmax!r}"
        rule = "a WRED profile has whole numbers"
        raise CapabilityError(where, received, rule, "correct the profile on the switch") from None
    if device.pmax == 0:
        return None
    return from_device(device, UNITS, where)


def with_watermark(row: Row, device: DeviceWatermark) -> dict[str, str]:
    """``row`` with that watermark and marking for green packets.

    Yellow and red keep their own values; where these equalled green's, they follow green.
    """
    made = dict(row)
    green = mark_fields(row)
    followers = [green]
    for colour in ("yellow", "red"):
        fields = mark_fields(row, colour)
        names = zip(fields, green, strict=True)
        if all(name in row and row[name] == row.get(other) for name, other in names):
            followers.append(fields)
    for fields in followers:
        made |= {fields.kmin: str(device.kmin), fields.kmax: str(device.kmax), fields.pmax: str(device.pmax)}
    colours = _ECN_COLOURS.get(row.get("ecn", "ecn_none"), frozenset())
    return made | {"wred_green_enable": "true", "ecn": _ECN_NAMES[colours | {"green"}]}


def check_known(name: str, row: Row, where: str) -> None:
    """Raises ``CapabilityError`` for an unknown field in a row that would be copied."""
    unknown = sorted(set(row) - KNOWN_FIELDS)
    if unknown:
        rule = "a profile is copied whole, and only with fields whose meaning is known"
        remedy = "remove the field, or set this switch another way"
        raise CapabilityError(where, f"field {unknown[0]!r} in WRED_PROFILE|{name}", rule, remedy)


def own_prefix(queues: Iterable[int], ports: Iterable[str]) -> str:
    """The prefix of profile names for these queues of these ports, unique on the switch."""
    queues, ports = sorted(queues), sorted(ports)
    label = "Q" + "-".join(map(str, queues))
    return f"{OWN}{label[:_LONGEST_LABEL]}_{_digest([*map(str, queues), *ports], 4)}_"


def own_name(prefix: str, row: Row, attempt: int = 0) -> str:
    """The name of the profile that holds ``row``; ``attempt`` counts names that somebody else uses.

    It follows from the values: a profile is never edited, so its name tells its content. Matches
    ``[a-zA-Z0-9]{1}([-a-zA-Z0-9_]{0,31})``.
    """
    said = [f"{field}={row[field]}" for field in sorted(row)]
    return prefix + _digest([*said, str(attempt)] if attempt else said, 8)


def _digest(said: Iterable[str], digits: int) -> str:
    return hashlib.sha256("\n".join(said).encode()).hexdigest()[:digits]
