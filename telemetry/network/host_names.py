"""What the topology calls the addresses of flows; imports only numpy, ``flow_keys`` and ``topology``."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from telemetry.flow_keys import FlowKeys
from telemetry.topology import Topology

NOBODY = -1
"""The number of an end that is not known."""


@dataclass(frozen=True, slots=True, eq=False)
class HostNames:
    """Names of hosts by number; ``src`` and ``dst`` of each flow, by its number. An address that the topology
    does not know is a name of its own.
    """

    names: tuple[str, ...]
    src: NDArray[np.int64]
    dst: NDArray[np.int64]

    @classmethod
    def of(cls, keys: FlowKeys, topology: Topology) -> HostNames:
        """The names of these flows' ends, and of the topology's hosts."""
        numbers = {host.name: number for number, host in enumerate(topology.hosts)}
        known = topology.host_by_address
        of_host = np.array(
            [numbers.setdefault(known.get(host, host), len(numbers)) for host in keys.hosts], np.int64
        )
        return cls(tuple(numbers), of_host[keys.src], of_host[keys.dst])

    def called(self, numbers: NDArray[np.int64]) -> tuple[str, ...]:
        """The name of each of these."""
        return tuple(map(self.names.__getitem__, numbers.tolist()))
