"""Who may send datagrams, by source address; must not know a socket.

Sockets that take datagrams, several on one port; must not read from them.
"""

from __future__ import annotations

import errno
import ipaddress
import logging
import socket
import struct
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from settings.errors import SettingsError

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_MOST_KNOWN = 65_536


class Senders:
    """Names addresses, and tells which of them are in the ``allowed`` networks; remembers those it met."""

    def __init__(self, allowed: Iterable[Network]) -> None:
        self._allowed = tuple(allowed)
        self._known: dict[bytes, str | None] = {}

    def named(self, addresses: bytes, width: int) -> list[str | None]:
        """The text of each address, None for one that may not send.

        They are raw, of ``width`` bytes (4 or 16), one after the other.
        """
        first = addresses[:width]
        count = len(addresses) // width
        if addresses == first * count:
            return [self._name(first)] * count
        return [self._name(addresses[at : at + width]) for at in range(0, len(addresses), width)]

    def name(self, text: str) -> str | None:
        """The same of one address in text."""
        return self._name(ipaddress.ip_address(text.partition("%")[0]).packed)

    def _name(self, raw: bytes) -> str | None:
        try:
            return self._known[raw]
        except KeyError:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[raw] = self._judged(raw)
            return self._known[raw]

    def _judged(self, raw: bytes) -> str | None:
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
    """``count`` sockets bound to one port of ``host`` (0 takes a free one), which share what arrives; with
    ``shared`` also with other processes of the same user that want it so.

    Raises ``SettingsError`` where that is no address of this machine, or another process has the port.
    """
    sockets: list[socket.socket] = []
    try:
        family, address = _address(host, port)
        if count > 1 and port and not shared:
            # Sockets that share a port would share it with another process of the same user, unnoticed.
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
    _tell(sockets[0], count, granted, buffer_bytes)
    return sockets


def granted_bytes(made: socket.socket, wanted: int) -> int:
    """Asks for a receive buffer of so many bytes; what the kernel gave."""
    try:
        if not _LINUX:
            raise PermissionError
        made.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, wanted)  # needs CAP_NET_ADMIN
    except OSError:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, wanted)
    given = made.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    return given // 2 if _LINUX else given  # Linux counts its own overhead in, and doubles


def dropped_by_kernel(made: socket.socket) -> int:
    """Datagrams that found the socket's buffer full, modulo 2**32; 0 where the kernel does not say."""
    try:
        told = made.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, 36) if _LINUX else b""
    except OSError:
        return 0
    return int(struct.unpack_from("=9I", told)[_MEMINFO_DROPS]) if len(told) >= 36 else 0


def text_of(made: socket.socket) -> str:
    """``HOST:PORT`` of a bound socket."""
    host, port = made.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def texts_of(sockets: Sequence[socket.socket]) -> tuple[str, ...]:
    """The same of all of them, each once."""
    return tuple(dict.fromkeys(map(text_of, sockets)))


def _address(host: str, port: int) -> tuple[socket.AddressFamily, Any]:
    found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_DGRAM, flags=socket.AI_PASSIVE)
    family, _, _, _, address = found[0]
    return family, address


def _stamp(made: socket.socket) -> None:
    """Has the kernel say when each datagram came: reading them may be late."""
    if _LINUX:
        made.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)


def _refused(host: str, port: int, error: OSError) -> SettingsError:
    where, received = "settings telemetry.udp", f"{host} port {port}"
    if error.errno == errno.EADDRINUSE:
        return SettingsError(
            where,
            f"{received}, which is in use",
            "no other process takes datagrams there",
            f"take another port, or stop that process (ss -lunp 'sport = {port}' shows it)",
        )
    if error.errno in (errno.EACCES, errno.EPERM):
        return SettingsError(
            where, f"{received}: {error.strerror}", "ports below 1024 need a privilege", "take a higher port"
        )
    return SettingsError(
        where,
        f"{received}: {error.strerror or error}",
        "host is an address of this machine",
        "correct telemetry.udp.host",
    )


def _tell(made: socket.socket, count: int, granted: int, wanted: int) -> None:
    _log.info(
        "telemetry reports are taken by UDP at %s: %d sockets with %d bytes each",
        text_of(made),
        count,
        granted,
    )
    if granted < wanted:
        _log.warning(
            "the kernel gave a receive buffer of %d bytes where %d were asked for: bursts may be lost; "
            "sysctl -w net.core.rmem_max=%d, or run with CAP_NET_ADMIN",
            granted,
            wanted,
            wanted,
        )
