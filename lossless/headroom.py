"""The headroom that a port needs for one lossless priority: what arrives after it has decided to pause.

The sum is that of IEEE 802.1Qbb (802.1Q, annex on buffer requirements for PFC), as Cisco's white paper
"Priority Flow Control: Build Reliable Layer 2 Infrastructure" (C11-542809) and SONiC's
``buffer_headroom_mellanox.lua`` (sonic-swss e6b0c5b) write it: a frame that the port has begun to send, for
which the pause waits; the pause itself; the cable, there and back; what the sender still sends until it
reacts (802.3, 31B.3.7); and a frame that it has begun. Delays inside the chip come on top.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from twin.units import bytes_text

NS_PER_M = 5.0  # light in fibre; copper is faster
FRAME_BYTES = 22  # header, tag and check sequence around an MTU
PAUSE_BYTES = 64
_QUANTUM_BYTES = 64  # 512 bit times

RESPONSE_QUANTA: Mapping[float, int] = MappingProxyType(
    {10: 67, 25: 80, 40: 118, 50: 147, 100: 394, 200: 453, 400: 905, 800: 905}
)
"""How long a sender may take to react to a pause, by its rate in Gbit/s, as SONiC cites 802.3."""


@dataclass(frozen=True, slots=True)
class Headroom:
    """``at_once_bytes`` arrive even where the sender reacts at once; its reaction may add ``response_bytes``,
    and a frame of ``frame_bytes``.
    """

    cable_m: float
    rate_gbps: float
    frame_bytes: int
    cable_bytes: int
    response_bytes: int

    @property
    def at_once_bytes(self) -> int:
        return self.frame_bytes + PAUSE_BYTES + self.cable_bytes

    @property
    def needed_bytes(self) -> int:
        return self.at_once_bytes + self.response_bytes + self.frame_bytes

    def __str__(self) -> str:
        cable, response = bytes_text(self.cable_bytes), bytes_text(self.response_bytes)
        return (
            f"2 frames of {self.frame_bytes} B, a pause of {PAUSE_BYTES} B, {cable} on {self.cable_m:g} m of "
            f"cable and back at {self.rate_gbps:g} Gbit/s, {response} until the sender reacts"
        )


def headroom(rate_gbps: float, cable_m: float, mtu_bytes: int) -> Headroom | None:
    """None for a rate whose reaction time is not known."""
    quanta = RESPONSE_QUANTA.get(rate_gbps)
    if quanta is None:
        return None
    cable_bytes = round(2 * cable_m * NS_PER_M * rate_gbps / 8)
    return Headroom(cable_m, rate_gbps, mtu_bytes + FRAME_BYTES, cable_bytes, quanta * _QUANTUM_BYTES)
