"""Incast: many hosts answer one at the same moment, again and again; must import nothing but numpy, errors
and this package.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twin.errors import ParameterError
from twin.traffic.base import Traffic
from twin.traffic.checks import check_above_zero, check_count, check_not_negative
from twin.traffic.pattern import Hosts, Seed, check_duration, check_flows, chosen_hosts, generator_of


@dataclass(frozen=True, kw_only=True)
class Incast:
    """Every ``period_s``, ``fan_in`` random hosts send ``each_bytes`` to one receiver.

    Each sender starts up to ``jitter_s`` after the burst. ``receiver`` is a host, or None for a new one each
    burst, in turn from a random first.
    """

    fan_in: int = 8
    each_bytes: float = 64_000
    period_s: float = 500e-6
    jitter_s: float = 5e-6
    receiver: int | None = None

    def __post_init__(self) -> None:
        check_count("incast fan_in", self.fan_in)
        check_above_zero("incast each_bytes", self.each_bytes)
        check_above_zero("incast period_s", self.period_s)
        check_not_negative("incast jitter_s", self.jitter_s)
        if self.jitter_s > self.period_s:
            raise ParameterError(
                "incast jitter_s",
                str(self.jitter_s),
                f"a burst is over before the next, in period_s ({self.period_s})",
                "lower it",
            )
        if self.receiver is not None:
            check_count("incast receiver", self.receiver, least=0)

    def traffic(self, hosts: Hosts, *, duration_s: float, seed: Seed) -> Traffic:
        """The bursts that begin, jitter and all, before ``duration_s``; the first at 0."""
        check_duration(duration_s)
        generator = generator_of(seed)
        if self.fan_in >= hosts.count:
            raise ParameterError(
                "incast fan_in",
                str(self.fan_in),
                f"{hosts.count} hosts have {hosts.count - 1} senders for a receiver",
                "lower it",
            )
        bursts = max(0, int(np.ceil((duration_s - self.jitter_s) / self.period_s)))
        check_flows("incast", bursts * hosts.count)
        if self.receiver is None:
            receivers = (generator.integers(hosts.count) + np.arange(bursts)) % hosts.count
        else:
            receivers = np.repeat(chosen_hosts("incast receiver", (self.receiver,), hosts), bursts)
        # The first of a random order of the others, burst by burst.
        order = generator.permuted(np.tile(np.arange(1, hosts.count), (bursts, 1)), axis=1)[:, : self.fan_in]
        senders = (receivers[:, None] + order) % hosts.count
        late = generator.uniform(0.0, self.jitter_s, senders.shape)
        starts = np.arange(bursts)[:, None] * self.period_s + late
        return Traffic.independent(
            senders.ravel(), np.repeat(receivers, self.fan_in), self.each_bytes, starts.ravel()
        )
