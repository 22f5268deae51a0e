"""What a window held at one moment, for working out its state elsewhere; imports only ``telemetry``."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from telemetry.flow_keys import FlowKeys
from telemetry.network.assemble import network_state
from telemetry.settings import WindowSettings
from telemetry.state import NetworkState
from telemetry.topology import Topology
from telemetry.window.places import Paths
from telemetry.window.samples import Samples


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """A window's reports and tables at one moment; shares nothing that the window will change.

    Taking one costs a few milliseconds. ``state`` costs about a second per 200 000
    reports and may run in another thread, or (it pickles) another process, while the window takes more.
    """

    parts: tuple[Samples, ...]
    flow_keys: FlowKeys
    flow_fingerprint: NDArray[np.uint64]
    last_before_ns: NDArray[np.int64]
    path_sites: Paths
    merged_flows: NDArray[np.int64]
    span_ns: tuple[int, int]
    settings: WindowSettings
    topology: Topology | None

    def state(self) -> NetworkState:
        """The network as the window showed it."""
        return network_state(
            Samples.joined(list(self.parts)).in_canonical_order(),
            flow_keys=self.flow_keys,
            flow_fingerprint=self.flow_fingerprint,
            last_before_ns=self.last_before_ns,
            path_sites=self.path_sites,
            merged_flows=self.merged_flows,
            span_ns=self.span_ns,
            settings=self.settings,
            topology=self.topology,
        )
