"""How a packet-level fabric behaves where real ones differ; imports nothing but the errors."""

from __future__ import annotations

import math
from dataclasses import dataclass

from twin.errors import ParameterError

# InfiniBand's local acknowledgement timeout is 4.096 µs × 2^n (InfiniBand Architecture Specification, volume
# 1, section 9.7.6.1.3): n = 14 is what RoCE verbs programs usually ask for, n = 10 suits a fabric that drops.
LOSSLESS_TIMEOUT_S = 4.096e-6 * 2**14
LOSSY_TIMEOUT_S = 4.096e-6 * 2**10


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketSettings:
    """Choices of hardware, not of operators.

    ``mark_at``: ``dequeue`` (the depth a packet leaves behind) or ``enqueue`` (the depth it finds).
    ``pace_cnps_at``: ``sender`` (a CNP with every marked packet, one cut an interval) or ``receiver`` (one
    CNP an interval, a cut each). ``retransmit_timeout_s`` None takes 67 ms with PFC and 4 ms without.
    Queues are looked at every ``queue_sample_s``. Raises ``ParameterError``.
    """

    mark_at: str = "dequeue"
    pace_cnps_at: str = "sender"
    retransmit_timeout_s: float | None = None
    queue_sample_s: float = 1e-6

    def __post_init__(self) -> None:
        for name, known in (("mark_at", ("dequeue", "enqueue")), ("pace_cnps_at", ("sender", "receiver"))):
            if getattr(self, name) not in known:
                raise ParameterError(
                    f"packet {name}", repr(getattr(self, name)), f"it is {' or '.join(known)}", "name one"
                )
        for name in ("retransmit_timeout_s", "queue_sample_s"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value > 0):
                raise ParameterError(f"packet {name}", str(value), "it is above 0", "give seconds")

    def retransmit_s(self, *, pfc: bool) -> float:
        """How long a sender waits for an acknowledgement."""
        if self.retransmit_timeout_s is not None:
            return self.retransmit_timeout_s
        return LOSSLESS_TIMEOUT_S if pfc else LOSSY_TIMEOUT_S
