"""Devices that report INT in units nobody told: named, logged once, and forgotten when no more is heard.

Must not know what is in a report. Whoever can send datagrams makes up node ids, so of devices that the
inventory does not have only so many are remembered, and only as long as they are heard.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable

from service.binary_metrics import BinaryMetrics
from telemetry.decode.p4.devices import Devices

MOST_UNTUNED = 256
"""Devices that the inventory does not have and that are remembered at a time, and that are logged at all."""
FORGOTTEN_AFTER_S = 600.0

_log = logging.getLogger("ecntwin.int")


class UntunedDevices:
    """``clock_s`` is monotonic seconds. ``note`` is for one thread; ``names`` may be asked from any."""

    def __init__(self, devices: Devices, *, metrics: BinaryMetrics, clock_s: Callable[[], float]) -> None:
        self._devices = devices
        self._metrics = metrics
        self._clock_s = clock_s
        self._lock = threading.Lock()
        self._known: set[int] = set()
        self._strangers: dict[int, float] = {}
        self._logged = 0

    @property
    def names(self) -> tuple[str, ...]:
        """By name or node id, sorted."""
        with self._lock:
            self._forget()
            return tuple(sorted(map(self._devices.switch, (*self._known, *self._strangers))))

    def note(self, nodes: Iterable[int]) -> None:
        """These have just reported, and have no profile."""
        now_s = self._clock_s()
        with self._lock:
            self._forget()
            for node in nodes:
                if node in self._devices.switches:
                    if node not in self._known:
                        self._known.add(node)
                        self._count(node)
                        self._tell(node)
                elif node in self._strangers:
                    self._strangers[node] = now_s
                elif len(self._strangers) < MOST_UNTUNED:
                    self._strangers[node] = now_s
                    self._count(node)
                    self._tell_stranger(node)

    def _tell_stranger(self, node: int) -> None:
        if self._logged < MOST_UNTUNED:
            self._tell(node)
        elif self._logged == MOST_UNTUNED:
            _log.warning(
                "%d devices that the inventory does not have reported without a unit profile; of others the "
                "log says nothing",
                MOST_UNTUNED,
            )
        self._logged += 1

    def _tell(self, node: int) -> None:
        _log.warning(
            "switch %s (node id %d) reports INT, and what it counts in is not known: it is shown and not "
            "tuned; give it a unit profile in the inventory (docs/int-binary.md)",
            self._devices.switch(node),
            node,
        )

    def _count(self, node: int, there: bool = True) -> None:
        label = self._metrics.label(self._devices.switch(node))
        self._metrics.untuned.labels(label).inc(1 if there else -1)  # one label stands for many strangers

    def _forget(self) -> None:
        """Lets go of strangers that were not heard for long."""
        before_s = self._clock_s() - FORGOTTEN_AFTER_S
        for node in [node for node, heard_s in self._strangers.items() if heard_s < before_s]:
            del self._strangers[node]
            self._count(node, there=False)
