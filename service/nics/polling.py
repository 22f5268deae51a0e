"""Follows what the NICs of the inventory's hosts run, and what they count; a failing host stops no other."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar

from nics.base import NicAdapter, NicReading, Reading
from nics.host import Host
from service.documents.base import list_text
from service.network_metrics import NicMetrics
from service.nics.hosts import MadeNics
from service.nics.senders import Senders, senders_of
from service.switches.adapter_check import Answer
from service.switches.fleet import OvertakenError, StillWanted
from service.tuning.round import Ask
from settings.errors import NotFoundError
from settings.telemetry import NicPollSettings
from switches.errors import InventoryError, SwitchError
from telemetry.counters.growth import growth
from telemetry.topology import Topology
from twin.senders.classes import nic_classes
from twin.senders.dcqcn import DcqcnParams

_log = logging.getLogger("ecntwin.nics")

LEAST_CNPS = 100
"""CNPs between two readings; that a NIC acts on none of fewer says little."""

_NAMED = 3

T = TypeVar("T")


class NicPolling:
    """Reads every host each ``every_s``, the first time at once, and runs the steps of rollouts on hosts, of
    which ``steps_at_once`` have a thread; a host's adapter is used by one of them at a time. For one event
    loop; ``known`` and ``senders`` also from other threads.

    ``clock_s`` is monotonic seconds; ``configured`` is what the settings say of senders, ``said`` that they
    do. ``declared`` is the topology that an operator gave: hosts without a class are told apart by its rates.
    NICs are set where ``writable``. ``on_reading`` sees every reading.
    """

    def __init__(
        self,
        hosts: Mapping[str, Host],
        made: MadeNics,
        settings: NicPollSettings,
        configured: DcqcnParams,
        *,
        said: bool,
        metrics: NicMetrics,
        clock_s: Callable[[], float],
        writable: bool = False,
        steps_at_once: int = 1,
        on_reading: Callable[[Reading], None] = lambda reading: None,
        declared: Callable[[], Topology | None] = lambda: None,
    ) -> None:
        self.hosts = hosts
        self._made = made
        self._settings = settings
        self._configured = configured
        self._said = said
        self._metrics = metrics
        self._clock_s = clock_s
        self._writable = writable
        self._on_reading = on_reading
        self._declared = declared
        self._classes: tuple[Topology | None, Mapping[str, str]] | None = None
        self._locks = {name: asyncio.Lock() for name in made.adapters}
        self._known: dict[str, Answer[Reading]] = {
            name: Answer(failure=made.problems.get(name)) for name in hosts
        }
        self._read_s: dict[str, float] = {}
        self._ignored: dict[tuple[str, str], int] = {}
        self._high: dict[tuple[str, str], dict[str, int]] = {}  # counts before counters went down
        self._tasks: list[asyncio.Task[None]] = []
        self._slots = asyncio.Semaphore(settings.at_once)
        self._threads = ThreadPoolExecutor(settings.at_once, thread_name_prefix="ecntwin-nics")
        self._step_threads = ThreadPoolExecutor(steps_at_once, thread_name_prefix="ecntwin-nics-step")
        self._senders = senders_of(hosts if settings.poll else (), {}, configured, said=said)
        self._by_classes: Mapping[str, str] | None = None  # of which ``_senders`` were worked out
        self._overtaken = False
        self._working_out = threading.Lock()
        metrics.age.set_function(self._oldest_s)
        metrics.unread.set(len(made.problems))
        metrics.differing.set_function(lambda: self.senders.differing)
        metrics.contradicts.set_function(lambda: self.senders.contradict is not None)

    @property
    def polls(self) -> bool:
        return self._settings.poll and bool(self.hosts)

    def known(self, host: str) -> Answer[Reading]:
        return self._known[host]

    def names_after(self, host: str | None) -> list[str]:
        """Hosts in the inventory's order, those after this one (None: all); raises ``NotFoundError``."""
        names = list(self.hosts)
        if host is None:
            return names
        if host not in self.hosts:
            raise NotFoundError(f"host {host[:80]!r}", None, "not in push.inventory", "list them at /v1/nics")
        return names[names.index(host) + 1 :]

    @property
    def senders(self) -> Senders:
        """What the last readings say. Worked out where asked for: it goes through the NICs of all hosts, of
        which a thousand may be read at once.
        """
        with self._working_out:  # else what one thread made of older readings could replace a newer one's
            changed = self._by_classes is not None and self._by_classes is not self.classes
            if self._overtaken or changed:
                self._decide()
            return self._senders

    def asked(self, ask: Ask) -> Ask:
        """The parameters of a round, with what the NICs run as the senders."""
        senders = self.senders
        fabric = replace(
            ask.fabric, dcqcn=senders.params, nic_class=self.classes, dcqcn_by_class=senders.by_class
        )
        deaf = self.ignoring
        notes = (*senders.notes, *([f"{deaf}; the twin takes them to run DCQCN."] if deaf else []))
        return replace(ask, fabric=fabric, notes=(*ask.notes, *notes))

    @property
    def classes(self) -> Mapping[str, str]:
        """The class of each host (``nic_classes``); empty where all are of one."""
        topology = self._declared()
        if self._classes is None or self._classes[0] is not topology:
            said = {name: host.nic_class for name, host in self.hosts.items()}
            self._classes = topology, nic_classes(said, topology)
        return self._classes[1]

    def unlike(self, params: DcqcnParams, by_class: Mapping[str, DcqcnParams]) -> tuple[str, str] | None:
        """As of ``Senders.unlike``, for the hosts of the inventory."""
        return self.senders.unlike(params, by_class, {self.classes.get(name, "") for name in self.hosts})

    def start(self) -> None:
        if self.polls:
            self._tasks = [
                asyncio.create_task(self._follow(name), name=f"nics-{name}") for name in self._made.adapters
            ]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._step_threads.shutdown(wait=False, cancel_futures=True)
        # An open connection would keep a read under way until its timeout.
        await asyncio.to_thread(self._made.close)

    async def read(self, host: str) -> None:
        """Reads a host now, and keeps what it runs, or why it could not be read."""
        async with self._locks[host]:
            await self._read(host)

    async def _read(self, host: str) -> None:
        loop = asyncio.get_running_loop()
        adapter, before = self._made.adapters[host], self._known[host]
        try:
            after = Answer(await loop.run_in_executor(self._threads, adapter.read))
        except SwitchError as error:
            after = replace(before, failure=error)
        except Exception as error:
            _log.exception("the adapter of host %s failed unexpectedly", host)
            rule = "an adapter answers, or raises a SwitchError"
            remedy = "look in the service's log, and report it"
            after = replace(before, failure=SwitchError(f"host {host!r}", type(error).__name__, rule, remedy))
        self._note(host, before, after)

    def kind(self, host: str) -> str:
        """The adapter of a host in metrics."""
        return self.hosts[host].platform if host in self.hosts else "none"

    def writes(self, host: str) -> bool:
        """Whether a change of this host's NICs writes them."""
        return self._writable and host in self._made.adapters

    def settable(self, host: str) -> bool:
        """Whether its NICs may be set: not where its platform only reads them, or it was read to have none
        that this service sets.
        """
        adapter = self._made.adapters.get(host)
        if adapter is not None and not adapter.writes:
            return False
        reading = self._known[host].reading
        return reading is None or any(nic.values for nic in reading.nics)

    @property
    def unmade(self) -> Mapping[str, SwitchError]:
        """Hosts without an adapter, and why."""
        return self._made.problems

    async def step(
        self, host: str, step: Callable[[NicAdapter], T], *, still: StillWanted = lambda: True
    ) -> T:
        """Runs a blocking step with exclusive use of the host's adapter.

        Raises what the step raises, ``InventoryError`` for a host without an adapter, and ``OvertakenError``
        where it is not ``still`` wanted once the host is free.
        """
        if host not in self._made.adapters:
            rule = "a rollout sets hosts of the inventory"
            remedy = "put it back into push.inventory until the rollout has ended"
            raise self._made.problems.get(host) or InventoryError(f"host {host!r}", "not there", rule, remedy)
        async with self._locks[host]:
            if not still():
                raise OvertakenError
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._step_threads, step, self._made.adapters[host])

    def note(self, reading: Reading) -> None:
        """Keeps a reading made by a step."""
        self._note(reading.host, self._known[reading.host], Answer(reading))

    def end_steps(self) -> None:
        """Waits for running steps and starts no more; blocking."""
        self._step_threads.shutdown(wait=True, cancel_futures=True)

    def failing(self) -> Mapping[str, str]:
        """Hosts whose NICs cannot be read, all or some, each with a sentence."""
        found: dict[str, str] = {}
        for host, known in self._known.items():
            if known.failure is not None:
                found[host] = f"The NICs of {host} cannot be read: {known.failure}"
            elif known.reading is not None and known.reading.problems:
                found[host] = f"What a NIC of {host} runs is not known: {known.reading.problems[0]}"
        return found

    def contradictions(self) -> Iterator[tuple[str, str | None]]:
        """What may be at odds, and the sentence on how it is; None where it is not."""
        yield "NICs", self.senders.differ
        yield "NICs and settings", self.senders.contradict
        deaf = self.ignoring
        yield "NICs and CNPs", deaf and f"{deaf}: turn DCQCN on there, or say sender in the inventory"

    @property
    def ignoring(self) -> str | None:
        """Which NICs slow down for no CNP, although their hosts are taken to send by DCQCN; None: none."""
        if not self._ignored:
            return None
        each = [f"{host}/{nic} ({count} CNPs)" for (host, nic), count in sorted(self._ignored.items())]
        return f"{list_text(each, _NAMED)} ignored every CNP between two readings"

    async def _follow(self, host: str) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due_s = loop.time() + self._settings.every_s
            async with self._slots:
                try:
                    await self.read(host)
                except Exception:
                    _log.exception("a reading of host %s could not be used; it is read again", host)
            await asyncio.sleep(max(0.0, due_s - loop.time()))

    def _note(self, host: str, before: Answer[Reading], after: Answer[Reading]) -> None:
        self._known[host] = after
        platform = self.hosts[host].platform
        if after.failure is not None:
            self._metrics.failures.labels(platform, after.failure.reason).inc()
            if before.failure is None:
                _log.warning("NICs of host %s cannot be read: %s", host, after.failure)
        else:
            self._read_s[host] = self._clock_s()
            self._metrics.reads.labels(platform).inc()
            if before.failure is not None:
                _log.info("NICs of host %s can be read again", host)
            self._count(host, before.reading, after.reading)
            if after.reading is not None:
                self._on_reading(after.reading)
        self._metrics.unread.set(sum(one.failure is not None for one in self._known.values()))
        if _without_counters(before.reading) != _without_counters(after.reading):
            self._overtaken = True

    def _decide(self) -> None:
        self._overtaken, self._by_classes = False, self.classes
        readings = {name: one.reading for name, one in self._known.items() if one.reading is not None}
        before = self._senders
        now = self._senders = senders_of(
            self.hosts, readings, self._configured, said=self._said, classes=self._by_classes
        )
        if before.params != now.params:
            _log.info("the twin takes senders to run what the %s say: %s", now.source, now.params)
        for name in sorted(before.by_class.keys() | now.by_class.keys()):
            if before.of_class(name) != now.of_class(name):
                _log.info("the twin takes NICs of class %s to run: %s", name, now.of_class(name))

    def _count(self, host: str, before: Reading | None, after: Reading | None) -> None:
        if before is None or after is None:
            return
        for one in before.nics:
            if after.nic(one.nic) is None:  # it was taken out, or has another name
                self._ignored.pop((host, one.nic), None)
                self._high.pop((host, one.nic), None)
        for nic in after.nics:
            earlier = before.nic(nic.nic)
            if earlier is None:
                continue
            more = self._more(host, earlier, nic)
            self._note_cnps((host, nic.nic), more)
            for name, count in more.items():
                if count > 0:
                    self._metrics.events.labels(self.hosts[host].nic_class or "none", name).inc(count)

    def _more(self, host: str, before: NicReading, after: NicReading) -> dict[str, int]:
        """What its counters grew, without those that went down: their next reading tells what they grew."""
        was, now = _summed(before), _summed(after)
        high, self._high[host, after.nic] = self._high.get((host, after.nic), {}), {}
        found: dict[str, int] = {}
        for name in was.keys() & now.keys():
            grown = growth(was[name], now[name], high.get(name))
            if grown is None:
                self._high[host, after.nic][name] = high.get(name, was[name])
            else:
                found[name] = grown.whole
        return found

    def _note_cnps(self, nic: tuple[str, str], more: Mapping[str, int]) -> None:
        """Whether a NIC acts on CNPs, where enough came or it acted on one; else what was known stays.

        ``rp_cnp_ignored`` are those that its reaction point ignored, ``rp_cnp_handled`` those it acted on
        (Linux, commit e1f24a79f424).
        """
        ignored, handled = more.get("rp_cnp_ignored"), more.get("rp_cnp_handled")
        if ignored is None or handled is None:
            return
        if handled > 0:
            self._ignored.pop(nic, None)
        elif ignored >= LEAST_CNPS:
            self._ignored[nic] = ignored

    def _oldest_s(self) -> float:
        if not self.hosts or len(self._read_s) < len(self.hosts):
            return math.nan
        return self._clock_s() - min(self._read_s.values())


def _without_counters(reading: Reading | None) -> list[NicReading] | None:
    return None if reading is None else [replace(nic, counters={}) for nic in reading.nics]


def _summed(nic: NicReading) -> dict[str, int]:
    """Its counters, pauses of all priorities together."""
    found: dict[str, int] = {}
    for name, value in nic.counters.items():
        key = f"{name[:2]}_pause" if name.endswith("_pause") else name
        found[key] = found.get(key, 0) + value
    return found
