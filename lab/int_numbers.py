"""Who is who in the lab's binary reports, and the inventory that says so to a service; must not send."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import yaml
from numpy.typing import NDArray

from telemetry.encode.p4_columns import MOST_OCCUPANCY
from twin.packet.plan import FabricPlan

_MOST_CELL_BYTES = 65_535


@dataclass(frozen=True, slots=True, eq=False)
class IntNumbers:
    """Node ids of switches and interface ids of their ports, from 1 in the order of the plan.

    ``node`` and ``interface`` go by port of the fabric (0 for a host's). ``cell_bytes`` is what queues are
    counted in: the least in which a full buffer fits the 24 bits there are.
    """

    node: NDArray[np.int64]
    interface: NDArray[np.int64]
    cell_bytes: int

    @classmethod
    def of(cls, plan: FabricPlan) -> Self:
        """The numbers of a fabric."""
        node, interface = (np.zeros(len(plan.ports), np.int64) for _ in range(2))
        nodes = {switch: number for number, switch in enumerate(plan.switches, 1)}
        ports = dict.fromkeys(plan.switches, 0)
        for port in plan.switch_ports:
            switch = plan.ports[port].node
            ports[switch] += 1
            node[port], interface[port] = nodes[switch], ports[switch]
        cells = math.ceil(min(plan.buffer_bytes / MOST_OCCUPANCY, _MOST_CELL_BYTES))
        return cls(node, interface, max(cells, 1))


def inventory(plan: FabricPlan, *, address: str, sampling_rate: float) -> str:
    """The YAML of an inventory with this lab's switches, controlled at ``address``."""
    numbers = IntNumbers.of(plan)
    units: dict[str, Any] = {"occupancy": "bytes"}
    if numbers.cell_bytes > 1:
        units = {"occupancy": "cells", "cell_bytes": numbers.cell_bytes}
    switches: dict[str, Any] = {
        switch: {"int": {"node_id": number, "interfaces": {}}}
        for number, switch in enumerate(plan.switches, 1)
    }
    for port in plan.switch_ports:
        interfaces = switches[plan.ports[port].node]["int"]["interfaces"]
        interfaces[int(numbers.interface[port])] = str(plan.ports[port].port)
    document = {
        "defaults": {
            "platform": "lab",
            "address": address,
            "int": units | {"time": "ns", "timing": "dequeue", "sampling_rate": sampling_rate},
        },
        "switches": switches,
    }
    return yaml.safe_dump(document, sort_keys=False)
