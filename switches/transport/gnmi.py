"""How a switch's gNMI server is called: where, with which certificates and credentials; what errors mean.

What Get, Set and Subscribe have in common; must not know any platform, and opens nothing by itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc
import msgspec

from switches.device import Device
from switches.errors import AccessError, InventoryError, RefusedError, SwitchError, UnreachableError
from switches.transport.quoted import header_text, quoted

_LARGEST_ANSWER_BYTES = 64 * 2**20  # queues of a chassis with their counters pass gRPC's 4 MiB
_AWAY = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED})
_NO_ACCESS = frozenset({grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED})
_CHANNEL = (
    ("grpc.enable_http_proxy", 0),  # a management network is reached directly
    ("grpc.use_local_subchannel_pool", 1),  # else a new channel would wait out the back-off of the one before
    ("grpc.max_receive_message_length", _LARGEST_ANSWER_BYTES),
)


class GnmiOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options of every gNMI platform.

    ``set_timeout_s``: how long a Set may take, which a switch may validate and commit at length.
    ``cert_file`` and ``key_file``: the caller's certificate in PEM, where the switch asks for one.
    """

    set_timeout_s: float = 30.0
    cert_file: str | None = None
    key_file: str | None = None


class GnmiDial:
    """The way to one switch. Raises ``InventoryError`` for what no channel can be made of."""

    def __init__(self, device: Device, options: GnmiOptions, *, default_port: int) -> None:
        host = device.address
        if not host or "://" in host or "/" in host:
            raise InventoryError(
                device.where,
                f"address {host!r}",
                "gNMI is found by a host name or an address, and the port beside it",
                "give address: leaf1.example, and port where it is not the usual one",
            )
        if not device.tls.verify and device.tls.enabled is not False:
            raise InventoryError(
                f"{device.where} tls.verify",
                "false",
                "gRPC checks every certificate",
                "name the switch's own certificate as tls.ca_file, and the name in it as tls.server_name",
            )
        if (options.cert_file is None) != (options.key_file is None):
            raise InventoryError(
                f"{device.where} options",
                "cert_file without key_file" if options.key_file is None else "key_file without cert_file",
                "a certificate goes with its key",
                "give both, or neither",
            )
        self._device = device
        self.target = f"{f'[{host}]' if ':' in host else host}:{device.port or default_port}"
        self._cert_file = None if options.cert_file is None else Path(options.cert_file)
        self._key_file = None if options.key_file is None else Path(options.key_file)

    def credentials(self) -> grpc.ChannelCredentials | None:
        """What a channel is made with; None: without TLS. Raises ``InventoryError`` for files that are not
        to be read.
        """
        if self._device.tls.enabled is False:
            return None
        return grpc.ssl_channel_credentials(
            root_certificates=self._pem("tls.ca_file", self._device.tls.ca_file),
            private_key=self._pem("key_file", self._key_file),
            certificate_chain=self._pem("cert_file", self._cert_file),
        )

    @property
    def arguments(self) -> tuple[tuple[str, Any], ...]:
        """A channel's options."""
        name = self._device.tls.server_name
        named = () if name is None or self._device.tls.enabled is False else (name,)
        return (*_CHANNEL, *(("grpc.ssl_target_name_override", name) for name in named))

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """The credentials as they are now, with every call. Raises ``CredentialsError``."""
        found = []
        for name in ("username", "password"):
            text = self._device.credential(name)
            if text is not None:
                found.append((name, header_text(f"{self._device.where} {name}", text)))
        return tuple(found)

    def failure(self, error: grpc.RpcError, said: str, timeout_s: float) -> SwitchError:
        """What a failed call means, in a sentence. Raise it from None: the error holds the switch's words."""
        where = self._device.where
        call: Any = error  # what a stub raises is the call too
        code: grpc.StatusCode = call.code()
        detail = quoted(self._device, call.details() or "")
        if code is grpc.StatusCode.DEADLINE_EXCEEDED:
            return UnreachableError(
                where,
                f"no answer to {said} within {timeout_s:g} s",
                "a switch answers in time",
                "look whether it is up, and whether its management network is",
            )
        if code in _AWAY:
            return UnreachableError(
                where,
                f"no connection for {said} ({detail or code.name})",
                "a switch takes gRPC connections at the address of the inventory",
                "look whether it is up and speaks gNMI there, and whether its certificate is the inventory's",
            )
        if code in _NO_ACCESS:
            return AccessError(
                where,
                f"{code.name} to {said}: {detail or 'nothing more'}",
                "the credentials are the switch's",
                "correct them, or the account's rights",
            )
        return RefusedError(
            where,
            f"{code.name} to {said}: {detail or 'nothing more'}",
            "the switch takes the call",
            "look at the switch, and its version",
        )

    def _pem(self, name: str, path: Path | None) -> bytes | None:
        if path is None:
            return None
        try:
            content = path.read_bytes()
        except OSError as error:
            raise InventoryError(
                f"{self._device.where} {name}",
                f"{path}: {error.strerror}",
                "the file is readable",
                "mount it, or correct its path",
            ) from error
        if b"-----BEGIN " not in content:
            raise InventoryError(
                f"{self._device.where} {name}", str(path), "it is in PEM", "convert it, or correct its path"
            )
        return content
