"""Hosts whose NICs answer from memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from prometheus_client import CollectorRegistry

from nics.base import NicAdapter, NicReading, Reading, understood
from nics.host import Host
from nics.parameters import DEFAULTS, Values
from service.network_metrics import NicMetrics
from service.nics.hosts import MadeNics
from service.nics.polling import NicPolling
from settings.sections import NicPollSettings
from switches.errors import SwitchError
from twin.dcqcn import PAPER, DcqcnParams


def nic(
    name: str = "ens1",
    values: Values = DEFAULTS,
    counters: Mapping[str, int] | None = None,
    reacts: tuple[int, ...] | None = (3,),
) -> NicReading:
    params, problem = understood(name, values)
    return NicReading(
        nic=name,
        rdma="mlx5_0",
        driver="mlx5_core",
        values=values,
        counters=counters or {},
        reacts=reacts,
        params=params,
        problem=problem,
    )


def reading(host: str, *nics: NicReading) -> Reading:
    return Reading(host, 1_000, nics or (nic(),))


class Answering:
    """A host's adapter: answers with ``now``, which may be an error."""

    def __init__(self, host: str) -> None:
        self.host = host
        self.now: Reading | Exception = reading(host)
        self.closed = False

    def read(self) -> Reading:
        if isinstance(self.now, Exception):
            raise self.now
        return self.now

    def close(self) -> None:
        self.closed = True


class Hosts:
    """Hosts and what follows them."""

    def __init__(
        self,
        *names: str,
        configured: DcqcnParams = PAPER,
        said: bool = False,
        poll: bool = True,
        problems: Mapping[str, SwitchError] | None = None,
    ) -> None:
        self.now_s = 100.0
        self.registry = CollectorRegistry()
        self.adapters = {name: Answering(name) for name in names}
        made = MadeNics(cast("Mapping[str, NicAdapter]", self.adapters), problems or {})
        self.polling = NicPolling(
            {
                name: Host(name=name, platform="connectx", nic_class="h100")
                for name in (*names, *made.problems)
            },
            made,
            NicPollSettings(poll=poll),
            configured,
            said=said,
            metrics=NicMetrics(self.registry),
            clock_s=lambda: self.now_s,
        )

    async def read(self, *names: str) -> None:
        for name in names or self.adapters:
            await self.polling.read(name)

    def metric(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"ecntwin_{name}", labels)
