"""What ``show lldp neighbors detail`` says, over eAPI and NX-API."""

from __future__ import annotations

from contextlib import closing

from switches.cli.eos import EapiSession
from switches.cli.nxos import NxapiSession
from switches.device import Device
from switches.errors import RefusedError
from telemetry.neighbours import eos, nxos
from telemetry.neighbours.model import SwitchNeighbours

_NONE = "no neighbour information"


def of_eos(device: Device) -> SwitchNeighbours:
    with closing(EapiSession(device)) as session:
        return eos.eos_neighbours(*session.run(eos.COMMANDS))


def of_nxos(device: Device) -> SwitchNeighbours:
    with closing(NxapiSession(device)) as session:
        lldp, status, hostname = (_shown(session, command) for command in nxos.COMMANDS)
        return nxos.nxos_neighbours(lldp, status, hostname)


def _shown(session: NxapiSession, command: str) -> object:
    try:
        return session.document(command)
    except RefusedError as error:
        if _NONE in str(error).lower():  # what it answers where no port has a neighbour
            return {}
        raise
