"""NIC adapters by platform.

An adapter is imported when its first host is made: without hosts no SSH library is loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from pkgutil import resolve_name

from nics.base import NicAdapter
from nics.host import Host
from switches.errors import UnknownAdapterError

_BUILT_IN = {"broadcom": "nics.broadcom:BroadcomAdapter", "connectx": "nics.connectx:ConnectXAdapter"}


def make(host: Host, *, clock_ns: Callable[[], int]) -> NicAdapter:
    """The adapter of a host's NICs, without asking it.

    Raises ``InventoryError``, and ``UnknownAdapterError`` naming the known platforms.
    """
    if host.platform not in _BUILT_IN:
        rule = f"known platforms of NICs are {', '.join(_BUILT_IN)}"
        remedy = "name one of them; NICs of other makes on a host are shown, and their DCQCN is not read"
        raise UnknownAdapterError(f"host {host.name!r} platform", repr(host.platform), rule, remedy)
    adapter: NicAdapter = resolve_name(_BUILT_IN[host.platform])(host, clock_ns=clock_ns)
    return adapter
