"""The switches the service may set: an adapter each, what they run, pushes; must not know how to search."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from api.readings import Known, Readings
from api.schemas.switches import SwitchDocument
from api.settings import IncumbentSettings
from switches.base import SwitchAdapter
from switches.dryrun import DryRunAdapter
from switches.errors import SwitchError, UnknownSwitchError
from switches.push import Pushed, push
from switches.registry import AdapterFactory
from twin.watermark import Watermark

PATIENCE_S = 3.0


class Fleet:
    """Adapters by switch name, made when a switch is first seen.

    What a switch was last read to run is what it runs; what the settings say stands in for it until then.
    ``told(switch, before, after)`` hears of every reading. A request waits ``patience_s`` for switches at
    most. Use from one event loop only; ``incumbent`` and ``running`` from any thread.
    """

    def __init__(
        self,
        incumbent: IncumbentSettings,
        factory: AdapterFactory,
        *,
        clock_ns: Callable[[], int],
        told: Callable[[str, Known, Known], None] = lambda switch, before, after: None,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._incumbent = incumbent
        self._factory = factory
        self._clock_ns = clock_ns
        self._patience_s = patience_s
        self._adapters: dict[str, SwitchAdapter] = {}
        self._set_to: dict[str, Watermark] = {}
        self._readings = Readings(told)
        self.saw(incumbent.switches)

    @property
    def names(self) -> tuple[str, ...]:
        """Every known switch, sorted."""
        return tuple(sorted(self._adapters))

    def saw(self, switches: Iterable[str]) -> None:
        """Makes adapters for switches not seen before."""
        for name in switches:
            if name not in self._adapters:
                self._adapters[name] = self._factory(name, self.configured(name), clock_ns=self._clock_ns)

    def configured(self, switch: str) -> Watermark:
        """What the settings say that switch runs."""
        return self._incumbent.switches.get(switch, self._incumbent.default).watermark()

    def runs(self, switch: str) -> Watermark:
        """What that switch runs: as last read (most of its queues, where they differ), else as configured."""
        reading = self._readings.known(switch).reading
        return (reading.usual if reading else None) or self.configured(switch)

    def drifted(self, switch: str) -> bool:
        """Whether it was last read to run something else than was last set on it here."""
        reading, wanted = self._readings.known(switch).reading, self._set_to.get(switch)
        return reading is not None and wanted is not None and reading.watermark != wanted

    def incumbent(self, switches: Iterable[str]) -> Watermark:
        """What most of these switches run (the default's, where two are as common): the one to beat."""
        default = self._incumbent.default.watermark()
        counted = Counter(self.runs(name) for name in switches)
        return max(counted, key=lambda mark: (counted[mark], mark == default), default=default)

    def running(self) -> Mapping[str, Watermark]:
        """What every known switch runs, for metrics."""
        return {name: self.runs(name) for name in self.names}

    async def refresh(self, switches: Iterable[str] | None = None) -> None:
        """Reads these switches (None: all) anew; one that does not answer keeps its last reading."""
        names = self.names if switches is None else sorted(set(switches))
        adapters = [self._adapters[name] for name in names if name in self._adapters]
        await self._readings.refresh(adapters, patience_s=self._patience_s)

    async def refresh_devices(self) -> None:
        """Reads those anew that are devices: what a dry run stands for never changes by itself."""
        await self.refresh([name for name in self.names if self._writes(name)])

    async def push(self, switches: Iterable[str], watermark: Watermark) -> tuple[Pushed, ...]:
        """Takes a watermark to these switches, or undoes it on all; raises ``SwitchError``."""
        adapters = [self._adapter(name) for name in sorted(switches)]
        names = [adapter.switch for adapter in adapters]
        try:
            async with self._readings.undisturbed(names):
                pushed = await self._readings.call(push, adapters, watermark)
                for item in pushed:
                    if self._writes(item.change.switch):
                        self._set_to[item.change.switch] = item.change.after
                        self._readings.note(item.read_back)
        except SwitchError:
            await self.refresh(names)  # whatever was undone or could not be, say what runs now
            raise
        return pushed

    def writes(self, switches: Iterable[str]) -> bool:
        """Whether a push to these switches touches any device."""
        return any(self._writes(name) for name in switches)

    async def documents(self) -> list[SwitchDocument]:
        """Every switch, read now."""
        await self.refresh()
        return [self._document(name) for name in self.names]

    async def document(self, name: str) -> SwitchDocument:
        """One switch, read now; raises ``UnknownSwitchError``."""
        self._adapter(name)
        await self.refresh([name])
        return self._document(name)

    def close(self) -> None:
        """Lets go of the threads."""
        self._readings.close()

    def _document(self, name: str) -> SwitchDocument:
        adapter = self._adapters[name]
        return SwitchDocument.of(
            name,
            adapter.capabilities(),
            self._readings.known(name).reading,
            self._readings.known(name).failure,
            set_to=self._set_to.get(name),
            drifted=self.drifted(name),
            records=adapter.records if isinstance(adapter, DryRunAdapter) else (),
        )

    def _writes(self, name: str) -> bool:
        return self._adapter(name).capabilities().writes

    def _adapter(self, name: str) -> SwitchAdapter:
        try:
            return self._adapters[name]
        except KeyError:
            known = ", ".join(self.names[:8]) or "none yet"
            raise UnknownSwitchError(
                f"switch {name!r}", "its name", f"known switches are {known}", "declare it in the topology"
            ) from None
