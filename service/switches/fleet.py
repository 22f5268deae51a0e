"""The switches the service may set: what they run and should run, and steps on them."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

from service.documents.switches import SwitchDocument
from service.events import retrieve
from service.ingest.p4_reports import BinaryReports
from service.rollouts.set_watermarks import SetWatermarks
from service.switches.adapters import Adapters
from service.switches.readings import UNREAD, OnReading, SwitchReadings
from settings.errors import UnavailableError
from settings.twin import IncumbentSettings
from switches.base import Reading, SwitchAdapter, alike
from switches.by_role import ByRoleAdapter
from switches.dryrun import DryRunAdapter
from switches.errors import SwitchError, UnknownSwitchError
from switches.hashing.base import HashAdapter
from switches.hashing.values import HashReading
from telemetry.state import QueueRef
from twin.watermark import Watermark

PATIENCE_S = 3.0
MOST_SWITCHES = 16_384

_log = logging.getLogger("ecntwin.switches")

T = TypeVar("T")

StillWanted = Callable[[], bool]
"""Whether a step is still wanted when its turn comes; asked just before it runs."""


class OvertakenError(Exception):
    """A step that waited for its switch is no longer wanted; nothing was done."""


class Fleet:
    """Adapters by switch name, made when a switch is first seen.

    A switch runs what was last read; until then, what the settings say. ``patience_s`` is how long a request
    waits for switches (see ``refresh``); ``at_once`` steps run at a time. ``binary`` names the switches whose
    INT units are unknown. Use from one event loop only; ``incumbent`` and ``running`` from any thread.
    """

    def __init__(
        self,
        incumbent: IncumbentSettings,
        adapters: Adapters,
        *,
        on_reading: OnReading = lambda switch, before, after: None,
        patience_s: float = PATIENCE_S,
        at_once: int = 16,
        binary: BinaryReports | None = None,
    ) -> None:
        self.set_watermarks = SetWatermarks()
        self._incumbent = incumbent
        self._made_by = adapters
        self._hashes: dict[str, HashAdapter] = {}
        self._hash_reads: dict[str, asyncio.Task[HashReading]] = {}
        self._patience_s = patience_s
        self._binary = binary
        self._adapters: dict[str, SwitchAdapter] = {}
        self._gone: set[str] = set()
        self._by_role: dict[tuple[str, tuple[tuple[str, tuple[str, ...]], ...], bool], ByRoleAdapter] = {}
        self._readings = SwitchReadings(on_reading)
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="ecntwin-rollout")
        self.saw([*incumbent.switches, *adapters.names])

    @property
    def names(self) -> tuple[str, ...]:
        """Every known switch, sorted, but those that are gone."""
        return tuple(sorted(self._adapters.keys() - self._gone))

    def knows(self, switch: str) -> bool:
        """Whether it is one of ``names``."""
        return switch in self._adapters and switch not in self._gone

    def saw(self, switches: Iterable[str]) -> None:
        """Makes adapters for new switches, ``MOST_SWITCHES`` in all: devices may invent names."""
        for name in switches:
            self._gone.discard(name)
            if name not in self._adapters and len(self._adapters) < MOST_SWITCHES:
                self._adapters[name] = self._made_by.make(name, self.configured(name))

    def declared(self, switches: Iterable[str]) -> None:
        """As ``saw``; all others are gone, but those of settings and inventory. They keep their adapters, by
        which a rollout under way ends and one that ended can be undone.
        """
        self._gone = set(self._adapters)
        self.saw([*self._incumbent.switches, *self._made_by.names, *switches])

    def configured(self, switch: str) -> Watermark:
        """The watermark a switch runs according to the settings."""
        return self._incumbent.switches.get(switch, self._incumbent.default).watermark()

    def runs(self, switch: str) -> Watermark:
        """What a switch runs as last read (most of its queues, where they differ), else as configured."""
        reading = self._readings.known(switch).reading
        return (reading.usual if reading else None) or self.configured(switch)

    def queues_of(self, switch: str) -> Mapping[tuple[str, int], Watermark | None]:
        """What its egress queues run as last read, by port and number; None: the queue does not mark.

        Empty where queues were not read one by one: then all run what the switch does.
        """
        reading = self._readings.known(switch).reading
        return {} if reading is None else {(one.port, one.queue): one.watermark for one in reading.queues}

    @property
    def read_count(self) -> int:
        """Grows with each reading: what queues run is the same until then."""
        return self._readings.noted

    def queue_runs(self) -> Callable[[QueueRef], Watermark | None]:
        """What each queue runs, by switch looked up once; None: it does not mark. For any thread."""

        @cache
        def of_switch(name: str) -> tuple[Watermark, Mapping[tuple[str, int], Watermark | None]]:
            return self.runs(name), self.queues_of(name)

        def runs(queue: QueueRef) -> Watermark | None:
            usual, own = of_switch(queue.switch)
            return own.get((queue.port, queue.queue), usual)

        return runs

    def last_read(self, switch: str) -> Watermark | None:
        """What it was last read to run; None where it was not read yet."""
        return None if self._readings.known(switch).reading is None else self.runs(switch)

    def away(self, switch: str) -> str | None:
        """Why a switch cannot be set now: unknown here, or its last reading failed; None where it can."""
        if switch not in self._adapters:
            return "it has not been seen since the service started"
        return None if (failure := self.failure(switch)) is None else str(failure)

    def failure(self, switch: str) -> SwitchError | None:
        """Why its last reading failed; None where it did not, or there was none yet."""
        return self._readings.known(switch).failure

    def was_tried(self, switch: str) -> bool:
        """Whether it was read, or could not be."""
        return self._readings.known(switch) != UNREAD

    def drifted(self, switch: str) -> bool:
        """Whether its last reading differs from what was last set from here."""
        reading, wanted = self._readings.known(switch).reading, self.set_to(switch)
        if roles := self.set_watermarks.by_role(switch):
            by_port = {port: target.watermark for target in roles.values() for port in target.ports}
            queues = self.queues_of(switch).items()
            return not all(alike(mark, by_port.get(port, mark)) for (port, _), mark in queues)
        return reading is not None and wanted is not None and not alike(reading.watermark, wanted)

    def of_roles(
        self, switch: str, ports: Mapping[str, tuple[str, ...]], *, undo: bool = False
    ) -> ByRoleAdapter:
        """The adapter of a switch by its ports' roles, made when it is first asked for; ``undo`` as in
        ``Adapters.make_by_role``.

        Raises ``UnknownSwitchError``, ``InventoryError``, and ``CapabilityError`` where its platform gives
        all ports one watermark.
        """
        self._adapter(switch)
        key = switch, tuple(sorted(ports.items())), undo
        if key not in self._by_role:
            self._by_role[key] = self._made_by.make_by_role(switch, self.configured(switch), ports, undo=undo)
        return self._by_role[key]

    def set_to(self, switch: str) -> Watermark | None:
        """What was last set from here; None where nothing was, or it was undone."""
        return self.set_watermarks.get(switch)

    async def read_now(self, switch: str) -> Watermark | None:
        """Reads what it runs, None where its queues differ; raises ``UnknownSwitchError``, and
        ``UnavailableError`` where it does not answer.
        """
        self._adapter(switch)
        unread = await self.refresh([switch], from_now=True)
        known = self._readings.known(switch)
        if known.failure is not None or known.reading is None or unread:
            raise UnavailableError(
                f"switch {switch!r}",
                str(known.failure or f"no answer within {self._patience_s:g} s"),
                "its running configuration must be readable",
                "bring it back and ask again",
            )
        return known.reading.watermark

    def incumbent(self, switches: Iterable[str]) -> Watermark:
        """What most of these switches run; on a tie, the default."""
        default = self._incumbent.default.watermark()
        counted = Counter(self.runs(name) for name in switches)
        return max(counted, key=lambda mark: (counted[mark], mark == default), default=default)

    def by_role(self, ports: Iterable[tuple[str, str, str]]) -> Mapping[str, Watermark]:
        """What ports, given as switch, port and role, run by role.

        Empty where ports of one role differ, a queue does not mark, or a switch does not tell its ports
        apart.
        """
        found: defaultdict[str, set[Watermark | None]] = defaultdict(set)
        of_switch: dict[str, Mapping[str, set[Watermark | None]]] = {}
        for switch, port, role in ports:
            if switch not in of_switch:
                marks: defaultdict[str, set[Watermark | None]] = defaultdict(set)
                for (name, _), mark in self.queues_of(switch).items():
                    marks[name].add(mark)
                of_switch[switch] = marks
            reading = self._readings.known(switch).reading
            alike = self.configured(switch) if reading is None else reading.watermark
            found[role] |= of_switch[switch].get(port) or {alike}
        by_role = {role: next(iter(marks)) for role, marks in found.items() if len(marks) == 1}
        known = {role: mark for role, mark in by_role.items() if mark is not None}
        return known if known.keys() == found.keys() else {}

    def running(self) -> Mapping[str, Watermark]:
        return {name: self.runs(name) for name in self.names}

    async def refresh(
        self, switches: Iterable[str] | None = None, *, from_now: bool = False
    ) -> Sequence[str]:
        """As of ``SwitchReadings``, of these switches (None: all); those not read in time keep their last
        reading.
        """
        names = self.names if switches is None else sorted(set(switches))
        adapters = [self._reader(name) for name in names if name in self._adapters]
        return await self._readings.refresh(adapters, patience_s=self._patience_s, from_now=from_now)

    async def refresh_devices(self) -> None:
        """Reads those that are devices: what is only configured never changes by itself."""
        await self.refresh([name for name in self.names if self.kind(name) != "dry-run"])

    async def step(
        self, switch: str, step: Callable[[SwitchAdapter], T], *, still: StillWanted = lambda: True
    ) -> T:
        """Runs a blocking step with exclusive use of the switch's adapter.

        Raises what the step raises, ``UnknownSwitchError``, and ``OvertakenError`` where it is not ``still``
        wanted once the switch is free.
        """
        adapter = self._adapter(switch)
        async with self._readings.lock(switch):
            if not still():
                raise OvertakenError
            return await asyncio.get_running_loop().run_in_executor(self._threads, step, adapter)

    def platform(self, switch: str) -> str:
        """By the inventory, else by the settings."""
        return self._made_by.platform(switch)

    async def hash_step(
        self, switch: str, step: Callable[[HashAdapter], T], *, still: StillWanted = lambda: True
    ) -> T:
        """As ``step``, with the adapter of what the switch hashes by."""
        return await self.step(switch, lambda _: step(self._hashing(switch)), still=still)

    async def read_hash(self, switch: str) -> HashReading:
        """What it hashes by. Whoever asks while a reading is under way gets that one: a step on the switch
        waits for one of them, however many ask. Raises what the adapter raises, and ``UnknownSwitchError``.
        """
        self._adapter(switch)
        reading = self._hash_reads.get(switch)
        if reading is None or reading.done():
            read = self._readings.exclusively(switch, lambda: self._hashing(switch).read())
            reading = self._hash_reads[switch] = asyncio.create_task(read, name=f"read-hash-{switch}")
            reading.add_done_callback(retrieve)
        return await asyncio.shield(reading)

    def note(self, reading: Reading) -> None:
        """Stores a reading made by a step."""
        self._readings.note(reading)

    def writes(self, switch: str) -> bool:
        """Whether a change of this switch writes a device."""
        return self._adapter(switch).capabilities().writes

    def kind(self, switch: str) -> str:
        """The adapter of a switch in metrics; ``none`` for one that is not known."""
        return self._adapters[switch].capabilities().kind if switch in self._adapters else "none"

    async def documents(self, names: Sequence[str], *, read: bool = True) -> list[SwitchDocument]:
        """Without ``read`` they tell what was last read."""
        if read:
            await self.refresh(names)
        return [self._document(name) for name in names]

    async def document(self, name: str) -> SwitchDocument:
        self._adapter(name)
        await self.refresh([name])
        return self._document(name)

    def end_steps(self) -> None:
        """Waits for running steps and starts no more; blocking."""
        self._threads.shutdown(wait=True, cancel_futures=True)

    def close(self) -> None:
        self._readings.close()
        self._threads.shutdown(wait=False, cancel_futures=True)
        for adapter in (*self._adapters.values(), *self._by_role.values()):
            adapter.close()
        for hashing in self._hashes.values():
            hashing.close()

    def _document(self, name: str) -> SwitchDocument:
        adapter, known = self._adapters[name], self._readings.known(name)
        return SwitchDocument.of(
            name,
            adapter.capabilities(),
            known.reading,
            known.failure,
            set_to=self.set_to(name),
            set_by_role=self.set_watermarks.by_role(name),
            drifted=self.drifted(name),
            untuned=self._binary is not None and name in self._binary.untuned,
            records=adapter.records if isinstance(adapter, DryRunAdapter) else (),
        )

    def _hashing(self, name: str) -> HashAdapter:
        """Made when it is first asked for; only by whoever holds the switch's lock."""
        if name not in self._hashes:
            self._hashes[name] = self._made_by.make_hash(name, self.configured(name))
        return self._hashes[name]

    def _reader(self, name: str) -> SwitchAdapter:
        """The adapter that reads it: by port where it is set by role."""
        roles = self.set_watermarks.roles(name)
        if roles:
            try:
                return self.of_roles(name, {role: target.ports for role, target in roles.items()})
            except SwitchError as error:  # the inventory may be another by now
                _log.warning("%s cannot be read by port role: %s", name, error)
        return self._adapters[name]

    def _adapter(self, name: str) -> SwitchAdapter:
        try:
            return self._adapters[name]
        except KeyError:
            known = ", ".join(self.names[:8]) or "none yet"
            raise UnknownSwitchError(
                f"switch {name!r}",
                None,
                f"not found; known switches are {known}",
                "declare it in the topology",
            ) from None
