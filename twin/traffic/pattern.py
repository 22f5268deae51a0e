"""What a traffic pattern is: something that makes flows between hosts for a while, from a seed; must import
nothing but numpy, errors and this package.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from twin.errors import ParameterError
from twin.traffic.base import Traffic
from twin.traffic.checks import check_above_zero, check_count, check_not_negative

Seed = int | np.random.Generator

MOST_FLOWS = 20_000_000  # a gigabyte of columns


@dataclass(frozen=True, kw_only=True)
class Hosts:
    """The hosts that traffic is made for, numbered 0 … ``count`` − 1, all with the same NIC.

    A packet carries up to ``mtu_payload_bytes`` and ``wire_overhead_bytes`` more on the wire; the rate counts
    both.
    """

    count: int
    nic_bytes_per_s: float = 12.5e9
    mtu_payload_bytes: int = 1000
    wire_overhead_bytes: int = 48

    def __post_init__(self) -> None:
        check_count("hosts count", self.count, least=2)
        check_above_zero("hosts nic_bytes_per_s", self.nic_bytes_per_s)
        check_count("hosts mtu_payload_bytes", self.mtu_payload_bytes)
        check_count("hosts wire_overhead_bytes", self.wire_overhead_bytes, least=0)

    def wire_bytes(self, payload_bytes: float) -> float:
        """What one flow of ``payload_bytes`` puts on the wire."""
        return (
            payload_bytes + float(np.ceil(payload_bytes / self.mtu_payload_bytes)) * self.wire_overhead_bytes
        )

    def alone_s(self, payload_bytes: float) -> float:
        """How long a NIC that does nothing else sends ``payload_bytes``."""
        return self.wire_bytes(payload_bytes) / self.nic_bytes_per_s


class Pattern(Protocol):
    """Makes flows. A pattern is a frozen set of options; every draw comes from the seed."""

    def traffic(self, hosts: Hosts, *, duration_s: float, seed: Seed) -> Traffic:
        """Flows that start in [0, ``duration_s``), or wait for ones that do. The same options and seed give
        the same flows in any process. Raises ``ParameterError`` where the options do not fit the hosts.
        """
        ...


def generator_of(seed: Seed) -> np.random.Generator:
    """The generator that a seed stands for; a generator stands for itself."""
    if not isinstance(seed, np.random.Generator):
        check_count("traffic seed", seed, least=0)
    return np.random.default_rng(seed)


def check_duration(duration_s: float) -> None:
    """Raises ``ParameterError`` unless a pattern can run for this long."""
    check_not_negative("traffic duration_s", duration_s)


def check_flows(where: str, count: float) -> None:
    """Raises ``ParameterError`` for more flows than a fabric could be offered at once."""
    if count > MOST_FLOWS:
        raise ParameterError(
            where,
            f"options that make {count:.3g} flows",
            f"at most {MOST_FLOWS} are made at once",
            "shorten the duration, or make larger and fewer flows",
        )


def chosen_hosts(where: str, wanted: Sequence[int] | None, hosts: Hosts) -> NDArray[np.int64]:
    """The hosts an option names, all of them for None. Raises ``ParameterError`` for one there is not."""
    if wanted is None:
        return np.arange(hosts.count)
    for host in wanted:
        check_count(where, host, least=0)
        if host >= hosts.count:
            raise ParameterError(
                where, str(host), f"hosts are numbered 0 to {hosts.count - 1}", "name a host there is"
            )
    if len(wanted) == 0 or len(set(wanted)) != len(wanted):
        raise ParameterError(
            where, str(list(wanted)), "it names at least one host, none twice", "correct the list"
        )
    return np.array(wanted, dtype=np.int64)
