"""A switch as the inventory describes it, and its secrets, by the name of an environment variable or a file.

A secret is read when it is used, so that a rotated file takes effect, and is never kept, shown or logged.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from switches.errors import CredentialsError, InventoryError
from twin.watermark import Watermark


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """Either ``env``, the name of a variable, or ``file``, whose first line is the secret."""

    env: str | None = None
    file: Path | None = None

    def __str__(self) -> str:
        return f"${self.env}" if self.env is not None else f"file {self.file}"

    def reveal(self, where: str) -> str:
        """Raises ``CredentialsError`` where it is missing or empty."""
        text = os.environ.get(self.env, "") if self.env is not None else self._read(where)
        if not text:
            raise CredentialsError(where, None, f"there is nothing in {self}", "set it")
        return text

    def _read(self, where: str) -> str:
        if self.file is None:
            raise CredentialsError(where, None, "a secret names env or file", "give one")
        try:
            return self.file.read_text("utf-8").partition("\n")[0].strip()
        except (OSError, UnicodeDecodeError) as error:
            said = getattr(error, "strerror", None) or "not UTF-8 text"
            rule = "a secret's file is readable"
            raise CredentialsError(where, f"{self}: {said}", rule, "correct its path") from error


LOSSLESS_QUEUE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """The check of the certificate: against ``ca_file`` or the system store, or none.

    ``enabled`` None is the platform's default.
    """

    enabled: bool | None = None
    verify: bool = True
    ca_file: Path | None = None
    server_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitProfile:
    """The switch's buffer, from its documentation; None: the platform's default, or not needed.

    ``thresholds`` names the unit of thresholds, where the platform has several.
    """

    thresholds: str | None = None
    cell_bytes: int | None = None
    buffer_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """``platform`` names its adapter, ``address`` its host or URL. The watermark is for egress queues
    (traffic classes) ``queues`` of the ports that match one of the patterns ``ports`` (none: all). Calls
    answer within ``timeout_s``; a change shows in hardware within ``settle_s``. ``options`` are the
    platform's own, checked by its adapter. ``running`` is the watermark in the settings, for a dry run.

    With a ``role`` (``telemetry.roles``) it is the switch's ``ports`` of that role alone, each by its whole
    name: a change gives them a watermark of their own, also where they share the object that holds it with
    other ports (``at_role``).
    """

    name: str
    platform: str
    address: str = ""
    port: int | None = None
    queues: tuple[int, ...] = (LOSSLESS_QUEUE,)
    ports: tuple[str, ...] = ()
    username: Secret | None = None
    password: Secret | None = None
    token: Secret | None = None
    tls: Tls = field(default_factory=Tls)
    units: UnitProfile = field(default_factory=UnitProfile)
    timeout_s: float = 5.0
    settle_s: float = 20.0
    options: Mapping[str, Any] = field(default_factory=dict)
    running: Watermark | None = None
    role: str | None = None

    def at_role(self, role: str, ports: Iterable[str]) -> Device:
        """The device's ports of one role, those of them that its watermark applies to.

        Raises ``InventoryError`` for none.
        """
        wanted = tuple(sorted(filter(self.wants, ports)))
        if not wanted:
            rule = f"a port of role {role} is among the ports of the inventory"
            raise InventoryError(f"{self.where} ports", ", ".join(self.ports), rule, "add its ports")
        return replace(self, role=role, ports=wanted)

    @property
    def where(self) -> str:
        """The switch's name in errors."""
        at = f" at {self.address}" if self.address else ""
        role = f" {self.role}" if self.role is not None else ""
        return f"switch {self.name!r}{role} ({self.platform}{at})"

    def wrong_unit(self, known: str) -> InventoryError:
        """The error for ``units.thresholds`` that its platform does not have."""
        given = repr(self.units.thresholds)
        rule = f"thresholds of this platform are in {known}"
        return InventoryError(f"{self.where} units.thresholds", given, rule, "name one of them")

    def wants(self, port: str) -> bool:
        """Whether the device's watermark applies to that port."""
        return not self.ports or any(fnmatchcase(port, pattern) for pattern in self.ports)

    def sets(self, port: str, queue: int) -> bool:
        """Whether the inventory asks for that queue."""
        return queue in self.queues and self.wants(port)

    def credential(self, name: str) -> str | None:
        """The text of ``username``, ``password`` or ``token``, or None. Raises ``CredentialsError``."""
        secret: Secret | None = getattr(self, name)
        return None if secret is None else secret.reveal(f"{self.where} {name}")

    def tls_context(self) -> ssl.SSLContext:
        """With the authorities of ``tls.ca_file``, or the system's. Raises ``InventoryError``."""
        path = self.tls.ca_file
        try:
            return ssl.create_default_context(cafile=None if path is None else str(path))
        except (OSError, ssl.SSLError) as error:
            received = f"{path}: {error.strerror or error}"
            rule = "it holds certificates in PEM"
            raise InventoryError(f"{self.where} tls.ca_file", received, rule, "correct the path") from error

    def secrets(self) -> Iterable[str]:
        """The texts that no message may repeat, as far as they can be read."""
        for secret in (self.password, self.token):
            if secret is not None:
                try:
                    yield secret.reveal(self.where)
                except InventoryError:
                    continue


OptionsT = TypeVar("OptionsT")


def options_of(device: Device, kind: type[OptionsT]) -> OptionsT:
    """The device's options as ``kind``, a frozen ``msgspec.Struct`` with ``forbid_unknown_fields``.

    Raises ``InventoryError`` naming the option.
    """
    try:
        return msgspec.convert(device.options, kind, strict=True)
    except msgspec.ValidationError as error:
        fields = msgspec.structs.fields(kind)  # type: ignore[arg-type] # it is a Struct
        known = ", ".join(field.encode_name for field in fields)
        rule = f"options of {device.platform} are {known or 'none'}"
        raise InventoryError(f"{device.where} options", str(error), rule, "correct or drop it") from error
