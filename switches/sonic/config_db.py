"""Rows of QUEUE: which egress queues a key means, and which WRED profile they are bound to; values only.

Keys are ``QUEUE|Ethernet0|3``, with a range ``3-4`` or ports as a list ``Ethernet0,Ethernet4``, and on a VOQ
chassis ``QUEUE|host|asic|Ethernet0|3`` (sonic-swss, orchagent/qosorch.cpp, ``QosOrch::handleQueueTable``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from switches.device import Device
from switches.errors import CapabilityError, InventoryError

PREFIX = "QUEUE|"
FIELD = "wred_profile"
_CPU = "CPU"
_OLD_FORM = ("[WRED_PROFILE|", "]")  # images before 2022 wrote references so


@dataclass(frozen=True, slots=True)
class Binding:
    """One QUEUE row of the device's: the queues it is for, and its ``wred_profile`` as it stands there."""

    key: str
    queues: tuple[tuple[str, int], ...]
    bound: str | None


def profile_named(bound: str | None) -> str | None:
    """The profile's name in a ``wred_profile`` field, whichever way it is written."""
    before, after = _OLD_FORM
    if bound and bound.startswith(before) and bound.endswith(after):
        return bound[len(before) : -len(after)] or None
    return bound or None


def written_as(bound: str | None, name: str) -> str:
    """That profile's name, written the way ``bound`` is."""
    before, after = _OLD_FORM
    return f"{before}{name}{after}" if bound and bound.startswith(before) else name


def bindings_of(device: Device, rows: Mapping[str, Mapping[str, str]]) -> tuple[Binding, ...]:
    """The rows, by key, that are for queues of that device.

    Raises ``InventoryError`` where there are none, ``CapabilityError`` where two are for one queue.
    """
    found = []
    owner: dict[tuple[str, int], str] = {}
    for key in sorted(rows):
        queues = _queues(key)
        if not any(_wanted(device, port, queue) for port, queue in queues):
            continue
        for queue in queues:
            if owner.setdefault(queue, key) != key:
                raise CapabilityError(
                    f"{device.where} {queue[0]} queue {queue[1]}",
                    f"{owner[queue]} and {key}",
                    "one row of QUEUE is for a queue",
                    "remove one of them from the switch's configuration",
                )
        found.append(Binding(key, queues, rows[key].get(FIELD)))
    if not found:
        raise InventoryError(
            device.where,
            f"no row of QUEUE for queue {', '.join(map(str, device.queues))}"
            + (f" of {', '.join(device.ports)}" if device.ports else ""),
            "the queues to set are in the switch's QoS configuration",
            "correct queues or ports, or configure QoS on the switch",
        )
    return tuple(found)


def check_alone(device: Device, bindings: Iterable[Binding]) -> None:
    """Raises ``CapabilityError`` where binding a row anew would set a queue that is not the device's."""
    for binding in bindings:
        for port, queue in binding.queues:
            if not _wanted(device, port, queue):
                raise CapabilityError(
                    device.where,
                    f"{binding.key}, which is for {port} queue {queue} too",
                    "only the queues and ports of the inventory are set",
                    "split that row on the switch, or add the queue and port to the inventory",
                )


def referring(rows: Mapping[str, Mapping[str, str]], profile: str) -> list[str]:
    """The keys of all rows bound to that profile, sorted."""
    return sorted(key for key, row in rows.items() if profile_named(row.get(FIELD)) == profile)


def _wanted(device: Device, port: str, queue: int) -> bool:
    if queue not in device.queues or port == _CPU:
        return False
    return device.wants(port) or device.wants(port.rpartition("|")[2])


def _queues(key: str) -> tuple[tuple[str, int], ...]:
    """The (port, queue) pairs of a key; none for a key that orchagent would not read either."""
    ports, separator, numbers = key.removeprefix(PREFIX).rpartition("|")
    low, dash, high = numbers.partition("-")
    if not separator or not low.isdecimal() or (dash and not high.isdecimal()):
        return ()
    wanted = range(int(low), int(high if dash else low) + 1)
    # A chassis names one system port a row: host, ASIC, port.
    names = [ports] if "|" in ports else [name.strip() for name in ports.split(",")]
    return tuple((name, queue) for name in names if name for queue in wanted)
