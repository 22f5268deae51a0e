"""Binary reports, a decoder for them, and sockets to send them with."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from telemetry.decode.body import Decoded
from telemetry.decode.p4.decoder import P4Decoder
from telemetry.decode.p4.devices import Devices, UnitProfile
from telemetry.encode.p4 import datagram_v2
from telemetry.state import FlowKey
from tests.counterparts.p4_writer import InnerType, Metadata, packet, report_v2

FLOW = FlowKey("10.0.0.1", "10.0.0.2", 10_000, 4791, 17)


def report(number: int) -> bytes:
    """A report of one hop, whose depth is ``number``."""
    told = Metadata(layer1=(1, 2), queue=(3, number), ingress_time=1_000, egress_time=2_000)
    inner = packet(FLOW, b"", packet_bytes=1_048, identification=number % 65_536)
    return report_v2(told, flags=2, inner=inner, inner_type=InnerType.IPV4)


def datagram(number: int, *, reports: int = 1, node: int = 7) -> bytes:
    """A datagram, the ``number``-th of its node."""
    return datagram_v2(node, 0, number, [report(number)] * reports)


class Decoding:
    """Decodes as the service does, and keeps what it was given."""

    def __init__(self) -> None:
        self._decoder = P4Decoder(Devices(default=UnitProfile()))
        self.sources: set[str] = set()
        self.numbers: list[int] = []
        self.received_ns: list[int] = []

    def decode(
        self, payloads: Sequence[bytes], received_ns: NDArray[np.int64], sources: Sequence[str]
    ) -> Decoded:
        assert len(payloads) == len(received_ns) == len(sources)
        found = self._decoder.decode(payloads, received_ns)
        self.sources.update(sources)
        self.numbers += found.senders.sequence.tolist()
        self.received_ns += received_ns.tolist()
        return Decoded(found.delivered(), found.problems)


class Held(Decoding):
    """Decodes nothing until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.go = threading.Event(), threading.Event()

    def decode(self, *given: Any) -> Decoded:
        self.begun.set()
        assert self.go.wait(60)
        return super().decode(*given)


def sender(host: str = "127.0.0.1") -> socket.socket:
    """A socket that sends from an address of this machine."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_DGRAM)
    made.bind((host, 0))
    return made


def send(payloads: Sequence[bytes], to: str, *, host: str = "127.0.0.1") -> None:
    """Sends them all from one socket."""
    at, _, port = to.rpartition(":")
    with sender(host) as made:
        for payload in payloads:
            made.sendto(payload, (at.strip("[]"), int(port)))
