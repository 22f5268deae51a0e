"""Who sent the reports that do not say, by the address they came from; imports only its neighbours.

The fixed header of v0.5 has no node id: only its drop and queue reports name the switch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from telemetry.decode.p4.raw import NOTHING_32
from telemetry.decode.p4.result import NOT_TOLD, Senders

_OLD_VERSION = 0

NodesOf = Callable[[NDArray[np.int64]], NDArray[np.int64]]
"""The node ids of who sent the payloads of these positions (``NOT_TOLD``: not known)."""


def tell_nodes(
    hop_node: NDArray[np.uint32],
    offset: NDArray[np.int64],
    payload: NDArray[np.int64],
    senders: Senders,
    nodes: NodesOf,
) -> Senders:
    """Writes the node that sent a report of v0.5 into the report's own hop, the last, where that is not told.

    ``offset`` cuts ``hop_node`` into reports, ``payload`` is that of each. A hop behind one of the same node
    stays as it is: that node has told all it had in the stack. Returns ``senders`` with those nodes.
    """
    asked = senders.payload[senders.version == _OLD_VERSION]
    if not len(asked):
        return senders
    node = np.full(int(senders.payload[-1]) + 1, NOT_TOLD, np.int64)
    node[asked] = nodes(asked)
    told, last = node[payload], offset[1:] - 1
    before = np.where(last > offset[:-1], hop_node[last - 1].astype(np.int64), NOT_TOLD)
    wanted = (hop_node[last] == NOTHING_32) & (told != NOT_TOLD) & (before != told)
    hop_node[last[wanted]] = told[wanted]
    return replace(senders, node=np.where(senders.node == NOT_TOLD, node[senders.payload], senders.node))
