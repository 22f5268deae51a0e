"""Elephants and mice: a few long transfers under many short ones; must import nothing but numpy, errors and
this package.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from twin.errors import ParameterError
from twin.traffic.base import Traffic
from twin.traffic.checks import check_above_zero, check_count, check_share
from twin.traffic.pattern import Hosts, Seed, check_duration, check_flows, generator_of
from twin.traffic.poisson import Poisson
from twin.traffic.sizes import SizeDistribution


@dataclass(frozen=True, kw_only=True)
class ElephantsAndMice:
    """``elephants`` transfers at a time, each of ``elephant_bytes`` and followed by the next of the same
    pair, and mice at ``mice_load`` between all hosts.

    ``per_receiver`` elephants share a receiver; senders receive none. As many follow each other as would fit
    the duration if nothing were in the way; ``elephant_bytes`` of inf is one that never ends, not even with
    its phase. Mice are drawn from ``mice``, cut down to ``mouse_bytes``.
    """

    elephants: int = 4
    elephant_bytes: float = 10_000_000
    per_receiver: int = 2
    mice_load: float = 0.2
    mice: SizeDistribution = field(default_factory=lambda: SizeDistribution.named("hadoop"))
    mouse_bytes: float = 100_000

    def __post_init__(self) -> None:
        check_count("elephants-and-mice elephants", self.elephants)
        check_above_zero("elephants-and-mice elephant_bytes", self.elephant_bytes, endless=True)
        check_count("elephants-and-mice per_receiver", self.per_receiver)
        check_share("elephants-and-mice mice_load", self.mice_load)
        check_above_zero("elephants-and-mice mouse_bytes", self.mouse_bytes)

    def traffic(self, hosts: Hosts, *, duration_s: float, seed: Seed) -> Traffic:
        """Elephants that begin at 0 and mice that arrive in [0, ``duration_s``)."""
        check_duration(duration_s)
        for_elephants, for_mice = generator_of(seed).spawn(2)
        mice = Poisson(load=self.mice_load, sizes=self.mice, largest_bytes=self.mouse_bytes)
        return Traffic.merged(
            self._elephants(hosts, duration_s, for_elephants),
            mice.traffic(hosts, duration_s=duration_s, seed=for_mice),
        )

    def _elephants(self, hosts: Hosts, duration_s: float, generator: np.random.Generator) -> Traffic:
        receivers = math.ceil(self.elephants / self.per_receiver)
        senders = hosts.count - receivers
        if senders < 1:
            raise ParameterError(
                "elephants-and-mice elephants",
                f"{self.elephants}, {self.per_receiver} a receiver",
                f"their receivers leave a sender among {hosts.count} hosts",
                "take fewer, or more a receiver",
            )
        order = generator.permutation(hosts.count)
        lane = np.arange(self.elephants)
        src, dst = order[receivers + lane % senders], order[lane // self.per_receiver]
        if math.isinf(self.elephant_bytes):
            return Traffic.independent(src, dst, math.inf, 0.0)
        sharing = max(min(self.per_receiver, self.elephants), math.ceil(self.elephants / senders))
        turns = max(1, math.floor(duration_s / (sharing * hosts.alone_s(self.elephant_bytes))))
        count = turns * self.elephants
        check_flows("elephants-and-mice", count)
        return Traffic(
            src=np.tile(src, turns),
            dst=np.tile(dst, turns),
            payload_bytes=np.full(count, float(self.elephant_bytes)),
            start_s=np.zeros(count),
            after_offset=np.maximum(np.arange(count + 1) - self.elephants, 0),
            after=np.arange(count - self.elephants),
            gap_s=np.zeros(count),
        )
