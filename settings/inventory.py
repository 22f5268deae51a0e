"""The inventory: a YAML file of switches, read into devices and into what their INT reports need.

A switch's keys override its profile, and that the defaults. Mappings are merged key by key, anything else is
replaced; null removes a value. Secrets are references to an environment variable or a file: no error repeats
a value that may be one.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from functools import reduce
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails

from settings.errors import SettingsError
from settings.load import counted, parse_yaml, read_text
from settings.sections import IntUnitKeys
from settings.validation import HIDDEN, HiddenValueError, Mistake, dotted, in_order, mistake, with_unit
from switches.device import Device, Secret, Tls, UnitProfile
from telemetry.decode.p4.devices import Devices
from telemetry.decode.p4.devices import UnitProfile as IntUnitProfile


class Part(BaseModel):
    """A mapping of the file: unknown keys refused, no NaN or infinity; null is the same as absent; sizes may
    have units (16MB).
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, hide_input_in_errors=True)

    @field_validator("*", mode="before")
    @classmethod
    def _as_people_write_it(cls, given: object, info: ValidationInfo) -> object:
        return with_unit(given, info)


_MOST_ID = 2**32 - 2  # all ones means "not available" in the INT specification


def _number(given: object) -> object:
    """An id, decimal or 0x and hex digits."""
    if isinstance(given, str):
        with suppress(ValueError):
            return int(given, 16 if given[:2].lower() == "0x" else 10)
    if isinstance(given, bool | str):
        raise ValueError("an id is a whole number, decimal or 0x and hex digits")
    return given


def _addresses(given: object) -> object:
    """One address or a list of them, in the form that the receiver uses."""
    every = [given] if isinstance(given, str) else given
    if not isinstance(every, list | tuple):
        return given
    if not every or not all(isinstance(one, str) for one in every):
        raise ValueError("a source is an IPv4 or IPv6 address, or a list of some, as text")
    try:
        found = [ipaddress.ip_address(one) for one in every]
        # A socket for both IP versions shows an IPv4 sender as an IPv4-mapped IPv6 address.
        return tuple(str(getattr(one, "ipv4_mapped", None) or one) for one in found)
    except ValueError as error:
        raise ValueError(f"a source is an IPv4 or IPv6 address: {error}") from None


def _pattern(given: object) -> object:
    if isinstance(given, str) and given.count("{}") != 1:
        raise ValueError("a pattern has {} once, where the interface id stands, such as Ethernet{}")
    return given


WireId = Annotated[int, BeforeValidator(_number), Field(ge=0, le=_MOST_ID)]
PortName = Annotated[str, Field(min_length=1, max_length=256)]


class IntKeys(IntUnitKeys, Part):
    """Keys of a switch under ``int``: its identity in reports, and its units."""

    node_id: WireId | None = None
    source: Annotated[tuple[str, ...] | None, BeforeValidator(_addresses)] = None
    interfaces: dict[WireId, PortName | None] | None = None
    interface_pattern: Annotated[str | None, BeforeValidator(_pattern)] = None


def _reporting(said: Iterable[tuple[str, str, IntKeys]], default: IntUnitProfile | None) -> Devices:
    """The switches that send reports, for the decoder, of names, places in the file and ``int`` keys;
    ``default`` are the units of all others.

    Raises ``SettingsError`` for a missing or duplicate node id, or a duplicate source.
    """
    switches: dict[int, str] = {}
    ports: dict[int, Mapping[int, str]] = {}
    patterns: dict[int, str] = {}
    profiles: dict[int, IntUnitProfile | None] = {}
    sources: dict[str, int] = {}
    for name, where, keys in said:
        node = _own_node(where, keys, switches)
        if node is None:
            continue
        switches[node] = name
        ports[node] = {number: port for number, port in (keys.interfaces or {}).items() if port is not None}
        if keys.interface_pattern is not None:
            patterns[node] = keys.interface_pattern
        profiles[node] = _int_profile(where, keys)
        for address in keys.source or ():
            if sources.setdefault(address, node) != node:
                raise SettingsError(
                    f"{where}.source",
                    f"{address}, {switches[sources[address]]}'s",
                    "each source address belongs to one switch",
                    "correct it",
                )
    return Devices(switches, ports, profiles, default, patterns, sources)


def untuned_in(devices: Devices) -> tuple[str, ...]:
    """The switches that send reports without known units, sorted."""
    return tuple(sorted(name for node, name in devices.switches.items() if devices.profile(node) is None))


def _own_node(where: str, keys: IntKeys, taken: Mapping[int, str]) -> int | None:
    if keys.node_id is None:
        # Without an identity these are only units that defaults and profiles give every switch.
        for key in ("source", "interfaces"):
            if getattr(keys, key) is not None:
                raise SettingsError(
                    f"{where}.node_id", None, f"{key} needs the node id of its reports", "add it"
                )
        return None
    if keys.node_id in taken:
        raise SettingsError(
            f"{where}.node_id",
            f"{keys.node_id}, {taken[keys.node_id]}'s",
            "each node id belongs to one switch",
            "correct it",
        )
    return keys.node_id


def _int_profile(where: str, keys: IntKeys) -> IntUnitProfile | None:
    try:
        return keys.profile()
    except ValueError as error:
        raise SettingsError(
            where, f"occupancy {keys.occupancy or 'not said'}", str(error), "see its documentation"
        ) from error


SECRETS = ("username", "password", "token")
_SECRETS_RULE = (
    "an inventory names the one place of a secret, and never holds it",
    "write {env: NAME} of an environment variable, or {file: PATH} of a mounted file",
)


class SecretKeys(Part):
    """A secret: the name of an environment variable, or a file whose first line it is."""

    env: str | None = Field(default=None, min_length=1)
    file: Path | None = None

    @model_validator(mode="after")
    def _is_in_one_place(self) -> Self:
        if (self.env is None) == (self.file is None):
            raise HiddenValueError(*_SECRETS_RULE)
        return self


class TlsKeys(Part):
    enabled: bool | None = None
    verify: bool | None = None
    ca_file: Path | None = None
    server_name: str | None = None


class UnitKeys(Part):
    thresholds: str | None = None
    cell_bytes: int | None = Field(default=None, ge=1)
    buffer_bytes: int | None = Field(default=None, ge=1)


def _named(given: object) -> object:
    if given is None or isinstance(given, Mapping):
        return given
    raise HiddenValueError(*_SECRETS_RULE)


def _place(given: object) -> object:
    if not isinstance(given, str):
        return given
    if "@" in given:
        raise HiddenValueError(
            "an address holds no user name or password", "name them under username and password"
        )
    if not given or not given.isprintable() or " " in given:
        raise ValueError("an address is a host or a URL, without spaces")
    return given


NamedSecret = Annotated[SecretKeys | None, BeforeValidator(_named)]
Queue = Annotated[int, Field(strict=True, ge=0, le=255)]


class SwitchKeys(Part):
    """Keys of a switch, the defaults and a profile."""

    platform: str | None = None
    address: Annotated[str | None, BeforeValidator(_place)] = None
    port: int | None = Field(default=None, ge=1, le=65_535, strict=True)
    queues: tuple[Queue, ...] | None = Field(default=None, min_length=1)
    ports: tuple[str, ...] | None = None
    username: NamedSecret = None
    password: NamedSecret = None
    token: NamedSecret = None
    tls: TlsKeys | None = None
    units: UnitKeys | None = None
    timeout_s: float | None = Field(default=None, gt=0, le=600)
    settle_s: float | None = Field(default=None, ge=0, le=600)
    options: dict[str, Any] | None = None
    int_: IntKeys | None = Field(default=None, alias="int")


class OneSwitchKeys(SwitchKeys):
    profile: str | None = None


class InventoryKeys(Part):
    defaults: SwitchKeys | None = None
    profiles: dict[str, SwitchKeys | None] | None = None
    switches: dict[str, OneSwitchKeys | None] = Field(min_length=1)


@dataclass(frozen=True, slots=True)
class Inventory:
    """An inventory, read once: ``text`` is the file's, ``folder`` its place."""

    text: str
    folder: Path
    switches: tuple[tuple[str, str, SwitchKeys], ...]
    """Name, place in errors, and keys merged with profile and defaults."""

    @classmethod
    def read(cls, path: Path) -> Inventory:
        """Raises ``SettingsError`` naming the switch and the key."""
        text, source = read_text(path, "inventory"), f"inventory {path.name}"
        return cls(text, path.parent, tuple(_said(parse_yaml(text, source), source)))

    def devices(self) -> Mapping[str, Device]:
        """The switches by name, in the file's order. Relative files are beside it.

        Raises ``SettingsError``. ``check_inventory`` checks what adapters need.
        """
        devices: dict[str, Device] = {}
        hosts: dict[tuple[str, int | None, str], str] = {}
        for name, where, keys in self.switches:
            device = _Making(name, where, self.folder).device(keys)
            first = hosts.setdefault((device.address, device.port, repr(device.options)), name)
            if first != name and device.address and "://" not in device.address:
                raise SettingsError(
                    f"{where}.address", f"{device.address}, {first}'s", "a host is one switch", "correct it"
                )
            devices[name] = device
        return devices

    def reporting(self, default: IntUnitProfile | None = None) -> Devices:
        """INT reporting of the switches; ``default`` are the units of other devices.

        Raises ``SettingsError``.
        """
        said = (
            (name, f"{where}.int", keys.int_) for name, where, keys in self.switches if keys.int_ is not None
        )
        return _reporting(said, default)


def parse(document: Mapping[str, Any], *, source: str, folder: Path) -> Mapping[str, Device]:
    return Inventory("", folder, tuple(_said(document, source))).devices()


def load_inventory(path: Path) -> Mapping[str, Device]:
    return Inventory.read(path).devices()


def load_reporting(path: Path, default: IntUnitProfile | None = None) -> Devices:
    return Inventory.read(path).reporting(default)


def _said(document: Mapping[str, Any], source: str) -> Iterator[tuple[str, str, SwitchKeys]]:
    """Each switch's name, its place in errors, and its keys merged with profile and defaults."""
    _check_names(document, source)
    try:
        InventoryKeys.model_validate(document)
    except ValidationError as error:
        raise counted([_mistake(one, source) for one in in_order(error)]) from None
    defaults, profiles = document.get("defaults") or {}, document.get("profiles") or {}
    for name, said in document["switches"].items():
        where = f"{source} switches.{name}"
        own = dict(said or {})
        layers = (defaults, _profile(own.pop("profile", None), profiles, where), own)
        yield name, where, SwitchKeys.model_validate(said_in(reduce(merged, layers)))


def merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """``over`` merged on top of ``under``, key by key; a secret is replaced as a whole."""
    both = dict(under)
    for key, value in over.items():
        below = both.get(key)
        if isinstance(value, Mapping) and isinstance(below, Mapping) and key not in SECRETS:
            both[key] = merged(below, value)
        else:
            both[key] = value
    return both


def said_in(document: Mapping[str, Any]) -> dict[str, Any]:
    """The mapping without keys whose value is null."""
    return {
        key: said_in(value) if isinstance(value, Mapping) else value
        for key, value in document.items()
        if value is not None
    }


@dataclass(frozen=True, slots=True)
class _Making:
    name: str
    where: str
    folder: Path

    def device(self, keys: SwitchKeys) -> Device:
        if keys.platform is None:
            raise SettingsError(
                f"{self.where}.platform", None, "a switch names its platform", "add it, such as sonic"
            )
        plain = keys.model_dump(
            include={"address", "port", "queues", "ports", "timeout_s", "settle_s", "options"},
            exclude_none=True,
        )
        return Device(
            name=self.name,
            platform=keys.platform,
            username=self._secret(keys.username),
            password=self._secret(keys.password),
            token=self._secret(keys.token),
            tls=self._tls(keys.tls),
            units=UnitProfile(**keys.units.model_dump()) if keys.units else UnitProfile(),
            **plain,
        )

    def _secret(self, keys: SecretKeys | None) -> Secret | None:
        return None if keys is None else Secret(env=keys.env, file=self._beside(keys.file))

    def _tls(self, keys: TlsKeys | None) -> Tls:
        if keys is None:
            return Tls()
        said = keys.model_dump(exclude_none=True) | {"ca_file": self._beside(keys.ca_file)}
        return Tls(**said)

    def _beside(self, path: Path | None) -> Path | None:
        return None if path is None else self.folder / path


def _profile(name: str | None, profiles: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    if name is None:
        return {}
    if name not in profiles:
        raise SettingsError(
            f"{where}.profile",
            repr(name),
            f"known profiles are {', '.join(sorted(profiles)) or 'none'}",
            did_you_mean(name, profiles, "add it under profiles"),
        )
    return profiles[name] or {}


def _check_names(document: Mapping[str, Any], source: str) -> None:
    for section in ("profiles", "switches"):
        content = document.get(section)
        for name in content if isinstance(content, Mapping) else ():
            if not isinstance(name, str):
                raise SettingsError(
                    f"{source} {section}", f"name {name!r}", "a name is text", "put it in quotes"
                )
            if name.strip() != name or not name or not name.isprintable():
                raise SettingsError(
                    f"{source} {section}",
                    f"name {name!r}",
                    "a name is printable, without spaces around it",
                    "rename it",
                )


def did_you_mean(name: str, known: Mapping[str, Any] | tuple[str, ...], otherwise: str) -> str:
    near = get_close_matches(name, sorted(known), n=1)
    return f"did you mean {near[0]}?" if near else otherwise


def _mistake(error: ErrorDetails, source: str) -> Mistake:
    place: tuple[str | int, ...] = error["loc"]
    for depth, part in enumerate(place):
        if part in SECRETS:  # a value, or by mistake a key, under one of these may be a secret
            return Mistake(f"{source} {dotted(place[: depth + 1])}", HIDDEN, *_SECRETS_RULE)
    return mistake(error, model=InventoryKeys, prefix=source, hidden=error["type"] == "extra_forbidden")
