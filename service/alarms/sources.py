"""What alarms ask of the ways telemetry comes in; any of them may not be there."""

from __future__ import annotations

from collections.abc import Mapping

from service.ingest.p4_reports import BinaryReports
from service.polling.poller import CounterPolling
from service.udp.listener import UdpListening
from telemetry.decode.p4.sequence import Sender, SequenceCounts


class Sources:
    """Binary reports, datagrams and polled counters, of which each may be None."""

    def __init__(
        self,
        *,
        binary: BinaryReports | None = None,
        udp: UdpListening | None = None,
        polling: CounterPolling | None = None,
    ) -> None:
        self._binary = binary
        self._named = frozenset() if binary is None else frozenset(binary.devices.switches.values())
        self._udp = udp
        self._polling = polling

    def sequence_counts(self) -> Mapping[Sender, SequenceCounts]:
        """Of every sender of binary reports, since it was first heard."""
        return {} if self._binary is None else self._binary.sequence_counts()

    def name_of(self, sender: Sender) -> tuple[str, str | None]:
        """A sender in words, and the switch it is where the inventory has it."""
        if self._binary is None:
            return str(sender.node), None
        name = self._binary.name(sender)
        known = name in self._named
        return f"{name if known else f'sender {name}'} unit {sender.hardware}", name if known else None

    def untuned(self) -> Mapping[str, str]:
        """Devices whose units nobody told, and a sentence of each."""
        names = () if self._binary is None else self._binary.untuned
        return {
            name: f"{name} reports INT in units that nobody told: its queues are not known, and it is not "
            "tuned"
            for name in names
        }

    @property
    def dropped(self) -> int:
        """Datagrams dropped on the way in, wherever."""
        return 0 if self._udp is None else self._udp.dropped

    @property
    def listens(self) -> bool:
        """Whether datagrams are taken at all."""
        return self._udp is not None and bool(self._udp.addresses)

    def failing(self) -> Mapping[str, str]:
        """Switches whose counters cannot be read, and a sentence of each."""
        found = {} if self._polling is None else self._polling.failing
        return {
            switch: f"The counters of {switch} cannot be read ({reason}): pauses and drops on it are not seen"
            for switch, reason in found.items()
        }
