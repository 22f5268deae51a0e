"""The service's rollouts without the service around them: fleet, journal, telemetry and conductor."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import cast

from prometheus_client import CollectorRegistry

from nics.host import Host
from rollout.state import Event, RolloutState
from service.events import Broadcaster, Clocks
from service.ingest.counter_owner import CounterOwner
from service.ingest.threads import DecodingThreads, IngestLimits
from service.ingest.window_owner import WindowOwner
from service.metrics import Metrics
from service.nics.hosts import make_nics
from service.nics.polling import NicPolling
from service.rollouts.manager import Rollouts
from service.rollouts.notify import RolloutNotifier
from service.rollouts.rollout import Rollout
from service.rollouts.runner import Runner, SteadyClock
from service.rollouts.watch import Watcher
from service.switches.adapters import Adapters
from service.switches.fleet import Fleet
from settings.model import PushSettings
from settings.telemetry import NicPollSettings
from settings.twin import IncumbentSettings
from store.database import Database
from store.journal import Journal
from switches.device import Device
from switches.registry import AdapterRegistry
from telemetry.counters.model import CounterSettings
from telemetry.decode.json import decode
from telemetry.settings import WindowSettings
from twin.senders.dcqcn import PAPER

REPORT_EVERY_S = 0.02
WINDOW = WindowSettings(period_ns=20_000_000, n_periods=3)


@dataclass
class Steps:
    """A notifier that notes how long each step took, in seconds."""

    by_name: dict[str, list[float]] = field(default_factory=dict)

    def event(self, rollout: Rollout, before: RolloutState | None, event: Event) -> None:
        """Ignored."""

    def step_timed(self, state: RolloutState, member: str, step: str, seconds: float) -> None:
        self.by_name.setdefault(step, []).append(seconds)


@asynccontextmanager
async def rollouts_alone(
    devices: Mapping[str, Device],
    journal_url: str,
    *,
    at_once: int = 16,
    measure_every_s: float = 0.05,
    steps: Steps | None = None,
    hosts: Mapping[str, Host] | None = None,
) -> AsyncIterator[Rollouts]:
    """They take up what the journal holds; ``hosts`` are written too. Reports of the first switch come all
    the time, for a soak.
    """
    metrics = Metrics(CollectorRegistry(), version="test")
    limits = IngestLimits(1 << 24, 10, 60.0)
    decoding = DecodingThreads()
    window = WindowOwner(
        WINDOW,
        None,
        limits,
        decoding=decoding,
        metrics=metrics,
        events=Broadcaster(),
        clocks=Clocks(),
    )
    counters = CounterOwner(
        CounterSettings(), limits, decoding=decoding, metrics=metrics, clock_s=time.monotonic
    )
    adapters = Adapters(PushSettings(enabled=True), AdapterRegistry(), devices=devices, clock_ns=time.time_ns)
    fleet = Fleet(
        IncumbentSettings(),
        adapters,
        on_reading=lambda switch, before, after: after.reading and rollouts.was_read(after.reading),
        at_once=at_once,
    )
    nics = NicPolling(
        hosts or {},
        make_nics(hosts or {}, clock_ns=time.time_ns),
        NicPollSettings(poll=False),
        PAPER,
        said=False,
        metrics=metrics.nics,
        clock_s=time.monotonic,
        writable=True,
        steps_at_once=at_once,
        on_reading=lambda reading: rollouts.was_read(reading),
    )
    database = Database(journal_url)
    await asyncio.to_thread(database.open)
    runner = Runner(
        fleet,
        nics,
        Journal(database),
        Watcher(window, counters, silence_s=5.0),
        cast("RolloutNotifier", steps or Steps()),
        SteadyClock(time.time, time.monotonic),
        at_once=at_once,
        nic_at_once=at_once,
        measure_every_s=measure_every_s,
    )
    rollouts = Rollouts(runner, keep=100)
    feeding = asyncio.create_task(_feed(window, next(iter(devices))))
    try:
        await rollouts.resume()
        yield rollouts
    finally:
        feeding.cancel()
        with suppress(asyncio.CancelledError):
            await feeding
        await rollouts.stop(5.0)
        await asyncio.to_thread(database.close)
        await nics.stop()
        fleet.close()
        window.close()
        decoding.close()
        counters.close()


async def ended(rollouts: Rollouts, rollout_id: str, within_s: float) -> RolloutState:
    """Where the rollout is once it has ended."""
    rollout = rollouts.get(rollout_id)
    await rollouts.ended(rollout, within_s=within_s)
    assert rollout.state.phase.ended, f"{rollout.state.phase} after {within_s} s: {rollout.stalled}"
    return rollout.state


async def _feed(window: WindowOwner, switch: str) -> None:
    while True:
        now_ns = time.time_ns()
        report = {
            "ts_ns": now_ns,
            "flow": {"src": "10.0.0.1", "dst": "10.0.0.2", "sport": 1, "dport": 4791, "protocol": 17},
            "packet_bytes": 1_048,
            "sampling_rate": 0.015625,
            "hops": [
                {
                    "switch": switch,
                    "ingress_port": "Ethernet4",
                    "egress_port": "Ethernet0",
                    "queue": 3,
                    "queue_bytes": 20_000,
                    "ingress_ts_ns": now_ns - 2_000,
                    "egress_ts_ns": now_ns,
                    "ecn_marked": False,
                }
            ],
        }
        await window.ingest(partial(decode, json.dumps([report]).encode()))
        await asyncio.sleep(REPORT_EVERY_S)
