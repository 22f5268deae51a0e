"""UDP sockets, several bound to one port, and the source addresses that may send to them."""

from __future__ import annotations

import errno
import ipaddress
import logging
import socket
import struct
import sys
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from settings.errors import SettingsError

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_MOST_CACHED = 65_536


class AllowedSenders:
    """Source addresses as text, where they are in the ``allowed`` networks."""

    def __init__(self, allowed: Iterable[Network]) -> None:
        self._allowed = tuple(allowed)
        self._name = lru_cache(_MOST_CACHED)(self._checked)

    def named(self, addresses: bytes, width: int) -> list[str | None]:
        """The text of each raw address of ``width`` bytes (4 or 16); None for one that may not send."""
        first = addresses[:width]
        count = len(addresses) // width
        if addresses == first * count:
            return [self._name(first)] * count
        return [self._name(addresses[at : at + width]) for at in range(0, len(addresses), width)]

    def name(self, text: str) -> str | None:
        """The same for one address given as text."""
        return self._name(ipaddress.ip_address(text.partition("%")[0]).packed)

    def _checked(self, raw: bytes) -> str | None:
        address: ipaddress.IPv4Address | ipaddress.IPv6Address = ipaddress.ip_address(raw)
        if address.version == 6 and address.ipv4_mapped is not None:  # a socket for both versions
            address = address.ipv4_mapped
        return str(address) if any(address in network for network in self._allowed) else None


_SO_RCVBUFFORCE = 33
_SO_TIMESTAMPNS = 35
_SO_MEMINFO = 55
_MEMINFO_DROPS = 8  # SK_MEMINFO_DROPS of linux/sock_diag.h
_LINUX = sys.platform.startswith("linux")

_log = logging.getLogger("ecntwin.udp")


def opened(
    host: str, port: int, count: int, *, buffer_bytes: int, shared: bool = False
) -> list[socket.socket]:
    """``count`` sockets bound to one port of ``host`` (0: a free one), which share what arrives; ``shared``:
    also with other processes of the same user.

    Raises ``SettingsError`` for an address of another machine or a port in use.
    """
    sockets: list[socket.socket] = []
    try:
        family, address = _address(host, port)
        if count > 1 and port and not shared:
            # SO_REUSEPORT would silently share the port with another process of the same user.
            with socket.socket(family, socket.SOCK_DGRAM) as alone:
                alone.bind(address)
        for _ in range(count):
            made = socket.socket(family, socket.SOCK_DGRAM)
            sockets.append(made)
            made.setblocking(False)
            if count > 1 or shared:
                made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            made.bind(address)
            address = made.getsockname()
            _stamp(made)
            granted = granted_bytes(made, buffer_bytes)
    except OSError as error:
        for made in sockets:
            made.close()
        raise _refused(host, port, error) from error
    _log_sockets(sockets[0], count, granted, buffer_bytes)
    return sockets


def granted_bytes(made: socket.socket, wanted: int) -> int:
    """Requests a receive buffer of ``wanted`` bytes; returns what the kernel granted."""
    try:
        if not _LINUX:
            raise PermissionError
        made.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, wanted)  # needs CAP_NET_ADMIN
    except OSError:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, wanted)
    given = made.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    return given // 2 if _LINUX else given  # Linux reports twice the size, for its own overhead


def dropped_by_kernel(made: socket.socket) -> int:
    """Datagrams dropped as the socket's buffer was full, modulo 2**32; 0 where the kernel does not say."""
    try:
        info = made.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, 36) if _LINUX else b""
    except OSError:
        return 0
    return int(struct.unpack_from("=9I", info)[_MEMINFO_DROPS]) if len(info) >= 36 else 0


def text_of(made: socket.socket) -> str:
    """``HOST:PORT`` of a bound socket."""
    host, port = made.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def texts_of(sockets: Sequence[socket.socket]) -> tuple[str, ...]:
    """``HOST:PORT`` of each socket, without duplicates."""
    return tuple(dict.fromkeys(map(text_of, sockets)))


def _address(host: str, port: int) -> tuple[socket.AddressFamily, Any]:
    found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_DGRAM, flags=socket.AI_PASSIVE)
    family, _, _, _, address = found[0]
    return family, address


def _stamp(made: socket.socket) -> None:
    """Enables kernel receive timestamps: datagrams may be read late."""
    if _LINUX:
        made.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)


def _refused(host: str, port: int, error: OSError) -> SettingsError:
    where, received = "settings telemetry.udp", f"{host} port {port}"
    if error.errno == errno.EADDRINUSE:
        return SettingsError(
            where,
            f"{received}, which is in use",
            "no other process uses the port",
            f"take another port, or stop that process (ss -lunp 'sport = {port}' shows it)",
        )
    if error.errno in (errno.EACCES, errno.EPERM):
        return SettingsError(
            where,
            f"{received}: {error.strerror}",
            "ports below 1024 need CAP_NET_BIND_SERVICE",
            "take a higher port",
        )
    return SettingsError(
        where,
        f"{received}: {error.strerror or error}",
        "host is an address of this machine",
        "correct telemetry.udp.host",
    )


def _log_sockets(made: socket.socket, count: int, granted: int, wanted: int) -> None:
    _log.info(
        "receiving telemetry reports over UDP at %s: %d sockets with %d bytes each",
        text_of(made),
        count,
        granted,
    )
    if granted < wanted:
        _log.warning(
            "the kernel granted a receive buffer of %d bytes of the requested %d: bursts may be lost; "
            "sysctl -w net.core.rmem_max=%d, or run with CAP_NET_ADMIN",
            granted,
            wanted,
            wanted,
        )
