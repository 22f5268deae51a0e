"""The inventory: a YAML file of switches and hosts, read into devices and into what INT reports need.

A switch's keys override its profile, and that the defaults; a host's keys override its class. Mappings are
merged key by key, anything else is replaced; null removes a value. Secrets are references to an environment
variable or a file: no error repeats a value that may be one.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationError
from pydantic_core import ErrorDetails

from lossless.fabric import Template
from nics.host import Host
from settings.errors import SettingsError
from settings.hosts import HostKeys, OneHostKeys, hosts_of, hosts_said, senders_of
from settings.inventory_keys import (
    SECRETS,
    SECRETS_RULE,
    NamedSecret,
    Part,
    Place,
    beside,
    layer_named,
    merged,
    said_in,
    secret_of,
)
from settings.load import counted, parse_yaml, read_text
from settings.telemetry import IntUnitKeys
from settings.templates import TemplateKeys, templates_of
from settings.validation import HIDDEN, Mistake, dotted, in_order, mistake
from switches.device import Device, Tls, UnitProfile
from telemetry.decode.p4.devices import Devices
from telemetry.decode.p4.devices import UnitProfile as IntUnitProfile
from twin.senders.rtt import RttSender

_MOST_ID = 2**32 - 2  # all ones means "not available" in the INT specification


def _number(given: object) -> object:
    """An id, decimal or 0x and hex digits."""
    if not isinstance(given, str):
        return given
    try:
        return int(given, 16 if given[:2].lower() == "0x" else 10)
    except ValueError:
        raise ValueError("an id is a whole number, decimal or 0x and hex digits") from None


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


class TlsKeys(Part):
    enabled: bool | None = None
    verify: bool | None = None
    ca_file: Path | None = None
    server_name: str | None = None


class UnitKeys(Part):
    thresholds: str | None = None
    cell_bytes: int | None = Field(default=None, ge=1)
    buffer_bytes: int | None = Field(default=None, ge=1)


Queue = Annotated[int, Field(strict=True, ge=0, le=255)]


class SwitchKeys(Part):
    """Keys of a switch, the defaults and a profile."""

    platform: str | None = None
    address: Place = None
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
    template: str | None = None


class OneSwitchKeys(SwitchKeys):
    profile: str | None = None


class InventoryKeys(Part):
    defaults: SwitchKeys | None = None
    profiles: dict[str, SwitchKeys | None] | None = None
    switches: dict[str, OneSwitchKeys | None] = Field(min_length=1)
    classes: dict[str, HostKeys | None] | None = None
    hosts: dict[str, OneHostKeys | None] | None = None
    templates: dict[str, TemplateKeys] | None = None


class HostInventoryKeys(InventoryKeys):
    """One that names hosts may name no switch."""

    switches: dict[str, OneSwitchKeys | None] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Inventory:
    """An inventory, read once: ``text`` is the file's, ``folder`` its place."""

    text: str
    folder: Path
    switches: tuple[tuple[str, str, SwitchKeys], ...]
    """Name, place in errors, and keys merged with profile and defaults."""
    host_keys: tuple[tuple[str, str, OneHostKeys], ...] = ()
    """The same of hosts, merged with their class."""
    templates: Mapping[str, Template] = field(default_factory=dict)
    host_templates: Mapping[str, Template] = field(default_factory=dict)
    """The template of each switch and host that names one."""

    @classmethod
    def read(cls, path: Path) -> Inventory:
        """Raises ``SettingsError`` naming the switch and the key."""
        text, source = read_text(path, "inventory"), f"inventory {path.name}"
        document = parse_yaml(text, source)
        switches, hosts = tuple(_said(document, source)), tuple(hosts_said(document, source))
        of_switches, of_hosts = (
            [(name, at, keys.template) for name, at, keys in said] for said in (switches, hosts)
        )
        templates = templates_of(document, of_switches)
        return cls(
            text, path.parent, switches, hosts, templates, templates_of(document, of_hosts, of_hosts=True)
        )

    def devices(self) -> Mapping[str, Device]:
        """The switches by name, in the file's order. Relative files are beside it.

        Raises ``SettingsError``. ``check_inventory`` checks what adapters need.
        """
        devices: dict[str, Device] = {}
        hosts: dict[tuple[str, int | None, str], str] = {}
        for name, where, keys in self.switches:
            device = _device(name, where, keys, self.folder)
            first = hosts.setdefault((device.address, device.port, repr(device.options)), name)
            if first != name and device.address and "://" not in device.address:
                raise SettingsError(
                    f"{where}.address", f"{device.address}, {first}'s", "a host is one switch", "correct it"
                )
            devices[name] = device
        return devices

    def hosts(self) -> Mapping[str, Host]:
        """The hosts by name, in the file's order. Relative files are beside it.

        Raises ``SettingsError``. ``check_hosts`` checks what adapters need.
        """
        return hosts_of(self.host_keys, self.folder, {name for name, _, _ in self.switches})

    def senders(self) -> Mapping[str, RttSender]:
        """The hosts, by name, that do not send by DCQCN. Raises ``SettingsError``."""
        return senders_of(self.host_keys)

    def reporting(self, default: IntUnitProfile | None = None) -> Devices:
        """INT reporting of the switches; ``default`` are the units of other devices.

        Raises ``SettingsError``.
        """
        said = (
            (name, f"{where}.int", keys.int_) for name, where, keys in self.switches if keys.int_ is not None
        )
        return _reporting(said, default)


def load_inventory(path: Path) -> Mapping[str, Device]:
    """The switches of an inventory; raises ``SettingsError`` where it names hosts alone."""
    if not (devices := Inventory.read(path).devices()):
        raise SettingsError(f"inventory {path.name} switches", None, "switches are read", "add some")
    return devices


def load_reporting(path: Path, default: IntUnitProfile | None = None) -> Devices:
    return Inventory.read(path).reporting(default)


def _said(document: Mapping[str, Any], source: str) -> Iterator[tuple[str, str, SwitchKeys]]:
    """Each switch's name, its place in errors, and its keys merged with profile and defaults."""
    _check_names(document, source)
    try:
        (HostInventoryKeys if document.get("hosts") else InventoryKeys).model_validate(document)
    except ValidationError as error:
        raise counted([_mistake(one, source) for one in in_order(error)]) from None
    defaults, profiles = document.get("defaults") or {}, document.get("profiles") or {}
    for name, said in document.get("switches", {}).items():
        where = f"{source} switches.{name}"
        own = dict(said or {})
        layers = (
            defaults,
            layer_named(own.pop("profile", None), profiles, where, "profile", "profiles"),
            own,
        )
        yield name, where, SwitchKeys.model_validate(said_in(reduce(merged, layers)))


def _device(name: str, where: str, keys: SwitchKeys, folder: Path) -> Device:
    if keys.platform is None:
        raise SettingsError(f"{where}.platform", None, "a switch names its platform", "add it, such as sonic")
    plain = keys.model_dump(
        include={"address", "port", "queues", "ports", "timeout_s", "settle_s", "options"}, exclude_none=True
    )
    return Device(
        name=name,
        platform=keys.platform,
        username=secret_of(keys.username, folder),
        password=secret_of(keys.password, folder),
        token=secret_of(keys.token, folder),
        tls=_tls(keys.tls, folder),
        units=UnitProfile(**keys.units.model_dump()) if keys.units else UnitProfile(),
        **plain,
    )


def _tls(keys: TlsKeys | None, folder: Path) -> Tls:
    if keys is None:
        return Tls()
    return Tls(**keys.model_dump(exclude_none=True) | {"ca_file": beside(folder, keys.ca_file)})


def _check_names(document: Mapping[str, Any], source: str) -> None:
    for section in ("profiles", "switches", "classes", "hosts", "templates"):
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


def _mistake(error: ErrorDetails, source: str) -> Mistake:
    place: tuple[str | int, ...] = error["loc"]
    for depth, part in enumerate(place):
        if part in SECRETS:  # a value, or by mistake a key, under one of these may be a secret
            return Mistake(f"{source} {dotted(place[: depth + 1])}", HIDDEN, *SECRETS_RULE)
    return mistake(error, model=InventoryKeys, prefix=source, hidden=error["type"] == "extra_forbidden")
