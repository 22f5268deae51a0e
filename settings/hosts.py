"""The hosts of an inventory, whose NICs are read: a host's keys override those of its class."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from nics.host import SSH_PORT, Host
from settings.errors import SettingsError
from settings.inventory_keys import NamedSecret, Part, Place, beside, layer_named, merged, said_in, secret_of
from twin.errors import ScenarioError
from twin.senders.artefact import DCQCN, sender_named
from twin.senders.rtt import RttSender


class HostKeys(Part):
    """Keys of a host and of a class."""

    platform: str | None = None
    address: Place = None
    port: int | None = Field(default=None, ge=1, le=65_535, strict=True)
    nics: tuple[str, ...] | None = None
    username: NamedSecret = None
    password: NamedSecret = None
    key_file: Path | None = None
    known_hosts: Path | None = None
    sudo: bool | None = None
    timeout_s: float | None = Field(default=None, gt=0, le=600)
    sysfs: str | None = None
    template: str | None = None
    sender: str | None = None


class OneHostKeys(HostKeys):
    class_: str | None = Field(default=None, alias="class")


def hosts_said(document: Mapping[str, Any], source: str) -> Iterator[tuple[str, str, OneHostKeys]]:
    """Each host's name, its place in errors, and its keys merged with its class, of a valid document.

    Raises ``SettingsError`` for an unknown class.
    """
    classes = document.get("classes") or {}
    for name, said in (document.get("hosts") or {}).items():
        where, own = f"{source} hosts.{name}", dict(said or {})
        layer = layer_named(own.get("class"), classes, where, "class", "classes")
        yield name, where, OneHostKeys.model_validate(said_in(merged(layer, own)))


def hosts_of(
    said: Iterable[tuple[str, str, OneHostKeys]], folder: Path, switches: Collection[str]
) -> Mapping[str, Host]:
    """Those whose NICs are read: all that send by DCQCN.

    Raises ``SettingsError`` for one without a platform, at another's address, or with the name of one of the
    ``switches``.
    """
    hosts: dict[str, Host] = {}
    places: dict[tuple[str, int], str] = {}
    for name, where, keys in said:
        if _sender(where, keys) is not None:
            continue
        if name in switches:
            rule = "a rollout knows switches and hosts by name, so that the names differ"
            raise SettingsError(where, f"{name!r}, a switch's name", rule, "rename the host")
        if keys.platform is None:
            rule = "a host names the platform of its NICs"
            raise SettingsError(f"{where}.platform", None, rule, "add it, such as connectx")
        plain = keys.model_dump(
            include={"platform", "address", "port", "nics", "sudo", "timeout_s", "sysfs"}, exclude_none=True
        )
        host = Host(
            name=name,
            nic_class=keys.class_ or "",
            username=secret_of(keys.username, folder),
            password=secret_of(keys.password, folder),
            key_file=beside(folder, keys.key_file),
            known_hosts=beside(folder, keys.known_hosts),
            **plain,
        )
        for place in (host.address or name, name):
            first = places.setdefault((place, host.port), name)
            if first != name:
                port = "" if host.port == SSH_PORT else f" port {host.port}"
                rule = "each address belongs to one host"
                raise SettingsError(f"{where}.address", f"{place}{port}, {first}'s", rule, "correct it")
        hosts[name] = host
    return hosts


def senders_of(said: Iterable[tuple[str, str, OneHostKeys]]) -> Mapping[str, RttSender]:
    """The hosts that do not send by DCQCN; raises ``SettingsError`` for an unknown sender."""
    found = {name: _sender(where, keys) for name, where, keys in said}
    return {name: sender for name, sender in found.items() if sender is not None}


def _sender(where: str, keys: OneHostKeys) -> RttSender | None:
    try:
        return sender_named(keys.sender or DCQCN, where=f"{where}.sender")
    except ScenarioError as error:
        raise SettingsError(error.where, error.received, error.rule, error.remedy) from error
