"""Who may send datagrams, by source address; must not know a socket."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

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
