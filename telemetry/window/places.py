"""Where hops are: egress queues, paths, and whether a declared topology knows them; imports only
``telemetry``.
"""

from __future__ import annotations

from telemetry.columns import Ragged
from telemetry.report import HopSite
from telemetry.state import QueueRef
from telemetry.topology import Topology

Path = tuple[HopSite, ...]


Paths = Ragged[HopSite]
"""Many paths, their places in columns."""

UNKNOWN_QUEUE = -1
"""``QueueRef.queue`` where the device names the egress port but not the queue."""


def queue_of(site: HopSite) -> QueueRef | None:
    """The egress queue of a hop; None where the device does not say which switch or port."""
    if site.switch is None or site.egress_port is None:
        return None
    return QueueRef(site.switch, site.egress_port, UNKNOWN_QUEUE if site.queue is None else site.queue)


def queues_of(path: Path) -> tuple[QueueRef, ...]:
    """The egress queues of a path, hops that cannot be told left out."""
    return tuple(ref for site in path if (ref := queue_of(site)) is not None)


def misplaced(site: HopSite, topology: Topology) -> tuple[str, str] | None:
    """What was received and the rule it breaks, where a hop lies outside the declared topology; else None."""
    if site.switch is None:
        return None
    if site.switch not in topology.switch_names:
        return f"switch {site.switch!r}", "a hop's switch is one of the declared topology's"
    for kind, port in (("ingress_port", site.ingress_port), ("egress_port", site.egress_port)):
        if port is not None and (site.switch, port) not in topology.port_index:
            return (
                f"{kind} {port!r} of switch {site.switch!r}",
                "a hop's ports are declared, each with the cable it holds",
            )
    return None
