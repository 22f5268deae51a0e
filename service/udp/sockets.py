"""UDP sockets, several bound to one port, the source addresses that may send to them, and reading them.

``socket.recv`` releases the interpreter's lock for every datagram, and then waits for it behind threads that
compute. ``recvmmsg`` does so once for hundreds of datagrams. A read has fewer than 500: numpy would release
the lock for longer arrays.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import errno
import ipaddress
import logging
import os
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from settings.errors import SettingsError
from telemetry.settings import NS_PER_S

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_MOST_CACHED = 65_536


class AllowedSenders:
    """Source addresses as text, where they are in the ``allowed`` networks."""

    def __init__(self, allowed: Iterable[Network]) -> None:
        self._allowed = tuple(allowed)
        self._name = lru_cache(_MOST_CACHED)(self._checked)

    def named(self, addresses: bytes, width: int) -> list[str | None]:
        """By raw address of ``width`` bytes (4 or 16), its text; None if it may not send."""
        first = addresses[:width]
        count = len(addresses) // width
        if addresses == first * count:
            return [self._name(first)] * count
        return [self._name(addresses[at : at + width]) for at in range(0, len(addresses), width)]

    def name(self, text: str) -> str | None:
        """Like ``named``, for one address given as text."""
        return self._name(ipaddress.ip_address(text.partition("%")[0]).packed)

    def _checked(self, raw: bytes) -> str | None:
        address: ipaddress.IPv4Address | ipaddress.IPv6Address = ipaddress.ip_address(raw)
        if address.version == 6 and address.ipv4_mapped is not None:  # a socket that takes both IP versions
            address = address.ipv4_mapped
        return str(address) if any(address in network for network in self._allowed) else None


DATAGRAMS_A_READ = 480
MOST_DATAGRAM_BYTES = 9216
_CONTROL_BYTES = 64
_SCM_TIMESTAMPNS = 35
_ADDRESS = {socket.AF_INET: "v4", socket.AF_INET6: "v6"}
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
        for _ in range(count):
            made = socket.socket(family, socket.SOCK_DGRAM)
            sockets.append(made)
            made.setblocking(False)
            # Bound with SO_REUSEPORT, the first would silently share its port, also one chosen by the system,
            # with another process of the same user.
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, int(shared or len(sockets) > 1))
            made.bind(address)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, int(shared or count > 1))
            address = made.getsockname()
            if _LINUX:  # the kernel's receive time, as datagrams may be read late
                made.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
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


@dataclass(frozen=True, slots=True)
class Chunk:
    """Datagrams read together: payloads, when each was received (Unix time), and source addresses."""

    payloads: Sequence[bytes]
    received_ns: NDArray[np.int64]
    sources: Sequence[str]


@dataclass(frozen=True, slots=True)
class ReadResult:
    """One read: datagrams read, those dropped by reason, and the others."""

    read: int = 0
    truncated: int = 0
    refused: int = 0
    no_room: int = 0
    chunk: Chunk | None = None


class SocketReader(Protocol):
    """Reads from a non-blocking socket."""

    def read(self, made: socket.socket, room: int) -> ReadResult:
        """Reads at most ``DATAGRAMS_A_READ`` datagrams, and keeps at most ``room`` of them."""


def reader(senders: AllowedSenders, *, clock_ns: Callable[[], int] = time.time_ns) -> SocketReader:
    if sys.platform.startswith("linux") and sys.maxsize > 1 << 32:
        library = ctypes.CDLL(None, use_errno=True)
        if hasattr(library, "recvmmsg"):
            return RecvmmsgReader(senders, library.recvmmsg, clock_ns=clock_ns)
    return RecvmsgReader(senders, clock_ns=clock_ns)


# The layouts of recvmmsg(2) on 64-bit Linux: struct mmsghdr, struct iovec, the addresses in a struct
# sockaddr_in or sockaddr_in6, and a control message that holds a struct timespec.
_HEADER = np.dtype(
    {
        "names": ["name", "name_bytes", "parts", "n_parts", "control", "control_bytes", "flags", "length"],
        "formats": ["u8", "u4", "u8", "u8", "u8", "u8", "i4", "u4"],
        "offsets": [0, 8, 16, 24, 32, 40, 48, 56],
        "itemsize": 64,
    }
)
_NAME = np.dtype({"names": ["v4", "v6"], "formats": ["V4", "V16"], "offsets": [4, 8], "itemsize": 32})
_PART = np.dtype([("at", "u8"), ("bytes", "u8")])
_STAMP = np.dtype(
    {
        "names": ["bytes", "level", "kind", "s", "ns"],
        "formats": ["u8", "i4", "i4", "i8", "i8"],
        "offsets": [0, 8, 12, 16, 24],
        "itemsize": _CONTROL_BYTES,
    }
)
_STAMP_BYTES = 32


class RecvmmsgReader:
    """Reads with ``recvmmsg`` into its own buffers; for one thread."""

    def __init__(self, senders: AllowedSenders, recvmmsg: Any, *, clock_ns: Callable[[], int]) -> None:
        self._senders = senders
        self._clock_ns = clock_ns
        self._recvmmsg = recvmmsg
        many, size = DATAGRAMS_A_READ, MOST_DATAGRAM_BYTES
        self._data = np.zeros(many * size, np.uint8)
        self._view = self._data.data
        self._names = np.zeros(many, _NAME)
        self._control = np.zeros(many, _STAMP)
        self._parts = np.zeros(many, _PART)
        self._parts["at"] = self._data.ctypes.data + np.arange(many, dtype=np.uint64) * np.uint64(size)
        self._parts["bytes"] = size
        self._headers = np.zeros(many, _HEADER)
        for column, array in (("name", self._names), ("control", self._control), ("parts", self._parts)):
            step = array.strides[0]
            self._headers[column] = array.ctypes.data + np.arange(many, dtype=np.uint64) * np.uint64(step)
        self._headers["n_parts"] = 1
        self._at = ctypes.c_void_p(self._headers.ctypes.data)
        self._begins = np.arange(many) * size

    def read(self, made: socket.socket, room: int) -> ReadResult:
        self._headers["name_bytes"] = _NAME.itemsize
        self._headers["control_bytes"] = _CONTROL_BYTES
        count = self._recvmmsg(made.fileno(), self._at, DATAGRAMS_A_READ, socket.MSG_DONTWAIT, None)
        if count < 0:
            wrong = ctypes.get_errno()
            if wrong in (errno.EAGAIN, errno.EINTR, errno.ECONNREFUSED):
                return ReadResult()
            raise OSError(wrong, os.strerror(wrong))
        address = self._names[_ADDRESS[made.family]][:count]
        names = self._senders.named(address.tobytes(), address.itemsize)
        whole = self._headers["flags"][:count] & socket.MSG_TRUNC == 0
        truncated = count - int(np.count_nonzero(whole))
        rows: NDArray[np.intp] | slice = slice(0, min(count, room))
        kept = count
        if truncated or None in names:
            sound = np.flatnonzero(whole & np.array([name is not None for name in names]))
            rows, kept = sound[:room], len(sound)
        chunk = self._chunk(rows, names) if min(kept, room) else None
        return ReadResult(count, truncated, count - truncated - kept, max(kept - room, 0), chunk)

    def _chunk(self, rows: NDArray[np.intp] | slice, names: Sequence[str | None]) -> Chunk:
        headers, stamps, view = self._headers, self._control, self._view
        begins = self._begins[rows]
        ends = (begins + headers["length"][rows]).tolist()
        payloads = [view[begin:end].tobytes() for begin, end in zip(begins.tolist(), ends, strict=True)]
        stamped = headers["control_bytes"][rows] >= _STAMP_BYTES
        stamped &= stamps["kind"][rows] == _SCM_TIMESTAMPNS
        received_ns = stamps["s"][rows] * NS_PER_S + stamps["ns"][rows]
        if not stamped.all():
            received_ns = np.where(stamped, received_ns, self._clock_ns())
        senders = names[rows] if isinstance(rows, slice) else [names[row] for row in rows.tolist()]
        return Chunk(payloads, received_ns, [name for name in senders if name is not None])


class RecvmsgReader:
    """Reads with ``recvmsg``, one call a datagram, where there is no ``recvmmsg``."""

    def __init__(self, senders: AllowedSenders, *, clock_ns: Callable[[], int] = time.time_ns) -> None:
        self._senders = senders
        self._clock_ns = clock_ns

    def read(self, made: socket.socket, room: int) -> ReadResult:
        payloads: list[bytes] = []
        sources: list[str] = []
        count = truncated = refused = no_room = 0
        while count < DATAGRAMS_A_READ:
            try:
                payload, _, flags, address = made.recvmsg(MOST_DATAGRAM_BYTES)
            except (BlockingIOError, ConnectionRefusedError):
                break
            count += 1
            name = self._senders.name(address[0])
            if flags & socket.MSG_TRUNC:
                truncated += 1
            elif name is None:
                refused += 1
            elif len(payloads) >= room:
                no_room += 1
            else:
                payloads.append(payload)
                sources.append(name)
        if not payloads:
            return ReadResult(count, truncated, refused, no_room)
        received_ns = np.full(len(payloads), self._clock_ns(), np.int64)
        return ReadResult(count, truncated, refused, no_room, Chunk(payloads, received_ns, sources))
