"""Reads what LLDP shows each switch of the inventory; a failing switch stops no other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pkgutil import resolve_name

from service.switches.adapter_check import AT_ONCE, adapter_failed, ask_all
from switches.device import Device
from switches.errors import SwitchError
from switches.transport.quoted import read_all_fields
from telemetry.neighbours.model import SwitchNeighbours

Reader = Callable[[Device], SwitchNeighbours]
"""Blocks: asks the switch, and closes what it opened. Raises ``SwitchError`` only."""

_READERS = {
    "sonic": "service.neighbours.sonic:over_redis",
    "sonic-gnmi": "service.neighbours.sonic:over_gnmi",
    "openconfig": "service.neighbours.openconfig:over_gnmi",
    "netconf": "service.neighbours.openconfig:over_netconf",
    "eos": "service.neighbours.cli:of_eos",
    "nxos": "service.neighbours.cli:of_nxos",
}


class NoNeighboursError(SwitchError, reason="no_neighbours"):
    """Its platform offers no neighbours here."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What one switch sees, or why it was not read."""

    neighbours: SwitchNeighbours | None = None
    failure: SwitchError | None = None


def read_neighbours(
    devices: Mapping[str, Device],
    *,
    at_once: int = AT_ONCE,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Mapping[str, Seen]:
    """Asks every switch, ``at_once`` at a time."""
    asks = {name: partial(_seen, device) for name, device in devices.items()}
    return ask_all(asks, at_once=at_once, progress=progress)


def reader_of(platform: str) -> Reader | None:
    """None: that platform offers no neighbours here. Its module is imported when it is asked for."""
    if platform not in _READERS:
        return None
    reader: Reader = resolve_name(_READERS[platform])
    read_all_fields()  # of the types that came with its module
    return reader


def _seen(device: Device) -> Seen:
    try:
        reader = reader_of(device.platform)
        if reader is None:
            raise NoNeighboursError(
                device.where,
                f"platform {device.platform}",
                f"neighbours are read from {', '.join(sorted(_READERS))}",
                "declare its links, or let the switches around it show them",
            )
        return Seen(neighbours=reader(device))
    except SwitchError as error:
        return Seen(failure=error)
    except Exception as error:
        return Seen(failure=adapter_failed(device.where, error))
