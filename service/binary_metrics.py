"""Metrics of binary INT reports, for each switch that sends them; must not know a report's layout."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge

MOST_STRANGERS = 256
"""Senders that the inventory does not have and that get a label of their own; all others share one."""

OTHERS = "other"


class BinaryMetrics:
    """``named`` has to be called first: a label is one of its names, or of a bounded number of others."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._labels: set[str] = set()
        self._most = MOST_STRANGERS
        self.datagrams = Counter(
            "ecntwin_int_datagrams", "Binary INT datagrams, by sender.", ["switch"], registry=registry
        )
        self.lost = Gauge(
            "ecntwin_int_datagrams_lost",
            "Datagrams since the start that never came, by the sequence numbers of their sender; one that "
            "comes late is no longer lost.",
            ["switch"],
            registry=registry,
        )
        self.restarts = Counter(
            "ecntwin_int_sender_restarts",
            "Times a sender began its sequence numbers anew.",
            ["switch"],
            registry=registry,
        )
        self.drops = Counter(
            "ecntwin_int_drop_reports",
            "INT reports of packets that were dropped, by the switch and egress queue that dropped them.",
            ["switch", "queue"],
            registry=registry,
        )
        self.flagged = Counter(
            "ecntwin_int_flagged_reports",
            "Binary INT reports by the flag they carry (congested_queue, tracked_flow, intermediate).",
            ["switch", "flag"],
            registry=registry,
        )
        self.postcards = Counter(
            "ecntwin_int_postcards",
            "Reports of one hop, by what became of them: merged into a path, surplus (their node had told of "
            "the packet already), late (its path was told already).",
            ["outcome"],
            registry=registry,
        )
        self.untuned = Gauge(
            "ecntwin_int_untuned",
            "1 for a switch that reports INT in units nobody told: it is shown and not tuned. Under a label "
            "that several share, how many.",
            ["switch"],
            registry=registry,
        )

    def named(self, switches: Iterable[str]) -> None:
        """The switches of the inventory: each has a label, however many there are."""
        self._labels.update(switches)
        self._most = len(self._labels) + MOST_STRANGERS

    def label(self, switch: str) -> str:
        """The label of a sender."""
        if switch not in self._labels:
            if len(self._labels) >= self._most:
                return OTHERS
            self._labels.add(switch)
        return switch
