"""What the service's routes answer of the 500 switches of ``Pods`` where queues of each run different
watermarks, and of a rollout under way to all of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, reduce
from itertools import groupby
from types import SimpleNamespace

import httpx
from fastapi import FastAPI

import api.routes.rollouts
import api.routes.switches
from api.deps import Requires
from rollout.machine import advance, begin
from rollout.plan import Limits, RolloutPlan
from rollout.state import Applied, Applying, Approved, Event, Proposed, Staged
from service.documents.switches import SwitchDocument
from service.rollouts.rollout import Rollout
from switches.base import Capabilities, QueueWatermark, Reading, StagedChange
from tests.counterparts.pods import BEGUN_NS, QUEUE, Pods
from twin.watermark import Watermark

ROLLOUT = "20270115T080000-7"
RUNS = (Watermark(400_000, 1_600_000, 0.2), Watermark(150_000, 600_000, 0.05))
WANTED = Watermark(200_000, 800_000, 0.1)
_BEGUN_S = BEGUN_NS / 1e9
_BATCH = 20


@cache
def _queues() -> dict[str, tuple[QueueWatermark, ...]]:
    return {
        name: tuple(QueueWatermark(f"Ethernet{port}", QUEUE, RUNS[port % 2]) for _, port in ports)
        for name, ports in groupby(Pods().ports, lambda place: place[0])
    }


@cache
def switches() -> tuple[SwitchDocument, ...]:
    """By name; each was set from here once, and its queues have differed since."""
    kind = Capabilities(kind="sonic", writes=True)
    return tuple(
        SwitchDocument.of(
            name,
            kind,
            Reading.of(name, queues, BEGUN_NS),
            None,
            set_to=RUNS[0],
            set_by_role={},
            drifted=True,
            untuned=False,
            records=(),
        )
        for name, queues in sorted(_queues().items())
    )


@cache
def rollout() -> Rollout:
    """Every change is worked out, and the first switch is being set."""
    names = tuple(sorted(_queues()))
    batches = tuple(names[start : start + _BATCH] for start in range(1, len(names), _BATCH))
    plan = RolloutPlan(
        id=ROLLOUT,
        recommendation="20270115T075900-3",
        targets=dict.fromkeys(names, WANTED),
        stages=(names[:1], *batches),
        limits=Limits(),
        written=names,
    )
    events: list[Event] = [Approved(at_s=_BEGUN_S, by="ada", checks=True)]
    events += [Staged(at_s=_BEGUN_S, switch=name, change=_change(name)) for name in names]
    events += [kind(at_s=_BEGUN_S + 1, switch=names[0]) for kind in (Applying, Applied)]
    proposed = Proposed(at_s=_BEGUN_S, plan=plan)
    return Rollout(reduce(advance, events, begin(proposed)), [proposed, *events])


def _change(name: str) -> StagedChange:
    queues = _queues()[name]
    return StagedChange(
        id=f"{ROLLOUT}-{name}",
        switch=name,
        asked=WANTED,
        after=WANTED,
        before=queues,
        diff="\n".join(f"-{one.port} {one.watermark}\n+{one.port} {WANTED}" for one in queues[: len(RUNS)]),
        notes=(f"Queues of {name} ran different watermarks; all of them are set alike.",),
    )


class _Fleet:
    names = tuple(sorted(_queues()))

    async def documents(self, names: Sequence[str], *, read: bool = True) -> list[SwitchDocument]:
        return [one for one in switches() if one.name in set(names)]


class _Rollouts:
    def get(self, rollout_id: str) -> Rollout:
        assert rollout_id == ROLLOUT
        return rollout()

    def newest(self, limit: int, *, before: str | None) -> list[Rollout]:
        return [rollout()]

    def __len__(self) -> int:
        return 1


async def _nothing() -> None:
    pass


@cache
def _routes() -> FastAPI:
    app = FastAPI()
    for one in (api.routes.switches, api.routes.rollouts):
        app.include_router(one.router)
    app.dependency_overrides[Requires("read")] = lambda: None
    app.state.service = SimpleNamespace(
        fleet=_Fleet(), rollouts=_Rollouts(), look_for_switches=_nothing, answers=None
    )
    return app


async def _answer(path: str) -> str:
    transport = httpx.ASGITransport(_routes())
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        found = await client.get(path)
    assert found.status_code == 200, found.text
    return found.text


def answer(path: str) -> str:
    """What the routes of switches and rollouts answer to a GET of this path with its query."""
    with ThreadPoolExecutor(1) as beside:  # a caller may have an event loop of its own
        return beside.submit(asyncio.run, _answer(path)).result()
