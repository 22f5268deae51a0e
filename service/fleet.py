"""The switches the service may set: an adapter each, what they run, and steps on them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from service.documents.switches import SwitchDocument
from service.ingest.p4_reports import BinaryReports
from service.readings import OnReading, SwitchReadings
from service.set_watermarks import SetWatermarks
from settings.errors import UnavailableError
from settings.model import IncumbentSettings, PushSettings
from switches.base import Reading, SwitchAdapter
from switches.device import Device
from switches.dryrun import DryRunAdapter
from switches.errors import SwitchError, UnknownSwitchError
from switches.registry import LAB, AdapterRegistry
from twin.watermark import Watermark

LAB_TIMEOUT_S = 2.0  # a lab answers between two slices of its time


class Adapters:
    """Makes adapters, as the inventory (``devices`` by name) describes a switch, else as the settings do.

    Where pushing is off a device's adapter reads and stages, but only records what it would set; a lab's
    sets. ``clock_ns`` is wall-clock nanoseconds since 1970.
    """

    def __init__(
        self,
        push: PushSettings,
        registry: AdapterRegistry,
        *,
        devices: Mapping[str, Device] | None = None,
        clock_ns: Callable[[], int],
    ) -> None:
        self._push = push
        self._registry = registry
        self._devices = dict(devices or {})
        self._clock_ns = clock_ns
        registry.factory(push.adapter)  # raises for an unknown kind

    @property
    def names(self) -> tuple[str, ...]:
        """The switches of the inventory."""
        return tuple(self._devices)

    def make(self, switch: str, running: Watermark) -> SwitchAdapter:
        """The adapter of a switch that runs ``running`` by the settings.

        Raises ``InventoryError`` where its description cannot be used.
        """
        device = self._devices.get(switch)
        if device is None:
            return self._registry.make(self._other(switch, running), clock_ns=self._clock_ns)
        adapter = self._registry.make(device, clock_ns=self._clock_ns)
        if self._push.enabled or device.platform == LAB or not adapter.capabilities().writes:
            return adapter
        return DryRunAdapter(device, clock_ns=self._clock_ns, over=adapter)

    def _other(self, switch: str, running: Watermark) -> Device:
        kind = self._push.adapter
        address = (self._push.lab_url or "") if kind == LAB else ""
        return Device(name=switch, platform=kind, address=address, timeout_s=LAB_TIMEOUT_S, running=running)


PATIENCE_S = 3.0
MOST_SWITCHES = 16_384

T = TypeVar("T")


class OvertakenError(Exception):
    """A step that waited for its switch is no longer wanted; nothing was done."""


class Fleet:
    """Adapters by switch name, made when a switch is first seen.

    A switch runs what was last read; until then, what the settings say. A request waits for switches for at
    most ``patience_s``; ``at_once`` steps run at a time. ``binary`` names the switches whose INT units are
    unknown. Use from one event loop only; ``incumbent`` and ``running`` from any thread.
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
        self._make = adapters.make
        self._patience_s = patience_s
        self._binary = binary
        self._adapters: dict[str, SwitchAdapter] = {}
        self._readings = SwitchReadings(on_reading)
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="ecntwin-rollout")
        self.saw([*incumbent.switches, *adapters.names])

    @property
    def names(self) -> tuple[str, ...]:
        """Every known switch, sorted."""
        return tuple(sorted(self._adapters))

    def saw(self, switches: Iterable[str]) -> None:
        """Makes adapters for new switches, ``MOST_SWITCHES`` in all: devices may invent names."""
        for name in switches:
            if name not in self._adapters and len(self._adapters) < MOST_SWITCHES:
                self._adapters[name] = self._make(name, self.configured(name))

    def configured(self, switch: str) -> Watermark:
        """What a switch runs by the settings."""
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

    def failure(self, switch: str) -> SwitchError | None:
        """Why its last reading failed; None where it did not, or there was none yet."""
        return self._readings.known(switch).failure

    def drifted(self, switch: str) -> bool:
        """Whether its last reading differs from what was last set from here."""
        reading, wanted = self._readings.known(switch).reading, self.set_to(switch)
        return reading is not None and wanted is not None and reading.watermark != wanted

    def set_to(self, switch: str) -> Watermark | None:
        """What was last set from here; None where nothing was, or it was undone."""
        return self.set_watermarks.get(switch)

    async def read_now(self, switch: str) -> Watermark | None:
        """Reads what it runs, None where its queues differ; raises ``UnknownSwitchError``, and
        ``UnavailableError`` where it does not answer.
        """
        self._adapter(switch)
        ended = await self.refresh([switch], from_now=True)
        known = self._readings.known(switch)
        if known.failure is not None or known.reading is None or not ended:
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

    def running(self) -> Mapping[str, Watermark]:
        return {name: self.runs(name) for name in self.names}

    async def refresh(self, switches: Iterable[str] | None = None, *, from_now: bool = False) -> bool:
        """Reads these switches (None: all); returns whether all ended within ``patience_s``.

        One that does not answer keeps its last reading. A reading already running is enough, unless
        ``from_now``.
        """
        names = self.names if switches is None else sorted(set(switches))
        adapters = [self._adapters[name] for name in names if name in self._adapters]
        return await self._readings.refresh(adapters, patience_s=self._patience_s, from_now=from_now)

    async def refresh_devices(self) -> None:
        """Reads those that are devices: what is only configured never changes by itself."""
        await self.refresh([name for name in self.names if self.kind(name) != "dry-run"])

    async def step(
        self, switch: str, step: Callable[[SwitchAdapter], T], *, still: Callable[[], bool] = lambda: True
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

    def note(self, reading: Reading) -> None:
        """Stores a reading made by a step."""
        self._readings.note(reading)

    def writes(self, switch: str) -> bool:
        """Whether a change of this switch writes a device."""
        return self._adapter(switch).capabilities().writes

    def kind(self, switch: str) -> str:
        return self._adapter(switch).capabilities().kind

    async def documents(self) -> list[SwitchDocument]:
        await self.refresh()
        return [self._document(name) for name in self.names]

    async def document(self, name: str) -> SwitchDocument:
        self._adapter(name)
        await self.refresh([name])
        return self._document(name)

    def end_steps(self) -> None:
        """Waits for running steps and starts no more; blocking."""
        self._threads.shutdown(wait=True, cancel_futures=True)

    def close(self) -> None:
        """Closes threads and connections."""
        self._readings.close()
        self._threads.shutdown(wait=False, cancel_futures=True)
        for adapter in self._adapters.values():
            adapter.close()

    def _document(self, name: str) -> SwitchDocument:
        adapter, known = self._adapters[name], self._readings.known(name)
        return SwitchDocument.of(
            name,
            adapter.capabilities(),
            known.reading,
            known.failure,
            set_to=self.set_to(name),
            drifted=self.drifted(name),
            untuned=self._binary is not None and name in self._binary.untuned,
            records=adapter.records if isinstance(adapter, DryRunAdapter) else (),
        )

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
