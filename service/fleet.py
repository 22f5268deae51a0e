"""Makes the adapter of any switch: as the inventory describes it, else as the settings say of all others.

Where pushing is off a device's adapter reads and stages, and only records what it would set; a lab's sets.

The switches the service may set: an adapter each, what they run, steps; must not know how to search.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from service.documents.switches import SwitchDocument
from service.readings import Known, Readings
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
    """``devices`` is the inventory by name; ``clock_ns`` wall-clock nanoseconds since 1970."""

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
        registry.factory(push.adapter)  # an unknown kind is said before anything is made

    @property
    def names(self) -> tuple[str, ...]:
        """The switches of the inventory."""
        return tuple(self._devices)

    def make(self, switch: str, running: Watermark) -> SwitchAdapter:
        """The adapter of that switch; ``running`` is what the settings say it runs.

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

T = TypeVar("T")


class OvertakenError(Exception):
    """A step that waited for its switch is wanted no more; nothing was done."""


MOST_SWITCHES = 16_384


class Fleet:
    """Adapters by switch name, made by ``make(switch, as configured)`` when a switch is first seen.

    What a switch was last read to run is what it runs; what the settings say stands in for it until then.
    ``told(switch, before, after)`` hears of every reading. A request waits ``patience_s`` for switches at
    most; ``at_once`` steps run at a time. ``untuned`` names the switches that report INT in units nobody
    told. Use from one event loop only; ``incumbent`` and ``running`` from any thread.
    """

    def __init__(
        self,
        incumbent: IncumbentSettings,
        make: Callable[[str, Watermark], SwitchAdapter],
        *,
        names: Iterable[str] = (),
        told: Callable[[str, Known, Known], None] = lambda switch, before, after: None,
        patience_s: float = PATIENCE_S,
        at_once: int = 16,
        untuned: Callable[[], Collection[str]] = tuple,
    ) -> None:
        self._incumbent = incumbent
        self._make = make
        self._patience_s = patience_s
        self._untuned = untuned
        self._adapters: dict[str, SwitchAdapter] = {}
        self._set_to: dict[str, Watermark] = {}
        self._readings = Readings(told)
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="ecntwin-rollout")
        self.saw([*incumbent.switches, *names])

    @property
    def names(self) -> tuple[str, ...]:
        """Every known switch, sorted."""
        return tuple(sorted(self._adapters))

    def saw(self, switches: Iterable[str]) -> None:
        """Makes adapters for switches not seen before, ``MOST_SWITCHES`` in all: devices may invent names."""
        for name in switches:
            if name not in self._adapters and len(self._adapters) < MOST_SWITCHES:
                self._adapters[name] = self._make(name, self.configured(name))

    def configured(self, switch: str) -> Watermark:
        """What the settings say that switch runs."""
        return self._incumbent.switches.get(switch, self._incumbent.default).watermark()

    def runs(self, switch: str) -> Watermark:
        """What that switch runs: as last read (most of its queues, where they differ), else as configured."""
        reading = self._readings.known(switch).reading
        return (reading.usual if reading else None) or self.configured(switch)

    def queues_of(self, switch: str) -> Mapping[tuple[str, int], Watermark | None]:
        """What its egress queues run, by port and number, as last read; None for one that does not mark.

        Empty where they were not read one by one: then all of them run what the switch does.
        """
        reading = self._readings.known(switch).reading
        return {} if reading is None else {(one.port, one.queue): one.watermark for one in reading.queues}

    def failure(self, switch: str) -> SwitchError | None:
        """Why it could not be read when it was last tried; None where it could, or was never tried."""
        return self._readings.known(switch).failure

    def drifted(self, switch: str) -> bool:
        """Whether it was last read to run something else than was last set on it here."""
        reading, wanted = self._readings.known(switch).reading, self._set_to.get(switch)
        return reading is not None and wanted is not None and reading.watermark != wanted

    def set_to(self, switch: str) -> Watermark | None:
        """What was last set on it here; None where nothing was, or it was undone."""
        return self._set_to.get(switch)

    def was_set(self, switch: str, watermark: Watermark | None) -> None:
        """From now on that is what it should run; None: whatever it runs is as it should be."""
        if watermark is None:
            self._set_to.pop(switch, None)
        else:
            self._set_to[switch] = watermark

    @property
    def all_set_to(self) -> Mapping[str, Watermark]:
        """What was last set here, on every switch of which that is known."""
        return dict(self._set_to)

    def all_were_set(self, watermarks: Mapping[str, Watermark]) -> None:
        """From now on these are what switches should run, and of no other is anything known to be wanted."""
        self._set_to = dict(watermarks)

    async def read_now(self, switch: str) -> Watermark | None:
        """What it runs now, None where its queues differ; raises ``UnknownSwitchError``, and
        ``UnavailableError`` where it does not answer.
        """
        self._adapter(switch)
        ended = await self.refresh([switch], from_now=True)
        known = self._readings.known(switch)
        if known.failure is not None or known.reading is None or not ended:
            raise UnavailableError(
                f"switch {switch!r}",
                str(known.failure or f"no answer within {self._patience_s:g} s"),
                "it answers, so that what it runs is known",
                "bring it back and ask again",
            )
        return known.reading.watermark

    def incumbent(self, switches: Iterable[str]) -> Watermark:
        """What most of these switches run (the default's, where two are as common): the one to beat."""
        default = self._incumbent.default.watermark()
        counted = Counter(self.runs(name) for name in switches)
        return max(counted, key=lambda mark: (counted[mark], mark == default), default=default)

    def running(self) -> Mapping[str, Watermark]:
        """What every known switch runs, for metrics."""
        return {name: self.runs(name) for name in self.names}

    async def refresh(self, switches: Iterable[str] | None = None, *, from_now: bool = False) -> bool:
        """Reads these switches (None: all) anew, and whether that came to its end within ``patience_s``; one
        that does not answer keeps its last reading. A reading that is under way will do, unless ``from_now``.
        """
        names = self.names if switches is None else sorted(set(switches))
        adapters = [self._adapters[name] for name in names if name in self._adapters]
        return await self._readings.refresh(adapters, patience_s=self._patience_s, from_now=from_now)

    async def refresh_devices(self) -> None:
        """Reads those anew that are devices: what the settings stand for never changes by itself."""
        await self.refresh([name for name in self.names if self.kind(name) != "dry-run"])

    async def step(
        self, switch: str, step: Callable[[SwitchAdapter], T], *, still: Callable[[], bool] = lambda: True
    ) -> T:
        """One blocking step with that switch's adapter, and nobody else's call to it meanwhile.

        Raises what the step raises, ``UnknownSwitchError``, and ``OvertakenError`` where it is not ``still``
        wanted when its turn has come.
        """
        adapter = self._adapter(switch)
        async with self._readings.undisturbed([switch]):
            if not still():
                raise OvertakenError
            return await asyncio.get_running_loop().run_in_executor(self._threads, step, adapter)

    def note(self, reading: Reading) -> None:
        """Takes a reading that a step came by."""
        self._readings.note(reading)

    def writes(self, switch: str) -> bool:
        """Whether a change of that switch touches a device."""
        return self._adapter(switch).capabilities().writes

    def kind(self, switch: str) -> str:
        """The platform of that switch's adapter."""
        return self._adapter(switch).capabilities().kind

    async def documents(self) -> list[SwitchDocument]:
        """Every switch, read now."""
        await self.refresh()
        return [self._document(name) for name in self.names]

    async def document(self, name: str) -> SwitchDocument:
        """One switch, read now; raises ``UnknownSwitchError``."""
        self._adapter(name)
        await self.refresh([name])
        return self._document(name)

    def end_steps(self) -> None:
        """Waits for the steps that have begun, and lets none begin any more; blocking."""
        self._threads.shutdown(wait=True, cancel_futures=True)

    def close(self) -> None:
        """Lets go of the threads and connections."""
        self._readings.close()
        self._threads.shutdown(wait=False, cancel_futures=True)
        for adapter in self._adapters.values():
            adapter.close()

    def _document(self, name: str) -> SwitchDocument:
        adapter = self._adapters[name]
        return SwitchDocument.of(
            name,
            adapter.capabilities(),
            self._readings.known(name).reading,
            self._readings.known(name).failure,
            set_to=self._set_to.get(name),
            drifted=self.drifted(name),
            untuned=name in self._untuned(),
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
