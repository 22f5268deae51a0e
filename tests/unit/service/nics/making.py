"""Hosts whose NICs answer from memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from prometheus_client import CollectorRegistry

from nics.base import NicAdapter, NicReading, NicValues, Reading, StagedChange, understood, values_diff
from nics.host import Host
from nics.parameters import Values
from service.network_metrics import NicMetrics
from service.nics.hosts import MadeNics
from service.nics.polling import NicPolling
from settings.telemetry import NicPollSettings
from switches.errors import ConcurrentEditError, ReadBackError, SwitchError
from tests.unit.nics.sysfs import DEFAULTS
from twin.senders.dcqcn import PAPER, DcqcnParams


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
    """A host's adapter: answers with ``now``, which may be an error. ``meets`` is what a call of a step
    meets, in turn; ``calls`` are the steps; its platform ``writes`` NICs.
    """

    def __init__(self, host: str) -> None:
        self.host = host
        self.writes = True
        self.now: Reading | Exception = reading(host)
        self.closed = False
        self.calls: list[str] = []
        self.meets: dict[str, list[Exception]] = {}

    @property
    def runs(self) -> Values:
        assert isinstance(self.now, Reading)
        return self.now.nics[0].values

    def set(self, values: Values) -> None:
        self.now = reading(self.host, nic("ens1", {**self.runs, **values}))

    def stage(self, values: Values, change_id: str) -> StagedChange:
        self._step("stage")
        before = (NicValues("ens1", {name: self.runs[name] for name in values}),)
        diff = values_diff(self.host, before, values)
        return StagedChange(id=change_id, host=self.host, after=values, before=before, diff=diff)

    def apply(self, change: StagedChange) -> None:
        self._step("apply")
        self._check(change)
        self.set(change.after)

    def verify(self, change: StagedChange) -> Reading:
        self._step("verify")
        found = self.read()
        if not change.made_in(found):
            raise ReadBackError(self.host, change.difference(found), "it runs the change", "look")
        return found

    def rollback(self, change: StagedChange) -> None:
        self._step("undo")
        self._check(change)
        self.set(change.before[0].values)

    def _step(self, step: str) -> None:
        self.calls.append(step)
        if self.meets.get(step):
            raise self.meets[step].pop(0)

    def _check(self, change: StagedChange) -> None:
        runs = self.read().nics[0].values
        if not any(ours.items() <= runs.items() for ours in (change.before[0].values, change.after)):
            raise ConcurrentEditError(self.host, "other values", "nobody else sets them", "look")

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
        writable: bool = True,
        every_s: float = 60.0,
    ) -> None:
        self.on_reading: Callable[[Reading], None] = lambda reading: None
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
            NicPollSettings(poll=poll).model_copy(update={"every_s": every_s}),
            configured,
            said=said,
            metrics=NicMetrics(self.registry),
            clock_s=lambda: self.now_s,
            writable=writable,
            on_reading=lambda reading: self.on_reading(reading),
        )

    async def read(self, *names: str) -> None:
        for name in names or self.adapters:
            await self.polling.read(name)

    def metric(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"ecntwin_{name}", labels)
